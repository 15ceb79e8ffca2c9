"""What was found out about each item, in arrays that forked and spawned workers write into together."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from neumo.data.folders import make_folder

# Kinds of bad items, as they are stored in one byte per item; the error codes are "audio-" + kind.
KINDS = (
    "",
    "missing",
    "unreadable",
    "empty",
    "truncated",
    "damaged",
    "format",
    "channels",
    "rate",
    "values",
    "slice",
    "text",
    "other",
)
_COLUMNS = (("bad", np.uint8), ("clipped", np.uint8), ("rate", np.int32), ("seconds", np.float64))


class Ledger:
    """Holds one row per item: whether it is bad, its rate, its decoded duration, whether it was clipped.

    The rows live in a temporary file that all workers map, so what one of them learns is known to all in the
    next epoch, and a report is made from the arrays alone.

    >>> ledger = Ledger(3)
    >>> ledger.mark(1, "missing", "there is no file a.wav")
    >>> ledger.is_bad(1), ledger.bad_indices("missing").tolist(), ledger.messages()
    (True, [1], {1: 'there is no file a.wav'})
    """

    bad: np.ndarray  # uint8 [N], position in KINDS
    clipped: np.ndarray  # uint8 [N], 1 where samples lay outside [-1, 1]
    rate: np.ndarray  # int32 [N], Hz of the file, 0 where it was not seen yet
    seconds: np.ndarray  # float64 [N], decoded duration, 0 where it was not seen yet

    def __init__(self, size: int) -> None:
        self.size = size
        self._folder = make_folder("ledger", self)
        self._map("w+")

    @property
    def _messages(self) -> str:
        return os.path.join(self._folder, "messages.jsonl")

    def _map(self, mode: Any) -> None:
        for name, kind in _COLUMNS:
            path = os.path.join(self._folder, name)
            empty = np.zeros(0, kind)  # an empty file cannot be mapped
            column = np.memmap(path, dtype=kind, mode=mode, shape=(self.size,)) if self.size else empty
            setattr(self, name, column)

    def mark(self, index: int, kind: str, message: str) -> None:
        """Remember a bad item and what is wrong with it; the first finding stays."""
        if self.bad[index]:
            return
        self.bad[index] = KINDS.index(kind if kind in KINDS else "other")
        with open(self._messages, "a", encoding="utf-8") as file:  # appending a line is one write: none mix
            file.write(json.dumps([int(index), message]) + "\n")

    def messages(self) -> dict[int, str]:
        """Give what is wrong with each bad item, whichever process found it."""
        if not os.path.exists(self._messages):
            return {}
        found: dict[int, str] = {}
        with open(self._messages, encoding="utf-8") as file:
            for line in file:
                index, message = (
                    json.loads(line) if line.endswith("\n") else (0, "")
                )  # a process died writing
                if message and self.bad[index]:
                    found.setdefault(index, message)
        return found

    def is_bad(self, index: int) -> bool:
        """Tell whether an item is known to be bad."""
        return bool(self.bad[index])

    def bad_indices(self, kind: str) -> np.ndarray:
        """Give the items that are bad in one way."""
        return np.flatnonzero(self.bad == KINDS.index(kind))

    def __getstate__(self) -> dict[str, Any]:
        return {"size": self.size, "_folder": self._folder}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if os.path.isdir(self._folder):
            self._map("r+")
        else:  # on another machine, or after the maker has ended
            self._folder = make_folder("ledger", self)
            self._map("w+")
