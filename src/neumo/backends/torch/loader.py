"""Reads batches for torch: the same ones, in the same order, with any number of worker processes."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from neumo.backends.torch.device import Place
from neumo.engine.backend import Batch
from neumo.types.errors import BackendError, DataError, NeumoError, did_you_mean

if TYPE_CHECKING:
    from neumo.data.source import DataSource

Key = tuple[int, int]  # (epoch, index): workers outlive an epoch, so each item is told its own


@dataclass(frozen=True)
class Packed:
    """One collated batch on its way to the main process, or the error that took its place."""

    tensors: tuple[Tensor, ...]
    items: tuple[int, ...]
    error: NeumoError | None = None

    def pin_memory(self) -> Packed:
        """Move to page-locked memory, from which a GPU copies without waiting."""
        return Packed(tuple(tensor.pin_memory() for tensor in self.tensors), self.items, self.error)


class TorchReader:
    """Reads the batches of one data source, epoch by epoch; its worker processes live until it is closed."""

    def __init__(self, source: DataSource, ports: Sequence[str], workers: int, place: Place) -> None:
        self._items = _Items(source, tuple(ports), place.weights)
        self._order = _Order()
        self._place = place
        self._loader = self._workers(workers) if workers else None

    def read(self, batches: Sequence[Sequence[int]], epoch: int) -> Iterator[Batch]:
        """Read these batches on the device; one of which every item was skipped comes without feeds."""
        self._order.keys = [[(epoch, index) for index in batch] for batch in batches]
        packed = _through(self._items, self._order.keys) if self._loader is None else _reraising(self._loader)
        bring = _over_stream if self._place.device.type == "cuda" else _directly
        return bring(_checked(packed), self._place.device)

    def close(self) -> None:
        """End the workers."""
        self._loader = None

    def _workers(self, workers: int) -> DataLoader[Packed]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*worker processes in total")
            return self._quiet_workers(workers)

    def _quiet_workers(self, workers: int) -> DataLoader[Packed]:
        return DataLoader(
            self._items,
            batch_sampler=self._order,
            num_workers=workers,
            collate_fn=cast(Any, _same),
            pin_memory=self._place.device.type == "cuda",
            worker_init_fn=_one_thread,
            multiprocessing_context="fork" if sys.platform == "linux" else "spawn",
            persistent_workers=True,
            generator=torch.Generator(),  # else the loader draws from the random numbers of the training
        )


class _Items(Dataset[Packed]):
    """Gives whole batches by their keys; an error of the data travels as a value, with all it says."""

    def __init__(self, source: DataSource, ports: tuple[str, ...], floats: torch.dtype) -> None:
        self.source = source
        self.ports = ports
        self.floats = floats

    def __getitems__(self, keys: Sequence[Key]) -> Packed:
        try:
            items = [(index, self.source.item(index, epoch)) for epoch, index in keys]
            kept = [(index, item) for index, item in items if item]  # an empty item was skipped by policy
            if not kept:
                return Packed((), ())
            arrays = self.source.collate([item for _, item in kept])
            return Packed(self._tensors(arrays), tuple(index for index, _ in kept))
        except NeumoError as error:
            return Packed((), (), error)

    def _tensors(self, arrays: Any) -> tuple[Tensor, ...]:
        missing = [port for port in self.ports if port not in arrays]
        if missing:
            raise DataError(
                f"the data has no {missing[0]!r}, which its data layer gives",
                code="collate",
                details=[f"it has {', '.join(arrays)}"],
                fixes=did_you_mean(missing[0], arrays),
            )
        return tuple(to_tensor(arrays[port], self.floats) for port in self.ports)


class _Order(Sampler[list[Key]]):
    """The batches of the epoch that is being read."""

    def __init__(self) -> None:
        self.keys: list[list[Key]] = []

    def __iter__(self) -> Iterator[list[Key]]:
        return iter(self.keys)

    def __len__(self) -> int:
        return len(self.keys)


def to_tensor(array: Any, floats: torch.dtype) -> Tensor:
    """Turn a numpy array into a tensor: whole numbers as int64, others in the precision of the weights.

    >>> to_tensor(np.array([1, 2], np.int16), torch.float32).dtype
    torch.int64
    """
    array = np.asarray(array)
    if array.dtype.kind not in "biuf":
        raise DataError(f"an array of {array.dtype} numbers cannot go into a graph", code="dtype")
    if array.dtype.kind == "u" or not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.astype(np.int64) if array.dtype.kind == "u" else array.copy()
    tensor = torch.from_numpy(np.ascontiguousarray(array)) if array.ndim else torch.tensor(array[()])
    if array.dtype.kind == "f":
        return tensor.to(floats)
    return tensor if array.dtype.kind == "b" else tensor.to(torch.int64)


def _through(items: _Items, keys: Iterable[Sequence[Key]]) -> Iterator[Packed]:
    return (items.__getitems__(batch) for batch in keys)


def _reraising(loader: DataLoader[Packed]) -> Iterator[Packed]:
    with warnings.catch_warnings():
        # The engine says when there are more workers than cores; Python 3.12 warns of forks beside threads.
        warnings.filterwarnings("ignore", message=".*(worker processes in total|use of fork)")
        stream = iter(loader)
    try:
        yield from stream
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        raise BackendError(
            f"a worker process that reads data has died: {error}",
            code="worker",
            fixes=["workers=0 shows an error of the data code itself", "fewer workers, if memory ran out"],
        ) from error


def _checked(packed: Iterator[Packed]) -> Iterator[Packed]:
    for batch in packed:
        if batch.error is not None:
            raise batch.error
        yield batch


def _directly(packed: Iterator[Packed], device: torch.device) -> Iterator[Batch]:
    for batch in packed:
        yield Batch(tuple(tensor.to(device) for tensor in batch.tensors), batch.items)


def _over_stream(packed: Iterator[Packed], device: torch.device) -> Iterator[Batch]:
    """Copy the next batch on a stream of its own while the present one is computed on."""
    stream = torch.cuda.Stream(device)
    ahead: Batch | None = None
    for batch in packed:
        with torch.cuda.stream(stream):
            pinned = batch if all(tensor.is_pinned() for tensor in batch.tensors) else batch.pin_memory()
            coming = Batch(
                tuple(tensor.to(device, non_blocking=True) for tensor in pinned.tensors), batch.items
            )
        if ahead is not None:
            yield _arrived(ahead, stream)
        ahead = coming
    if ahead is not None:
        yield _arrived(ahead, stream)


def _arrived(batch: Batch, stream: torch.cuda.Stream) -> Batch:
    current = torch.cuda.current_stream()
    current.wait_stream(stream)
    for tensor in batch.feeds:
        tensor.record_stream(current)  # else its memory might be given away while a kernel still reads it
    return batch


def _one_thread(_worker: int) -> None:
    torch.set_num_threads(1)


def _same(packed: Packed) -> Packed:
    return packed
