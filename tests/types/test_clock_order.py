"""What is refused for its clock is refused in whatever order the ports of a call are compared."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import pytest

from neumo.types import Acoustic, Audio, B, Environment, Features, Mel, NeuralType, Outcome, T, compare
from neumo.types.axis import Axis, Kind
from neumo.types.size import Symbol

N = Axis(Kind.TIME, Symbol("T", 1, True, "SpeechData").size)
Edge = tuple[NeuralType, NeuralType]

OPEN, STATED = Acoustic()[B, T], Acoustic()[B, T.at(50)]
GIVEN = {rate: Acoustic()[B, N.at(rate)] for rate in (50, 100)}
UNKNOWN = Acoustic()[B, N]
TWICE = Acoustic()[B, 2 * T], Acoustic()[B, (2 * N).at(100)]
FRAMES = Mel(rate=16000, hop=160)


def codes(edges: tuple[Edge, ...]) -> list[str]:
    """Compare in this order in one environment; the codes of all reasons."""
    env = Environment()
    return [
        reason.code
        for n, (want, have) in enumerate(edges)
        for reason in compare(want, have, env, origin=n).reasons
    ]


@pytest.mark.parametrize(
    ("edges", "wrong"),
    [
        (((OPEN, GIVEN[100]), (STATED, GIVEN[50])), True),
        (((OPEN, GIVEN[50]), (STATED, GIVEN[50])), False),
        (((OPEN, GIVEN[100]), (OPEN, GIVEN[50])), True),
        (((OPEN, GIVEN[100]), (STATED, UNKNOWN)), True),
        (((OPEN, GIVEN[50]), (STATED, UNKNOWN)), False),
        (((OPEN, UNKNOWN), (STATED, UNKNOWN)), False),
        (((OPEN, GIVEN[50]), (FRAMES[B, T], FRAMES[B, N])), True),
        (((OPEN, GIVEN[100]), (FRAMES[B, T], FRAMES[B, N])), False),
        (((OPEN, GIVEN[50]), (FRAMES[B, T], Mel()[B, N])), True),
        (((OPEN, GIVEN[100]), TWICE), True),
        (((OPEN, GIVEN[50]), TWICE, (OPEN, UNKNOWN)), False),
    ],
)
def test_the_order_of_ports_decides_nothing(edges: tuple[Edge, ...], wrong: bool) -> None:
    for order in permutations(edges):
        assert codes(order) == ["clock"] * wrong


def test_the_value_that_told_the_clock_is_named() -> None:
    env = Environment()
    compare(OPEN, GIVEN[100], env, origin="frames")
    (reason,) = compare(STATED, GIVEN[50], env, origin="states").reasons
    assert reason.sentence == "It has 50 frames a second, not 100"
    assert reason.origin == "frames"
    (reason,) = compare(STATED, UNKNOWN, env, origin="states").reasons
    assert reason.sentence == "It has 100 frames a second, not 50"
    assert reason.origin == "frames"
    (reason,) = compare(STATED, GIVEN[100], Environment()).reasons
    assert reason.origin is None


def test_a_relaxed_rate_is_no_clock_of_another_kind() -> None:
    """Both clocks follow from facets that were compared: one difference is told once."""
    found = compare(Audio(rate=16000)[B, T], Audio(rate=22050)[B, N], relax=("rate",))
    assert found.outcome is not Outcome.MISMATCH
    assert [reason.facet for reason in found.warnings] == ["rate"]
    env = Environment()
    compare(Audio(rate=16000)[B, T], Audio(rate=22050)[B, N], env, relax=("rate",))
    assert env.clocks == {T.symbol: Fraction(22050)}
    again = compare(Audio(rate=16000)[B, T], Audio(rate=22050)[B, N], env, relax=("rate",))
    assert again.outcome is not Outcome.MISMATCH


def test_no_size_below_nothing_solves_an_equation() -> None:
    less = NeuralType(Features(), (Axis(Kind.TIME, -N.size - 1),))
    (reason,) = compare(Features()[T + 1], less).reasons
    assert reason.sentence == "No whole T makes T + 1 equal to -T - 1"
    (reason,) = compare(Features()[T], less).reasons
    assert reason.sentence == "No axis has the size -T - 1, which is below 0"
    assert compare(Features()[T + 1], Features()[N]).ok  # what may be there is let pass
