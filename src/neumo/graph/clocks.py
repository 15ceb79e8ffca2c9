"""Holds what a module gives against the clocks of what it takes: 300 samples a frame are not 256."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, cast

from neumo.graph.compose import Call
from neumo.graph.misuse import place_of
from neumo.graph.module import NeuralModule, label_of, module_fields
from neumo.types import Audio, Axis, Kind, NeuralType, PortError, Row, Spectrogram
from neumo.types.axis import scaled_clock


def clock_errors(call: Call) -> list[PortError]:
    """Refuse outputs whose size says another number of steps a second than their rate and hop."""
    if not call.relaxed.keys().isdisjoint(("clock", "rate", "hop")):
        return []
    found: list[PortError] = []
    for port, gives in call.instance.gives.items():
        element = gives.element
        if isinstance(element, Audio | Spectrogram) and (axis := _time_axis(gives)) is not None:
            stated = element.substitute({}, call.env.facets).implied_clock()
            counted = _counted(call, axis)
            if None not in (stated, counted) and stated != counted:
                found.append(_error(call, port, axis, Fraction(stated or 0), Fraction(counted or 0)))
    return found


def _time_axis(gives: NeuralType) -> Axis | None:
    """Give the one axis along time; of two, an element does not say which one it is about."""
    times = [axis for axis in gives.axes if axis.kind is Kind.TIME]
    return times[0] if len(times) == 1 else None


def _counted(call: Call, axis: Axis) -> Fraction | None:
    return None if axis.size is None else scaled_clock(axis.size, call.env.clocks)


def _error(call: Call, port: str, axis: Axis, stated: Fraction, counted: Fraction) -> PortError:
    label, size = label_of(call.module), axis.size
    element = call.instance.gives[port].element.substitute({}, call.env.facets)
    settings = "its rate says" if isinstance(element, Audio) else "its rate and hop say"
    symbols = sorted(size.symbols() if size is not None else (), key=lambda symbol: symbol.name)
    told = ((symbol, call.env.clock_origin(symbol)[0], call.env.clocks[symbol]) for symbol in symbols)
    clocks = (f"{symbol} of {source} has {_number(clock)} steps a second" for symbol, source, clock in told)
    return PortError(
        f"{label}.{port} has {_number(counted)} steps a second by its size, but {settings} {_number(stated)}",
        code="clock",
        where=place_of(call),
        details=[Row("gives", str(call.env.type(call.instance.gives[port])))],
        why=f"{' and '.join(clocks)}; the size is {size}.",
        fixes=[*_settings(call, port, stated, counted)],
    )


def _settings(call: Call, port: str, stated: Fraction, counted: Fraction) -> Iterator[str]:
    """Try the whole-number settings of the module that would make the size right."""
    for name, value in module_fields(call.module).items():
        for changed in (value * stated / counted, value * counted / stated) if type(value) is int else ():
            if changed.denominator == 1 and _agrees(call, port, {name: int(changed)}):
                yield f"build {label_of(call.module)} with {name}={changed}"


def _agrees(call: Call, port: str, settings: dict[str, int]) -> bool:
    try:
        module: NeuralModule = cast("Any", dataclasses).replace(call.module, **settings)
        gives = module.signature().gives[port]
    except Exception:  # the user's own code, on a setting that nobody has tried
        return False
    axis, clock = _time_axis(gives), gives.element.substitute({}, call.env.facets).implied_clock()
    return axis is not None and clock == _counted(call, axis)


def _number(clock: Fraction) -> str:
    return f"{clock}" if clock.denominator == 1 else f"{float(clock):.6g}"
