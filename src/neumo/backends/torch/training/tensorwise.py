"""What optimizers share that treat each weight tensor as one thing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from neumo.engine.updates.optimizers import LAMB, NovoGrad


class Tensorwise(torch.optim.Optimizer):
    """Updates the weights of a group together, as lists of tensors; passes over those without a gradient."""

    def __init__(self, groups: list[dict[str, Any]], spec: LAMB | NovoGrad) -> None:
        super().__init__(groups, {"lr": spec.lr, "weight_decay": spec.weight_decay})

    @torch.no_grad()  # torch declares two overloads of step, which one signature cannot override
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update each weight that has a gradient."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if weights:
                self._update(weights, group["lr"], group["weight_decay"])
        return loss

    @abstractmethod
    def _update(self, weights: list[Tensor], lr: float, decay: float) -> None:
        """Update weights that have gradients."""
