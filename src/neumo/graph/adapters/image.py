"""Adapters of images: the largest value of a pixel, the order of the colours."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from neumo.graph.adapters.adapter import ShapedAdapter, check_positive
from neumo.graph.signature import Signature
from neumo.types import B, C, Element, H, Image, Kind, NeuralType, Var, W


@dataclass(frozen=True)
class ScalePixels(ShapedAdapter):
    """Scales pixels from one largest value to another: bytes (255) to floats (1.0)."""

    entry: ClassVar[str] = "image"
    exit: ClassVar[str] = "image"

    source: float
    target: float

    def __post_init__(self) -> None:
        check_positive("a peak", self.source, self.target)

    def signature(self) -> Signature:
        """Take and give an image."""
        channels = Var("channels")
        before, after = (Image(channels=channels, peak=peak) for peak in (self.source, self.target))
        return Signature(takes={"image": before[B, C, H, W]}, gives={"image": after[B, C, H, W]})

    def accepts(self, given: NeuralType) -> bool:
        """Accept images of the source peak that have not been normalised since."""
        element = given.element
        return isinstance(element, Image) and element.peak == self.source and element.norm in (None, "none")

    def convert(self, element: Image) -> Element:
        """Change the peak."""
        return dataclasses.replace(element, peak=self.target)

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose for two known peaks."""
        if isinstance(wanted.element, Image) and isinstance(given.element, Image):
            source, target = given.element.peak, wanted.element.peak
            if isinstance(source, int | float) and isinstance(target, int | float) and source != target:
                yield cls(float(source), float(target))

    def notation(self) -> str:
        """Write `ScalePixels(255 -> 1)`."""
        return f"ScalePixels({self.source:g} -> {self.target:g})"


@dataclass(frozen=True)
class FlipChannels(ShapedAdapter):
    """Turns the colours of an image around: "rgb" to "bgr" and back, along its only feature axis."""

    entry: ClassVar[str] = "image"
    exit: ClassVar[str] = "image"

    axis: int = 1

    def signature(self) -> Signature:
        """Take and give an image."""
        peak = Var("peak")
        axes = [B, H, W]
        axes.insert(self.axis, C(3))
        before, after = (Image(channels=order, peak=peak) for order in ("rgb", "bgr"))
        return Signature(
            takes={"image": NeuralType(before, tuple(axes))}, gives={"image": NeuralType(after, tuple(axes))}
        )

    def accepts(self, given: NeuralType) -> bool:
        """Accept images of three colours in a known order along this axis, not normalised since."""
        element, kinds = given.element, [axis.kind for axis in given.axes]
        if not isinstance(element, Image) or element.norm not in (None, "none"):
            return False
        here = self.axis < len(kinds) and kinds[self.axis] is Kind.FEATURE
        return here and element.channels in _FLIPPED

    def convert(self, element: Image) -> Element:
        """Change the order."""
        return dataclasses.replace(element, channels=_FLIPPED[str(element.channels)])

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where the two orders meet, for the one feature axis."""
        want, have = wanted.element, given.element
        if not isinstance(want, Image) or not isinstance(have, Image):
            return
        places = [place for place, axis in enumerate(given.axes) if axis.kind is Kind.FEATURE]
        if len(places) == 1 and want.channels == _FLIPPED.get(str(have.channels), ""):
            yield cls(places[0])

    def notation(self) -> str:
        """Write `FlipChannels()`."""
        return "FlipChannels()" if self.axis == 1 else f"FlipChannels(axis={self.axis})"


_FLIPPED = {"rgb": "bgr", "bgr": "rgb"}
