"""A pass over all batches that several processes share, and whose results the first one takes in order.

Process r of n computes the batches r, r + n, r + 2n, ... and the first process is given all of them as if it
had computed them by itself, so that what it makes of them does not depend on how many processes there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from neumo.engine.processes.array_bytes import pack_arrays, pack_several, unpack_arrays, unpack_several
from neumo.engine.processes.world import World, share_trouble
from neumo.types.errors import BackendError

_TURNS: Final = 4  # batches of each process that are on their way at once: what bounds the memory


@dataclass(frozen=True, slots=True)
class Computed:
    """What came of one batch: its items, none if all were left out, and the arrays that were wanted."""

    items: tuple[int, ...]
    arrays: list[Any]


def own_turns(world: World, batches: Sequence[Any]) -> range:
    """The numbers of the batches that this process computes, in order.

    >>> from neumo.engine.processes.world import Alone
    >>> own_turns(Alone(), ["a", "b", "c"])
    range(0, 3)
    """
    return range(world.rank, len(batches), world.size)


def use_in_order(
    world: World,
    count: int,
    computed: Iterator[Computed],
    use: Callable[[Computed], None],
    names: Sequence[str] = (),
) -> None:
    """Let the first process use the results of all `count` batches, in their order.

    `computed` yields those of this process, one for each of `own_turns`. Results travel every few batches, so
    that no process holds many of them. `names` are those of the arrays, for messages.

    Raises, in all processes, what goes wrong in any: the process itself its own error, the others a
    `BackendError` that names it.
    """
    if world.size == 1:
        for each in computed:
            use(each)
        return
    _check_same(world, count)
    trouble: Exception | None = None
    for start in range(0, count, _TURNS * world.size):
        parts: list[bytes] = []
        if trouble is None:
            mine = range(start + world.rank, min(start + _TURNS * world.size, count), world.size)
            try:
                parts = [_packed(next(computed), names) for _ in mine]
            except Exception as error:
                trouble = error
        share_trouble(world, trouble, "a pass over the data")
        try:
            _use_round(world.gather(pack_several(parts), "results of a pass over the data"), world.size, use)
        except Exception as error:
            trouble = error  # of the first process, which the others learn at the next exchange
    share_trouble(world, trouble, "a pass over the data")


def _packed(computed: Computed, names: Sequence[str]) -> bytes:
    items = b",".join(str(item).encode() for item in computed.items)
    return pack_several([items, pack_arrays(computed.arrays, names)])


def _use_round(gathered: Sequence[bytes], size: int, use: Callable[[Computed], None]) -> None:
    if not gathered:
        return  # not the first process
    queues = [unpack_several(data) for data in gathered]
    for place in range(sum(map(len, queues))):
        items, arrays = unpack_several(bytes(queues[place % size][place // size]))
        text = bytes(items).decode()
        use(Computed(tuple(int(item) for item in text.split(",") if item), unpack_arrays(arrays)))


def _check_same(world: World, count: int) -> None:
    least, most = world.largest([-float(count), float(count)], "how many batches a pass has")
    if -least != most:
        raise BackendError(
            f"the processes do not see the same data: one has {-least:.0f} batches, another {most:.0f}",
            code="divided",
            why="They share the batches of one list, so the list must be the same in all.",
            fixes=["the same manifests and recordings on every machine"],
        )
