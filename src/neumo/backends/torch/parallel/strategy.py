"""What a trainer needs to know of how a training is divided among processes, and that of a single one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor

from neumo.backends.torch.execute import TorchProgram


class Division(Protocol):
    """Runs the program of a training so that its gradient is the sum over all processes."""

    factor: float  # what a loss is multiplied with so that gradients come out as sums over the processes

    def turn(self, last: bool) -> AbstractContextManager[Any]:
        """Enter one forward and backward pass; gradients are exchanged in the last one of a step."""
        ...

    def __call__(self, feeds: Sequence[Any]) -> list[Any]:
        """Run the program."""
        ...

    def norm(self, gradients: Iterable[Tensor]) -> Tensor:
        """Compute the norm of the whole gradient."""
        ...


class Undivided:
    """A training in one process."""

    factor = 1.0

    def __init__(self, program: TorchProgram) -> None:
        self._program = program

    def turn(self, last: bool) -> AbstractContextManager[Any]:
        """Nothing is exchanged."""
        return nullcontext()

    def __call__(self, feeds: Sequence[Any]) -> list[Any]:
        """Run the program."""
        return self._program(feeds)

    def norm(self, gradients: Iterable[Tensor]) -> Tensor:
        """Compute the norm of the whole gradient."""
        return torch.nn.utils.get_total_norm(list(gradients))
