"""Computing beside a training step, without a trace in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from neumo.backends.torch.parallel.statistics import Statistics


@contextmanager
def observing(
    modules: Sequence[nn.Module], idle: Sequence[nn.Module], device: torch.device
) -> Iterator[None]:
    """Compute without gradients; statistics and random numbers are afterwards what they were before.

    Modules stay in the modes of the training, but for `idle` ones, which it does not use: they compute as in
    evaluation.
    """
    parts = [part for module in idle for part in module.modules()]
    modes = [part.training for part in parts]
    devices = [device] if device.type == "cuda" else []
    for module in idle:
        module.eval()
    try:
        with Statistics(modules).untouched(), torch.no_grad(), torch.random.fork_rng(devices=devices):
            yield
    finally:
        for part, training in zip(parts, modes, strict=True):
            part.training = training
