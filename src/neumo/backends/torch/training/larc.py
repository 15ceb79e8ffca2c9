"""Layer-wise adaptive rates: gradients are scaled, tensor by tensor, before the optimizer sees them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from neumo.engine.updates.optimizers import LARC


@torch.no_grad()
def apply_larc(optimizer: torch.optim.Optimizer, spec: LARC) -> None:
    """Scale each gradient by its local rate (You, Gitman & Ginsburg 2017), at the rate of this step.

    >>> from torch import nn
    >>> weight = nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> weight.grad = torch.tensor([10.0, 0.0])
    >>> apply_larc(torch.optim.SGD([weight], lr=0.1), LARC(trust=0.02))
    >>> [round(slope, 3) for slope in weight.grad.tolist()]  # 0.02 * 5 / 10 is 0.01, a tenth of the rate
    [1.0, 0.0]

    Weight decay that the optimizer would add to the gradient (SGD, Adam) is added here, so that it is scaled
    as well; the weight decay of AdamW, which is apart from the gradient, is left to it. Nothing is read back
    from the device.
    """
    decoupled = isinstance(optimizer, torch.optim.AdamW)
    for group in optimizer.param_groups:
        if not decoupled:
            group.setdefault("scaled_decay", group["weight_decay"])
            group["weight_decay"] = 0.0
        weights = [weight for weight in group["params"] if weight.grad is not None]
        if weights:
            _scale(weights, group, spec)


def _scale(weights: list[Tensor], group: dict[str, Any], spec: LARC) -> None:
    decay, lr = group.get("scaled_decay", 0.0), float(group["lr"])
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    size = torch.stack(torch._foreach_norm(weights))  # pyright: ignore[reportPrivateImportUsage]
    slope = torch.stack(torch._foreach_norm(gradients))  # pyright: ignore[reportPrivateImportUsage]
    local = spec.trust * size / (slope + decay * size + spec.eps)
    if spec.clip:
        local = (local / lr).clamp(max=1.0) if lr else torch.ones_like(local)
    scale = torch.where((size > 0) & (slope > 0), local, 1.0)
    if decay:
        torch._foreach_add_(gradients, weights, alpha=decay)  # pyright: ignore[reportPrivateImportUsage]
    torch._foreach_mul_(gradients, scale.unbind())  # pyright: ignore[reportPrivateImportUsage]
