"""Reduces a graph to what every drawing of it shows: boxes with ports, and the links between them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import is_dataclass
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, cast

from neumo.graph.draw.parts import Box, Link, Mark, Note, Origin, Setting, Sketch, Socket, short_type
from neumo.graph.draw.sizes import local_signature, size_story, stations, trace_sizes
from neumo.graph.inputs import is_open
from neumo.graph.module import NeuralModule, is_default, label_of, module_fields
from neumo.graph.names import step_names
from neumo.graph.source import CallSite, short_path
from neumo.types import Lengths, Mask, Size, Symbol
from neumo.types.element import measures
from neumo.types.type import clock_of
from neumo.types.vocab import Vocab

if TYPE_CHECKING:
    from neumo.graph.graph import Graph
    from neumo.graph.value import Step, Value
    from neumo.types import NeuralType


def sketch(graph: Graph, *, traces: bool = False, family: Sequence[Graph] = ()) -> Sketch:
    """Reduce a graph to boxes and links; each step gets a name that reads well in a listing.

    `traces` adds where each size comes from. `family` are the graphs that are drawn together: a module that
    several of them use has the same tag in each.
    """
    return _Sketcher(graph, traces, family or [graph]).sketch()


class _Sketcher:
    """Draws one graph; knows the names of its steps, which values are used, and its symbols."""

    def __init__(self, graph: Graph, traces: bool, family: Sequence[Graph]) -> None:
        self.graph = graph
        self.names = step_names(graph)
        self.uses = _uses(family)
        shared = [key for key, uses in self.uses.items() if len(uses) > 1]
        self.tags = {key: number for number, key in enumerate(shared, start=1)}
        self.used = {v.key for step in graph.steps for _, v in step.edges()}
        self.used |= {value.key for value in graph.outputs.values()}
        self.symbols: dict[Symbol, int] = {}
        self.notes = _notes(graph)
        self.drawn = Sketch(graph.name, graph.mode, keys=self.names)
        self.drawn.notes = self.notes.get((0, ""), [])
        if traces:
            self.drawn.hops = trace_sizes(graph.steps, self.names)

    def sketch(self) -> Sketch:
        drawn, names = self.drawn, self.names
        calls = Counter(id(step.module) for step in self.graph.steps)
        for step in self.graph.steps:
            drawn.boxes.append(self.box(step, calls[id(step.module)]))
            for port, value in step.edges():
                notes = self.notes.pop((id(step), port), [])  # once, if a port takes many
                drawn.links.append(
                    Link(
                        names[id(value.step)],
                        value.port,
                        names[id(step)],
                        port,
                        _is_minor(value.type),
                        tuple(notes),
                    )
                )
        for name, value in self.graph.outputs.items():
            drawn.outputs[name] = (names[id(value.step)], value.port)
        return drawn

    def box(self, step: Step, calls: int) -> Box:
        module, key = step.module, self.names[id(step)]
        gives = tuple(self.output(value) for value in step.outputs.values())
        if is_open(step):
            return Box(key, "inputs", "", "inputs", gives=gives)
        return Box(
            key,
            key if calls == 1 else label_of(module),
            type(module).__name__,
            module.role,
            _settings(module),
            module.trainable,
            calls,
            _inputs(step),
            gives,
            self.tags.get(id(module), 0),
            tuple(self.uses[id(module)]),
            _fields(module),
            _summary(module),
            _place(step),
            tuple(self.notes.get((id(step), ""), ())),
        )

    def output(self, value: Value) -> Socket:
        marks = tuple(self.marks(value))
        hops = [self.drawn.hops.get((*value.key, mark.slot)) for mark in marks]
        changed = [hop for hop in hops if hop and any(each.rule for each in stations(hop))]
        stories = dict.fromkeys(f"{hop.size}: {size_story(hop)}" for hop in changed)
        return Socket(
            value.port,
            str(value.type),
            value.key in self.used,
            _is_minor(value.type),
            value.type.optional,
            value.type.when or "",
            marks,
            tuple(stories),
        )

    def marks(self, value: Value) -> Iterable[Mark]:
        for index, axis in enumerate(value.type.axes):
            yield Mark(
                index,
                short_type(re.sub(r" at \S+ Hz$", "", str(axis))),
                self.number(axis.size, value),
                clock_of(value.type, index),
                axis.clock is not None,
            )
        for name in measures(type(value.type.element)):
            size = getattr(value.type.element, name)
            if isinstance(size, Size):
                yield Mark(name, str(size), self.number(size, value))

    def number(self, size: Size | None, value: Value) -> tuple[int, ...]:
        """Number the symbols of a size; one that is new starts at this value."""
        if size is None:
            return ()
        found: list[int] = []
        for symbol in sorted(size.symbols(), key=lambda each: each.key):
            if symbol not in self.symbols:
                self.symbols[symbol] = len(self.symbols)
                where = f"{self.names[id(value.step)]}.{value.port}"
                self.drawn.symbols.append(Origin(symbol.name, where, short_type(str(value.type))))
            found.append(self.symbols[symbol])
        return tuple(found)


def _uses(family: Sequence[Graph]) -> dict[int, list[str]]:
    """List the steps that use each module, by its id; modules in the order of the graphs."""
    found: dict[int, list[str]] = {}
    for graph in family:
        names = step_names(graph)
        for step in graph.steps:
            if not is_open(step):
                found.setdefault(id(step.module), []).append(f"{graph.name}.{names[id(step)]}")
    return found


def _notes(graph: Graph) -> dict[tuple[int, str], list[Note]]:
    """Collect what is to be known about each connection, by the id of the step and the port it goes into.

    The port is empty for what concerns a step, or the graph (then the id is 0). That an output is used by
    nothing is left out: drawings show it anyway.
    """
    found: dict[tuple[int, str], list[Note]] = {}
    for assumed in graph.assumptions():
        text = f"{assumed.obligation}: {assumed.reason}" if assumed.reason else str(assumed.obligation)
        key = (id(assumed.step), assumed.port.rpartition(".")[2])
        found.setdefault(key, []).append(Note("assumed", text))
    for step in graph.steps:
        for port, reason in step.warnings:
            found.setdefault((id(step), port), []).append(Note("warning", reason.sentence))
    for finding in graph.findings():
        if finding.silenced or finding.rule == "unused-output":
            continue
        step, port = finding.step, finding.port or ""
        known = step is not None and port in step.inputs
        key = (0 if step is None else id(step), port if known else "")
        found.setdefault(key, []).append(Note("finding", f"{finding.sentence} [{finding.rule}]"))
    return found


def _place(step: Step) -> str:
    """Where a step was written, as file and line; finding out the argument too would parse the file."""
    where = step.location
    if not isinstance(where, CallSite):
        return "" if where is None else str(where.place())
    line, *_ = next(islice(where.code.co_positions(), where.lasti // 2, None), (None,))
    return f"{short_path(where.code.co_filename)}:{line or where.code.co_firstlineno}"


def _inputs(step: Step) -> tuple[Socket, ...]:
    """List the inputs that are connected, then those that were left open."""
    takes = local_signature(step).takes
    connected = [port for port in step.inputs if port in takes]
    rest = [port for port in takes if port not in step.inputs]
    return tuple(
        Socket(
            port,
            str(takes[port]),
            port in step.inputs,
            _is_minor(takes[port]),
            takes[port].optional,
            takes[port].when or "",
        )
        for port in [*connected, *rest]
    )


def _settings(module: NeuralModule) -> str:
    """The fields that are not at their default, as in a call; vocabularies by name and size."""
    fields = {
        name: value for name, value in module_fields(module).items() if not is_default(module, name, value)
    }
    return ", ".join(f"{name}={_brief(value)}" for name, value in fields.items())


def _fields(module: NeuralModule) -> tuple[Setting, ...]:
    return tuple(
        Setting(name, _setting(value), is_default(module, name, value))
        for name, value in module_fields(module).items()
    )


def _summary(module: NeuralModule) -> str:
    """The first line of the documentation of a module's class; dataclasses write one that says nothing."""
    first = (type(module).__doc__ or "").strip().partition("\n")[0]
    return "" if first.startswith(f"{type(module).__name__}(") else first


def _brief(value: Any) -> str:
    """A setting as it is shown in a box: of a path only the name."""
    if isinstance(value, str | PurePath) and len(str(value)) > 24 and "/" in str(value):
        return repr(f"…/{PurePath(value).name}")
    return _setting(value)


def _setting(value: Any) -> str:
    if isinstance(value, Vocab):
        return short_type(str(value))
    parts = list(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else []
    if parts and is_dataclass(parts[0]):
        kinds = Counter(type(part).__name__ for part in parts)
        return " + ".join(f"{count} {kind}" for kind, count in kinds.items())
    text = repr(cast("object", value))
    return text if len(text) <= 60 else f"{text[:59]}…"


def _is_minor(type_: NeuralType) -> bool:
    return isinstance(type_.element, Lengths | Mask)
