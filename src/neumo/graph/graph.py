"""Graphs: what is asked for, and every call that it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, cast

from neumo.graph.inputs import GraphInputs
from neumo.graph.module import NeuralModule, label_of, name_of
from neumo.graph.order import cycle_error as cycle_error
from neumo.graph.order import find_cycle as find_cycle
from neumo.graph.order import order_steps as order_steps
from neumo.graph.same import same_settings as same_settings
from neumo.graph.same import same_structure
from neumo.graph.value import Record, Step, Value, values_of
from neumo.types import GraphError, Lengths, NeuralType, Obligation, Reason, Size, Symbol

Mode = Literal["both", "train", "infer"]


@dataclass(frozen=True, slots=True)
class Assumption:
    """Is what composing took on trust, to be checked when the graph runs: `rate = 16000` of a port."""

    port: str
    obligation: Obligation
    step: Step
    value: Value

    def __iter__(self) -> Iterator[Any]:
        """Unpack as (port, obligation)."""
        return iter((self.port, self.obligation))

    def __str__(self) -> str:
        return f"{self.port}: {self.obligation}"


@dataclass(frozen=True, slots=True)
class SymbolOrigin:
    """Tells where the number behind a symbol is found: an axis of a value, and the lengths that count it."""

    value: Value
    axis: int | None  # None where only lengths mention the symbol
    lengths: Value | None


class Graph:
    """Holds named outputs and, found by walking back from them, the steps that produce them.

    >>> from neumo.graph.adapters import Resample
    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import Audio, B, T
    >>> spoken = inputs(audio=Audio(rate=8000)[B, T])
    >>> wide = Resample(8000, 16000)(audio=spoken.audio)
    >>> Graph("widen", outputs={"audio": wide.audio})
    Graph 'widen' (both): 2 steps from audio
      audio: Audio(rate=16000)[B, 2*T]

    `outputs` maps names to values. `mode` says what the graph is for: "train", "infer" or "both". Steps that
    no output needs are not part of the graph. Raises `GraphError` for outputs that are not values, for two
    modules of one name, and for a cycle (which only hand-made steps can have).
    """

    def __init__(
        self,
        name: str = "graph",
        mode: Mode = "both",
        outputs: Mapping[str, Value] | Record | None = None,
        *,
        names: Mapping[str, NeuralModule] | None = None,
    ) -> None:
        self.name = name
        self.mode: Mode = mode
        self.outputs: dict[str, Value] = _checked_outputs(outputs)
        if mode not in ("both", "train", "infer"):
            raise GraphError(
                f"a graph has no mode {mode!r}", code="mode", fixes=["mode is both, train or infer"]
            )
        self.steps: list[Step] = order_steps(value.step for value in self.outputs.values())
        self.modules: dict[str, NeuralModule] = _name_modules(self.steps, names or {})
        self.inputs: dict[str, Value] = _open_inputs(self.steps, self.outputs)

    def __repr__(self) -> str:
        rows = [f"  {name}: {value.type}" for name, value in self.outputs.items()]
        takes = f" from {', '.join(self.inputs)}" if self.inputs else ""
        return "\n".join([f"Graph {self.name!r} ({self.mode}): {len(self.steps)} steps{takes}", *rows])

    def name_of(self, module: NeuralModule) -> str:
        """Give the name of a module in this graph: its own, or else its class, numbered if need be."""
        for name, known in self.modules.items():
            if known is module:
                return name
        raise GraphError(f"{label_of(module)} is not part of graph {self.name!r}", code="name")

    def prune(self, *names: str) -> Graph:
        """Keep only some outputs and what they need; modules keep their names."""
        for name in names:
            self._check_output(name)
        kept = {name: self.outputs[name] for name in names}
        return Graph(self.name, self.mode, kept, names=self.modules)

    def assumptions(self) -> list[Assumption]:
        """List what was taken on trust, port by port, because a type did not say."""
        return [
            Assumption(f"{self._label(step)}.{port}", obligation, step, dict(step.edges())[port])
            for step in self.steps
            for port, obligation in step.assumptions
        ]

    def warnings(self) -> list[tuple[str, Reason]]:
        """List the differences that were let pass, as (port, reason): facets that need not agree."""
        return [
            (f"{self._label(step)}.{port}", reason) for step in self.steps for port, reason in step.warnings
        ]

    @property
    def symbols(self) -> dict[Symbol, SymbolOrigin]:
        """Map each symbol of the graph to where its number is found when the graph runs."""
        return _find_symbols(self.steps)

    def size(self, value: Value | str, axis: int) -> Size | None:
        """Give the size of an axis in terms of `symbols`; None where it is only known at run time.

        `value` is a value of the graph or the name of an output; `axis` counts from 0.
        """
        if isinstance(value, str):
            self._check_output(value)
            value = self.outputs[value]
        axes = value.type.axes
        if not -len(axes) <= axis < len(axes):
            raise GraphError(f"{value.name} has {len(axes)} axes, so none is number {axis}", code="axis")
        return axes[axis].size

    def values(self) -> list[Value]:
        """List all values of the graph in the order in which they are made."""
        return [value for step in self.steps for value in step.outputs.values()]

    def fits(self, wanted: NeuralType) -> list[Value]:
        """List the values of the graph that could feed a port of type `wanted` without any assumption."""
        from neumo.graph.candidates import fits_alone

        return [value for value in self.values() if fits_alone(wanted, value.type)]

    def __call__(self, /, *values: Value, **ports: Value | None) -> Record:
        """Use this graph inside another one: its open inputs become `ports`; its modules are shared."""
        from neumo.graph.nest import nest

        return nest(self, ports, positional=values)

    def __eq__(self, other: object) -> bool:
        """Say whether both have the same modules by fields, the same wiring and the same outputs."""
        return isinstance(other, Graph) and self.mode == other.mode and same_structure(self, other)

    def __hash__(self) -> int:
        return hash((self.mode, len(self.steps), tuple(sorted(self.outputs))))

    def text(self) -> str:
        """Draw the graph as text, one step a line, with the type of each value."""
        from neumo.graph.draw import to_text

        return to_text(self)

    def mermaid(self) -> str:
        """Draw the graph as Mermaid, which GitHub and notebooks show."""
        from neumo.graph.draw import to_mermaid

        return to_mermaid(self)

    def svg(self) -> str:
        """Draw the graph as SVG."""
        from neumo.graph.draw import to_svg

        return to_svg(self)

    def _repr_html_(self) -> str:
        from neumo.graph.draw import to_html

        return to_html(self)

    def save(self, path: str | Path) -> None:
        """Write the graph as a recipe that `Graph.load` reads back equal."""
        from neumo.graph.yaml import save_graph

        save_graph(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Graph:
        """Read a graph from a recipe; its modules get the names that the recipe gives them."""
        from neumo.graph.yaml import load_graph

        return load_graph(path)

    def _check_output(self, name: str) -> None:
        if name not in self.outputs:
            from difflib import get_close_matches

            near = get_close_matches(name, self.outputs, n=1, cutoff=0.5)
            raise GraphError(
                f"graph {self.name!r} has no output {name!r}",
                code="output",
                details=[f"its outputs are {', '.join(self.outputs)}"],
                fixes=[f"did you mean {near[0]!r}?"] if near else [],
            )

    def _label(self, step: Step) -> str:
        return label_of(step.module) if isinstance(step.module, GraphInputs) else self.name_of(step.module)


def _checked_outputs(outputs: object) -> dict[str, Value]:
    if isinstance(outputs, Record):
        outputs = values_of(outputs)
    if not isinstance(outputs, Mapping) or not outputs:
        _refuse_outputs("a graph needs at least one output")
    checked: dict[str, Value] = {}
    for name, value in cast("Mapping[object, object]", outputs).items():
        if isinstance(value, Record) and len(value) == 1:
            (value,) = value
        if not isinstance(name, str) or not name.isidentifier():
            _refuse_outputs(f"{name!r} cannot name an output")
        if not isinstance(value, Value):
            _refuse_outputs(f"output {name!r} is {_kind(value)}, not a value of a graph")
        checked[name] = value
    return checked


def _refuse_outputs(what: str) -> NoReturn:
    raise GraphError(
        what, code="output", fixes=['write outputs={"loss": loss.loss}: a name, and a value of a record']
    )


def _kind(value: object) -> str:
    return "a record of several values" if isinstance(value, Record) else f"a {type(value).__name__}"


def _name_modules(steps: list[Step], known: Mapping[str, NeuralModule]) -> dict[str, NeuralModule]:
    """Name each module: as before pruning, by `named`, or by class, numbered in the order of composition."""
    modules = list({id(s.module): s.module for s in steps if not isinstance(s.module, GraphInputs)}.values())
    before = {id(module): name for name, module in known.items()}
    taken: dict[str, NeuralModule] = {}
    for module in modules:
        given = before.get(id(module)) or name_of(module)
        if given is None:
            continue
        if given in taken:
            raise GraphError(
                f"two modules are named {given!r}",
                code="name",
                details=[f"one is {taken[given]!r}", f"the other is {module!r}"],
                fixes=["give each object its own name, or call one object twice to share its weights"],
            )
        taken[given] = module
    names = {id(module): name for name, module in taken.items()}
    named: dict[str, NeuralModule] = {}
    for module in modules:
        name = names.get(id(module)) or _free_name(type(module).__name__, taken | named)
        named[name] = module
    return named


def _free_name(name: str, taken: Mapping[str, NeuralModule]) -> str:
    if name not in taken:
        return name
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _open_inputs(steps: list[Step], outputs: Mapping[str, Value]) -> dict[str, Value]:
    """Collect the open inputs that a step or an output uses."""
    used = [value for step in steps for _, value in step.edges()] + list(outputs.values())
    found: dict[str, Value] = {}
    for value in used:
        if isinstance(value.step.module, GraphInputs) and found.setdefault(value.port, value) is not value:
            raise GraphError(
                f"two open inputs are called {value.port!r}",
                code="input",
                fixes=["declare all open inputs of a graph in one call of inputs(...)"],
            )
    order = [value for step in steps for value in step.outputs.values()]
    return {value.port: value for value in order if found.get(value.port) is value}


def _find_symbols(steps: list[Step]) -> dict[Symbol, SymbolOrigin]:
    axes: dict[Symbol, tuple[Value, int]] = {}
    counts: dict[Symbol, Value] = {}
    for value in (value for step in steps for value in step.outputs.values()):
        for index, axis in enumerate(value.type.axes):
            symbol = axis.symbol
            if symbol is not None:
                axes.setdefault(symbol, (value, index))
        if isinstance(value.type.element, Lengths):
            symbol = None if value.type.element.of is None else value.type.element.of.symbol
            if symbol is not None:
                counts.setdefault(symbol, value)
    origins = {
        symbol: SymbolOrigin(value, index, counts.get(symbol)) for symbol, (value, index) in axes.items()
    }
    rest = {
        symbol: SymbolOrigin(value, None, value) for symbol, value in counts.items() if symbol not in origins
    }
    return origins | rest
