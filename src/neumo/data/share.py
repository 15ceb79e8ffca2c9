"""Arrays that worker processes map from a file, however they were started, instead of being sent a copy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from neumo.data.folders import make_folder
from neumo.types.errors import DataError

_SMALL = 1 << 20  # bytes that are sent as they are: a file for each worker to open would cost more


class SharedArrays:
    """Holds read-only arrays by name; pickling them for another process sends the name of a folder.

    Forked processes share the arrays anyway. For one that is spawned they are written to temporary files,
    once, which both sides map from then on; the files go when the process that made them ends.

    >>> import pickle
    >>> shared = SharedArrays({"duration": np.arange(1_000_000)})
    >>> sent = pickle.dumps(shared)
    >>> len(sent) < 1000, int(pickle.loads(sent)["duration"][7])
    (True, 7)
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = dict(arrays)
        self._folder = ""

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __getstate__(self) -> dict[str, Any]:
        if sum(array.nbytes for array in self._arrays.values()) < _SMALL:
            return {"arrays": {name: np.array(array) for name, array in self._arrays.items()}, "folder": ""}
        if not self._folder:
            self._write()
        kinds = {name: (array.dtype.str, array.shape) for name, array in self._arrays.items()}
        return {"kinds": kinds, "folder": self._folder}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._folder = state["folder"]
        self._arrays = self._map(state["kinds"]) if self._folder else state["arrays"]

    def _write(self) -> None:
        folder = make_folder("shared", self)
        for name, array in self._arrays.items():
            array.tofile(os.path.join(folder, name))
        self._folder = folder
        self._arrays = self._map({name: (a.dtype.str, a.shape) for name, a in self._arrays.items()})

    def _map(self, kinds: Mapping[str, tuple[str, tuple[int, ...]]]) -> dict[str, np.ndarray]:
        arrays: dict[str, np.ndarray] = {}
        for name, (kind, shape) in kinds.items():
            empty = 0 in shape  # an empty file cannot be mapped
            try:
                path = os.path.join(self._folder, name)
                mapped = np.zeros(shape, kind) if empty else np.memmap(path, kind, "r", shape=shape)
                arrays[name] = np.asarray(mapped)  # reading a number from a memmap takes longer
            except OSError as error:
                raise DataError(
                    f"the shared files of a manifest cannot be read: {error}",
                    code="shared",
                    where=self._folder,
                    why="They live as long as the process that has read the manifest.",
                ) from error
        return arrays
