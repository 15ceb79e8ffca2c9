"""Recurrent encoders: LSTM and GRU over frames, with the time reductions of Listen, Attend and Spell."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from neumo.asr.checks import a_share, at_least, one_of
from neumo.asr.presets import RECURRENT, recurrent_settings
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


@dataclass(frozen=True)
class RecurrentEncoder(NeuralModule):
    """Encodes mel frames with layers of LSTM or GRU.

    >>> encoder = RecurrentEncoder.preset("las")
    >>> encoder.width, encoder.stride
    (512, 8)
    >>> encoder.signature().gives["encoded"]
    Acoustic[B, F=512, ceil(T/8)]

    Each layer has `hidden` units in each direction, and with `projection` a linear layer behind it.
    `reduction` says for each layer how many frames it takes at once, side by side: (1, 2, 2, 2) is the
    pyramid of Listen, Attend and Spell (Chan et al. 2016, https://arxiv.org/abs/1508.01211), (3, 1, 1) a
    stacking of frames. `front` "vgg" puts two pairs of convolutions over time and frequency before the first
    layer, each followed by a pooling that halves both, of `front_width` and twice as many channels (Hori et
    al. 2017, https://arxiv.org/abs/1706.02737). Everything rounds up. `dropout` is between layers.

    No layer reads beyond an utterance's end, in either direction, so an utterance is encoded the same alone
    and in any batch. `mel` states the settings of the frames that the weights were trained on, where they
    are known; anything else is then refused. Raises `ConfigError` for settings that do not fit.
    """

    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...] | None] = ("mel",)
    presets: ClassVar[tuple[str, ...]] = tuple(RECURRENT)

    n_mels: int = 80
    layers: int = 4
    hidden: int = 320
    cell: Literal["lstm", "gru"] = "lstm"
    bidirectional: bool = True
    projection: int | None = None
    reduction: tuple[int, ...] = ()
    front: Literal["none", "vgg"] = "none"
    front_width: int = 64
    dropout: float = 0.1
    mel: Mel | None = None

    def __post_init__(self) -> None:
        one_of(self, "cell", ("lstm", "gru"))
        one_of(self, "front", ("none", "vgg"))
        at_least(self, 1, "n_mels", "layers", "hidden", "front_width")
        a_share(self, "dropout")
        if self.projection is not None:
            at_least(self, 1, "projection")
        if (self.reduction and len(self.reduction) != self.layers) or any(by < 1 for by in self.reduction):
            raise ConfigError(
                f"RecurrentEncoder.reduction is {self.reduction!r}, for {self.layers} layers",
                code="field",
                why="It is how many frames each layer takes at once: a number above 0 for each.",
                fixes=(f"reduction={(1, *[2] * (self.layers - 1))!r}", "reduction=() for one frame at once"),
            )

    @classmethod
    def preset(cls, name: str, **fields: Any) -> RecurrentEncoder:
        """Make a published encoder, or a small one: see `neumo.asr.presets.RECURRENT` for the names.

        >>> RecurrentEncoder.preset("vgg_blstm", hidden=256).stride
        4

        The fields are those of the class.
        """
        return cls(**{**recurrent_settings(name), **fields})

    @property
    def reductions(self) -> tuple[int, ...]:
        """How many frames each layer takes at once."""
        return self.reduction or (1,) * self.layers

    @property
    def width(self) -> int:
        """The number of features of each encoded frame."""
        return self.projection or self.hidden * (2 if self.bidirectional else 1)

    @property
    def stride(self) -> int:
        """How many mel frames make one encoded frame."""
        return math.prod(self.reductions) * (4 if self.front == "vgg" else 1)

    def signature(self) -> Signature:
        """Mel frames to encoded frames, `stride` times fewer (rounded up)."""
        frames = T.ceildiv(self.stride)
        mel = dataclasses.replace(self.mel or Mel(), n_mels=self.n_mels)
        return Signature(
            takes={"mel": mel[B, F(self.n_mels), T], "mel_len": Lengths(T)[B]},
            gives={"encoded": Acoustic()[B, F(self.width), frames], "encoded_len": Lengths(frames)[B]},
        )
