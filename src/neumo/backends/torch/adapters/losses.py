"""The torch code of sums of losses."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from neumo.backends.torch.registry import implements
from neumo.graph import loss_sum as specs


class Summed(NamedTuple):
    """The sum, and how many things it is the mean over."""

    loss: Tensor  # ()
    count: Tensor  # () # pyright: ignore[reportIncompatibleMethodOverride]


@implements(specs.LossSum)
class LossSum(nn.Module):
    """Weights are numbers of their own, by the names of the losses: `ScheduleValue` can change them."""

    def __init__(self, spec: specs.LossSum) -> None:
        super().__init__()
        self._names = tuple(spec.weights)
        for name, weight in spec.weights.items():
            setattr(self, f"weight_{name}", float(weight))

    def forward(self, **given: Tensor | None) -> Tensor | Summed:
        """Losses () and counts () -> (), ()."""
        loss = torch.stack([self._weighted(name, given[name]) for name in self._names]).sum()
        counts = [count for name in self._names if (count := given.get(f"{name}_count")) is not None]
        return Summed(loss, torch.stack(counts).amax()) if counts else loss

    def _weighted(self, name: str, loss: Tensor | None) -> Tensor:
        assert loss is not None  # composing refuses a graph that leaves a loss out
        return loss * getattr(self, f"weight_{name}")
