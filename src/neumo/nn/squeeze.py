"""Squeeze-and-excitation over time: each channel is weighted by what is around it.

Shapes: B utterances, C channels, T frames.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neumo.backends.torch.lengths import at_least_float32


class SqueezeExcite(nn.Module):
    """Multiplies each channel by a number between 0 and 1 that the means of all channels decide.

    The means are over the valid frames of an utterance, or of the `window` frames around each one; they are
    computed in float32 inside autocast. Hu et al. 2018, https://arxiv.org/abs/1709.01507.

    >>> squeeze, x = SqueezeExcite(16, reduction=4), torch.randn(2, 16, 9)
    >>> squeeze(x).shape
    torch.Size([2, 16, 9])
    >>> padded, mask = F.pad(x, (0, 5), value=100.0), torch.arange(14)[None, None] < 9
    >>> torch.allclose(squeeze(padded, mask)[..., :9], squeeze(x), atol=1e-6)
    True
    """

    def __init__(self, width: int, reduction: int = 8, window: int | None = None) -> None:
        super().__init__()
        self.window = window
        inner = max(width // reduction, 1)
        self.reduce = nn.Linear(width, inner, bias=False)
        self.expand = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, C, T), valid frames (B, 1, T) -> (B, C, T)."""
        mean = self._mean(at_least_float32(x), mask).transpose(1, 2).to(x.dtype)  # (B, 1 or T, C)
        weight = self.expand(F.relu(self.reduce(mean))).sigmoid().transpose(1, 2)
        return x * weight.to(x.dtype)

    def _mean(self, x: Tensor, mask: Tensor | None) -> Tensor:
        valid = torch.ones_like(x[:, :1]) if mask is None else mask.to(x.dtype)  # (B, 1, T)
        if self.window is None:
            return (x * valid).sum(dim=-1, keepdim=True) / valid.sum(dim=-1, keepdim=True).clamp(min=1)
        if x.shape[-1] == 0:
            return x
        # Means over whole windows; their quotient is the mean over the valid frames in them.
        pool = nn.AvgPool1d(self.window, stride=1, padding=self.window // 2)
        return pool(x * valid) / pool(valid).clamp(min=0.5 / self.window)
