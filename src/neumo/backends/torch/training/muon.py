"""Muon for the matrices and another optimizer for all other weights, as one optimizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from neumo.engine.updates.optimizers import Muon
from neumo.types.errors import BackendError

FIRST_TORCH_WITH_MUON = "2.9"


def build_muon(groups: list[dict[str, Any]], spec: Muon) -> torch.optim.Optimizer:
    """Make torch's Muon over groups of matrices; raises `BackendError` if this torch has none."""
    if not hasattr(torch.optim, "Muon"):
        raise BackendError(
            f"torch {torch.__version__} has no Muon",
            code="optimizer",
            fixes=[
                f"pip install 'torch>={FIRST_TORCH_WITH_MUON}'",
                f"train with {type(spec.others).__name__}",
            ],
        )
    return torch.optim.Muon(
        groups,
        lr=spec.lr,
        weight_decay=spec.weight_decay,
        momentum=spec.momentum,
        nesterov=spec.nesterov,
        ns_steps=spec.ns_steps,
        adjust_lr_fn=spec.adjust_lr,
    )


class Joined(torch.optim.Optimizer):
    """Several optimizers as one: they share its groups and its state, and step one after the other.

    >>> from torch import nn
    >>> one, two = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    >>> joined = Joined([torch.optim.SGD([one], lr=1.0), torch.optim.SGD([two], lr=0.5)])
    >>> one.grad = two.grad = torch.ones(1)
    >>> joined.step()
    >>> one.item(), two.item()
    (0.0, 0.5)
    """

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self.optimizers = list(optimizers)
        super().__init__([group for each in optimizers for group in each.param_groups], {})
        for each in self.optimizers:
            each.state = self.state

    @torch.no_grad()  # torch declares two overloads of step, which one signature cannot override
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Let each of them update its weights."""
        loss = None if closure is None else closure()
        for each in self.optimizers:
            each.step()
        return loss
