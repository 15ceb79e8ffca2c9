"""Fewer frames for an encoder: strided convolutions over time and frequency, or frames side by side.

No convolution sees anything but zeros beyond the end of an utterance, so that it is the same in any batch.

Shapes: B utterances, F bands, T frames, C channels, D width.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neumo.backends.torch.lengths import at_least_float32, frame_mask


class Striding(nn.Module):
    """Convolutions of 3 x 3 that halve frames and bands, then a linear layer over all channels and bands.

    `separable` convolves each channel alone from the second stage on, and then across channels, as
    FastConformer does: Rekesh et al. 2023, https://arxiv.org/abs/2305.05084.

    >>> layer = Striding(80, 4, channels=32, width=16, separable=False)
    >>> [tuple(each.shape) for each in layer(torch.zeros(2, 80, 21), torch.tensor([21, 9]))]
    [(2, 6, 16), (2,)]
    """

    def __init__(self, n_mels: int, stride: int, *, channels: int, width: int, separable: bool) -> None:
        super().__init__()
        self.width = width
        self.stages, bands, inner = nn.ModuleList(), n_mels, 1
        for number in range(stride.bit_length() - 1):
            self.stages.append(stage(inner, channels, separable=separable and number > 0))
            bands, inner = (bands + 1) // 2, channels
        self.project = nn.Linear(channels * bands, width)

    def forward(self, mel: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, F, T), (B,) -> (B, ceil(T / stride), D), (B,)."""
        x = mel.transpose(1, 2)[:, None]  # (B, 1, T, F)
        if x.shape[2] == 0:
            return mel.new_zeros(x.shape[0], 0, self.width), lengths
        for part in self.stages:
            mask = frame_mask(lengths, x.shape[2])
            x = F.relu(part(x.masked_fill(~mask[:, None, :, None], 0)))
            lengths = (lengths + 1) // 2
        return self.project(x.transpose(1, 2).flatten(2)), lengths


def stage(width_in: int, width: int, *, separable: bool) -> nn.Sequential:
    """Halves frames and bands, rounded up: (B, C, T, F) -> (B, C', ceil(T / 2), ceil(F / 2))."""
    if not separable:
        return nn.Sequential(OrderedDict(conv=HalvingConv(width_in, width)))
    depthwise = HalvingConv(width_in, width_in, groups=width_in)
    return nn.Sequential(OrderedDict(depthwise=depthwise, pointwise=nn.Conv2d(width_in, width, 1)))


class HalvingConv(nn.Conv2d):
    """A convolution of 3 x 3 with as many zeros around as give half of the frames and bands, rounded up.

    >>> HalvingConv(1, 4)(torch.zeros(2, 1, 21, 80)).shape
    torch.Size([2, 4, 11, 40])
    """

    def __init__(self, width_in: int, width: int, *, groups: int = 1) -> None:
        super().__init__(width_in, width, 3, stride=2, padding=1, groups=groups)

    def forward(self, input: Tensor) -> Tensor:
        """(B, C, T, F) -> (B, C', ceil(T / 2), ceil(F / 2))."""
        if input.device.type != "cpu" or input.shape[3] > 2:
            return super().forward(input)
        # With units for half precision (AMX), torch 2.13 gives what stands in memory for outputs of one band.
        bias = None if self.bias is None else at_least_float32(self.bias)
        with torch.autocast("cpu", enabled=False):
            return self._conv_forward(at_least_float32(input), at_least_float32(self.weight), bias).to(
                input.dtype
            )


class Stacking(nn.Module):
    """Puts `stride` frames side by side, zeros after the last one, and a linear layer over them.

    >>> layer = Stacking(80, 3, width=16)
    >>> [tuple(each.shape) for each in layer(torch.zeros(2, 80, 20), torch.tensor([20, 7]))]
    [(2, 7, 16), (2,)]
    """

    def __init__(self, n_mels: int, stride: int, *, width: int) -> None:
        super().__init__()
        self.stride = stride
        self.project = nn.Linear(n_mels * stride, width)

    def forward(self, mel: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, F, T), (B,) -> (B, ceil(T / stride), D), (B,)."""
        x = mel.masked_fill(~frame_mask(lengths, mel.shape[2])[:, None], 0).transpose(1, 2)
        stacked, lengths = stack(x, lengths, self.stride)
        return self.project(stacked), lengths


def stack(x: Tensor, lengths: Tensor, by: int) -> tuple[Tensor, Tensor]:
    """Puts `by` frames side by side, zeros after the last: (B, T, C) -> (B, ceil(T / by), by * C).

    >>> stack(torch.ones(1, 3, 1), torch.tensor([3]), 2)
    (tensor([[[1., 1.],
             [1., 0.]]]), tensor([2]))
    """
    if by == 1:
        return x, lengths
    frames = (x.shape[1] + by - 1) // by
    padded = F.pad(x, (0, 0, 0, frames * by - x.shape[1]))
    return padded.reshape(x.shape[0], frames, by * x.shape[2]), torch.div(
        lengths + by - 1, by, rounding_mode="floor"
    )
