"""One batch of a data source as tensors, or the error that took its place."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from neumo.engine import faults
from neumo.types.errors import DataError, NeumoError, did_you_mean

if TYPE_CHECKING:
    from neumo.data.source import DataSource

_NAMED = 3  # items that a message names


@dataclass(frozen=True)
class Packed:
    """One collated batch on its way to the device, or the error that took its place."""

    tensors: tuple[Tensor, ...]
    items: tuple[int, ...]
    error: NeumoError | None = None

    def pin_memory(self) -> Packed:
        """Move to page-locked memory, from which a GPU copies without waiting."""
        return Packed(tuple(tensor.pin_memory() for tensor in self.tensors), self.items, self.error)


class Collator:
    """Makes whole batches of a data source; an error of the data is a value, with all it says."""

    def __init__(self, source: DataSource, ports: tuple[str, ...], floats: torch.dtype) -> None:
        self.source = source
        self.ports = ports
        self.floats = floats

    def pack(
        self, indices: Sequence[int], epoch: int, *, reading: Callable[[int], None] | None = None
    ) -> Packed:
        """Read and collate the items of one batch; `reading` hears each index, then -1."""
        index: int | None = None
        try:
            kept: list[tuple[int, Any]] = []
            for index in indices:
                if reading is not None:
                    reading(index)
                faults.reach("item", int(index))
                if item := self.source.item(index, epoch):  # an empty item was skipped by policy
                    kept.append((index, item))
            if not kept:
                return Packed((), ())
            index = None
            if reading is not None:
                reading(-1)
            arrays = self.source.collate([item for _, item in kept])
            return Packed(self._tensors(arrays), tuple(index for index, _ in kept))
        except NeumoError as error:
            return Packed((), (), error)
        except Exception as error:
            return Packed((), (), self._unexpected(error, indices if index is None else [index]))

    def pack_all(self, batches: Iterable[Sequence[int]], epoch: int) -> Generator[Packed, None, None]:
        """Read one batch after the other, each when it is asked for."""
        for batch in batches:
            yield self.pack(batch, epoch)

    def _unexpected(self, error: Exception, indices: Sequence[int]) -> DataError:
        """Name the items at which the code of the source failed, and the line of it that did."""
        frame = traceback.extract_tb(error.__traceback__)[:2][-1]  # the first is this module's
        raised = DataError(
            f"reading {name_items(self.source, indices)} failed: {type(error).__name__}: {error}",
            code="reading",
            where=f"{frame.filename}:{frame.lineno}",
        )
        raised.__cause__ = error
        return raised

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


def name_items(source: DataSource, indices: Sequence[int]) -> str:
    """Name the first items of a batch, and count the others."""
    more = len(indices) - _NAMED
    names = ", ".join(source.name(index) for index in indices[:_NAMED])
    return names + (f" and {more} more" if more > 0 else "")


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
