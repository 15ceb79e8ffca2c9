from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from tests.types.strategies import axes

from neumo.types import (
    ANY,
    ONE,
    Axis,
    B,
    C,
    ConfigError,
    F,
    H,
    Kind,
    Size,
    Symbol,
    T,
    U,
    V,
    Vocab,
    W,
    kind_of_name,
    kind_of_size,
)

AB = Vocab("ab", name="two")


@pytest.mark.parametrize(
    ("axis", "kind", "text"),
    [
        (B, Kind.BATCH, "B"),
        (T, Kind.TIME, "T"),
        (U, Kind.TIME, "U"),
        (F, Kind.FEATURE, "F"),
        (C, Kind.FEATURE, "C"),
        (V, Kind.VOCAB, "V"),
        (H, Kind.HEIGHT, "H"),
        (W, Kind.WIDTH, "W"),
        (ONE, Kind.SINGLETON, "1"),
        (ANY, Kind.ANY, "X"),
        (F(64), Kind.FEATURE, "F=64"),
        (F("D"), Kind.FEATURE, "F=D"),
        (T("T2"), Kind.TIME, "T2"),
        (U("U'"), Kind.TIME, "U'"),
        (T("R"), Kind.TIME, "T=R"),
        (T(None), Kind.TIME, "T=?"),
        (F(2 * C.size), Kind.FEATURE, "2*C"),
        (F(T), Kind.FEATURE, "F=T"),
        (V(AB), Kind.VOCAB, f"V={AB}"),
        (T // 160 + 1, Kind.TIME, "T//160 + 1"),
        (1 + T, Kind.TIME, "T + 1"),
        (T - 1, Kind.TIME, "T - 1"),
        (9 - T, Kind.TIME, "-T + 9"),
        (T * 256, Kind.TIME, "256*T"),
        (2 * T, Kind.TIME, "2*T"),
        (T + U, Kind.TIME, "T + U"),
        (T.ceildiv(2), Kind.TIME, "ceil(T/2)"),
        (ONE * 3, Kind.ANY, "X=3"),
    ],
)
def test_an_axis_has_a_kind_and_a_print(axis, kind, text):
    assert axis.kind is kind
    assert str(axis) == repr(axis) == text


def test_arithmetic_drops_the_vocabulary():
    assert (V(AB) + 1).vocab is None
    assert (V(AB) + 1).size == 3


def test_the_symbol_of_an_axis():
    assert T.symbol == Symbol("T")
    assert T(None).symbol is None
    assert F(3).symbol is None


@given(axes())
def test_axes_survive_pickling(axis):
    again = pickle.loads(pickle.dumps(axis))
    assert again == axis
    assert hash(again) == hash(axis)


def test_axes_compare_by_kind_size_and_vocabulary():
    assert Axis(Kind.TIME, 3) != Axis(Kind.FEATURE, 3)
    assert V(AB) != V(2)
    assert T != "T"
    assert T == T


def test_substitution_passes_vocabulary_and_kind_on():
    x, v = Symbol("X"), Symbol("V")
    assert ANY.substitute({x: Size.of(64)}, {x: F(64)}) == F(64)
    assert V.substitute({v: Size.of(2)}, {v: V(AB)}) == V(AB)
    assert F(V).substitute({v: Size.of(2)}, {v: V(AB)}) == F(2)
    assert (V + 1).substitute({v: Size.of(2)}, {v: V(AB)}) == V(3)
    assert T(None).substitute({v: Size.of(2)}) == T(None)
    assert F(64).substitute({v: Size.of(2)}) == F(64)
    assert T.substitute({v: Size.of(2)}) is T


@pytest.mark.parametrize("name", ["", "2T", "a b", "ceil", "floor", "a-b"])
def test_names_that_cannot_be_read_back_are_refused(name):
    with pytest.raises(ConfigError, match="cannot name an axis"):
        T(name)


def test_wrong_sizes_are_refused():
    with pytest.raises(ConfigError, match="cannot have the size -1"):
        T(-1)
    with pytest.raises(ConfigError, match="cannot have the size -2"):
        F(3) - 5
    with pytest.raises(ConfigError, match="cannot have the size -T - 1"):
        -1 - T
    with pytest.raises(ConfigError, match="cannot have the size -T - 1"):
        T(-1 - T.size)
    assert str(T - 400) == "T - 400"
    with pytest.raises(ConfigError, match="has the size 1"):
        ONE(2)
    with pytest.raises(ConfigError, match="only a vocabulary axis"):
        F(AB)
    with pytest.raises(ConfigError, match="known only at run time"):
        T(None) + 1


def test_the_kind_that_names_imply():
    assert kind_of_name("T12") is Kind.TIME
    assert kind_of_name("Time") is None
    assert kind_of_size(T.size + B.size) is None


def test_a_true_division_says_which_two_there_are() -> None:
    with pytest.raises(ConfigError, match="T / 2 need not be whole") as caught:
        T / 2
    assert [fix.text.partition(" rounds")[0] for fix in caught.value.fixes] == ["T // 2", "T.ceildiv(2)"]


def test_the_remainder_of_a_division_is_a_size() -> None:
    assert T % 2 == T - T // 2 * 2
    even = (T + T % 2).size
    assert even is not None
    assert [even.evaluate({T.symbol: n}) for n in (4, 5, 7)] == [4, 6, 8]  # what it is padded to
    with pytest.raises(ConfigError, match="divided by a whole number"):
        T % 0
