"""Data-parallel training: every process has all weights, and the gradients are added up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from neumo.backends.torch.execute import TorchProgram
from neumo.backends.torch.parallel.parallelism import Arrays, whole_files
from neumo.engine.checkpoints.store import Writer


class DataParallel:
    """Runs a program under DistributedDataParallel.

    Parameters that a step does not reach are looked for in each step: a graph may have them, and the buckets
    of gradients then keep one layout, without which sums over three or more processes would depend on when a
    training was resumed.
    """

    def __init__(self, program: TorchProgram, parameters: Iterable[nn.Parameter], size: int) -> None:
        self.factor = float(size)  # DistributedDataParallel divides by it
        self._module = DistributedDataParallel(
            _Plan(program, parameters), find_unused_parameters=True, gradient_as_bucket_view=True
        )

    def turn(self, last: bool) -> AbstractContextManager[Any]:
        """Exchange gradients in the backward pass of the last batch of a step only."""
        return nullcontext() if last else self._module.no_sync()

    def __call__(self, feeds: Sequence[Any]) -> list[Any]:
        """Run the program."""
        return self._module(feeds)

    def norm(self, gradients: Iterable[Tensor]) -> Tensor:
        """Compute the norm of the whole gradient, which every process holds."""
        return torch.nn.utils.get_total_norm(list(gradients))

    def writers(self, arrays: Arrays, folder: Path) -> dict[str, Writer]:
        """Return what writes the files of a checkpoint; every process holds all of it."""
        return whole_files(arrays)

    def gathered(self) -> AbstractContextManager[None]:
        """They are whole."""
        return nullcontext()

    def close(self) -> None:
        """Nothing is to be undone."""


class _Plan(nn.Module):
    """A program as a module that holds the weights which are trained, and only those."""

    def __init__(self, program: TorchProgram, parameters: Iterable[nn.Parameter]) -> None:
        super().__init__()
        self._program = program
        for number, weight in enumerate(parameters):
            self.register_parameter(f"weight{number}", weight)

    def forward(self, feeds: Sequence[Any]) -> list[Any]:
        """Run the program."""
        return self._program(feeds)
