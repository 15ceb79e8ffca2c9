"""Jasper, QuartzNet, Citrinet: blocks of (separable) convolutions over time with residual connections.

Li et al. 2019, Jasper, https://arxiv.org/abs/1904.03288; Kriman et al. 2019, QuartzNet,
https://arxiv.org/abs/1910.10261; Majumdar et al. 2021, Citrinet, https://arxiv.org/abs/2104.01721.

Every convolution must see zeros beyond the end of an utterance, or its padding would change the result.
Instead of masking the input of each convolution, the frames beyond the end are set to zero once after each
activation: a kernel of one frame mixes no frames, and dropout keeps zero at zero.

Shapes: B utterances, C channels, T frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.backends.torch.lengths import frame_mask
from neumo.backends.torch.registry import implements
from neumo.nn.conv import SameConv1d
from neumo.nn.norm import BatchNorm, UtteranceNorm
from neumo.nn.squeeze import SqueezeExcite


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
            self.blocks.append(ConvBlock(earlier[-1], sources, block, spec))
            earlier = [*earlier, block.width] if block.dense else [block.width]

    def forward(self, mel: Tensor, mel_len: Tensor) -> Encoded:
        """(B, F, T), (B,) -> (B, C, ceil(T / stride)), (B,)."""
        encoded_len, mask = mel_len, self._mask(mel_len, mel.shape[-1])
        earlier = [mel if mask is None else mel.masked_fill(~mask, 0)]  # even where the padding is not finite
        for settings, block in zip(self.spec.blocks, self.blocks, strict=True):
            before = mask
            if settings.stride > 1:
                encoded_len = (encoded_len - 1) // settings.stride + 1
                mask = self._mask(encoded_len, (earlier[-1].shape[-1] - 1) // settings.stride + 1)
            encoded = block(earlier if settings.dense else earlier[-1:], before, mask)
            earlier = [*earlier, encoded] if settings.dense else [encoded]
        return Encoded(earlier[-1], encoded_len)

    def _mask(self, lengths: Tensor, size: int) -> Tensor | None:  # (B, 1, T), True inside of an utterance
        return frame_mask(lengths, size)[:, None, :] if self.spec.masked else None


class ConvBlock(nn.Module):
    """`repeat` units in a row; the residual branches join before the last activation."""

    def __init__(
        self, width_in: int, sources: Sequence[int], block: specs.ConvBlock, encoder: specs.ConvEncoder
    ) -> None:
        super().__init__()
        self.activate, self.dropout = ACTIVATIONS[encoder.activation], block.dropout
        self.join = torch.add if block.residual_mode == "add" else torch.maximum
        self.strides_at = block.repeat - 1 if block.stride_last else 0
        widths = [width_in] + [block.width] * (block.repeat - 1)
        strides = [block.stride if n == self.strides_at else 1 for n in range(block.repeat)]
        self.units = nn.ModuleList(
            ConvUnit(width, stride, block, encoder) for width, stride in zip(widths, strides, strict=True)
        )
        if block.squeeze is not None:
            reduction, window = block.squeeze.reduction, block.squeeze.window
            self.units[-1].add_module("squeeze", SqueezeExcite(block.width, reduction, window))
        added = sources if block.residual else ()
        self.residual = nn.ModuleList(Projection(width, block, encoder) for width in added)

    def forward(self, sources: Sequence[Tensor], before: Tensor | None, after: Tensor | None) -> Tensor:
        """The input is the last of the sources; a dense block adds the others as well.

        `before` and `after` are the masks of what comes in and goes out.
        """
        x = sources[-1]
        for number, unit in enumerate(self.units[:-1]):
            mask = after if number >= self.strides_at else before
            x = self._finish(unit(x, mask), mask)
        x = self.units[-1](x, after)
        for branch, source in zip(self.residual, sources, strict=False):  # no branch where residual is off
            x = self.join(x, branch(source, after))
        return self._finish(x, after)

    def _finish(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.activate(x)
        if mask is not None:
            x = x * mask.to(x.dtype)  # a third of masked_fill's time; its gradient keeps the memory layout
        return F.dropout(x, self.dropout, self.training)


class Masked(nn.Sequential):
    """Layers in a row, those of which that look at whole utterances are told which frames are valid."""

    def forward(self, input: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, C, T), (B, 1, T) -> (B, C', T')."""
        for layer in self:
            input = layer(input, mask) if isinstance(layer, UtteranceNorm | SqueezeExcite) else layer(input)
        return input


class ConvUnit(Masked):
    """A convolution over time and its normalisation; separable: each channel alone, then across channels."""

    def __init__(
        self, width_in: int, stride: int, block: specs.ConvBlock, encoder: specs.ConvEncoder
    ) -> None:
        super().__init__()
        over_time = partial(SameConv1d, stride=stride, dilation=block.dilation)
        if block.separable:
            self.depthwise = over_time(width_in, width_in, block.taps, groups=width_in)
            self.pointwise = SameConv1d(width_in, block.width, 1, groups=block.groups)
        else:
            self.conv = over_time(width_in, block.width, block.taps, groups=block.groups)
        self.norm = norm_of(block.width, encoder)
        if block.groups > 1:
            self.shuffle = ChannelShuffle(block.groups)


class Projection(Masked):
    """A residual branch: a convolution of one frame brings its source to the width of the sum."""

    def __init__(self, width_in: int, block: specs.ConvBlock, encoder: specs.ConvEncoder) -> None:
        super().__init__()
        self.conv = SameConv1d(width_in, block.width, 1, stride=block.stride)
        self.norm = norm_of(block.width, encoder)


class ChannelShuffle(nn.Module):
    """Deals the channels of each group out over all groups, as cards: (B, C, T) -> (B, C, T)."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, T) -> (B, C, T)."""
        return x.unflatten(1, (self.groups, -1)).transpose(1, 2).flatten(1, 2)


def norm_of(width: int, encoder: specs.ConvEncoder) -> nn.Module:
    """The normalisation that an encoder is built with."""
    if encoder.norm == "batch":
        return BatchNorm(width)
    groups = {"layer": 1, "instance": width, "group": encoder.norm_groups}[encoder.norm]
    return UtteranceNorm(width, groups)
