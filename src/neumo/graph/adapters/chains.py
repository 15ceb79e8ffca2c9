"""Adapters on trial: what one makes of a type, or two in a row, and what else they are connected to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from neumo.graph.adapters import Adapter, proposals
from neumo.graph.value import Value
from neumo.types import Environment, NeumoError, NeuralType, Outcome, compare

MOST_TRIES = 40  # of adapters behind another adapter, and of values beside one
Choices = Callable[[NeuralType], Iterable[Value]]  # the values that may feed a further port of an adapter


@dataclass(frozen=True, slots=True)
class Before:
    """Stands for an output of the adapter before: its type, and the value of the graph that went through."""

    port: str
    type: NeuralType
    through: Value


@dataclass(frozen=True, slots=True)
class Applied:
    """One adapter between a value and a port.

    `beside` tells what its further ports are fed with, `passed` what becomes of those that go through it:
    the value of the graph, the output of the adapter that takes its place, and the type of that.
    """

    adapter: Adapter
    result: NeuralType
    beside: Mapping[str, Value | Before] = field(default_factory=dict[str, "Value | Before"])
    passed: tuple[tuple[Value, str, NeuralType], ...] = ()


Chain = tuple[Applied, ...]


@dataclass(frozen=True, slots=True)
class Passed:
    """What a value becomes that goes through an adapter beside the one that is converted."""

    adapter: Adapter
    port: str
    type: NeuralType


def passed_through(chain: Chain) -> dict[int, Passed]:
    """Tell, by the id of a value, what it becomes in a chain of adapters."""
    return {
        id(value): Passed(applied.adapter, port, type_)
        for applied in chain
        for value, port, type_ in applied.passed
    }


def nothing(_: NeuralType) -> Iterable[Value]:
    """Offer no value for further ports: for a pair of types without a graph around."""
    return ()


def single_chains(wanted: NeuralType, given: NeuralType, choices: Choices = nothing) -> Iterator[Chain]:
    """Give every adapter that can be put behind `given`; whether its result fits is for the asker to see.

    >>> from neumo.types import Audio, B, T
    >>> chain = next(single_chains(Audio(rate=16000)[B, T], Audio(rate=8000)[B, T]))
    >>> chain[0].adapter.notation(), chain[0].result
    ('Resample(8000 -> 16000)', Audio(rate=16000)[B, 2*T])
    """
    for adapter in proposals(wanted, given):
        for applied in apply(adapter, given, choices):
            yield (applied,)


def double_chains(wanted: NeuralType, given: NeuralType, choices: Choices = nothing) -> Iterator[Chain]:
    """Give every two adapters in a row that can be put behind `given`."""
    for (first,) in single_chains(wanted, given, choices):
        for second in islice(proposals(wanted, first.result), MOST_TRIES):
            for applied in apply(second, first.result, choices, first):
                yield first, applied


def apply(
    adapter: Adapter, given: NeuralType, choices: Choices = nothing, before: Applied | None = None
) -> Iterator[Applied]:
    """Put an adapter behind a type, with each value (or output of the one before) that its other ports take.

    A further port that may be left out gets the first value that fits it for sure; one that may not is tried
    with all of them.
    """
    states: list[dict[str, Value | Before]] = [{}]
    if results(adapter, {adapter.entry: given}) is None:
        return
    for port, wanted in adapter.signature_for({adapter.entry: given}).takes.items():
        if port == adapter.entry:
            continue
        grown: list[dict[str, Value | Before]] = []
        for state in states:
            types = {adapter.entry: given} | {name: other.type for name, other in state.items()}
            options = [*_outputs(before), *choices(wanted)]
            fitting = (one for one in options if results(adapter, types | {port: one.type}) is not None)
            found = list(islice(fitting, 1 if wanted.optional else MOST_TRIES))
            grown += [state | {port: one} for one in found] or ([state] if wanted.optional else [])
        states = grown[:MOST_TRIES]
    for state in states:
        types = {adapter.entry: given} | {name: other.type for name, other in state.items()}
        made = results(adapter, types) or {}
        yield Applied(adapter, made[adapter.exit], state, _passed(adapter, made, state))


def results(adapter: Adapter, types: Mapping[str, NeuralType]) -> dict[str, NeuralType] | None:
    """Give the types that an adapter makes of others, or None if one of them does not fit for sure."""
    try:
        signature = adapter.signature_for(types)
    except NeumoError:  # these types and its settings do not go together
        return None
    instance, env = signature.scheme.instantiate(type(adapter).__name__), Environment()
    for port, given in types.items():
        if compare(instance.takes[port], given, env).outcome in (Outcome.ASSUMED, Outcome.MISMATCH):
            return None
    return instance.results(env)


def _outputs(before: Applied | None) -> Iterator[Before]:
    for through, port, type_ in before.passed if before is not None else ():
        yield Before(port, type_, through)


def _passed(
    adapter: Adapter, made: Mapping[str, NeuralType], beside: Mapping[str, Value | Before]
) -> tuple[tuple[Value, str, NeuralType], ...]:
    """List what goes through an adapter: it goes in and comes out at ports of one name."""
    return tuple(
        (other.through if isinstance(other, Before) else other, port, made[port])
        for port, other in beside.items()
        if port in made and port != adapter.exit
    )
