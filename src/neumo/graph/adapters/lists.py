"""Adapters of lists and structs: a list as one tensor, a tensor as a list of its rows, one field of many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from neumo.graph.adapters.adapter import FittingAdapter
from neumo.graph.signature import Signature
from neumo.types import (
    ANY,
    Any_,
    Axis,
    B,
    ConfigError,
    NeuralType,
    PortError,
    Row,
    Struct,
    T,
    did_you_mean,
)


@dataclass(frozen=True)
class Stack(FittingAdapter):
    """Makes one tensor out of a list of tensors of one size: the (innermost) list becomes the first axis.

    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import F, Mel
    >>> Stack()(value=inputs(mels=Mel(n_mels=80)[B.list(), F(80), T]).mels).value
    Stack.value: Mel(n_mels=80)[B, F=80, T]
    """

    lists: ClassVar[bool] = True

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for this very element and these axes."""
        found = given.get("value")
        place = -1 if found is None else _lists(found) - 1
        if found is None or place < 0 or not _is_tensor(found):
            found, place = NeuralType(Any_(), (B.list(), T)), 0
        after = (*found.axes[:place], _unlisted(found.axes[place]), *found.axes[place + 1 :])
        return Signature(
            takes={"value": NeuralType(found.element, found.axes)},
            gives={"value": NeuralType(found.element, after)},
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where fewer axes may be lists."""
        if _lists(wanted) < _lists(given) and _is_tensor(given):
            yield cls()


@dataclass(frozen=True)
class Unstack(FittingAdapter):
    """Makes a list out of the first axis of a tensor.

    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import F, Mel
    >>> Unstack()(value=inputs(mel=Mel(n_mels=80)[B, F(80), T]).mel).value
    Unstack.value: Mel(n_mels=80)[list B, F=80, T]
    """

    lists: ClassVar[bool] = True

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for this very element and these axes."""
        found = given.get("value")
        place = 0 if found is None else _lists(found)
        if found is None or place >= found.rank or not _is_tensor(found):
            found, place = NeuralType(Any_(), (B, T)), 0
        after = (*found.axes[:place], found.axes[place].list(), *found.axes[place + 1 :])
        return Signature(
            takes={"value": NeuralType(found.element, found.axes)},
            gives={"value": NeuralType(found.element, after)},
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where more axes have to be lists."""
        if _lists(wanted) > _lists(given) and _is_tensor(given):
            yield cls()


@dataclass(frozen=True)
class Pick(FittingAdapter):
    """Takes one field out of a struct, or out of each struct of a list.

    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import Ids, Score, U
    >>> best = inputs(best=Struct(ids=Ids()[B, U], score=Score()[B])[()]).best
    >>> Pick("ids")(value=best).value
    Pick.value: Ids[B, U]
    """

    lists: ClassVar[bool] = True

    field: str

    def __post_init__(self) -> None:
        if not self.field.isidentifier():
            raise ConfigError(f"{self.field!r} cannot be the name of a field", code="field")

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for this very struct."""
        found = given.get("value")
        if found and isinstance(found.element, Struct):
            self._check_slip(found, list(found.element.fields))
        held = found.element.fields.get(self.field) if found and isinstance(found.element, Struct) else None
        if found is None or held is None or _lists(found) < found.rank:
            something = NeuralType(Any_(), (ANY,))
            return Signature(
                takes={"value": Struct(**{self.field: something})[()]}, gives={"value": something}
            )
        return Signature(
            takes={"value": NeuralType(found.element, found.axes)},
            gives={"value": NeuralType(held.element, (*found.axes, *held.axes), held.optional)},
        )

    def _check_slip(self, found: NeuralType, fields: list[str]) -> None:
        """Refuse a field that is nearly one; one that is none is refused as any connection."""
        if self.field not in fields and (meant := did_you_mean(self.field, fields)):
            raise PortError(
                f"Pick.value cannot take a struct without {self.field!r}",
                code="fields",
                details=[Row("given", str(found))],
                fixes=meant,
                data={"port": "value"},
            )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose each field of a struct where no struct is wanted."""
        if isinstance(given.element, Struct) and not isinstance(wanted.element, Struct):
            for name, held in given.element.fields.items():
                if isinstance(held.element, type(wanted.element)):
                    yield cls(name)

    def notation(self) -> str:
        """Write `Pick(ids)`."""
        return f"Pick({self.field})"


def _lists(found: NeuralType) -> int:
    """Count the axes that are lists; they come first."""
    return sum(axis.listed for axis in found.axes)


def _is_tensor(found: NeuralType) -> bool:
    """Say whether the items are numbers: texts and structs are no tensors."""
    return found.element.dtype != "str" and not isinstance(found.element, Struct)


def _unlisted(axis: Axis) -> Axis:
    return Axis(axis.kind, axis.size, axis.vocab, axis.clock)
