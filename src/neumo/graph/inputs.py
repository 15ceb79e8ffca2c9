"""Open inputs: what a graph takes from outside when it runs, such as the audio of one request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from neumo.graph.module import NeuralModule, Role
from neumo.graph.signature import Signature
from neumo.types import GraphError, NeuralType, Size, Symbol

if TYPE_CHECKING:
    from neumo.graph.graph import Graph
    from neumo.graph.source import Location
    from neumo.graph.value import Record, Step, Value


def _no_ports() -> Mapping[str, NeuralType]:
    return {}


@dataclass(frozen=True)
class GraphInputs(NeuralModule):
    """Gives the open inputs of a graph; their sizes belong to one scope: `T` is the same in each of them."""

    role: ClassVar[Role] = "data"

    ports: Mapping[str, NeuralType] = field(default_factory=_no_ports)

    def signature(self) -> Signature:
        """Give the declared ports, and take nothing."""
        return Signature(gives=self.ports)


@dataclass(frozen=True)
class GraphPorts(NeuralModule):
    """Takes what a graph takes and gives what it gives: checks the call of a graph inside another one."""

    ports: Mapping[str, NeuralType] = field(default_factory=_no_ports)
    results: Mapping[str, NeuralType] = field(default_factory=_no_ports)

    @classmethod
    def of(cls, graph: Graph) -> GraphPorts:
        """Make the ports out of the declarations of the open inputs.

        Sizes of separate calls of `inputs` have nothing in common, whatever they are called.
        """
        declared: dict[str, NeuralType] = {}
        apart: dict[int, dict[Symbol, Size]] = {}
        for name, value in graph.inputs.items():
            module = value.step.module
            port = module.ports[name] if isinstance(module, GraphInputs) else value.type
            sizes = apart.setdefault(id(value.step), {})
            new = (symbol for symbol in port.symbols() if symbol not in sizes)
            sizes.update({symbol: symbol.fresh(rigid=False).size for symbol in new})
            declared[name] = port.substitute(sizes)
        ports = cls(declared, {name: value.type for name, value in graph.outputs.items()})
        ports.__dict__["_name"] = graph.name  # what messages call it; any text may name a graph
        return ports

    def signature(self) -> Signature:
        """Take the declared ports, and give the outputs as they are where the graph stands alone."""
        return Signature(takes=self.ports, gives=self.results)


def inputs(**ports: NeuralType) -> Record:
    """Declare the open inputs of a graph, all in one call.

    >>> from neumo.types import Audio, B, Lengths, T
    >>> speech = inputs(audio=Audio(rate=16000)[B, T], audio_len=Lengths(T)[B])
    >>> speech.audio_len
    inputs.audio_len: Lengths(T)[B]

    Returns a record with a value for each. A symbol may be any number when the graph runs, but one symbol is
    one number: `audio_len` counts the samples of `audio`.
    """
    return open_inputs(ports)


def open_inputs(ports: Mapping[str, NeuralType], location: Location | None = None) -> Record:
    """Declare open inputs as `inputs` does, for a caller that reads them from a text at `location`."""
    from neumo.graph.compose import compose

    return compose(GraphInputs(dict(ports)).named("inputs"), {}, location=location)


def is_open(step: Step) -> bool:
    """Say whether a step is the open inputs of a graph."""
    return isinstance(step.module, GraphInputs)


def is_source(step: Step) -> bool:
    """Say whether a step is where values come from: a data layer, or the open inputs, which have its role."""
    return step.module.role == "data"


def used_inputs(steps: Sequence[Step], outputs: Mapping[str, Value]) -> dict[str, Value]:
    """Collect the open inputs that a step or an output uses; raises `GraphError` if two have one name."""
    used = [value for step in steps for _, value in step.edges()] + list(outputs.values())
    found: dict[str, Value] = {}
    for value in used:
        if isinstance(value.step.module, GraphInputs) and found.setdefault(value.port, value) is not value:
            steps_of = (found[value.port].step, value.step)
            raise GraphError(
                f"two open inputs are called {value.port!r}",
                code="input",
                details=[str(place) for step in steps_of if (place := step.place()) is not None],
                fixes=["declare all open inputs of a graph in one call of inputs(...)"],
            )
    order = [value for step in steps for value in step.outputs.values()]
    return {value.port: value for value in order if found.get(value.port) is value}
