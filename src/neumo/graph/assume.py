"""The explicit cast: a claim about a value that its type does not make, written down with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from neumo.graph.module import NeuralModule, Role
from neumo.graph.signature import Signature
from neumo.graph.value import Value
from neumo.types import (
    Any_,
    ConfigError,
    Element,
    Kind,
    NeuralType,
    Obligation,
    PortError,
    Row,
    Size,
    Var,
    facet_text,
    facets_of,
    parse,
)
from neumo.types.gap import gap


@dataclass(frozen=True)
class Assume(NeuralModule):
    """Passes a value on under another type, because somebody knows better than the types; see `assume`."""

    role: ClassVar[Role] = "adapter"

    type: NeuralType
    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.type, NeuralType):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"{self.type!r} is no type that a value could have",
                code="assume",
                fixes=["write the element with its axes, such as Audio(rate=16000)[B, T]"],
            )
        if not isinstance(self.reason, str) or not self.reason.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"{self.type} is assumed without a reason",
                code="assume",
                why="Nothing proves an assumption, so whoever reads the graph has to know why it holds.",
                fixes=['assume(value, type, reason="the corpus was recorded at 16 kHz")'],
            )

    def signature(self) -> Signature:
        """Take and give what is claimed."""
        return Signature(takes={"value": self.type}, gives={"value": self.type})

    def signature_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """Take this very value, and give it under the claimed type, with its own sizes where kinds agree.

        Raises `PortError` if the claim contradicts what the value's type says.
        """
        found = given.get("value")
        if found is None:
            return self.signature()
        claimed, false = self.type, list(_denied(self.type, found))
        if claimed.rank == found.rank:
            claimed = _claimed(self.type, found)
            false += _denied_axes(claimed, found)
        if false:
            raise _refusal(self.type, found, false)
        known = frozenset(symbol for symbol in claimed.symbols() if symbol.rigid)
        return Signature(
            takes={"value": found},
            gives={"value": claimed},
            known=known,
            assumes=(("value", Obligation("type", self.type)),),
        )


def assume(value: Value, type: NeuralType | str, *, reason: str) -> Value:
    """Claim that a value is of another type, where you know what the types cannot.

    >>> from neumo.graph.graph import Graph
    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import Audio, B, T
    >>> wave = inputs(wave=Audio()[B, T]).wave
    >>> known = assume(wave, Audio(rate=16000)[B, T], reason="the corpus is all 16 kHz")
    >>> known
    Assume.value: Audio(rate=16000)[B, T]

    Axes of the same kind at the same place keep their sizes; other symbols of `type` are new sizes, equal to
    nothing else. Facets that `type` leaves open keep what is known of them. `graph.assumptions()` lists the
    claim with its reason and its place; nothing is computed, and what can be seen in the tensor is checked
    when the graph runs. `type` may be its text, as recipes write it. Raises `PortError` if the claim
    contradicts the type of the value: its facets, numbers, sizes and order of axes stay, and features can be
    said to be acoustic ones but logits not to be probabilities. `ConfigError` without a reason.
    """
    return Assume(parse(type) if isinstance(type, str) else type, reason)(value=value).value


def _denied(claimed: NeuralType, found: NeuralType) -> Iterator[str]:
    """Say what the type of a value denies of a claim: its numbers, its facets, its rank."""
    want, have = claimed.element, found.element
    if not _may_be(want, have):
        yield f"it is {have.label}, not {want.label}"
    elif "any" not in (want.dtype, have.dtype) and want.dtype != have.dtype:
        yield f"its numbers are {have.dtype}, not {want.dtype}"
    for name in _shared(want, have):
        one, two = getattr(want, name), getattr(have, name)
        if _both_known(one, two) and one != two:
            yield f"{name} is {facet_text(two)}, not {facet_text(one)}"
    if claimed.rank != found.rank:
        yield f"it has {found.rank} axes, not {claimed.rank}"


def _may_be(want: Element, have: Element) -> bool:
    """Say whether a value of one element may be of another: a case of it, or more general."""
    return isinstance(want, type(have) | Any_) or isinstance(have, type(want) | Any_)


def _denied_axes(claimed: NeuralType, found: NeuralType) -> Iterator[str]:
    """Say which axes of a claim the type of the value denies."""
    kinds = [(axis.kind, other.kind) for axis, other in zip(claimed.axes, found.axes, strict=True)]
    if any(not _may_count(kind, other) for kind, other in kinds):
        want, have = (" ".join(kind.value for kind in side) for side in zip(*kinds, strict=True))
        yield f"its axes are {have}, not {want}"
        return
    for n, (axis, other) in enumerate(zip(claimed.axes, found.axes, strict=True)):
        if axis.listed != other.listed:
            yield f"axis {n} is {'a list' if other.listed else 'no list'}"
        elif axis.size is not None and other.size is not None and _never_equal(axis.size, other.size):
            yield f"axis {n} is {other.size} long, not {axis.size}"
        elif axis.clock is not None and other.clock is not None and axis.clock != other.clock:
            yield f"axis {n} has {other.clock} steps a second, not {axis.clock}"


def _may_count(want: Kind, have: Kind) -> bool:
    """Say whether an axis of one kind may be of another: features may turn out to be scores of labels."""
    open_kinds = (Kind.ANY, Kind.SINGLETON)
    return (
        want is have or want in open_kinds or have in open_kinds or (have, want) == (Kind.FEATURE, Kind.VOCAB)
    )


def _both_known(one: object, two: object) -> bool:
    return not any(value is None or isinstance(value, Var | Size) for value in (one, two))


def _never_equal(one: Size, two: Size) -> bool:
    """Say whether two sizes differ whatever their symbols are."""
    if any(not symbol.rigid for symbol in one.symbols()):
        return False
    return one != two and gap(one, two).kind in ("constant", "offset")


def _shared(one: Element, two: Element) -> list[str]:
    """Name the facets that both elements inherit from one class."""
    common = next(cls for cls in type(one).__mro__ if isinstance(two, cls))
    return list(facets_of(cast("type[Element]", common)))


def _claimed(claimed: NeuralType, found: NeuralType) -> NeuralType:
    """Put the sizes and the facets of the value into the claim, where it leaves them open."""
    pairs = list(zip(claimed.axes, found.axes, strict=True))
    same = [(w, h) for w, h in pairs if _may_count(w.kind, h.kind)]
    sizes = {
        w.symbol: h.size
        for w, h in same
        if w.symbol is not None and not w.symbol.rigid and h.size is not None
    }
    axes = {w.symbol: h for w, h in same if w.symbol is not None and h.vocab is not None}
    clocks = {w.symbol: h.clock for w, h in same if w.symbol is not None and h.clock is not None}
    element, given = claimed.element, found.element
    shared = _shared(element, given)
    for name in shared:  # lengths that are still lengths count what they counted
        mine, theirs = getattr(element, name), getattr(given, name)
        if isinstance(mine, Size) and isinstance(theirs, Size) and mine.symbol is not None:
            sizes.setdefault(mine.symbol, theirs)
    open_facets = {
        name: getattr(given, name)
        for name in shared
        if getattr(element, name) is None or isinstance(getattr(element, name), Var)
    }
    element = cast("Any", replace)(element, **open_facets) if open_facets else element
    return claimed.with_element(element).substitute(sizes, {}, axes, clocks)


def _refusal(claimed: NeuralType, found: NeuralType, false: list[str]) -> PortError:
    return PortError(
        f"{claimed} cannot be assumed of {found}: {false[0]}",
        code="assume",
        details=[Row("given", str(found)), Row("assumed", str(claimed))],
        why=[f"{text[:1].upper()}{text[1:]}." for text in false[1:]]
        or "An assumption adds what a type does not say; it cannot deny what it says.",
        fixes=[
            "put right what is declared wrongly where the value is made",
            "insert a module that converts it",
        ],
        data={"port": "value"},
    )
