"""What cannot be changed once a graph is made: its outputs, inputs and modules by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

from neumo.types import GraphError
from neumo.types.errors import did_you_mean

Held = TypeVar("Held")


class UnknownName(GraphError, KeyError):
    """Says that a graph has nothing of that name, with the nearest match; it is a `KeyError` as well."""


class Fixed(dict[str, Held]):
    """Holds things by name like a dict; assigning and deleting raise a `GraphError`.

    >>> outputs = Fixed({"mel": 1}, "output", "graph 'train'")
    >>> outputs["mel"], dict(outputs), outputs == {"mel": 1}
    (1, {'mel': 1}, True)
    >>> outputs["mels"]
    Traceback (most recent call last):
        ...
    neumo.graph.fixed.UnknownName: UnknownName[output]: graph 'train' has no output 'mels'
    <BLANKLINE>
      its outputs are mel
    <BLANKLINE>
      fix      did you mean 'mel'?
    """

    def __init__(self, values: Mapping[str, Held], noun: str, owner: str, code: str = "output") -> None:
        super().__init__(values)
        self._words = (noun, owner, code)

    def __missing__(self, name: object) -> NoReturn:
        noun, owner, code = self._words
        raise UnknownName(
            f"{owner} has no {noun} {name!r}",
            code=code,
            details=[f"its {noun}s are {', '.join(self) or 'none'}"],
            fixes=did_you_mean(str(name), self),
        )

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        noun, owner, _code = self._words
        raise unchangeable(f"the {noun}s of {owner}")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = _refuse
    setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return Fixed, (dict(self), *self._words)


def unchangeable(what: str) -> GraphError:
    """Make the error for changing a graph after it was made.

    >>> print(unchangeable("the outputs of graph 'train'"))
    GraphError[immutable]: the outputs of graph 'train' cannot be changed
    <BLANKLINE>
      A graph is a value: it stays what it was when it was checked.
    <BLANKLINE>
      fix      make another graph of the same values: Graph(graph.name, graph.mode, {...})
      or       graph.prune(...) and graph.rename(...) give changed copies
    """
    return GraphError(
        f"{what} cannot be changed",
        code="immutable",
        why="A graph is a value: it stays what it was when it was checked.",
        fixes=[
            "make another graph of the same values: Graph(graph.name, graph.mode, {...})",
            "graph.prune(...) and graph.rename(...) give changed copies",
        ],
    )
