"""Adapters of audio: sample rate, full scale, channels."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from neumo.graph.adapters.adapter import Adapter, ShapedAdapter, check_positive
from neumo.graph.signature import Signature
from neumo.types import Audio, B, C, Element, Lengths, NeuralType, T, Var


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

    def __post_init__(self) -> None:
        check_positive("a rate", self.source, self.target)

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

    def __post_init__(self) -> None:
        check_positive("a peak", self.source, self.target)

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
