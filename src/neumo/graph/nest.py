"""Nesting: a graph composed into another one, its steps called again on the values of the outer one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neumo.graph.compose import collected, compose
from neumo.graph.relax import relaxing
from neumo.graph.source import CallSite, Location, caller
from neumo.graph.value import Doubt, Record, Step, Value, values_of

if TYPE_CHECKING:
    from neumo.graph.graph import Graph
    from neumo.types import NeumoError

_Renewed = dict[tuple[int, str], Value | None]  # (id of a step, port) -> what stands in its place


@dataclass(frozen=True, slots=True, eq=False)
class Nesting:
    """One call of a graph: which graph, and where the call was written."""

    graph: Graph
    location: Location | None = None


def nest(
    graph: Graph,
    values: Mapping[str, Any],
    positional: Sequence[object] = (),
    location: Location | None = None,
) -> Record:
    """Compose a graph into another one: its modules are called again, on `values` and what comes of them.

    The modules are shared, the steps and values are new; data layers of the graph are called again, too, so
    that nothing of a nested graph depends on who else uses it. An optional open input may be left out. Raises
    `PortError` for values that do not fit.
    """
    from neumo.graph.inputs import GraphInputs, GraphPorts

    found = collected.get()
    gathered: Sequence[NeumoError] = () if found is None else found
    before = len(gathered)
    compose(GraphPorts.of(graph), values, location, positional=positional)
    if location is None:
        frame = caller()
        location = None if frame is None else CallSite(frame.f_code, frame.f_lasti)
    if len(gathered) > before:
        return _refused(graph, location, gathered[before:])
    renewed: _Renewed = {value.key: values.get(name) for name, value in graph.inputs.items()}
    call = Nesting(graph, location)
    for step in graph.steps:
        if not isinstance(step.module, GraphInputs):
            _call_again(step, call, renewed)
    outputs = {name: renewed.get(value.key) for name, value in graph.outputs.items()}
    return Record(graph.name, {name: value for name, value in outputs.items() if value is not None})


def _call_again(step: Step, call: Nesting, renewed: _Renewed) -> None:
    inputs = {port: _renew(source, renewed) for port, source in step.inputs.items()}
    with relaxing(step.relaxed):  # what was let pass inside is let pass again
        again = values_of(compose(step.module, inputs, call.location, {}))
    for value in again.values():
        value.step.within = (call, *step.within)
    renewed.update({(id(step), port): value for port, value in again.items()})


def _refused(graph: Graph, location: Location | None, errors: Sequence[NeumoError]) -> Record:
    """Give values of unknown types where the call was refused and its errors are gathered."""
    from neumo.graph.inputs import GraphPorts

    step = Step(GraphPorts.of(graph), {}, location)
    step.doubt, step.refusal = Doubt.ALL, tuple(errors)
    step.outputs = {name: Value(step, name, value.type) for name, value in graph.outputs.items()}
    return Record(graph.name, step.outputs)


def _renew(source: Value | tuple[Value, ...], renewed: _Renewed) -> Value | tuple[Value, ...] | None:
    """Put the new value in the place of an old one; None where an open input was left out, or where a module
    gives that output only if it is there.
    """
    if isinstance(source, tuple):
        found = (renewed.get(value.key) for value in source)
        return tuple(value for value in found if value is not None) or None
    return renewed.get(source.key)
