"""What separates two sizes that should be equal: a factor, an offset, rounding, another data layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import prod
from typing import Literal

from neumo.types.errors import and_text
from neumo.types.size import Atom, Floor, Product, Size, Symbol, floors_in

GapKind = Literal[
    "factor", "offset", "rounding", "constant", "varies", "fixed", "owner", "other", "unsolved", "indivisible"
]
_MOST_POINTS = 4096  # evaluations spent on deciding whether two forms are the same function


@dataclass(frozen=True)
class SizeGap:
    """How a given size misses a wanted one; `factor` and `offset` are given / wanted and given - wanted.

    >>> T = Symbol("T", rigid=True).size
    >>> gap(T // 320 + 1, T // 160 + 1).sentence
    'It is 2 times too long'
    """

    kind: GapKind
    wanted: Size
    given: Size
    sentence: str
    factor: Fraction | None = None
    offset: int | None = None
    example: tuple[tuple[Symbol, int], ...] = ()


@lru_cache(maxsize=4096)
def slopes(size: Size) -> Mapping[Symbol | Product, Fraction]:
    """Give how fast a size grows with each symbol, or product of symbols, rounding aside.

    >>> slopes(Symbol("T").size // 160)
    {T: Fraction(1, 160)}
    """
    for floor in floors_in(size):
        _slopes(floor.size)  # so that what is inside is known
    return _slopes(size)


@lru_cache(maxsize=4096)
def _slopes(size: Size) -> Mapping[Symbol | Product, Fraction]:
    found: dict[Symbol | Product, Fraction] = {}
    for atom, coefficient in size.terms:
        if isinstance(atom, Floor):
            for symbol, slope in _slopes(atom.size).items():
                found[symbol] = found.get(symbol, Fraction(0)) + slope * coefficient / atom.k
        else:
            found[atom] = found.get(atom, Fraction(0)) + coefficient
    return {symbol: slope for symbol, slope in found.items() if slope}


def same_size(a: Size, b: Size) -> bool:
    """Decide whether two sizes are the same number whatever the symbols are.

    The canonical form decides nearly always. Where it does not, the difference has slope 0 and repeats with
    the period of its floors, so that trying one period of every symbol is a proof.

    >>> T = Symbol("T").size
    >>> same_size(T - T // 2, T.ceildiv(2)), same_size(T.ceildiv(2) * 2, T)
    (True, False)
    """
    return a == b or (_comparable(a, b) and counterexample(a, b) is None)


def _comparable(a: Size, b: Size) -> bool:
    return slopes(a - b) == {}


def counterexample(a: Size, b: Size) -> Mapping[Symbol, int] | None:
    """Find numbers for which two sizes of equal slopes differ, or None when there are none.

    >>> T = Symbol("T").size
    >>> counterexample(T.ceildiv(2) * 2, T)
    {T: 1}
    """
    difference = a - b
    if not difference.terms:
        return {} if difference.const else None
    symbols = sorted(difference.symbols(), key=lambda symbol: symbol.key)
    periods = [_period(difference, symbol) for symbol in symbols]
    if prod(periods) > _MOST_POINTS:
        return dict.fromkeys(symbols, 1)  # undecided counts as different: sound, if strict
    for point in product(*(range(1, period + 1) for period in periods)):
        values = dict(zip(symbols, point, strict=True))
        if difference.evaluate(values):
            return values
    return None


def _period(size: Size, symbol: Symbol) -> int:
    """The period of the rounding along one symbol."""
    return Size(0, tuple(term for term in size.terms if _mentions(term[0], symbol))).period()


def _mentions(atom: Atom, symbol: Symbol) -> bool:
    return atom == symbol if isinstance(atom, Symbol) else symbol in atom.symbols()


def gap(wanted: Size, given: Size) -> SizeGap:
    """Say what separates a given from a wanted size over rigid symbols.

    >>> T = Symbol("T", rigid=True).size
    >>> gap(Size.of(64), T).kind, gap(T, T + 3).sentence
    ('varies', 'It is 3 too long')
    """
    if wanted.constant is not None:
        return _against_number(wanted, given, wanted.constant)
    if given.constant is not None:
        return SizeGap(
            "fixed", wanted, given, f"It is always {given}, but {wanted} changes from batch to batch"
        )
    foreign = _foreign(wanted, given)
    if foreign is not None:
        return foreign
    return _along(wanted, given)


def _against_number(wanted: Size, given: Size, number: int) -> SizeGap:
    if given.constant is None:
        return SizeGap(
            "varies", wanted, given, f"It changes from batch to batch, but {number} is wanted always"
        )
    factor = Fraction(given.constant, number) if number else None
    sentence = f"It is {given.constant}, not {number}"
    return SizeGap("constant", wanted, given, sentence, factor, given.constant - number)


def _foreign(wanted: Size, given: Size) -> SizeGap | None:
    """The two sizes depend on other unknowns."""
    here, there = wanted.symbols(), given.symbols()
    if here == there:
        return None
    mine, theirs = _owners(here - there), _owners(there - here)
    if mine and theirs and mine.isdisjoint(theirs):
        sentence = f"{given} comes from {and_text(sorted(theirs))}, {wanted} from {and_text(sorted(mine))}"
        return SizeGap("owner", wanted, given, sentence)
    names = given.text(), wanted.text()
    if names[0] == names[1]:
        names = given.text(owners=True), wanted.text(owners=True)
    sentence = f"{names[0]} and {names[1]} need not be equal"
    if names[0] == names[1]:
        sentence = f"{names[0]} of one call need not be {names[1]} of another"
    return SizeGap("other", wanted, given, sentence)


def _owners(symbols: frozenset[Symbol]) -> set[str]:
    return {symbol.owner for symbol in symbols if symbol.owner}


def _along(wanted: Size, given: Size) -> SizeGap:
    """Both depend on the same unknowns: compare slopes, then offsets, then rounding."""
    here, there = slopes(wanted), slopes(given)
    ratios = {there.get(symbol, Fraction(0)) / slope for symbol, slope in here.items()}
    if len(ratios) == 1 and here.keys() == there.keys():
        (factor,) = ratios
        if factor != 1:
            return SizeGap("factor", wanted, given, _times(factor), factor)
    elif here or there:
        return SizeGap("other", wanted, given, f"{given} and {wanted} grow differently")
    offset = (given - wanted).constant
    if offset is not None:
        sentence = f"It is {abs(offset)} too {'long' if offset > 0 else 'short'}"
        return SizeGap("offset", wanted, given, sentence, None, offset)
    return _rounded(wanted, given)


def _rounded(wanted: Size, given: Size) -> SizeGap:
    """Name numbers for which the two differ, where such are known."""
    values = dict.fromkeys(sorted(wanted.symbols(), key=lambda symbol: symbol.key), 1)
    values.update(counterexample(given, wanted) or {})
    there, here = given.evaluate(values), wanted.evaluate(values)
    if there == here:
        return SizeGap("rounding", wanted, given, "It may be rounded otherwise")
    at = ", ".join(f"{symbol} = {value}" for symbol, value in values.items())
    sentence = f"It is rounded otherwise: for {at} it is {there}, not {here}"
    return SizeGap("rounding", wanted, given, sentence, example=tuple(values.items()))


def _times(factor: Fraction) -> str:
    if factor.denominator == 1 and factor > 1:
        return f"It is {factor} times too long"
    if factor.numerator == 1 and factor > 0:
        return f"It is {factor.denominator} times too short"
    return f"It is {factor} times as long as wanted"
