"""Recurrent encoders: LSTM and GRU over frames, with fewer frames from layer to layer.

Chan et al. 2016, Listen, Attend and Spell, https://arxiv.org/abs/1508.01211.

Shapes: B utterances, F bands, T frames, C channels.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.asr.torch.encoder import Encoded
from neumo.asr.torch.subsampling import stack
from neumo.backends.torch.lengths import frame_mask
from neumo.backends.torch.registry import implements
from neumo.nn.recurrent import Recurrent


@implements(specs.RecurrentEncoder)
class RecurrentEncoder(nn.Module):
    """A front, and layers each of which may take several frames at once."""

    compiles = False  # torch's compiler knows no LSTM and no GRU

    def __init__(self, spec: specs.RecurrentEncoder) -> None:
        super().__init__()
        self.reductions = spec.reductions
        self.front = VGG(spec.n_mels, spec.front_width) if spec.front == "vgg" else None
        self.layers, self.projections = nn.ModuleList(), nn.ModuleList()
        width = spec.n_mels if self.front is None else self.front.width
        for by in spec.reductions:
            self.layers.append(
                Recurrent(width * by, spec.hidden, cell=spec.cell, bidirectional=spec.bidirectional)
            )
            if spec.projection is not None:
                directions = 2 if spec.bidirectional else 1
                self.projections.append(nn.Linear(spec.hidden * directions, spec.projection))
            width = spec.width
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, mel: Tensor, mel_len: Tensor) -> Encoded:
        """(B, F, T), (B,) -> (B, C, ceil(T / stride)), (B,)."""
        x = mel.masked_fill(~frame_mask(mel_len, mel.shape[2])[:, None], 0).transpose(1, 2)
        lengths = mel_len
        if self.front is not None:
            x, lengths = self.front(x, lengths)
        for number, (by, layer) in enumerate(zip(self.reductions, self.layers, strict=True)):
            x, lengths = stack(self.dropout(x) if number else x, lengths, by)
            x = layer(x, lengths)
            if self.projections:  # their bias must not stand beyond the end, where the next layer stacks
                valid = frame_mask(lengths, x.shape[1])[..., None]
                x = self.projections[number](x).masked_fill(~valid, 0)
        return Encoded(x.transpose(1, 2), lengths)


class VGG(nn.Module):
    """Two pairs of convolutions of 3 x 3; after each pair the greatest of 2 x 2 stays.

    >>> import torch
    >>> front = VGG(80, 8)
    >>> [tuple(each.shape) for each in front(torch.zeros(2, 21, 80), torch.tensor([21, 9]))]
    [(2, 6, 320), (2,)]
    """

    def __init__(self, n_mels: int, channels: int) -> None:
        super().__init__()
        widths = [1, channels, channels, 2 * channels, 2 * channels]
        self.convs = nn.ModuleList(
            nn.Conv2d(widths[n], widths[n + 1], 3, padding=1) for n in range(len(widths) - 1)
        )
        self.width = 2 * channels * ((n_mels + 3) // 4)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, F), (B,) -> (B, ceil(T / 4), C * ceil(F / 4)), (B,)."""
        if x.shape[1] == 0:
            return x.new_zeros(x.shape[0], 0, self.width), lengths
        x = x[:, None]  # (B, 1, T, F)
        for number, conv in enumerate(self.convs):
            x = F.relu(conv(x))
            x = x.masked_fill(~frame_mask(lengths, x.shape[2])[:, None, :, None], 0)
            if number % 2:  # what is not negative loses nothing to the zeros beyond the end
                x, lengths = F.max_pool2d(x, 2, ceil_mode=True), (lengths + 1) // 2
        return x.transpose(1, 2).flatten(2), lengths
