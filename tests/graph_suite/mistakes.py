"""Collects wrong graphs with what their messages have to say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    """A graph that a user could have written by mistake, the codes of its errors, and what they must say."""

    build: Callable[[], object]
    codes: tuple[str, ...]
    phrases: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the test and of the snapshot."""
        return self.build.__name__


MISTAKES: dict[str, Mistake] = {}


def wrong(codes: str, *phrases: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Mark a function as a wrong graph; `codes` are parted by a space, one for each error."""

    def note(build: Callable[[], object]) -> Callable[[], object]:
        mistake = Mistake(build, tuple(codes.split()), phrases)
        if mistake.name in MISTAKES:
            raise ValueError(f"two wrong graphs are called {mistake.name}")
        MISTAKES[mistake.name] = mistake
        return build

    return note
