"""Random changes of the samples of training data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from neumo.asr.checks import a_range, a_share, at_least, one_of
from neumo.asr.modules.facets import ANY_AUDIO
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    Audio,
    B,
    Lengths,
    T,
    Var,
)
from neumo.types.errors import ConfigError


@dataclass(frozen=True)
class SpeedPerturb(NeuralModule):
    """Plays each training utterance at a speed drawn from `factors`, which also moves its pitch.

    >>> SpeedPerturb(factors=(0.9, 1.0, 1.1)).new_length(16000, 1.1)
    14546

    Resampled with a windowed sinc (Ko et al. 2015, Audio augmentation for speech recognition). In evaluation
    it changes nothing. Factors have at most two decimals. `probability` is the share of the utterances that
    a speed is drawn for; the others keep theirs.
    """

    mixes: ClassVar[tuple[str, ...] | None] = ("audio",)

    factors: tuple[float, ...] = (0.9, 1.0, 1.1)
    probability: float = 1.0

    def __post_init__(self) -> None:
        _check_factors(self, self.factors)
        a_share(self, "probability")

    @staticmethod
    def ratio(factor: float) -> tuple[int, int]:
        """The factor as a fraction in lowest terms.

        >>> SpeedPerturb.ratio(0.9)
        (9, 10)
        """
        return ratio(factor)

    @staticmethod
    def new_length(samples: Any, factor: float) -> Any:
        """The number of samples after a change of speed, for an int or a tensor: ceil(samples / factor)."""
        return new_length(samples, factor)

    def signature(self) -> Signature:
        """Audio of any rate to audio of the same rate and another length."""
        changed = T("T'")
        return Signature(
            takes={"audio": ANY_AUDIO[B, T], "audio_len": Lengths(T)[B]},
            gives={"audio": ANY_AUDIO[B, changed], "audio_len": Lengths(changed)[B]},
        )


@dataclass(frozen=True)
class TimeStretch(NeuralModule):
    """Plays each training utterance faster or slower by a factor drawn from `factors`; its pitch stays.

    >>> TimeStretch(factors=(0.9, 1.1)).signature().gives["audio_len"]
    Lengths(T')[B]

    A phase vocoder over frames of `n_fft` samples, a quarter of that apart, whose phases are locked around
    the peaks (Laroche and Dolson 1999, Improved phase vocoder time-scale modification of audio). The new
    length is that of `SpeedPerturb`: ceil(samples / factor). In evaluation it changes nothing.
    """

    mixes: ClassVar[tuple[str, ...] | None] = ("audio",)

    factors: tuple[float, ...] = (0.9, 0.95, 1.0, 1.05, 1.1)
    n_fft: int = 512
    probability: float = 1.0

    def __post_init__(self) -> None:
        _check_factors(self, self.factors)
        a_share(self, "probability")
        at_least(self, 16, "n_fft")
        if self.n_fft % 4:
            what = f"TimeStretch.n_fft {self.n_fft} is no multiple of 4"
            raise ConfigError(what, code="field", fixes=[f"n_fft={self.n_fft - self.n_fft % 4}"])

    def signature(self) -> Signature:
        """Audio of any rate to audio of the same rate and another length."""
        changed = T("T'")
        return Signature(
            takes={"audio": ANY_AUDIO[B, T], "audio_len": Lengths(T)[B]},
            gives={"audio": ANY_AUDIO[B, changed], "audio_len": Lengths(changed)[B]},
        )


@dataclass(frozen=True)
class Gain(NeuralModule):
    """Makes each training utterance louder or quieter by a number of dB drawn from `decibels`.

    >>> Gain(decibels=(-6.0, 6.0))
    Gain(decibels=(-6.0, 6.0))

    Nothing is clipped: samples may come to lie beyond the peak. In evaluation it changes nothing.
    """

    mixes: ClassVar[tuple[str, ...] | None] = ()

    decibels: tuple[float, float] = (-10.0, 10.0)
    probability: float = 1.0

    def __post_init__(self) -> None:
        a_range(self, "decibels")
        a_share(self, "probability")

    def signature(self) -> Signature:
        """Audio to audio of the same length."""
        return sound_to_sound(ANY_AUDIO)


@dataclass(frozen=True)
class TimeShift(NeuralModule):
    """Moves each training utterance in time by a number of milliseconds drawn from `milliseconds`.

    >>> TimeShift(rate=8000, milliseconds=(-10.0, 10.0))
    TimeShift(rate=8000, milliseconds=(-10.0, 10.0))

    Above 0 it begins later. The number of samples stays: what leaves at one end is lost, and zeros come in at
    the other. In evaluation it changes nothing.
    """

    mixes: ClassVar[tuple[str, ...] | None] = ("audio",)

    rate: int = 16000
    milliseconds: tuple[float, float] = (-5.0, 5.0)
    probability: float = 1.0

    def __post_init__(self) -> None:
        at_least(self, 1, "rate")
        a_range(self, "milliseconds")
        a_share(self, "probability")

    def signature(self) -> Signature:
        """Audio to audio of the same length."""
        return sound_to_sound(full_scale(self.rate, peak=Var("peak")))


@dataclass(frozen=True)
class WhiteNoise(NeuralModule):
    """Adds white noise to each training utterance, at a level drawn from `decibels` relative to full scale.

    >>> WhiteNoise(decibels=(-80.0, -40.0), probability=0.5)
    WhiteNoise(decibels=(-80.0, -40.0), probability=0.5)

    The level is that of the noise's deviation: -20 dB is 0.1. In evaluation it changes nothing.
    """

    mixes: ClassVar[tuple[str, ...] | None] = ()

    decibels: tuple[float, float] = (-90.0, -46.0)
    probability: float = 1.0

    def __post_init__(self) -> None:
        a_range(self, "decibels")
        a_share(self, "probability")

    def signature(self) -> Signature:
        """Audio with a peak of 1.0 to the same."""
        return sound_to_sound(full_scale(Var("rate")))


@dataclass(frozen=True)
class TelephoneBand(NeuralModule):
    """Makes training utterances sound as over a telephone: narrow band, 8 kHz, 8 bits a sample.

    >>> TelephoneBand(probability=0.3)
    TelephoneBand(probability=0.3)

    Resampled to 8 kHz, limited to `low` to `high` Hz by a filter of 255 coefficients without delay, coded and
    decoded with G.711 by the `law` "mu" (North America, Japan) or "a" (elsewhere), and resampled back. The
    number of samples stays. In evaluation it changes nothing. ITU-T G.711, https://www.itu.int/rec/T-REC-G.711
    """

    mixes: ClassVar[tuple[str, ...] | None] = ("audio",)

    rate: int = 16000
    low: float = 300.0
    high: float = 3400.0
    law: Literal["mu", "a"] = "mu"
    probability: float = 0.5

    def __post_init__(self) -> None:
        at_least(self, 8000, "rate")
        a_share(self, "probability")
        one_of(self, "law", ("mu", "a"))
        if not 0 <= self.low < self.high <= 4000:
            what = f"TelephoneBand passes {self.low} to {self.high} Hz, which is not within 0 to 4000 Hz"
            raise ConfigError(what, code="field")

    def signature(self) -> Signature:
        """Audio with a peak of 1.0 to the same."""
        return sound_to_sound(full_scale(self.rate))


def ratio(factor: float) -> tuple[int, int]:
    """A factor of at most two decimals as a fraction in lowest terms.

    >>> ratio(0.95)
    (19, 20)
    """
    hundredths = round(factor * 100)
    common = math.gcd(hundredths, 100)
    return hundredths // common, 100 // common


def new_length(samples: Any, factor: float) -> Any:
    """How many samples there are at another speed, for an int or a tensor: ceil(samples / factor).

    >>> new_length(16000, 1.1)
    14546
    """
    above, below = ratio(factor)
    return (samples * below + (above - 1)) // above


def full_scale(rate: int | Var, peak: float | Var = 1.0) -> Audio:
    """Audio of one or more channels whose full scale is known."""
    return Audio(rate=rate, peak=peak, channels=Var("channels"))


def sound_to_sound(audio: Audio) -> Signature:
    """Samples to as many samples."""
    return Signature(
        takes={"audio": audio[B, T], "audio_len": Lengths(T)[B]},
        gives={"audio": audio[B, T]},
    )


def _check_factors(spec: SpeedPerturb | TimeStretch, factors: tuple[float, ...]) -> None:
    kind = type(spec).__name__
    if not factors or any(not 0.1 <= factor <= 10 for factor in factors):
        raise ConfigError(f"{kind}.factors {factors} must be between 0.1 and 10", code="field")
    if any(abs(factor * 100 - round(factor * 100)) > 1e-9 for factor in factors):
        raise ConfigError(f"{kind}.factors {factors} must have at most two decimals", code="field")
