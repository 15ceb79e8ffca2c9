"""Adapters of values that may be absent: a constant or another value in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from neumo.graph.adapters.adapter import FittingAdapter
from neumo.graph.signature import Signature
from neumo.types import ANY, Any_, B, ConfigError, Ids, Lengths, Mask, NeuralType, PortError, Vocab


@dataclass(frozen=True)
class Default(FittingAdapter):
    """Fills in a constant for what may be absent; `like` is a value of the same axes that is always there.

    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import B, Ids, T
    >>> texts = inputs(segments=Ids().optional()[B, T], ids=Ids()[B, T])
    >>> Default(0)(value=texts.segments, like=texts.ids).value
    Default.value: Ids[B, T]

    `numbers` says of what kind the constant is, where that is not the kind of `like`: "float", "int" or
    "bool" (1 is True, 0 is False).
    """

    fill: float = 0.0
    numbers: Literal["float", "int", "bool"] | None = None

    def __post_init__(self) -> None:
        kinds = {"int": self.fill % 1 == 0, "bool": self.fill in (0, 1)}
        if not kinds.get(self.numbers or "", True):
            raise ConfigError(f"{self.fill:g} is no {self.numbers}", code="field")

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for this very element and these axes; raises for numbers of another kind."""
        found = given.get("value") or NeuralType(Any_(), (B, ANY))
        wanted = found.element.dtype
        like = given["like"].element.dtype if "like" in given else wanted
        if wanted not in ("any", self.numbers or like):
            raise PortError(
                f"{self.notation()} would be {self.numbers or like}, but {found.element.label} are {wanted}",
                code="dtype",
                fixes=[f"set numbers={wanted}"],
            )
        if isinstance(found.element, Ids) and not self._is_id(found.element):
            raise PortError(
                f"{self.notation()} is neither a label nor the pad of {found.element}",
                code="adapter",
                data={"port": "value"},
            )
        return Signature(
            takes={
                "value": NeuralType(found.element, found.axes, optional=True),
                "like": NeuralType(Any_(), found.axes),
            },
            gives={"value": NeuralType(found.element, found.axes)},
        )

    def _is_id(self, ids: Ids) -> bool:
        return not isinstance(ids.vocab, Vocab) or 0 <= self.fill < len(ids.vocab) or self.fill == ids.pad

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where a value may be absent and must not be; no constant is right for lengths."""
        element = given.element
        if not given.optional or wanted.optional or isinstance(element, Lengths):
            return
        if element.dtype == "float" or element.dtype == "int":
            yield cls()
            yield cls(0.0, element.dtype)
        elif isinstance(element, Mask) and element.true in ("keep", "pad"):
            yield cls(float(element.true == "keep"), "bool")  # nothing is left out

    def notation(self) -> str:
        """Write `Default(0)` or `Default(1, numbers=bool)`."""
        return f"Default({self.fill:g}{'' if self.numbers is None else f', numbers={self.numbers}'})"


@dataclass(frozen=True)
class Fallback(FittingAdapter):
    """Takes another value of the same type where one may be absent.

    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import B, Ids, T
    >>> texts = inputs(prompt=Ids().optional()[B, T], text=Ids()[B, T])
    >>> Fallback()(value=texts.prompt, otherwise=texts.text).value
    Fallback.value: Ids[B, T]
    """

    lists: ClassVar[bool] = True

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for this very element and these axes."""
        found = given.get("value") or NeuralType(Any_(), (B, ANY))
        there = NeuralType(found.element, found.axes)
        return Signature(takes={"value": there.as_optional(), "otherwise": there}, gives={"value": there})

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where a value may be absent and must not be."""
        if given.optional and not wanted.optional:
            yield cls()
