"""Where in a sequence something stands, told to layers that see no order: sinusoidal or learned.

Vaswani et al. 2017, section 3.5, https://arxiv.org/abs/1706.03762.

Shapes: B rows, T positions, D width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from neumo.types.errors import DataError


class SinusoidalPositions(nn.Module):
    """Adds sines and cosines of many wavelengths; a sequence may have any length.

    >>> SinusoidalPositions(4)(torch.zeros(1, 2, 4))[0, 0]
    tensor([0., 1., 0., 1.])

    `start` is the position of the first one, for sequences that go on.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        table = sinusoids(torch.arange(start, start + x.shape[1], device=x.device), self._width)
        return x + table.to(x.dtype)


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Sine and cosine in turns, with wavelengths from 2 pi to 10,000 times that: (T,) -> (T, D), float32.

    >>> sinusoids(torch.tensor([0, 1]), 2)
    tensor([[0.0000, 1.0000],
            [0.8415, 0.5403]])
    """
    even = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32)
    angles = positions[:, None].float() * torch.exp(even * (-math.log(10000.0) / width))
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :width]


class LearnedPositions(nn.Module):
    """Adds a learned vector for each of at most `longest` positions.

    >>> LearnedPositions(10, 4)(torch.zeros(1, 3, 4)).shape
    torch.Size([1, 3, 4])

    Raises `DataError` for a longer sequence.
    """

    def __init__(self, longest: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(longest, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        end = start + x.shape[1]
        if end > self.table.num_embeddings:
            raise DataError(
                f"a sequence has {end} positions, and {self.table.num_embeddings} are learned",
                code="size",
                why="Learned positions end where they were trained to.",
                fixes=["leave longer sequences out", "sinusoidal positions take any length"],
            )
        return x + self.table.weight[start:end]
