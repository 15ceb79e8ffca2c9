"""Tells where a size comes from: the value it starts at, and each module that changes it, with its rule."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, cast

from neumo.graph.module import NeuralModule, label_of, signature_of
from neumo.graph.order import order_steps
from neumo.graph.signature import Signature
from neumo.graph.value import Step, Value
from neumo.types import NeuralType, Size, Symbol, Vocab
from neumo.types.element import measures

Slot = int | str  # the index of an axis, or the facet that holds a size, such as `of` of lengths
Key = tuple[int, str, Slot]  # id of a step, the output port, the slot
_ARROW: Final = " -> "
_MOST_TRIES: Final = 100  # of other settings for one module


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
    T from inputs.audio -> *2 at Resample (source 8000, target 16000)

    None where the size is known at run time only, or where there is no such axis.
    """
    return trace_sizes(order_steps([value.step])).get((*value.key, slot))


def trace_sizes(steps: Sequence[Step], names: Mapping[int, str] | None = None) -> dict[Key, Hop]:
    """Trace every size of every value; `names` are the names of the steps by `id`, else their modules'."""
    hops: dict[Key, Hop] = {}
    settings = _Settings()
    for step in steps:
        at = label_of(step.module) if names is None else names[id(step)]
        signature = local_signature(step)
        own = {(port, slot): size for port, given in signature.gives.items() for slot, size in _sizes(given)}
        starts: dict[Size, Hop] = {}
        for value, slot, size in _axes_first(step):
            hop = Hop(value, slot, size, at)
            hop = _explain(hop, own.get((value.port, slot)), signature, hops, settings)
            if (
                not hop.before and size.symbol is not None
            ):  # lengths start where the axis does that they count
                start = starts.setdefault(size, hop)
                hop = hop if start is hop else dataclasses.replace(hop, before=(start,))
            hops[id(step), value.port, slot] = hop
    return hops


def _axes_first(step: Step) -> list[tuple[Value, Slot, Size]]:
    found = [(value, slot, size) for value in step.outputs.values() for slot, size in _sizes(value.type)]
    return sorted(found, key=lambda each: isinstance(each[1], str))


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
        return dataclasses.replace(hop, why=settings.behind(hop))
    symbols = sorted(own.symbols(), key=lambda symbol: symbol.key)
    before = tuple(found for symbol in symbols if (found := _source(step, symbol, signature, hops)))
    if not before:
        return dataclasses.replace(hop, before=_equal_input(step, hop.size, hops))
    if own.symbol is not None:
        return dataclasses.replace(hop, before=before)
    rule = rule_text(own, symbols[0]) if len(symbols) == 1 else str(hop.size)
    return dataclasses.replace(hop, rule=rule, why=settings.behind(hop), before=before)


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
    if not isinstance(origin, tuple):  # solved by no connection of this call
        return None
    port, given = cast("tuple[str, Value]", origin)
    mine = [(slot, size) for slot, size in _sizes(signature.takes[port]) if symbol in size.symbols()]
    mine.sort(key=lambda each: each[1].symbol != symbol)  # an axis that is the symbol, before one made of it
    return next((found for slot, _ in mine if (found := hops.get((*given.key, slot)))), None)


def rule_text(own: Size, symbol: Symbol) -> str:
    """Write what is done to a size without its name: `T//160 + 1` as `//160 + 1`.

    >>> T = Symbol("T").size
    >>> [rule_text(size, Symbol("T")) for size in (T * 256, T.ceildiv(2), T + 5, (T - 11) // 3)]
    ['*256', 'ceil(/2)', '+ 5', '(T + 1)//3 - 4']
    """
    text, name = str(own), re.escape(symbol.name)
    for pattern, shown in ((rf"{name}(?=//| )", ""), (rf"ceil\({name}(?=/\d+\))", "ceil(")):
        short, count = re.subn(rf"^{pattern}", shown, text)
        if count:
            return short.strip()
    times = re.fullmatch(rf"(\d+)\*{name}( .*)?", text)
    return f"*{times[1]}{times[2] or ''}" if times else text


_Path = tuple[str | int, ...]  # fields, and places in lists: ("blocks", 0, "stride")


class _Settings:
    """Finds the settings behind a size by trying others: another setting, another size."""

    def __init__(self) -> None:
        self._known: dict[int, dict[tuple[str, Slot], list[str]]] = {}

    def behind(self, hop: Hop) -> str:
        """Name the settings, such as `hop 160`; nothing where no whole number decides the size."""
        step, port = hop.value.step, hop.value.port
        vocab = None if isinstance(hop.slot, str) else hop.value.type.axes[hop.slot].vocab
        if vocab is not None:
            return f"vocabulary {vocab.name}" if vocab.name else "its vocabulary"
        fixed = type(step.module).signature_for is NeuralModule.signature_for
        key = id(step.module) if fixed else id(step)
        if key not in self._known:
            self._known[key] = _deciding(step)
        return ", ".join(self._known[key].get((port, hop.slot), ()))


def _deciding(step: Step) -> dict[tuple[str, Slot], list[str]]:
    """List the settings that decide each size of what a step gives."""
    now = _printed(local_signature(step))
    found: dict[tuple[str, Slot], list[str]] = {}
    for path, number in islice(_whole_numbers(step.module), _MOST_TRIES):
        after = _try(step, path, number)
        for key, size in now.items():
            if after is not None and after.get(key) != size:
                found.setdefault(key, []).append(f"{_spell(path)} {number}")
    return found


def _printed(signature: Signature) -> dict[tuple[str, Slot], str]:
    """The sizes of all outputs as they print: a product of two unknowns is a new symbol each time."""
    return {
        (port, slot): str(size) for port, given in signature.gives.items() for slot, size in _sizes(given)
    }


def _whole_numbers(owner: object, path: _Path = ()) -> Iterator[tuple[_Path, int]]:
    """Go through the whole numbers above 1 among the settings, those inside other dataclasses too."""
    for each in dataclasses.fields(cast("Any", owner)) if dataclasses.is_dataclass(owner) else ():
        value: object = getattr(owner, each.name)
        if type(value) is int and value > 1 and each.init:
            yield (*path, each.name), value
        elif isinstance(value, list | tuple):
            for index, item in enumerate(cast("Sequence[object]", value)):
                yield from _whole_numbers(item, (*path, each.name, index))
        elif not isinstance(value, Vocab):
            yield from _whole_numbers(value, (*path, each.name))


def _try(step: Step, path: _Path, number: int) -> dict[tuple[str, Slot], str] | None:
    """Give the sizes with another number in a field; None where the module refuses every other one."""
    for other in (2 * number, number + 1):
        try:
            changed: NeuralModule = _changed(step.module, path, other)
            return _printed(changed.signature_for(_single_types(step)))
        except Exception:  # noqa: S112  # the user's own code, on settings that nobody has tried
            continue
    return None


def _changed(owner: Any, path: _Path, number: int) -> Any:
    """Copy an object with another number at the end of a path."""
    if not path:
        return number
    head, *rest = path
    if isinstance(head, int):
        items = list(owner)
        items[head] = _changed(items[head], tuple(rest), number)
        return type(owner)(items)
    return dataclasses.replace(owner, **{head: _changed(getattr(owner, head), tuple(rest), number)})


def _spell(path: _Path) -> str:
    """`blocks[0].stride`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")
