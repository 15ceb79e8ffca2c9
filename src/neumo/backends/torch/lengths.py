"""Which frames of a padded batch are real.

Shapes: B utterances, T frames.
"""

from __future__ import annotations

import torch
from torch import Tensor


def frame_mask(lengths: Tensor, size: int) -> Tensor:
    """True where a frame belongs to its utterance, False in the padding: (B,) -> (B, size).

    >>> frame_mask(torch.tensor([1, 3]), 3).int()
    tensor([[1, 0, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision becomes float32, float64 stays: for sums and logarithms inside autocast.

    >>> at_least_float32(torch.zeros(1, dtype=torch.bfloat16)).dtype
    torch.float32
    """
    return x.to(torch.promote_types(x.dtype, torch.float32))
