"""Reads batches for torch: the same ones, in the same order, with any number of worker processes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import torch

from neumo.backends.torch.device import Place
from neumo.backends.torch.reading.collate import Collator, Packed
from neumo.backends.torch.reading.collate import to_tensor as to_tensor
from neumo.backends.torch.reading.pool import Pool
from neumo.engine.backend import Batch
from neumo.engine.processes.workers import Workers

if TYPE_CHECKING:
    from neumo.data.source import DataSource


class TorchReader:
    """Reads the batches of one data source, epoch by epoch; its worker processes live until it is closed.

    `tell` hears of each worker that was lost and started again, which `notes` lists as well.
    """

    def __init__(
        self,
        source: DataSource,
        ports: Sequence[str],
        workers: int | Workers,
        place: Place,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        settings = Workers.of(workers)
        self._collator = Collator(source, tuple(ports), place.weights)
        self._place = place
        pin = place.device.type == "cuda"
        self._pool = Pool(self._collator, settings, pin=pin, tell=tell) if settings.count else None

    @property
    def notes(self) -> list[str]:
        """Say which workers were lost and started again."""
        return [] if self._pool is None else self._pool.notes

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers, which start with the first batch."""
        return [] if self._pool is None else self._pool.pids

    def read(self, batches: Sequence[Sequence[int]], epoch: int) -> Generator[Batch, None, None]:
        """Read these batches on the device; one of which every item was skipped comes without feeds."""
        packed = (
            self._collator.pack_all(batches, epoch) if self._pool is None else self._pool.read(batches, epoch)
        )
        bring = _over_stream if self._place.device.type == "cuda" else _directly
        return bring(_checked(packed), self._place.device)

    def close(self) -> None:
        """End the workers."""
        if self._pool is not None:
            self._pool.close()


def _checked(packed: Generator[Packed, None, None]) -> Generator[Packed, None, None]:
    with closing(packed):
        for batch in packed:
            if batch.error is not None:
                raise batch.error
            yield batch


def _directly(packed: Generator[Packed, None, None], device: torch.device) -> Generator[Batch, None, None]:
    with closing(packed):
        for batch in packed:
            yield Batch(tuple(tensor.to(device) for tensor in batch.tensors), batch.items)


def _over_stream(packed: Generator[Packed, None, None], device: torch.device) -> Generator[Batch, None, None]:
    """Copy the next batch on a stream of its own while the present one is computed on.

    Where the next one cannot be read, the present one is handed over first: its step is not lost.
    """
    stream = torch.cuda.Stream(device)
    ahead: Batch | None = None
    with closing(packed):
        while True:
            try:
                coming = _sent(next(packed), stream, device)
            except Exception as end:  # there is no other one, or it cannot be read
                if ahead is not None:
                    yield _arrived(ahead, stream, device)
                if isinstance(end, StopIteration):
                    return
                raise
            if ahead is not None:
                yield _arrived(ahead, stream, device)
            ahead = coming


def _sent(batch: Packed, stream: torch.cuda.Stream, device: torch.device) -> Batch:
    with torch.cuda.stream(stream):
        pinned = batch if all(tensor.is_pinned() for tensor in batch.tensors) else batch.pin_memory()
        return Batch(tuple(tensor.to(device, non_blocking=True) for tensor in pinned.tensors), batch.items)


def _arrived(batch: Batch, stream: torch.cuda.Stream, device: torch.device) -> Batch:
    current = torch.cuda.current_stream(device)  # which need not be that of the first GPU
    current.wait_stream(stream)
    for tensor in batch.feeds:
        tensor.record_stream(current)  # else its memory might be given away while a kernel still reads it
    return batch
