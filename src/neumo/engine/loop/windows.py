"""Which batches make a step: the windows of an epoch, and the share that one process has in each.

A step uses `batches` batches, over all processes, in an order that does not depend on how many those are: two
processes that compute two batches each make the same steps as four that compute one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from neumo.engine.processes.world import World
from neumo.types.errors import ConfigError, DataError

if TYPE_CHECKING:
    from neumo.data.source import DataSource

Batches = Sequence[Sequence[int]]
NOTHING: Sequence[int] = ()  # a turn without a batch
Window = Batches  # what one process computes for one step; empty where it lacks a batch


@dataclass(frozen=True)
class Share:
    """The part of an epoch that one process has: the windows to come, and how long the epoch is.

    `batches` counts those of the whole epoch, over all processes. One of the `spares` is computed, for the
    sake of the others, in a turn for which this process has no batch. `reference` is how many items a step
    has on average, over all processes.
    """

    batches: int
    windows: Sequence[Window]
    spares: Sequence[Sequence[int]]
    reference: float


def settle_batches(asked: int | None, before: int | None, processes: int) -> int:
    """Decide how many batches a step has: as asked, as in the training that goes on, or one a process.

    >>> settle_batches(None, None, 2), settle_batches(8, None, 2), settle_batches(None, 2, 1)
    (2, 8, 2)
    """
    if asked is not None and asked < processes:
        raise ConfigError(
            f"batches_per_step={asked} leaves some of the {processes} processes without anything to do",
            code="batches-per-step",
            fixes=[f"batches_per_step={processes}", "fewer processes"],
        )
    return asked if asked is not None else max(before or 0, processes)


def share_of(
    source: DataSource, epoch: int, world: World, batches: int, *, layout: int | None = None, used: int = 0
) -> Share:
    """Give a process its share of an epoch of which `used` batches were used already.

    `layout` is how many batches a step had when the epoch began; a training that goes on with another number
    uses the rest of the epoch in the order in which it was laid out then.

    Raises `DataError`, in all processes, if there is no batch or one of them would never get any.
    """
    if layout is None or layout == batches:
        windows, count = _laid_out(source, epoch, world, batches)
        left = windows[-(-used // batches) :]
    else:
        everything = _sequence(source, epoch, layout)
        count = len(everything)
        left = [
            everything[start : start + batches][world.rank :: world.size]
            for start in range(used, count, batches)
        ]
        windows = [everything[world.rank :: world.size]]
    turns = -(-batches // world.size)  # the same in all processes: layers may exchange statistics in each
    left = [[*window, *([NOTHING] * (turns - len(window)))] for window in left]
    spares = _spares(source, windows, world)
    (items,) = world.sum([float(sum(len(batch) for window in windows for batch in window))])
    return Share(count, left, spares, items / -(-count // batches) or 1.0)  # the same after a resume


def count_windows(source: DataSource, epoch: int, world: World, batches: int) -> int:
    """Count the steps of an epoch."""
    return _laid_out(source, epoch, world, batches)[1] // batches


def steps_left(source: DataSource, epoch: int, world: World, batches: int, *, layout: int, used: int) -> int:
    """Count the steps that `share_of` gives for the rest of an epoch."""
    if layout == batches:
        return max(count_windows(source, epoch, world, batches) - -(-used // batches), 0)
    everything = _sequence(source, epoch, layout)
    steps = (everything[start : start + batches] for start in range(used, len(everything), batches))
    return sum(any(len(batch) for batch in step) for step in steps)  # without a batch it is none


def count_batches(source: DataSource, epoch: int, batches: int) -> int:
    """Count the batches of an epoch whose steps use so many."""
    lists = [source.batches(epoch, rank=place, world=batches) for place in range(batches)]
    return sum(len(batch) > 0 for each in lists for batch in each)


def _laid_out(source: DataSource, epoch: int, world: World, batches: int) -> tuple[list[Window], int]:
    """The windows of this process, and how many batches all have; only its own batches are made."""
    places = range(world.rank, batches, world.size)
    lists = [source.batches(epoch, rank=place, world=batches) for place in places]
    (longest,) = world.largest([float(max(len(each) for each in lists))])
    rows = range(int(longest))
    return [[each[row] if row < len(each) else NOTHING for each in lists] for row in rows], len(
        rows
    ) * batches


def _sequence(source: DataSource, epoch: int, layout: int) -> Batches:
    """All batches of an epoch, window by window."""
    lists = [source.batches(epoch, rank=place, world=layout) for place in range(layout)]
    rows = range(max(len(each) for each in lists))
    return [each[row] if row < len(each) else NOTHING for row in rows for each in lists]


def _spares(source: DataSource, windows: Sequence[Window], world: World) -> Batches:
    mine = [batch for batch in chain.from_iterable(windows) if len(batch)]
    counts = world.sum([float(len(mine) if rank == world.rank else 0) for rank in range(world.size)])
    if not any(counts):
        raise DataError("the data has no batch, so there is nothing to train on", code="no-data")
    if not all(counts):
        raise DataError(
            f"process {counts.index(0)} of {world.size} gets no batch in this epoch",
            code="no-data",
            details=["batches by process: " + ", ".join(f"{count:.0f}" for count in counts)],
            why="A process without a batch has nothing to add to a step, and the others would wait for it.",
            fixes=[
                "fewer processes",
                "smaller batches",
                f"let {type(source).__name__}.batches divide evenly",
            ],
        )
    return mine
