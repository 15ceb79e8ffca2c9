"""The values around a call and those of a graph: how they are spelled, and which would fit a port."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from neumo.graph.compose import Call, check, try_types
from neumo.graph.order import order_steps
from neumo.graph.value import Record, Step, Value, values_of
from neumo.types import (
    Environment,
    GraphError,
    Hypotheses,
    NeumoError,
    NeuralType,
    Outcome,
    compare,
    did_you_mean,
)

if TYPE_CHECKING:
    from neumo.graph.graph import Graph

MOST_VALUES = 2000  # of the values around a call that are looked at


def fits_alone(wanted: NeuralType, given: NeuralType) -> bool:
    """Say whether a value could feed a port for sure, with nothing else connected."""
    return fits(wanted, given, Environment())


def fits(wanted: NeuralType, given: NeuralType, env: Environment) -> bool:
    """Compare without leaving a trace in `env`; what would only be assumed does not count."""
    mark = env.mark()
    found = compare(wanted, given, env)
    env.rollback(mark)
    return found.outcome not in (Outcome.ASSUMED, Outcome.MISMATCH)


class Surroundings:
    """The values around a call and how the caller spells them."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.spelled: dict[tuple[int, str], str] = {}
        self.connected: list[Value] = [
            value for source in call.inputs.values() for value in each_value(source)
        ]
        refused = {(mismatch.port, id(mismatch.value)) for mismatch in call.mismatches}
        self.settled: set[int] = {  # what stands where it does not fit may belong to another port
            id(value)
            for port, source in call.inputs.items()
            for value in each_value(source)
            if (port, id(value)) not in refused
        }
        found = list(self.connected)
        for name, port, value in _named_values(call.variables()):
            self.spelled.setdefault(value.key, f"{name}.{port}" if port else name)
            found.append(value)
        self.steps: list[Step] = order_steps(value.step for value in found)
        self.values: list[Value] = [v for step in self.steps for v in step.outputs.values()][-MOST_VALUES:]
        self._found_by_models: set[int] = set()  # steps: computed with weights, or decoded
        for step in self.steps:
            is_model = step.module.trainable or step.module.role == "decoder"
            if is_model or any(id(value.step) in self._found_by_models for _, value in step.edges()):
                self._found_by_models.add(id(step))

    def is_found(self, value: Value) -> bool:
        """Say whether a model had a part in a value: it is no answer that data brings along."""
        return id(value.step) in self._found_by_models or isinstance(value.type.element, Hypotheses)

    def spell(self, value: Value) -> str:
        """Write a value as the caller would: `enc.encoded_len`, or by module where no variable holds it."""
        return self.spelled.get(value.key, value.name)

    def fitting(self, port: str, wanted: NeuralType, env: Environment) -> list[Value]:
        """List the values that fit a port in `env`, the likeliest first; unconnected ones if any fit.

        In a loss or a metric, what data brings along comes before what a model has found.
        """
        single = wanted.as_single()
        fitting = [value for value in self.values if fits(single, value.type, env)]
        age = {id(value): index for index, value in enumerate(self.values)}
        free = [value for value in fitting if id(value) not in self.settled]
        compares = self.call.module.role in ("loss", "metric")
        return sorted(
            free or fitting,
            key=lambda v: (compares and self.is_found(v), -_likeness(port, v.port), -age[id(v)]),
        )


def each_value(source: Value | tuple[Value, ...]) -> tuple[Value, ...]:
    """Give the values of a port that takes one or many."""
    return source if isinstance(source, tuple) else (source,)


def _named_values(variables: Mapping[str, Any]) -> Iterator[tuple[str, str, Value]]:
    """Give (variable, port, value) for all records and values, plain names before `_private` ones."""
    speaking = [name for name in variables if name.strip("_") and not name.startswith("__")]
    for name in sorted(speaking, key=lambda name: name.startswith("_")):
        thing = variables[name]
        if isinstance(thing, Record):
            yield from ((name, port, value) for port, value in values_of(thing).items())
        elif isinstance(thing, Value):
            yield name, "", thing
        elif name == "self":  # a class that composes in its methods keeps its records
            held = {f"self.{key}": value for key, value in getattr(thing, "__dict__", {}).items()}
            yield from _named_values(
                {key: value for key, value in held.items() if isinstance(value, Record | Value)}
            )


def _likeness(one: str, two: str) -> float:
    return SequenceMatcher(None, one, two).ratio()


def unconnected(values: Iterable[Value], around: Surroundings) -> list[Value]:
    """Leave out what the call has connected well already: no port is the right place for it twice."""
    return [value for value in values if id(value) not in around.settled]


_PORT = re.compile(r"(?P<module>[^.\[\]]+)(\[(?P<call>\d+)\])?\.(?P<port>[^.\[\]]+)")


def candidates_for(graph: Graph, wanted: str | NeuralType) -> list[Value]:
    """List the values of a graph that could feed a port for sure, the likeliest first.

    >>> from neumo.graph.adapters import Resample
    >>> from neumo.graph.graph import Graph
    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import Audio, B, Lengths, T, U
    >>> given = inputs(audio=Audio(rate=8000)[B, T], text_len=Lengths(U)[B], audio_len=Lengths(T)[B])
    >>> wide = Resample(8000, 16000)(audio=given.audio, audio_len=given.audio_len)
    >>> graph = Graph(outputs={"audio": wide.audio, "text_len": given.text_len})
    >>> candidates_for(graph, "Resample.audio_len")
    [inputs.audio_len: Lengths(T)[B]]

    A port is named `module.port`, or `module[1].port` for the second call of a module. It is looked at beside
    everything else that the call is connected to; what depends on the call is left out. For a type, all
    values that fit it alone are listed. What would only be assumed does not count.
    """
    if isinstance(wanted, NeuralType):
        return [value for value in graph.values() if fits_alone(wanted, value.type)]
    step, port = find_port(graph, wanted)
    beside = {
        name: [value.type for value in each_value(source)]
        for name, source in step.inputs.items()
        if name != port
    }
    downstream = _downstream(graph, step)
    fitting = [
        value
        for value in graph.values()
        if id(value.step) not in downstream and _fits_beside(step, port, value.type, beside)
    ]
    elsewhere = {id(value) for name, value in step.edges() if name != port}
    age = {id(value): index for index, value in enumerate(fitting)}
    return sorted(fitting, key=lambda v: (id(v) in elsewhere, -_likeness(port, v.port), -age[id(v)]))


def wanted_beside(step: Step, port: str) -> NeuralType:
    """Give the type that a port of a step wants, with what all its other connections tell."""
    others = {name: source for name, source in step.inputs.items() if name != port}
    call = Call(step.module, others, step.location, {}, relaxed=step.relaxed)
    check(call)
    return call.env.type(call.instance.takes[port].as_single())


def _fits_beside(step: Step, port: str, given: NeuralType, beside: dict[str, list[NeuralType]]) -> bool:
    """Try a value at a port of a step, beside what its other ports have; ports may depend on it."""
    single = {name: types[0] for name, types in beside.items() if isinstance(step.inputs[name], Value)}
    try:
        signature = step.module.signature_for({**single, port: given})
    except NeumoError:  # the module objects to it
        return False
    if not fits_alone(signature.takes[port].as_single(), given):
        return False
    outcomes = try_types(Call(step.module, {}, signature=signature), {**beside, port: [given]})
    return all(found is not Outcome.MISMATCH for found in outcomes.values()) and (
        outcomes[port] is not Outcome.ASSUMED
    )


def _downstream(graph: Graph, step: Step) -> set[int]:
    """Collect a step and all that depend on it, by id: their values would close a circle."""
    found = {id(step)}
    for each in graph.steps:
        if any(id(value.step) in found for _, value in each.edges()):
            found.add(id(each))
    return found


def find_port(graph: Graph, name: str) -> tuple[Step, str]:
    """Find the call and the port that `module.port` or `module[1].port` means in a graph."""
    match = _PORT.fullmatch(name.strip())
    if match is None:
        raise GraphError(
            f"{name!r} is not the name of a port",
            code="unknown-port",
            fixes=["write module.port, such as ctc.targets"],
        )
    label, port = match["module"], match["port"]
    if label not in graph.modules:
        raise GraphError(
            f"graph {graph.name!r} has no module {label!r}",
            code="unknown-port",
            details=[f"its modules are {', '.join(graph.modules)}"],
            fixes=did_you_mean(label, graph.modules),
        )
    module = graph.modules[label]
    calls = [step for step in graph.steps if step.module is module]
    number = int(match["call"] or 0)
    if number >= len(calls):
        times = "once" if len(calls) == 1 else f"{len(calls)} times"
        raise GraphError(f"{label} is called {times}, so there is no call {number}", code="unknown-port")
    takes = module.signature_for({}).takes
    if port not in takes:
        raise GraphError(
            f"{label} takes no {port!r}",
            code="unknown-port",
            details=[f"it takes {', '.join(takes) or 'nothing'}"],
            fixes=did_you_mean(port, takes),
        )
    return calls[number], port
