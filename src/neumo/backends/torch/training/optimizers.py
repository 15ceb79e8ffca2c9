"""Builds torch optimizers from their specifications, and has NovoGrad, which torch lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from neumo.engine.optimizers import OPTIMIZERS, SGD, Adam, AdamW, NovoGrad, Optimizer
from neumo.types.errors import BackendError


def build_optimizer(spec: Optimizer, parameters: Mapping[str, nn.Parameter]) -> torch.optim.Optimizer:
    """Make the torch optimizer of a specification over named weights; biases and norms are spared from decay.

    >>> weight, bias = nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(2))
    >>> groups = build_optimizer(AdamW(weight_decay=0.1), {"weight": weight, "bias": bias}).param_groups
    >>> [group["weight_decay"] for group in groups]
    [0.1, 0.0]
    """
    if type(spec).__name__ not in OPTIMIZERS:
        raise BackendError(
            f"the torch backend has no optimizer {type(spec).__name__}",
            code="optimizer",
            fixes=[f"use one of neumo.engine: {', '.join(OPTIMIZERS)}"],
        )
    groups = _groups(spec, parameters.values())
    fused = {"fused": True} if _can_fuse(parameters.values()) else {}
    if isinstance(spec, AdamW):
        return torch.optim.AdamW(groups, lr=spec.lr, betas=spec.betas, eps=spec.eps, **fused)
    if isinstance(spec, Adam):
        return torch.optim.Adam(groups, lr=spec.lr, betas=spec.betas, eps=spec.eps, **fused)
    if isinstance(spec, SGD):
        return torch.optim.SGD(groups, lr=spec.lr, momentum=spec.momentum, nesterov=spec.nesterov, **fused)
    return TorchNovoGrad(groups, spec)


def _groups(spec: Optimizer, parameters: Iterable[nn.Parameter]) -> list[dict[str, Any]]:
    every = list(parameters)
    decayed = [p for p in every if spec.decay_all or p.ndim > 1]
    spared = [p for p in every if not (spec.decay_all or p.ndim > 1)]
    groups = [(decayed, spec.weight_decay), (spared, 0.0)]
    return [{"params": params, "weight_decay": decay} for params, decay in groups if params]


def _can_fuse(parameters: Iterable[nn.Parameter]) -> bool:
    """The fused kernels of torch exist for these devices and dtypes; they are several times faster on small
    nets.
    """
    return all(
        p.device.type in ("cpu", "cuda") and p.dtype in (torch.float32, torch.float64) for p in parameters
    )


class TorchNovoGrad(torch.optim.Optimizer):
    """Normalises the gradient of each weight tensor by its own norm (Ginsburg et al. 2019, algorithm 1)."""

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
        energy = (
            grad.float().pow(2).sum() if grad.dtype is not torch.float64 else grad.pow(2).sum()
        )  # ||g||^2, a scalar
        if "energy" not in state:
            state["energy"] = energy.clone()
            state["moment"] = torch.zeros_like(weight)
        else:
            state["energy"].mul_(beta2).add_(energy, alpha=1 - beta2)
        update = grad / (state["energy"].sqrt() + self.spec.eps)
        if decay:
            update.add_(weight, alpha=decay)
        if self.spec.average_gradients:
            update.mul_(1 - beta1)
        state["moment"].mul_(beta1).add_(update)
        weight.add_(state["moment"], alpha=-lr)


def optimizer_tensors(
    optimizer: torch.optim.Optimizer, names: Mapping[str, nn.Parameter]
) -> dict[str, Tensor]:
    """Return the state of an optimizer as tensors by `weight name/state name`, without copies."""
    tensors: dict[str, Tensor] = {}
    for name, weight in names.items():
        for key, value in optimizer.state.get(weight, {}).items():
            tensors[f"{name}/{key}"] = value if isinstance(value, Tensor) else torch.tensor(value)
    return tensors


def load_optimizer(
    optimizer: torch.optim.Optimizer, names: Mapping[str, nn.Parameter], tensors: Mapping[str, Tensor]
) -> None:
    """Put back what `optimizer_tensors` returned; counters stay where torch keeps them, on the CPU if not
    fused.
    """
    for key, value in tensors.items():
        name, _, entry = key.rpartition("/")
        weight = names[name]
        scalar_on_cpu = value.ndim == 0 and entry == "step" and not _is_fused(optimizer)
        optimizer.state[weight][entry] = (
            value.clone() if scalar_on_cpu else value.to(weight.device, copy=True)
        )


def _is_fused(optimizer: torch.optim.Optimizer) -> bool:
    return bool(optimizer.defaults.get("fused"))
