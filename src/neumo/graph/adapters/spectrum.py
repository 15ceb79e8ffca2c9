"""Adapters of spectrograms: logarithms of any base, decibels, magnitudes and powers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from neumo.graph.adapters.adapter import ShapedAdapter
from neumo.graph.signature import Signature
from neumo.types import MFCC, B, ConfigError, Element, F, NeuralType, Spectrogram, T

SCALES = ("ln", "log10", "db", "linear")
_LOGS = {"ln": 1.0, "log10": math.log(10.0)}  # factor that turns the scale into natural logarithms


@dataclass(frozen=True)
class Rescale(ShapedAdapter):
    """Changes the scale of a spectrogram exactly: between "ln", "log10", "db" and "linear".

    `power` is that of the spectrogram (1 magnitude, 2 power): decibels are 10 log10 of a power, 20 log10 of a
    magnitude. From "linear" to a logarithm there is an exact way only where a floor above 0 has been put
    under the values already; the floor of two spectrograms is never made equal.
    """

    entry: ClassVar[str] = "mel"
    exit: ClassVar[str] = "mel"

    source: str
    target: str
    power: float | None = None

    def __post_init__(self) -> None:
        for scale in (self.source, self.target):
            if scale not in SCALES:
                raise ConfigError(
                    f"{scale!r} is not a scale", code="field", fixes=("use ln, log10, db or linear",)
                )
        if self.source == self.target:
            raise ConfigError(f"there is no way to take from {self.source} to {self.target}", code="field")
        if "db" in (self.source, self.target) and self.power not in (1, 2):
            raise ConfigError("decibels need the power of the spectrogram: 1 or 2", code="field")

    @property
    def multiplier(self) -> float:
        """What to multiply by to get the target scale, where "linear" stands for natural logarithms."""
        return self._to_ln(self.source) / self._to_ln(self.target)

    def _to_ln(self, scale: str) -> float:
        if scale == "db":
            return math.log(10.0) / (10.0 if self.power == 2 else 20.0)
        return _LOGS.get(scale, 1.0)

    def signature(self) -> Signature:
        """Take and give a spectrogram."""
        floor = 1e-5 if self.source == "linear" else None  # one that is above 0, for example
        return Signature(
            takes={"mel": Spectrogram(scale=self.source, power=self.power, floor=floor)[B, F, T]},
            gives={"mel": Spectrogram(scale=self.target, power=self.power, floor=floor)[B, F, T]},
        )

    def accepts(self, given: NeuralType) -> bool:
        """Accept spectrograms of the source scale that have not been normalised since."""
        element = given.element
        if not isinstance(element, Spectrogram) or element.norm not in (None, "none"):
            return False
        if isinstance(element, MFCC) and "linear" in (self.source, self.target):
            return False  # a cosine transform stands between the coefficients and the bands
        if self.source == "linear" and not (isinstance(element.floor, int | float) and element.floor > 0):
            return False  # the logarithm of 0
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
        if source not in SCALES or target not in SCALES or source == target:
            return
        needs_power = "db" in (source, target)
        if needs_power and power not in (1, 2):
            return
        adapter = cls(str(source), str(target), float(str(power)) if needs_power else None)
        if adapter.accepts(given):
            yield adapter

    def notation(self) -> str:
        """Write `Rescale(ln -> log10)`."""
        return f"Rescale({self.source} -> {self.target})"


@dataclass(frozen=True)
class Repower(ShapedAdapter):
    """Turns the magnitudes of a spectrogram (power 1) into powers (power 2), or back.

    >>> Repower(1, 2, "linear").notation()
    'Repower(1 -> 2)'

    It is exact for a plain spectrogram without a floor. The bands of a mel are sums, whose squares are no
    sums of squares; there is no way for them.
    """

    entry: ClassVar[str] = "spectrogram"
    exit: ClassVar[str] = "spectrogram"

    source: int
    target: int
    scale: Literal["linear", "ln", "log10", "db"]

    def __post_init__(self) -> None:
        if {self.source, self.target} != {1, 2}:
            raise ConfigError(f"a power is 1 or 2: {self.source} -> {self.target} is no change", code="field")

    def signature(self) -> Signature:
        """Take and give a spectrogram."""
        before, after = (self._element(power) for power in (self.source, self.target))
        return Signature(takes={"spectrogram": before[B, F, T]}, gives={"spectrogram": after[B, F, T]})

    def _element(self, power: int) -> Spectrogram:
        return Spectrogram(power=float(power), scale=self.scale, floor=0.0)

    def accepts(self, given: NeuralType) -> bool:
        """Accept plain spectrograms of that power and scale without a floor, not normalised since."""
        element = given.element
        if type(element) is not Spectrogram or element.norm not in (None, "none"):
            return False
        return element.power == self.source and element.scale == self.scale and element.floor == 0

    def convert(self, element: Spectrogram) -> Element:
        """Change the power."""
        return dataclasses.replace(element, power=float(self.target))

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose for two known powers."""
        want, have = wanted.element, given.element
        if not isinstance(want, Spectrogram) or not isinstance(have, Spectrogram) or have.scale not in SCALES:
            return
        if have.power in (1, 2) and want.power == 3 - float(have.power):  # type: ignore[arg-type]
            adapter = cls(int(have.power), 3 - int(have.power), have.scale)  # type: ignore[arg-type]
            if adapter.accepts(given):
                yield adapter

    def notation(self) -> str:
        """Write `Repower(1 -> 2)`."""
        return f"Repower({self.source} -> {self.target})"
