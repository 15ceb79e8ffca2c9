"""Composing: one call of a module, checked the moment it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

from neumo.graph.module import NeuralModule, checked_signature, label_of, signature_of
from neumo.graph.signature import Signature
from neumo.graph.source import CallSite, Location, caller
from neumo.graph.value import Doubt, Record, Step, Value
from neumo.types import (
    Any_,
    Comparison,
    Environment,
    GraphError,
    Instance,
    Lengths,
    Mask,
    NeumoError,
    NeuralType,
    Obligation,
    Outcome,
    PortError,
    Reason,
    Scheme,
    Var,
    compare,
    solve_order,
)

Names = Mapping[str, Any]  # how the caller spells the records and values that are around
_NO_PORTS = Scheme({}, {})
_NOTHING: Mapping[str, str] = {}
# Where `collect` gathers errors; None: the first one is raised.
collected: ContextVar[list[NeumoError] | None] = ContextVar("collected", default=None)
relaxed: ContextVar[Mapping[str, str]] = ContextVar("relaxed", default=_NOTHING)  # facet -> the reason why


@dataclass(slots=True)
class Mismatch:
    """One connection that cannot be: the port, the value, and every reason."""

    port: str
    value: Value
    wanted: NeuralType
    comparison: Comparison


@dataclass(slots=True)
class Call:
    """Everything that is known about one call while it is checked; messages are made from it."""

    module: NeuralModule
    arguments: Mapping[str, Any]
    location: Location | None = None
    names: Names | None = None
    frame: FrameType | None = None
    signature: Signature = field(default_factory=Signature)
    instance: Instance = field(default_factory=_NO_PORTS.instantiate)
    env: Environment = field(default_factory=Environment)
    inputs: dict[str, Value | tuple[Value, ...]] = field(default_factory=dict[str, Value | tuple[Value, ...]])
    mismatches: list[Mismatch] = field(default_factory=list[Mismatch])
    assumptions: list[tuple[str, Obligation]] = field(default_factory=list[tuple[str, Obligation]])
    warnings: list[tuple[str, Reason]] = field(default_factory=list[tuple[str, Reason]])
    objections: list[PortError] = field(default_factory=list[PortError])  # of the module itself
    relaxed: Mapping[str, str] = field(default_factory=relaxed.get)
    strict: bool = False  # the module has weights that were trained: what need not agree has to
    repaired: dict[str, list[NeuralType]] = field(default_factory=dict[str, list[NeuralType]])  # by ways out
    doubtful: bool = False  # something upstream was refused: sizes may be unknown because of that alone

    def variables(self) -> Names:
        """Give the caller's names: those it told, or the variables of its frame."""
        if self.names is not None:
            return self.names
        frame, found = self.frame, dict[str, Any]()
        while frame is not None:
            found = {**frame.f_locals, **found}
            if not frame.f_code.co_name.startswith("<") or frame.f_code.co_name == "<module>":
                return {**frame.f_globals, **found}
            frame = frame.f_back  # a comprehension or lambda sees the variables around it
        return found


def compose(
    module: NeuralModule,
    values: Mapping[str, Any],
    location: Location | None = None,
    names: Names | None = None,
    positional: Sequence[object] = (),
) -> Record:
    """Connect `values` to the ports of `module`, check them, and return what the module gives.

    `location` says where the call was written, `names` how the values around it are spelled there; both
    are taken from the calling frame if left out. A port that takes many values gets a tuple. Raises
    `PortError`.
    """
    call = Call(module, values, location, names)
    if location is None:
        frame = call.frame = caller()
        if frame is not None:
            call.location = CallSite(frame.f_code, frame.f_lasti)
    errors = check(call, positional)
    call.frame = None  # a frame keeps everything alive that it sees
    if errors:
        gathered = collected.get()
        if gathered is None:
            errors[0].also = tuple(errors[1:])
            raise errors[0]
        gathered.extend(errors)
    if errors or call.doubtful:
        from neumo.graph.recover import doubtful_record

        return doubtful_record(call, errors)
    return _finish(call)


def check(call: Call, positional: Sequence[object] = ()) -> list[PortError]:
    """Check one call: names and kinds of arguments, then types together, then what is missing."""
    takes: Mapping[str, NeuralType] = stated_ports(call.module, call.location).takes
    wrong = bool(positional) or not _take_arguments(call, takes)
    _instantiate(call)
    _unify(call)
    missing = [
        port
        for port, wanted in call.instance.takes.items()
        if port not in call.inputs and not wanted.optional and wanted.when is None
    ]
    if not (wrong or missing or call.mismatches or call.objections):
        if not call.env.clocks:
            return []
        from neumo.graph.clocks import clock_errors

        return clock_errors(call)
    from neumo.graph.refuse import refusals

    return refusals(call, positional, missing)


def stated_ports(module: NeuralModule, location: Location | None = None) -> Signature:
    """Give the signature of a module; an error says which module cannot state it, and where it is called."""
    try:
        return signature_of(module)
    except NeumoError as error:
        raise _unstated(module, error, location) from error
    except Exception as error:
        raise _failed(module, "signature()", error) from error


def _unstated(module: NeuralModule, error: NeumoError, location: Location | None) -> NeumoError:
    """Name the module whose settings do not go together, and the call that asked for its ports."""
    if error.where is not None:
        return error
    is_opened = module.__class__.__module__ == "neumo.graph.inputs"  # the ports are the caller's own
    return type(error)(
        error.what if is_opened else f"{label_of(module)} cannot state its ports: {error.what}",
        code=error.code,
        where=None if location is None else location.place,
        details=error.details,
        why=error.why,
        fixes=error.fixes,
        data=error.data,
    )


def _failed(module: NeuralModule, method: str, error: Exception) -> GraphError:
    return GraphError(
        f"{method} of {label_of(module)} failed: {type(error).__name__}: {error}",
        code="module",
        why=f"It was asked of {module!r}.",
    )


def _take_arguments(call: Call, takes: Mapping[str, NeuralType]) -> bool:
    """Sort the arguments into inputs; say whether all of them are values for known ports."""
    fine = True
    for port, value in call.arguments.items():
        wanted = takes.get(port)
        if wanted is None:
            fine = False
        elif type(value) is Value:
            call.inputs[port] = (value,) if wanted.many else value
        elif wanted.many and isinstance(value, tuple | list):
            many = tuple(item for item in value if isinstance(item, Value))  # pyright: ignore[reportUnknownVariableType]
            fine = fine and 0 < len(many) == len(value)  # pyright: ignore[reportUnknownArgumentType]
            call.inputs[port] = many
        elif value is not None:
            fine = False
    return fine


def _instantiate(call: Call) -> None:
    module = call.module
    signature = signature_of(module)
    if type(module).signature_for is not NeuralModule.signature_for:
        signature = _signature_for(call, signature)
    call.strict = "_learned" in module.__dict__
    call.signature = signature
    call.instance = signature.scheme.instantiate(label_of(module))


def _signature_for(call: Call, stated: Signature) -> Signature:
    """Ask the module for the ports of this very call; it may object to what it is given."""
    module = call.module
    single = {port: source.type for port, source in call.inputs.items() if isinstance(source, Value)}
    try:
        signature = checked_signature(module, "signature_for()", module.signature_for(single))
    except PortError as error:
        call.objections.append(error)
        return stated
    except NeumoError:
        raise
    except Exception as error:
        raise _failed(module, "signature_for()", error) from error
    if "_learned" in module.__dict__:
        from neumo.graph.learned import with_learned

        return with_learned(module, signature)
    return signature


def _unify(call: Call) -> None:
    """Compare all connections in one environment: what decides sizes first, what measures them last."""
    takes = call.instance.takes
    edges = list(call.inputs.items())
    if len(edges) > 1:
        edges.sort(key=lambda edge: decides(takes[edge[0]]))
    for port, source in edges:
        for value in source if isinstance(source, tuple) else (source,):
            _connect(call, port, takes[port], value)
    if not call.mismatches and any(_left_open(takes[port], source) for port, source in edges):
        _revisit(call, edges)


def _left_open(wanted: NeuralType, source: Value | tuple[Value, ...]) -> bool:
    """Say whether a value does not tell a facet that the port has a variable for: another one may tell it."""
    if not wanted.variables():
        return False
    if wanted.element.nested:
        return True
    names = [name for name, facet in vars(wanted.element).items() if isinstance(facet, Var)]
    values = source if isinstance(source, tuple) else (source,)
    return any(getattr(value.type.element, name, None) is None for value in values for name in names)


def _connect(call: Call, port: str, wanted: NeuralType, value: Value) -> None:
    if value.step.doubt:
        call.doubtful = True
        if value.step.doubt is Doubt.ALL:
            return
    origin = (port, value)
    found = compare(wanted, value.type, call.env, origin=origin, relax=call.relaxed, strict=call.strict)
    if found.reasons:
        call.mismatches.append(Mismatch(port, value, wanted, found))
        bind_what_fits(call.env, wanted, value.type, origin)
    for obligation in found.obligations:
        call.assumptions.append((port, obligation))
    for warning in found.warnings:
        call.warnings.append((port, _excused(warning, call.relaxed)))


def _excused(warning: Reason, relaxed: Mapping[str, str]) -> Reason:
    """Add why a difference was let pass, where somebody said so."""
    why = relaxed.get(warning.facet)
    return warning if why is None else replace(warning, sentence=f"{warning.sentence} (relaxed: {why})")


def bind_what_fits(env: Environment, wanted: NeuralType, given: NeuralType, origin: object) -> None:
    """Learn the axes of a refused connection that do fit, so that the others are not judged without them."""
    for want, have in zip(wanted.axes, given.axes, strict=False):
        if want.kind is have.kind:
            compare(NeuralType(Any_(), (want,)), NeuralType(Any_(), (have,)), env, origin=origin)


def _revisit(call: Call, edges: list[tuple[str, Value | tuple[Value, ...]]]) -> None:
    """Hold what was connected before a facet variable was solved against its solution."""
    call.assumptions.clear()
    call.warnings.clear()
    for port, source in edges:
        for value in source if isinstance(source, tuple) else (source,):
            _connect(call, port, call.instance.takes[port], value)


def try_types(
    call: Call, types: Mapping[str, Sequence[NeuralType]], signature: Signature | None = None
) -> dict[str, Outcome]:
    """Check the call again with other types at its ports (or other ports): the outcome of each connection."""
    instance = (signature or call.signature).scheme.instantiate()
    env = Environment()
    outcomes: dict[str, Outcome] = {}
    for port in sorted(types, key=lambda each: decides(instance.takes[each])):
        for given in types[port]:
            found = compare(instance.takes[port], given, env, relax=call.relaxed, strict=call.strict)
            if found.reasons:
                bind_what_fits(env, instance.takes[port], given, None)
            worst = max(found.outcome, outcomes.get(port, Outcome.SAME), key=lambda outcome: outcome.value)
            outcomes[port] = worst
    return outcomes


def decides(wanted: NeuralType) -> tuple[int, bool]:
    """Sort key of ports: those that say what the symbols are come before those that are measured by them."""
    return solve_order(wanted), isinstance(wanted.element, Lengths | Mask)


def _finish(call: Call) -> Record:
    step = new_step(call)
    types = call.instance.results(call.env)
    step.outputs = {port: Value(step, port, found) for port, found in types.items()}
    return Record(label_of(call.module), step.outputs)


def new_step(call: Call) -> Step:
    """Make the step of a call, without its outputs."""
    step = Step(call.module, call.inputs, call.location)
    step.assumptions = [*call.signature.assumes, *call.assumptions]
    step.warnings = call.warnings
    step.bindings = call.env
    if call.relaxed and call.warnings:
        used = {reason.facet for _, reason in call.warnings}
        step.relaxed = {facet: why for facet, why in call.relaxed.items() if facet in used}
    return step
