"""Chooses the sizes that a module is run with beside its trace: what a trace of one example cannot show.

A branch on a size is followed by a trace on one side only: `T % 2`, `T < 100`, `B < 5`. So every symbol is
run through a row of neighbours, around the multiples at which declared sizes round, below and beyond what is
usual, and with sizes for which what the trace took for granted is not so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from neumo.backends.torch.prove.sizes import Sizes
from neumo.types import Kind, NeuralType, Symbol, kind_of_name

_NEIGHBOURS: Final = 8  # sizes in a row: all residues of a branch on a small modulus
_LARGE: Final = 100  # larger usual sizes are samples of audio: fewer neighbours, as they take longer
_FAR: Final = 16  # times the usual size
_LONGEST: Final = 40000
_GUARDS: Final = 12  # of a trace that are looked at
_TOLD: Final = 2  # of them that are told
_MOST: Final = 1 << 17  # a size that a guard is tried with


@dataclass(frozen=True)
class SizeCase:
    """Sizes to run. Code that fails on `strict` ones is refuted, else the failure is a limit.

    A failure is no news where a range that a trace `told` leaves these sizes out.
    """

    sizes: Mapping[str, int]
    strict: bool = True
    told: bool = False


def size_cases(
    gives: Mapping[str, NeuralType], free: Mapping[str, int], *, far: bool = False
) -> Iterator[SizeCase]:
    """Each size alone through its neighbours and further away, then all of them together.

    `far` adds a large size, for code whose branches no trace tells.

    >>> from neumo.types import B, F, Features, T
    >>> cases = size_cases({"y": Features()[B, F(8), T // 2]}, {"B": 3, "T": 19})
    >>> [case.sizes["T"] for case in cases if case.sizes["B"] == 3]
    [20, 21, 22, 23, 24, 25, 26, 27, 38, 39, 2, 3, 5, 18]
    """
    for name, usual in free.items():
        batch = kind_of_name(name) is Kind.BATCH
        above = _batches(usual) if batch else _above(usual, _period(name, gives))
        for number in above:
            yield SizeCase({**free, name: number}, strict=number <= usual + _NEIGHBOURS)
        if far and not batch and usual <= _LARGE:
            yield SizeCase({**free, name: _FAR * usual + 3}, strict=False)
        for number in (1, 2) if batch else (2, 3, 5, usual - 1):
            if 0 < number < usual:
                yield SizeCase({**free, name: number}, strict=False)
    for more in (1, 6):
        yield SizeCase({name: usual + more for name, usual in free.items()})
    for number in (4, 12):
        yield SizeCase(dict.fromkeys(free, number), strict=False)


def within(case: SizeCase, ranges: Mapping[str, tuple[int, int | None]]) -> SizeCase:
    """The same sizes, which the code may not take where a trace told that it does not hold for them."""
    for name, number in case.sizes.items():
        lower, upper = ranges.get(name, (0, None))
        if number < lower or (upper is not None and number > upper):
            ones = set(case.sizes.values()) == {1}
            return SizeCase(case.sizes, strict=False, told=not ones)
    return case


def guard_cases(sizes: Sizes, free: Mapping[str, int]) -> list[SizeCase]:
    """Sizes for which something that the trace took for granted is not so: the other side of a branch."""
    return [case for guard in sizes.guards[:_GUARDS] for case in _breaking(guard, sizes, free)]


def told_guards(sizes: Sizes, free: Mapping[str, int]) -> list[str]:
    """What a trace took for granted that is no range and not always so: the shortest two, once each."""
    found: dict[tuple[Any, ...], str] = {}
    for guard in sizes.guards[:_GUARDS]:
        cases = [within(case, sizes.ranges) for case in _breaking(guard, sizes, free)]
        broken = tuple(tuple(case.sizes.items()) for case in cases if not case.told)
        if broken and ("Mod" in str(guard) or len(guard.free_symbols) > 1):
            text = _text(guard, sizes.known)
            found[broken] = min(text, found.get(broken, text), key=len)
    shortest = sorted(found.values(), key=len)[:_TOLD]
    return [f"proved where {text}; other sizes were run" for text in shortest]


def _breaking(guard: Any, sizes: Sizes, free: Mapping[str, int]) -> list[SizeCase]:
    """Sizes of 2 and more, which a trace is about, that break a guard."""
    return [
        SizeCase({**free, name: number}, strict=False)
        for name in free
        for number in _broken(guard, sizes.known, free, name)
    ]


def _batches(usual: int) -> list[int]:
    return [usual + 1, usual + 2, 2 * usual + 1, 2 * usual + 2]


def _above(usual: int, period: int) -> list[int]:
    rows = _NEIGHBOURS if usual <= _LARGE else 2
    found = [usual + more for more in range(1, rows + 1)]
    if rows < period:
        multiple = -(-(usual + 1) // period) * period
        found += [multiple - 1, multiple, multiple + 1, multiple + period // 2]
    return list(dict.fromkeys([*found, *(n for n in (2 * usual, 2 * usual + 1) if n <= _LONGEST)]))


def _period(name: str, gives: Mapping[str, NeuralType]) -> int:
    sizes = [size for type in gives.values() for size in type.sizes()]
    return max((s.period() for s in sizes if any(each.name == name for each in s.symbols())), default=1)


def _broken(guard: Any, known: Mapping[Any, Any], free: Mapping[str, int], name: str) -> Iterator[int]:
    """The two nearest numbers above, and the nearest below, with which a guard is broken."""
    places = {symbol: known[symbol] for symbol in guard.free_symbols if symbol in known}
    symbols = {each for size in places.values() for each in size.symbols()}
    if len(places) < len(guard.free_symbols) or name not in {each.name for each in symbols}:
        return
    usual = free[name]
    yield from [n for n in _candidates(guard, usual) if _breaks(guard, places, {**free, name: n})][:2]
    below = (n for n in range(usual - 1, max(1, usual - _LARGE), -1))
    yield from [n for n in below if _breaks(guard, places, {**free, name: n})][:1]


def _candidates(guard: Any, usual: int) -> list[int]:
    near = range(usual + 1, usual + 34)
    told = [int(n) + more for n in guard.atoms() if getattr(n, "is_Integer", False) for more in (-1, 0, 1)]
    powers = [(1 << power) + more for power in range(5, 13) for more in (0, 1)]
    return sorted({n for n in (*near, *told, *powers) if usual < n <= _MOST})


def _breaks(guard: Any, places: Mapping[Any, Any], numbers: Mapping[str, int]) -> bool:
    symbols: set[Symbol] = {each for size in places.values() for each in size.symbols()}
    if any(each.name not in numbers for each in symbols):
        return False
    named = {each: numbers[each.name] for each in symbols}
    values = {symbol: size.evaluate(named) for symbol, size in places.items()}
    return str(guard.subs(values)) == "False"


def _text(guard: Any, known: Mapping[Any, Any]) -> str:
    """A guard as a comparison, in the symbols of the signature."""
    shown = str(guard.func.__name__)
    signs: Mapping[str, str] = {
        "Equality": "=", "Unequality": "!=", "StrictLessThan": "<", "LessThan": "<=",
        "StrictGreaterThan": ">", "GreaterThan": ">=",
    }  # fmt: skip
    sides: Sequence[str] = [str(side) for side in guard.args]
    text = f" {signs.get(shown, shown)} ".join(sides)
    for symbol in sorted(guard.free_symbols, key=lambda each: -len(str(each))):
        text = text.replace(str(symbol), str(known.get(symbol, symbol)))
    return text
