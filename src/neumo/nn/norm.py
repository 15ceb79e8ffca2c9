"""Batch normalisation that survives a batch too small to have a variance."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class BatchNorm(nn.BatchNorm1d):
    """Normalises each channel of (B, C, T); eps 1e-3 and momentum 0.1 as in the Jasper family.

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

    def __init__(self, width: int) -> None:
        super().__init__(width, eps=1e-3, momentum=0.1)

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
