"""What a graph is asked for: outputs by name, or records and values that name themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import NoReturn, TypeAlias, cast

from neumo.graph.value import Record, Value, values_of
from neumo.types import GraphError

Outputs: TypeAlias = Mapping[str, "Value | Record"] | Record | Value | Sequence["Record | Value"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """One output that was asked for; `given` where the name was, and may not be numbered."""

    name: str
    value: Value
    given: bool = False


def read_outputs(outputs: object) -> list[Chosen]:
    """List what is asked for; raises `GraphError` for what is no value of a graph."""
    if isinstance(outputs, Mapping):
        named = cast("Mapping[object, object]", outputs)
        chosen = [_named(name, value) for name, value in named.items()]
    else:
        chosen = _unnamed(_listed(outputs))
    if not chosen:
        _refuse("a graph needs at least one output")
    return chosen


def _listed(outputs: object) -> Iterable[object]:
    if isinstance(outputs, list | tuple):
        return cast("Iterable[object]", outputs)
    return [] if outputs is None else [outputs]


def _named(name: object, value: object) -> Chosen:
    if isinstance(value, Record) and len(value) == 1:
        (value,) = value
    if not isinstance(name, str) or not name.isidentifier() or iskeyword(name) or name.startswith("_"):
        _refuse(f"{name!r} cannot name an output")
    if not isinstance(value, Value):
        _refuse(f"output {name!r} is {_kind(value)}, not a value of a graph")
    return Chosen(name, value, given=True)


def _unnamed(parts: Iterable[object]) -> list[Chosen]:
    """The values of records and values, each once: by their names in the record, or by their ports."""
    found: dict[tuple[int, str], Chosen] = {}
    for part in parts:
        if not isinstance(part, Record | Value):
            _refuse(f"an output is {_kind(part)}, not a value or a record of values")
        pairs = values_of(part).items() if isinstance(part, Record) else [(part.port, part)]
        for name, value in pairs:
            found.setdefault(value.key, Chosen(name, value))
    return list(found.values())


def _refuse(what: str) -> NoReturn:
    raise GraphError(
        what, code="output", fixes=['write outputs={"loss": loss.loss}: a name, and a value of a record']
    )


def _kind(value: object) -> str:
    return "a record of several values" if isinstance(value, Record) else f"a {type(value).__name__}"
