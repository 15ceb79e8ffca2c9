"""Finds the process that the others wait for."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final

from neumo.engine.processes.world import World, together

EVERY: Final = 10  # steps, of which the median is sent
SLOW: Final = 2.0  # times as long as the others
FAIR: Final = 1.5  # below this a slow process is as fast as the others again
_NOTABLE: Final = 0.1  # of a step that waiting for it must cost


class Watch:
    """Compares how long each process takes for what it does alone: reading, and computing up to the exchange.

    Every so many steps the times travel with the figures of the step. A process that takes much longer than
    the others is named once, until it is as fast as they are again.
    """

    def __init__(
        self, world: World, note: Callable[[str], None], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._world = world
        self._note = note
        self._clock = clock
        self._hosts: list[str] = (
            together(world, platform.node(), "names of machines") if world.size > 1 else []
        )
        self._own: list[float] = []  # seconds
        self._whole: list[float] = []
        self._began = clock()
        self._slow: set[int] = set()

    def begin(self) -> None:
        """A step begins: its batches are about to be read."""
        self._began = self._clock()

    def ready(self, at: float) -> list[float]:
        """Take the time at which this process was ready to exchange; give what it has to tell the others."""
        if self._world.size == 1:
            return []
        self._own.append(at - self._began)
        if len(self._own) < EVERY:
            return []
        mine = statistics.median(self._own)
        return [mine if rank == self._world.rank else 0.0 for rank in range(self._world.size)]

    def hear(self, step: int, seconds: Sequence[float]) -> None:
        """Take the times of all processes, if this was the step to tell them."""
        if self._world.size == 1:
            return
        self._whole.append(self._clock() - self._began)
        if not seconds:
            return
        whole = statistics.median(self._whole)
        self._own.clear()
        self._whole.clear()
        for rank, own in enumerate(seconds):
            usual = statistics.median([other for n, other in enumerate(seconds) if n != rank])
            if own <= FAIR * usual:
                self._slow.discard(rank)
            elif own > SLOW * usual and own - usual > _NOTABLE * whole and rank not in self._slow:
                self._slow.add(rank)
                self._say(rank, own, usual, step)

    def _say(self, rank: int, own: float, usual: float, step: int) -> None:
        if self._world.rank == 0:
            self._note(
                f"process {rank} on {self._hosts[rank]} takes {own / max(usual, 1e-9):.1f} times as long as "
                f"the median of the others since step {step - EVERY + 1}: {own:.3g} s against {usual:.3g} s "
                "a step; all of them wait for it"
            )
