"""Random masks over the frames of training data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from neumo.asr.checks import a_share, at_least
from neumo.asr.modules.facets import ANY_MEL
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    B,
    F,
    Lengths,
    T,
)

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class SpecAugment(NeuralModule):
    """Sets random bands of mel frequencies and stretches of time to 0 in training (Park et al. 2019).

    >>> SpecAugment(freq_masks=2, freq_width=12, time_masks=2, time_width=12)
    SpecAugment(freq_width=12, time_width=12)

    Each mask is 0 to `freq_width` bands or 0 to `time_width` frames wide, and at most `time_share` of the
    utterance long. In evaluation it changes nothing. https://arxiv.org/abs/1904.08779
    """

    mixes: ClassVar[tuple[str, ...] | None] = ()

    freq_masks: int = 2
    freq_width: int = 27
    time_masks: int = 2
    time_width: int = 100
    time_share: float = 1.0

    def __post_init__(self) -> None:
        at_least(self, 0, "freq_masks", "freq_width", "time_masks", "time_width")
        a_share(self, "time_share")

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


def _mel_to_mel() -> Signature:
    mel, mel_len = ANY_MEL[B, F, T], Lengths(T)[B]
    return Signature(takes={"mel": mel, "mel_len": mel_len}, gives={"mel": mel})
