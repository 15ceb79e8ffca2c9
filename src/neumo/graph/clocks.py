"""Holds what a module gives against the clocks of what it takes: 300 samples a frame are not 256."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, cast

from neumo.graph.compose import Call
from neumo.graph.misuse import place_of
from neumo.graph.module import NeuralModule, label_of, module_fields
from neumo.types import Axis, Kind, NeuralType, PortError, Row, Spectrogram
from neumo.types.axis import scaled_clock
from neumo.types.clocks import rate_text


def clock_errors(call: Call) -> list[PortError]:
    """Refuse outputs whose size says another number of steps a second than they do themselves."""
    if not call.relaxed.keys().isdisjoint(("clock", "rate", "hop")):
        return []
    found: list[PortError] = []
    for port, gives in call.instance.gives.items():
        for axis, stated in _stated(call, gives):
            counted = _counted(call, axis)
            if counted is not None and stated != counted:
                found.append(_error(call, port, axis, stated, counted))
    return found


def _stated(call: Call, gives: NeuralType) -> Iterator[tuple[Axis, Fraction]]:
    """Go through the clocks that axes state, and the one that an element implies where one axis is time."""
    times = [axis for axis in gives.axes if axis.kind is Kind.TIME]
    implied = gives.element.substitute({}, call.env.facets).implied_clock() if len(times) == 1 else None
    for axis in times:
        stated = axis.clock if implied is None else implied
        if stated is not None:
            yield axis, stated


def _counted(call: Call, axis: Axis) -> Fraction | None:
    return None if axis.size is None else scaled_clock(axis.size, call.env.clocks)


def _error(call: Call, port: str, axis: Axis, stated: Fraction, counted: Fraction) -> PortError:
    label, size = label_of(call.module), axis.size
    element = call.instance.gives[port].element.substitute({}, call.env.facets)
    settings = "its rate and hop say" if isinstance(element, Spectrogram) else "its rate says"
    if element.implied_clock() is None:
        settings = "its axis says"
    symbols = sorted(size.symbols() if size is not None else (), key=lambda symbol: symbol.name)
    told = ((symbol, call.env.clock_origin(symbol)[0], call.env.clocks[symbol]) for symbol in symbols)
    clocks = (f"{symbol} of {source} has {rate_text(clock)} steps a second" for symbol, source, clock in told)
    return PortError(
        f"{label}.{port} has {rate_text(counted)} steps a second by its size, "
        f"but {settings} {rate_text(stated)}",
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
    clocks = [clock == _counted(call, axis) for axis, clock in _stated(call, gives)]
    return bool(clocks) and all(clocks)
