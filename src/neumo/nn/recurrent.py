"""LSTM and GRU over sequences of different lengths, none of which hears what pads it.

Shapes: B rows, T frames, C channels, H units.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from neumo.backends.torch.lengths import frame_mask


class Recurrent(nn.Module):
    """One layer of LSTM or GRU, in one direction or in both; zeros beyond the end of a sequence.

    >>> layer, x = Recurrent(4, 8, bidirectional=True), torch.randn(2, 9, 4)
    >>> layer(x, torch.tensor([9, 5])).shape
    torch.Size([2, 9, 16])
    >>> together, alone = layer(x, torch.tensor([9, 5])), layer(x[1:, :5], torch.tensor([5]))
    >>> torch.allclose(together[1, :5], alone[0], atol=1e-6)
    True

    Sequences are packed, so that padding takes no time. Exported code, which cannot follow packing, reads the
    sequences backwards for the other direction instead: the results are the same. Torch 2.13 unrolls it over
    time, so that it takes as many frames as it was exported with.
    """

    def __init__(
        self,
        width_in: int,
        hidden: int,
        *,
        cell: Literal["lstm", "gru"] = "lstm",
        bidirectional: bool = False,
    ) -> None:
        super().__init__()
        kind = nn.LSTM if cell == "lstm" else nn.GRU
        self.cell = kind(width_in, hidden, batch_first=True, bidirectional=bidirectional)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, C), (B,) -> (B, T, H or 2 H)."""
        if x.shape[0] == 0 or x.shape[1] == 0:
            directions = 2 if self.cell.bidirectional else 1
            return x.new_zeros(*x.shape[:2], directions * self.cell.hidden_size)
        read = self._backwards(x, lengths) if torch.compiler.is_exporting() else self._packed(x, lengths)
        return read * frame_mask(lengths, x.shape[1])[..., None].to(read.dtype)

    def _packed(self, x: Tensor, lengths: Tensor) -> Tensor:
        # An empty sequence cannot be packed; one frame is read of it, and set to zero afterwards.
        packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.cell(packed)[0], batch_first=True, total_length=x.shape[1])[0]

    def _backwards(self, x: Tensor, lengths: Tensor) -> Tensor:
        weights: list[Tensor] = [weight for layer in self.cell.all_weights for weight in layer]
        ahead = self._run(x, weights[:4])
        if not self.cell.bidirectional:
            return ahead
        back = self._run(backwards(x, lengths), weights[4:])
        return torch.cat([ahead, backwards(back, lengths)], dim=2)

    def _run(self, x: Tensor, weights: list[Tensor]) -> Tensor:
        start = x.new_zeros(1, x.shape[0], self.cell.hidden_size)
        options = (True, 1, 0.0, self.training, False, True)  # biases, layers, dropout, two ways, batch first
        if isinstance(self.cell, nn.LSTM):
            return torch.lstm(x, [start, start], weights, *options)[0]
        return torch.gru(x, start, weights, *options)[0]


def backwards(x: Tensor, lengths: Tensor) -> Tensor:
    """Each sequence from its own end to its start; what pads it stays behind it: (B, T, C) -> (B, T, C).

    >>> backwards(torch.tensor([[[1], [2], [0]]]), torch.tensor([2])).flatten().tolist()
    [2, 1, 0]
    """
    frame = torch.arange(x.shape[1], device=x.device).expand(x.shape[0], -1)
    source = torch.where(frame < lengths[:, None], lengths[:, None] - 1 - frame, frame)
    return x.gather(1, source[..., None].expand(-1, -1, x.shape[2]))
