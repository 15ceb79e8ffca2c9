"""Decoded samples in one temporary file that all worker processes map, so that each is decoded once."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from neumo.data.folders import make_folder

_SLACK = 1600  # samples that a recording may be longer than it was said to be and still has its place


class SampleCache:
    """Holds float32 samples by index; what one process puts in, all find.

    `frames` [N] says how many samples each item is expected to have, 0 for those that are never asked for.
    The file is reserved as a whole, and `OSError` is raised if there is no room for it.

    >>> cache = SampleCache(np.array([3, 2]))
    >>> cache.put(0, np.ones(3, np.float32)); cache.get(0).tolist(), cache.get(1)
    ([1.0, 1.0, 1.0], None)
    """

    def __init__(self, frames: np.ndarray) -> None:
        room = np.where(frames > 0, frames + _SLACK, 0)
        self._offsets = np.concatenate([[0], np.cumsum(room)])
        self._folder = make_folder("samples", self)
        for name, size in (("lengths", 8 * len(frames)), ("samples", self.size_of(frames))):
            with open(os.path.join(self._folder, name), "wb") as file:
                _reserve(file.fileno(), max(size, 8))
        self._map()

    @staticmethod
    def size_of(frames: np.ndarray) -> int:
        """Count the bytes that the samples of a cache take.

        >>> SampleCache.size_of(np.array([100, 0]))
        6800
        """
        return 4 * int(np.where(frames > 0, frames + _SLACK, 0).sum())

    def get(self, index: int) -> np.ndarray | None:
        """Give the samples of an item, read-only, or None if they have not been put in."""
        length = int(self._lengths[index])
        if not length:
            return None
        start = int(self._offsets[index])
        samples = self._samples[start : start + length]
        samples.flags.writeable = False
        return samples

    def put(self, index: int, samples: np.ndarray) -> None:
        """Keep the samples of an item, if they fit into its place."""
        start, stop = (int(bound) for bound in self._offsets[index : index + 2])
        if len(samples) <= stop - start:
            self._samples[start : start + len(samples)] = samples
            self._lengths[index] = len(samples)  # last: from here on the others read them

    def _map(self) -> None:
        path = os.path.join(self._folder, "samples")
        self._samples = np.asarray(np.memmap(path, np.float32, "r+"))
        self._lengths = np.asarray(np.memmap(os.path.join(self._folder, "lengths"), np.int64, "r+"))

    def __getstate__(self) -> dict[str, Any]:
        return {"_offsets": self._offsets, "_folder": self._folder}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._map()


def _reserve(file: int, size: int) -> None:
    """Give a file its size and its room on the disk: running out of it later would end the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.truncate(file, size)
