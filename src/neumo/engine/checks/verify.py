"""Run-time verification: what a module returns is compared with what its signature says.

Levels: "off"; "boundary" (default: what data layers and callers give, and connections that composing took
on trust, for the first steps); "first" (every value, for the first steps); "always"; "values" (always, and
the numbers too: ids inside their vocabulary, lengths inside their axis, masks that agree with lengths,
probabilities that sum to one, nothing that is not finite). A guard is a closure made from a type; when the
first steps are over, the plan runs without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from neumo.engine.checks.value_checks import Numbers, edge_check, value_check
from neumo.engine.checks.value_checks import dtype_class as dtype_class
from neumo.engine.plan import SPARE
from neumo.graph.inputs import is_open
from neumo.graph.module import label_of, signature_of
from neumo.types import NeuralType, PortError, Size, Symbol
from neumo.types.errors import ConfigError, Row, did_you_mean

if TYPE_CHECKING:
    from neumo.engine.plan import Plan, PlanStep
    from neumo.graph.value import Step, Value

Verify = Literal["off", "boundary", "first", "always", "values"]
FIRST_STEPS: Final = 5

Bound: TypeAlias = (
    "dict[Symbol, tuple[int, str]]"  # the number behind each symbol, and the value that gave it
)
Guard: TypeAlias = Callable[[Any, Bound], "str | None"]  # says in words what is wrong, or None


class Guards:
    """The checks of one plan. A program calls `begin` before a run, `made` for each value, `read` before
    each call.
    """

    def __init__(self, plan: Plan, level: Verify, to_numpy: Callable[[Any], Any]) -> None:
        self.level: Verify = level
        self._left = FIRST_STEPS if level in ("boundary", "first") else None
        self._numbers = Numbers(to_numpy)
        self._bound: Bound = {}
        self._plan = plan
        values = dict(_values(plan, everything=level != "boundary"))
        self._made = {slot: (value, _type_guard(value)) for slot, value in values.items()}
        self._numeric = (
            {
                slot: value_check(value, fed=value.step.module.role == "data")
                for slot, value in values.items()
                if not is_held(value.type)
            }
            if level == "values"
            else {}
        )
        self._read = {at: edges for at, step in enumerate(plan.steps) if (edges := list(_trusted(step)))}

    def begin(self) -> bool:
        """Start a run; False once the first steps are over, and from then on the guards are not needed."""
        self._bound.clear()
        self._numbers.begin()
        if self._left is None:
            return True
        self._left -= 1
        return self._left >= 0

    def made(self, slot: int, value: Any) -> None:
        """Check a value that was just made; raises `PortError`."""
        known = self._made.get(slot)
        if known is None:
            return
        declared, guard = known
        wrong = guard(value, self._bound)
        if wrong is None and value is not None and slot in self._numeric:
            wrong = self._numeric[slot](value, self._numbers, self._sizes())
        if wrong is not None:
            raise self._violation(declared, value, wrong)

    def read(self, at: int, slots: Sequence[Any]) -> None:
        """Check the connections of a call that composing took on trust; raises `PortError`."""
        for slot, port, wanted, given, guard in self._read.get(at, ()):
            wrong = guard(slots[slot], self._numbers)
            if wrong is not None:
                raise self._broken_trust(self._plan.steps[at].step, port, wanted, given, slots[slot], wrong)

    def _sizes(self) -> dict[Symbol, int]:
        return {symbol: number for symbol, (number, _) in self._bound.items()}

    def _violation(self, declared: Value, value: Any, wrong: str) -> PortError:
        step = declared.step
        fed = step.module.role == "data"
        return PortError(
            f"{declared.name} is not what {'is promised' if fed else 'its signature says'}: {wrong}",
            code="verify",
            where=_where(step),
            details=[
                Row("given", self.describe(value)),
                Row("wanted", f"{declared.type}", _shape(declared.type, self._sizes())),
                *([Row("sizes", ", ".join(_sizes_in(declared.type, self._bound)))] if self._bound else []),
            ],
            why=_blame(step),
            path=_path(declared),
            fixes=_as_flags(declared, value),
        )

    def _broken_trust(
        self, step: Step, port: str, wanted: NeuralType, given: Value, value: Any, wrong: str
    ) -> PortError:
        taken = [f"taken on trust at composition: {what}" for name, what in step.assumptions if name == port]
        return PortError(
            f"{given.name} cannot feed {label_of(step.module)}.{port}: {wrong}",
            code="verify",
            where=_where(step, port),
            details=[Row("given", f"{given.type}", self.describe(value)), Row("wanted", f"{wanted}"), *taken],
            path=f"{_path(given)} -> {label_of(step.module)}.{port}",
        )

    def describe(self, value: Any) -> str:
        """Say what a tensor is: shape, dtype, device, smallest and largest number."""
        shape = getattr(value, "shape", None)
        if shape is None:
            return f"a {type(value).__name__}, not a tensor"
        dtype = str(value.dtype).removeprefix("torch.")
        device = getattr(value, "device", "cpu")
        return f"shape {tuple(shape)}, {dtype}, {device}{self._numbers.range_of(value)}"


def make_guards(plan: Plan, level: Verify, to_numpy: Callable[[Any], Any]) -> Guards | None:
    """Make the guards of a level; None for "off"."""
    check_level(level)
    return None if level == "off" else Guards(plan, level, to_numpy)


def check_level(level: str) -> None:
    """Raise `ConfigError` for a level that there is not."""
    if level not in get_args(Verify):
        raise ConfigError(
            f"there is no verification level {level!r}",
            code="verify-level",
            details=[f"levels: {', '.join(get_args(Verify))}"],
            fixes=did_you_mean(level, get_args(Verify)),
        )


def _values(plan: Plan, *, everything: bool) -> Iterator[tuple[int, Value]]:
    for feed in plan.feeds:
        yield feed.slot, feed.value
    for step in plan.steps if everything else ():
        made = zip(step.targets, step.step.outputs.values(), strict=True)
        yield from ((slot, value) for slot, value in made if slot != SPARE)


def _type_guard(value: Value) -> Guard:
    return type_guard(value.type, value.port)


def type_guard(type: NeuralType, name: str) -> Guard:
    """Compile a type into one function of a value and the sizes that are bound so far; `name` is its port."""
    if is_held(type):
        return _held_guard(type, name)
    kind, optional = type.element.dtype, type.optional
    axes = [_axis_guard(number, str(axis), axis.size, name) for number, axis in enumerate(type.axes)]
    rank = len(axes)

    def guard(tensor: Any, bound: Bound) -> str | None:
        if tensor is None:
            return None if optional else "it is None, and its type is not optional"
        shape = getattr(tensor, "shape", None)
        if shape is None:
            return f"it is a {tensor.__class__.__name__}"
        if len(shape) != rank:
            return f"it has {len(shape)} axes, not {rank}"
        for number, axis in enumerate(axes):
            wrong = axis(shape[number], bound)
            if wrong is not None:
                return wrong
        found = dtype_class(tensor)
        return None if kind in (found, "any") else f"it holds {found} numbers ({tensor.dtype}), not {kind}"

    return guard


def is_held(type: NeuralType) -> bool:
    """Say whether values of a type are Python's: a list of tensors, a struct, a text."""
    return type.element.nested or type.element.dtype == "str" or any(axis.listed for axis in type.axes)


def _held_guard(type: NeuralType, name: str) -> Guard:
    """Look into a list or a struct; at a text there is nothing to look at."""
    kind: Any
    if type.axes and type.axes[0].listed:
        kind, word, look = (list, tuple), "a list", _into_list(type, name)
    elif type.element.nested:
        kind, word, look = Mapping, "a mapping", _into_struct(type, name)
    else:
        kind, word, look = str, "a text", _not_at_all

    def guard(value: Any, bound: Bound) -> str | None:
        if value is None and type.optional:
            return None
        return (
            look(value, bound)
            if isinstance(value, kind)
            else f"it is a {value.__class__.__name__}, not {word}"
        )

    return guard


def _into_list(type: NeuralType, name: str) -> Guard:
    along = _axis_guard(0, str(type.axes[0]), type.axes[0].size, name)
    inner = type_guard(type.with_axes(*type.axes[1:]).as_required(), name)

    def look(values: Any, bound: Bound) -> str | None:
        told = [f"item {at}: {text}" for at, part in enumerate(values) if (text := inner(part, bound))]
        return along(len(values), bound) or next(iter(told), None)

    return look


def _into_struct(type: NeuralType, name: str) -> Guard:
    fields: Mapping[str, NeuralType] = getattr(type.element, "fields", {})
    guards = {field: type_guard(wanted, f"{name}.{field}") for field, wanted in fields.items()}

    def look(value: Any, bound: Bound) -> str | None:
        told = [f"field {at}: {text}" for at, of in guards.items() if (text := of(value.get(at), bound))]
        return next(iter(told), None)

    return look


def _not_at_all(value: Any, bound: Bound) -> str | None:
    return None


def _axis_guard(number: int, text: str, size: Size | None, name: str) -> Callable[[int, Bound], str | None]:
    if size is None:
        return lambda length, bound: None
    constant, symbol = size.constant, size.symbol
    if constant is not None:
        return lambda length, bound: (
            None if length == constant else f"axis {number} ({text}) is {length} long"
        )
    if symbol is not None:

        def bare(length: int, bound: Bound) -> str | None:
            known, origin = bound.setdefault(symbol, (length, name))
            return (
                None if known == length else f"axis {number}: {symbol}={known} (from {origin}), here {length}"
            )

        return bare
    symbols = size.symbols()

    def computed(length: int, bound: Bound) -> str | None:
        if not all(each in bound for each in symbols):
            return None
        wanted = size.evaluate({each: bound[each][0] for each in symbols})
        if wanted == length:
            return None
        because = ", ".join(
            f"{each}={bound[each][0]} (from {bound[each][1]})" for each in sorted(symbols, key=str)
        )
        return f"axis {number}: {size} = {wanted} with {because}, here {length}"

    return computed


def _trusted(step: PlanStep) -> Iterator[tuple[int, str, NeuralType, Value, Any]]:
    takes = signature_of(step.module).takes
    for port in {port for port, _ in step.step.assumptions}:
        given, source, wanted = step.step.inputs.get(port), step.sources.get(port), takes.get(port)
        if wanted is None or given is None or isinstance(given, tuple) or not isinstance(source, int):
            continue
        yield source, port, wanted, given, edge_check(wanted, given.type)


def _shape(type: NeuralType, sizes: Mapping[Symbol, int]) -> str:
    known = [
        "?"
        if axis.size is None or not axis.size.symbols() <= sizes.keys()
        else str(axis.size.evaluate(sizes))
        for axis in type.axes
    ]
    return f"shape ({', '.join(known)})"


def _sizes_in(type: NeuralType, bound: Bound) -> list[str]:
    shown = [symbol for symbol in bound if symbol in type.symbols()] or list(bound)
    return [f"{symbol}={bound[symbol][0]} (from {bound[symbol][1]})" for symbol in shown]


def _where(step: Step, port: str | None = None) -> Any:
    location = step.location
    return None if location is None else lambda: location.place(port)


def _as_flags(declared: Value, value: Any) -> list[str]:
    """Offer how 0 and 1 become flags, as tokenizers write their masks; nothing converts them in silence."""
    wanted = "any" if is_held(declared.type) else declared.type.element.dtype
    if wanted != "bool" or not hasattr(value, "dtype") or dtype_class(value) != "int":
        return []
    if not bool(((value == 0) | (value == 1)).all()):
        return [f"compare first, as in {declared.port} > 0"]
    if declared.step.module.role == "data":
        return [f"give {declared.port}.astype(bool), if 1 means true"]
    return [f"return {declared.port}.bool(), if 1 means true"]


def _blame(step: Step) -> str:
    kind = type(step.module).__name__
    if step.module.role == "data":
        return "" if is_open(step) else f"The data that {kind} reads differs from the signature of {kind}."
    return f"The implementation of {kind} and its signature disagree: one of the two is wrong."


def _path(value: Value) -> str:
    """The way from the data to a value, along the first connections."""
    names = [value.name]
    while value.step.inputs:
        value = next(given for _, given in value.step.edges())
        names.append(value.name)
    return " -> ".join(reversed(names))
