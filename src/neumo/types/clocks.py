"""Clocks of the symbols of a signature: a size that several inputs share has one clock in all of them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from neumo.types.errors import ConfigError
from neumo.types.gap import slopes
from neumo.types.size import Size, Symbol
from neumo.types.type import NeuralType

_ONE = Fraction(1)


def symbol_clock(size: Size, clock: Fraction) -> tuple[Symbol, Fraction] | None:
    """Tell the clock of the one symbol that an axis of this size and clock depends on, or None.

    >>> symbol_clock(Symbol("T").size // 160 + 1, Fraction(100))
    (T, Fraction(16000, 1))
    """
    growth = slopes(size) if size.symbol is None else {size.symbol: _ONE}
    symbol, slope = next(iter(growth.items())) if len(growth) == 1 else (None, _ONE)
    if not isinstance(symbol, Symbol) or slope < 0:
        return None
    return symbol, clock if slope == 1 else clock / slope


def check_clocks(ports: Mapping[str, NeuralType]) -> None:
    """Refuse inputs of a module whose clocks cannot all be right: nothing could be connected to them.

    Values may have equally many steps of two clocks, such as crops: outputs are not held against each other.

    >>> from neumo.types.axis import B, T
    >>> from neumo.types.element import Acoustic, Audio
    >>> check_clocks({"x": Audio(rate=16000)[B, T], "y": Acoustic()[B, T.at(50)]})
    Traceback (most recent call last):
        ...
    neumo.types.errors.ConfigError: ConfigError[clock]: T has 16000 steps a second in 'x' and 50 in 'y'
    ...
    """
    timed = [(port, t) for port, t in ports.items() if t.clocks]
    if len(timed) < 2:
        return
    known: dict[Symbol, tuple[str, Fraction]] = {}
    for port, t in timed:
        for axis, clock in zip(t.axes, t.clocks, strict=True):
            found = None if clock is None or axis.size is None else symbol_clock(axis.size, clock)
            if found is None:
                continue
            symbol, here = found
            before, there = known.setdefault(symbol, (port, here))
            if here != there:
                raise _two_clocks(symbol, (before, there), (port, here))


def _two_clocks(symbol: Symbol, one: tuple[str, Fraction], two: tuple[str, Fraction]) -> ConfigError:
    (port, clock), (other, there) = one, two
    return ConfigError(
        f"{symbol} has {rate_text(clock)} steps a second in {port!r} and {rate_text(there)} in {other!r}",
        code="clock",
        why="A name stands for one size, with one clock, in all inputs of a module.",
        fixes=(f'give one of them a name of its own, such as T("{symbol.name}2")',),
    )


def rate_text(clock: Fraction) -> str:
    """Write a rate as people say it: 50, 86.1328.

    >>> rate_text(Fraction(11025, 128))
    '86.1328'
    """
    return f"{clock}" if clock.denominator == 1 else f"{float(clock):.6g}"
