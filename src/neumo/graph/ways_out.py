"""Ways out of a failed connection, each tried on the types of the whole call before it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from math import isqrt
from textwrap import wrap
from typing import Any, cast

from neumo.graph.adapters import proposals
from neumo.graph.adapters.chains import (
    MOST_TRIES,
    Applied,
    Before,
    Chain,
    apply,
    double_chains,
    passed_through,
    results,
    single_chains,
)
from neumo.graph.assume import Assume
from neumo.graph.candidates import Surroundings, each_value, fits, unconnected
from neumo.graph.compose import Call, Mismatch, try_types
from neumo.graph.left_out import MOST_FIXES, choices_of, may_feed, taken_from
from neumo.graph.module import DataLayer, NeuralModule
from neumo.graph.order import order_steps
from neumo.graph.pasted import CODE_ROOM, pasted_chain
from neumo.graph.settings import changed_settings
from neumo.graph.trace import Trace
from neumo.graph.type_source import type_source
from neumo.graph.value import Step, Value
from neumo.types import (
    Axis,
    Element,
    Environment,
    Fix,
    Hypotheses,
    Kind,
    Lengths,
    Mask,
    NeumoError,
    NeuralType,
    Obligation,
    Outcome,
    Size,
    Symbol,
    Var,
    compare,
)

_COMPARISONS = 20_000  # of types, for values in the place of one: about half a second
_UNSURE = (Outcome.ASSUMED, Outcome.MISMATCH)
Types = dict[str, list[NeuralType]]  # what stands at each port of the call


@dataclass(slots=True)
class Way:
    """One way out: how to write it, what would stand at the ports then, and what it is made of.

    It is either another `value`, or a `chain` of adapters behind the refused one, or a `module` with other
    settings in the place of the one that gives (or takes). `beside` are other values for further ports that
    measure the new one, `behind` is the value that the adapters stand behind if it is another one, `claim` is
    a type that the refused value would have to be assumed to have. `doubts` are what it leaves to be checked
    when the graph runs, because the refused value did not say it either. `code` is what can be pasted,
    `exchanged` are ports that trade their values.
    """

    text: str
    types: Types
    value: Value | None = None
    chain: Chain = ()
    module: NeuralModule | None = None
    doubts: tuple[Obligation, ...] = ()
    beside: Mapping[str, Value] = field(default_factory=dict[str, Value])
    behind: Value | None = None
    claim: NeuralType | None = None
    code: str = ""
    exchanged: frozenset[str] = frozenset()

    @property
    def note(self) -> str:
        """Say that it was tried, and what is still taken on trust."""
        if self.claim is not None:
            return "fits, if you know that it is true"
        return f"fits, assuming {' and '.join(map(str, self.doubts))}" if self.doubts else "fits"


@dataclass(slots=True)
class Advice:
    """Finds the ways out of the failed connections of one call; each builds on the way found before it."""

    call: Call
    around: Surroundings
    types: Types = field(init=False)
    failing: set[str] = field(init=False)
    exchanged: set[str] = field(init=False, default_factory=set[str])  # ports that trade their values

    def __post_init__(self) -> None:
        self.types = {
            port: [value.type for value in each_value(source)] for port, source in self.call.inputs.items()
        }
        self.failing = {mismatch.port for mismatch in self.call.mismatches}

    def fixes(self, mismatch: Mismatch) -> list[Fix]:
        """Give up to three verified fixes: values first, then one adapter, then two, then other settings.

        A port without a way out stays wrong, and the others are judged without it.
        """
        found: list[Way] = []
        for way in self.ways(mismatch):
            if all(way.text != before.text for before in found):  # two values may be spelled alike
                found.append(way)
            if len(found) == MOST_FIXES:
                break
        if found:
            self.types = found[0].types
            self.failing.discard(mismatch.port)
            self.exchanged |= found[0].exchanged
        in_code = next((way for way in found if way.chain and way.behind is None), None)
        if in_code is not None:
            in_code.code = pasted_chain(self.around, mismatch.port, mismatch.value, in_code.chain)
        return [Fix(way.text, way.note, way.code) for way in found]

    def ways(self, mismatch: Mismatch) -> Iterator[Way]:
        """Give the ways out, the simplest first."""
        exchanged = list(islice(self._exchanges(mismatch), 1)) or list(islice(self._measured(mismatch), 1))
        if exchanged:
            yield exchanged[0]
            return
        values = list(islice(self._values(mismatch), 2)) or list(islice(self._pairs(mismatch), 1))
        yield from values
        target, given = self.call.env.type(mismatch.wanted).as_single(), mismatch.value.type
        single = self._chains(mismatch, single_chains(target, given, choices_of(self.around, mismatch.value)))
        double = self._chains(mismatch, double_chains(target, given, choices_of(self.around, mismatch.value)))
        adapters = list(islice(single, MOST_FIXES)) or list(islice(double, MOST_FIXES))
        yield from adapters
        others = list(self._settings(mismatch, nothing_else=not values and not adapters))
        if not values and not adapters:
            others = others or list(islice(self._behind_others(mismatch), 1))
        others += self._one_layer(mismatch)
        yield from others
        if not values and not adapters and not others:
            yield from self._claim(mismatch)

    def works(self, types: Types, port: str) -> Outcome:
        """Give the outcome at the port with these types; `MISMATCH` also if they break what did fit."""
        outcomes = try_types(self.call, types)
        broken = {each for each, outcome in outcomes.items() if outcome is Outcome.MISMATCH}
        return outcomes[port] if broken <= self.failing - {port} else Outcome.MISMATCH

    def _fits(self, types: Types, port: str) -> bool:
        return self.works(types, port) not in (Outcome.ASSUMED, Outcome.MISMATCH)

    def _values(self, mismatch: Mismatch) -> Iterator[Way]:
        for other in self._likely(mismatch):
            types = self._with(mismatch, other.type)
            if self._fits(types, mismatch.port):
                yield Way(self._written(mismatch, other), types, value=other)

    def _likely(self, mismatch: Mismatch) -> Iterator[Value]:
        """Give the values that fit the port alone, the likeliest first.

        Where only sizes are wrong, a value that the refused one was computed from would undo that.
        """
        port, refused = mismatch.port, mismatch.value
        loose = self.call.signature.takes[port]
        found = unconnected(self.around.fitting(port, loose, Environment()), self.around)
        before: set[int] = set()
        if all(reason.part == "size" for reason in mismatch.comparison.reasons):
            before = {id(value) for step in order_steps([refused.step]) for _, value in step.edges()}
        for other in found[: max(MOST_TRIES, _COMPARISONS // len(self.around.connected))]:
            if other is not refused and (id(other) not in before or _measures(other.type)):
                yield other

    def _pairs(self, mismatch: Mismatch) -> Iterator[Way]:
        """Try values together with what measures them: other ids with the lengths of these ids."""
        port, rows = mismatch.port, _rows(mismatch.value)
        for other in islice(self._likely(mismatch), self._few()):
            if rows != _rows(other):
                continue
            types, beside = self._with(mismatch, other.type), dict[str, Value]()
            for broken in self._broken(types, port):
                is_measure = broken != port and _measures(self.call.instance.takes[broken])
                if not is_measure or isinstance(self.call.inputs[broken], tuple):
                    beside = {}
                    break
                for measure in self._measures_of(other, broken):
                    again = {**types, broken: [measure.type]}
                    if try_types(self.call, again)[broken] not in _UNSURE:
                        types, beside[broken] = again, measure
                        break
            if beside and self._fits(types, port):
                also = (f"{name}={self.around.spell(value)}" for name, value in beside.items())
                yield Way(
                    ", ".join([self._written(mismatch, other), *also]), types, value=other, beside=beside
                )

    def _exchanges(self, mismatch: Mismatch) -> Iterator[Way]:
        """Try the values of two ports in each other's place, with what measures them."""
        stated, port = self._stated(), mismatch.port
        single = {each: source for each, source in self.call.inputs.items() if isinstance(source, Value)}
        if port not in single or _measures(self.call.instance.takes[port]):
            return
        for other in single:
            if other == port or _measures(self.call.instance.takes[other]):
                continue
            swapped = {port: other, other: port}
            types = {each: stated[swapped.get(each, each)] for each in stated}
            broken = self._bad(types)
            if len(broken) == 2 and all(
                each in single and _measures(self.call.instance.takes[each]) for each in broken
            ):
                swapped |= {broken[0]: broken[1], broken[1]: broken[0]}
                types = {each: stated[swapped.get(each, each)] for each in stated}
                broken = self._bad(types)
            if broken:
                continue
            beside = {each: single[swapped[each]] for each in single if each in swapped and each != port}
            pairs = [" and ".join(pair) for pair in dict.fromkeys(tuple(sorted(p)) for p in swapped.items())]
            written = [
                f"{each}={self.around.spell(single[swapped[each]])}" for each in single if each in swapped
            ]
            code = "\n".join(wrap(", ".join(written), CODE_ROOM))
            text = f"exchange {', and '.join(pairs)}"
            yield Way(
                text, types, value=single[other], beside=beside, code=code, exchanged=frozenset(swapped)
            )

    def _bad(self, types: Types) -> list[str]:
        """List the ports at which these types do not fit for sure."""
        outcomes = try_types(self.call, types)
        before = {port for port, _ in self.call.assumptions}
        return [
            port
            for port, found in outcomes.items()
            if found is Outcome.MISMATCH or (found is Outcome.ASSUMED and port not in before)
        ]

    def _measured(self, mismatch: Mismatch) -> Iterator[Way]:
        """Try the value of the data where lengths of the data meet what a model found.

        A loss or a metric that is given its own guesses with their lengths would be right for the types.
        """
        port, takes = mismatch.port, self.call.instance.takes
        ports = {r.origin[0] for r in mismatch.comparison.reasons if r.origin is not None} - {port}
        if self.call.module.role not in ("loss", "metric") or not _measures(takes[port]) or len(ports) != 1:
            return
        (along,) = ports
        if not port.startswith(f"{along}_"):  # another value decided how long this one has to be
            return
        found = self.call.inputs[along]
        if not isinstance(found, Value) or not self.around.is_found(found):
            return
        wanted = self.call.signature.takes[along]
        for other in islice(self.around.fitting(along, wanted, Environment()), self._few()):
            if self.around.is_found(other) or id(other) in self.around.settled:
                continue
            types = {**self.types, along: [other.type]}
            for measure in [mismatch.value, *self._measures_of(other, port)]:
                again = {**types, port: [measure.type]}
                if self._fits(again, port):
                    kept = measure is mismatch.value
                    written = [f"{along}={self.around.spell(other)}", f"{port}={self.around.spell(measure)}"]
                    text = written[0] if kept else ", ".join(written)
                    yield Way(text, again, value=measure, beside={along: other})

    def _broken(self, types: Types, port: str) -> list[str]:
        """List the ports that would not fit any more."""
        outcomes = try_types(self.call, types)
        fine = self.failing - {port}
        return [each for each, found in outcomes.items() if found is Outcome.MISMATCH and each not in fine]

    def _measures_of(self, value: Value, port: str) -> list[Value]:
        """List lengths or masks for a port, those of the record of a value first."""
        wanted = self.call.instance.takes[port]
        found = [each for each in reversed(self.around.values) if may_feed(wanted, each.type)]
        return sorted(found, key=lambda each: each.step is not value.step)[: self._few()]

    def _few(self) -> int:
        """Give a number of values of which each may be tried with each: fewer for a large call."""
        return min(MOST_TRIES, 1 + isqrt(_COMPARISONS // len(self.around.connected)))

    def _written(self, mismatch: Mismatch, other: Value) -> str:
        """Write a value in the place of the refused one, within the list where there are several."""
        port, source, spell = mismatch.port, self.call.inputs[mismatch.port], self.around.spell
        if not isinstance(source, tuple) or len(source) == 1:
            return f"{port}={spell(other)}"
        if len(source) > 4:
            return f"{spell(other)} in the place of {spell(mismatch.value)}"
        listed = (other if value is mismatch.value else value for value in source)
        return f"{port}=[{', '.join(map(spell, listed))}]"

    def _with(self, mismatch: Mismatch, given: NeuralType) -> Types:
        """Put another type in the place of the value that does not fit."""
        port = mismatch.port
        values = each_value(self.call.inputs[port])
        at = next((n for n, value in enumerate(values) if value is mismatch.value), 0)
        before = self.types[port]
        return {**self.types, port: [*before[:at], given, *before[at + 1 :]]}

    def _chains(self, mismatch: Mismatch, chains: Iterator[Chain]) -> Iterator[Way]:
        """Try chains of adapters: what they give has to fit, and nothing else may break.

        Two adapters that may stand in either order are one way.
        """
        orders: dict[frozenset[str], tuple[str, ...]] = {}
        for chain in chains:
            names = tuple(applied.adapter.notation() for applied in chain)
            if orders.get(frozenset(names), names) != names:
                continue
            types = self._behind(mismatch, chain)
            outcome = self.works(types, mismatch.port)
            if outcome is Outcome.MISMATCH:
                continue
            doubts = self._doubts(mismatch, chain[-1].result) if outcome is Outcome.ASSUMED else ()
            if doubts is not None:
                orders[frozenset(names)] = names
                yield Way(self._chain_text(mismatch, chain), types, chain=chain, doubts=doubts)

    def _behind_others(self, mismatch: Mismatch) -> Iterator[Way]:
        """Try adapters behind other values, for what only measures: a mask of the lengths that are there."""
        target = self.call.env.type(mismatch.wanted).as_single()
        if not _measures(target):
            return
        chains = (
            (value, chain)
            for value in islice(reversed(self.around.values), MOST_TRIES)
            if value is not mismatch.value
            for chain in single_chains(target, value.type, choices_of(self.around, value))
        )
        for value, chain in islice(chains, 1 + _COMPARISONS // len(self.around.connected)):
            types = self._with(mismatch, chain[0].result)
            if self._fits(types, mismatch.port):
                text = taken_from(self.around, mismatch.port, chain[0], value)
                yield Way(text, types, chain=chain, behind=value)

    def _one_layer(self, mismatch: Mismatch) -> list[Way]:
        """Try to read two data layers as one, where rows of both are to meet."""
        gaps = [reason.gap for reason in mismatch.comparison.reasons if reason.code == "batch"]
        trace = Trace(self.call)
        for gap in gaps:
            ours = trace.makers(gap.wanted.symbols()) if gap is not None else []
            theirs = trace.makers(gap.given.symbols()) if gap is not None else []
            layers = [step.module for step in (*ours, *theirs) if isinstance(step.module, DataLayer)]
            if gap is None or gap.given.symbol is None or len(layers) != 2 or layers[0] is layers[1]:
                continue
            rows = {gap.given.symbol: gap.wanted}
            types = {
                port: [each.substitute(rows) for each in found] for port, found in self._stated().items()
            }
            if self._fits(types, mismatch.port):
                names = " and ".join(trace.label(layer) for layer in layers)
                return [Way(f"read {names} at once, by MultiData(layers=(..., ...))", types)]
        return []

    def _stated(self) -> Types:
        """Give what stands at the ports as it was written, without the ways out found so far."""
        return {
            port: [value.type for value in each_value(source)] for port, source in self.call.inputs.items()
        }

    def _claim(self, mismatch: Mismatch) -> Iterator[Way]:
        """Offer to assume what a type that is too general does not say."""
        if any(reason.code != "general" for reason in mismatch.comparison.reasons):
            return
        wanted = self.call.env.type(mismatch.wanted).as_single().as_required()
        if isinstance(wanted.element, Hypotheses):
            return  # what was found by a model is so by where it comes from
        axes = (_open(axis, given) for axis, given in zip(wanted.axes, mismatch.value.type.axes, strict=True))
        claim = wanted.with_axes(*axes).with_element(_without_variables(wanted.element))
        try:
            given = Assume(claim, "tried").signature_for({"value": mismatch.value.type}).gives["value"]
        except NeumoError:  # the type of the value denies it
            return
        spelled = self.around.spell(mismatch.value)
        text = f'{mismatch.port}=assume({spelled}, {type_source(claim)}, reason="...")'
        way = Way(text, self._with(mismatch, given), claim=claim)
        yield from (each for each in [way] if self._fits(each.types, mismatch.port))

    def hindrances(self, mismatch: Mismatch) -> list[str]:
        """Say of an adapter that makes what is wanted why it cannot stand here."""
        target, given = self.call.env.type(mismatch.wanted).as_single(), mismatch.value.type
        for adapter in islice(proposals(target, given), MOST_TRIES):
            made = results(adapter, {adapter.entry: given})
            if made is None or not fits(mismatch.wanted.as_single(), made[adapter.exit], Environment()):
                continue
            broken = self._broken(self._with(mismatch, made[adapter.exit]), mismatch.port)
            if mismatch.port in broken:
                continue
            words: list[str] = []
            takes = adapter.signature_for({adapter.entry: given}).takes
            needed = [port for port, want in takes.items() if port != adapter.entry and not want.optional]
            if next(apply(adapter, given, choices_of(self.around, mismatch.value)), None) is None:
                words.append(f"no value fits its port {' and '.join(needed)}")
            if broken:
                words.append(f"{' and '.join(broken)} would not fit beside it any more")
            return [f"{adapter.notation()} makes what is wanted, but {', and '.join(words)}."]
        return []

    def _doubts(self, mismatch: Mismatch, result: NeuralType) -> tuple[Obligation, ...] | None:
        """List what has to be assumed of a result, or None if the refused value had said more than that."""
        found = compare(mismatch.wanted.as_single(), result, Environment()).obligations
        unsaid = (
            obligation.axis is None and getattr(mismatch.value.type.element, obligation.facet, None) is None
            for obligation in found
        )
        return found if all(unsaid) else None

    def _behind(self, mismatch: Mismatch, chain: Chain) -> Types:
        """Put what adapters give at the port, and at the ports of what went through them as well."""
        types = self._with(mismatch, chain[-1].result)
        passed = passed_through(chain)
        for port, source in self.call.inputs.items():
            if port != mismatch.port:
                types[port] = [
                    passed[id(value)].type if id(value) in passed else before
                    for value, before in zip(each_value(source), types[port], strict=True)
                ]
        return types

    def _chain_text(self, mismatch: Mismatch, chain: Chain) -> str:
        """Write which adapters to insert, with what beside, and which ports are fed by them as well."""
        through, others = self._through(mismatch, chain)
        steps = [
            f"{applied.adapter.notation()} {self._beside_text(applied, others)}".rstrip() for applied in chain
        ]
        if len(chain) == 1:
            steps = [f"{chain[0].adapter.notation()} before it", self._beside_text(chain[0], others)]
            return f"insert {', '.join(filter(None, steps))}{through}"
        return f"insert {', then '.join(steps)}, before it{through}"

    def _beside_text(self, applied: Applied, others: set[int]) -> str:
        """Write the further ports of an adapter, but for those that a port of the call passes on."""
        words = [
            f"{port}={'its ' + other.port if isinstance(other, Before) else self.around.spell(other)}"
            for port, other in applied.beside.items()
            if isinstance(other, Before) or id(other) not in others or not _comes_out(applied, other)
        ]
        return f"with {', '.join(words)}" if words else ""

    def _through(self, mismatch: Mismatch, chain: Chain) -> tuple[str, set[int]]:
        """Say which other ports of the call are fed through the adapters too, and which values these are."""
        passed = passed_through(chain)
        words: list[str] = []
        told: set[int] = set()
        for port, source in self.call.inputs.items():
            for value in each_value(source) if port != mismatch.port else ():
                if id(value) in passed:
                    found = passed[id(value)]
                    adapter = "it" if len(chain) == 1 else type(found.adapter).__name__
                    port_there = "" if port == found.port else f" as {found.port}"
                    words.append(f"{port} goes through {adapter} too{port_there}")
                    told.add(id(value))
        return "".join(f"; {each}" for each in dict.fromkeys(words)), told

    def _settings(self, mismatch: Mismatch, *, nothing_else: bool) -> Iterator[Way]:
        """Try other settings of the module that gives, and of the one that takes where that is as good."""
        reasons, giver, taker = mismatch.comparison.reasons, mismatch.value.step.module, self.call.module
        of_sizes = any(reason.part == "size" for reason in reasons)
        if (
            of_sizes or not giver.trainable or _is_fresh_head(mismatch)
        ):  # weights that were trained for something else do not become right
            label = Trace(self.call).label
            for module, words in changed_settings(giver, reasons, giving=True, label=label(giver)):
                types = self._given_by(module, mismatch)
                if types is not None and self._fits(types, mismatch.port):
                    nothing_else = False
                    yield Way(words, types, module=module)
        of_labels = all(reason.code == "vocab" for reason in reasons)
        if of_sizes or ((nothing_else or of_labels) and not taker.trainable):
            label = Trace(self.call).label
            for module, words in changed_settings(taker, reasons, giving=False, label=label(taker)):
                if self._taken_by(module, mismatch.port):
                    yield Way(words, self.types, module=module)

    def _taken_by(self, module: NeuralModule, port: str) -> bool:
        """Say whether the call would be right if it had been a call of this module."""
        outcomes = try_types(self.call, self.types, module.signature())
        broken = {each for each, outcome in outcomes.items() if outcome is Outcome.MISMATCH}
        return broken <= self.failing - {port} and outcomes[port] is not Outcome.ASSUMED

    def _given_by(self, module: NeuralModule, mismatch: Mismatch) -> Types | None:
        """Give the types at the ports if the step of the value had been a call of this module."""
        step = mismatch.value.step
        instance, env = module.signature().scheme.instantiate(), Environment()
        for port, value in step.edges():
            if port not in instance.takes or not compare(instance.takes[port], value.type, env).ok:
                return None
        results = _with_old_sizes(instance.results(env), step)
        types = dict(self.types)
        for port, source in self.call.inputs.items():
            values = each_value(source)
            if any(value.step is step for value in values):
                types[port] = [
                    results[v.port] if v.step is step and v.port in results else v.type for v in values
                ]
        return types


def _measures(wanted: NeuralType) -> bool:
    """Say whether a type only measures another value."""
    return isinstance(wanted.element, Lengths | Mask)


def _rows(value: Value) -> tuple[Size | None, ...]:
    """Give the sizes of the batch axis: which data source a value comes from."""
    return tuple(axis.size for axis in value.type.axes if axis.kind is Kind.BATCH)


def _is_fresh_head(mismatch: Mismatch) -> bool:
    """Say whether a module without trained weights gives scores over other labels than those wanted."""
    is_new = "_learned" not in mismatch.value.step.module.__dict__
    return is_new and all(reason.code == "vocab" for reason in mismatch.comparison.reasons)


def _open(axis: Axis, given: Axis) -> Axis:
    """Leave the size of an axis to the value: a claim keeps those of the same kind."""
    if axis.kind is Kind.ANY or axis.size is None or axis.size.constant is not None:
        return axis
    bare = given.kind is axis.kind and given.size is not None and given.size.symbol is not None
    return given if bare else axis.named(axis.kind.value)


def _without_variables(element: Element) -> Element:
    names = [name for name, value in vars(element).items() if isinstance(value, Var)]
    changed: Element = cast("Any", replace)(element, **dict.fromkeys(names))
    return changed


def _comes_out(applied: Applied, value: Value) -> bool:
    """Say whether a value goes through this very adapter."""
    return any(through is value for through, _, _ in applied.passed)


def _with_old_sizes(results: dict[str, NeuralType], step: Step) -> dict[str, NeuralType]:
    """Name the sizes that a step makes as it did before, since the rest of the graph is told in them."""
    old: dict[Symbol, Size] = {}
    for port, found in results.items():
        before = step.outputs.get(port)
        for new_axis, old_axis in zip(
            found.axes, before.type.axes if before is not None else (), strict=False
        ):
            if new_axis.symbol is not None and new_axis.symbol.rigid and old_axis.size is not None:
                old.setdefault(new_axis.symbol, old_axis.size)
    return {port: found.substitute(old) for port, found in results.items()}
