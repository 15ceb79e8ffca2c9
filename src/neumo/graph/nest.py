"""Nesting: a graph composed into another one, its steps called again on the values of the outer one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from neumo.graph.compose import compose
from neumo.graph.source import CallSite, caller
from neumo.graph.value import Record, Value, values_of

if TYPE_CHECKING:
    from neumo.graph.graph import Graph

_Renewed = dict[tuple[int, str], Value | None]  # (id of a step, port) -> what stands in its place


def nest(graph: Graph, values: Mapping[str, Any], positional: Sequence[object] = ()) -> Record:
    """Compose a graph into another one: the steps that depend on its open inputs are called on `values`."""
    from neumo.graph.inputs import GraphInputs, GraphPorts

    compose(GraphPorts.of(graph), values, positional=positional)
    renewed: _Renewed = {}
    for name, value in graph.inputs.items():
        renewed[id(value.step), value.port] = values.get(name)
    frame = caller()
    location = None if frame is None else CallSite(frame.f_code, frame.f_lasti)
    for step in graph.steps:
        if isinstance(step.module, GraphInputs) or not any(
            (id(v.step), v.port) in renewed for _, v in step.edges()
        ):
            continue
        again = compose(
            step.module, {port: _renew(source, renewed) for port, source in step.inputs.items()}, location, {}
        )
        renewed.update({(id(step), port): value for port, value in values_of(again).items()})
    outputs = {name: _renew(value, renewed) for name, value in graph.outputs.items()}
    return Record(graph.name, {name: value for name, value in outputs.items() if isinstance(value, Value)})


def _renew(source: Value | tuple[Value, ...], renewed: _Renewed) -> Value | tuple[Value | None, ...] | None:
    """Put the new value in the place of an old one; None where an open input was left out."""
    if isinstance(source, tuple):
        found = (renewed.get((id(value.step), value.port), value) for value in source)
        return tuple(value for value in found if value is not None)
    return renewed.get((id(source.step), source.port), source)
