from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from tests.types.strategies import sizes

from neumo.types import Size, Symbol, gap, same_size
from neumo.types.gap import counterexample, slopes

T, U = (Symbol(name, rigid=True).size for name in "TU")


def test_slopes_ignore_rounding():
    t, u = T.symbol, U.symbol
    assert slopes((3 * T).ceildiv(2) + U // 4 + 7) == {t: Fraction(3, 2), u: Fraction(1, 4)}
    assert slopes(T - T // 2 - T.ceildiv(2)) == {}
    assert slopes(Size.of(3)) == {}


def test_forms_that_look_different_but_are_the_same_function():
    assert same_size(T // 2 + T.ceildiv(2), T)
    assert same_size(T // 3 + (T + 1) // 3 + (T + 2) // 3, T)
    assert same_size(T - (T - U.ceildiv(2)), U - U // 2)
    assert not same_size(T.ceildiv(2) * 2, T)
    assert not same_size(T, U)
    assert not same_size(T, T + 1)


def test_undecided_counts_as_different():
    a = T // 997 + (T + 500) // 997 + U // 991
    b = (2 * T) // 997 + U // 991
    assert not same_size(a + U // 983, b + U // 983 + (U // 977) - (U // 977) + 1)
    huge = T // 30011 + (-T) // 30011
    assert counterexample(huge, Size.of(0)) is not None


def test_counterexamples():
    assert counterexample(T, T) is None
    assert counterexample(T, T + 1) == {}
    values = counterexample(T // 2 * 2, T)
    assert values is not None
    assert (T // 2 * 2).evaluate(values) != T.evaluate(values)


@given(sizes, sizes, st.integers(0, 50))
def test_same_size_is_never_wrong(a, b, n):
    values = {s: n + len(s.name) for s in (a - b).symbols() | a.symbols() | b.symbols()}
    if same_size(a, b):
        assert a.evaluate(values) == b.evaluate(values)


@given(sizes)
def test_a_size_is_the_same_as_itself_written_otherwise(size):
    assert (
        same_size(size // 2 + size.ceildiv(2), size) or len(size.symbols()) > 1 or (size // 2).period() > 4096
    )


@given(sizes, sizes)
def test_every_gap_has_a_sentence(a, b):
    if not same_size(a, b):
        found = gap(a, b)
        assert found.sentence
        assert (found.wanted, found.given) == (a, b)


def test_rounding_is_shown_with_numbers_where_such_are_known():
    found = gap(U // 5 + T.ceildiv(5), U // 5 + T // 5)
    assert found.sentence == "It is rounded otherwise: for T = 1, U = 1 it is 0, not 1"
    undecided = gap(T, T + T // 30011 + (-T + 30010) // 30011)
    assert undecided.sentence == "It may be rounded otherwise"


def test_gaps_carry_factor_offset_and_example():
    assert gap(T, T // 4).factor == Fraction(1, 4)
    assert gap(T, T + 3).offset == 3
    assert gap(T, T // 2 * 2).example == ((Symbol("T", rigid=True), 1),)
    assert gap(Size.of(0), Size.of(3)).factor is None
    assert gap(T, -T).sentence == "It is -1 times as long as wanted"
    same_owner = gap(Symbol("T", 1, True, "D").size, Symbol("U", 2, True, "D").size)
    assert (same_owner.kind, same_owner.sentence) == ("other", "U and T need not be equal")
    flat = gap(T - T, T)
    assert flat.kind == "varies"
    assert gap(T // 2 - (T + 1) // 2, T // 3 - (T + 1) // 3).kind == "rounding"
    assert gap(T // 2 - (T + 1) // 2, T).kind == "other"
