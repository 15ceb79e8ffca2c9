"""Plans: a checked graph, cut down to what an action wants, as a flat list of calls between numbered slots.

A plan is made once for each action. Running it means walking a list: no port name, type or graph is looked
at again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from neumo.graph.collect import check_runnable
from neumo.graph.inputs import is_source
from neumo.graph.train_only import train_only_ports

if TYPE_CHECKING:
    from neumo.graph.graph import Graph
    from neumo.graph.module import NeuralModule
    from neumo.graph.value import Step, Value

ABSENT: Final = 0  # the slot that always holds None: what an unconnected optional port reads
SPARE: Final = 1  # the slot that outputs go to which nobody reads

Key: TypeAlias = tuple[int, str]  # of a value: its step, by identity, and its port
Source: TypeAlias = "int | tuple[int, ...]"
Edges: TypeAlias = "Callable[[Step], Iterator[tuple[str, Value]]]"  # the connections that an action uses


@dataclass(frozen=True, slots=True)
class Feed:
    """A value that comes from outside, from a data layer or as an input of the graph, and the slot it goes
    to.
    """

    value: Value
    slot: int

    @property
    def port(self) -> str:
        """The name under which the data arrives."""
        return self.value.port


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One call: `sources` by port in the order of the signature, `targets` in the order of the outputs.

    `release` lists the slots that nobody reads after this call.
    """

    step: Step
    name: str
    sources: Mapping[str, Source]
    targets: tuple[int, ...]
    release: tuple[int, ...]

    @property
    def module(self) -> NeuralModule:
        """The specification that is called."""
        return self.step.module


@dataclass(frozen=True, slots=True)
class Plan:
    """A flat program: feed the slots, make the calls in order, read the wanted slots."""

    feeds: tuple[Feed, ...]
    steps: tuple[PlanStep, ...]
    wanted: Mapping[str, int]
    slots: int

    @property
    def modules(self) -> dict[str, NeuralModule]:
        """The modules that the plan calls, by name, each once."""
        return {step.name: step.module for step in self.steps}

    @property
    def sources(self) -> tuple[Step, ...]:
        """The data layers and graph inputs that feed the plan, each once."""
        return tuple({id(feed.value.step): feed.value.step for feed in self.feeds}.values())

    def __str__(self) -> str:
        lines = [f"[{feed.slot}] <- {feed.value.name}" for feed in self.feeds]
        for call in self.steps:
            freed = f"  frees {list(call.release)}" if call.release else ""
            sources = ", ".join(f"{port}={source}" for port, source in call.sources.items())
            lines.append(f"{list(call.targets)} <- {call.name}({sources}){freed}")
        return "\n".join([*lines, *(f"{name} = [{slot}]" for name, slot in self.wanted.items())])


def compile_plan(
    graph: Graph,
    wanted: Mapping[str, Value] | Iterable[str] | None = None,
    *,
    training: bool = True,
    known: Collection[Key] = (),
) -> Plan:
    """Compile the part of a graph that gives the wanted values: output names, or any of its values by name.

    Without `training`, ports of a graph for "both" that are there in training only get nothing, and what only
    feeds them is left out. Values that are `known`, by key, are fed like data, and what only they need is
    left out. Raises `GraphError` for a graph with calls that were refused.

    >>> from dataclasses import dataclass
    >>> from neumo.graph import Graph, NeuralModule, Signature, inputs
    >>> from neumo.types import Acoustic, B, T
    >>> @dataclass(frozen=True)
    ... class Double(NeuralModule):
    ...     def signature(self) -> Signature:
    ...         return Signature(takes={"x": Acoustic()[B, T]}, gives={"y": Acoustic()[B, T]})
    >>> opened, double = inputs(x=Acoustic()[B, T]), Double().named("double")
    >>> graph = Graph(outputs={"y": double(x=double(x=opened.x).y).y})
    >>> print(compile_plan(graph))
    [2] <- inputs.x
    [3] <- double(x=2)  frees [2]
    [4] <- double(x=3)  frees [3]
    y = [4]
    """
    values = _wanted_values(graph, wanted)
    edges = _edges if training or graph.mode == "train" else _inference_edges
    needed = _needed((value for value in values.values() if value.key not in known), edges, known)
    steps = [step for step in graph.steps if id(step) in needed]
    check_runnable(graph.name, steps)
    slots: dict[tuple[int, str], int] = {}
    read = _read(steps, values.values(), edges)
    given = [value for key, value in read.items() if key in known]
    for key in dict.fromkeys([*(value.key for value in given), *_keys_read(steps, read)]):
        slots[key] = len(slots) + 2
    feeds = [Feed(value, slots[value.key]) for value in given]
    calls: list[Step] = []
    for step in steps:
        if is_source(step):
            feeds += [
                Feed(value, slots[value.key])
                for value in step.outputs.values()
                if value.key in slots and value.key not in known
            ]
        else:
            calls.append(step)
    wanted_slots = {name: slots[value.key] for name, value in values.items()}
    return Plan(
        feeds=tuple(feeds),
        steps=tuple(_plan_steps(graph, calls, slots, frozenset(wanted_slots.values()), edges)),
        wanted=wanted_slots,
        slots=len(slots) + 2,
    )


def needed_steps(graph: Graph, values: Iterable[Value]) -> list[Step]:
    """List the steps that some values are computed from, in the order of the graph."""
    needed = _needed(values, _edges, ())
    return [step for step in graph.steps if id(step) in needed]


def _edges(step: Step) -> Iterator[tuple[str, Value]]:
    return step.edges()


def _inference_edges(step: Step) -> Iterator[tuple[str, Value]]:
    dropped = train_only_ports(step)
    return ((port, value) for port, value in step.edges() if port not in dropped)


def _wanted_values(graph: Graph, wanted: Mapping[str, Value] | Iterable[str] | None) -> Mapping[str, Value]:
    if wanted is None:
        return graph.outputs
    if isinstance(wanted, Mapping):
        return cast("Mapping[str, Value]", wanted)
    return {name: graph.outputs[name] for name in wanted}


def _needed(values: Iterable[Value], edges: Edges, known: Collection[Key]) -> set[int]:
    needed: set[int] = set()
    waiting = [value.step for value in values]
    while waiting:
        step = waiting.pop()
        if id(step) not in needed:
            needed.add(id(step))
            waiting.extend(value.step for _, value in edges(step) if value.key not in known)
    return needed


def _read(steps: list[Step], wanted: Iterable[Value], edges: Edges) -> dict[Key, Value]:
    """The values that somebody reads."""
    read = {value.key: value for value in wanted}
    read.update((value.key, value) for step in steps for _, value in edges(step))
    return read


def _keys_read(steps: list[Step], read: Mapping[Key, Value]) -> list[Key]:
    """The values that somebody reads, in the order in which they are made."""
    return [(id(step), port) for step in steps for port in step.outputs if (id(step), port) in read]


def _plan_steps(
    graph: Graph,
    calls: list[Step],
    slots: Mapping[tuple[int, str], int],
    kept: frozenset[int],
    edges: Edges,
) -> list[PlanStep]:
    names = {id(module): name for name, module in graph.modules.items()}
    release = _releases(calls, slots, kept, edges)
    return [
        PlanStep(
            step=step,
            name=names[id(step.module)],
            sources={port: _source(step.inputs[port], slots) for port in dict(edges(step))},
            targets=tuple(slots.get((id(step), port), SPARE) for port in step.outputs),
            release=freed,
        )
        for step, freed in zip(calls, release, strict=True)
    ]


def _source(given: Value | tuple[Value, ...], slots: Mapping[tuple[int, str], int]) -> Source:
    if isinstance(given, tuple):
        return tuple(slots[value.key] for value in given)
    return slots[given.key]


def _releases(
    calls: list[Step], slots: Mapping[tuple[int, str], int], kept: frozenset[int], edges: Edges
) -> list[tuple[int, ...]]:
    last: dict[int, int] = {}
    for position, step in enumerate(calls):
        for _, value in edges(step):
            last[slots[value.key]] = position
    release: list[list[int]] = [[] for _ in calls]
    for slot, position in last.items():
        if slot not in kept:
            release[position].append(slot)
    for position, step in enumerate(calls):
        if any((id(step), port) not in slots for port in step.outputs):
            release[position].append(SPARE)
    return [tuple(sorted(freed)) for freed in release]
