"""The layers of a Transformer: attention, then a network at each position, each beside a residual.

Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; normalisation before each part: Xiong et al. 2020,
https://arxiv.org/abs/2002.04745.

Shapes: B rows, Q positions, K positions of the memory, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neumo.nn.attention import KeysValues, MultiHeadAttention

Where = Literal["pre", "post"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


class FeedForward(nn.Module):
    """Two linear layers at each position, wider between them.

    >>> import torch
    >>> FeedForward(8, 32)(torch.zeros(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, width: int, hidden: int, *, dropout: float = 0.0, activation: str = "relu") -> None:
        super().__init__()
        self.widen, self.narrow = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.activate, self.dropout = ACTIVATIONS[activation], nn.Dropout(dropout)
        for layer in (self.widen, self.narrow):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, Q, D) -> (B, Q, D)."""
        return self.narrow(self.dropout(self.activate(self.widen(x))))


class _Residual(nn.Module):
    """A normalisation and a residual around each part; the last part is the feed-forward network."""

    def __init__(
        self, width: int, heads: int, hidden: int, *, dropout: float, norm: Where, activation: str
    ) -> None:
        super().__init__()
        self._first = norm == "pre"
        self.attention = MultiHeadAttention(width, heads, dropout=dropout)
        self.feed_forward = FeedForward(width, hidden, dropout=dropout, activation=activation)
        self.norm_attention, self.norm_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def _before(self, x: Tensor, norm: nn.LayerNorm) -> Tensor:
        return norm(x) if self._first else x

    def _after(self, x: Tensor, part: Tensor, norm: nn.LayerNorm) -> Tensor:
        x = x + self.dropout(part)
        return x if self._first else norm(x)

    def _attention(self, x: Tensor, keep: Tensor | None, *, causal: bool) -> Tensor:
        given = self._before(x, self.norm_attention)
        return self._after(x, self.attention(given, keep=keep, causal=causal), self.norm_attention)

    def _attention_step(self, x: Tensor, held: KeysValues | None) -> tuple[Tensor, KeysValues]:
        gathered, held = self.attention.step(self._before(x, self.norm_attention), held)
        return self._after(x, gathered, self.norm_attention), held

    def _network(self, x: Tensor) -> Tensor:
        given = self._before(x, self.norm_feed_forward)
        return self._after(x, self.feed_forward(given), self.norm_feed_forward)


class EncoderLayer(_Residual):
    """Self-attention and a feed-forward network, each normalised before ("pre") or after ("post") it.

    >>> import torch
    >>> layer, x = EncoderLayer(8, heads=2, hidden=16).eval(), torch.randn(1, 4, 8)
    >>> first, held = layer.step(x[:, :3], None)
    >>> torch.allclose(layer.step(x[:, 3:], held)[0], layer(x, causal=True)[:, 3:], atol=1e-6)
    True

    With `causal` it is the layer of a language model; `step` then goes on from the positions before.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        *,
        dropout: float = 0.0,
        norm: Where = "pre",
        activation: str = "relu",
    ) -> None:
        super().__init__(width, heads, hidden, dropout=dropout, norm=norm, activation=activation)

    def forward(self, x: Tensor, keep: Tensor | None = None, *, causal: bool = False) -> Tensor:
        """(B, Q, D), (B, Q) -> (B, Q, D)."""
        return self._network(self._attention(x, keep, causal=causal))

    def step(self, x: Tensor, held: KeysValues | None) -> tuple[Tensor, KeysValues]:
        """Take the next positions, each of which sees those before it: (B, Q, D) -> (B, Q, D)."""
        x, held = self._attention_step(x, held)
        return self._network(x), held


class DecoderLayer(_Residual):
    """A causal layer that also attends to a memory, such as encoded frames or a source sentence.

    >>> import torch
    >>> layer = DecoderLayer(8, heads=2, hidden=16, memory_width=6)
    >>> memory = layer.read(torch.zeros(2, 9, 6))
    >>> layer(torch.zeros(2, 3, 8), memory).shape
    torch.Size([2, 3, 8])

    The memory is projected once, by `read`. `keep` (B, K) is True where it is real.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        *,
        memory_width: int | None = None,
        dropout: float = 0.0,
        norm: Where = "pre",
        activation: str = "relu",
    ) -> None:
        super().__init__(width, heads, hidden, dropout=dropout, norm=norm, activation=activation)
        self.cross = MultiHeadAttention(width, heads, memory_width=memory_width, dropout=dropout)
        self.norm_cross = nn.LayerNorm(width)

    def read(self, memory: Tensor) -> KeysValues:
        """Project the memory: (B, K, M) -> 2 x (B, H, K, E)."""
        return self.cross.read(memory)

    def forward(self, x: Tensor, memory: KeysValues, keep: Tensor | None = None) -> Tensor:
        """Take all positions at once: (B, Q, D), (B, K) -> (B, Q, D)."""
        return self._network(self._cross(self._attention(x, None, causal=True), memory, keep))

    def weigh(self, x: Tensor, memory: KeysValues, keep: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Do the same, and say how much of the memory each position reads: (B, Q, D), (B, Q, K).

        The weights are the mean over the heads, without a gradient: they are for pictures.
        """
        x = self._attention(x, None, causal=True)
        asked = self._before(x, self.norm_cross).detach()
        with torch.no_grad():
            weights = self.cross.weights(asked, memory, keep=keep).mean(dim=1)
        return self._network(self._cross(x, memory, keep)), weights

    def step(
        self, x: Tensor, held: KeysValues | None, memory: KeysValues, keep: Tensor | None = None
    ) -> tuple[Tensor, KeysValues]:
        """Take the next position of each hypothesis: (N, 1, D) -> (N, 1, D), with N a multiple of B.

        The hypotheses of a row of the memory stand one behind the other, and read it without copies.
        """
        x, held = self._attention_step(x, held)
        rows = memory.keys.shape[0]
        together = x.reshape(rows, x.shape[0] // max(rows, 1), x.shape[2])  # (B, N / B, D)
        return self._network(self._cross(together, memory, keep).reshape(x.shape)), held

    def _cross(self, x: Tensor, memory: KeysValues, keep: Tensor | None) -> Tensor:
        gathered = self.cross.attend(self._before(x, self.norm_cross), memory, keep=keep)
        return self._after(x, gathered, self.norm_cross)
