"""A dictionary from integers to integers for whole arrays at once."""

from __future__ import annotations

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: spreads neighbours (Knuth 6.4)
_EMPTY = -1


class IntTable:
    """Finds the values of many keys at once: open addressing in two arrays, at most half full.

    >>> table = IntTable(np.array([7, 40, 9]), np.array([0, 1, 2]))
    >>> table.find(np.array([40, 8, 7])).tolist()
    [1, -1, 0]

    Keys are int64 from 0 on, each once; values int32 from 0 on. A key that is not there gives -1. It takes 12
    bytes for each of its places, of which there are two to four a key.
    """

    def __init__(self, keys: np.ndarray, values: np.ndarray) -> None:
        bits = max(3, int(2 * len(keys) - 1).bit_length() if len(keys) else 3)
        self._shift = np.uint64(64 - bits)
        self._mask = (1 << bits) - 1
        self._keys = np.full(1 << bits, _EMPTY, dtype=np.int64)
        self._values = np.full(1 << bits, _EMPTY, dtype=np.int32)
        keys, values = keys.astype(np.int64), values.astype(np.int32)
        place = self._home(keys)
        while len(keys):
            free = self._keys[place] == _EMPTY
            self._keys[place[free]] = keys[free]  # of several that want one place the last gets it
            there = self._keys[place] == keys
            self._values[place[there]] = values[there]
            keys, values, place = keys[~there], values[~there], (place[~there] + 1) & self._mask

    @property
    def nbytes(self) -> int:
        """The memory that it takes, in bytes."""
        return self._keys.nbytes + self._values.nbytes

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Look keys (M,) up: int64 (M,), -1 where there is none."""
        place = self._home(keys)
        seen = self._keys[place]
        found = np.where(seen == keys, self._values[place], -1).astype(np.int64)
        rest = np.flatnonzero((seen != keys) & (seen != _EMPTY))
        place = place[rest]
        while len(rest):
            place = (place + 1) & self._mask
            seen = self._keys[place]
            hit = seen == keys[rest]
            found[rest[hit]] = self._values[place[hit]]
            on = ~hit & (seen != _EMPTY)
            rest, place = rest[on], place[on]
        return found

    def _home(self, keys: np.ndarray) -> np.ndarray:
        return ((keys.astype(np.uint64) * _GOLDEN) >> self._shift).astype(np.int64)
