"""Where the numbers behind the sizes of a graph are found when it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from neumo.graph.value import Step, Value
from neumo.types import Lengths, Symbol


@dataclass(frozen=True, slots=True)
class SymbolOrigin:
    """Tells where the number behind a symbol is found: an axis of a value, and the lengths that count it."""

    value: Value
    axis: int | None  # None where only lengths mention the symbol
    lengths: Value | None


def find_symbols(steps: Iterable[Step]) -> dict[Symbol, SymbolOrigin]:
    """Map each symbol of some steps to the first axis that has its size, and to the lengths that count it."""
    axes: dict[Symbol, tuple[Value, int]] = {}
    counts: dict[Symbol, Value] = {}
    for value in (value for step in steps for value in step.outputs.values()):
        for index, axis in enumerate(value.type.axes):
            symbol = axis.symbol
            if symbol is not None:
                axes.setdefault(symbol, (value, index))
        if isinstance(value.type.element, Lengths):
            symbol = None if value.type.element.of is None else value.type.element.of.symbol
            if symbol is not None:
                counts.setdefault(symbol, value)
    origins = {
        symbol: SymbolOrigin(value, index, counts.get(symbol)) for symbol, (value, index) in axes.items()
    }
    rest = {
        symbol: SymbolOrigin(value, None, value) for symbol, value in counts.items() if symbol not in origins
    }
    return origins | rest
