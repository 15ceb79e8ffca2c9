"""Goes on after a refused call: what it would give, as far as the rest of the call and the way out tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from neumo.graph.compose import Call, Mismatch, bind_what_fits, decides, new_step
from neumo.graph.module import NeuralModule, label_of
from neumo.graph.value import Doubt, Record, Value
from neumo.types import Axis, Environment, NeuralType, PortError, Reason, Size, Struct, Symbol, compare
from neumo.types.element import measures

Repaired = Mapping[str, Sequence[NeuralType]]  # what would stand at a refused port after its way out


def doubtful_record(call: Call, errors: Sequence[PortError]) -> Record:
    """Finish a call that was refused, or that depends on one that was.

    What it gives has the declared types with what could be solved; a size or a facet that nothing tells is
    unknown, so that nothing further down is judged by it.
    """
    step = new_step(call)
    step.refusal = tuple(errors)
    step.doubt = Doubt.ALL if _depends_on_types(call, errors) else Doubt.SIZES
    env = call.env
    if call.mismatches:
        env = solve(call, {m.port for m in call.mismatches if not is_about_facets(m)}, call.repaired)
    unknown = _bind_unknown(call, env)
    step.bindings = env
    for port, found in call.instance.results(env).items():
        step.outputs[port] = Value(step, port, _without(found, unknown))
    return Record(label_of(call.module), step.outputs)


def solve(call: Call, doubtful: set[str], repaired: Repaired) -> Environment:
    """Connect a call again; at a doubtful port stands what its way out would put there, or nothing."""
    env = Environment()
    takes = call.instance.takes
    for port in sorted(call.inputs, key=lambda each: decides(takes[each])):
        types = repaired.get(port, ()) if port in doubtful else _types(call.inputs[port])
        for given in types:
            if compare(takes[port], given, env, relax=call.relaxed, strict=call.strict).reasons:
                bind_what_fits(env, takes[port], given, None)
    return env


def is_about_facets(mismatch: Mismatch) -> bool:
    """Say whether a value is the right one with a wrong property: then its sizes can be relied on."""
    return all(map(_is_about_facet, mismatch.comparison.reasons))


def _is_about_facet(reason: Reason) -> bool:
    if reason.gap is not None:
        return reason.gap.wanted.constant is not None and reason.gap.given.constant is not None
    return reason.code not in ("element", "axes")


def follows(call: Call, mismatch: Mismatch, before: Sequence[Mismatch]) -> bool:
    """Say whether a connection is refused only for a size that another refused connection had told."""
    doubtful = {each.port for each in before if not is_about_facets(each)} - {mismatch.port}
    reasons = [reason for reason in mismatch.comparison.reasons if reason.code != "unsolved"]
    decided = {reason.origin[0] if reason.origin else "" for reason in reasons}
    if not decided or not decided <= doubtful:
        return False
    env = solve(call, {*doubtful, mismatch.port}, call.repaired)
    again = compare(mismatch.wanted, mismatch.value.type, env, relax=call.relaxed, strict=call.strict)
    return all(reason.code == "unsolved" for reason in again.reasons)


def _types(source: Value | tuple[Value, ...]) -> list[NeuralType]:
    values = source if isinstance(source, tuple) else (source,)
    return [value.type for value in values if value.step.doubt is not Doubt.ALL]


def _depends_on_types(call: Call, errors: Sequence[PortError]) -> bool:
    """Say whether the very ports depend on what was connected, and that is wrong or unknown.

    A value that differs in facets only has told the ports well, and so has a module that objects to a value:
    its ports are those that it states for anything.
    """
    if type(call.module).signature_for is NeuralModule.signature_for:
        return False
    sources = [v for s in call.inputs.values() for v in (s if isinstance(s, tuple) else (s,))]
    if any(value.step.doubt is Doubt.ALL for value in sources):
        return True
    if len(errors) > len(call.mismatches) + len(call.objections):
        return True  # something is left out, or written wrongly
    wrong = {mismatch.port for mismatch in call.mismatches if not is_about_facets(mismatch)}
    return not call.objections and bool(wrong) and not _stated_again(call, wrong)


def _stated_again(call: Call, wrong: set[str]) -> bool:
    """Ask the module for its ports as if the way out had been taken; say whether there is one."""
    if not wrong <= call.repaired.keys():
        return False
    given = {port: source.type for port, source in call.inputs.items() if isinstance(source, Value)}
    given |= {port: call.repaired[port][0] for port in wrong & given.keys()}
    try:
        signature = call.module.signature_for(given)
    except PortError:
        return False
    call.instance = signature.scheme.instantiate(label_of(call.module))
    return call.instance.takes.keys() >= call.inputs.keys()


def _bind_unknown(call: Call, env: Environment) -> frozenset[Symbol]:
    """Stand a mark in for each symbol of the inputs that nothing told; what mentions one is unknown."""
    asked = frozenset[Symbol]().union(*(t.symbols() for t in call.instance.takes.values()))
    told = frozenset[Symbol]().union(*(t.symbols() for t in call.instance.gives.values()))
    open_ones = [symbol for symbol in asked & told if not symbol.rigid and symbol not in env.sizes]
    marks = {symbol: symbol.fresh(rigid=True) for symbol in open_ones}
    for symbol, mark in marks.items():
        env.bind_size(symbol, mark.size)
    return frozenset(marks.values())


def _without(found: NeuralType, unknown: frozenset[Symbol]) -> NeuralType:
    """Leave the sizes open that mention a mark."""
    if found.symbols().isdisjoint(unknown):
        return found
    element = found.element
    if isinstance(element, Struct):
        fields = {name: _without(field, unknown) for name, field in element.fields.items()}
        element = type(element)(**fields)
    open_facets = [name for name in measures(type(element)) if _mentions(getattr(element, name), unknown)]
    if open_facets:
        changes = dict.fromkeys(open_facets)
        element = cast("Any", replace)(element, **changes)
    axes = (axis(None) if _mentions(axis.size, unknown) else axis for axis in found.axes)
    return found.with_element(element).with_axes(*cast("Sequence[Axis]", tuple(axes)))


def _mentions(size: object, unknown: frozenset[Symbol]) -> bool:
    return isinstance(size, Size) and not size.symbols().isdisjoint(unknown)
