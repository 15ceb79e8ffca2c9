"""What a source of training or test items is: a list of items, an order of batches, and a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from neumo.data.report import DataReport


@runtime_checkable
class DataSource(Protocol):
    """Gives items by index and the batches of an epoch as a pure function, so that a position is two numbers.

    An index names an item for good (its line in the manifest); items that a filter dropped are in no batch,
    and the other indices stay what they are. `len` counts the items that are left.
    """

    def __len__(self) -> int:
        """Count the items that take part."""
        ...

    def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> Sequence[Sequence[int]]:
        """Give the batches of one epoch for one of `world` processes; every process gets as many.

        The same seed, epoch, rank and world give the same batches in any process, before and after a resume.
        """
        ...

    def item(self, index: int, epoch: int) -> dict[str, Any]:
        """Read one item; its random state depends on seed, epoch and index only.

        An empty dict stands for a bad item that is skipped by policy. Raises `DataError` otherwise.
        """
        ...

    def collate(self, items: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
        """Pad items into arrays by port name; empty items are left out, no item gives an empty dict."""
        ...

    def name(self, index: int) -> str:
        """Give what messages call an item: its id, file and line."""
        ...

    def report(self) -> DataReport:
        """Say what was dropped, changed and noticed so far."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """A source that a checkpoint must hold something of, such as which items turned out bad."""

    def state(self) -> dict[str, Any]:
        """Give what to remember, ready for JSON."""
        ...

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Have the batches of the run that wrote this state, whatever has happened to the data since."""
        ...


def item_rng(seed: int, epoch: int, index: int) -> np.random.Generator:
    """Make the random generator of one item in one epoch.

    >>> int(item_rng(1, 0, 7).integers(100)) == int(item_rng(1, 0, 7).integers(100))
    True
    """
    return np.random.default_rng([seed, epoch, index])
