"""Names of the symbols of proposed signatures: one name is one size."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from neumo.backends.torch.infer_signature import infer_signature
from neumo.types import B, F, Features, H, T, U, W


class Pair(nn.Module):
    """Two pictures whose sides have nothing to do with each other."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.conv(left).mean((2, 3)) + self.conv(right).mean((2, 3))


class Many(nn.Module):
    """Sums up over four axes, each of its own size."""

    def forward(self, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
        return a.sum(1) + b.sum(1) + c.sum(1) + d.sum(1)


def test_pictures_of_other_sizes_have_sides_of_their_own() -> None:
    found = infer_signature(Pair(), (torch.randn(2, 3, 8, 10), torch.randn(2, 3, 6, 12)))
    assert found.signature.takes == {
        "left": Features()[B, F(3), H, W],
        "right": Features()[B, F(3), H("H2"), W("W2")],
    }


def test_times_are_called_t_u_and_then_numbered() -> None:
    found = infer_signature(Many(), tuple(torch.randn(2, size) for size in (5, 7, 9, 11)))
    assert [t.axes[1] for t in found.signature.takes.values()] == [T, U, T("T2"), T("T3")]
