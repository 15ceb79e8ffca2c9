"""The mean of the weights in several files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from neumo.backends.torch.save import read_tensors
from neumo.types.errors import CheckpointError


def mean_of(files: Iterable[Path]) -> dict[str, Tensor]:
    """Average tensors by name over files; what is no real or complex number is taken from the last one.

    Sums are in double precision, and each file is let go of before the next one is read. Weights that are
    equal in all files, as tied ones are, have equal means. Raises `CheckpointError` for files of different
    models.
    """
    sums: dict[str, Tensor] = {}
    last: Mapping[str, Tensor] = {}
    count = 0
    for file in files:
        last = read_tensors(file)
        if count and (wrong := _difference(sums, last)):
            raise CheckpointError(
                f"{file.parent.name} is of another model than the checkpoints before it: {wrong}",
                code="weights",
                where=str(file),
            )
        for name, value in last.items():
            wide = value.to(_wide(value))
            sums[name] = sums[name] + wide if count and _is_averaged(value) else wide
        count += 1
    return {
        name: (sums[name] / count).to(value.dtype) if _is_averaged(value) else value
        for name, value in last.items()
    }


def _is_averaged(value: Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


def _wide(value: Tensor) -> torch.dtype:
    if value.is_complex():
        return torch.complex128
    return torch.float64 if value.is_floating_point() else value.dtype


def _difference(sums: Mapping[str, Tensor], new: Mapping[str, Tensor]) -> str:
    if sums.keys() != new.keys():
        return f"{min(sums.keys() ^ new.keys())} is in one of them only"
    return next((f"{name} has another shape" for name in sums if sums[name].shape != new[name].shape), "")
