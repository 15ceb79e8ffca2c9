"""What all adapters have in common: where the value goes in and out, and when one is proposed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

from neumo.graph.module import NeuralModule, Role, module_fields
from neumo.graph.signature import Signature
from neumo.types import (
    Any_,
    Axis,
    B,
    ConfigError,
    Element,
    Environment,
    Kind,
    NeuralType,
    Outcome,
    PortError,
    Row,
    T,
    Vocab,
    compare,
    facet_text,
    facets_of,
)

_SURE = (Outcome.SAME, Outcome.SUBTYPE, Outcome.BOUND)


class Adapter(NeuralModule):
    """Specifies an exact conversion: a value goes in at port `entry` and comes out, converted, at `exit`."""

    role: ClassVar[Role] = "adapter"
    entry: ClassVar[str] = "value"
    exit: ClassVar[str] = "value"
    lists: ClassVar[bool] = False  # whether an axis of the value may be a Python list

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Give the instances that might turn `given` into `wanted`; the asker compares types again."""
        # Whoever writes an adapter meets this, never whoever uses one: each class says when it is of use.
        raise NotImplementedError(f"{cls.__name__} proposes nothing")

    def signature_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for the types of one call: what is there in training only stays so."""
        signature = self.ports_for(
            {port: found for port, found in given.items() if self.lists or not _has_lists(found)}
        )
        if all(found.when is None for found in given.values()):
            return signature
        return Signature(
            takes={port: found.only("train") for port, found in signature.takes.items()},
            gives={port: found.only("train") for port, found in signature.gives.items()},
        )

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for the types of one call; adapters whose ports depend on them define it."""
        return self.signature()

    def notation(self) -> str:
        """Write the adapter as messages show it, such as `Resample(22050 -> 16000)`."""
        settings = ", ".join(f"{name}={value}" for name, value in module_fields(self).items())
        return f"{type(self).__name__}({settings})"


class ShapedAdapter(Adapter):
    """Changes the element only, for axes of any number and order."""

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for the axes and the facets of this very value."""
        found = given.get(self.entry)
        if found is None:
            return self.signature()
        if not self.accepts(found):
            return self._refusing(found)
        return Signature(
            takes={self.entry: NeuralType(found.element, found.axes)},
            gives={self.exit: NeuralType(self.convert(found.element), found.axes)},
        )

    def _refusing(self, found: NeuralType) -> Signature:
        """Give the ports that refuse a value, or object to it where they would not."""
        stated = self.signature()
        if compare(stated.takes[self.entry], found, Environment()).outcome not in _SURE:
            return stated
        raise PortError(
            f"{self.notation()} is not exact for {found}",
            code="adapter",
            details=[Row("given", str(found)), Row("wanted", str(stated.takes[self.entry]))],
            why=self._obstacles(found) or (type(self).__doc__ or "").split("\n\n")[0].replace("\n    ", " "),
            data={"port": self.entry},
        )

    def _obstacles(self, found: NeuralType) -> list[str]:
        """Name the facets without which it would be exact."""
        words: list[str] = []
        for name in facets_of(type(found.element)):
            value, element = getattr(found.element, name), cast("Any", found.element)
            if value is not None and self.accepts(found.with_element(replace(element, **{name: None}))):
                words.append(f"It is exact only without {name}={facet_text(value)}.")
        return words

    def accepts(self, given: NeuralType) -> bool:
        """Say whether this value is one to convert."""
        raise NotImplementedError

    def convert(self, element: Any) -> Element:
        """Give the element after the conversion."""
        raise NotImplementedError


class FittingAdapter(Adapter):
    """Has ports that depend on what is connected to them, and states them for anything where nothing is."""

    def signature(self) -> Signature:
        """State the ports where nothing is known of a call."""
        return self.ports_for({})

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for the types of one call."""
        raise NotImplementedError


class MeasuringAdapter(FittingAdapter):
    """Needs a value `like` that has the measured axis, at position `axis`, because it must know its size."""

    places: ClassVar[tuple[int, ...]] = (1, 2)  # that are proposed: [B, T, F] and [B, F, T]
    axis: int

    def __post_init__(self) -> None:
        if self.axis < 1:
            raise ConfigError(
                f"axis {self.axis} cannot be the measured one: axis 0 has the rows",
                code="field",
                fixes=("axis=1 for [B, T, ...], axis=2 for [B, F, T]",),
            )

    def like(self, given: Mapping[str, NeuralType]) -> NeuralType:
        """Give the type that `like` has to have: rows, any axes, and the measured one in its place."""
        found = given.get("like")
        inner = [Axis(Kind.ANY, None)] * (self.axis - 1)
        axes = list(found.axes) if found is not None and found.rank > self.axis else [B, *inner, T]
        axes[0], axes[self.axis] = B, T
        return NeuralType(Any_(), tuple(axes))

    def place(self, before: str = "") -> str:
        """Write the position where it is not the usual one."""
        return "" if self.axis == 1 else f"{before}axis={self.axis}"


def _has_lists(found: NeuralType) -> bool:
    return any(axis.listed for axis in found.axes)


def check_positive(name: str, *numbers: float) -> None:
    """Refuse settings of an adapter that are not above 0.

    >>> check_positive("a rate", 16000, 0)
    Traceback (most recent call last):
        ...
    neumo.types.errors.ConfigError: ConfigError[field]: a rate is above 0, not 0
    """
    for number in numbers:
        if not 0 < number < float("inf"):
            raise ConfigError(f"{name} is above 0, not {number:g}", code="field")


def short_name(vocab: Vocab) -> str:
    """Name a vocabulary in a few characters: its name, or else its digest."""
    return vocab.name or f"#{vocab.digest}"


def from_to(source: Vocab, target: Vocab) -> str:
    """Write `en-sorted -> en`; of two that are called alike, the digests as well."""
    one, two = short_name(source), short_name(target)
    return f"{one} -> {two}" if one != two else f"{one}#{source.digest} -> {two}#{target.digest}"
