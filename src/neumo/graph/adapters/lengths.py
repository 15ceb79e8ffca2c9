"""Adapters of lengths: strides, offsets, fractions, full rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, Self

from neumo.graph.adapters.adapter import Adapter, MeasuringAdapter, check_positive
from neumo.graph.signature import Signature
from neumo.types import B, ConfigError, Lengths, NeuralType, Size, SizeGap, T, gap


@dataclass(frozen=True)
class FullLengths(MeasuringAdapter):
    """Counts all rows as full where lengths may be absent; `like` is any value with the measured axis.

    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import Audio
    >>> speech = inputs(audio=Audio()[B, T], audio_len=Lengths(T).optional()[B])
    >>> FullLengths()(lengths=speech.audio_len, like=speech.audio).lengths
    FullLengths.lengths: Lengths(T)[B]

    `axis` is the number of the measured axis in `like`.
    """

    entry: ClassVar[str] = "lengths"
    exit: ClassVar[str] = "lengths"

    axis: int = 1

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for the other axes of `like`."""
        return Signature(
            takes={"lengths": Lengths(T).optional()[B], "like": self.like(given)},
            gives={"lengths": Lengths(T)[B]},
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where lengths may be absent and must not be."""
        if isinstance(given.element, Lengths) and given.optional and not wanted.optional:
            yield from (cls(place) for place in cls.places)

    def notation(self) -> str:
        """Write `FullLengths()`."""
        return f"FullLengths({self.place()})"


@dataclass(frozen=True)
class FractionToCount(MeasuringAdapter):
    """Turns lengths that are a share of the longest row into counts, rounded to the nearest whole number.

    `like` is any value with the measured axis, its axis number `axis`. Exact for up to a million frames.
    """

    entry: ClassVar[str] = "lengths"
    exit: ClassVar[str] = "lengths"

    axis: int = 1

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for the other axes of `like`."""
        return Signature(
            takes={"lengths": Lengths(T, unit="fraction")[B], "like": self.like(given)},
            gives={"lengths": Lengths(T)[B]},
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where counts are wanted and fractions are given."""
        if _units(wanted, given) == ("count", "fraction"):
            yield from (cls(place) for place in cls.places)

    def notation(self) -> str:
        """Write `FractionToCount()`."""
        return f"FractionToCount({self.place()})"


@dataclass(frozen=True)
class CountToFraction(MeasuringAdapter):
    """Turns lengths that are counts into shares of the size of the axis, from 0 to 1.

    `like` is any value with the measured axis, its axis number `axis`.
    """

    entry: ClassVar[str] = "lengths"
    exit: ClassVar[str] = "lengths"

    axis: int = 1

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for the other axes of `like`."""
        return Signature(
            takes={"lengths": Lengths(T)[B], "like": self.like(given)},
            gives={"lengths": Lengths(T, unit="fraction")[B]},
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where fractions are wanted and counts are given."""
        if _units(wanted, given) == ("fraction", "count"):
            yield from (cls(place) for place in cls.places)

    def notation(self) -> str:
        """Write `CountToFraction()`."""
        return f"CountToFraction({self.place()})"


@dataclass(frozen=True)
class Subsample(Adapter):
    """Divides lengths by the stride of a module, rounding as it does: ceil(n / by), or floor(n / by)."""

    entry: ClassVar[str] = "lengths"
    exit: ClassVar[str] = "lengths"

    by: int
    rounding: Literal["ceil", "floor"] = "ceil"

    def __post_init__(self) -> None:
        check_positive("a stride", self.by)

    def signature(self) -> Signature:
        """Take lengths, give shorter ones."""
        after = T.ceildiv(self.by) if self.rounding == "ceil" else T // self.by
        return Signature(takes={"lengths": Lengths(T)[B]}, gives={"lengths": Lengths(after)[B]})

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose both roundings for the whole number by which the given lengths are too long."""
        found = _gap_of_lengths(wanted, given)
        by = found.factor if found is not None else None
        if by is not None and by.denominator == 1 and by > 1:
            yield cls(int(by))
            yield cls(int(by), "floor")

    def notation(self) -> str:
        """Write `Subsample(by=2)`."""
        return f"Subsample(by={self.by}{'' if self.rounding == 'ceil' else ', rounding=floor'})"


@dataclass(frozen=True)
class Upsample(Adapter):
    """Multiplies lengths by what a module makes out of each frame, such as the samples of a vocoder.

    >>> Upsample(256).signature().gives["lengths"]
    Lengths(256*T)[B]
    """

    entry: ClassVar[str] = "lengths"
    exit: ClassVar[str] = "lengths"

    by: int

    def __post_init__(self) -> None:
        if self.by < 1:
            raise ConfigError(f"lengths cannot be multiplied by {self.by}", code="field")

    def signature(self) -> Signature:
        """Take lengths, give longer ones."""
        return Signature(takes={"lengths": Lengths(T)[B]}, gives={"lengths": Lengths(T * self.by)[B]})

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose the whole number by which the given lengths are too short."""
        found = _gap_of_lengths(wanted, given)
        times = 1 / found.factor if found is not None and found.factor else Fraction(0)
        if times.denominator == 1 and times > 1:
            yield cls(int(times))

    def notation(self) -> str:
        """Write `Upsample(by=256)`."""
        return f"Upsample(by={self.by})"


@dataclass(frozen=True)
class Offset(Adapter):
    """Adds a constant to lengths, for a module that makes every row longer or shorter by that much.

    >>> Offset(-2).signature().gives["lengths"]
    Lengths(T - 2)[B]

    A convolution of kernel 3 without padding, for instance, makes two frames less. No length falls below 0.
    """

    entry: ClassVar[str] = "lengths"
    exit: ClassVar[str] = "lengths"

    by: int

    def signature(self) -> Signature:
        """Take lengths, give longer or shorter ones."""
        return Signature(takes={"lengths": Lengths(T)[B]}, gives={"lengths": Lengths(T + self.by)[B]})

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose the number by which the given lengths are too long or too short."""
        found = _gap_of_lengths(wanted, given)
        if found is not None and found.kind == "offset" and found.offset is not None:
            yield cls(-found.offset)

    def notation(self) -> str:
        """Write `Offset(by=1)`."""
        return f"Offset(by={self.by})"


def _gap_of_lengths(wanted: NeuralType, given: NeuralType) -> SizeGap | None:
    """Say what separates two lengths, where both are counts of a known size."""
    want, have = wanted.element, given.element
    if not isinstance(want, Lengths) or not isinstance(have, Lengths):
        return None
    known = isinstance(want.of, Size) and isinstance(have.of, Size)
    return gap(want.of, have.of) if known and want.of != have.of else None


def _units(wanted: NeuralType, given: NeuralType) -> tuple[object, object]:
    want, have = wanted.element, given.element
    if not isinstance(want, Lengths) or not isinstance(have, Lengths):
        return None, None
    return want.unit, have.unit
