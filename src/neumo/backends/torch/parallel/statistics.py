"""Statistics of batch normalisation that are the same in all processes."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase  # pyright: ignore[reportPrivateUsage]

from neumo.engine.world import World


class Shared:
    """Averages the running means and variances over the processes after each step.

    They move towards the statistics of a batch linearly, so the average is what they would be had each moved
    towards the mean of the statistics of all. All processes then evaluate the same model, and a checkpoint
    needs only those of one.
    """

    def __init__(self, modules: Iterable[nn.Module], world: World) -> None:
        self._running = _running(modules) if world.size > 1 else []

    @torch.no_grad()
    def average(self, share: float) -> None:
        """Average them; `share` is the part of the step that this process has computed, from 0 to 1."""
        if not self._running:
            return
        flat = torch.cat([value.reshape(-1) for value in self._running]) * share
        dist.all_reduce(flat)
        for value, mean in zip(
            self._running, flat.split([value.numel() for value in self._running]), strict=True
        ):
            value.copy_(mean.view_as(value))


def _running(modules: Iterable[nn.Module]) -> list[Tensor]:
    found: dict[int, Tensor] = {}
    for module in modules:
        for layer in module.modules():
            if isinstance(layer, _NormBase) and layer.running_mean is not None:
                assert layer.running_var is not None  # the two come together
                found |= {id(value): value for value in (layer.running_mean, layer.running_var)}
    return list(found.values())
