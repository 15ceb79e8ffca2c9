"""Collects right graphs."""

from __future__ import annotations

from collections.abc import Callable

from neumo import Graph

RIGHT: dict[str, Callable[[], Graph]] = {}


def right(build: Callable[[], Graph]) -> Callable[[], Graph]:
    """Mark a function as a right graph."""
    if build.__name__ in RIGHT:
        raise ValueError(f"two right graphs are called {build.__name__}")
    RIGHT[build.__name__] = build
    return build
