"""What to say when a call is not written as it has to be: positional, misspelt, forgotten arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from neumo.graph.candidates import Surroundings, fits
from neumo.graph.compose import Call
from neumo.graph.inputs import is_open, is_source
from neumo.graph.left_out import missing_fixes
from neumo.graph.module import NeuralModule, label_of, signature_of
from neumo.graph.order import order_steps
from neumo.graph.source import CallSite, caller
from neumo.graph.type_source import type_source
from neumo.graph.value import Record, UnknownAttribute, Value, values_of
from neumo.types import Fix, NeuralType, PortError, Row, Source, Var, facets_of, nearest


def uncalled_error(module: NeuralModule, name: str) -> UnknownAttribute | None:
    """Explain an output that is asked of a module, `SpeechData(...).audio`: what gives it is a call of it."""
    try:
        signature = signature_of(module)
    except Exception:  # the attribute is missing because the module is not finished
        return None
    if name not in signature.gives:
        return None
    label = label_of(module)
    ports = ", ".join(f"{port}=..." for port, wanted in signature.takes.items() if not wanted.optional)
    frame = caller()
    variables = {} if frame is None else {**frame.f_globals, **frame.f_locals}
    held = next((key for key, value in variables.items() if value is module), f"{type(module).__name__}(...)")
    return UnknownAttribute(
        f"{label} is a module; {name} is what a call of it gives",
        code="uncalled",
        where=None if frame is None else CallSite(frame.f_code, frame.f_lasti).place,
        why="A module is called once for each place in the graph, and each call gives a record of values.",
        fixes=[f"call it, and keep what it gives: batch = {held}({ports}); batch.{name}"],
    )


def place_of(call: Call, port: str | None = None) -> Callable[[], Source | None]:
    """Give a function that finds the argument in the user's text when the message is printed."""
    location = call.location
    return lambda: None if location is None else location.place(port)


def known_facets(wanted: NeuralType) -> set[str]:
    """Name the facets that a wanted type says something about: those that any value may have are left out."""
    element = wanted.element
    values = {name: getattr(element, name) for name in facets_of(type(element))}
    return {name for name, value in values.items() if value is not None and not isinstance(value, Var)}


def wanted_text(wanted: NeuralType) -> str:
    """Print a wanted type without the facets that are open."""
    if not wanted.variables() or wanted.element.nested:
        return str(wanted)
    return wanted.text(facets=frozenset(known_facets(wanted)))


def misuse_errors(call: Call, positional: Sequence[object]) -> list[PortError]:
    """Explain arguments that are not values for known ports."""
    takes = call.signature.takes
    unknown = [port for port in call.arguments if port not in takes]
    errors = [_positional_error(call, positional)] if positional else []
    errors += [_unknown_error(call, unknown)] if unknown else []
    known = {port: value for port, value in call.arguments.items() if port in takes}
    wrong = [port for port, value in known.items() if not _is_input(call, port, value)]
    return errors + [_argument_error(call, port, call.arguments[port]) for port in wrong]


def accounted_ports(call: Call, positional: Sequence[object], missing: Sequence[str]) -> set[str]:
    """Find the ports that are left out only because their argument is written wrongly."""
    free = [port for port in call.signature.takes if port not in call.arguments]
    meant = {*free[: len(positional)], *(port for port in missing if call.arguments.get(port) is not None)}
    unknown = [port for port in call.arguments if port not in call.signature.takes]
    matches = [_meant_by(call, port, unknown, free) for port in unknown]
    meant |= {match for match in matches if match is not None}
    rest = [port for port in missing if port not in meant]
    return meant | set(rest) if len(rest) <= matches.count(None) else meant


def _is_input(call: Call, port: str, value: object) -> bool:
    if value is None or isinstance(value, Value):
        return True
    if not call.signature.takes[port].many or not isinstance(value, tuple | list):
        return False
    items = cast("Sequence[object]", value)
    return bool(items) and all(isinstance(item, Value) for item in items)


def _positional_error(call: Call, positional: Sequence[object]) -> PortError:
    label, ports = label_of(call.module), list(call.signature.takes)
    free = [port for port in ports if port not in call.arguments]
    around = Surroundings(call)
    pairs = zip(free, positional, strict=False)
    written = ", ".join(f"{port}={_spell(around, value)}" for port, value in pairs)
    fixes = [f"write {written}"] if written else []
    return PortError(
        f"{label} takes its inputs by name",
        code="positional",
        where=place_of(call, "0"),
        details=[Row("takes", ", ".join(ports) or "nothing")],
        why="A position does not say which port is meant, and ports may be added later.",
        fixes=fixes,
    )


def _spell(around: Surroundings, value: object) -> str:
    if isinstance(value, Value):
        return around.spell(value)
    return "..."


def _unknown_error(call: Call, unknown: list[str]) -> PortError:
    label, takes = label_of(call.module), call.signature.takes
    free = [port for port in takes if port not in call.arguments]
    around = Surroundings(call)
    fixes: list[Fix] = []
    for port in unknown:
        match = _meant_by(call, port, unknown, free)
        value = call.arguments[port]
        if match is not None:
            shown = around.spell(value) if isinstance(value, Value) else "..."
            fixes.append(Fix(f"did you mean {match}={shown}?"))
    gives = ", ".join(call.signature.gives)
    why: list[str] = [
        f"{label} gives {port!r}, it does not take it." for port in unknown if port in call.signature.gives
    ]
    return PortError(
        f"{label} has no port {' and no port '.join(repr(port) for port in unknown)}",
        code="unknown-port",
        where=place_of(call, unknown[0]),
        details=[Row("takes", ", ".join(takes) or "nothing"), Row("gives", gives or "nothing")],
        why=why,
        fixes=fixes,
    )


def _meant_by(call: Call, port: str, unknown: Sequence[str], free: Sequence[str]) -> str | None:
    """Find the port that a misspelt argument most likely means, or None."""
    match = nearest(port, free) or nearest(port, call.signature.takes)
    if match is None and len(unknown) == 1:
        takes, value = call.instance.takes, call.arguments[port]
        needed = [each for each in free if not takes[each].optional]
        likely = free if len(free) == 1 else [each for each in needed if _would_fit(call, each, value)]
        return likely[0] if len(likely) == 1 else None
    return match


def _would_fit(call: Call, port: str, value: object) -> bool:
    return isinstance(value, Value) and fits(call.instance.takes[port].as_single(), value.type, call.env)


def _argument_error(call: Call, port: str, value: object) -> PortError:
    what, why, fixes = _describe(call, port, value)
    return PortError(
        f"{label_of(call.module)}.{port} cannot take {what}",
        code="argument",
        where=place_of(call, port),
        details=[Row("wanted", wanted_text(call.env.type(call.instance.takes[port])))],
        why=why,
        fixes=fixes,
    )


def _describe(call: Call, port: str, value: object) -> tuple[str, str, list[Fix]]:
    """Say what was passed instead of a value, why that cannot be, and what to write."""
    spelled = _name_of(call, value)
    if isinstance(value, Record):
        part = port if port in value else next(iter(values_of(value)), port)
        why = f"A port takes one value, such as {spelled or 'batch'}.{part}."
        what = f"a record of {len(value)} values ({', '.join(values_of(value))})"
        return what, why, _parts_that_fit(call, port, value, spelled or "the record")
    if isinstance(value, NeuralModule):
        what = f"a module, {type(value).__name__}, that has not been called"
        return what, "Call the module first; what it gives can be connected.", []
    kind = type(value)
    if isinstance(value, NeuralType):
        why = "A type says what a value means; it is none."
        return "a type", why, [Fix(f"declare an open input: inputs({port}={type_source(value)})")]
    if isinstance(value, type) and issubclass(value, NeuralModule):
        what = f"a module class, {value.__name__}, that has not been made"
        return what, "Make the module, then call it; what it gives can be connected.", []
    if call.instance.takes[port].many and isinstance(value, Iterable) and not isinstance(value, str):
        return _describe_many(call, cast("Iterable[object]", value))
    if isinstance(value, tuple | list):
        return f"a {kind.__name__}", "This port takes one value.", []
    what = f"data ({kind.__module__}.{kind.__name__})".replace("builtins.", "")
    why = "Symbolic values connect modules; data comes from a data layer or open inputs, at run time."
    return what, why, [Fix(f"declare it with inputs({port}=...), and pass the data to infer")]


def _describe_many(call: Call, given: Iterable[object]) -> tuple[str, str, list[Fix]]:
    """Say what is wrong with the list for a port that takes several values."""
    kind, why = type(given).__name__, "It takes a list of one value or more."
    if not isinstance(given, tuple | list):
        return f"a {kind}", why, [Fix("write a list, such as [one.loss, two.loss]")]
    items = cast("Sequence[object]", given)
    at = next((n for n, item in enumerate(items) if not isinstance(item, Value)), None)
    if at is None:
        return f"an empty {kind}", why, []
    item = items[at]
    if isinstance(item, Record):
        spelled = _name_of(call, item) or "batch"
        part = next(iter(values_of(item)), "loss")
        return (
            f"a {kind} whose item {at} is a record",
            f"Each item is one value, such as {spelled}.{part}.",
            [],
        )
    shown = "None" if item is None else f"of type {type(item).__name__}"
    return f"a {kind} whose item {at} is {shown}", "Each item is one value of the graph.", []


def _parts_that_fit(call: Call, port: str, record: Record, spelled: str) -> list[Fix]:
    around = Surroundings(call)
    parts = {part.key: name for name, part in values_of(record).items()}
    fitting = around.fitting(port, call.instance.takes[port], call.env)
    names = [parts[each.key] for each in fitting if each.key in parts]
    return [Fix(f"pass {spelled}.{name}, not {spelled}", "fits") for name in names[:2]]


def _name_of(call: Call, thing: object) -> str:
    return next(
        (name for name, value in call.variables().items() if value is thing and not name.startswith("_")), ""
    )


def _from_outside(call: Call, port: str, around: Surroundings) -> Fix:
    """Say how an open input would bring a value: with all else, as rows of two sources do not meet."""
    declared = f"inputs({port}={type_source(call.env.type(call.instance.takes[port]).as_single())}"
    sources = [step for step in order_steps(value.step for value in around.connected) if is_source(step)]
    layers = [label_of(step.module) for step in sources if not is_open(step)]
    if layers:
        return Fix(f"take it from outside, and with it what {' and '.join(layers)} gives: {declared}, ...)")
    return Fix(f"declare it as an open input: {declared}{', ...' * bool(sources)})")


def missing_error(call: Call, missing: list[str]) -> PortError:
    """Explain ports that were left out, after what was given has been unified: few values fit then."""
    label = label_of(call.module)
    around = Surroundings(call)
    wanted = {port: call.instance.takes[port] for port in missing}
    rows = [Row("wanted", f"{port}: {wanted_text(call.env.type(found))}") for port, found in wanted.items()]
    empty = [port for port in missing if port in call.arguments]
    ports = ", ".join(missing[:-1]) + (" and " if len(missing) > 1 else "") + missing[-1]
    fixes = missing_fixes(around, wanted)
    why: list[str] = []
    if empty:
        why.append(f"{' and '.join(empty)} got None, which only optional ports may be.")
    if not fixes:
        why.append(f"No value that has been made so far fits {missing[0]}.")
        fixes = [_from_outside(call, missing[0], around)]
    return PortError(
        f"{label} needs {ports}, which {'was' if len(missing) == 1 else 'were'} left out",
        code="missing",
        where=place_of(call, empty[0] if empty else None),
        details=rows,
        why=why,
        fixes=fixes,
        data={"ports": missing},
    )
