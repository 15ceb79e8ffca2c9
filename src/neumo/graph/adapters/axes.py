"""Adapters of axes, for any element: their order, axes of size one, one value for all steps in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, permutations
from typing import Self

from neumo.graph.adapters.adapter import FittingAdapter, MeasuringAdapter
from neumo.graph.signature import Signature
from neumo.types import (
    ONE,
    Any_,
    Axis,
    B,
    ConfigError,
    Element,
    Features,
    Kind,
    NeuralType,
    Symbol,
    T,
    kind_of_name,
)
from neumo.types.axis import kinds_fit


@dataclass(frozen=True)
class Transpose(FittingAdapter):
    """Puts the axes of a value into another order.

    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import B, F, Mel, T
    >>> Transpose("B F T", "T B F")(value=inputs(mel=Mel(n_mels=80)[B, F(80), T]).mel).value
    Transpose.value: Mel(n_mels=80)[T, B, F=80]
    """

    source: str
    target: str

    def __post_init__(self) -> None:
        source, target = self.source.split(), self.target.split()
        is_clear = all(source.count(name) == 1 for name in source if name != "1")
        if sorted(source) != sorted(target) or len(set(source)) < 2 or not is_clear:
            raise ConfigError(
                f"{self.source!r} and {self.target!r} are not the same axes in two orders",
                code="field",
                fixes=('write each axis once, such as Transpose("B F T", "B T F")',),
            )

    @property
    def order(self) -> tuple[int, ...]:
        """Position in the source of each axis of the target, as `permute` functions want it."""
        names, found = self.source.split(), list[int]()
        for name in self.target.split():
            found.append(names.index(name))
            names[found[-1]] = ""  # of several axes of size one, each goes to one place
        return tuple(found)

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for this very element and these sizes."""
        found = given.get("value")
        axes = [_axis_called(name) for name in self.source.split()]
        element: Element = Any_()
        if found is not None and [axis.kind for axis in found.axes] == [axis.kind for axis in axes]:
            element, axes = found.element, list(found.axes)
        return Signature(
            takes={"value": NeuralType(element, tuple(axes))},
            gives={"value": NeuralType(element, tuple(axes[index] for index in self.order))},
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose every order in which the kinds of the axes agree, up to six."""
        if wanted.rank != given.rank or not 2 <= given.rank <= 5:
            return
        names = _axis_names(given)
        for order in _orders(given.axes, wanted.axes):
            yield cls(" ".join(names), " ".join(names[index] for index in order))

    def notation(self) -> str:
        """Write `Transpose(B F T -> T B F)`."""
        return f"Transpose({self.source} -> {self.target})"


@dataclass(frozen=True)
class Unsqueeze(FittingAdapter):
    """Puts an axis of size one at position `at`."""

    at: int

    def __post_init__(self) -> None:
        _check_place(self.at)

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for this very element and these axes."""
        found = given.get("value")
        if found is None or found.rank < self.at:
            found = NeuralType(Any_(), (B, *(T(f"T{n}") for n in range(1, self.at))))
        axes = (*found.axes[: self.at], ONE, *found.axes[self.at :])
        return Signature(
            takes={"value": NeuralType(found.element, found.axes)},
            gives={"value": NeuralType(found.element, axes)},
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose each place where the wanted type has a singleton axis too many."""
        if wanted.rank == given.rank + 1:
            yield from (
                cls(n)
                for n, axis in enumerate(wanted.axes)
                if axis.size is not None and axis.size.constant == 1
            )


@dataclass(frozen=True)
class Squeeze(FittingAdapter):
    """Takes the axis of size one at position `at` away."""

    at: int

    def __post_init__(self) -> None:
        _check_place(self.at)

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for this very element and these axes."""
        found = given.get("value")
        axes = found.axes if found is not None and found.rank > self.at else (B, *(ONE,) * self.at)
        element = found.element if found is not None else Any_()
        kept = (*axes[: self.at], *axes[self.at + 1 :])
        wanted = (
            *axes[: self.at],
            ONE if axes[self.at].kind is Kind.SINGLETON else axes[self.at](1),
            *axes[self.at + 1 :],
        )
        return Signature(
            takes={"value": NeuralType(element, wanted)}, gives={"value": NeuralType(element, kept)}
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose each singleton axis of the given type."""
        if given.rank == wanted.rank + 1:
            yield from (
                cls(n)
                for n, axis in enumerate(given.axes)
                if axis.size is not None and axis.size.constant == 1
            )


@dataclass(frozen=True)
class Repeat(MeasuringAdapter):
    """Repeats a value for all steps in time; `like` is any value that has them, along its axis number `axis`.

    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import F, Mel, Speaker
    >>> heard = inputs(voice=Speaker()[B, F(64)], mel=Mel()[B, F(80), T])
    >>> Repeat(axis=2)(value=heard.voice, like=heard.mel).value
    Repeat.value: Speaker[B, F=64, T]

    The new axis has the same number in the value that comes out. The steps behind the end of a row get the
    value as well.
    """

    axis: int = 1

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for this very element and its axes, of the same rows."""
        found = given.get("value")
        if found is None or found.rank < self.axis:
            found = NeuralType(Any_(), (B, *(Axis(Kind.ANY, None),) * (self.axis - 1)))
        axes = (B, *found.axes[1:])
        return Signature(
            takes={"value": NeuralType(found.element, axes), "like": self.like(given)},
            gives={"value": NeuralType(found.element, (*axes[: self.axis], T, *axes[self.axis :]))},
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where features lack an axis of time, which is wanted in one of the usual places."""
        if not isinstance(given.element, Features) or wanted.rank != given.rank + 1:
            return
        for place in cls.places:
            rest = (*wanted.axes[:place], *wanted.axes[place + 1 :])
            is_time = place < wanted.rank and wanted.axes[place].kind is Kind.TIME
            if is_time and all(map(kinds_fit, rest, given.axes)):
                yield cls(place)

    def notation(self) -> str:
        """Write `Repeat(axis=2)`."""
        return f"Repeat(axis={self.axis})"


def _check_place(at: int) -> None:
    if at < 0:
        raise ConfigError(f"there is no axis number {at}", code="field", fixes=("count from 0",))


def _axis_called(name: str) -> Axis:
    kind = kind_of_name(name)
    return ONE if name == "1" else Axis(kind or Kind.ANY, Symbol(name).size)


def _axis_names(given: NeuralType) -> list[str]:
    """Name the axes by kind, numbered where a kind occurs twice: B T T2."""
    names: list[str] = []
    for axis in given.axes:
        letter = axis.kind.value
        count = sum(name.rstrip("0123456789") == letter for name in names) if letter != "1" else 0
        names.append(letter if not count else f"{letter}{count + 1}")
    return names


def _meets(wanted: Axis, given: Axis) -> bool:
    return wanted.kind is given.kind or (
        Kind.ANY not in (wanted.kind, given.kind) and kinds_fit(wanted, given)
    )


def _orders(given: tuple[Axis, ...], wanted: tuple[Axis, ...]) -> list[tuple[int, ...]]:
    fitting = (
        order
        for order in permutations(range(len(given)))
        if all(_meets(want, given[index]) for want, index in zip(wanted, order, strict=True))
        and order != tuple(range(len(given)))
    )
    return list(islice(fitting, 6))
