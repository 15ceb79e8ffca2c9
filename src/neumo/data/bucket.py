"""The batches of an epoch: like lengths together, shuffled, as a pure function of the seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from neumo.data.batches import Batches
from neumo.types.errors import ConfigError, did_you_mean

Column = Sequence[float] | np.ndarray  # one length for every index
Columns = Column | Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds the padded size of a batch: its number of items times the longest of them.

    `of` names the lengths that count, by default the one that items are sorted by; of several, the longest of
    each are added, as for a batch of sentences with their translations. An item that is longer than `most` by
    itself has a batch of its own.

    >>> Budget(4000, of=("source", "target"))
    Budget(most=4000, of=('source', 'target'))
    """

    most: float
    of: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.most > 0:
            what = f"a budget of {self.most} leaves room for nothing, expected more than 0"
            raise ConfigError(what, code="batch-size")


@dataclass(frozen=True, slots=True)
class Bucketing:
    """Says how items are put together into batches.

    `batch_size` is the most items of a batch. `max_seconds` bounds its padded size, that is items times the
    longest of them, and `budgets` do the same for any lengths (see `Budget`); an item that is longer than
    that has a batch of its own. Items are shuffled, cut into windows of `window` batches (for each process),
    sorted by length inside each, and the batches are shuffled again: padding stays small and no two epochs
    are alike. A window of 0 does not sort.

    >>> Bucketing(batch_size=2, shuffle=False, window=0).batches([3.0, 1.0, 2.0], seed=0, epoch=0)
    [[0, 1], [2]]
    >>> by_tokens = Bucketing(batch_size=99, shuffle=False, budgets=(Budget(30, of=("source", "target")),))
    >>> by_tokens.batches({"source": [5, 6, 5, 20], "target": [5, 4, 5, 9]}, seed=0, epoch=0)
    [[0, 2], [1], [3]]
    """

    batch_size: int = 16
    max_seconds: float | None = None
    shuffle: bool = True
    window: int = 16
    budgets: tuple[Budget, ...] = ()

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
        lengths: Columns,
        *,
        seed: int,
        epoch: int,
        rank: int = 0,
        world: int = 1,
        indices: Sequence[int] | np.ndarray | None = None,
    ) -> Batches:
        """Give the batches of `rank` in this epoch: a pure function of the arguments.

        `lengths` holds the length of every index, or several by name, of which the first decides the order
        and the next ones decide between equals. `indices` names the items (all by default). Every item is
        in one batch of one rank, exactly once, and all ranks have equally many batches: where the batches do
        not divide by `world`, the largest are split in two. Only where nothing is left to split, because all
        batches have one item, are up to `world` - 1 of them repeated: a rank without a batch would keep the
        others waiting for ever.
        """
        if not 0 <= rank < world:
            raise ConfigError(f"rank is {rank}, expected 0 to {world - 1}", code="rank")
        return self.layout(lengths, seed=seed, epoch=epoch, world=world, indices=indices).of_rank(rank, world)

    def layout(
        self,
        lengths: Columns,
        *,
        seed: int,
        epoch: int,
        world: int = 1,
        indices: Sequence[int] | np.ndarray | None = None,
    ) -> Batches:
        """Give the batches of all ranks in this epoch: those of one step stand together, by rank."""
        columns = _named(lengths)
        order = np.arange(len(next(iter(columns.values())))) if indices is None else np.asarray(indices)
        if len(order) == 0:
            return Batches.of([])
        order = order.astype(np.int32 if order.max() < 2**31 else np.int64)
        rng = np.random.default_rng([seed, epoch, 0x6E65756D])  # a stream of its own, apart from the items'
        if self.shuffle:
            order = rng.permutation(order)
        groups = _split_evenly(self._groups(order, columns, world), world)
        if self.shuffle:  # neighbours of like length stay together in one step of all ranks
            steps = rng.permutation(len(groups) // world)
            groups = groups.take((steps[:, None] * world + np.arange(world)).reshape(-1))
        return groups

    def _groups(self, order: np.ndarray, columns: Mapping[str, np.ndarray], world: int) -> Batches:
        width = self.window * self.batch_size * world or len(order)
        budgets = self._budgets(columns)
        items = order.copy()
        starts: list[np.ndarray] = []
        for start in range(0, len(items), width):
            part = items[start : start + width]
            if self.window:  # stable, and the last key of lexsort goes first
                part[:] = part[np.lexsort([column[part] for column in reversed(list(columns.values()))])]
            cuts = self._cut_by_budget(part, columns, budgets) if budgets else self._cut(len(part))
            starts.append(start + cuts)
        joined = np.concatenate(starts)
        return Batches(items, joined, np.append(joined[1:], len(items)))

    def _budgets(self, columns: Mapping[str, np.ndarray]) -> list[tuple[float, list[str]]]:
        """Give each budget with the names of its lengths."""
        bounds = [] if self.max_seconds is None else [Budget(self.max_seconds)]
        found: list[tuple[float, list[str]]] = []
        for budget in (*bounds, *self.budgets):
            names = list(budget.of) or [next(iter(columns))]
            for name in names:
                if name not in columns:
                    raise ConfigError(
                        f"a budget counts {name!r}, and the items have no such length",
                        code="batch-size",
                        details=[f"they have {', '.join(columns)}"],
                        fixes=did_you_mean(name, columns),
                    )
            found.append((budget.most, names))
        return found

    def _cut(self, length: int) -> np.ndarray:
        """Cut a window into batches of like size, so that none is a small remainder."""
        if not self.window:
            return np.arange(0, length, self.batch_size)
        size, longer = divmod(length, -(-length // self.batch_size))
        sizes = np.full(-(-length // self.batch_size), size)
        sizes[:longer] += 1
        return np.cumsum(sizes) - sizes

    def _cut_by_budget(
        self, part: np.ndarray, columns: Mapping[str, np.ndarray], budgets: list[tuple[float, list[str]]]
    ) -> np.ndarray:
        """Fill one batch after the other, each as far as its padded size allows."""
        if len(budgets) == 1 and len(budgets[0][1]) == 1:
            return self._cut_by_one(columns[budgets[0][1][0]][part].tolist(), budgets[0][0])
        names = list(columns)
        counted = np.array([[name in its for name in names] for _, its in budgets], np.float64)
        most = np.array([[bound] for bound, _ in budgets])
        rows = np.stack([columns[name][part] for name in names])
        counts = np.arange(1, self.batch_size + 1)
        cuts, position = [0], 0
        while position < len(part):
            longest = np.maximum.accumulate(rows[:, position : position + self.batch_size], axis=1)
            padded = counted @ longest * counts[: longest.shape[1]]
            full: np.ndarray = np.any(padded > most, axis=0)
            full[0] = False  # an item that is too long by itself
            position += int(full.argmax()) or len(full)
            cuts.append(position)
        return np.array(cuts[:-1])

    def _cut_by_one(self, lengths: list[float], most: float) -> np.ndarray:
        """Do the same for one budget of one length, without arrays, which are slow when they are short."""
        cuts: list[int] = []
        longest, count = 0.0, self.batch_size
        for position, length in enumerate(lengths):
            longest, count = (length if length > longest else longest), count + 1
            if count > self.batch_size or longest * count > most:
                cuts.append(position)
                longest, count = length, 1
        return np.array(cuts)


def _named(lengths: Columns) -> dict[str, np.ndarray]:
    """Give every length as an array of float64 by its name."""
    columns: Mapping[str, Column] = lengths if isinstance(lengths, Mapping) else {"length": lengths}
    return {name: np.asarray(column, np.float64) for name, column in columns.items()}


def _split_evenly(groups: Batches, world: int) -> Batches:
    """Split the largest batches until their number divides by `world`, keeping their order."""
    for missing in range(-len(groups) % world, 0, -1):
        sizes = groups.sizes
        largest = int(sizes.argmax())
        half = int(sizes[largest]) // 2
        if half == 0:  # one item each: repeat from the start
            return groups.take(np.append(np.arange(len(groups)), np.arange(missing) % len(groups)))
        middle = groups.starts[largest] + half
        groups = Batches(
            groups.items,
            np.insert(groups.starts, largest + 1, middle),
            np.insert(groups.stops, largest, middle),
        )
    return groups
