"""Finds out by calling a module with other sizes which axes may change, and how its outputs follow.

What a trace does, for modules that a trace cannot follow: a recurrent layer, a loop over frames. The sizes
are fitted to what came and hold for the sizes that were tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from neumo.types import Size, Symbol

Place = tuple[str, int]  # the axis of an argument
Run = Callable[[Mapping[str, Tensor]], Sequence[Tensor]]

_STEPS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 11, 16)  # added to a size to see how the outputs follow
_DIVISORS: Final = range(2, 17)


@dataclass
class Probed:
    """The sizes of the inputs by argument and of the outputs in order; None where nothing fits."""

    inputs: dict[str, list[Size]]
    outputs: list[list[Size | None]] = field(default_factory=list[list[Size | None]])


def widen(run: Run, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Make axes of size 1 that may change 2 long, so that a trace can tell them from axes that are 1."""
    single = [(name, axis) for name, value in values.items() for axis in range(value.dim())]
    single = [(name, axis) for name, axis in single if values[name].shape[axis] == 1]
    widened = dict(values)
    for places in _groups(single, values):
        longer = _longer(widened, places, 1)
        if _runs(run, longer):
            widened = longer
    return widened


def free_axes(run: Run, values: Mapping[str, Tensor], tried: Iterable[Place]) -> list[tuple[Place, ...]]:
    """Find the axes whose size may change: alone, or only together with those of the same size.

    >>> both = {"x": torch.zeros(2, 5), "y": torch.zeros(2, 3)}
    >>> free_axes(lambda v: [torch.cat([v["x"], v["y"]], 1)], both, [("x", 0), ("x", 1), ("y", 0), ("y", 1)])
    [(('x', 1),), (('y', 1),), (('x', 0), ('y', 0))]
    """
    rest = list(tried)
    found: list[tuple[Place, ...]] = []
    for place in list(rest):
        if _runs(run, _longer(values, (place,), 1)) and _runs(run, _longer(values, (place,), 3)):
            found.append((place,))
            rest.remove(place)
    for places in _groups(rest, values):
        if all(place in rest for place in places) and _runs(run, _longer(values, places, 1)):
            found.append(places)
            rest = [place for place in rest if place not in places]
    return found


def sizes_that_meet(
    run: Run, values: Mapping[str, Tensor], inputs: Mapping[str, Sequence[Size]]
) -> dict[Symbol, Size]:
    """Find symbols of a trace that must be one number: a call where only one of them changes fails.

    >>> T, U = Symbol("s0"), Symbol("s1")
    >>> both = {"x": torch.zeros(5), "y": torch.zeros(5)}
    >>> sizes_that_meet(lambda v: [v["x"] + v["y"]], both, {"x": [T.size], "y": [U.size]})
    {s1: s0}
    """
    places: dict[Symbol, list[Place]] = {}
    for name, sizes in inputs.items():
        for axis, size in enumerate(sizes):
            if size.symbol is not None:
                places.setdefault(size.symbol, []).append((name, axis))
    same: dict[Symbol, Size] = {}
    alone = [symbol for symbol, each in places.items() if not _runs(run, _longer(values, each, 1))]
    for number, symbol in enumerate(alone):
        for other in alone[number + 1 :]:
            if (
                symbol in same
                or other in same
                or _length(values, places[symbol]) != _length(values, places[other])
            ):
                continue
            if _runs(run, _longer(values, [*places[symbol], *places[other]], 1)):
                same[other] = symbol.size
    return same


def probe(run: Run, values: Mapping[str, Tensor]) -> Probed:
    """Tell which axes may change, and fit the sizes of the outputs."""
    every = [(name, axis) for name, value in values.items() for axis in range(value.dim())]
    groups = free_axes(run, values, every)
    found = Probed({name: [Size.of(n) for n in value.shape] for name, value in values.items()})
    symbols = [Symbol(f"s{number}") for number in range(len(groups))]
    for symbol, places in zip(symbols, groups, strict=True):
        for name, axis in places:
            found.inputs[name][axis] = symbol.size
    before = [tuple(value.shape) for value in run(values)]
    seen = [_follow(run, values, places) for places in groups]
    for number, shape in enumerate(before):
        sizes: list[Size | None] = []
        for axis, size in enumerate(shape):
            moves = [[(n, shapes[number][axis]) for n, shapes in each] for each in seen]
            sizes.append(_fit(symbols, moves, size))
        found.outputs.append(sizes)
    return found


def _follow(
    run: Run, values: Mapping[str, Tensor], places: tuple[Place, ...]
) -> list[tuple[int, list[tuple[int, ...]]]]:
    """The shapes of the outputs for several sizes of some axes."""
    name, axis = places[0]
    size = values[name].shape[axis]
    found: list[tuple[int, list[tuple[int, ...]]]] = [(size, [tuple(v.shape) for v in run(values)])]
    for step in _STEPS:
        longer = _longer(values, places, step)
        if _runs(run, longer):
            found.append((size + step, [tuple(value.shape) for value in run(longer)]))
    return found


def _fit(symbols: list[Symbol], moves: list[list[tuple[int, int]]], size: int) -> Size | None:
    """The size of an output axis: constant, a form of the one symbol that moves it, or a sum of several."""
    moving = [n for n, pairs in enumerate(moves) if any(made != size for _, made in pairs)]
    if not moving:
        return Size.of(size)
    forms = [fit_one(symbols[n].size, moves[n]) for n in moving]
    if len(forms) == 1 or any(form is None for form in forms):
        return forms[0] if len(forms) == 1 else None
    total = Size.of(size)
    for n, form in zip(moving, forms, strict=True):
        if form is not None:  # what this symbol adds to the size of the example
            total = total + form - form.evaluate({symbols[n]: moves[n][0][0]})
    return total


def fit_one(symbol: Size, pairs: Sequence[tuple[int, int]]) -> Size | None:
    """Fit a size to pairs of numbers: `k*n + c`, or `(n + c) // k`.

    >>> T = Symbol("T").size
    >>> fit_one(T, [(n, (n + 1) // 2) for n in range(8, 18)]), fit_one(T, [(3, 7), (4, 9), (6, 13)])
    (ceil(T/2), 2*T + 1)
    """
    (first, made), *more = pairs
    if more:
        slope = (more[0][1] - made) // (more[0][0] - first)
        line = symbol * slope + (made - slope * first)
        if slope and _fits(line, symbol, pairs):
            return line
    for by in _DIVISORS:
        for shift in range(made * by - first, made * by - first + by):
            form = (symbol + shift) // by
            if _fits(form, symbol, pairs):
                return form
    return None


def fit_lengths(
    run: Run, values: Mapping[str, Tensor], lengths: str, output: int, symbol: Size
) -> Size | None:
    """Fit what a module makes of lengths: it is called with rows that are shorter and shorter.

    >>> halves = lambda v: [(v["n"] + 1) // 2]
    >>> fit_lengths(halves, {"n": torch.tensor([9, 9])}, "n", 0, Symbol("T").size)
    ceil(T/2)
    """
    largest = int(values[lengths].max()) if values[lengths].numel() else 0
    pairs: list[tuple[int, int]] = []
    for number in range(max(1, largest - 2 * _DIVISORS.stop), largest + 1):
        given = {**values, lengths: torch.full_like(values[lengths], number)}
        if _runs(run, given):
            found = run(given)[output].flatten()
            if found.numel() == 0 or bool((found != found[0]).any()):
                return None
            pairs.append((number, int(found[0])))
    pairs = [(number, made) for number, made in pairs if made > 0]  # below its range, a size is 0
    return fit_one(symbol, pairs) if len(pairs) > 3 else None


def _fits(size: Size, symbol: Size, pairs: Sequence[tuple[int, int]]) -> bool:
    key = symbol.symbol
    return key is not None and all(size.evaluate({key: n}) == made for n, made in pairs)


def _groups(places: Sequence[Place], values: Mapping[str, Tensor]) -> list[tuple[Place, ...]]:
    """Axes that may have to change together: of one size at one place, then all of one size, then each."""
    sizes = {place: values[place[0]].shape[place[1]] for place in places}
    groups = [tuple(p for p in places if sizes[p] == sizes[q] and p[1] == q[1]) for q in places]
    groups += [tuple(p for p in places if sizes[p] == sizes[q]) for q in places]
    return list(dict.fromkeys([*groups, *((place,) for place in places)]))


def _length(values: Mapping[str, Tensor], places: Sequence[Place]) -> int:
    name, axis = places[0]
    return values[name].shape[axis]


def _longer(values: Mapping[str, Tensor], places: Iterable[Place], more: int) -> dict[str, Tensor]:
    """The same values with some axes longer, by repeating what they begin with."""
    longer = dict(values)
    for name, axis in places:
        size = longer[name].shape[axis]
        again = torch.arange(size + more, device=longer[name].device) % max(size, 1)
        longer[name] = longer[name].index_select(axis, again)
    return longer


def _runs(run: Run, values: Mapping[str, Tensor]) -> bool:
    try:
        run(values)
    except Exception:  # whatever a module raises for a size that it does not take
        return False
    return True
