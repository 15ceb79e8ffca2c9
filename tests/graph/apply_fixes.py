"""Applies a way out of a refused call for real: composes what it says, and the call again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neumo.graph.adapters.chains import Before
from neumo.graph.assume import assume
from neumo.graph.candidates import Surroundings, each_value
from neumo.graph.compose import Call, Mismatch, check, compose
from neumo.graph.module import NeuralModule
from neumo.graph.value import Record, Value
from neumo.graph.ways_out import Advice, Way


def refused_call(module: NeuralModule, given: Mapping[str, Any], names: Mapping[str, Any]) -> Call:
    """Check a call that has to be refused; `names` are the records around it."""
    call = Call(module, given, None, names)
    errors = check(call)
    assert errors, "the call is right"
    return call


def ways_of(call: Call) -> list[tuple[Mismatch, list[Way]]]:
    """List all ways out of the first failed connection, not only the three that are shown."""
    advice = Advice(call, Surroundings(call))
    return [(mismatch, list(advice.ways(mismatch))) for mismatch in call.mismatches[:1]]


def apply(call: Call, mismatch: Mismatch, way: Way) -> Record:
    """Compose the adapters, the other value or the other module of a way out, and then the call."""
    inputs: dict[str, Any] = dict(call.inputs)
    module = call.module
    swap: dict[int, Value] = {}
    if way.value is not None:
        inputs[mismatch.port] = _replaced(inputs[mismatch.port], {id(mismatch.value): way.value})
        inputs |= way.beside
    elif way.claim is not None:
        claimed = assume(mismatch.value, way.claim, reason="tried")
        inputs[mismatch.port] = _replaced(inputs[mismatch.port], {id(mismatch.value): claimed})
    elif way.chain:
        value, outputs = way.behind or mismatch.value, {}
        for applied in way.chain:
            beside = {
                port: outputs[other.port] if isinstance(other, Before) else other
                for port, other in applied.beside.items()
            }
            record = compose(applied.adapter, {applied.adapter.entry: value, **beside}, None, {})
            value, outputs = record[applied.adapter.exit], record._asdict()
            swap |= {id(through): record[port] for through, port, _ in applied.passed}
        inputs = {
            port: _replaced(source, swap | ({id(mismatch.value): value} if port == mismatch.port else {}))
            for port, source in inputs.items()
        }
    elif type(way.module) is type(module):
        module = way.module
    elif way.module is not None:
        step = mismatch.value.step
        again = compose(way.module, dict(step.inputs), None, {})
        swap = {id(old): again[port] for port, old in step.outputs.items()}
        inputs = {port: _replaced(source, swap) for port, source in inputs.items()}
    return compose(module, inputs, None, {})


def _replaced(source: Any, swap: Mapping[int, Value]) -> Any:
    values = tuple(swap.get(id(value), value) for value in each_value(source))
    return values if isinstance(source, tuple) else values[0]
