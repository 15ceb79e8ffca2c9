"""How much sound goes through a network at once, so that it stays within an amount of memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neumo.types import Kind
from neumo.types import clock_of as clock_of_axis
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from neumo.graph.graph import Graph
    from neumo.types import NeuralType

__all__ = ["Budget", "budget_for", "read_memory"]

LONGEST = 60.0  # seconds in one chunk; the work of attention grows with its square
_AT_ONCE = 240.0  # seconds in one batch: more makes nothing faster
_HELD = 960.0  # seconds of samples that wait, to be sorted by length
_COPIES = 16  # of the widest value: inputs, outputs and workspaces of the layers inside of a module
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


@dataclass(frozen=True)
class Budget:
    """Seconds of sound: in one chunk, in one batch with its padding, and waiting in memory."""

    chunk: float
    batch: float
    held: float


def budget_for(graph: Graph, memory: int, *, rate: int, chunk: float | None = None) -> Budget:
    """Share `memory` bytes: half for what the network computes, a quarter for samples that wait.

    What a second of sound takes in the network is an estimate from the types of the graph: 16 times its
    widest value. Weights and the program itself come on top. Raises `ConfigError` if not even a second, or
    one chunk of the length that was asked for, fits.
    """
    second = _COPIES * _widest(graph, rate)
    fits = memory / 2 / second
    if fits < (chunk or 1.0):
        needed = 2 * second * (chunk or 1.0)
        raise ConfigError(
            f"{memory / 1e6:.0f} MB are too little memory for {chunk or 1:g} s of sound at once",
            code="memory",
            why=f"This model takes about {second / 1e6:.1f} MB for each second of sound.",
            fixes=[f"--memory {needed / 1e6:.0f}MB, or memory={needed:.0f}"]
            + (["a shorter chunk"] if chunk else []),
        )
    return Budget(
        chunk or min(LONGEST, fits), min(_AT_ONCE, fits), max(1.0, min(_HELD, memory / 4 / (4 * rate)))
    )


def read_memory(text: str | int) -> int:
    """Read an amount of memory: a number of bytes, or with a unit.

    >>> read_memory("1GB"), read_memory("512 MiB"), read_memory(1000)
    (1000000000, 536870912, 1000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]i?|)b?\s*", str(text).lower())
    if found is None or float(found[1]) <= 0:
        raise ConfigError(
            f"{text!r} is no amount of memory", code="memory", fixes=["512MB", "1GB", "a number of bytes"]
        )
    return int(float(found[1]) * _UNITS[found[2]])


def _widest(graph: Graph, rate: int) -> float:
    """Bytes that a second of sound takes as the widest value of a graph, of those whose size is known."""
    found = [4.0 * rate]
    for value in graph.values():
        found.append(4.0 * _numbers_per_second(value.type))
    return max(found)


def _numbers_per_second(kind: NeuralType) -> float:
    for n, axis in enumerate(kind.axes):
        if axis.kind is Kind.TIME and (clock := clock_of_axis(kind, n)) is not None:
            others = 1
            for other in kind.axes:
                size = getattr(other, "size", None)
                if other is not axis and size is not None and str(size).isdecimal():
                    others *= int(str(size))
            return float(clock) * others
    return 0.0
