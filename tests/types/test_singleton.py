"""An axis of size one is a feature, a row or a column of a picture where one is wanted, and nothing else."""

from __future__ import annotations

import pytest

from neumo.types import (
    ANY,
    ONE,
    Axis,
    B,
    C,
    Environment,
    F,
    Features,
    H,
    Image,
    Kind,
    Mel,
    Outcome,
    Symbol,
    T,
    U,
    V,
    W,
    compare,
)

D, N = Symbol("D"), Symbol("D", 7, True, "inputs")


@pytest.mark.parametrize("wanted", [ONE, C(1), F(1), H(1), W(1)])
@pytest.mark.parametrize("given", [ONE, C(1), F(1)])
def test_one_feature_and_an_axis_of_size_one_are_the_same_tensor(wanted: Axis, given: Axis) -> None:
    same = wanted.kind is given.kind or ONE in (wanted, given)
    found = compare(Features()[B, wanted, T], Features()[B, given, T])
    assert found.ok is same


@pytest.mark.parametrize("wanted", [C("D"), F("D"), H("D"), W("D"), ANY("D")])
def test_an_axis_of_size_one_tells_an_open_size(wanted: Axis) -> None:
    env = Environment()
    found = compare(Image()[B, wanted, H, W], Image()[B, ONE, H, W], env)
    assert found.outcome is Outcome.BOUND
    assert env.size(D.size) == 1
    result = env.type(Image()[B, wanted, H, W])
    kind = Kind.SINGLETON if wanted.kind is Kind.ANY else wanted.kind
    assert result.axes[1].size == 1
    assert result.axes[1].kind is kind


@pytest.mark.parametrize(
    ("wanted", "given"),
    [(C(None), ONE), (ONE, C(None)), (F(None), F(1))],
)
def test_a_size_that_is_not_known_may_be_one(wanted: Axis, given: Axis) -> None:
    found = compare(Features()[B, wanted, T], Features()[B, given, T])
    assert found.ok
    assert [(each.facet, each.value) for each in found.obligations] == (
        [("1", 1)] if given.size is None else []
    )


@pytest.mark.parametrize("many", [T, T("D"), T(1), U, B("D"), B(1), V("D"), V(1)])
def test_one_step_row_or_label_is_not_an_axis_of_size_one(many: Axis) -> None:
    """Where it would be spread over all steps, nobody would see it."""
    for wanted, given in ((many, ONE), (ONE, many)):
        found = compare(Features()[F(4), wanted], Features()[F(4), given])
        assert [reason.code for reason in found.reasons] == ["axes"]


@pytest.mark.parametrize("axis", [F(80), F(Axis(Kind.FEATURE, N.size)), H(2)])
def test_more_than_one_or_who_knows_how_many_are_not_one(axis: Axis) -> None:
    found = compare(Features()[B, ONE, T], Features()[B, axis, T])
    assert [reason.code for reason in found.reasons] == ["axes"]


def test_a_size_that_another_value_told_has_to_be_one() -> None:
    env = Environment()
    assert compare(Features()[B, F("D")], Features()[B, F(3)], env).ok
    found = compare(Image()[B, C("D"), H, W], Image()[B, ONE, H, W], env)
    assert [(reason.code, reason.sentence) for reason in found.reasons] == [("size", "It is 1, not 3")]


def test_where_the_axis_stands_still_counts() -> None:
    wanted, given = Mel()[B, C(1), F(80), T], Mel()[B, F(80), ONE, T]
    found = compare(wanted, given)
    assert [reason.sentence for reason in found.reasons] == ["axes B F 1 T, not B F F T"]
    assert compare(wanted, Mel()[B, ONE, F(80), T]).outcome is Outcome.SAME
    assert not compare(Mel()[B, ONE, T], Mel()[B, T, ONE]).ok
    assert compare(Mel()[B, ONE, T], Mel()[B, T, ONE]).reasons[0].sentence == "the same axes in another order"


def test_axes_are_called_by_their_names() -> None:
    found = compare(Image()[B, C("C"), H, W], Features()[B, U, F("D")])
    assert found.reasons[1].sentence == "3 axes, not 4"
    found = compare(Features()[B, C, T], Features()[B, U, W])
    assert found.reasons[0].sentence == "axes B U W, not B C T"
    misnamed = Axis(Kind.FEATURE, Symbol("T"))
    assert compare(Features()[B, misnamed], Features()[B, V]).reasons[0].sentence == "axes B V, not B F"
