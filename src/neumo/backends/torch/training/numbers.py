"""Numbers of modules that are neither weights nor statistics, such as the rate of a dropout."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from torch import nn


def numbers_of(module: nn.Module, pattern: str) -> dict[str, float]:
    """Find the numbers whose paths fit a pattern, in which a `*` goes across dots.

    Sizes of torch's own layers are left out: their weights were made for them.

    >>> numbers_of(nn.Sequential(nn.Dropout(0.1), nn.Dropout(0.2), nn.Conv1d(4, 4, 1)), "*")
    {'0.p': 0.1, '1.p': 0.2}
    """
    return {
        path: value
        for prefix, layer in module.named_modules()
        for key, value in vars(layer).items()
        if type(value) in (int, float) and not key.startswith("_") and not _is_size(layer, value)
        if fnmatchcase(path := f"{prefix}.{key}" if prefix else key, pattern)
    }


def set_numbers(module: nn.Module, values: Mapping[str, float]) -> None:
    """Change numbers by their paths; a number that is whole is rounded and stays whole.

    >>> layer = nn.Dropout(0.1)
    >>> set_numbers(layer, {"p": 0.3})
    >>> layer
    Dropout(p=0.3, inplace=False)
    """
    for path, value in values.items():
        prefix, _, key = path.rpartition(".")
        layer = module.get_submodule(prefix)
        setattr(layer, key, round(value) if type(getattr(layer, key)) is int else float(value))


def _is_size(layer: nn.Module, value: float) -> bool:
    """Say whether a number is one of those by which torch makes a layer, such as channels and groups."""
    return type(value) is int and type(layer).__module__.startswith("torch.nn.")
