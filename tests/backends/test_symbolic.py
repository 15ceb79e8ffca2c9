"""Sizes of torch.export, read as sizes of types: the two agree for every number."""

from __future__ import annotations

import random

import pytest
import sympy
from torch.utils._sympy import functions as fx

from neumo.backends.torch.symbolic import (
    LEAST,
    Untranslatable,
    lower_bound,
    read_size,
)
from neumo.types import Size, Symbol

s, t = sympy.Symbol("s", integer=True, positive=True), sympy.Symbol("t", integer=True, positive=True)
S, T = Symbol("S"), Symbol("T")
KNOWN = {s: S.size, t: T.size}


@pytest.mark.parametrize(
    ("traced", "wanted"),
    [
        (sympy.Integer(7), "7"),
        (2 * s + 3, "2*S + 3"),
        (fx.FloorDiv(s, 160) + 1, "S//160 + 1"),
        (fx.FloorDiv(s - 1, 2) + 1, "ceil(S/2)"),
        (fx.CeilToInt(fx.IntTrueDiv(s, 2)), "ceil(S/2)"),
        (fx.CeilToInt(fx.FloatTrueDiv(fx.ToFloat(s), 2)), "ceil(S/2)"),
        (fx.TruncToInt(fx.IntTrueDiv(s, 4)), "S//4"),
        (fx.FloorToInt(fx.IntTrueDiv(s + 1, 4)), "(S + 1)//4"),
        (sympy.floor(s / 3), "S//3"),
        (sympy.ceiling(s / 3 + t / 2), "ceil((2*S + 3*T)/6)"),
        (fx.CeilDiv(s, 3), "ceil(S/3)"),
        (fx.Mod(s, 4), "S - 4*(S//4)"),
        (fx.PythonMod(s, 4), "S - 4*(S//4)"),
        (fx.ModularIndexing(s, 2, 8), "S//2 - 8*(S//16)"),
        (fx.Max(1, s), "S"),
        (fx.Max(s, s - 4), "S"),
        (fx.Min(s, s + 1), "S"),
        (fx.Min(s, 3 * fx.FloorDiv(s + 2, 3)), "S"),
        (s * t, "S*T"),
        (s**2, "S*S"),
        (fx.PowByNatural(s, 2), "S*S"),
        (2 * s * t + t, "T + 2*S*T"),
        (fx.Max(s * t, 4), "S*T"),
        (fx.Identity(s), "S"),
    ],
)
def test_every_form_of_a_traced_size_is_read(traced, wanted) -> None:
    assert str(read_size(traced, KNOWN)) == wanted


def test_numbers_are_read_as_they_are() -> None:
    assert read_size(5, {}) == 5


@pytest.mark.parametrize(
    "traced",
    [
        fx.FloorDiv(s, t),
        fx.Max(s, t),
        sympy.Pow(s, -1),
        s / 2,
        fx.Where(s > 3, s, t),
        sympy.Symbol("unknown"),
    ],
)
def test_what_has_no_canonical_form_is_refused(traced) -> None:
    with pytest.raises(Untranslatable):
        read_size(traced, KNOWN)


def test_what_is_read_is_the_same_number() -> None:
    rng = random.Random(3)

    def grow(depth: int):
        if depth == 0:
            return rng.choice([s, t, sympy.Integer(rng.randint(1, 9))])
        inner, k = grow(depth - 1), rng.randint(2, 7)
        forms = [
            lambda: inner + grow(depth - 1),
            lambda: inner * k,
            lambda: fx.FloorDiv(inner, k),
            lambda: fx.CeilToInt(fx.IntTrueDiv(inner, k)),
            lambda: fx.PythonMod(inner, k),
            lambda: inner - k,
        ]
        return rng.choice(forms)()

    tried = 0
    for _ in range(300):
        traced = grow(rng.randint(1, 4))
        size = read_size(traced, KNOWN)
        for one, other in ((2, 3), (17, 40), (160, 161), (999, 1000)):
            value = traced.subs({s: one, t: other}) if hasattr(traced, "subs") else traced
            if value.is_Integer and value >= 0:
                assert size.evaluate({S: one, T: other}) == int(value), traced
                tried += 1
    assert tried > 600


@pytest.mark.parametrize(
    "size",
    [S.size // 3 + 1, S.size.ceildiv(4) * 3, S.size * 4 - S.size, (S.size * 3 - T.size // 2 * 0) // 2],
)
def test_a_lower_bound_is_never_above_the_size(size: Size) -> None:
    bound = lower_bound(size)
    assert bound is not None
    assert bound <= min(size.evaluate({S: n, T: m}) for n in range(LEAST, 40) for m in (2, 3, 9))


def test_a_size_that_falls_has_no_lower_bound() -> None:
    assert lower_bound(T.size - S.size) is None


def test_a_product_is_at_least_the_product_of_its_factors() -> None:
    assert lower_bound(S.size * T.size - 4) == 0
    assert lower_bound(S.size - S.size * T.size) is None
