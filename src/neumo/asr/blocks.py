"""The blocks that encoders of the Jasper, QuartzNet and Citrinet family are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from neumo.asr.checks import a_share, at_least, one_of
from neumo.types.errors import ConfigError


@dataclass(frozen=True)
class SqueezeExcite:
    """Weights the channels of each frame by what is around it: squeeze-and-excitation.

    >>> SqueezeExcite(reduction=8)
    SqueezeExcite(reduction=8, window=None)

    The mean of each channel goes through two linear layers without bias, the inner one `reduction` times
    narrower (but at least 1 wide). The mean is over the valid frames of the whole utterance, or of the
    `window` frames around each one (an odd number). Hu et al. 2018, https://arxiv.org/abs/1709.01507; over
    time: Han et al. 2020, ContextNet, https://arxiv.org/abs/2005.03191.
    """

    reduction: int = 8
    window: int | None = None

    def __post_init__(self) -> None:
        at_least(self, 1, "reduction")
        if self.window is not None:
            at_least(self, 1, "window")
            if self.window % 2 == 0:
                raise ConfigError(
                    f"SqueezeExcite.window is {self.window}; it must be odd to have a frame in its middle",
                    code="field",
                    fixes=(f"window={self.window + 1}", "window=None for the whole utterance"),
                )


@dataclass(frozen=True)
class ConvBlock:
    """Specifies `repeat` convolutions over time, each normalised; a residual sum may join the last.

    >>> ConvBlock(256, 33, repeat=5, residual=True, separable=True).width
    256
    >>> ConvBlock(512, 39, kernel_size_factor=0.25).taps
    9

    `separable` convolves each channel alone, then across channels with a kernel of one frame, in `groups`
    groups whose channels are shuffled behind the normalisation, so that the next convolution mixes them
    (Zhang et al. 2018, https://arxiv.org/abs/1707.01083). `stride` acts on the first convolution, with
    `stride_last` on the last; the residual branch takes the same strides (the original calls a sum of that
    kind "stride_add"). `residual_mode` says what joins the branch: the sum, or the greater of both. `dense`
    adds the inputs of the dense blocks directly before this one as well, each through a branch of its own.
    `squeeze` is applied to the last convolution, before the residual sum. `kernel_size_factor` makes kernels
    shorter, or longer: the convolutions have `taps` frames.

    Raises `ConfigError` for an even kernel, which has no middle, and for a dense block that strides, whose
    branches would differ in length.
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
    residual_mode: Literal["add", "max"] = "add"
    stride_last: bool = False
    squeeze: SqueezeExcite | None = None
    kernel_size_factor: float = 1.0

    def __post_init__(self) -> None:
        at_least(self, 1, "width", "kernel", "repeat", "stride", "dilation", "groups")
        a_share(self, "dropout")
        one_of(self, "residual_mode", ("add", "max"))
        if not 0 < self.kernel_size_factor < float("inf"):
            raise ConfigError(
                f"ConvBlock.kernel_size_factor is {self.kernel_size_factor!r}; it must be above 0",
                code="field",
            )
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

    @property
    def taps(self) -> int:
        """How many frames a kernel spans: the kernel times its factor, rounded down, then up to odd."""
        scaled = max(int(self.kernel * self.kernel_size_factor), 1)
        return scaled + 1 - scaled % 2
