"""Adapters of latent variables and voices: how a spread is told, and embeddings of length one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from neumo.graph.adapters.adapter import ShapedAdapter
from neumo.graph.signature import Signature
from neumo.types import B, ConfigError, Element, F, Kind, Latent, NeuralType, Speaker, Var

_SPREADS = ("std", "log_variance")


@dataclass(frozen=True)
class Spread(ShapedAdapter):
    """Turns the standard deviation of a latent variable into the logarithm of its variance, or back.

    >>> Spread("log_variance", "std").signature().gives["spread"].element.part
    'std'
    """

    entry: ClassVar[str] = "spread"
    exit: ClassVar[str] = "spread"

    source: Literal["std", "log_variance"]
    target: Literal["std", "log_variance"]

    def __post_init__(self) -> None:
        if {self.source, self.target} != set(_SPREADS):
            raise ConfigError(
                f"a spread is std or log_variance: {self.source} -> {self.target} is no change", code="field"
            )

    def signature(self) -> Signature:
        """Take and give a spread."""
        before, after = (Latent(Var("prior"), part=part) for part in (self.source, self.target))
        return Signature(takes={"spread": before[B, F]}, gives={"spread": after[B, F]})

    def accepts(self, given: NeuralType) -> bool:
        """Accept that part of a latent variable."""
        return isinstance(given.element, Latent) and given.element.part == self.source

    def convert(self, element: Latent) -> Element:
        """Change the part."""
        return dataclasses.replace(element, part=self.target)

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where the two meet."""
        want, have = wanted.element, given.element
        if not isinstance(want, Latent) or not isinstance(have, Latent) or want.part == have.part:
            return
        if have.part == "std" and want.part == "log_variance":
            yield cls("std", "log_variance")
        elif have.part == "log_variance" and want.part == "std":
            yield cls("log_variance", "std")

    def notation(self) -> str:
        """Write `Spread(log_variance -> std)`."""
        return f"Spread({self.source} -> {self.target})"


@dataclass(frozen=True)
class UnitNorm(ShapedAdapter):
    """Scales the embedding of a voice to length one, along its last axis.

    >>> UnitNorm().signature().gives["speaker"]
    Speaker($space, norm=l2)[B, F]
    """

    entry: ClassVar[str] = "speaker"
    exit: ClassVar[str] = "speaker"

    def signature(self) -> Signature:
        """Take and give an embedding."""
        space = Var("space")
        return Signature(
            takes={"speaker": Speaker(space, norm="none")[B, F]},
            gives={"speaker": Speaker(space, norm="l2")[B, F]},
        )

    def accepts(self, given: NeuralType) -> bool:
        """Accept voices as they come out of their model, whose features are the last axis."""
        right = isinstance(given.element, Speaker) and given.element.norm in (None, "none")
        return right and bool(given.axes) and given.axes[-1].kind is Kind.FEATURE

    def convert(self, element: Speaker) -> Element:
        """Say that the length is one."""
        return dataclasses.replace(element, norm="l2")

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where length one is wanted and known not to be given."""
        want, have = wanted.element, given.element
        if (
            isinstance(want, Speaker)
            and isinstance(have, Speaker)
            and (want.norm, have.norm) == ("l2", "none")
        ):
            yield cls()
