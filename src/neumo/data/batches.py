"""The batches of an epoch in little memory: a million items are three arrays, not a million numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

_SHOWN = 20  # batches that a repr writes out


class Batches(Sequence[list[int]]):
    """Holds the batches of an epoch in order; each becomes a list of indices when it is asked for.

    `items` are the indices of all batches, one behind the other; batch n is `items[starts[n]:stops[n]]`. It
    equals a list of lists that holds the same, and a slice of it shares its arrays.

    >>> batches = Batches(np.array([4, 0, 2]), starts=np.array([0, 2]), stops=np.array([2, 3]))
    >>> batches, len(batches), batches[1], batches[:1] == [[4, 0]]
    ([[4, 0], [2]], 2, [2], True)
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, items: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> None:
        self.items = items
        self.starts = starts
        self.stops = stops

    @classmethod
    def of(cls, batches: Sequence[Sequence[int]]) -> Batches:
        """Take batches that are lists.

        >>> Batches.of([[3, 1], [2]])[0]
        [3, 1]
        """
        stops = np.cumsum([len(batch) for batch in batches], dtype=np.int64)
        items = np.fromiter(itertools.chain.from_iterable(batches), np.int64, stops[-1] if len(stops) else 0)
        return cls(items, np.concatenate([np.zeros(min(1, len(stops)), np.int64), stops[:-1]]), stops)

    @property
    def sizes(self) -> np.ndarray:
        """Give the number of items of each batch, int64 [len(self)]."""
        return self.stops - self.starts

    def take(self, positions: np.ndarray | slice) -> Batches:
        """Give some of the batches, in the order of these positions."""
        return Batches(self.items, self.starts[positions], self.stops[positions])

    def of_rank(self, rank: int, world: int) -> Batches:
        """Give every `world`-th batch from number `rank` on."""
        return self.take(slice(rank, None, world))

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, position: int) -> list[int]: ...
    @overload
    def __getitem__(self, position: slice) -> Batches: ...
    def __getitem__(self, position: int | slice) -> list[int] | Batches:
        if isinstance(position, slice):
            return self.take(position)
        return self.items[self.starts[position] : self.stops[position]].tolist()

    def __iter__(self) -> Iterator[list[int]]:
        return (self[position] for position in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(
            mine == list(its) for mine, its in zip(self, other, strict=True)
        )

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self[:_SHOWN]))
        return f"[{shown}, ... {len(self)} batches]" if len(self) > _SHOWN else f"[{shown}]"
