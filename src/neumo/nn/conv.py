"""One-dimensional convolution that keeps the number of frames (divided by the stride, rounded up)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neumo.nn.depthwise import depthwise_conv


class SameConv1d(nn.Conv1d):
    """Convolution over time with `ceil(T / stride)` frames out, for an odd kernel; no bias unless asked for.

    Zero frames in give zero frames out, where `nn.Conv1d` would raise. On a CPU a depthwise convolution gives
    its output with the channels innermost in memory, where it is several times faster than `nn.Conv1d`.

    >>> SameConv1d(64, 128, 11, stride=2)(torch.zeros(1, 64, 25)).shape
    torch.Size([1, 128, 13])
    >>> SameConv1d(64, 128, 11, stride=2)(torch.zeros(1, 64, 0)).shape
    torch.Size([1, 128, 0])
    """

    def __init__(
        self,
        width_in: int,
        width_out: int,
        kernel: int,
        *,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        # An odd kernel spans dilation * (kernel - 1) + 1 frames: half of the rest goes on each side.
        super().__init__(
            width_in,
            width_out,
            kernel,
            stride=stride,
            padding=dilation * (kernel - 1) // 2,
            dilation=dilation,
            groups=groups,
            bias=bias,
        )

    def reset_parameters(self) -> None:
        """Start as the published encoders did: uniform as in Glorot and Bengio 2010.

        That is up to sqrt(3) times torch's default; Adam's first steps are that much smaller beside it.
        """
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """(B, C, T) -> (B, C', ceil(T / stride))."""
        x = input
        if x.shape[-1] == 0:
            return x.new_zeros(x.shape[0], self.out_channels, 0)
        if x.device.type != "cpu" or torch.compiler.is_exporting():
            return super().forward(x)
        if self.groups == self.in_channels == self.out_channels:
            x = depthwise_conv(x, self.weight, stride=self.stride[0], dilation=self.dilation[0])
            return x if self.bias is None else x + self.bias[:, None].to(x.dtype)
        if self.kernel_size[0] == self.groups == 1 and (
            torch.compiler.is_compiling() or not x.is_contiguous()
        ):
            # What came with the channels innermost stays so: a linear layer of each frame.
            kept = x[..., :: self.stride[0]].transpose(1, 2)
            return F.linear(kept, self.weight.squeeze(2), self.bias).transpose(1, 2)
        return super().forward(x)
