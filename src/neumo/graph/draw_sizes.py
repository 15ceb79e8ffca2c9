"""Tells where a size comes from: the value it starts at, and each module that changes it, with its rule."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from neumo.graph.module import NeuralModule, label_of, signature_of
from neumo.graph.order import order_steps
from neumo.graph.settings import setting_behind
from neumo.graph.signature import Signature
from neumo.graph.value import Step, Value
from neumo.types import NeuralType, Size, Symbol
from neumo.types.element import measures

Slot = int | str  # the index of an axis, or the facet that holds a size, such as `of` of lengths
Key = tuple[int, str, Slot]  # id of a step, the output port, the slot
_ARROW: Final = " -> "


@dataclass(frozen=True, slots=True)
class Hop:
    """One stop of a size on its way: where it starts, where a module changes it, or where it passes as it is.

    `rule` is what the module does to it, such as `//160 + 1`, `why` the setting behind that (`hop 160`) and
    `before` where its parts were one module earlier; a size starts where `before` is empty.
    """

    value: Value
    slot: Slot
    size: Size
    at: str
    rule: str = ""
    why: str = ""
    before: tuple[Hop, ...] = ()


def trace_size(value: Value, slot: Slot) -> Hop | None:
    """Find out where the size of an axis comes from; `slot` is the axis, or the facet that holds a size.

    >>> from neumo.graph.adapters import Resample
    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import Audio, B, T
    >>> spoken = inputs(audio=Audio(rate=8000)[B, T])
    >>> wide = Resample(8000, 16000)(audio=spoken.audio)
    >>> print(size_story(trace_size(wide.audio, 1)))
    T from inputs.audio -> *2 at Resample

    None where the size is known at run time only, or where there is no such axis.
    """
    return trace_sizes(order_steps([value.step])).get((id(value.step), value.port, slot))


def trace_sizes(steps: Sequence[Step], names: Mapping[int, str] | None = None) -> dict[Key, Hop]:
    """Trace every size of every value; `names` are the names of the steps by `id`, else their modules'."""
    hops: dict[Key, Hop] = {}
    settings = _Settings()
    for step in steps:
        at = label_of(step.module) if names is None else names[id(step)]
        signature = local_signature(step)
        for port, value in step.outputs.items():
            own = dict(_sizes(signature.gives[port])) if port in signature.gives else {}
            for slot, size in _sizes(value.type):
                hop = Hop(value, slot, size, at)
                hops[id(step), port, slot] = _explain(hop, own.get(slot), signature, hops, settings)
    return hops


def size_story(hop: Hop) -> str:
    """Tell the way of a size in one line: `T from data.audio -> //160 + 1 at mel (hop 160)`."""
    starts: list[str] = []
    changes: list[str] = []
    for each in stations(hop):
        why = f" ({each.why})" if each.why else ""
        if each.before:
            changes.append(f"{each.rule} at {each.at}{why}")
        else:
            starts.append(f"{each.size} from {each.at}.{each.value.port}{why}")
    return _ARROW.join([", ".join(starts), *changes])


def stations(hop: Hop) -> list[Hop]:
    """List the hops where a size starts or changes, in the order in which that happens."""
    found: list[Hop] = []
    seen: set[int] = set()
    waiting = [(hop, False)]
    while waiting:  # not by calling itself: a size may pass a thousand modules
        each, ready = waiting.pop()
        if ready:
            found.append(each)
        elif id(each) not in seen:
            seen.add(id(each))
            if each.rule or not each.before:
                waiting.append((each, True))
            waiting += [(early, False) for early in reversed(each.before)]
    return found


def local_signature(step: Step) -> Signature:
    """Give the ports of a step as its module states them, in the module's own symbols."""
    module = step.module
    if type(module).signature_for is NeuralModule.signature_for:
        return signature_of(module)
    return module.signature_for(_single_types(step))


def _single_types(step: Step) -> dict[str, NeuralType]:
    return {port: given.type for port, given in step.inputs.items() if isinstance(given, Value)}


def _sizes(of: NeuralType) -> Iterator[tuple[Slot, Size]]:
    for index, axis in enumerate(of.axes):
        if axis.size is not None:
            yield index, axis.size
    for name in measures(type(of.element)):
        size = getattr(of.element, name)
        if isinstance(size, Size):
            yield name, size


def _explain(
    hop: Hop, own: Size | None, signature: Signature, hops: Mapping[Key, Hop], settings: _Settings
) -> Hop:
    """Add to a hop what its module says about the size: `own` is the size in the module's own symbols."""
    step = hop.value.step
    if own is None:
        return dataclasses.replace(hop, before=_equal_input(step, hop.size, hops))
    if own.constant is not None:
        return dataclasses.replace(hop, why=settings.behind(step, hop, [own.constant]))
    symbols = sorted(own.symbols(), key=lambda symbol: symbol.key)
    before = tuple(found for symbol in symbols if (found := _source(step, symbol, signature, hops)))
    if not before:
        return dataclasses.replace(hop, before=_equal_input(step, hop.size, hops))
    if own.symbol is not None:
        return dataclasses.replace(hop, before=before)
    rule = rule_text(own, symbols[0]) if len(symbols) == 1 else str(hop.size)
    why = settings.behind(step, hop, numbers_in(own))
    return dataclasses.replace(hop, rule=rule, why=why, before=before)


def _equal_input(step: Step, size: Size, hops: Mapping[Key, Hop]) -> tuple[Hop, ...]:
    """Find an input with the very size where the module does not tell: it passed through."""
    if not size.terms:
        return ()
    for _, given in step.edges():
        for slot, have in _sizes(given.type):
            if have == size:
                return (hops[id(given.step), given.port, slot],)
    return ()


def _source(step: Step, symbol: Symbol, signature: Signature, hops: Mapping[Key, Hop]) -> Hop | None:
    """Find the input that fixed a symbol of this call."""
    origin = None if step.bindings is None else step.bindings.origin(symbol)
    if origin is None:
        return None
    port, given = origin
    mine = [(slot, size) for slot, size in _sizes(signature.takes[port]) if symbol in size.symbols()]
    mine.sort(key=lambda each: each[1].symbol != symbol)  # an axis that is the symbol, before one made of it
    return next((found for slot, _ in mine if (found := hops.get((id(given.step), given.port, slot)))), None)


def rule_text(own: Size, symbol: Symbol) -> str:
    """Write what is done to a size without its name: `T//160 + 1` as `//160 + 1`.

    >>> T = Symbol("T").size
    >>> [rule_text(size, Symbol("T")) for size in (T * 256, T.ceildiv(2), T + 5, (T - 11) // 2)]
    ['*256', 'ceil(/2)', '+ 5', '(T - 11)//2']
    """
    text, name = str(own), re.escape(symbol.name)
    for pattern, shown in ((rf"{name}(?=//| )", ""), (rf"ceil\({name}(?=/\d+\))", "ceil(")):
        short, count = re.subn(rf"^{pattern}", shown, text)
        if count:
            return short.strip()
    times = re.fullmatch(rf"(\d+)\*{name}( .*)?", text)
    return f"*{times[1]}{times[2] or ''}" if times else text


def numbers_in(size: Size) -> list[int]:
    """List the numbers above 1 that make a size what it is: divisors, factors, and what is added.

    >>> T = Symbol("T").size
    >>> numbers_in(T.ceildiv(4)), numbers_in(3 * ((T - 11) // 2))
    ([4], [3, 2, 11])
    """
    found: list[int] = []
    for atom, factor in size.terms:
        found.append(abs(factor))
        if not isinstance(atom, Symbol):
            rounding = atom.size.const == atom.k - 1  # of `ceil`
            inner = atom.size - atom.size.const if rounding else atom.size
            found += [atom.k, *numbers_in(inner)]
    return [number for number in dict.fromkeys([*found, abs(size.const)]) if number > 1]


class _Settings:
    """Finds the settings behind the numbers of a size, each tried out: another setting, another size."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str, Slot], str] = {}

    def behind(self, step: Step, hop: Hop, numbers: Iterable[int]) -> str:
        """Name the settings, such as `hop 160`; nothing where no setting is behind the numbers."""
        key = (id(step.module), hop.value.port, hop.slot)
        if key not in self._known:
            self._known[key] = _settings_behind(step, hop.value.port, hop.slot, numbers)
        return self._known[key]


def _settings_behind(step: Step, port: str, slot: Slot, numbers: Iterable[int]) -> str:
    vocab = None if isinstance(slot, str) else step.outputs[port].type.axes[slot].vocab
    if vocab is not None:
        return f"vocabulary {vocab.name}" if vocab.name else "its vocabulary"
    words: list[str] = []
    for number in numbers:
        name = setting_behind(step.module, "", number)
        if name is not None and _decides(step, name, number, port, slot):
            words.append(f"{name} {number}")
    return ", ".join(words)


def _decides(step: Step, name: str, number: int, port: str, slot: Slot) -> bool:
    """Try the module with another number in a field: say whether the size of the port becomes another one."""
    outer, _, inner = name.partition(".")
    now = dict(_sizes(local_signature(step).gives[port])).get(slot)
    for other in (2 * number, number + 1):
        try:
            value: Any = other
            if inner:
                value = dataclasses.replace(getattr(step.module, outer), **{inner: other})
            changed: NeuralModule = cast("Any", dataclasses).replace(step.module, **{outer: value})
            after = dict(_sizes(changed.signature_for(_single_types(step)).gives[port])).get(slot)
        except Exception:  # noqa: S112  # the user's own code, on settings that nobody has tried
            continue
        if after != now:
            return True
    return False
