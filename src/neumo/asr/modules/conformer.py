"""Encoders of attention and convolution: Conformer and FastConformer."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from neumo.asr.checks import a_share, at_least, one_of
from neumo.asr.presets import CONFORMERS, conformer_settings
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    Acoustic,
    B,
    F,
    Lengths,
    Mel,
    T,
)
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    pass

Subsampling = Literal["striding", "dw_striding", "stacking"]


@dataclass(frozen=True)
class ConformerEncoder(NeuralModule):
    """Encodes mel frames with attention over the utterance and convolutions around each frame.

    >>> encoder = ConformerEncoder.preset("conformer_large")
    >>> encoder.width, encoder.stride
    (512, 4)
    >>> encoder.signature().gives["encoded"]
    Acoustic[B, F=512, ceil(T/4)]

    A layer is half a feed-forward network (`expansion` times as wide inside), self-attention with relative
    positions (Dai et al. 2019), a convolution of each channel over `kernel` frames, and the other half.
    Gulati et al. 2020, https://arxiv.org/abs/2005.08100.

    `subsampling` makes one frame of `stride` mel frames: "striding" with convolutions over time and
    frequency, each of which halves both, of `subsampling_width` channels (as many as `width` if None);
    "dw_striding" convolves each channel alone (FastConformer: Rekesh et al. 2023,
    https://arxiv.org/abs/2305.05084); "stacking" puts frames side by side, for any stride. All round up.

    `norm` is that of the convolution: "batch", or "layer" over the channels of each frame. `bias` is that of
    the linear layers and convolutions of all layers. `xscaling` multiplies what comes out of the
    subsampling by sqrt(width). `attention_context` limits the attention of a frame to so many frames before
    and after it, such as (70, 0), counted behind the subsampling; None is no limit, of both sides or one.
    Rates of dropout: `dropout` inside of and behind each part, `dropout_input` behind the subsampling,
    `dropout_attention` of what attention reads, `dropout_distances` of relative positions.

    No frame beyond an utterance's end reaches a convolution or is attended to: an utterance is encoded the
    same alone and in any batch. `mel` states the settings of the frames that the weights were trained on,
    where they are known; anything else is then refused. Raises `ConfigError` for settings that do not fit.
    """

    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...] | None] = ("mel",)
    presets: ClassVar[tuple[str, ...]] = tuple(CONFORMERS)

    n_mels: int = 80
    width: int = 256
    layers: int = 16
    heads: int = 4
    kernel: int = 31
    expansion: int = 4
    stride: int = 4
    subsampling: Subsampling = "striding"
    subsampling_width: int | None = None
    norm: Literal["batch", "layer"] = "batch"
    bias: bool = True
    xscaling: bool = True
    attention_context: tuple[int | None, int | None] | None = None
    dropout: float = 0.1
    dropout_input: float = 0.1
    dropout_attention: float = 0.1
    dropout_distances: float = 0.0
    mel: Mel | None = None

    def __post_init__(self) -> None:
        one_of(self, "subsampling", ("striding", "dw_striding", "stacking"))
        one_of(self, "norm", ("batch", "layer"))
        at_least(self, 1, "n_mels", "width", "layers", "heads", "kernel", "expansion", "stride")
        a_share(self, "dropout", "dropout_input", "dropout_attention", "dropout_distances")
        if self.subsampling_width is not None:
            at_least(self, 1, "subsampling_width")
        self._check_context()
        if self.width % self.heads:
            raise ConfigError(
                f"ConformerEncoder.width is {self.width}, which {self.heads} heads cannot share evenly",
                code="field",
                fixes=[f"heads={n}" for n in (8, 4, 2, 1) if self.width % n == 0][:1],
            )
        if self.kernel % 2 == 0:
            raise ConfigError(
                f"ConformerEncoder.kernel is {self.kernel}; it must be odd to keep the number of frames",
                code="field",
                fixes=(f"kernel={self.kernel - 1}", f"kernel={self.kernel + 1}"),
            )
        if self.subsampling != "stacking" and (self.stride < 2 or self.stride & (self.stride - 1)):
            raise ConfigError(
                f"ConformerEncoder.stride is {self.stride}; convolutions halve the frames once or more",
                code="field",
                fixes=("stride=2, 4 or 8", 'subsampling="stacking" for any stride'),
            )

    def _check_context(self) -> None:
        context: Any = self.attention_context
        if context is None:
            return
        if len(context) != 2 or any(each is not None and each < 0 for each in context):
            raise ConfigError(
                f"ConformerEncoder.attention_context is {context!r}; it is two numbers of frames",
                code="field",
                fixes=("attention_context=(70, 0)", "None in the place of a number for no limit"),
            )

    @classmethod
    def preset(cls, name: str, **fields: Any) -> ConformerEncoder:
        """Make a published encoder, or a small one: see `neumo.asr.presets.CONFORMERS` for the names.

        >>> ConformerEncoder.preset("fastconformer_large", attention_context=(70, 0)).layers
        17

        The fields are those of the class.
        """
        return cls(**{**conformer_settings(name), **fields})

    def signature(self) -> Signature:
        """Mel frames to encoded frames, `stride` times fewer (rounded up)."""
        frames = T.ceildiv(self.stride)
        mel = dataclasses.replace(self.mel or Mel(), n_mels=self.n_mels)
        return Signature(
            takes={"mel": mel[B, F(self.n_mels), T], "mel_len": Lengths(T)[B]},
            gives={"encoded": Acoustic()[B, F(self.width), frames], "encoded_len": Lengths(frames)[B]},
        )
