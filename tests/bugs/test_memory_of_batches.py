"""Batches that did not fit into memory were the user's to find out: the budget bounds them."""

from __future__ import annotations

import pytest

from neumo.asr.budget import budget_for, read_memory

from ..asr.tones import RATE, recogniser


@pytest.mark.parametrize("memory", ["5MB", "50MB", "512MB", "2GB"])
def test_what_goes_at_once_grows_with_memory_and_stays_within_it(memory):
    given = read_memory(memory)
    budget = budget_for(recogniser(), given, rate=RATE)
    assert 0 < budget.chunk <= min(60.0, budget.batch)
    assert budget.held * RATE * 4 <= max(given / 4, RATE * 4)
    larger = budget_for(recogniser(), 2 * given, rate=RATE)
    assert (larger.chunk, larger.batch, larger.held) >= (budget.chunk, budget.batch, budget.held)
