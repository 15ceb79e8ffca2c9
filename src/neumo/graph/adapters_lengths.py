"""Adapters of lengths and masks: strides, offsets, fractions, what True means."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, Self

from neumo.graph.adapter import Adapter, ShapedAdapter
from neumo.graph.signature import Signature
from neumo.types import (
    Any_,
    Axis,
    B,
    ConfigError,
    Element,
    Kind,
    Lengths,
    Mask,
    NeuralType,
    Size,
    SizeGap,
    T,
    gap,
)

_OPPOSITE = {"keep": "pad", "pad": "keep"}
_PLACES = (1, 2)  # of the time axis in `like` that are tried: [B, T, F] and [B, F, T]


@dataclass(frozen=True)
class Invert(ShapedAdapter):
    """Inverts a mask: True comes to mean the opposite."""

    entry: ClassVar[str] = "mask"
    exit: ClassVar[str] = "mask"

    def signature(self) -> Signature:
        """Take a mask of positions to keep, give one of positions to leave out."""
        return Signature(
            takes={"mask": Mask(T, true="keep")[B, T]}, gives={"mask": Mask(T, true="pad")[B, T]}
        )

    def accepts(self, given: NeuralType) -> bool:
        """Accept masks that say what True means."""
        return isinstance(given.element, Mask) and given.element.true in _OPPOSITE

    def convert(self, element: Mask) -> Element:
        """Turn keep into pad and pad into keep."""
        return dataclasses.replace(element, true=_OPPOSITE[str(element.true)])

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where the two meanings meet."""
        if not isinstance(wanted.element, Mask) or not isinstance(given.element, Mask):
            return
        if wanted.element.true == _OPPOSITE.get(str(given.element.true)):
            yield cls()

    def notation(self) -> str:
        """Write `Invert(mask)`."""
        return "Invert(mask)"


@dataclass(frozen=True)
class MaskToLengths(Adapter):
    """Counts the positions that a mask keeps: the lengths of rows that are padded behind their end.

    >>> from neumo.graph.inputs import inputs
    >>> MaskToLengths("pad")(mask=inputs(mask=Mask(T, true="pad")[B, T]).mask).lengths
    MaskToLengths.lengths: Lengths(T)[B]

    `true` says what True means in the mask: "keep" or "pad".
    """

    entry: ClassVar[str] = "mask"
    exit: ClassVar[str] = "lengths"

    true: Literal["keep", "pad"] = "keep"

    def signature(self) -> Signature:
        """Take a mask, give lengths."""
        return self.ports_for({})

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for the axes that stand before the masked one."""
        found = given.get("mask")
        rows = found.axes[:-1] if found is not None and found.axes else (B,)
        return Signature(
            takes={"mask": NeuralType(Mask(T, true=self.true), (*rows, T))},
            gives={"lengths": NeuralType(Lengths(T), rows)},
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where lengths are wanted and a mask is given."""
        if isinstance(wanted.element, Lengths) and isinstance(given.element, Mask):
            yield cls("pad" if given.element.true == "pad" else "keep")

    def notation(self) -> str:
        """Write `MaskToLengths()`, or `MaskToLengths(true=pad)`."""
        return "MaskToLengths()" if self.true == "keep" else "MaskToLengths(true=pad)"


class _BesideAValue(Adapter):
    """Needs a value `like` that has the measured axis, at position `axis`, because it must know its size."""

    axis: int

    def like(self, given: Mapping[str, NeuralType]) -> NeuralType:
        """Give the type that `like` has to have: rows, any axes, and the measured one in its place."""
        found = given.get("like")
        inner = [Axis(Kind.ANY, None)] * (self.axis - 1)
        axes = list(found.axes) if found is not None and found.rank > self.axis else [B, *inner, T]
        axes[0], axes[self.axis] = B, T
        return NeuralType(Any_(), tuple(axes))


@dataclass(frozen=True)
class LengthsToMask(_BesideAValue):
    """Makes a mask out of lengths; `like` is any value with the axis to be masked, its axis number `axis`."""

    entry: ClassVar[str] = "lengths"
    exit: ClassVar[str] = "mask"

    true: Literal["keep", "pad"] = "keep"
    axis: int = 1

    def __post_init__(self) -> None:
        _check_axis(self.axis)

    def signature(self) -> Signature:
        """Take lengths and a value of the masked size, give a mask."""
        return self.ports_for({})

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for the other axes of `like`."""
        return Signature(
            takes={"lengths": Lengths(T)[B], "like": self.like(given)},
            gives={"mask": Mask(T, true=self.true)[B, T]},
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where a mask is wanted and lengths are given."""
        if isinstance(wanted.element, Mask) and isinstance(given.element, Lengths):
            yield from (cls("pad" if wanted.element.true == "pad" else "keep", place) for place in _PLACES)

    def notation(self) -> str:
        """Write `LengthsToMask(true=keep)`."""
        return f"LengthsToMask(true={self.true}{_place(self.axis)})"


@dataclass(frozen=True)
class FullLengths(_BesideAValue):
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

    def __post_init__(self) -> None:
        _check_axis(self.axis)

    def signature(self) -> Signature:
        """Take lengths that may be absent and a value of the measured size, give lengths."""
        return self.ports_for({})

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
            yield from (cls(place) for place in _PLACES)

    def notation(self) -> str:
        """Write `FullLengths()`."""
        return f"FullLengths({_place(self.axis).removeprefix(', ')})"


@dataclass(frozen=True)
class FractionToCount(_BesideAValue):
    """Turns lengths that are a share of the longest row into counts, rounded to the nearest whole number.

    `like` is any value with the measured axis, its axis number `axis`. Exact for up to a million frames.
    """

    entry: ClassVar[str] = "lengths"
    exit: ClassVar[str] = "lengths"

    axis: int = 1

    def __post_init__(self) -> None:
        _check_axis(self.axis)

    def signature(self) -> Signature:
        """Take fractions and a value of the measured size, give counts."""
        return self.ports_for({})

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
            yield from (cls(place) for place in _PLACES)

    def notation(self) -> str:
        """Write `FractionToCount()`."""
        return f"FractionToCount({_place(self.axis).removeprefix(', ')})"


@dataclass(frozen=True)
class CountToFraction(_BesideAValue):
    """Turns lengths that are counts into shares of the size of the axis, from 0 to 1.

    `like` is any value with the measured axis, its axis number `axis`.
    """

    entry: ClassVar[str] = "lengths"
    exit: ClassVar[str] = "lengths"

    axis: int = 1

    def __post_init__(self) -> None:
        _check_axis(self.axis)

    def signature(self) -> Signature:
        """Take counts and a value of the measured size, give fractions."""
        return self.ports_for({})

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
            yield from (cls(place) for place in _PLACES)

    def notation(self) -> str:
        """Write `CountToFraction()`."""
        return f"CountToFraction({_place(self.axis).removeprefix(', ')})"


@dataclass(frozen=True)
class Subsample(Adapter):
    """Divides lengths by the stride of a module, rounding as it does: ceil(n / by), or floor(n / by)."""

    entry: ClassVar[str] = "lengths"
    exit: ClassVar[str] = "lengths"

    by: int
    rounding: Literal["ceil", "floor"] = "ceil"

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


def _place(axis: int) -> str:
    return "" if axis == 1 else f", axis={axis}"


def _check_axis(axis: int) -> None:
    if axis < 1:
        raise ConfigError(
            f"axis {axis} cannot be the measured one: axis 0 has the rows",
            code="field",
            fixes=("axis=1 for [B, T, ...], axis=2 for [B, F, T]",),
        )
