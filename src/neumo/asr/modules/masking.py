"""Random masks over the frames of training data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from neumo.asr.checks import a_share, at_least, one_of
from neumo.asr.modules.facets import ANY_MEL
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    B,
    F,
    Lengths,
    T,
)
from neumo.types.errors import ConfigError


@dataclass(frozen=True)
class SpecAugment(NeuralModule):
    """Sets random bands of mel frequencies and stretches of time to 0 in training (Park et al. 2019).

    >>> SpecAugment(freq_masks=2, freq_width=12, time_masks=2, time_width=12)
    SpecAugment(freq_width=12, time_width=12)

    Each mask is 0 to `freq_width` bands or 0 to `time_width` frames wide, and at most `time_share` of the
    utterance long. In evaluation it changes nothing. https://arxiv.org/abs/1904.08779

    With a share, a number with a decimal point, masks adapt to the utterance (Park et al. 2020,
    https://arxiv.org/abs/1912.05533): `time_masks=0.04` makes floor(0.04 T) of them in T frames, 20 at most,
    and `time_width=0.04` makes each up to floor(0.04 T) frames wide.
    """

    mixes: ClassVar[tuple[str, ...] | None] = ()

    freq_masks: int = 2
    freq_width: int = 27
    time_masks: int | float = 2
    time_width: int | float = 100
    time_share: float = 1.0

    def __post_init__(self) -> None:
        at_least(self, 0, "freq_masks", "freq_width", "time_masks", "time_width")
        a_share(self, "time_share")
        for name in ("time_masks", "time_width"):
            value = getattr(self, name)
            if isinstance(value, float) and value > 1:
                what = f"SpecAugment.{name} is {value}: a number with a decimal point is a share, 0.0 to 1.0"
                raise ConfigError(what, code="field", fixes=[f"{name}={round(value)}"])

    def signature(self) -> Signature:
        """Mel frames of any settings to the same."""
        return _mel_to_mel()


@dataclass(frozen=True)
class SpecCutout(NeuralModule):
    """Sets random rectangles of the mel frames to 0 in training (DeVries and Taylor 2017).

    >>> SpecCutout(masks=5, freq_width=50, time_width=120)
    SpecCutout()

    Each rectangle is 0 to `freq_width` bands by 0 to `time_width` frames. In evaluation it changes nothing.
    https://arxiv.org/abs/1708.04552
    """

    mixes: ClassVar[tuple[str, ...] | None] = ()

    masks: int = 5
    freq_width: int = 50
    time_width: int = 120

    def __post_init__(self) -> None:
        at_least(self, 0, "masks", "freq_width", "time_width")

    def signature(self) -> Signature:
        """Mel frames of any settings to the same."""
        return _mel_to_mel()


@dataclass(frozen=True)
class CropOrPad(NeuralModule):
    """Makes every utterance `frames` long, for networks that take a fixed number of frames.

    >>> CropOrPad(frames=128).signature().gives["mel"].axes
    (B, F, T=128)

    `place` says which frames of a longer utterance are kept and where a shorter one comes to stand between
    zeros: "centre", "start", or "random" in training and "centre" in evaluation. Only with "start" are the
    zeros known to be padding; otherwise they stand before the utterance too, and all `frames` count.
    """

    mixes: ClassVar[tuple[str, ...] | None] = ("mel",)

    frames: int = 128
    place: Literal["centre", "start", "random"] = "centre"

    def __post_init__(self) -> None:
        at_least(self, 1, "frames")
        one_of(self, "place", ("centre", "start", "random"))

    def signature(self) -> Signature:
        """Mel frames of any number to `frames` of the same settings."""
        fixed = T(self.frames)
        return Signature(
            takes={"mel": ANY_MEL[B, F, T], "mel_len": Lengths(T)[B]},
            gives={"mel": ANY_MEL[B, F, fixed], "mel_len": Lengths(fixed)[B]},
        )


def _mel_to_mel() -> Signature:
    mel, mel_len = ANY_MEL[B, F, T], Lengths(T)[B]
    return Signature(takes={"mel": mel, "mel_len": mel_len}, gives={"mel": mel})
