"""Processes that read batches ahead: each hands them over in memory that it shares, and can be replaced.

A batch is a pure function of its indices and the epoch, so a worker that has died is started again and given
the same batches; nothing is lost, doubled or out of order.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import os
import pickle
import signal
import sys
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
import torch.multiprocessing as processes
from torch import Tensor

from neumo.backends.torch.reading.collate import Collator, Packed, name_items
from neumo.engine.processes.workers import Workers
from neumo.types.errors import BackendError, ConfigError, NeumoError

_ALIGNED = 64  # bytes; where each tensor of a batch begins in the shared memory
_ROOM = 1.25  # how much larger than the batch that needs it new shared memory is
_LOOK = 2.0  # seconds after which an idle worker sees whether the process that it works for still lives
_GRACE = 1.0  # seconds that workers have to end by themselves


@dataclass(frozen=True, slots=True)
class _Task:
    """One batch to read, and the slot of the worker's shared memory that it goes into."""

    indices: Sequence[int]
    epoch: int
    slot: int


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor lies in shared memory, in bytes."""

    start: int
    stop: int
    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class _Reply:
    """What a worker sends back: where the tensors are, and the slot's new memory if it had to grow."""

    places: tuple[_Place, ...]
    items: tuple[int, ...]
    error: NeumoError | None
    memory: Tensor | None


class _Lost(Exception):
    """Signals that a worker will not answer any more, and why."""


class _Worker:
    """One process, the batches that it was asked for, and the memory in which it hands them over."""

    def __init__(self, collator: Collator, settings: Workers, number: int) -> None:
        self.number = number
        self.waiting: deque[tuple[_Task, bool]] = deque()  # (task, whether anybody still wants it)
        self._collator = collator
        self._settings = settings
        self._asked = 0
        self._start()

    def _start(self) -> None:
        start = self._settings.start
        if start == "auto":
            start = "fork" if sys.platform == "linux" else "spawn"
        context = processes.get_context(start)
        self.memory: dict[int, Tensor] = {}
        self.reading = torch.full((1,), -1, dtype=torch.int64).share_memory_()  # the index, -1 for none
        self.pipe, theirs = context.Pipe()
        process: Any = context  # what the contexts have in common lacks the one thing that they are for
        self.process = process.Process(
            target=_serve, args=(theirs, self._collator, self.reading, os.getpid()), daemon=True
        )
        try:
            with warnings.catch_warnings():  # Python 3.12 warns of forks beside threads
                warnings.filterwarnings("ignore", message=".*use of fork")
                self.process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise BackendError(
                f"the data cannot be sent to a process that is started with {start!r}: {error}",
                code="worker",
                fixes=["define classes and functions that the data uses at the top of a module"],
            ) from error
        theirs.close()

    def ask(self, indices: Sequence[int], epoch: int) -> None:
        """Ask for one more batch."""
        task = _Task(indices, epoch, self._asked % self._settings.prefetch)
        self._asked += 1
        self.waiting.append((task, True))
        self._send(task)

    def _send(self, task: _Task) -> None:
        with contextlib.suppress(OSError):  # it has died: that is found when its answer is awaited
            self.pipe.send(task)

    def disown(self) -> None:
        """Let go of everything that was asked for; the answers are passed over."""
        self.waiting = deque((task, False) for task, _ in self.waiting)

    def answer(self, *, pin: bool) -> Packed:
        """Wait for the next batch that is wanted; raises `_Lost` if it will not come."""
        while True:
            reply = self._receive()
            task, wanted = self.waiting[0]
            if reply.memory is not None:
                self.memory[task.slot] = reply.memory
            packed = None
            if wanted:
                memory = self.memory.get(task.slot)
                tensors = tuple(_copy(memory, place, pin=pin) for place in reply.places)
                packed = Packed(tensors, reply.items, reply.error)
            self.waiting.popleft()
            if packed is not None:
                return packed

    def _receive(self) -> _Reply:
        ready = wait([self.pipe, self.process.sentinel], self._settings.timeout)
        if not ready:
            raise _Lost(f"has not finished a batch within {self._settings.timeout:g} s")
        try:
            if self.pipe in ready:
                return self.pipe.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            pass
        self.process.join(_GRACE)
        raise _Lost(_cause_of_death(self.process.exitcode))

    def revive(self) -> None:
        """Start another process in the place of this one, and ask it for all that is still wanted."""
        self.end()
        self.waiting = deque((task, True) for task, wanted in self.waiting if wanted)
        self._start()
        for task, _ in self.waiting:
            self._send(task)

    def end(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.join(_GRACE)  # one that hangs in the system cannot be waited for
        self.pipe.close()


class Pool:
    """Worker processes that read the batches of one source, in order, as far ahead as their settings say.

    `notes` tells which workers had to be started again. `pin` puts batches into page-locked memory.
    """

    def __init__(
        self,
        collator: Collator,
        settings: Workers,
        *,
        pin: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.notes: list[str] = []
        self._tell = tell
        self._collator = collator
        self._settings = settings
        self._pin = pin
        self._workers: list[_Worker] = []
        self._busy = False
        self._deadly: int | None = None  # the index at which a worker was lost last
        end = functools.partial(_end, self._workers, os.getpid())
        self._finalizer = weakref.finalize(self, end)
        self._finalizer.atexit = False
        self._at_exit = atexit.register(end)  # runs before multiprocessing waits for its processes

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers, which start with the first batch."""
        return [worker.process.pid for worker in self._workers if worker.process.pid is not None]

    def read(self, batches: Iterable[Sequence[int]], epoch: int) -> Generator[Packed, None, None]:
        """Read these batches; a second stream that is read while another one is goes without workers."""
        if self._busy:
            yield from self._collator.pack_all(batches, epoch)
            return
        self._busy = True
        try:
            yield from self._read(iter(batches), epoch)
        finally:
            self._busy = False
            for worker in self._workers:
                worker.disown()

    def _read(self, batches: Iterator[Sequence[int]], epoch: int) -> Iterator[Packed]:
        if not self._workers:
            self._workers += [
                _Worker(self._collator, self._settings, number) for number in range(self._settings.count)
            ]
        turns: deque[_Worker] = deque()  # whose answer is awaited, in the order of the batches
        lost = 0
        for _ in range(self._settings.prefetch):
            for worker in self._workers:
                _ask_next(worker, batches, epoch, turns)
        while turns:
            worker = turns.popleft()
            while True:
                try:
                    packed = worker.answer(pin=self._pin)
                    break
                except _Lost as error:
                    lost += not self._replace(worker, str(error), lost)
            _ask_next(worker, batches, epoch, turns)
            yield packed

    def _replace(self, worker: _Worker, why: str, lost: int) -> bool:
        """Start a lost worker again; tell whether the item that has cost two of them is left out."""
        task = next(task for task, wanted in worker.waiting if wanted)
        index = int(worker.reading[0])
        known = index in task.indices
        what = f"worker {worker.number} {why} while reading "
        what += name_items(self._collator.source, [index] if known else task.indices)
        again = known and index == self._deadly
        self._deadly = index if known else None
        if again and self._leave_out(index, f"a worker that read it {why}, twice"):
            self._note(f"{what}, the second time; the item is left out")
        elif lost >= self._settings.restarts:
            raise BackendError(
                f"a worker process that reads data has died: {what}",
                code="worker",
                details=self.notes[len(self.notes) - lost :],
                why=f"Workers are started again {self._settings.restarts} times in an epoch.",
                fixes=[
                    "workers=0 shows an error of the data code itself",
                    "fewer workers, if memory ran out",
                ],
            )
        else:
            again = False
            self._note(f"{what}; it was started again")
        worker.revive()
        return again

    def _note(self, text: str) -> None:
        self.notes.append(text)
        if self._tell is not None:
            self._tell(f"data: {text}")

    def _leave_out(self, index: int, reason: str) -> bool:
        """Put an item in quarantine, if its source skips bad ones."""
        quarantine: Any = getattr(self._collator.source, "quarantine", None)
        if quarantine is None:
            return False
        try:
            quarantine([index], reason)
        except ConfigError:
            return False
        return True

    def close(self) -> None:
        """End the workers."""
        atexit.unregister(self._at_exit)
        _end(self._workers, os.getpid())


def _ask_next(worker: _Worker, batches: Iterator[Sequence[int]], epoch: int, turns: deque[_Worker]) -> None:
    batch = next(batches, None)
    if batch is not None:
        worker.ask(list(batch), epoch)
        turns.append(worker)


def _end(workers: list[_Worker], owner: int) -> None:
    if os.getpid() != owner:  # a forked worker has a copy of this list
        return
    for worker in workers:
        with contextlib.suppress(OSError):
            worker.pipe.send(None)
    until = time.monotonic() + _GRACE
    for worker in workers:
        worker.process.join(max(0.0, until - time.monotonic()))
        worker.end()
    workers.clear()


def _cause_of_death(code: int | None) -> str:
    """Say in words how a process has ended."""
    if code is None or code >= 0:
        return f"ended with exit status {code}"
    known = {int(number): number.name for number in signal.Signals}
    name = known.get(-code, f"signal {-code}")
    hints = {
        "SIGKILL": " (perhaps because memory ran out)",
        "SIGBUS": " (perhaps because shared memory ran out: docker run --shm-size=1g)",
    }
    return f"was ended by {name}{hints.get(name, '')}"


def _copy(memory: Tensor | None, place: _Place, *, pin: bool) -> Tensor:
    """Take a tensor out of shared memory, so that its slot is free for the next batch."""
    tensor = torch.empty(place.shape, dtype=place.dtype, pin_memory=pin)
    if memory is not None and place.stop > place.start:
        tensor.copy_(memory[place.start : place.stop].view(place.dtype).view(place.shape))
    return tensor


def _serve(pipe: Connection, collator: Collator, reading: Tensor, parent: int) -> None:
    """Read the batches that are asked for, until the pipe or the process at its other end is closed."""
    for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2"):
        if hasattr(signal, name):  # what they mean is decided by the process that trains; it ends its workers
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    torch.set_num_threads(1)
    gc.freeze()  # else the collector writes to, and so copies, what a forked process shares with its parent
    memory: dict[int, Tensor] = {}
    now = reading.numpy()

    def note(index: int) -> None:
        now[0] = index

    with contextlib.suppress(EOFError, OSError):
        while (task := _next_task(pipe, parent)) is not None:
            packed = collator.pack(task.indices, task.epoch, reading=note)
            pipe.send(_hand_over(packed, memory, task.slot))


def _next_task(pipe: Connection, parent: int) -> _Task | None:
    while not pipe.poll(_LOOK):
        if os.getppid() != parent:  # a forked sibling keeps the pipe open after the parent's end
            return None
    return pipe.recv()


def _hand_over(packed: Packed, memory: dict[int, Tensor], slot: int) -> _Reply:
    """Put a batch into the memory of a slot, in a larger one if it does not fit."""
    places: list[_Place] = []
    stop = 0
    for tensor in packed.tensors:
        start = -(-stop // _ALIGNED) * _ALIGNED
        stop = start + tensor.numel() * tensor.element_size()
        places.append(_Place(start, stop, tuple(tensor.shape), tensor.dtype))
    fresh: Tensor | None = None
    if places and (slot not in memory or len(memory[slot]) < stop):
        try:
            fresh = torch.empty(max(_ALIGNED, int(stop * _ROOM)), dtype=torch.uint8).share_memory_()
        except RuntimeError as error:
            return _Reply((), (), _no_memory(stop, error), None)
        memory[slot] = fresh
    for place, tensor in zip(places, packed.tensors, strict=True):
        if place.stop > place.start:
            memory[slot][place.start : place.stop].view(place.dtype).view(place.shape).copy_(tensor)
    return _Reply(tuple(places), packed.items, packed.error, fresh)


def _no_memory(size: int, error: Any) -> BackendError:
    return BackendError(
        f"a worker process could not share {size / 1e6:.1f} MB with the training: {error}",
        code="shared-memory",
        fixes=[
            "more shared memory, such as docker run --shm-size=1g",
            "fewer workers, or smaller batches",
            "more open files, by ulimit -n",
        ],
    )
