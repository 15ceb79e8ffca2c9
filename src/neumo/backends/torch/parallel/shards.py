"""Tensors of which each process holds a part (`DTensor`), beside those that are whole."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def is_sharded(value: Tensor) -> bool:
    """Say whether other processes hold the rest of a tensor.

    >>> is_sharded(torch.zeros(2))
    False
    """
    room: Any = sys.modules.get("torch.distributed.tensor")  # slow to import, and imported by whoever shards
    return room is not None and isinstance(value, room.DTensor)


def own_shard(value: Tensor) -> Tensor:
    """Give the part of a tensor that is here, in the same memory; it may be empty."""
    held: Any = value
    return held.to_local() if is_sharded(value) else value


def whole(value: Tensor) -> Tensor:
    """Bring a tensor together; all processes call it, and all get it."""
    held: Any = value
    return held.full_tensor() if is_sharded(value) else value


def gather(tensors: Mapping[str, Tensor], *, first: bool) -> dict[str, Tensor]:
    """Bring tensors together one after the other, into the memory of the CPU of the first process.

    All processes call it, with the same names in the same order; the others get nothing.
    """
    found: dict[str, Tensor] = {}
    for name, value in tensors.items():
        brought = whole(value.detach())
        if first:
            found[name] = brought.cpu()
    return found


def sharded(value: Tensor, like: Tensor) -> Tensor:
    """Keep of a whole tensor the part that belongs beside `like`; of another shape it is kept whole.

    Every process has the same `value`, so nothing is exchanged.
    """
    if is_sharded(value) or not is_sharded(like):
        return value
    from torch.distributed.tensor import Replicate, distribute_tensor

    held: Any = like
    placements = held.placements if value.shape == like.shape else [Replicate()]
    moved = value.to(like.device)
    return distribute_tensor(moved, held.device_mesh, placements, src_data_rank=None)


def room_for(shape: torch.Size, dtype: torch.dtype, like: Tensor | None) -> Tensor:
    """Make an uninitialised tensor: in parts beside a `like` of its shape, else whole and on the CPU."""
    if like is not None and is_sharded(like) and like.shape == shape:
        return torch.empty_like(like.detach(), dtype=dtype)
    return torch.empty(shape, dtype=dtype)


@torch.no_grad()
def put(target: Tensor, value: Tensor) -> None:
    """Copy values into a tensor; either may be in parts."""
    own_shard(target).copy_(own_shard(sharded(value, target)))
