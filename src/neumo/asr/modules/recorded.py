"""Random changes of the samples of training data with recordings: noises and rooms."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from neumo.asr.checks import a_range, a_share, at_least
from neumo.asr.modules.waveform import full_scale, sound_to_sound
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature


@dataclass(frozen=True)
class RecordedNoise(NeuralModule):
    """Adds a recorded noise to each training utterance, at a signal-to-noise ratio drawn from `snr` in dB.

    >>> RecordedNoise("noises.jsonl", snr=(5.0, 20.0), probability=0.5).signature().gives["audio"].axes
    (B, T)

    The noise is a piece of a recording drawn from `manifest` (the fields of training data, without texts), as
    long as the utterance and from a drawn place in it; a shorter recording is repeated. The ratio is that of
    the mean powers of the utterance and the piece. The noise is never amplified by more than `max_gain` dB,
    and an utterance or a piece of silence stays as it is. Nothing is clipped.

    Recordings are read when they are first drawn, resampled to `rate`, their channels mixed; up to
    `cache_limit` bytes of them are kept in memory. What cannot be read ends the training with a message that
    names file and line. In evaluation it changes nothing, and reads nothing.
    """

    mixes: ClassVar[tuple[str, ...] | None] = ()

    manifest: str | Path | tuple[str | Path, ...]
    rate: int = 16000
    snr: tuple[float, float] = (10.0, 30.0)
    max_gain: float = 300.0
    probability: float = 1.0
    cache_limit: int = 1 << 28

    def __post_init__(self) -> None:
        at_least(self, 1, "rate")
        at_least(self, 0, "cache_limit")
        a_range(self, "snr")
        a_share(self, "probability")

    def signature(self) -> Signature:
        """Audio with a peak of 1.0 to the same."""
        return sound_to_sound(full_scale(self.rate))


@dataclass(frozen=True)
class ImpulseResponse(NeuralModule):
    """Puts each training utterance into a room: convolves it with an impulse response drawn from `manifest`.

    >>> ImpulseResponse("rooms.jsonl", probability=0.3).signature().gives["audio"].axes
    (B, T)

    The strongest sample of the response counts as the direct sound and is put at time 0, so that what is said
    stays where it was; the number of samples stays, and so does the power of the utterance (Ko et al. 2017, A
    study on data augmentation of reverberant speech, https://doi.org/10.1109/ICASSP.2017.7953152).
    Recordings are read as those of `RecordedNoise`. In evaluation it changes nothing, and reads nothing.
    """

    mixes: ClassVar[tuple[str, ...] | None] = ("audio",)

    manifest: str | Path | tuple[str | Path, ...]
    rate: int = 16000
    probability: float = 1.0
    cache_limit: int = 1 << 28

    def __post_init__(self) -> None:
        at_least(self, 1, "rate")
        at_least(self, 0, "cache_limit")
        a_share(self, "probability")

    def signature(self) -> Signature:
        """Audio with a peak of 1.0 to the same."""
        return sound_to_sound(full_scale(self.rate))
