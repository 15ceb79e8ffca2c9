"""Attention that knows where it looked before: by content and by the place of the last weights.

Chorowski et al. 2015, https://arxiv.org/abs/1506.07503.

Shapes: B rows, Q hypotheses of each, T positions of the memory, S width of a query, M of the memory, A of the
attention.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from neumo.backends.torch.lengths import at_least_float32


class LocationAttention(nn.Module):
    """Weighs each position by its content and by a convolution of the weights before.

    >>> attention = LocationAttention(6, 8, width=5, filters=3, kernel=7)
    >>> memory, keep = torch.randn(2, 9, 8), torch.ones(2, 9, dtype=torch.bool)
    >>> keys, start = attention.read(memory), attention.start(keep)
    >>> context, weights = attention(torch.randn(2, 4, 6), keys, memory, start[:, None].expand(2, 4, 9), keep)
    >>> context.shape, weights.shape
    (torch.Size([2, 4, 8]), torch.Size([2, 4, 9]))

    `filters=0` leaves the place out. With `smoothing` the weights are sigmoids that are divided by their sum,
    which spreads them over more positions than a softmax (section 3.4 there). Positions outside of `keep`
    get the weight 0.
    """

    def __init__(
        self,
        query_width: int,
        memory_width: int,
        *,
        width: int,
        filters: int = 10,
        kernel: int = 201,
        smoothing: bool = False,
    ) -> None:
        super().__init__()
        self._smoothing = smoothing
        self.query = nn.Linear(query_width, width)
        self.key = nn.Linear(memory_width, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)
        self.place: nn.Conv1d | None = None
        if filters:
            self.place = nn.Conv1d(1, filters, kernel, padding=kernel // 2, bias=False)
            self.from_place = nn.Linear(filters, width, bias=False)

    def read(self, memory: Tensor) -> Tensor:
        """Project the memory once for all queries: (B, T, M) -> (B, T, A)."""
        return self.key(memory)

    def start(self, keep: Tensor) -> Tensor:
        """Weights before the first query: even over the real positions: (B, T) -> (B, T)."""
        real = keep.to(torch.float32)
        return real / real.sum(dim=1, keepdim=True).clamp(min=1)

    def forward(
        self, query: Tensor, keys: Tensor, memory: Tensor, before: Tensor, keep: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(B, Q, S), (B, T, A), (B, T, M), (B, Q, T), (B, T) -> (B, Q, M), (B, Q, T)."""
        known = self.query(query)[:, :, None] + keys[:, None]  # (B, Q, T, A)
        if self.place is not None:
            rows = before.flatten(0, 1).unsqueeze(1)  # (B Q, 1, T)
            if rows.shape[-1]:  # a convolution of nothing is an error
                features = self.place(rows.to(self.place.weight.dtype)).transpose(1, 2)
                known = known + self.from_place(features).reshape(known.shape)
        scores = at_least_float32(self.score(torch.tanh(known)).squeeze(-1))  # (B, Q, T)
        weights = self._weights(scores, keep[:, None])
        return weights.to(memory.dtype) @ memory, weights

    def _weights(self, scores: Tensor, keep: Tensor) -> Tensor:
        if self._smoothing:
            open_ = scores.sigmoid() * keep.to(scores.dtype)
            return open_ / open_.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)
        lowest = torch.finfo(scores.dtype).min
        return scores.masked_fill(~keep, lowest).softmax(dim=-1) * keep.to(scores.dtype)
