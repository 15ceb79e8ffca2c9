"""Adapters of audio and spectrograms: sample rate, full scale, channels, logarithms."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from neumo.graph.adapter import Adapter, ShapedAdapter
from neumo.graph.signature import Signature
from neumo.types import Audio, B, C, ConfigError, Element, F, Lengths, NeuralType, Spectrogram, T, Var


@dataclass(frozen=True)
class Resample(Adapter):
    """Converts audio from one sample rate (Hz) to another; n samples become ceil(n * target / source).

    >>> Resample(44100, 16000).notation()
    'Resample(44100 -> 16000)'

    Without `audio_len` all rows count as full.
    """

    entry: ClassVar[str] = "audio"
    exit: ClassVar[str] = "audio"

    source: int
    target: int

    def signature(self) -> Signature:
        """Take and give audio with its lengths."""
        divisor = math.gcd(self.source, self.target)
        samples = (T * (self.target // divisor)).ceildiv(self.source // divisor)
        peak, channels = Var("peak"), Var("channels")
        return Signature(
            takes={
                "audio": Audio(rate=self.source, peak=peak, channels=channels)[B, T],
                "audio_len": Lengths(T).optional()[B],
            },
            gives={
                "audio": Audio(rate=self.target, peak=peak, channels=channels)[B, samples],
                "audio_len": Lengths(samples)[B],
            },
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose for two known rates."""
        if isinstance(wanted.element, Audio) and isinstance(given.element, Audio):
            source, target = given.element.rate, wanted.element.rate
            if isinstance(source, int) and isinstance(target, int) and source != target:
                yield cls(source, target)

    def notation(self) -> str:
        """Write `Resample(22050 -> 16000)`."""
        return f"Resample({self.source} -> {self.target})"


@dataclass(frozen=True)
class Repeak(ShapedAdapter):
    """Scales audio from one full-scale value to another: 16-bit integers (32768) to floats (1.0)."""

    entry: ClassVar[str] = "audio"
    exit: ClassVar[str] = "audio"

    source: float
    target: float

    def signature(self) -> Signature:
        """Take and give audio."""
        rate, channels = Var("rate"), Var("channels")
        return Signature(
            takes={"audio": Audio(rate=rate, peak=self.source, channels=channels)[B, T]},
            gives={"audio": Audio(rate=rate, peak=self.target, channels=channels)[B, T]},
        )

    def accepts(self, given: NeuralType) -> bool:
        """Accept audio of the source peak."""
        return isinstance(given.element, Audio) and given.element.peak == self.source

    def convert(self, element: Audio) -> Element:
        """Change the peak."""
        return dataclasses.replace(element, peak=self.target)

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose for two known peaks."""
        if isinstance(wanted.element, Audio) and isinstance(given.element, Audio):
            source, target = given.element.peak, wanted.element.peak
            if isinstance(source, int | float) and isinstance(target, int | float) and source != target:
                yield cls(float(source), float(target))

    def notation(self) -> str:
        """Write `Repeak(32768 -> 1)`."""
        return f"Repeak({self.source:g} -> {self.target:g})"


@dataclass(frozen=True)
class Mono(Adapter):
    """Mixes audio of several channels, `[B, C, T]`, down to one by their mean, `[B, T]`."""

    entry: ClassVar[str] = "audio"
    exit: ClassVar[str] = "audio"

    def signature(self) -> Signature:
        """Take audio with a channel axis, give audio without."""
        rate, peak = Var("rate"), Var("peak")
        return Signature(
            takes={"audio": Audio(rate=rate, peak=peak)[B, C, T]},
            gives={"audio": Audio(rate=rate, peak=peak, channels=1)[B, T]},
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where a channel axis is too much."""
        if (
            isinstance(wanted.element, Audio)
            and isinstance(given.element, Audio)
            and given.rank == wanted.rank + 1
        ):
            yield cls()


_LOGS = {"ln": 1.0, "log10": math.log(10.0)}  # factor that turns the scale into natural logarithms


@dataclass(frozen=True)
class Rescale(ShapedAdapter):
    """Changes the scale of a spectrogram exactly: between "ln", "log10", "db", and from these to "linear".

    `power` is that of the spectrogram (1 magnitude, 2 power): decibels are 10 log10 of a power, 20 log10 of a
    magnitude. From "linear" to a logarithm there is no exact way without the floor, so none is offered.
    """

    entry: ClassVar[str] = "mel"
    exit: ClassVar[str] = "mel"

    source: str
    target: str
    power: float | None = None

    def __post_init__(self) -> None:
        for scale in (self.source, self.target):
            if scale not in ("ln", "log10", "db", "linear"):
                raise ConfigError(
                    f"{scale!r} is not a scale", code="field", fixes=("use ln, log10, db or linear",)
                )
        if self.source == "linear" or self.source == self.target:
            raise ConfigError(f"there is no exact way from {self.source} to {self.target}", code="field")
        if "db" in (self.source, self.target) and self.power not in (1, 2):
            raise ConfigError("decibels need the power of the spectrogram: 1 or 2", code="field")

    @property
    def multiplier(self) -> float:
        """What to multiply by to get the target scale, or natural logarithms where the target is "linear"."""
        return self._to_ln(self.source) / (1.0 if self.target == "linear" else self._to_ln(self.target))

    def _to_ln(self, scale: str) -> float:
        return math.log(10.0) / (10.0 if self.power == 2 else 20.0) if scale == "db" else _LOGS[scale]

    def signature(self) -> Signature:
        """Take and give a spectrogram."""
        return Signature(
            takes={"mel": Spectrogram(scale=self.source, power=self.power)[B, F, T]},
            gives={"mel": Spectrogram(scale=self.target, power=self.power)[B, F, T]},
        )

    def accepts(self, given: NeuralType) -> bool:
        """Accept spectrograms of the source scale that have not been normalised since."""
        element = given.element
        if not isinstance(element, Spectrogram) or element.norm not in (None, "none"):
            return False
        return element.scale == self.source and (self.power is None or element.power == self.power)

    def convert(self, element: Spectrogram) -> Element:
        """Change the scale; the floor is told before the logarithm and stays."""
        return dataclasses.replace(element, scale=self.target)

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose for two known scales between which there is an exact way."""
        if not isinstance(wanted.element, Spectrogram) or not isinstance(given.element, Spectrogram):
            return
        source, target, power = given.element.scale, wanted.element.scale, given.element.power
        known = isinstance(source, str) and isinstance(target, str)
        if not known or source in ("linear", target) or given.element.norm not in (None, "none"):
            return
        if "db" not in (source, target):
            yield cls(str(source), str(target))
        elif power in (1, 2):
            yield cls(str(source), str(target), float(power))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    def notation(self) -> str:
        """Write `Rescale(ln -> log10)`."""
        return f"Rescale({self.source} -> {self.target})"
