"""Weights that wait: they are trained, but not yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def without_gradient(weights: Iterable[nn.Parameter]) -> Iterator[None]:
    """Compute a forward pass whose backward pass spends nothing on these weights."""
    held = [weight for weight in weights if weight.requires_grad]
    for weight in held:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in held:
            weight.requires_grad_(True)


def complete_momentum(optimizer: torch.optim.Optimizer, weights: Iterable[nn.Parameter]) -> None:
    """Start the momentum of weights that join later, as the first gradient would.

    The fused SGD of torch makes the buffers of all weights or of none.
    """
    if isinstance(optimizer, torch.optim.SGD) and optimizer.defaults["momentum"] and optimizer.state:
        for weight in weights:
            if optimizer.state[weight].get("momentum_buffer") is None:
                optimizer.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
