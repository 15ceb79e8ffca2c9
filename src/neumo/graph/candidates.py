"""The values around a call: how the caller spells them, and which of them would fit a port."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any

from neumo.graph.compose import Call
from neumo.graph.order import order_steps
from neumo.graph.value import Record, Step, Value, values_of
from neumo.types import Environment, NeuralType, Outcome, compare

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
            self.spelled.setdefault((id(value.step), value.port), f"{name}.{port}" if port else name)
            found.append(value)
        self.steps: list[Step] = order_steps(value.step for value in found)
        self.values: list[Value] = [v for step in self.steps for v in step.outputs.values()][-MOST_VALUES:]

    def spell(self, value: Value) -> str:
        """Write a value as the caller would: `enc.encoded_len`, or by module where no variable holds it."""
        return self.spelled.get((id(value.step), value.port), value.name)

    def fitting(self, port: str, wanted: NeuralType, env: Environment) -> list[Value]:
        """List the values that fit a port in `env`, the likeliest first; unconnected ones if any fit."""
        single = wanted.as_single()
        fitting = [value for value in self.values if fits(single, value.type, env)]
        age = {id(value): index for index, value in enumerate(self.values)}
        free = [value for value in fitting if id(value) not in self.settled]
        return sorted(free or fitting, key=lambda v: (-_likeness(port, v.port), -age[id(v)]))


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
