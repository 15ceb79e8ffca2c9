"""Open inputs: what a graph takes from outside when it runs, such as the audio of one request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from neumo.graph.module import NeuralModule, Role
from neumo.graph.signature import Signature
from neumo.types import NeuralType

if TYPE_CHECKING:
    from neumo.graph.graph import Graph
    from neumo.graph.source import Location
    from neumo.graph.value import Record


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
    """Takes what a graph takes: used to check the call of a graph inside another one."""

    ports: Mapping[str, NeuralType] = field(default_factory=_no_ports)

    @classmethod
    def of(cls, graph: Graph) -> GraphPorts:
        """Make the ports out of the declarations of the open inputs."""
        declared: dict[str, NeuralType] = {}
        for name, value in graph.inputs.items():
            module = value.step.module
            declared[name] = module.ports[name] if isinstance(module, GraphInputs) else value.type
        ports = cls(declared)
        return ports.named(graph.name) if graph.name.isidentifier() else ports

    def signature(self) -> Signature:
        """Take the declared ports, and give nothing."""
        return Signature(takes=self.ports)


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
