"""The batches of an epoch: like lengths together, shuffled, as a pure function of the seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neumo.types.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Bucketing:
    """Says how items are put together into batches.

    `batch_size` is the most items of a batch. `max_seconds` bounds its padded size, that is items times the
    longest of them; an item that is longer than that has a batch of its own. Items are shuffled, cut into
    windows of `window` batches (for each process), sorted by length inside each, and the batches are shuffled
    again: padding stays small and no two epochs are alike. A window of 0 does not sort.

    >>> Bucketing(batch_size=2, shuffle=False, window=0).batches([3.0, 1.0, 2.0], seed=0, epoch=0)
    [[0, 1], [2]]
    """

    batch_size: int = 16
    max_seconds: float | None = None
    shuffle: bool = True
    window: int = 16

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ConfigError(f"batch_size is {self.batch_size}, expected 1 or more", code="batch-size")
        if self.max_seconds is not None and not self.max_seconds > 0:
            what = f"max_batch_seconds is {self.max_seconds}, expected more than 0"
            raise ConfigError(what, code="batch-size")
        if self.window < 0:
            raise ConfigError(f"bucket_window is {self.window}, expected 0 or more", code="batch-size")

    def batches(
        self,
        seconds: Sequence[float] | np.ndarray,
        *,
        seed: int,
        epoch: int,
        rank: int = 0,
        world: int = 1,
        indices: Sequence[int] | np.ndarray | None = None,
    ) -> list[list[int]]:
        """Give the batches of `rank` in this epoch: a pure function of the arguments.

        `indices` names the items (all by default), `seconds` holds the length of every index. Every item is
        in one batch of one rank, exactly once, and all ranks have equally many batches: where the batches do
        not divide by `world`, the largest are split in two. Only where nothing is left to split, because all
        batches have one item, are up to `world` - 1 of them repeated: a rank without a batch would keep the
        others waiting for ever.
        """
        if not 0 <= rank < world:
            raise ConfigError(f"rank is {rank}, expected 0 to {world - 1}", code="rank")
        lengths = np.asarray(seconds, dtype=np.float64)
        order = np.arange(len(lengths)) if indices is None else np.asarray(indices, dtype=np.int64)
        if len(order) == 0:
            return []
        rng = np.random.default_rng([seed, epoch, 0x6E65756D])  # a stream of its own, apart from the items'
        if self.shuffle:
            order = rng.permutation(order)
        groups = _split_evenly(self._groups(order, lengths, world), world)
        if self.shuffle:  # neighbours of like length stay together in one step of all ranks
            steps = rng.permutation(len(groups) // world)
            groups = [groups[int(step) * world + peer] for step in steps for peer in range(world)]
        return groups[rank::world]

    def _groups(self, order: np.ndarray, lengths: np.ndarray, world: int) -> list[list[int]]:
        width = self.window * self.batch_size * world or len(order)
        groups: list[list[int]] = []
        for start in range(0, len(order), width):
            part = order[start : start + width]
            if self.window:
                part = part[np.argsort(lengths[part], kind="stable")]
            groups.extend(self._cut(part, lengths))
        return groups

    def _cut(self, part: np.ndarray, lengths: np.ndarray) -> list[list[int]]:
        """Cut a window into batches: evenly, so that no batch is a small remainder, or by padded seconds."""
        if self.max_seconds is None:
            if not self.window:
                size = self.batch_size
                return [part[i : i + size].tolist() for i in range(0, len(part), size)]
            return [chunk.tolist() for chunk in np.array_split(part, -(-len(part) // self.batch_size))]
        groups: list[list[int]] = []
        longest = 0.0
        for index in part.tolist():
            longest = max(longest, float(lengths[index])) if groups else float(lengths[index])
            full = not groups or len(groups[-1]) == self.batch_size
            if full or longest * (len(groups[-1]) + 1) > self.max_seconds:
                groups.append([])
                longest = float(lengths[index])
            groups[-1].append(index)
        return groups


def _split_evenly(groups: list[list[int]], world: int) -> list[list[int]]:
    """Split the largest batches until their number divides by `world`, keeping their order."""
    missing = -len(groups) % world
    while missing:
        largest = max(range(len(groups)), key=lambda i: len(groups[i]))
        group = groups[largest]
        half = len(group) // 2
        if half == 0:  # one item each: repeat from the start
            return groups + [list(groups[i % len(groups)]) for i in range(missing)]
        groups[largest : largest + 1] = [group[:half], group[half:]]
        missing -= 1
    return groups
