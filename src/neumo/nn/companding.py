"""The 8-bit codes of telephony (ITU-T G.711): what is left of samples after coding and decoding."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor


def g711(audio: Tensor, law: Literal["mu", "a"] = "mu") -> Tensor:
    """Samples in [-1, 1] as G.711 gives them back: 255 (mu) or 256 (A) levels, finer towards 0.

    >>> g711(torch.tensor([0.0, 0.5, 1.0]), "mu")
    tensor([0.0000, 0.5116, 0.9803])

    A level is chosen by the segment tables, not by the formula they approximate. What is beyond 1 is clipped.
    """
    magnitude = _mu(audio.abs()) if law == "mu" else _a(audio.abs())
    return torch.where(audio < 0, -magnitude, magnitude)


def _mu(magnitude: Tensor) -> Tensor:
    """14 bits with sign: eight segments of 16 steps each, twice as wide from one to the next."""
    biased = (magnitude * 8192).floor().clamp(max=8158) + 33
    step = torch.exp2(_floor_log2(biased) - 4)
    return ((biased / step).floor() * step + step / 2 - 33) / 8192


def _a(magnitude: Tensor) -> Tensor:
    """13 bits with sign: the first two segments have the same steps."""
    level = (magnitude * 4096).floor().clamp(max=4095)
    step = torch.exp2((_floor_log2(level) - 4).clamp(min=1))
    return ((level / step).floor() * step + step / 2) / 4096


def _floor_log2(x: Tensor) -> Tensor:
    return (torch.frexp(x).exponent - 1).to(x.dtype)
