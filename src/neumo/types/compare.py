"""Whether a given type can feed a wanted one: `compare(wanted, given, env)`.

The outcome is the weakest of SAME, SUBTYPE, BOUND, ASSUMED and MISMATCH over the element, its facets, the
axes and their sizes; a mismatch lists every reason and leaves the environment as it was.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from typing import Any, Literal, cast

from neumo.types.axis import Axis, Kind, kind_of_name, kinds_fit, scaled_clock
from neumo.types.clocks import rate_text, symbol_clock
from neumo.types.element import (
    Any_,
    Audio,
    Element,
    Facet,
    Lengths,
    Logits,
    LogProbs,
    Mask,
    Probs,
    Var,
    facets_of,
)
from neumo.types.environment import Binding, Environment
from neumo.types.errors import clause
from neumo.types.gap import SizeGap, gap, same_size
from neumo.types.notation import facet_text
from neumo.types.size import Size, Symbol
from neumo.types.structs import Struct
from neumo.types.type import NeuralType
from neumo.types.vocab import AtLeast, Relation, Vocab, VocabDifference

Part = Literal["optional", "element", "dtype", "fields", "facet", "axes", "size", "clock"]


class Outcome(Enum):
    """How a given type meets a wanted one, from best to worst."""

    SAME = 0
    SUBTYPE = 1
    BOUND = 2
    ASSUMED = 3
    MISMATCH = 4


@dataclass(frozen=True)
class Reason:
    """One thing that is wrong with a connection.

    `code` is stable (`CODES` explains each), `part` says where, `facet` which facet. `wanted` and `given` are
    the two values (elements, facet values, axes, sizes), `gap` and `vocab` how sizes or vocabularies differ,
    `axis` the index of the axis, `origin` the connection that had fixed the wanted value, if one had, and
    `field` the way to the field of a struct that it is about (`best.score`).
    """

    part: Part
    code: str
    facet: str
    wanted: Any
    given: Any
    sentence: str
    gap: SizeGap | None = None
    vocab: VocabDifference | None = None
    axis: int | None = None
    origin: Any = None
    field: str = ""

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Obligation:
    """What is taken on trust because the given type does not say it, to be checked when the graph runs.

    `facet` is a facet's name; for the axis of index `axis` it is its kind's letter (the `value` is a size),
    "kind" or "clock". In a field of a struct the name of that stands before it: `score.unit`.

    >>> str(Obligation("rate", 16000))
    'rate = 16000'
    """

    facet: str
    value: Any
    axis: int | None = None

    def __str__(self) -> str:
        return f"{self.facet} = {facet_text(self.value)}"


@dataclass(frozen=True)
class Comparison:
    """The outcome of `compare`, with what was solved, what is assumed, warned about, and wrong."""

    outcome: Outcome
    bindings: tuple[Binding, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    warnings: tuple[Reason, ...] = ()
    reasons: tuple[Reason, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the given type can feed the wanted one."""
        return self.outcome is not Outcome.MISMATCH


CODES: dict[str, str] = {
    "optional": "A value that may be absent feeds a port that needs one.",
    "element": "The two mean different things.",
    "general": "The given value promises less than is wanted.",
    "dtype": "The class of numbers (int, float, bool) differs.",
    "facet": "A property such as the rate or the mel settings differs.",
    "vocab": "The vocabularies differ in labels, order or roles.",
    "lengths": "Lengths count another axis than the one they are used for.",
    "mask": "A mask covers another axis, or True means the opposite.",
    "axes": "The axes are others, or stand in another order.",
    "size": "The size of an axis differs.",
    "batch": "The values come from different data layers.",
    "clock": "The steps of a time axis are of another length than those they are used with.",
    "list": "One is a list, the other a tensor.",
    "fields": "A struct lacks a field, or a struct or its field cannot be made like this.",
    "when": "A port that is there in training only is used in another mode.",
    "unsolved": "A size cannot be worked out from what is connected.",
}
_SAME = Comparison(Outcome.SAME)


def compare(
    wanted: NeuralType,
    given: NeuralType,
    env: Environment | None = None,
    *,
    origin: Any = None,
    relax: Collection[str] = (),
    strict: bool = False,
) -> Comparison:
    """Compare a given with a wanted type, solving the flexible symbols and variables of the wanted one.

    Symbols and variables of the given type are never solved. `origin` is stored with every binding. Facets
    (and "clock") named in `relax` warn where they would refuse; `strict` refuses what only warns else, as a
    consumer does whose weights were trained. On MISMATCH `env` is left as it was. In which mode a port is
    there (`when`) is the graph's business.

    >>> from neumo.types.axis import B, F, T
    >>> from neumo.types.element import Audio, Mel
    >>> compare(Audio(rate=16000)[B, T], Audio(rate=22050)[B, T]).reasons[0].sentence
    'rate is 22050, not 16000'
    >>> compare(Audio(rate=16000)[B, T], Audio()[B, T]).obligations
    (Obligation(facet='rate', value=16000, axis=None),)
    """
    if wanted is given and not wanted.optional and not wanted.symbols() and not wanted.variables():
        return _SAME
    env = Environment() if env is None else env
    return _Check(env, origin, relax, strict).run(wanted, given)


@dataclass
class _Pair:
    """Two sizes that have to be equal, and where they stand."""

    wanted: Size
    given: Size | None
    facet: str
    code: str
    axis: int | None = None
    carry: Axis | None = None  # the given axis, where more than its size is passed on
    inside: str = ""


@dataclass(slots=True)
class _Check:
    env: Environment
    origin: Any
    relax: Collection[str]
    strict: bool
    reasons: list[Reason] = field(default_factory=list[Reason])
    warnings: list[Reason] = field(default_factory=list[Reason])
    obligations: list[Obligation] = field(default_factory=list[Obligation])
    pairs: list[_Pair] = field(default_factory=list[_Pair])
    timed: list[tuple[str, NeuralType, NeuralType]] = field(
        default_factory=list[tuple[str, NeuralType, NeuralType]]
    )
    subtype: bool = False
    inside: str = ""  # the field of a struct that is looked at

    def run(self, wanted: NeuralType, given: NeuralType) -> Comparison:
        mark = self.env.mark()
        self.type(wanted, given)
        self.sizes()
        for inside, want, have in self.timed:
            self.inside = inside
            self.clocks(want, have)
        warnings = tuple(self.warnings)
        if self.reasons:
            self.env.rollback(mark)
            return Comparison(
                Outcome.MISMATCH, warnings=warnings, reasons=tuple(sorted(self.reasons, key=_order))
            )
        bindings = self.env.since(mark)
        outcome = (
            Outcome.ASSUMED if self.obligations
            else Outcome.BOUND if bindings
            else Outcome.SUBTYPE if self.subtype
            else Outcome.SAME
        )  # fmt: skip
        return Comparison(outcome, bindings, tuple(self.obligations), warnings)

    def type(self, wanted: NeuralType, given: NeuralType) -> None:
        """Compare all but sizes and clocks, which are solved when everything that decides them is known."""
        if given.optional and not wanted.optional:
            self.refuse("optional", "optional", "optional", False, True, "It may be absent, but is needed")
        self.element(wanted.element, given.element)
        if self.axes(wanted.axes, given.axes) and (given.clocks or wanted.clocks):
            self.timed.append((self.inside, wanted, given))

    def reason(
        self, part: Part, code: str, facet: str, wanted: Any, given: Any, sentence: str, **more: Any
    ) -> Reason:
        if self.inside:
            sentence = f"Its {self.inside} does not fit: {clause(sentence)}"
        return Reason(part, code, facet, wanted, given, sentence, field=self.inside, **more)

    def refuse(
        self, part: Part, code: str, facet: str, wanted: Any, given: Any, sentence: str, **more: Any
    ) -> None:
        self.reasons.append(self.reason(part, code, facet, wanted, given, sentence, **more))

    def assume(self, facet: str, value: Any, axis: int | None = None) -> None:
        name = f"{self.inside}.{facet}" if self.inside else facet
        self.obligations.append(Obligation(name, value, axis))

    # element and facets

    def element(self, wanted: Element, given: Element) -> None:
        want, have = type(wanted), type(given)
        if want is Any_ or (wanted is given and not wanted.variables()):
            if want is not Any_:
                self.measured(wanted, given)
            return
        if want is not have:
            self.classes(wanted, given)
        warned = len(self.warnings)
        for name, known in _shared_facets(want, have).items():
            value = getattr(wanted, name)
            if value is not None:
                self.facet(known, want, value, getattr(given, name))
        if len(self.warnings) > warned and not self.reasons:
            self.numbers(wanted, given)
        if want.nested and issubclass(have, want):
            self.fields(cast("Struct", wanted), cast("Struct", given))

    def fields(self, wanted: Struct, given: Struct) -> None:
        """Compare field by field; the given struct may have more."""
        here, there = wanted.fields, given.fields
        missing = [name for name, field in here.items() if name not in there and not field.optional]
        if missing:
            sentence = f"It has no {' and no '.join(missing)}, only {', '.join(there)}"
            self.refuse("fields", "fields", "fields", tuple(here), tuple(there), sentence)
        self.subtype |= not there.keys() <= here.keys()
        outside = self.inside
        for name, want in here.items():
            if name in there:
                self.inside = f"{outside}.{name}" if outside else name
                self.type(want, there[name])
        self.inside = outside

    def measured(self, wanted: Element, given: Element) -> None:
        """One and the same element: only what it measures is left to be solved."""
        if isinstance(wanted, Struct):
            self.fields(wanted, wanted)
        for name, known in facets_of(type(wanted)).items():
            if known.kind == "size":
                self.facet(known, type(wanted), getattr(wanted, name), getattr(given, name))

    def classes(self, wanted: Element, given: Element) -> None:
        want, have = type(wanted), type(given)
        if issubclass(have, want):
            self.subtype = True
            if want.dtype not in ("any", given.dtype):
                self.numbers(wanted, given)
        elif issubclass(want, have) or have is Any_:
            sentence = f"{have.label} is too general: it may be something else than {want.label}"
            self.refuse("element", "general", "element", wanted, given, sentence)
        else:
            self.refuse("element", "element", "element", wanted, given, _meaning(want, have))

    def numbers(self, wanted: Element, given: Element) -> None:
        """Refuse another class of numbers; facets that decide it may be let pass, the class may not."""
        if given.dtype != wanted.dtype and "any" not in (wanted.dtype, given.dtype):
            sentence = f"Its numbers are {given.dtype}, not {wanted.dtype}"
            self.refuse("dtype", "dtype", "dtype", wanted.dtype, given.dtype, sentence)

    def facet(self, known: Facet, cls: type[Element], wanted: Any, given: Any) -> None:
        if known.kind == "size" and not isinstance(wanted, Var) and not isinstance(given, Var):
            if wanted is None:
                return
            code = "mask" if issubclass(cls, Mask) else "lengths"
            self.pairs.append(_Pair(wanted, given, known.name, code, inside=self.inside))
            return
        var = wanted if isinstance(wanted, Var) else None
        wanted, given = self.env.facet(wanted), self.env.facet(given)
        if wanted is given or wanted is None or wanted == given:
            return
        if isinstance(wanted, Var):
            if given is not None and not wanted.rigid:
                self.env.bind_facet(wanted, given, origin=self.origin)
            elif given is not None:
                self.assume(known.name, wanted)
        elif given is None or isinstance(given, Var):
            self.assume(known.name, wanted)
        elif known.kind == "vocab":
            self.vocab(known, wanted, given, var)
        else:
            there, here = _facet_texts(given, wanted)
            sentence = f"{known.name} is {there}, not {here}"
            code = "mask" if issubclass(cls, Mask) else "lengths" if issubclass(cls, Lengths) else "facet"
            self.differ(known, code, wanted, given, sentence, var)

    def vocab(self, known: Facet, wanted: Vocab | AtLeast, given: Vocab | AtLeast, var: Var | None) -> None:
        inner = given.vocab if isinstance(given, AtLeast) else given
        target = wanted.vocab if isinstance(wanted, AtLeast) else wanted
        difference = inner.difference(target)
        if isinstance(wanted, AtLeast) and difference.relation in (Relation.SAME, Relation.PREFIX):
            self.subtype = True
            return
        sentence = difference.sentence
        if difference.relation is Relation.SAME:
            sentence = "It may hold fewer labels than wanted"
        self.differ(known, "vocab", wanted, given, sentence, var, difference)

    def differ(
        self,
        known: Facet,
        code: str,
        wanted: Any,
        given: Any,
        sentence: str,
        var: Var | None,
        vocab: VocabDifference | None = None,
    ) -> None:
        """Refuse, or warn where the facet is not that serious."""
        origin = None if var is None else self.env.origin(var)
        reason = self.reason("facet", code, known.name, wanted, given, sentence, vocab=vocab, origin=origin)
        soft = known.name in self.relax or (known.severity == "should" and not self.strict)
        (self.warnings if soft else self.reasons).append(reason)

    # axes and sizes

    def axes(self, wanted: tuple[Axis, ...], given: tuple[Axis, ...]) -> bool:
        if not _kinds_fit(wanted, given):
            self.refuse("axes", "axes", "axes", wanted, given, _axes_sentence(wanted, given))
            return False
        for n, (want, have) in enumerate(zip(wanted, given, strict=True)):
            if have.kind is Kind.ANY and want.kind is not Kind.ANY:
                self.assume("kind", want.kind.value, n)
            if want.listed is not have.listed:
                self.listed(n, want, have)
            if want.vocab is not None and have.vocab is not None:
                self.axis_vocab(n, want, have)
            elif want.size is not None:
                code = "batch" if want.kind is Kind.BATCH else "size"
                carry = have if have.vocab is not None or want.kind is Kind.ANY else None
                self.pairs.append(_Pair(want.size, have.size, want.kind.value, code, n, carry, self.inside))
        return True

    def listed(self, n: int, wanted: Axis, given: Axis) -> None:
        there, here = ("a list", "an axis of a tensor") if given.listed else ("an axis of a tensor", "a list")
        sentence = f"Its {given.text(clock=False)} is {there}, wanted is {here}"
        self.refuse("axes", "list", wanted.kind.value, wanted, given, sentence, axis=n)

    def axis_vocab(self, n: int, wanted: Axis, given: Axis) -> None:
        want, have = wanted.vocab, given.vocab
        if want is None or have is None or want == have:
            return
        difference = have.difference(want)
        if any(r.vocab == difference for r in self.reasons):
            return  # told already, by the facet
        self.refuse(
            "axes", "vocab", wanted.kind.value, want, have, difference.sentence, vocab=difference, axis=n
        )

    def sizes(self) -> None:
        """Solve bare symbols first, since they decide what stands in the other sizes."""
        later: list[_Pair] = []
        for pair in self.pairs:
            if pair.wanted.symbol is not None:
                self.inside = pair.inside
                self.size(pair)
            else:
                later.append(pair)
        for pair in later:
            self.inside = pair.inside
            self.size(pair)

    def size(self, pair: _Pair) -> None:
        if pair.wanted is pair.given:
            return
        wanted = self.env.size(pair.wanted)
        if pair.given is None:  # known only when the graph runs
            self.assume(pair.facet, wanted, pair.axis)
            return
        given = self.env.size(pair.given)
        if wanted == given:
            return
        symbol = wanted.symbol
        if symbol is not None and not symbol.rigid:
            self.bind(pair, symbol, wanted, given)
            return
        flexible = [s for s in wanted.symbols() if not s.rigid and s not in given.symbols()]
        if flexible:
            self.solve(pair, flexible, wanted, given)
        elif not same_size(wanted, given):
            self.miss(pair, gap(wanted, given))

    def bind(self, pair: _Pair, symbol: Symbol, wanted: Size, given: Size) -> None:
        if symbol in given.symbols():  # occurs check: T = T//2 has no solution
            self.miss(pair, gap(wanted, given))
        elif given.negative:
            sentence = f"No axis has the size {given}, which is below 0"
            self.miss(pair, SizeGap("other", wanted, given, sentence))
        else:
            self.env.bind_size(symbol, given, origin=self.origin, axis=pair.carry)

    def solve(self, pair: _Pair, flexible: list[Symbol], wanted: Size, given: Size) -> None:
        """Solve `k*x + c = given` when x is the only unknown, outside every floor, and k divides exactly."""
        symbol = flexible[0]
        factor = dict(wanted.terms).get(symbol, 0)
        rest = given - (wanted - symbol.size * factor)
        if len(flexible) > 1 or not factor or symbol in rest.symbols():
            sentence = (
                f"{given} does not tell what {' and '.join(sorted(s.name for s in flexible))} is in {wanted}"
            )
            self.miss(pair, SizeGap("unsolved", wanted, given, sentence), code="unsolved")
            return
        solution = _divide(rest, factor)
        if solution is None or solution.negative:
            sentence = f"No whole {symbol.name} makes {wanted} equal to {given}"
            self.miss(pair, SizeGap("indivisible", wanted, given, sentence))
        else:
            self.env.bind_size(symbol, solution, origin=self.origin)

    # clocks

    def clocks(self, wanted: NeuralType, given: NeuralType) -> None:
        """Compare the clocks of axes whose sizes agree, and learn those of the symbols.

        What other connections have taught about the axis counts, and what the port itself says; so the
        outcome is the same in whatever order ports are compared.
        """
        ours, theirs = wanted.clocks, given.clocks
        for n, axis in enumerate(wanted.axes):
            want, have = (ours[n] if ours else None), (theirs[n] if theirs else None)
            if (want is None and have is None) or (self.reasons and self.is_told(n, axis)):
                continue
            known = scaled_clock(axis.size, self.env.clocks) if axis.size is not None else None
            implied = axis.clock is None and given.axes[n].clock is None  # by facets that have been compared
            if known is not None and have not in (None, known):
                self.clock(n, axis, known, have, given, learned=True)
            elif known is not None and want is not None and want != known and not (have and implied):
                self.clock(n, axis, want, known, given, learned=True)
            elif have is None:
                if axis.clock is not None:
                    self.assume("clock", want, n)
                self.learn(axis.size, want)
            elif want is not None and want != have and not implied:
                self.clock(n, axis, want, have, given)
            else:
                self.learn(axis.size, have)

    def is_told(self, n: int, axis: Axis) -> bool:
        """Whether a clock would be a second reason: the sizes differ, or the facets that imply it."""
        mine = [reason for reason in self.reasons if reason.field == self.inside]
        if any(reason.part == "size" and reason.axis == n for reason in mine):
            return True
        return axis.clock is None and any(r.part == "element" or r.facet in ("rate", "hop") for r in mine)

    def clock(
        self, n: int, axis: Axis, wanted: Fraction, have: Fraction, given: NeuralType, learned: bool = False
    ) -> None:
        """Refuse a clock; where another connection had told one of the two, it is named."""
        unit = "samples" if isinstance(given.element, Audio) else "frames"
        sentence = f"It has {rate_text(have)} {unit} a second, not {rate_text(wanted)}"
        symbols = axis.size.symbols() if axis.size is not None and learned else ()
        origin = next(map(self.env.clock_origin, symbols), None)
        reason = self.reason("clock", "clock", "clock", wanted, have, sentence, axis=n, origin=origin)
        (self.warnings if "clock" in self.relax else self.reasons).append(reason)

    def learn(self, size: Size | None, clock: Fraction | None) -> None:
        """Remember the clock of the one symbol that an axis depends on."""
        found = None if size is None or clock is None else symbol_clock(size, clock)
        if found is not None and not found[0].rigid and found[0] not in self.env.clocks:
            self.env.bind_clock(*found, origin=self.origin)

    def miss(self, pair: _Pair, found: SizeGap, code: str = "") -> None:
        if found.kind == "owner" and pair.code == "batch":
            found = replace(found, sentence="It belongs to another data layer: " + found.sentence)
        part: Part = "size" if pair.axis is not None else "facet"
        origins = map(self.env.origin, pair.wanted.symbols())
        origin = next((o for o in origins if o is not None), None)
        self.refuse(
            part,
            code or pair.code,
            pair.facet,
            found.wanted,
            found.given,
            found.sentence,
            gap=found,
            axis=pair.axis,
            origin=origin,
        )


def _divide(size: Size, by: int) -> Size | None:
    """Divide exactly, or give None."""
    if size.const % by or any(c % by for _, c in size.terms):
        return None
    return Size(size.const // by, tuple((atom, c // by) for atom, c in size.terms))


def _shared_facets(wanted: type[Element], given: type[Element]) -> dict[str, Facet]:
    """The facets that both classes inherit from the same place."""
    if issubclass(given, wanted):
        return facets_of(wanted)
    common = next(c for c in wanted.__mro__ if issubclass(given, c))
    return facets_of(common) if issubclass(common, Element) else {}


def _meaning(wanted: type[Element], given: type[Element]) -> str:
    scores = {Logits: "raw scores", LogProbs: "logarithms of probabilities", Probs: "probabilities"}
    if wanted in scores and given in scores:
        return f"{given.label} are {scores[given]}, {wanted.label} are {scores[wanted]}"
    return f"{given.label} is not {wanted.label}"


def _facet_texts(*values: Any) -> list[str]:
    """Write values side by side: texts all in quotes where one needs them, or would end in a full stop."""
    texts = [facet_text(value) for value in values]
    if any(text.startswith('"') or text.endswith(".") for text in texts):
        return [json.dumps(v, ensure_ascii=False) if isinstance(v, str) else str(v) for v in values]
    return texts


def _kinds_fit(wanted: tuple[Axis, ...], given: tuple[Axis, ...]) -> bool:
    if len(wanted) != len(given):
        return False
    return all(w.kind is g.kind or kinds_fit(w, g) for w, g in zip(wanted, given, strict=True))


def _axes_sentence(wanted: tuple[Axis, ...], given: tuple[Axis, ...]) -> str:
    here = sorted(axis.kind.value for axis in wanted)
    there = sorted(axis.kind.value for axis in given)
    if here == there:
        return "the same axes in another order"
    if len(wanted) != len(given):
        return f"{len(given)} {'axis' if len(given) == 1 else 'axes'}, not {len(wanted)}"
    return f"axes {_letters(given)}, not {_letters(wanted)}"


def _letters(axes: tuple[Axis, ...]) -> str:
    """Write the kinds of axes; by the name of the symbol where that says it, such as C or U."""
    named = {axis: axis.symbol.name for axis in axes if axis.symbol is not None}
    return " ".join(
        named[axis][:1] if kind_of_name(named.get(axis, "")) is axis.kind else axis.kind.value
        for axis in axes
    )


_ORDER = ("optional", "element", "dtype", "fields", "facet", "axes", "size", "clock")


def _order(reason: Reason) -> tuple[int, int]:
    return _ORDER.index(reason.part), reason.axis or 0
