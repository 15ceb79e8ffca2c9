"""Averages weights over steps (EMA), beside the weights that are trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from neumo.backends.torch.save import seen_as, twins
from neumo.engine.optimizers import EMA


class Average:
    """Follows some weights at a distance: `average += (weights - average) * (1 - decay)` after each update.

    >>> weight = torch.zeros(1)
    >>> average = Average(EMA(decay=0.9, warmup=False), {"w": weight})
    >>> weight += 1.0
    >>> average.update()
    >>> [round(float(value), 3) for value in average.tensors["w"]]
    [0.1]

    `tensors` are the averaged values by name: floating point ones are averaged, counters are copied.
    """

    def __init__(self, spec: EMA, live: Mapping[str, Tensor]) -> None:
        self.spec = spec
        self.updates = 0
        shared = twins(live)  # tied weights: averaged once, or swapping them twice would undo the swap
        own = [name for name in live if name not in shared]
        self.tensors = {name: live[name].detach().clone() for name in own}
        for name, first in shared.items():
            self.tensors[name] = seen_as(self.tensors[first], live[name], live[first])
        floating = [name for name in own if live[name].is_floating_point()]
        self._live = [live[name].detach() for name in floating]
        self._mean = [self.tensors[name] for name in floating]
        counters = [name for name in own if name not in floating]
        self._counters = [(self.tensors[name], live[name]) for name in counters]
        self._pairs = [(self.tensors[name], live[name].detach()) for name in own]

    @torch.no_grad()
    def update(self) -> None:
        """Move the average towards the weights, after an update of them."""
        self.updates += 1
        step = 1.0 - self.spec.decay_at(self.updates)
        torch._foreach_lerp_(self._mean, self._live, step)  # pyright: ignore[reportPrivateImportUsage]
        for mean, live in self._counters:
            mean.copy_(live)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the average and the weights, in place."""
        for mean, live in self._pairs:
            kept = live.clone()
            live.copy_(mean)
            mean.copy_(kept)

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
            value.copy_(tensors[name])
