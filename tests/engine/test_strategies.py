"""Strategies: read from recipes, and refused where they cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest

from neumo.engine.processes.strategies import DDP, FSDP, Strategy
from neumo.engine.recipes import read_actions
from neumo.graph.yaml import Recipe
from neumo.types import ConfigError

from .toys import refused


def read(strategy: Any) -> Strategy | None:
    return read_actions(Recipe(graphs={}, actions={"factory": {"strategy": strategy}})).strategy


def test_recipes_name_a_strategy_by_its_kind() -> None:
    asked = {"kind": "FSDP", "shard": ["encoder.blocks.*"], "checkpoint": "sharded", "sync_norm": 2}
    assert read(asked) == FSDP(shard=("encoder.blocks.*",), checkpoint="sharded", sync_norm=2)
    assert read("DDP") == DDP()
    assert read({"kind": "DDP", "sync_norm": True}) == DDP(sync_norm=True)


def test_recipes_with_unknown_kinds_and_settings_are_refused() -> None:
    with refused(ConfigError, "no kind 'FDSP'.*did you mean 'FSDP'"):
        read("FDSP")
    with refused(ConfigError, "no field 'shards'"):
        read({"kind": "FSDP", "shards": ["encoder"]})


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: DDP(sync_norm=-1), "sync_norm=-1 is below 0"),
        (lambda: FSDP(timeout_minutes=0), "timeout_minutes=0 is not above 0"),
        (lambda: FSDP(checkpoint="parts"), "checkpoint='parts' is neither 'whole' nor 'sharded'"),
        (lambda: FSDP(shard="encoder.*"), r"shard='encoder.\*' is one text.*shard=\('encoder.\*',\)"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(made: Any, words: str) -> None:
    with refused(ConfigError, words):
        made()
