"""Normalisation over time: over a batch, or over the valid frames of each utterance alone."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neumo.backends.torch.lengths import at_least_float32


class BatchNorm(nn.BatchNorm1d):
    """Normalises each channel of (B, C, T) over a batch; eps 1e-3 and momentum 0.1 as in the Jasper family.

    In training, a batch with fewer than two values a channel (one utterance of one frame) has no variance:
    it is normalised with the running statistics and leaves them unchanged. `nn.BatchNorm1d` raises for one
    value, and turns its statistics into nan for none.

    >>> norm = BatchNorm(4).train()
    >>> norm(torch.ones(1, 4, 1)).shape, norm(torch.ones(1, 4, 0)).shape
    (torch.Size([1, 4, 1]), torch.Size([1, 4, 0]))
    >>> norm.running_mean
    tensor([0., 0., 0., 0.])
    """

    synchronisable: ClassVar[bool] = True  # over processes: its statistics are of all values of a channel

    def __init__(self, width: int, *, eps: float = 1e-3) -> None:
        super().__init__(width, eps=eps, momentum=0.1)

    def forward(self, input: Tensor) -> Tensor:
        """(B, C, T) -> (B, C, T)."""
        x = input
        if self.training and x.shape[0] * x.shape[-1] < 2:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        if x.is_contiguous() or torch.compiler.is_compiling():
            return super().forward(x)
        return super().forward(x.unsqueeze(2)).squeeze(2)  # four axes keep the channels innermost in memory

    def _check_input_dim(self, input: Tensor) -> None:
        """Three axes, or four while the channels are innermost in memory: `forward` sees to it."""


class UtteranceNorm(nn.GroupNorm):
    """Normalises the channels of each utterance over its valid frames, in groups of channels.

    One group is a layer normalisation, as many groups as channels an instance normalisation. What stands
    beyond the end of an utterance changes nothing; an utterance without frames gives the bias. Computes in
    float32 inside autocast. Wu and He 2018, https://arxiv.org/abs/1803.08494.

    >>> norm, x = UtteranceNorm(4, groups=2), torch.randn(1, 4, 9)
    >>> padded = F.pad(x, (0, 5), value=100.0)
    >>> mask = torch.arange(14)[None, None] < 9
    >>> torch.allclose(norm(padded, mask)[..., :9], norm(x), atol=1e-6)
    True
    """

    def __init__(self, width: int, groups: int = 1, *, eps: float = 1e-3) -> None:
        super().__init__(groups, width, eps=eps)

    def forward(self, input: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, C, T), valid frames (B, 1, T) -> (B, C, T)."""
        x = at_least_float32(input).unflatten(1, (self.num_groups, -1))  # (B, G, C / G, T)
        valid = torch.ones_like(x[:, :1, :1]) if mask is None else mask[:, None].to(x.dtype)  # (B, 1, 1, T)
        count = (valid.sum(dim=-1, keepdim=True) * x.shape[2]).clamp(min=1)
        mean = (x * valid).sum(dim=(2, 3), keepdim=True) / count
        variance = ((x - mean) * valid).square().sum(dim=(2, 3), keepdim=True) / count
        normal = ((x - mean) * (variance + self.eps).rsqrt()).flatten(1, 2)
        return (normal * self.weight[:, None] + self.bias[:, None]).to(input.dtype)
