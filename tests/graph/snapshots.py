"""Compares whole messages with the texts in tests/messages; NEUMO_SNAPSHOT=write rewrites them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from neumo.types import NeumoError

MESSAGES = Path(__file__).parent.parent / "messages"
ROOT = Path(__file__).parent.parent.parent


def refused(name: str, build: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> NeumoError:
    """Run `build`, which must be refused, and compare the message with tests/messages/NAME.txt."""
    monkeypatch.chdir(ROOT)
    with pytest.raises(NeumoError) as caught:
        build()
    expect(name, caught.value.render())
    return caught.value


def expect(name: str, text: str) -> None:
    """Compare a text with tests/messages/NAME.txt, or write it there."""
    file = MESSAGES / f"{name}.txt"
    if os.environ.get("NEUMO_SNAPSHOT") == "write":
        file.write_text(text + "\n", encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text + "\n"
    assert max(len(line) for line in text.splitlines()) <= 100
