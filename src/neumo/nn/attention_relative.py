"""Self-attention that is told how far apart two frames are, instead of where each of them stands.

Dai et al. 2019, Transformer-XL, section 3.3, https://arxiv.org/abs/1901.02860. Each layer has biases u and v
of its own.

Shapes: B utterances, T frames, D width, H heads, E = D / H.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neumo.nn.position import sinusoids
from neumo.types.errors import ConfigError


class RelativeAttention(nn.Module):
    """Each frame gathers from all others, by what they hold and by how far away they are.

    >>> attention, x = RelativeAttention(8, heads=2), torch.randn(3, 5, 8)
    >>> attention(x, distances(x), torch.zeros(3, 1, 1, 5, dtype=torch.bool)).shape
    torch.Size([3, 5, 8])

    `hidden` is True where a frame is not to be read. A frame that may read none reads all of them evenly, so
    that no number becomes nan; what it gives is of no use. The softmax is computed in float32, also inside
    autocast. Raises `ConfigError` if the width is no multiple of the heads.
    """

    def __init__(self, width: int, heads: int, *, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise ConfigError(
                f"attention of width {width} cannot be divided into {heads} heads", code="field"
            )
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(width, width, bias=bias)
        self.value = nn.Linear(width, width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)
        self.distance = nn.Linear(width, width, bias=False)
        self.bias_content = nn.Parameter(torch.zeros(heads, width // heads))  # u of the paper
        self.bias_distance = nn.Parameter(torch.zeros(heads, width // heads))  # v

    def forward(self, x: Tensor, distances: Tensor, hidden: Tensor) -> Tensor:
        """(B, T, D), (2T - 1, D), (B, 1, 1 or T, T) -> (B, T, D)."""
        query = self._split(self.query(x))  # (B, H, T, E)
        apart = self._split(self.distance(distances)[None])  # (1, H, 2T - 1, E)
        by_distance = shifted((query + self.bias_distance[:, None]) @ apart.transpose(2, 3))  # (B, H, T, T)
        by_distance = by_distance * query.shape[-1] ** -0.5
        # Half of the lowest number, since a score that is added must not make it -inf.
        by_distance = by_distance.masked_fill(hidden, torch.finfo(by_distance.dtype).min / 2)
        gathered = F.scaled_dot_product_attention(
            query + self.bias_content[:, None],
            self._split(self.key(x)),
            self._split(self.value(x)),
            attn_mask=by_distance,
            dropout_p=self.dropout if self.training else 0.0,
        )
        return self.output(gathered.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, H, T, E)
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


def distances(x: Tensor) -> Tensor:
    """Describes each distance between two frames, T - 1 back to T - 1 ahead: (B, T, D) -> (2T - 1, D).

    >>> distances(torch.zeros(1, 3, 2)).shape
    torch.Size([5, 2])
    """
    last = x.shape[1] - 1
    return sinusoids(torch.arange(last, -last - 1, -1, device=x.device), x.shape[2]).to(x.dtype)


def shifted(scores: Tensor) -> Tensor:
    """From scores of distances to scores of frames: (B, H, T, 2T - 1) -> (B, H, T, T).

    Row i and column j hold the distance i - j, which stands in column T - 1 - i + j: each row begins one
    column earlier than the row above.

    >>> shifted(torch.tensor([[[[1, 0, -1], [1, 0, -1]]]]))
    tensor([[[[ 0, -1],
              [ 1,  0]]]])
    """
    batch, heads, frames, count = scores.shape
    # With one more column, a row of `frames` less ends where the next distance begins.
    padded = F.pad(scores, (1, 0)).reshape(batch, heads, count + 1, frames)
    return padded[:, :, 1:].reshape(batch, heads, frames, count)[..., :frames]
