"""Multi-head attention: of a sequence to itself or to another, whole or one position after the other.

Vaswani et al. 2017, https://arxiv.org/abs/1706.03762.

Shapes: B rows, Q positions that ask, K positions that are read, D width, H heads, E = D / H.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neumo.backends.torch.lengths import at_least_float32
from neumo.types.errors import ConfigError


class KeysValues(NamedTuple):
    """What attention reads: computed once from a memory, or gathered position by position."""

    keys: Tensor  # (B, H, K, E)
    values: Tensor  # (B, H, K, E)


class MultiHeadAttention(nn.Module):
    """Each position gathers what it looks for in all heads at once.

    >>> attention, x = MultiHeadAttention(8, heads=2), torch.randn(3, 5, 8)
    >>> attention(x).shape, attention(x, torch.randn(3, 9, 8)).shape
    (torch.Size([3, 5, 8]), torch.Size([3, 5, 8]))

    Without a memory the sequence attends to itself. `keep` (B, K) is True for positions that are real: the
    others are never read, and a row without any gets zeros before the output layer. `causal` hides what comes
    later. A memory that is read many times is projected once, by `read`, and given to `attend`; `step` is
    causal self-attention that goes on from what earlier calls returned.

    Raises `ConfigError` if the width is no multiple of the heads.
    """

    def __init__(
        self, width: int, heads: int, *, memory_width: int | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise ConfigError(
                f"attention of width {width} cannot be divided into {heads} heads",
                code="field",
                fixes=[f"heads={n}" for n in (8, 4, 2, 1) if width % n == 0][:1],
            )
        self._heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(memory_width or width, width)
        self.value = nn.Linear(memory_width or width, width)
        self.output = nn.Linear(width, width)
        self.dropout = float(dropout)
        for layer in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(
        self, x: Tensor, memory: Tensor | None = None, *, keep: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """(B, Q, D), (B, K, M), (B, K) -> (B, Q, D)."""
        return self.attend(x, self.read(x if memory is None else memory), keep=keep, causal=causal)

    def read(self, memory: Tensor) -> KeysValues:
        """Project what is attended to: (B, K, M) -> 2 x (B, H, K, E)."""
        return KeysValues(self._split(self.key(memory)), self._split(self.value(memory)))

    def attend(
        self, x: Tensor, held: KeysValues, *, keep: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Gather from keys and values that are there already: (B, Q, D) -> (B, Q, D)."""
        query = self._split(self.query(x))
        whole = keep is None and query.shape[2] == held.keys.shape[2]
        gathered = F.scaled_dot_product_attention(
            query,
            held.keys,
            held.values,
            attn_mask=None if causal and whole else additive_mask(query, held.keys, keep, causal=causal),
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=causal and whole,
        )
        if keep is not None:  # nothing was read where there is nothing; the softmax spread evenly
            gathered = gathered * keep.any(dim=1)[:, None, None, None].to(gathered.dtype)
        return self.output(gathered.transpose(1, 2).flatten(2))

    def step(self, x: Tensor, held: KeysValues | None) -> tuple[Tensor, KeysValues]:
        """Attend to all earlier positions and the new ones: (B, Q, D) -> (B, Q, D), and what to hold."""
        new = self.read(x)
        if held is not None:
            new = KeysValues(torch.cat([held.keys, new.keys], 2), torch.cat([held.values, new.values], 2))
        return self.attend(x, new, causal=x.shape[1] > 1), new

    def weights(self, x: Tensor, held: KeysValues, *, keep: Tensor | None = None) -> Tensor:
        """How much each position reads of each other, without dropout, for pictures: (B, H, Q, K)."""
        query = self._split(self.query(x))
        scores = at_least_float32(query @ held.keys.transpose(2, 3) * query.shape[-1] ** -0.5)
        if keep is None:
            return scores.softmax(dim=-1)
        keep = keep[:, None, None]
        return scores.masked_fill(~keep, _lowest(scores)).softmax(dim=-1) * keep.to(scores.dtype)

    def _split(self, x: Tensor) -> Tensor:  # (B, Q, D) -> (B, H, Q, E)
        return x.unflatten(2, (self._heads, -1)).transpose(1, 2)


def additive_mask(query: Tensor, keys: Tensor, keep: Tensor | None, *, causal: bool) -> Tensor | None:
    """What is added to scores: 0 for what may be read, a number near the lowest for the rest.

    >>> keep = torch.tensor([[True, False]])
    >>> additive_mask(torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 2, 4), keep, causal=True)[0, 0] == 0
    tensor([[ True, False],
            [ True, False]])

    (B, H, Q, E), (B, H, K, E), (B, K) -> (B or 1, 1, Q or 1, K). The positions that ask are the last ones of
    those that are read. It is finite, since a softmax of nothing but -inf is nan.
    """
    allowed = None if keep is None else keep[:, None, None]
    if causal:
        asking, read = query.shape[2], keys.shape[2]
        earlier = torch.ones(asking, read, dtype=torch.bool, device=keys.device).tril(read - asking)
        allowed = earlier[None, None] if allowed is None else allowed & earlier
    if allowed is None:
        return None
    zeros = torch.zeros(allowed.shape, dtype=query.dtype, device=query.device)
    return zeros.masked_fill(~allowed, _lowest(query))


def _lowest(x: Tensor) -> float:
    return torch.finfo(x.dtype).min / 2  # half: a score that is added must not make it -inf
