"""Turns a connection that cannot be into a message: what, where, given, wanted, why, path, way out."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import cast

from neumo.graph.candidates import Surroundings
from neumo.graph.compose import Call, Mismatch
from neumo.graph.learned import learned_from
from neumo.graph.misuse import known_facets, place_of
from neumo.graph.module import NeuralModule, module_fields
from neumo.graph.recover import follows
from neumo.graph.settings import setting_text
from neumo.graph.trace import Trace
from neumo.graph.value import Value
from neumo.graph.ways_out import Advice
from neumo.types import (
    Fix,
    Kind,
    NeuralType,
    PortError,
    Reason,
    Row,
    Size,
    SizeGap,
    Symbol,
    Vocab,
    facet_text,
)
from neumo.types.errors import and_text, clause

_COUNTED = {
    Kind.BATCH: "rows",
    Kind.FEATURE: "features",
    Kind.VOCAB: "labels",
    Kind.HEIGHT: "rows of pixels",
    Kind.WIDTH: "columns of pixels",
}
_MOST_FACETS = 4  # of a wanted type that are shown; of more than that, those that differ
_MEASURES = {"lengths": "counts", "mask": "covers"}
_RESIZERS = ("stride", "hop", "by", "factor", "subsample", "upsample")  # settings known to change sizes


def mismatch_errors(call: Call) -> list[PortError]:
    """Explain the connections of one call that do not fit; what follows from one of them is left out."""
    trace, advice = Trace(call), Advice(call, Surroundings(call))
    kept: list[Mismatch] = []
    errors: list[PortError] = []
    for mismatch in call.mismatches:
        if kept and follows(call, mismatch, kept):
            continue
        kept.append(mismatch)
        if mismatch.port in advice.exchanged:  # the way out of the other port is that of both
            call.repaired[mismatch.port] = advice.types[mismatch.port]
            continue
        error = _Finding(call, trace, advice, mismatch).error()
        errors.append(error)
        if _is_one_way(mismatch.port, error.fixes):
            call.repaired[mismatch.port] = advice.types[mismatch.port]
    call.mismatches = kept
    return errors


def _is_one_way(port: str, fixes: Sequence[Fix]) -> bool:
    """Say whether the way out is clear: there is one, and not several values between which to choose."""
    return bool(fixes) and sum(fix.text.startswith(f"{port}=") for fix in fixes) < 2


class _Finding:
    """One failed connection on its way to a message."""

    def __init__(self, call: Call, trace: Trace, advice: Advice, mismatch: Mismatch) -> None:
        self.call = call
        self.trace = trace
        self.advice = advice
        self.mismatch = mismatch
        self.port = mismatch.port
        self.value = mismatch.value
        self.reasons = mismatch.comparison.reasons
        self.wanted = call.env.type(mismatch.wanted)
        self.consumer = trace.label(call.module)
        self.owners = any(_needs_owners(reason) for reason in self.reasons)

    def error(self) -> PortError:
        first = self.reasons[0]
        given, short = self.trace.name(self.value), self.short(first)
        why = list(dict.fromkeys(self.sentence(reason) for reason in self.reasons))
        more = f", and {len(why) - 1} more" if len(why) > 1 else ""
        fixes = self.advice.fixes(self.mismatch)
        if why == [_sentence(short)]:
            why = []
        if not fixes:
            why += self.advice.hindrances(self.mismatch)
        return PortError(
            f"{given} cannot feed {self.consumer}.{self.port}: {short}{more}",
            code=first.code,
            where=place_of(self.call, self.spot()),
            details=[
                Row("given", self.text(self.value.type), f"made by {self.trace.made_by(self.value.step)}"),
                Row("wanted", self.text(self.wanted), self.because()),
            ],
            why=why,
            path=" -> ".join([*self.trace.path(self.value), f"{self.consumer}.{self.port}"]),
            fixes=fixes,
            data={"port": self.port, "value": given, "reasons": [reason.sentence for reason in self.reasons]},
        )

    def spot(self) -> str:
        """Say which argument, and which of its items: `losses[1]`."""
        source: object = self.call.arguments[self.port]  # with the items that are no values
        if not isinstance(source, tuple | list):
            return self.port
        items = cast("Sequence[object]", source)
        at = next(n for n, item in enumerate(items) if item is self.value)
        return self.port if len(items) == 1 else f"{self.port}[{at}]"

    def text(self, shown: NeuralType) -> str:
        """Print a type with the facets that are wanted or differ, and with owners where names are equal.

        Where many are wanted, only those that differ are shown.
        """
        asked = {reason.facet for reason in self.reasons}
        wanted = known_facets(self.wanted)
        asked |= wanted if len(wanted) <= _MOST_FACETS else {"..."}
        if self.owners:
            shown = self.trace.with_owners(shown)
        is_whole = shown.element.nested  # the facets of a struct are types themselves
        return shown.text(owners=self.owners, facets=None if is_whole else frozenset(asked))

    def short(self, reason: Reason) -> str:
        """Say in a few words what is wrong, for the first line."""
        gap = reason.gap
        if reason.field:
            return f"its {reason.field} does not fit"
        if reason.code in _MEASURES and gap is not None:
            decided = _origin(reason)[1]
            wanted = self.trace.unit(gap.wanted, None if decided is None else decided.type)
            given = self.trace.unit(gap.given)
            if self.is_share():
                return f"it is a share of other {given}" if given == wanted else f"it is a share of {given}"
            counted = f"other {given}" if given == wanted else f"{given}, not {wanted}"
            return f"it {_MEASURES[reason.code]} {counted}"
        if reason.code == "batch":
            return "it belongs to another batch"
        if reason.code == "optional":
            return "it may be absent"
        if reason.vocab is not None:
            return reason.vocab.sentence.partition(", first difference")[0].partition(":")[0]
        if reason.part == "size" and gap is not None:
            return self.short_size(reason, gap)
        return clause(self.plain(reason))

    def is_share(self) -> bool:
        return getattr(self.value.type.element, "unit", None) == "fraction"

    def short_size(self, reason: Reason, gap: SizeGap) -> str:
        unit = self.unit_of(reason)
        if gap.kind == "unsolved":
            return f"nothing says how many {unit} it needs"
        if gap.wanted.constant is None:
            return f"another number of {unit}"
        if gap.given.constant is None:
            return f"the number of {unit} changes, but {gap.wanted} are wanted"
        return f"{gap.given} {unit.removesuffix('s') if gap.given == 1 else unit}, not {gap.wanted}"

    def plain(self, reason: Reason) -> str:
        if reason.code == "mask" and reason.facet == "true":
            return f"True means {reason.given}, not {reason.wanted}"
        return reason.sentence

    def unit_of(self, reason: Reason) -> str:
        """Name what the axis of a reason counts."""
        axes = self.wanted.axes
        kind = axes[reason.axis].kind if reason.axis is not None and reason.axis < len(axes) else None
        if kind is Kind.TIME and reason.gap is not None:
            return self.trace.unit(reason.gap.wanted, self.wanted)
        return _COUNTED.get(kind, "elements") if kind is not None else "elements"

    def sentence(self, reason: Reason) -> str:
        """Say why, in one sentence."""
        gap = reason.gap
        if reason.field:
            return _sentence(reason.sentence)
        if gap is None:
            short = self.short(reason)
            return _sentence(short if reason.vocab is None else self.plain(reason))
        if reason.code == "lengths" and self.is_share():
            return f"It is a share of {gap.given}, not of {gap.wanted}, and says nothing about that."
        if gap.kind == "factor" and gap.factor is not None:
            between = self.between(reason)
            return f"{gap.sentence}: {between} between the two." if between else f"{gap.sentence}."
        if gap.kind in ("owner", "other"):
            return self.foreign(reason, gap) or f"{gap.sentence}."
        if gap.kind == "unsolved":
            unknown = and_text(sorted(symbol.name for symbol in gap.wanted.symbols() if not symbol.rigid))
            verb = "is" if " and " not in unknown else "are"
            known = f"{gap.given} of {self.trace.name(self.value)}"
            return f"No input says what {unknown} {verb} in {gap.wanted}, and {known} does not settle it."
        if gap.kind == "constant" and reason.axis is not None:
            single = len(self.reasons) == 1
            return (
                _sentence(self.short(reason)) if single else f"Axis {reason.axis} has {self.short(reason)}."
            )
        return _sentence(gap.sentence)

    def between(self, reason: Reason) -> str:
        """Name the modules that change the size between the given value and the one that decided."""
        decided = _origin(reason)[1]
        if decided is None:
            return ""
        steps = self.trace.resizers(self.value, decided)
        names = [f"{self.trace.label(step.module)}{_setting(step.module, rate)}" for step, rate in steps]
        return f"{and_text(names)} {'stands' if len(names) == 1 else 'stand'}" if names else ""

    def foreign(self, reason: Reason, gap: SizeGap) -> str:
        """Explain sizes that have nothing to do with each other by where they come from."""
        theirs = self.trace.makers(gap.given.symbols() - gap.wanted.symbols())
        ours = self.trace.makers(gap.wanted.symbols() - gap.given.symbols())
        if not theirs or not ours:
            return ""
        given, wanted = (and_text(self.trace.step(step) for step in steps) for steps in (theirs, ours))
        if given == wanted:
            return self.another_source(reason, gap)
        if all(not step.inputs for step in [*theirs, *ours]):
            apart = f"It comes from {given}, the other inputs from {wanted}"
            once = (
                " Keep the record of one call."
                if {id(s.module) for s in theirs} & {id(s.module) for s in ours}
                else ""
            )
            return f"{apart}: their batches have nothing in common.{once}"
        unit = self.trace.unit(gap.given) if reason.code in _MEASURES else self.unit_of(reason)
        if any(self.trace.is_replaced(gap.given, step, gap.wanted) for step in ours):
            return f"It has the {unit} from before {wanted}, which makes a new number of them."
        port, decided = _origin(reason)
        other = self.other(port, decided) if decided is not None else "the other inputs"
        there = self.unit_of(reason) if reason.axis is not None else self.trace.unit(gap.wanted)
        those = "those" if there == unit else f"the {there}"
        durations = self.trace.sum_behind(ours, gap.wanted)
        made = f"what {durations} add up to" if durations else f"made by {wanted}"
        return f"Its {unit} are made by {given}, {those} of {other} are {made}."

    def another_source(self, reason: Reason, gap: SizeGap) -> str:
        """Tell apart two sizes that one step made, by other values that have them."""
        given = self.trace.source_of(gap.given, gap.wanted)
        wanted = self.trace.source_of(gap.wanted, gap.given)
        port, decided = _origin(reason)
        if not given or not wanted or decided is None:
            return ""
        other = self.other(port, decided)
        if reason.code == "batch":
            return f"It has the rows of {given}, but {other} has those of {wanted}."
        return f"It runs along {given}, but {other} runs along {wanted}."

    def other(self, port: str, decided: Value) -> str:
        """Name what decided a size or a facet: its port, or the value where the port takes several."""
        return self.trace.name(decided) if port == self.port else port

    def because(self) -> str:
        """Say what decided the wanted type: another connection, or a setting of the module."""
        for reason in self.reasons:
            port, decided = _origin(reason)
            if decided is not None and (decided is not self.value or port != self.port):
                has, place = self.has(reason, decided), self.trace.place(decided.step)
                return f"because {self.other(port, decided)} {has}, {place}".rstrip(", ")
        taught = [learned_from(self.call.module, self.port, reason.facet) for reason in self.reasons]
        if any(source is not None for source in taught):
            named = next((f" ({source})" for source in taught if source), "")
            return f"learned in training{named}"
        settings = [setting_text(self.call.module, reason) for reason in self.reasons]
        settings = list(dict.fromkeys(text for text in settings if text))
        return f"because {self.consumer} has {and_text(settings)}" if settings else ""

    def told(self, reason: Reason, gap: SizeGap, decided: Value) -> tuple[Size, Kind | None]:
        """Give the size of the other connection that told the wanted one, and the kind of its axis."""
        port, env, wanted = _origin(reason)[0], self.call.env, self.mismatch.wanted
        stated = wanted.axes[reason.axis].size if reason.axis is not None and not reason.field else None
        sizes = wanted.element.sizes() if stated is None and not reason.field else (stated,)
        asked = {symbol for size in sizes if size is not None for symbol in size.symbols()}
        told = [symbol for symbol in asked if env.origin(symbol) is reason.origin]
        for axis, given in zip(self.call.instance.takes[port].axes, decided.type.axes, strict=False):
            symbols = axis.size.symbols() if axis.size is not None else frozenset[Symbol]()
            if given.size is not None and not symbols.isdisjoint(told):
                return given.size, axis.kind
        return gap.wanted, None

    def has(self, reason: Reason, decided: Value) -> str:
        """Say what the other connection has that decided a symbol or a variable."""
        gap = reason.gap
        if gap is not None and reason.code == "batch":
            return f"comes from {and_text(map(self.trace.step, self.trace.makers(gap.wanted.symbols())))}"
        if gap is not None:
            size, kind = self.told(reason, gap, decided)
            counted = _COUNTED.get(kind) if kind is not None else None
            counted = counted or self.trace.unit(size, decided.type)
            return f"has {size} {counted.removesuffix('s') if size == 1 else counted}"
        if reason.code == "clock":
            return "has " + reason.sentence.rpartition("not ")[2] + " steps a second"
        wanted = reason.wanted
        return f"has {reason.facet} {wanted if isinstance(wanted, Vocab) else facet_text(wanted)}"


def _origin(reason: Reason) -> tuple[str, Value | None]:
    """Give the port and the value that had decided a size; `compose` passes them to `compare`."""
    origin: tuple[str, Value] | None = reason.origin
    return origin or ("", None)


def _needs_owners(reason: Reason) -> bool:
    if reason.gap is None:
        return False
    return (
        reason.code == "batch"
        or reason.gap.kind == "owner"
        or str(reason.gap.given) == str(reason.gap.wanted)
    )


def _setting(module: NeuralModule, rate: Fraction | None) -> str:
    """Name the setting behind a change of size, such as ` (stride 2)`."""
    if not rate:
        return ""
    number = rate.denominator if rate.numerator == 1 else rate.numerator if rate.denominator == 1 else None
    for name, value in _numbers(module):
        if value == number:
            return f" ({name} {value})"
    return f" (times {rate})"


def _numbers(module: NeuralModule) -> list[tuple[str, int]]:
    """List whole-number settings, those that are known to change sizes (or follow from others) first."""
    derived = [name for name in _RESIZERS if isinstance(getattr(type(module), name, None), property)]
    named = {name: getattr(module, name) for name in derived} | module_fields(module)
    numbers = [
        (name, value)
        for name, value in named.items()
        if isinstance(value, int) and not isinstance(value, bool)
    ]
    return sorted(numbers, key=lambda item: not item[0].startswith(_RESIZERS))


def _sentence(text: str) -> str:
    """Begin a sentence, but leave the names of facets as they are written."""
    head = text.partition(" ")[0]
    is_name = not head.isalpha() or text[len(head) :].startswith(" is ")
    return f"{text if is_name and head not in ('it', 'its') else text[:1].upper() + text[1:]}."
