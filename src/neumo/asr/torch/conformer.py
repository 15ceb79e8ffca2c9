"""Conformer: attention over the whole utterance and convolutions around each frame, layer by layer.

Gulati et al. 2020, https://arxiv.org/abs/2005.08100; with fewer frames, Rekesh et al. 2023, FastConformer,
https://arxiv.org/abs/2305.05084.

Shapes: B utterances, F bands, T frames, D width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.asr.torch.encoder import Encoded
from neumo.asr.torch.subsampling import Stacking, Striding
from neumo.backends.torch.lengths import frame_mask
from neumo.backends.torch.registry import implements
from neumo.nn.attention_relative import RelativeAttention, distances
from neumo.nn.conv import SameConv1d
from neumo.nn.norm import BatchNorm


@implements(specs.ConformerEncoder)
class ConformerEncoder(nn.Module):
    """Subsampling, then layers that keep the number of frames."""

    def __init__(self, spec: specs.ConformerEncoder) -> None:
        super().__init__()
        self.scale = spec.width**0.5 if spec.xscaling else 1.0
        self.context = spec.attention_context
        self.subsampling = subsampling_of(spec)
        self.dropout = nn.Dropout(spec.dropout_input)
        self.dropout_distances = nn.Dropout(spec.dropout_distances)
        self.layers = nn.ModuleList(ConformerLayer(spec) for _ in range(spec.layers))

    def forward(self, mel: Tensor, mel_len: Tensor) -> Encoded:
        """(B, F, T), (B,) -> (B, D, ceil(T / stride)), (B,)."""
        x, lengths = self.subsampling(mel, mel_len)
        if x.shape[1] == 0:
            return Encoded(x.transpose(1, 2), lengths)
        valid = frame_mask(lengths, x.shape[1])
        hidden, apart = self._hidden(valid), self.dropout_distances(distances(x))
        x = self.dropout(x * self.scale)
        for layer in self.layers:
            x = layer(x, apart, hidden, valid)
        return Encoded(x.masked_fill(~valid[..., None], 0).transpose(1, 2), lengths)

    def _hidden(self, valid: Tensor) -> Tensor:  # (B, T) -> (B, 1, 1 or T, T), True where nothing is read
        hidden = ~valid[:, None, None]
        if self.context is None:
            return hidden
        left, right = self.context
        frame = torch.arange(valid.shape[1], device=valid.device)
        behind = frame[:, None] - frame  # how far the frame that is read lies behind the one that reads
        if left is not None:
            hidden = hidden | (behind > left)
        return hidden if right is None else hidden | (-behind > right)


def subsampling_of(spec: specs.ConformerEncoder) -> nn.Module:
    """The layers that take the mel frames."""
    if spec.subsampling == "stacking":
        return Stacking(spec.n_mels, spec.stride, width=spec.width)
    channels, separable = spec.subsampling_width or spec.width, spec.subsampling == "dw_striding"
    return Striding(spec.n_mels, spec.stride, channels=channels, width=spec.width, separable=separable)


class ConformerLayer(nn.Module):
    """Half a feed-forward network, attention, convolution, the other half; each beside a residual."""

    def __init__(self, spec: specs.ConformerEncoder) -> None:
        super().__init__()
        self.feed_forward1, self.feed_forward2 = FeedForward(spec), FeedForward(spec)
        self.norm_attention = nn.LayerNorm(spec.width)
        self.attention = RelativeAttention(
            spec.width, spec.heads, bias=spec.bias, dropout=spec.dropout_attention
        )
        self.conv = ConvModule(spec)
        self.norm = nn.LayerNorm(spec.width)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, x: Tensor, apart: Tensor, hidden: Tensor, valid: Tensor) -> Tensor:
        """(B, T, D), (2T - 1, D), (B, 1, 1 or T, T), (B, T) -> (B, T, D)."""
        x = x + 0.5 * self.dropout(self.feed_forward1(x))
        x = x + self.dropout(self.attention(self.norm_attention(x), apart, hidden))
        x = x + self.dropout(self.conv(x, valid))
        x = x + 0.5 * self.dropout(self.feed_forward2(x))
        return self.norm(x)


class FeedForward(nn.Sequential):
    """Two linear layers at each frame, wider between them."""

    def __init__(self, spec: specs.ConformerEncoder) -> None:
        super().__init__()
        inner = spec.width * spec.expansion
        self.norm = nn.LayerNorm(spec.width)
        self.widen = nn.Linear(spec.width, inner, bias=spec.bias)
        self.activation = nn.SiLU()
        self.dropout = nn.Dropout(spec.dropout)
        self.narrow = nn.Linear(inner, spec.width, bias=spec.bias)


class ConvModule(nn.Module):
    """A gate, a convolution of each channel over time, normalisation, and the channels mixed again."""

    def __init__(self, spec: specs.ConformerEncoder) -> None:
        super().__init__()
        width, bias = spec.width, spec.bias
        self.norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 2 * width, bias=bias)
        self.depthwise = SameConv1d(width, width, spec.kernel, groups=width, bias=bias)
        nn.Conv1d.reset_parameters(self.depthwise)  # Glorot's rule takes the groups for inputs of one kernel
        by_batch = spec.norm == "batch"
        self.normalise = BatchNorm(width, eps=1e-5) if by_batch else OverChannels(width)
        self.narrow = nn.Linear(width, width, bias=bias)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """(B, T, D), (B, T) -> (B, T, D)."""
        x = F.glu(self.widen(self.norm(x)), dim=2)
        x = x.masked_fill(~valid[..., None], 0)  # so that no frame hears what stands beyond the end
        x = F.silu(self.normalise(self.depthwise(x.transpose(1, 2))))
        return self.narrow(x.transpose(1, 2))


class OverChannels(nn.LayerNorm):
    """Normalises each frame over its channels: (B, D, T) -> (B, D, T)."""

    def forward(self, input: Tensor) -> Tensor:
        """(B, D, T) -> (B, D, T)."""
        return super().forward(input.transpose(1, 2)).transpose(1, 2)
