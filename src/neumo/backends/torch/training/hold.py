"""Weights that wait: they are trained, but not yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

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
