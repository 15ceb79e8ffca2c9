"""Averages weights over steps (EMA), beside the weights that are trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from neumo.backends.torch.parallel.shards import own_shard, put
from neumo.backends.torch.parallel.statistics import copy_all
from neumo.backends.torch.save import seen_as, twins
from neumo.engine.updates.optimizers import EMA


class Average:
    """Follows some weights at a distance: `average += (weights - average) * (1 - decay)` after each update.

    >>> weight = torch.zeros(1)
    >>> average = Average(EMA(decay=0.9, warmup=False), {"w": weight})
    >>> weight += 1.0
    >>> average.update()
    >>> [round(float(value), 3) for value in average.tensors["w"]]
    [0.1]

    `tensors` are the averaged values by name: floating point ones are averaged, counters are copied. Averages
    of half precision weights are in float32: in bf16 a step of a thousandth of the way moves nothing.
    """

    def __init__(self, spec: EMA, live: Mapping[str, Tensor]) -> None:
        self.spec = spec
        self.updates = 0
        shared = twins(live)  # tied weights: averaged once, or swapping them twice would undo the swap
        own = [name for name in live if name not in shared]
        self.tensors = {name: _wide(live[name].detach()).clone() for name in own}
        for name, first in shared.items():
            self.tensors[name] = seen_as(self.tensors[first], live[name], live[first])
        floating = [name for name in own if live[name].is_floating_point()]
        # Each process averages the parts that it has: what follows is number by number.
        self._live = [own_shard(live[name].detach()) for name in floating]
        self._mean = [own_shard(self.tensors[name]) for name in floating]
        counters = [name for name in own if name not in floating]
        self._counters = [self.tensors[name] for name in counters], [live[name] for name in counters]
        self._exact: list[Tensor] = []  # averages as they were, while weights of half precision hold them
        self._pairs = [(own_shard(self.tensors[name]), own_shard(live[name].detach())) for name in own]

    @torch.no_grad()
    def update(self) -> None:
        """Move the average towards the weights, after an update of them."""
        self.updates += 1
        step = 1.0 - self.spec.decay_at(self.updates)
        live = [_wide(value) for value in self._live]
        torch._foreach_lerp_(self._mean, live, step)  # pyright: ignore[reportPrivateImportUsage]
        copy_all(*self._counters)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the average and the weights, in place."""
        before, rounded = self._exact, [mean for mean, live in self._pairs if mean.dtype != live.dtype]
        self._exact = [] if before else [mean.clone() for mean in rounded]
        for mean, live in self._pairs:
            kept = live.clone()
            live.copy_(mean)
            mean.copy_(kept)
        for mean, exact in zip(rounded, before, strict=False):  # the second of two swaps
            mean.copy_(exact)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Put the average in the place of the weights for a while."""
        self.swap()
        try:
            yield
        finally:
            self.swap()

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor], updates: int) -> None:
        """Go on from saved averages."""
        self.updates = updates
        for name, value in self.tensors.items():
            put(value, tensors[name])


def _wide(value: Tensor) -> Tensor:
    return value.float() if value.dtype in (torch.bfloat16, torch.float16) else value
