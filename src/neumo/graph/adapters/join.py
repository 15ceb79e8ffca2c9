"""Adapters that make one value out of several: features side by side, sequences one behind the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

from neumo.graph.adapters.adapter import FittingAdapter
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
    Ids,
    Kind,
    Lengths,
    Mask,
    NeuralType,
    Symbol,
    T,
    Text,
)
from neumo.types.element import measures

# The frame of two sequences by those of the parts; others would have a mark inside.
_FRAMES: dict[tuple[Any, Any], str] = {
    ("none", "none"): "none",
    ("bos..", "none"): "bos..",
    ("none", "..eos"): "..eos",
    ("bos..", "..eos"): "bos..eos",
}
PARTS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


@dataclass(frozen=True)
class Concat(FittingAdapter):
    """Puts the features of 2 to 8 values side by side, along the axis number `axis`.

    >>> from neumo.graph.inputs import inputs
    >>> heard = inputs(sound=Features()[B, F(512), T], speaker=Features()[B, F(64), T])
    >>> Concat(axis=1)(first=heard.sound, second=heard.speaker).value
    Concat.value: Features[B, F=576, T]

    The values agree in all other axes and in the clock of the time. What comes out of parts of one element is
    that element, such as a picture of more channels or mels of more bands, whose number is no setting any
    more; of other parts, such as mels and pitch, features. Features are of sound or of text where all parts
    are, and of no particular space. Sequences are put one behind the other by `Append`, which minds their
    lengths.
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
        axes = _open(found.axes) if found is not None and found.rank > self.axis else _axes_around(self.axis)
        sizes = [F(f"F{n}") for n in range(1, self.parts + 1)]
        total = sum(sizes[1:], start=sizes[0])
        elements = {name: given[name].element for name in names if name in given}
        value = _side_by_side(list(elements.values()))
        takes = {name: value if isinstance(value, Features) else Features() for name in names}
        takes |= {name: part for name, part in elements.items() if _has_place(part)}
        return Signature(
            takes={
                name: NeuralType(takes[name], _replaced(axes, self.axis, size))
                for name, size in zip(names, sizes, strict=True)
            },
            gives={"value": NeuralType(value, _replaced(axes, self.axis, total))},
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

    Without lengths all rows of that sequence count as full. Both have the same meaning, the same clock and
    the same further axes; what is behind the new end is `fill`. Rows that begin with a mark and rows that end
    with one make rows with both; where a mark comes to stand inside, the `frame` is left open.
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
        clock = (
            found.clocks[self.axis]
            if found is not None and found.rank > self.axis < len(found.clocks)
            else None
        )
        one, two = (T(name) if clock is None else T(name).at(clock) for name in ("T1", "T2"))
        first = self.part(element, axes, one)
        second, value = self.part(element, axes, two), self.part(element, axes, one + two)
        if isinstance(element, Ids) and "second" in given:
            other = given["second"].element
            second, value = _continued(element, other if isinstance(other, Ids) else element, int(self.fill))
        return Signature(
            takes={
                "first": NeuralType(first, _replaced(axes, self.axis, one)),
                "second": NeuralType(second, _replaced(axes, self.axis, two)),
                "first_len": Lengths(one).optional()[B],
                "second_len": Lengths(two).optional()[B],
            },
            gives={
                "value": NeuralType(value, _replaced(axes, self.axis, one + two)),
                "length": Lengths(one + two)[B],
            },
        )

    def part(self, element: Element, axes: tuple[Axis, ...], along: Axis) -> Element:
        """Give the element for another size of the axis: what measures that measures the other one."""
        size = axes[self.axis].size
        changes: dict[str, Any] = {
            name: along.size for name in measures(type(element)) if getattr(element, name) == size
        }
        if isinstance(element, Mask):
            changes["true"] = "pad" if self.fill else "keep"  # what is behind the end does not count
        return cast("Any", replace)(element, **changes) if changes else element

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


def _open(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Let all parts tell the sizes, so that their clocks are compared as well; names are B, T, T', F'."""
    names: list[str] = ["F"]
    for axis in axes:
        name = axis.kind.value
        while name in names:
            name += "'"
        names.append(name)
    return tuple(
        axis if axis.kind is Kind.SINGLETON or axis.vocab is not None or axis.size is None
        else Axis(axis.kind, Symbol(name).size)
        for axis, name in zip(axes, names[1:], strict=True)
    )  # fmt: skip


def _has_place(element: Element) -> bool:
    """Say whether these are real numbers that mean something beside others; features are told together."""
    return element.dtype == "float" and not element.nested and not isinstance(element, Features)


def _side_by_side(elements: list[Element]) -> Element:
    """Give what parts make together: the same where they are, or else features."""
    for kind in (Acoustic, Text, Features):
        if elements and all(isinstance(each, kind) for each in elements):
            return kind()
    alike = {_of_any_number(each) for each in elements}
    return alike.pop() if len(alike) == 1 and all(map(_has_place, elements)) else Features()


def _of_any_number(element: Element) -> Element:
    """Forget how many features there are, such as n_mels."""
    implied = element.implied_size(Kind.FEATURE)
    return element if implied is None else cast("Any", replace)(element, **{implied[1]: None})


def _continued(first: Ids, second: Ids, fill: int) -> tuple[Ids, Ids]:
    """Give what the second part has to be, and what both make: the start of the one, the end of the other."""
    marks = (first.frame, second.frame)
    frame = _FRAMES.get(marks)
    pad = fill if isinstance(first.pad, int) else first.pad
    return replace(first, frame=second.frame), replace(first, frame=frame, pad=pad)
