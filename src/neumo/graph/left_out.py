"""Finds what a port that was left out could be fed with, and what beside an adapter."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from neumo.graph.adapters.chains import MOST_TRIES, Applied, Choices, single_chains
from neumo.graph.candidates import Surroundings, fits
from neumo.graph.value import Value
from neumo.types import Any_, Fix, NeuralType

MOST_FIXES = 3


def missing_fixes(around: Surroundings, wanted: dict[str, NeuralType]) -> list[Fix]:
    """Give, for ports that were left out, the values that fit each beside everything that is connected.

    Where no value fits, one that fits behind an adapter is looked for: lengths for a port that takes a mask.
    """
    fixes: list[Fix] = []
    env = around.call.env
    for port, found in wanted.items():
        room = max(1, MOST_FIXES // len(wanted))
        spelled = dict.fromkeys(around.spell(value) for value in around.fitting(port, found, env))
        fixes += [Fix(f"{port}={text}", "fits") for text in list(spelled)[:room]]
        if not spelled:
            fixes += [Fix(text, "fits") for text in islice(_converted(around, port, found), 1)]
    return fixes


def _converted(around: Surroundings, port: str, wanted: NeuralType) -> Iterator[str]:
    """Find values that fit a port behind an adapter, the newest first."""
    target = around.call.env.type(wanted).as_single()
    for value in islice(reversed(around.values), MOST_TRIES):
        for (applied,) in single_chains(target, value.type, choices_of(around, value)):
            if fits(wanted.as_single(), applied.result, around.call.env):
                yield taken_from(around, port, applied, value)


def taken_from(around: Surroundings, port: str, applied: Applied, value: Value) -> str:
    """Write that a port is fed by an adapter behind a value, with what beside."""
    beside = [
        f"{name}={around.spell(other)}" for name, other in applied.beside.items() if isinstance(other, Value)
    ]
    extra = f", with {', '.join(beside)}" if beside else ""
    return f"take {port} from {applied.adapter.notation()} behind {around.spell(value)}{extra}"


def choices_of(around: Surroundings, converted: Value) -> Choices:
    """Offer the values of a call to further ports of an adapter, then all that are around."""
    connected = {id(value): value for value in around.connected}
    others = {id(value): value for value in reversed(around.values)}
    values = [value for value in (connected | others).values() if value is not converted]
    return lambda wanted: (value for value in values if may_feed(wanted, value.type))


def may_feed(wanted: NeuralType, given: NeuralType) -> bool:
    """Tell quickly what cannot fit: another element, another number of axes."""
    if isinstance(wanted.element, Any_):
        return True
    return wanted.rank == given.rank and isinstance(given.element, type(wanted.element))
