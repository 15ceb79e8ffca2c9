"""The blocks that encoders of the Jasper and QuartzNet family are made of."""

from __future__ import annotations

from dataclasses import dataclass

from neumo.asr.checks import a_share, at_least
from neumo.types.errors import ConfigError


@dataclass(frozen=True)
class ConvBlock:
    """Specifies `repeat` convolutions over time, each normalised; a residual sum may join the last.

    >>> ConvBlock(256, 33, repeat=5, residual=True, separable=True).width
    256

    `separable` convolves each channel alone, then across channels with a kernel of one frame, in `groups`
    groups. `stride` acts on the first convolution (and on the residual branch). `dense` adds the inputs of
    the dense blocks directly before this one as well, each through a branch of its own. Raises `ConfigError`
    for an even kernel, which has no middle, and for a dense block that strides, whose branches would differ
    in length.
    """

    width: int
    kernel: int
    repeat: int = 1
    stride: int = 1
    dilation: int = 1
    separable: bool = False
    residual: bool = False
    dense: bool = False
    dropout: float = 0.0
    groups: int = 1

    def __post_init__(self) -> None:
        at_least(self, 1, "width", "kernel", "repeat", "stride", "dilation", "groups")
        a_share(self, "dropout")
        if self.kernel % 2 == 0:
            raise ConfigError(
                f"ConvBlock.kernel is {self.kernel}; it must be odd to keep the number of frames",
                code="field",
                fixes=(f"kernel={self.kernel - 1}", f"kernel={self.kernel + 1}"),
            )
        if self.dense and (self.stride > 1 or not self.residual):
            reason = "without residual=True has nothing to add" if not self.residual else "cannot stride"
            raise ConfigError(f"a dense ConvBlock {reason}", code="field")
        if self.width % self.groups:
            raise ConfigError(
                f"ConvBlock.width {self.width} is not divisible by groups={self.groups}", code="field"
            )
