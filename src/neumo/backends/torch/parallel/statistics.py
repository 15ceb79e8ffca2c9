"""Statistics that forward passes leave in modules: kept, put back, and the same in all processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import torch
import torch.distributed as dist
from torch import Tensor, nn

from neumo.backends.torch.parallel.sync_norm import SyncedNorms
from neumo.backends.torch.weights import state_names
from neumo.engine.processes.world import World

_HALF: Final = (torch.float16, torch.bfloat16)


class Statistics:
    """The saved buffers of some modules: running means, codebooks, counters, flags.

    >>> layer = nn.BatchNorm1d(2)
    >>> statistics = Statistics([layer])
    >>> with statistics.untouched():
    ...     _ = layer(torch.tensor([[1.0, 2.0], [3.0, 2.0]]))
    >>> layer.running_mean, int(layer.num_batches_tracked)
    (tensor([0., 0.]), 0)

    They are looked up by name at each use, since a forward pass may put a new tensor in the place of one, of
    another shape as well: a table that grows with the longest input so far.
    """

    def __init__(self, modules: Iterable[nn.Module], apart: Iterable[nn.Module] = ()) -> None:
        """`apart` are layers that pass over by themselves what does not count, as synced norms do."""
        self._places = _places(modules)
        self._apart = {id(layer) for layer in apart}
        self._kept = [value.clone() for value in self._now()]
        self._shapes = [value.shape for value in self._kept]  # which all processes share

    def without(self, others: Statistics) -> Statistics:
        """Leave out what others have."""
        theirs = {id(value) for value in others._now()}
        places = zip(self._places, self._now(), strict=True)
        self._places = [place for place, value in places if id(value) not in theirs]
        self._kept = [value.clone() for value in self._now()]
        self._shapes = [value.shape for value in self._kept]
        return self

    def _now(self) -> list[Tensor]:
        return [_buffer(layer, name) for layer, name in self._places]

    def keep(self) -> None:
        """Remember them as they are, before a step."""
        now = self._now()
        if [value.shape for value in now] == [kept.shape for kept in self._kept]:
            copy_all(self._kept, now)
        else:
            self._kept = [value.clone() for value in now]

    def put_back(self) -> None:
        """Make them again what they were when they were kept."""
        _restore(self._places, self._kept)

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Let forward and backward passes leave no trace in them."""
        places = [(layer, name) for layer, name in self._places if id(layer) not in self._apart]
        before = [_buffer(layer, name).clone() for layer, name in places]
        try:
            yield
        finally:
            _restore(places, before)

    def pairs(self, joined: Iterable[nn.Module] = ()) -> list[tuple[Tensor, Tensor]]:
        """Return what layers in training mode have, now and when it was kept; but for `joined` layers.

        In the place of what has another shape now, there are zeros that nobody holds.
        """
        left_out = {id(layer) for layer in joined}
        found: list[tuple[Tensor, Tensor]] = []
        for (layer, name), kept, shape in zip(self._places, self._kept, self._shapes, strict=True):
            if layer.training and id(layer) not in left_out:
                value = _buffer(layer, name)
                grown = not value.shape == kept.shape == shape
                found.append((kept.new_zeros(shape), kept.new_zeros(shape)) if grown else (value, kept))
        return found

    def from_first(self) -> None:
        """Take those of the first process, in all processes."""
        values = self._now()
        if not values:
            return
        flat = torch.cat([value.reshape(-1).view(torch.uint8) for value in values])
        dist.broadcast(flat, 0)
        parts = flat.split([value.numel() * value.element_size() for value in values])
        copy_all(
            values, [part.clone().view(v.dtype).view(v.shape) for v, part in zip(values, parts, strict=True)]
        )


class Shared:
    """Makes statistics the same in all processes after each step, so that all evaluate and save one model.

    What is a real number moves by the mean of what the processes have moved it by, each weighted by its part
    of the step. Running means move towards the statistics of a batch linearly, so they become what they would
    be had each moved towards the mean of the statistics of all; what no process has moved stays as it is, bit
    by bit. Counters and flags become the largest of all processes. Layers in evaluation mode are left alone,
    and so are norms that are synchronised over all processes, which have done it already.
    """

    def __init__(self, statistics: Statistics, world: World, synced: SyncedNorms | None = None) -> None:
        self._statistics = statistics
        self._divided = world.size > 1
        whole = synced is not None and dist.get_world_size(synced.group) == world.size
        self._joined = list(synced.norms) if synced is not None and whole else []
        if self._divided:
            statistics.from_first()

    @torch.no_grad()
    def average(self, share: float) -> None:
        """Exchange them; `share` is the part of the step that this process has computed, from 0 to 1."""
        pairs = self._statistics.pairs(self._joined) if self._divided else []
        real = [pair for pair in pairs if pair[0].is_floating_point() or pair[0].is_complex()]
        numbers = [value for value, _ in pairs if not (value.is_floating_point() or value.is_complex())]
        if real:
            _move_together([_real(value) for value, _ in real], [_real(kept) for _, kept in real], share)
        if numbers:
            flat = torch.cat([value.reshape(-1).to(torch.int64) for value in numbers])
            dist.all_reduce(flat, op=dist.ReduceOp.MAX)
            _spread(flat, numbers)


def _move_together(values: Sequence[Tensor], kept: Sequence[Tensor], share: float) -> None:
    # An observer starts from infinity: what has no difference to its start is averaged itself.
    before = torch.nan_to_num(_flat(kept), nan=0.0, posinf=0.0, neginf=0.0)
    moved = (_flat(values) - before) * share if share else torch.zeros_like(before)
    dist.all_reduce(moved)
    _spread(torch.where(moved == 0, before, before + moved), values)


def _flat(values: Sequence[Tensor]) -> Tensor:
    return torch.cat([(v.float() if v.dtype in _HALF else v).reshape(-1) for v in values])


def _spread(flat: Tensor, values: Sequence[Tensor]) -> None:
    parts = flat.split([value.numel() for value in values])
    copy_all(values, [part.view(value.shape) for value, part in zip(values, parts, strict=True)])


def _real(value: Tensor) -> Tensor:
    return torch.view_as_real(value) if value.is_complex() else value


def _places(modules: Iterable[nn.Module]) -> list[tuple[nn.Module, str]]:
    """Find the buffers that are saved, each once: those that are not are constants."""
    found: dict[int, tuple[nn.Module, str]] = {}
    for module in modules:
        saved = set(state_names(module))
        for path, layer in module.named_modules():
            for name, value in layer.named_buffers(recurse=False):
                if (f"{path}.{name}" if path else name) in saved:
                    found.setdefault(id(value), (layer, name))
    return list(found.values())


def _buffer(layer: nn.Module, name: str) -> Tensor:
    value = layer._buffers[name]
    return value if value is not None else torch.empty(0)  # it was there when the training began


def _restore(places: Sequence[tuple[nn.Module, str]], values: Sequence[Tensor]) -> None:
    pairs = [(_buffer(layer, name), value) for (layer, name), value in zip(places, values, strict=True)]
    for (layer, name), (now, value) in zip(places, pairs, strict=True):
        if now.shape != value.shape:
            layer._buffers[name] = value.clone()
    same = [pair for pair in pairs if pair[0].shape == pair[1].shape]
    copy_all([now for now, _ in same], [value for _, value in same])


def copy_all(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy tensors into others of their shapes."""
    if targets:
        with torch.no_grad():
            torch._foreach_copy_(list(targets), list(sources))  # pyright: ignore[reportPrivateImportUsage]
