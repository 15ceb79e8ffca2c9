"""Adapters of masks: what True means, the lengths that a mask says, the mask that lengths say."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from neumo.graph.adapters.adapter import FittingAdapter, MeasuringAdapter, ShapedAdapter
from neumo.graph.signature import Signature
from neumo.types import B, Element, Lengths, Mask, NeuralType, T

_OPPOSITE = {"keep": "pad", "pad": "keep"}


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
class MaskToLengths(FittingAdapter):
    """Counts the positions that a mask keeps: the lengths of rows that are padded behind their end.

    >>> from neumo.graph.inputs import inputs
    >>> MaskToLengths("pad")(mask=inputs(mask=Mask(T, true="pad")[B, T]).mask).lengths
    MaskToLengths.lengths: Lengths(T)[B]

    `true` says what True means in the mask: "keep" or "pad".
    """

    entry: ClassVar[str] = "mask"
    exit: ClassVar[str] = "lengths"

    true: Literal["keep", "pad"] = "keep"

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


@dataclass(frozen=True)
class LengthsToMask(MeasuringAdapter):
    """Makes a mask out of lengths; `like` is any value with the axis to be masked, its axis number `axis`."""

    entry: ClassVar[str] = "lengths"
    exit: ClassVar[str] = "mask"

    true: Literal["keep", "pad"] = "keep"
    axis: int = 1

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
            yield from (cls("pad" if wanted.element.true == "pad" else "keep", place) for place in cls.places)

    def notation(self) -> str:
        """Write `LengthsToMask(true=keep)`."""
        return f"LengthsToMask(true={self.true}{self.place(', ')})"
