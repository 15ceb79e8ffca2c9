"""Random changes of the samples of training data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from neumo.asr.modules.facets import ANY_AUDIO
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    B,
    Lengths,
    T,
)
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class SpeedPerturb(NeuralModule):
    """Plays each training utterance at a speed drawn from `factors`, which also moves its pitch.

    >>> SpeedPerturb(factors=(0.9, 1.0, 1.1)).new_length(16000, 1.1)
    14546

    Resampled with a windowed sinc (Ko et al. 2015, Audio augmentation for speech recognition). In evaluation
    it changes nothing. Factors have at most two decimals.
    """

    mixes: ClassVar[tuple[str, ...] | None] = ("audio",)

    factors: tuple[float, ...] = (0.9, 1.0, 1.1)

    def __post_init__(self) -> None:
        if not self.factors or any(not 0.1 <= factor <= 10 for factor in self.factors):
            raise ConfigError(f"SpeedPerturb.factors {self.factors} must be between 0.1 and 10", code="field")
        if any(abs(factor * 100 - round(factor * 100)) > 1e-9 for factor in self.factors):
            raise ConfigError(
                f"SpeedPerturb.factors {self.factors} must have at most two decimals", code="field"
            )

    @staticmethod
    def ratio(factor: float) -> tuple[int, int]:
        """The factor as a fraction in lowest terms.

        >>> SpeedPerturb.ratio(0.9)
        (9, 10)
        """
        hundredths = round(factor * 100)
        common = math.gcd(hundredths, 100)
        return hundredths // common, 100 // common

    @classmethod
    def new_length(cls, samples: Any, factor: float) -> Any:
        """The number of samples after a change of speed, for an int or a tensor: ceil(samples / factor)."""
        above, below = cls.ratio(factor)
        return (samples * below + (above - 1)) // above

    def signature(self) -> Signature:
        """Audio of any rate to audio of the same rate and another length."""
        changed = T("T'")
        return Signature(
            takes={"audio": ANY_AUDIO[B, T], "audio_len": Lengths(T)[B]},
            gives={"audio": ANY_AUDIO[B, changed], "audio_len": Lengths(changed)[B]},
        )
