"""Front-ends: from samples to the frames that encoders take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from neumo.asr.checks import at_least, one_of
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    Audio,
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
        one_of(self, "window", ("hann", "hamming", "blackman", "bartlett", "ones"))
        one_of(self, "mel_scale", ("slaney", "htk"))
        one_of(self, "floor_mode", ("add", "clamp"))
        one_of(self, "norm", ("per_feature", "all_features", "none"))
        one_of(self, "pad_mode", ("constant", "reflect"))
        one_of(self, "length", ("ceil", "floor+1", "floor"))
        at_least(self, 1, "rate", "n_mels", "hop", "win", "n_fft")
        at_least(self, 0, "fmin", "preemphasis", "dither", "power", "floor", "pad_to")
        if self.win > self.n_fft:
            raise ConfigError(
                f"MelSpectrogram.win {self.win} is longer than n_fft {self.n_fft}", code="field"
            )
        if not self.fmin < self.highest <= self.rate / 2:
            raise ConfigError(
                f"MelSpectrogram has bands from {self.fmin} to {self.highest} Hz, "
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
        if self.length == "ceil":
            return (samples + (self.hop - 1)) // self.hop
        return samples // self.hop + (1 if self.length == "floor+1" else 0)

    def element(self) -> Mel:
        """What the frames mean, with every facet known."""
        return Mel(
            rate=self.rate,
            hop=self.hop,
            n_fft=self.n_fft,
            win=self.win,
            window=self.window,
            power=self.power,
            scale="ln" if self.log else "linear",
            floor=self.floor if self.log else 0.0,
            norm=self.norm,
            center=True,
            n_mels=self.n_mels,
            fmin=self.fmin,
            fmax=self.highest,
            mel_scale=self.mel_scale,
        )

    def signature(self) -> Signature:
        """Samples at `rate` with a peak of 1.0 to mel frames."""
        frames = self.frames(T)
        if self.pad_to:
            frames = frames.ceildiv(self.pad_to) * self.pad_to
        return Signature(
            takes={"audio": Audio(rate=self.rate, peak=1.0)[B, T], "audio_len": Lengths(T)[B]},
            gives={"mel": self.element()[B, F(self.n_mels), frames], "mel_len": Lengths(frames)[B]},
        )
