"""Adapters that make one value out of several: features side by side, sequences one behind the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from neumo.graph.adapter import FittingAdapter
from neumo.graph.signature import Signature
from neumo.types import (
    Acoustic,
    Any_,
    Axis,
    B,
    ConfigError,
    Element,
    F,
    Features,
    Kind,
    Lengths,
    NeuralType,
    T,
    Text,
)

PARTS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


@dataclass(frozen=True)
class Concat(FittingAdapter):
    """Puts the features of 2 to 8 values side by side, along the axis number `axis`.

    >>> from neumo.graph.inputs import inputs
    >>> heard = inputs(sound=Features()[B, F(512), T], speaker=Features()[B, F(64), T])
    >>> Concat(axis=1)(first=heard.sound, second=heard.speaker).value
    Concat.value: Features[B, F=576, T]

    The values agree in all other axes. What comes out are features: of sound or of text where all parts are,
    and of no particular space. Sequences are put one behind the other by `Append`, which minds
    their lengths.
    """

    entry: ClassVar[str] = "first"

    axis: int
    parts: int = 2

    def __post_init__(self) -> None:
        if not 2 <= self.parts <= len(PARTS):
            raise ConfigError(
                f"Concat puts 2 to {len(PARTS)} values side by side, not {self.parts}", code="field"
            )
        if self.axis < 0:
            raise ConfigError(f"there is no axis number {self.axis}", code="field", fixes=("count from 0",))

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for the axes and the kinds of features of these values."""
        names = PARTS[: self.parts]
        found = given.get("first")
        axes = found.axes if found is not None and found.rank > self.axis else _axes_around(self.axis)
        sizes = [F(f"F{n}") for n in range(1, self.parts + 1)]
        total = sum(sizes[1:], start=sizes[0])
        elements = [given[name].element for name in names if name in given]
        kinds = (kind for kind in (Acoustic, Text) if all(isinstance(each, kind) for each in elements))
        element: Element = next(kinds, Features)() if elements else Features()
        return Signature(
            takes={
                name: NeuralType(element, _replaced(axes, self.axis, size))
                for name, size in zip(names, sizes, strict=True)
            },
            gives={"value": NeuralType(element, _replaced(axes, self.axis, total))},
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where features are too few along one axis, and by how many is known."""
        if not isinstance(given.element, Features) or wanted.rank != given.rank:
            return
        for number, (want, have) in enumerate(zip(wanted.axes, given.axes, strict=True)):
            if want.kind is have.kind is Kind.FEATURE and want.size is not None and have.size is not None:
                missing = (want.size - have.size).constant
                if missing is not None and missing > 0:
                    yield cls(number)

    def notation(self) -> str:
        """Write `Concat(axis=1)`."""
        return f"Concat(axis={self.axis}{'' if self.parts == 2 else f', parts={self.parts}'})"


@dataclass(frozen=True)
class Append(FittingAdapter):
    """Puts each row of one sequence behind the real part of the same row of another.

    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import Ids
    >>> told = inputs(prompt=Ids()[B, T("T1")], text=Ids()[B, T("T2")])
    >>> Append()(first=told.prompt, second=told.text).length
    Append.length: Lengths(T1 + T2)[B]

    Without lengths all rows of that sequence count as full. Both have the same meaning and the same further
    axes; what is behind the new end is `fill`.
    """

    entry: ClassVar[str] = "first"

    axis: int = 1
    fill: float = 0.0

    def __post_init__(self) -> None:
        if self.axis < 1:
            raise ConfigError(f"axis {self.axis} cannot be the time: axis 0 has the rows", code="field")

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for the element and the other axes of the first sequence."""
        found = given.get("first")
        element: Element = Any_() if found is None else found.element
        inner = tuple(Axis(Kind.ANY, None) for _ in range(1, self.axis))
        axes = found.axes if found is not None and found.rank > self.axis else (B, *inner, T)
        if axes[0].kind is Kind.BATCH and not axes[0].listed:
            axes = (B, *axes[1:])  # the lengths are those of the same rows
        one, two = T("T1"), T("T2")
        return Signature(
            takes={
                "first": NeuralType(element, _replaced(axes, self.axis, one)),
                "second": NeuralType(element, _replaced(axes, self.axis, two)),
                "first_len": Lengths(one).optional()[B],
                "second_len": Lengths(two).optional()[B],
            },
            gives={
                "value": NeuralType(element, _replaced(axes, self.axis, one + two)),
                "length": Lengths(one + two)[B],
            },
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose nothing: no difference of types says that a sequence has to be continued."""
        return iter(())

    def notation(self) -> str:
        """Write `Append(axis=1)`."""
        return f"Append(axis={self.axis})"


def _axes_around(axis: int) -> tuple[Axis, ...]:
    """Give the axes of what is not connected yet: rows, then times, features in their place."""
    before = (B, *(T(f"T{n}") if n > 1 else T for n in range(1, axis)))[:axis]
    return (*before, F)


def _replaced(axes: tuple[Axis, ...], number: int, axis: Axis) -> tuple[Axis, ...]:
    return (*axes[:number], axis, *axes[number + 1 :])
