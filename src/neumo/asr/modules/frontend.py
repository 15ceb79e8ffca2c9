"""Front-ends: from samples to the frames that encoders take."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from neumo.asr.checks import at_least, one_of
from neumo.asr.modules.facets import ANY_MEL
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    MFCC,
    Audio,
    B,
    Element,
    F,
    Lengths,
    Mel,
    Spectrogram,
    T,
)
from neumo.types.errors import ConfigError


@dataclass(frozen=True)
class LinearSpectrogram(NeuralModule):
    """Turns samples into the power of each frequency from 0 to half the rate, in frames.

    >>> LinearSpectrogram(hop=160).signature().gives["spectrogram"].axes
    (B, F=257, ceil(T/160))

    `power=1.0` gives magnitudes. With the defaults nothing else is done; every other step of
    `MelSpectrogram`, which says more about `length` and `pad_mode`, can be asked for. `hop`, `win`, `n_fft`
    count samples.
    """

    mixes: ClassVar[tuple[str, ...] | None] = ("audio",)

    rate: int = 16000
    hop: int = 160
    win: int = 320
    n_fft: int = 512
    window: str = "hann"
    periodic: bool = True
    preemphasis: float = 0.0
    dither: float = 0.0
    power: float = 2.0
    log: bool = False
    floor: float = 2.0**-24
    floor_mode: Literal["add", "clamp"] = "add"
    norm: Literal["per_feature", "all_features", "none"] = "none"
    pad_to: int = 0
    pad_mode: Literal["constant", "reflect"] = "reflect"
    length: Literal["ceil", "floor+1", "floor"] = "ceil"

    def __post_init__(self) -> None:
        _check_frames(self)

    def frames(self, samples: Any) -> Any:
        """The number of valid frames in a number of samples: for an int, a tensor or an axis."""
        return _count_frames(self, samples)

    def element(self) -> Spectrogram:
        """What the frames mean, with every facet known."""
        return Spectrogram(**_facets(self))

    def signature(self) -> Signature:
        """Samples at `rate` with a peak of 1.0 to frames of `n_fft // 2 + 1` frequencies."""
        return _sound_to(self, "spectrogram", self.element(), self.n_fft // 2 + 1)


@dataclass(frozen=True)
class MelSpectrogram(NeuralModule):
    """Turns samples into log-mel frames, numerically as the front-end of the public QuartzNet checkpoints.

    >>> MelSpectrogram(n_mels=64).signature().gives["mel_len"]
    Lengths(T//160 + 1)[B]

    The order is: dither (training only), pre-emphasis, STFT, power, mel filters, logarithm, normalisation
    over the valid frames of each utterance, zeros beyond them, padding to a multiple of `pad_to` frames. It
    computes in float32 inside autocast.

    `hop`, `win`, `n_fft` count samples; `fmin`, `fmax` are in Hz (`fmax=None` is half the rate). `length`
    says how many frames are valid in an utterance of T samples, in the words of the public releases:

    =============  =====================  ==========  =========================
    `length`       frames                 `pad_mode`  generation of checkpoints
    =============  =====================  ==========  =========================
    "ceil"         ceil(T / hop)          "reflect"   0.9 to 0.11
    "floor+1"      floor(T / hop) + 1     "reflect"   1.0 to 2.4
    "floor"        floor(T / hop)         "constant"  3.0
    =============  =====================  ==========  =========================

    Short audio never fails: a signal shorter than the padding is mirrored again and again; the features of an
    utterance of one frame have no deviation and become 0; under `length="floor"` less than `hop` samples are
    no frame at all. `pad_mode="reflect"` mirrors each utterance at its own end, so what else is in the batch
    changes nothing.
    """

    mixes: ClassVar[tuple[str, ...] | None] = ("audio",)

    rate: int = 16000
    n_mels: int = 64
    hop: int = 160
    win: int = 320
    n_fft: int = 512
    window: str = "hann"
    periodic: bool = False
    fmin: float = 0.0
    fmax: float | None = None
    mel_scale: Literal["slaney", "htk"] = "slaney"
    area_norm: bool = True
    preemphasis: float = 0.97
    dither: float = 1e-5
    power: float = 2.0
    log: bool = True
    floor: float = 2.0**-24
    floor_mode: Literal["add", "clamp"] = "add"
    norm: Literal["per_feature", "all_features", "none"] = "per_feature"
    pad_to: int = 0
    pad_mode: Literal["constant", "reflect"] = "constant"
    length: Literal["ceil", "floor+1", "floor"] = "floor+1"

    def __post_init__(self) -> None:
        _check_frames(self)
        one_of(self, "mel_scale", ("slaney", "htk"))
        at_least(self, 1, "n_mels")
        at_least(self, 0, "fmin")
        if not self.fmin < self.highest <= self.rate / 2:
            raise ConfigError(
                f"{type(self).__name__} has bands from {self.fmin} to {self.highest} Hz, "
                f"which is not within 0 to {self.rate / 2} Hz",
                code="field",
            )

    @property
    def highest(self) -> float:
        """The upper end of the mel band in Hz."""
        return self.rate / 2 if self.fmax is None else self.fmax

    def frames(self, samples: Any) -> Any:
        """The number of valid frames in a number of samples: for an int, a tensor or an axis.

        >>> MelSpectrogram().frames(16000), MelSpectrogram(length="ceil").frames(T)
        (101, ceil(T/160))
        """
        return _count_frames(self, samples)

    def element(self) -> Spectrogram:
        """What the frames mean, with every facet known."""
        return Mel(
            **_facets(self),
            n_mels=self.n_mels,
            fmin=self.fmin,
            fmax=self.highest,
            mel_scale=self.mel_scale,
        )

    def signature(self) -> Signature:
        """Samples at `rate` with a peak of 1.0 to mel frames."""
        return _sound_to(self, "mel", self.element(), self.n_mels)


@dataclass(frozen=True)
class MelCepstrum(MelSpectrogram):
    """Turns samples into mel-frequency cepstral coefficients (MFCC): the cosine transform of log-mel frames.

    >>> MelCepstrum(n_mfcc=20).signature().gives["mfcc"].axes
    (B, F=20, ceil(T/160))

    The transform is the orthonormal DCT-II over the bands; `n_mfcc` coefficients are kept, the zeroth is the
    mean over the bands. `lifter` L above 0 multiplies coefficient k by 1 + L/2 sin(pi (k + 1) / L), as
    librosa does. The defaults are the conventions of torchaudio with `log_mels=True`, which is what networks
    for keywords are published with: HTK's mel scale without area, a periodic window, ln(x + 1e-6), no
    pre-emphasis, no normalisation. `norm="per_feature"` normalises mean and variance of each coefficient over
    the utterance. Davis and Mermelstein 1980, https://doi.org/10.1109/TASSP.1980.1163420
    """

    win: int = 400
    periodic: bool = True
    mel_scale: Literal["slaney", "htk"] = "htk"
    area_norm: bool = False
    preemphasis: float = 0.0
    dither: float = 0.0
    floor: float = 1e-6
    norm: Literal["per_feature", "all_features", "none"] = "none"
    pad_mode: Literal["constant", "reflect"] = "reflect"
    length: Literal["ceil", "floor+1", "floor"] = "ceil"
    n_mfcc: int = 64
    lifter: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "n_mfcc")
        at_least(self, 0, "lifter")
        if self.n_mfcc > self.n_mels:
            what = f"MelCepstrum.n_mfcc {self.n_mfcc} is more than n_mels {self.n_mels}"
            raise ConfigError(what, code="field", fixes=[f"n_mfcc={self.n_mels} or fewer"])
        if not self.log:
            what = "MelCepstrum.log is False: a cepstrum is that of a logarithm"
            raise ConfigError(what, code="field", fixes=["leave log out"])

    def element(self) -> Spectrogram:
        """What the frames mean, with every facet known."""
        return MFCC(**_facets(self), n_mfcc=self.n_mfcc, n_mels=self.n_mels)

    def signature(self) -> Signature:
        """Samples at `rate` with a peak of 1.0 to frames of coefficients."""
        return _sound_to(self, "mfcc", self.element(), self.n_mfcc)


@dataclass(frozen=True)
class StackFrames(NeuralModule):
    """Puts each mel frame and the `frames` - 1 behind it into one, so that a frame sees what comes next.

    >>> StackFrames(n_mels=64, frames=3).signature().gives["mel"].axes
    (B, F=192, T)

    The number of frames stays; behind the last valid frame are zeros. Encoders that are to take the frames
    have `n_mels` times `frames` features.
    """

    mixes: ClassVar[tuple[str, ...] | None] = ("mel",)

    n_mels: int = 64
    frames: int = 3

    def __post_init__(self) -> None:
        at_least(self, 1, "n_mels", "frames")

    def signature(self) -> Signature:
        """Mel frames to frames of `frames` times as many features."""
        stacked = self.n_mels * self.frames
        taken = dataclasses.replace(ANY_MEL, n_mels=self.n_mels)
        given = dataclasses.replace(ANY_MEL, n_mels=stacked)
        return Signature(
            takes={"mel": taken[B, F(self.n_mels), T], "mel_len": Lengths(T)[B]},
            gives={"mel": given[B, F(stacked), T]},
        )


def _check_frames(spec: LinearSpectrogram | MelSpectrogram) -> None:
    one_of(spec, "window", ("hann", "hamming", "blackman", "bartlett", "ones"))
    one_of(spec, "floor_mode", ("add", "clamp"))
    one_of(spec, "norm", ("per_feature", "all_features", "none"))
    one_of(spec, "pad_mode", ("constant", "reflect"))
    one_of(spec, "length", ("ceil", "floor+1", "floor"))
    at_least(spec, 1, "rate", "hop", "win", "n_fft")
    at_least(spec, 0, "preemphasis", "dither", "power", "floor", "pad_to")
    if spec.win > spec.n_fft:
        raise ConfigError(
            f"{type(spec).__name__}.win {spec.win} is longer than n_fft {spec.n_fft}", code="field"
        )


def _count_frames(spec: LinearSpectrogram | MelSpectrogram, samples: Any) -> Any:
    if spec.length == "ceil":
        return (samples + (spec.hop - 1)) // spec.hop
    return samples // spec.hop + (1 if spec.length == "floor+1" else 0)


def _facets(spec: LinearSpectrogram | MelSpectrogram) -> dict[str, Any]:
    """What the settings say about any spectrogram."""
    return {
        "rate": spec.rate,
        "hop": spec.hop,
        "n_fft": spec.n_fft,
        "win": spec.win,
        "window": spec.window,
        "power": spec.power,
        "scale": "ln" if spec.log else "linear",
        "floor": spec.floor if spec.log else 0.0,
        "norm": spec.norm,
        "center": True,
    }


def _sound_to(
    spec: LinearSpectrogram | MelSpectrogram, port: str, element: Element, features: int
) -> Signature:
    frames = spec.frames(T)
    if spec.pad_to:
        frames = frames.ceildiv(spec.pad_to) * spec.pad_to
    return Signature(
        takes={"audio": Audio(rate=spec.rate, peak=1.0)[B, T], "audio_len": Lengths(T)[B]},
        gives={port: element[B, F(features), frames], f"{port}_len": Lengths(frames)[B]},
    )
