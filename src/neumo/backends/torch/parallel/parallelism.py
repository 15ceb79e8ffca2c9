"""What a trainer needs to know of how a training is divided among processes, and that of a single one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from neumo.backends.torch.execute import TorchProgram
from neumo.backends.torch.save import write_tensors
from neumo.engine.checkpoints.store import Writer

Arrays = Mapping[str, Mapping[str, Tensor]]  # of a checkpoint, by what they are: "weights", "optimizer"


class Parallelism(Protocol):
    """Runs the program of a training so that its gradient is the sum over all processes."""

    factor: float  # what a gradient is multiplied with to be the sum over the processes

    def turn(self, last: bool) -> AbstractContextManager[Any]:
        """Enter one forward and backward pass; gradients are exchanged in the last one of a step."""
        ...

    def __call__(self, feeds: Sequence[Any]) -> list[Any]:
        """Run the program."""
        ...

    def norm(self, gradients: Iterable[Tensor]) -> Tensor:
        """Compute the norm of the whole gradient."""
        ...

    def writers(self, arrays: Arrays, folder: Path) -> dict[str, Writer]:
        """Return what writes the files of a checkpoint; of what all processes call, the first one writes.

        `folder` is that of all checkpoints.
        """
        ...

    def gathered(self) -> AbstractContextManager[None]:
        """Hold whole weights in every process for a while."""
        ...

    def close(self) -> None:
        """Leave the modules as they were, but for what they have learned."""
        ...


class SingleProcess:
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

    def writers(self, arrays: Arrays, folder: Path) -> dict[str, Writer]:
        """Return what writes the files of a checkpoint."""
        return whole_files(arrays)

    def gathered(self) -> AbstractContextManager[None]:
        """They are whole."""
        return nullcontext()

    def close(self) -> None:
        """Nothing is to be undone."""


def whole_files(arrays: Arrays) -> dict[str, Writer]:
    """Return what writes each array file of a checkpoint, with whole tensors."""
    return {f"{name}.safetensors": _writer(tensors) for name, tensors in arrays.items()}


def _writer(tensors: Mapping[str, Tensor]) -> Writer:
    return lambda path: write_tensors(path, tensors)
