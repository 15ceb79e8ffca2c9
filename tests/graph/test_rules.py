"""Graphs whose connections all fit, and which are wrong as a whole; and right ones that look alike."""

from __future__ import annotations

import pytest

from neumo.graph.rules import find

from . import rule_graphs_more as rule_graphs_more
from .rule_graphs import RIGHT, WRONG


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_graph_is_found(name: str) -> None:
    rule, about, build = WRONG[name]
    (finding,) = find(build())
    assert (finding.rule, finding.about) == (rule, about)
    assert finding.error().render().startswith(f"GraphError[{rule}]: ")


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_graph_has_no_findings(name: str) -> None:
    assert find(RIGHT[name]()) == []


def test_there_are_enough_of_both() -> None:
    assert len(WRONG) >= 25
    assert len(RIGHT) >= 25
