"""Looks at gradients module by module, when something in them is not finite."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from neumo.backends.torch.parallel.shards import own_shard


@torch.no_grad()
def describe_gradients(weights: Mapping[str, Tensor]) -> tuple[dict[str, float], str]:
    """Give the norm of the gradient of each module, and the weight at which the backward pass broke first.

    Weights are named `module.name`, in the order of the forward pass. Of weights that are divided among
    processes it is the part of this one.

    >>> good, bad = torch.zeros(2, requires_grad=True), torch.zeros(1, requires_grad=True)
    >>> good.grad, bad.grad = torch.tensor([3.0, 4.0]), torch.tensor([float("inf")])
    >>> describe_gradients({"encoder.weight": bad, "head.weight": good})
    ({'encoder': inf, 'head': 5.0}, 'encoder.weight')
    """
    squares: dict[str, float] = {}
    first = ""
    for name, weight in weights.items():
        if weight.grad is None:
            continue
        square = float(own_shard(weight.grad).to(torch.float64).pow(2).sum())
        module = name.partition(".")[0]
        squares[module] = squares.get(module, 0.0) + square
        if square - square != 0.0:
            first = name  # the last in the forward pass is the first in the backward pass
    return {module: square**0.5 for module, square in squares.items()}, first
