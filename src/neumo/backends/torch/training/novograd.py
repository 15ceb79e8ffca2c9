"""NovoGrad, which torch lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from neumo.engine.optimizers import NovoGrad


class TorchNovoGrad(torch.optim.Optimizer):
    """Normalises the gradient of each weight tensor by its own norm (Ginsburg et al. 2019, algorithm 1).

    The state of a tensor is `energy`, the moving average of `|gradient|**2` (a scalar), its maximum
    `largest` with `amsgrad`, and `moment`, of the shape of the tensor.
    """

    def __init__(self, groups: list[dict[str, Any]], spec: NovoGrad) -> None:
        self.spec = spec
        super().__init__(groups, {"lr": spec.lr, "weight_decay": spec.weight_decay})

    @torch.no_grad()  # torch declares two overloads of step, which one signature cannot override
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update each weight that has a gradient."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, weight.grad, group["lr"], group["weight_decay"])
        return loss

    def _update(self, weight: Tensor, grad: Tensor, lr: float, decay: float) -> None:
        beta1, beta2 = self.spec.betas
        state = cast(dict[str, Tensor], self.state[weight])
        exact = grad if grad.dtype is torch.float64 else grad.float()
        energy = exact.pow(2).sum()  # ||g||^2, a scalar
        if "energy" not in state:
            state["energy"] = energy.clone()
            state["moment"] = torch.zeros_like(weight)
            if self.spec.amsgrad:
                state["largest"] = energy.clone()
        else:
            state["energy"].mul_(beta2).add_(energy, alpha=1 - beta2)
        if self.spec.amsgrad:
            energy = torch.maximum(state["largest"], state["energy"], out=state["largest"])
        else:
            energy = state["energy"]
        update = grad / (energy.sqrt() + self.spec.eps)
        if decay:
            update.add_(weight, alpha=decay)
        if self.spec.average_gradients:
            update.mul_(1 - beta1)
        moment = state["moment"].mul_(beta1).add_(update)
        if self.spec.luc is None:
            weight.add_(moment, alpha=-lr)
        else:
            weight.sub_(moment * _bounded(weight, moment, lr, self.spec.luc))


def _bounded(weight: Tensor, moment: Tensor, lr: float, luc: float) -> Tensor:
    """Lower the rate where the step would be longer than `luc` times the weights; those of 0 move freely."""
    size, length = torch.linalg.vector_norm(weight), torch.linalg.vector_norm(moment)
    bound = luc * size / length  # infinite or NaN where nothing moves
    return torch.where((size > 0) & (length > 0), bound.clamp(max=lr), lr)
