"""How much of each size the rows of an example batch use: lengths, masks and padding all follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from neumo.types import ConfigError, Element, Kind, Lengths, Mask, NeuralType, Size, Symbol, kind_of_name

Key = tuple[Size, ...]  # the axes along which lengths differ: (B,) for one length a row


class Rows:
    """Draws a length for each symbol and row, once: half of the size or more, and all of it in one row.

    >>> from neumo.types import B, T
    >>> numbers = {B.symbol: 2, T.symbol: 8}
    >>> rows = Rows([Lengths(T)[B]], numbers, np.random.default_rng(0), {"T": [8, 5]})
    >>> rows.lengths(T.size.ceildiv(2), (B.size,)).tolist()
    [4, 3]
    >>> rows.inside([B.size, T.size], 1).sum(axis=1).tolist()
    [8, 5]

    The length of an expression is the expression of the lengths of its symbols, so what an encoder gives for
    the lengths of its input is what a type says about them.
    """

    def __init__(
        self,
        types: Iterable[NeuralType],
        numbers: Mapping[Symbol, int],
        rng: np.random.Generator,
        given: Mapping[str, Sequence[int]],
    ) -> None:
        self.numbers = numbers
        self._rng = rng
        self._given = given
        self._drawn: dict[tuple[Symbol, Key], Any] = {}
        self._full: dict[Key, tuple[int, ...]] = {}
        self._measured: dict[Key, list[Size]] = {}
        self._least: dict[Size, int] = {}
        for type in types:
            self._note(type)
        for key in self._measured:
            self._settle(key)

    def lengths(self, size: Size, key: Key) -> Any:
        """How much of a size each row uses, int64 with the axes of the key."""
        rows = {symbol: self._row(symbol, key) for symbol in size.symbols()}
        shape = self._shape(key)
        used = np.broadcast_to(np.asarray(size.evaluate(rows), np.int64), shape)
        return np.clip(used, min(1, self.number(size)), self.number(size))

    def inside(self, sizes: Sequence[Size], at: int, *, guess: bool = False) -> Any:
        """True where a position of axis `at` belongs to its row, with all axes; None if no lengths count it.

        With `guess` lengths are made up where none are known: one for each row of the first axis.
        """
        rest = [place for place in range(len(sizes)) if place != at]
        found = self._find(sizes[at], [sizes[place] for place in rest])
        if found is None and guess:
            found = (sizes[0],) if at > 0 else ()
        if found is None:
            return None
        shape = [1] * len(sizes)
        for place in _places(found, sizes, at):
            shape[place] = self.number(sizes[place])
        used = self.lengths(sizes[at], found).reshape(shape)
        positions = np.arange(self.number(sizes[at])).reshape(
            [-1 if n == at else 1 for n in range(len(sizes))]
        )
        return np.broadcast_to(positions < used, [self.number(size) for size in sizes])

    def reach(self, size: Size, sizes: Sequence[Size]) -> Any:
        """How much of a size each position of a value with axes `sizes` may refer to, with all those axes."""
        found = self._find(size, sizes)
        if found is None:
            return np.full([self.number(each) for each in sizes], self.number(size))
        shape = [1] * len(sizes)
        for place in _places(found, sizes, -1):
            shape[place] = self.number(sizes[place])
        used = self.lengths(size, found).reshape(shape)
        return np.broadcast_to(used, [self.number(each) for each in sizes])

    def number(self, size: Size) -> int:
        """The number behind a size."""
        return size.evaluate(self.numbers)

    def require(self, size: Size, least: int) -> None:
        """Ask for rows that use at least so much of a size, where it has so much."""
        self._least[size] = max(least, self._least.get(size, 1))

    def _note(self, type: NeuralType) -> None:
        element = type.element
        sizes = [axis.size for axis in type.axes if axis.size is not None]
        of = measured_size(element)
        if isinstance(element, Lengths) and of is not None:
            self._measured.setdefault(tuple(sizes), []).append(of)
        elif isinstance(element, Mask) and of is not None and of in sizes[1:]:
            self._measured.setdefault((sizes[0],), []).append(of)
        frame = getattr(element, "frame", None)
        if isinstance(frame, str) and type.axes and type.axes[-1].size is not None:
            self.require(type.axes[-1].size, 2)

    def _settle(self, key: Key) -> None:
        """Let a row use all of everything where it would else use nothing of some size."""
        sizes = self._measured[key]
        symbols = {symbol for size in sizes for symbol in size.symbols()}
        rows = {symbol: self._row(symbol, key) for symbol in sorted(symbols, key=lambda each: each.key)}
        for size in sizes:
            used = np.broadcast_to(np.asarray(size.evaluate(rows)), self._shape(key))
            least = min(self._least.get(size, 1), self.number(size))
            for place in np.argwhere((used < least) | (used > self.number(size))):
                for symbol in size.symbols() & rows.keys():
                    rows[symbol][tuple(place)] = self.numbers[symbol]

    def _find(self, size: Size, around: Sequence[Size]) -> Key | None:
        """The axes along which the lengths of a size differ, of those around it."""
        known = [key for key, sizes in self._measured.items() if size in sizes and _within(key, around)]
        return max(known, key=len, default=None)

    def _row(self, symbol: Symbol, key: Key) -> Any:
        known = self._drawn.get((symbol, key))
        if known is None:
            known = self._drawn[symbol, key] = self._draw(symbol, key)
        return known

    def _draw(self, symbol: Symbol, key: Key) -> Any:
        number, shape = self.numbers[symbol], self._shape(key)
        if kind_of_name(symbol.name) is Kind.BATCH or any(symbol in size.symbols() for size in key):
            return np.full(shape, number, np.int64)
        if symbol.name in self._given:
            return self._told(symbol.name, number, shape)
        drawn = self._rng.integers((number + 1) // 2, number + 1, shape)
        if drawn.size:
            full = self._full.setdefault(key, tuple(int(self._rng.integers(n)) for n in shape))
            drawn[full] = number
        return np.maximum(drawn, min(1, number))

    def _told(self, name: str, number: int, shape: tuple[int, ...]) -> Any:
        told = np.asarray(self._given[name], np.int64)
        if told.size == 0 or bool((told < 0).any()) or bool((told > number).any()):
            raise ConfigError(
                f"lengths of {name} must be from 0 to {number}, not {list(self._given[name])}", code="size"
            )
        return np.resize(told, shape)

    def _shape(self, key: Key) -> tuple[int, ...]:
        return tuple(self.number(size) for size in key)


def measured_size(element: Element) -> Size | None:
    """What lengths, masks, positions and durations are of, where it is known."""
    of = getattr(element, "of", None)
    return of if isinstance(of, Size) else None


def _within(key: Key, around: Sequence[Size]) -> bool:
    """Say whether the key's sizes occur in this order."""
    rest = iter(around)
    return all(size in rest for size in key)


def _places(key: Key, sizes: Sequence[Size], at: int) -> list[int]:
    places: list[int] = []
    for size in key:
        start = places[-1] + 1 if places else 0
        places.append(next(n for n in range(start, len(sizes)) if n != at and sizes[n] == size))
    return places
