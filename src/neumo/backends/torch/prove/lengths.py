"""Checks that computed lengths and masks are what the sizes say: `ceil(T/2)` of each row's own length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import gcd
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from torch import Tensor

from neumo.data.generate import free_sizes
from neumo.types import Kind, Lengths, Mask, NeuralType, Size, Struct, Symbol, kind_of_name
from neumo.types.size import Floor

if TYPE_CHECKING:
    from neumo.graph.signature import Signature

_LONGEST: Final = 4000  # no axis is made longer than this only to see a size round


Leaf = tuple[str, NeuralType, Tensor]


def length_cases(signature: Signature) -> Iterator[tuple[dict[str, int], dict[str, list[int]]]]:
    """Sizes and lengths to try: rows around every length at which a size rounds.

    Nothing is tried where no output is computed from lengths.
    """
    if not any(counted(type) for type in _with_fields(signature.gives.values())):
        return
    free = free_sizes(signature.takes)
    lengths: dict[str, list[int]] = {}
    for name, number in free.items():
        if kind_of_name(name) is Kind.BATCH:
            continue
        period = _period(name, signature)
        if period > 1 and number <= 2 * period <= _LONGEST:
            free[name] = number = 2 * period + 3
        around = [number, 1, 2, period - 1, period, period + 1, 2 * period, number - 1]
        lengths[name] = [min(max(1, length), number) for length in around]
    batch = next((name for name in free if kind_of_name(name) is Kind.BATCH), None)
    yield ({**free, batch: 8} if batch else free), lengths


def wrong_lengths(given: Sequence[Leaf], made: Iterable[Leaf]) -> Iterator[tuple[str, str]]:
    """Each output of lengths (or a mask) that is not the declared expression, with what came instead."""
    rows, full = _rows(given), _full(given)
    for place, type, value in made:
        size = counted(type)
        if size is None or not size.symbols() <= rows.keys() or "[" in place:
            continue
        wanted = np.maximum(np.asarray(size.evaluate(rows)), 0)
        found = used_of(type, np.asarray(value.detach().cpu()), size.evaluate(full))
        if wanted.ndim and wanted.shape != found.shape:
            continue  # its shape is another one, which the comparison of sizes tells
        wanted = np.broadcast_to(wanted, found.shape)
        wrong = (found > wanted) | (found <= wanted - _slack(size))
        if wrong.any():
            at = int(wrong.reshape(-1).argmax())
            told = ", ".join(f"{s}={_row(rows[s], at)}" for s in sorted(size.symbols(), key=str))
            yield place, f"a row with {told} has {found.flat[at]}, and {size} is {wanted.flat[at]}"


def counted(type: NeuralType) -> Size | None:
    """The size that the rows of an output of lengths, or of a mask, tell how much they use of."""
    element: Any = type.element
    if isinstance(element, Lengths) and element.unit in ("count", "fraction"):
        return element.of
    if isinstance(element, Mask) and type.rank == 2 and type.axes[1].size == element.of:
        return element.of if type.axes[0].kind is Kind.BATCH else None
    return None


def used_of(type: NeuralType, value: Any, full: int) -> Any:
    """How much of a size the rows of lengths or of a mask use; `full` is all of it."""
    element: Any = type.element
    if isinstance(element, Mask):
        return (~value if element.true == "pad" else value).sum(axis=-1)
    return np.round(value * full).astype(np.int64) if element.unit == "fraction" else value


def _with_fields(types: Iterable[NeuralType]) -> Iterator[NeuralType]:
    for type in types:
        yield type
        if isinstance(type.element, Struct):
            yield from _with_fields(type.element.fields.values())


def _rows(given: Sequence[Leaf]) -> dict[Symbol, Any]:
    """What each row uses of each symbol: as lengths or masks of the inputs say, or else all of it."""
    rows: dict[Symbol, Any] = dict(_full(given))
    for _, type, value in given:
        size = counted(type)
        if size is not None and size.symbol is not None and type.rank:
            full = rows.get(size.symbol, 0)
            rows[size.symbol] = used_of(type, np.asarray(value.detach().cpu()), full)
    return rows


def _full(given: Sequence[Leaf]) -> dict[Symbol, int]:
    found: dict[Symbol, int] = {}
    for _, type, value in given:
        for axis, number in zip(type.axes, value.shape, strict=False):
            if axis.symbol is not None:
                found.setdefault(axis.symbol, int(number))
    for _, type, value in given:  # lengths of what no tensor of the call has as an axis
        size = counted(type)
        if size is not None and size.symbol is not None:
            found.setdefault(size.symbol, int(value.max()) if value.numel() else 0)
    return found


def _period(name: str, signature: Signature) -> int:
    """After how much of a symbol all roundings of the outputs repeat."""
    sizes = [size for type in signature.gives.values() for size in type.sizes()]
    return max((s.period() for s in sizes if any(each.name == name for each in s.symbols())), default=1)


def _slack(size: Size) -> int:
    """How much less than a size its rows may use: up to a multiple it is padding (`16*ceil(T/16)`)."""
    by = gcd(size.const, *(coefficient for _, coefficient in size.terms))
    rounded = all(isinstance(atom, Floor) and atom.k % by == 0 for atom, _ in size.terms)
    return by if by > 1 and rounded else 1


def _row(used: Any, at: int) -> int:
    return int(np.asarray(used).flat[at]) if np.ndim(used) else int(used)
