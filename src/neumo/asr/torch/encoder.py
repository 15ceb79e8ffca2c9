"""The Jasper and QuartzNet family: blocks of (separable) convolutions over time with residual connections.

Li et al. 2019, Jasper, https://arxiv.org/abs/1904.03288; Kriman et al. 2019, QuartzNet,
https://arxiv.org/abs/1910.10261.

Every convolution must see zeros beyond the end of an utterance, or its padding would change the result.
Instead of masking the input of each convolution, the frames beyond the end are set to zero once after each
activation: a kernel of one frame mixes no frames, and dropout keeps zero at zero.

Shapes: B utterances, C channels, T frames.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.backends.torch.lengths import frame_mask
from neumo.backends.torch.registry import implements
from neumo.nn.conv import SameConv1d
from neumo.nn.norm import BatchNorm


class Encoded(NamedTuple):
    """What the encoder gives."""

    encoded: Tensor  # (B, C, ceil(T / stride))
    encoded_len: Tensor  # (B,)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "hardtanh": partial(F.hardtanh, min_val=0.0, max_val=20.0),
    "selu": F.selu,
    "silu": F.silu,
    "gelu": F.gelu,
}


@implements(specs.ConvEncoder)
class ConvEncoder(nn.Module):
    """A list of blocks; a dense block also adds the inputs of the dense blocks just before it."""

    def __init__(self, spec: specs.ConvEncoder) -> None:
        super().__init__()
        self.spec = spec
        self.blocks = nn.ModuleList()
        earlier = [spec.n_mels]  # widths of what a dense block can add
        for block in spec.blocks:
            sources = earlier if block.dense else earlier[-1:]
            self.blocks.append(ConvBlock(earlier[-1], sources, block, spec.activation))
            earlier = [*earlier, block.width] if block.dense else [block.width]

    def forward(self, mel: Tensor, mel_len: Tensor) -> Encoded:
        """(B, F, T), (B,) -> (B, C, ceil(T / stride)), (B,)."""
        encoded_len, mask = mel_len, self._mask(mel_len, mel.shape[-1])
        earlier = [mel if mask is None else mel.masked_fill(~mask, 0)]  # even where the padding is not finite
        for settings, block in zip(self.spec.blocks, self.blocks, strict=True):
            if settings.stride > 1:
                encoded_len = (encoded_len - 1) // settings.stride + 1
                mask = self._mask(encoded_len, (earlier[-1].shape[-1] - 1) // settings.stride + 1)
            encoded = block(earlier if settings.dense else earlier[-1:], mask)
            earlier = [*earlier, encoded] if settings.dense else [encoded]
        return Encoded(earlier[-1], encoded_len)

    def _mask(self, lengths: Tensor, size: int) -> Tensor | None:  # (B, 1, T), True inside of an utterance
        return frame_mask(lengths, size)[:, None, :] if self.spec.masked else None


class ConvBlock(nn.Module):
    """`repeat` units in a row; the residual branches join before the last activation."""

    def __init__(
        self, width_in: int, sources: Sequence[int], block: specs.ConvBlock, activation: str
    ) -> None:
        super().__init__()
        self.activate, self.dropout = ACTIVATIONS[activation], block.dropout
        widths = [width_in] + [block.width] * (block.repeat - 1)
        strides = [block.stride] + [1] * (block.repeat - 1)
        self.units = nn.ModuleList(conv_unit(*each, block) for each in zip(widths, strides, strict=True))
        added = sources if block.residual else ()
        self.residual = nn.ModuleList(projection(width, block) for width in added)

    def forward(self, sources: Sequence[Tensor], mask: Tensor | None) -> Tensor:
        """The input is the last of the sources; a dense block adds the others as well."""
        x = sources[-1]
        for unit in self.units[:-1]:
            x = self._finish(unit(x), mask)
        x = self.units[-1](x)
        for branch, source in zip(self.residual, sources, strict=False):  # no branch where residual is off
            x = x + branch(source)
        return self._finish(x, mask)

    def _finish(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.activate(x)
        if mask is not None:
            x = x * mask.to(x.dtype)  # a third of masked_fill's time; its gradient keeps the memory layout
        return F.dropout(x, self.dropout, self.training)


def conv_unit(width_in: int, stride: int, block: specs.ConvBlock) -> nn.Sequential:
    """A convolution over time and its normalisation; separable: each channel alone, then across channels."""
    over_time = {"stride": stride, "dilation": block.dilation}
    if not block.separable:
        conv = SameConv1d(width_in, block.width, block.kernel, groups=block.groups, **over_time)
        return nn.Sequential(OrderedDict(conv=conv, norm=BatchNorm(block.width)))
    depthwise = SameConv1d(width_in, width_in, block.kernel, groups=width_in, **over_time)
    pointwise = SameConv1d(width_in, block.width, 1, groups=block.groups)
    return nn.Sequential(OrderedDict(depthwise=depthwise, pointwise=pointwise, norm=BatchNorm(block.width)))


def projection(width_in: int, block: specs.ConvBlock) -> nn.Sequential:
    """A residual branch: a convolution of one frame brings its source to the width of the sum."""
    conv = SameConv1d(width_in, block.width, 1, stride=block.stride)
    return nn.Sequential(OrderedDict(conv=conv, norm=BatchNorm(block.width)))
