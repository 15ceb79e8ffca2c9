"""Right graphs of three collections are accepted: no error, and no finding of severity error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from neumo import Graph

from . import right_across, right_language, right_speech, right_synthesis  # noqa: F401
from .matches import RIGHT

# What is refused so far and should not be: the name of the graph, and why.
KNOWN: dict[str, str] = {}

# Those that differ in something that is let pass, with a warning.
WARNED = {"floor_relaxed", "another_window_for_fresh_weights", "clock_relaxed"}


def cases() -> list[Any]:
    """List all right graphs."""
    marks = {name: [pytest.mark.xfail(strict=True, reason=reason)] for name, reason in KNOWN.items()}
    return [pytest.param(build, id=name, marks=marks.get(name, ())) for name, build in RIGHT.items()]


@pytest.mark.parametrize("build", cases())
def test_right_graph_is_accepted(build: Callable[[], Graph]) -> None:
    graph = build()
    assert [
        finding for finding in graph.findings() if finding.severity == "error" and not finding.silenced
    ] == []
    assert bool(graph.warnings()) == (build.__name__ in WARNED)


def test_there_are_many_right_graphs() -> None:
    assert len(RIGHT) >= 50
    assert set(KNOWN) | WARNED <= set(RIGHT)
