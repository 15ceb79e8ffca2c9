"""The summary of a graph: its modules with kind, role, ports and weights, as data and as a table."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from neumo.graph.inputs import GraphInputs
from neumo.graph.module import NeuralModule, Role

if TYPE_CHECKING:
    from neumo.graph.graph import Graph
    from neumo.graph.value import Step, Value

COLUMNS: Final = 100
_WEIGHTLESS: Final = ("data", "metric")


class Building(Protocol):
    """Makes the weights of modules, each by its name: a session of a backend does."""

    def build(self, modules: Mapping[str, NeuralModule]) -> None:
        """Make the weights that do not exist yet."""
        ...


class Counting(Protocol):
    """Counts weights; `NeuralFactory` does."""

    @property
    def session(self) -> Building:
        """What makes the weights."""
        ...

    def count_parameters(self, what: NeuralModule, *, trainable_only: bool = False) -> int:
        """Count the weights of a module, or those that training would change."""
        ...


@dataclass(frozen=True, slots=True)
class ModuleSummary:
    """Tells one module: `takes` and `gives` are the types of its first call; `within` the nested graph."""

    name: str
    kind: str
    role: Role
    trainable: bool
    calls: int
    takes: Mapping[str, str]
    gives: Mapping[str, str]
    within: str | None = None
    parameters: int | None = None  # None where no factory has counted them
    trained: int | None = None  # those of them that training changes


@dataclass(frozen=True, slots=True)
class Summary:
    """Tells a whole graph; `print` shows a table, `to_json` gives plain values."""

    name: str
    mode: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    modules: tuple[ModuleSummary, ...]
    steps: int
    connections: int

    @property
    def parameters(self) -> int | None:
        """How many weights all modules have; None where no factory has counted them."""
        return _total(module.parameters for module in self.modules)

    @property
    def trained(self) -> int | None:
        """How many of the weights training changes."""
        return _total(module.trained for module in self.modules)

    def to_json(self) -> dict[str, Any]:
        """Give everything as plain values, ready for `json.dumps`."""
        return {**asdict(self), "parameters": self.parameters, "trained": self.trained}

    def __str__(self) -> str:
        heads = [_head(module) for module in self.modules]
        widths = [max(map(len, column)) for column in zip(*heads, strict=True)]
        ports = [port for each in self.modules for port in (*each.takes, *each.gives)]
        column = max(map(len, (*ports, *self.inputs, *self.outputs)))
        lines = [self._title()]
        for module, head in zip(self.modules, heads, strict=True):
            lines += ["", "  ".join(f"{cell:<{width}}" for cell, width in zip(head, widths, strict=True))]
            lines += [
                line
                for sign, side in (("<-", module.takes), ("->", module.gives))
                for line in _ports(sign, side, column)
            ]
        if self.inputs:
            lines += ["", "takes", *_ports("<-", self.inputs, column)]
        lines += ["", "gives", *_ports("->", self.outputs, column)]
        return "\n".join(line.rstrip() for line in lines)

    def _title(self) -> str:
        numbers = {"module": len(self.modules), "step": self.steps, "connection": self.connections}
        counts = ", ".join(_count(number, word) for word, number in numbers.items())
        weights = "" if self.parameters is None else f", {_weights(self.parameters, self.trained)}"
        return f"graph {self.name} ({self.mode}): {counts}{weights}"


def summarise(graph: Graph, factory: Counting | None = None) -> Summary:
    """Summarise a graph; see `Graph.summary`."""
    steps: dict[int, list[Step]] = {}
    for step in graph.steps:
        steps.setdefault(id(step.module), []).append(step)
    if factory is not None:  # by their names in this graph: what weights start from depends on it
        factory.session.build({name: m for name, m in graph.modules.items() if m.role not in _WEIGHTLESS})
    return Summary(
        name=graph.name,
        mode=graph.mode,
        inputs=_types(graph.inputs),
        outputs=_types(graph.outputs),
        modules=tuple(
            _summarise_module(name, module, steps[id(module)], factory)
            for name, module in graph.modules.items()
        ),
        steps=sum(not isinstance(step.module, GraphInputs) for step in graph.steps),
        connections=sum(1 for step in graph.steps for _ in step.edges()),
    )


def _summarise_module(
    name: str, module: NeuralModule, calls: list[Step], factory: Counting | None
) -> ModuleSummary:
    first = calls[0]
    taken = {
        port: ", ".join(str(value.type) for value in (given if isinstance(given, tuple) else (given,)))
        for port, given in first.inputs.items()
    }
    return ModuleSummary(
        name=name,
        kind=type(module).__name__,
        role=module.role,
        trainable=module.trainable,
        calls=len(calls),
        takes=taken,
        gives=_types(first.outputs),
        within="/".join(call.graph.name for call in first.within) or None,
        parameters=None if factory is None else factory.count_parameters(module),
        trained=None if factory is None else factory.count_parameters(module, trainable_only=True),
    )


def _types(values: Mapping[str, Value]) -> dict[str, str]:
    return {name: str(value.type) for name, value in values.items()}


def _total(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def _head(module: ModuleSummary) -> tuple[str, ...]:
    """The cells of the line of a module."""
    notes = [f"called {module.calls} times"] if module.calls > 1 else []
    notes += [f"part of {module.within}"] if module.within else []
    if module.parameters is not None:
        weights = _weights(module.parameters, module.trained)
    else:
        weights = "has weights" if module.trainable else ""
    return module.name, module.kind, module.role, weights, ", ".join(notes)


def _weights(count: int, trained: int | None) -> str:
    if not count:
        return "no weights"
    frozen = "" if trained == count else ", all frozen" if not trained else f", {trained:,} trained"
    return f"{count:,} weight{'s' if count > 1 else ''}{frozen}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _ports(sign: str, side: Mapping[str, str], column: int) -> Iterator[str]:
    for name, type_ in side.items():
        first = f"    {sign} {name:<{column}}  "
        yield from textwrap.wrap(
            type_,
            COLUMNS,
            initial_indent=first,
            subsequent_indent=" " * len(first),
            break_on_hyphens=False,
            break_long_words=False,
        )
