"""The processes of a training, joined through torch.distributed."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import signal
import sys
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from neumo.engine import faults
from neumo.engine.processes.launch import launched
from neumo.engine.processes.world import Alone, World
from neumo.types.errors import BackendError

_ANSWER_SECONDS = 10.0  # that a process which is alive may take to say so
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
_SHOWN = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_ROW = 16  # numbers of each process in the exchange that every other one begins with
_NAME = 120  # bytes that say what an exchange is about
_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # what torchrun and others set


class TorchWorld:
    """All processes of the default group; what it exchanges travels over gloo, in the memory of the CPU."""

    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()

    def sum(self, numbers: Sequence[float], what: str = "") -> list[float]:
        """Add numbers up over all processes, in float64."""
        return self._reduced(numbers, dist.ReduceOp.SUM, f"the sum of {what or 'numbers'}")

    def largest(self, numbers: Sequence[float], what: str = "") -> list[float]:
        """Take the largest number of all processes."""
        return self._reduced(numbers, dist.ReduceOp.MAX, f"the largest of {what or 'numbers'}")

    def _reduced(self, numbers: Sequence[float], how: dist.ReduceOp.RedOpType, what: str) -> list[float]:
        faults.reach("exchange")
        fits = len(numbers) <= _ROW - 2
        with self._explaining():
            rows = self._meet(f"{what} ({len(numbers)})", len(numbers), numbers if fits else ())
            if not fits:
                values = torch.tensor(list(numbers), dtype=torch.float64)
                dist.all_reduce(values, op=how)
                return values.tolist()
        values = rows[0, 2 : 2 + len(numbers)].clone()
        for row in rows[1:, 2 : 2 + len(numbers)]:  # in the order of the ranks, so always the same sum
            values = values + row if how == dist.ReduceOp.SUM else torch.maximum(values, row)
        return values.tolist()

    def _meet(self, what: str, size: int, numbers: Sequence[float] = ()) -> Tensor:
        """Begin an exchange: give every process a row of each: what it is about, its size, and its numbers.

        Every exchange begins with this one, so that different ones meet in it and not in each other's data.
        """
        mark = float(zlib.crc32(what.encode()))
        mine = torch.zeros(_ROW, dtype=torch.float64)
        mine[: 2 + len(numbers)] = torch.tensor([mark, float(size), *numbers], dtype=torch.float64)
        rows = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(rows, mine)
        table = torch.stack(rows)
        if bool((table[:, 0] != mark).any()):
            raise self._elsewhere(what)
        return table

    def _elsewhere(self, what: str) -> BackendError:
        text = what.encode()[:_NAME]
        names = [torch.zeros(_NAME, dtype=torch.uint8) for _ in range(self.size)]
        dist.all_gather(names, _tensor(text.ljust(_NAME, b"\0")))
        told = [bytes(name.numpy()).rstrip(b"\0").decode(errors="replace") for name in names]
        ranks = {name: [str(rank) for rank, each in enumerate(told) if each == name] for name in told}
        return BackendError(
            "the processes do not do the same: they exchange different things",
            code="exchange",
            details=[f"process {', '.join(which)}: {name}" for name, which in ranks.items()],
            why="What all processes do together, each has to do, in the same order.",
            fixes=["call run.evaluate, run.save and the like in all processes, whatever run.first says"],
        )

    @contextmanager
    def _explaining(self) -> Generator[None, None, None]:
        try:
            yield
        except RuntimeError as error:
            if is_about_others(error):
                raise others_lost(error, self) from error
            raise

    def gather(self, data: bytes, what: str = "") -> list[bytes]:
        """Bring the data of all processes to rank 0; the others get []."""
        with self._explaining():
            rows = self._meet(f"{what or 'data'} of all", len(data))
            sizes = [int(length) for length in rows[:, 1]]
            padded = torch.zeros(max(*sizes, 1), dtype=torch.uint8)
            padded[: len(data)] = _tensor(data)
            if self.rank:
                dist.gather(padded)
                return []
            parts = [torch.empty_like(padded) for _ in range(self.size)]
            dist.gather(padded, parts)
            return [bytes(part[:size].numpy()) for part, size in zip(parts, sizes, strict=True)]

    def share(self, data: bytes, what: str = "") -> bytes:
        """Give all processes the data of rank 0."""
        with self._explaining():
            length = int(self._meet(f"{what or 'data'} of the first", len(data))[0, 1])
            whole = _tensor(data) if self.rank == 0 else torch.empty(length, dtype=torch.uint8)
            if length:
                dist.broadcast(whole, 0)
            return bytes(whole.numpy())

    def wait(self) -> None:
        """Wait until all processes are here."""
        self.sum([0.0], "waiting")

    def missing(self) -> list[int]:
        """Find out, after a timeout, which processes do not answer; only the first one can know, if it lives.

        It waits for some seconds, in a group that nothing else uses.
        """
        if _Spare.group is None:
            return []
        wait = timedelta(seconds=_ANSWER_SECONDS)
        try:
            dist.monitored_barrier(_Spare.group, timeout=wait, wait_all_ranks=True)
        except RuntimeError as error:
            return ranks_in(str(error))
        return []


class _Spare:
    """The group in which processes are asked whether they answer."""

    group: dist.ProcessGroup | None = None


def ranks_in(message: str) -> list[int]:
    """Read the processes that torch names as those which did not come to a barrier.

    >>> ranks_in("[Rank 0]: Ranks 2, 5 failed to pass monitoredBarrier in 5000 ms")
    [2, 5]
    """
    found = re.search(r"Ranks? ([\d, ]+) failed to pass", message)
    return [int(word) for word in found[1].replace(",", " ").split()] if found else []


def local_rank() -> int:
    """The number of this process on its machine, from 0."""
    return int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", "0")))


def own_device(device: str, world: World) -> str:
    """Give each process of a machine a GPU of its own; one that is named, or a CPU, stays as it is.

    >>> own_device("cpu", Alone()), own_device("cuda", Alone())
    ('cpu', 'cuda')
    """
    shares = world.size > 1 and torch.cuda.is_available() and device in ("auto", "cuda")
    return f"cuda:{_own_number()}" if shares else device


def _own_number() -> int:
    """A launcher may show each process its own GPU only (SLURM: --gpus-per-task), which then is number 0."""
    shown = any(os.environ.get(name) for name in _SHOWN)
    return 0 if shown and torch.cuda.device_count() == 1 else local_rank()


def take_device(device: torch.device, world: World) -> None:
    """Make the GPU of this process the one that is meant where none is named: by pinned memory, by NCCL."""
    if world.size > 1 and device.type == "cuda":
        torch.cuda.set_device(device)


def join(timeout_minutes: float = 30.0) -> World:
    """Join the processes that were launched together; a process that was launched alone is `Alone`.

    Every wait for the others ends after the timeout. Raises `BackendError` if the others do not come.
    """
    if not dist.is_available() or not launched():
        return Alone()
    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        try:
            _start(backend, timedelta(minutes=timeout_minutes))
        except (RuntimeError, ValueError) as error:
            raise _cannot_join(error) from error
        spare: Any = dist.new_group(backend="gloo")
        _Spare.group = spare
        atexit.register(_leave)
        _end_with_launcher()
    return TorchWorld()


def _start(backend: str, timeout: timedelta) -> None:
    from torch.distributed.rendezvous import rendezvous  # not in every build of torch

    from neumo.backends.torch.parallel.meeting import is_shared, own_room

    if not is_shared():
        dist.init_process_group(backend, timeout=timeout)
        return
    store, rank, size = next(iter(rendezvous("env://", timeout=timeout)))
    room = own_room(store, rank, size, timeout)
    dist.init_process_group(backend, store=room, rank=rank, world_size=size, timeout=timeout)


def _end_with_launcher() -> None:
    """Let this process die with torchrun: it must not write checkpoints beside those that come after it."""
    if sys.platform == "linux" and "TORCHELASTIC_RUN_ID" in os.environ:
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


_LOST = ("closed by peer", "reset by peer", "Broken pipe", "Timed out waiting", "timeout", "NCCL")


def is_about_others(error: BaseException) -> bool:
    """Say whether an error means that another process has ended or does not answer.

    >>> is_about_others(RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer"))
    True
    >>> is_about_others(RuntimeError("Application timeout caused pair closure"))
    True
    """
    if isinstance(error, RuntimeError) and "pair closure" in str(error):  # gloo, which does not say its name
        return True
    kinds = (dist.DistBackendError, dist.DistNetworkError) if dist.is_available() else ()
    text = str(error)
    return isinstance(error, kinds) or (
        isinstance(error, RuntimeError)
        and any(word in text for word in _LOST)
        and any(word in text.lower() for word in ("gloo", "nccl", "process group"))
    )


def _is_timeout(error: BaseException) -> bool:
    """In gloo either the wait that runs out says it, or one behind it, which finds its pair closed."""
    return any(word in str(error).lower() for word in ("timed out", "timeout"))


def others_lost(error: BaseException, world: World) -> BackendError:
    """Say that another process has ended, or has not answered in time."""
    (reason, *_) = str(error).splitlines() or [""]
    late = world.missing() if isinstance(world, TorchWorld) and _is_timeout(error) else []
    named = [f"no answer from process {', '.join(map(str, late))}"] if late else []
    return BackendError(
        f"process {world.rank} of {world.size} has lost another one, which has ended or does not answer",
        code="peer-lost",
        details=[*named, reason[:300]],
        fixes=[
            "look for the message of the process that failed first",
            "DDP(timeout_minutes=60) waits longer, if one of them is slow",
        ],
    )


def _cannot_join(error: Exception) -> BackendError:
    given = ", ".join(f"{name}={os.environ.get(name)}" for name in _NEEDED)
    return BackendError(
        f"the other processes of this training cannot be joined: {error}",
        code="join",
        details=[given],
        fixes=[
            "launch with `neumo train --processes N`, or with torchrun",
            "see that the machine of rank 0 can be reached: MASTER_ADDR, firewall, GLOO_SOCKET_IFNAME",
        ],
    )
