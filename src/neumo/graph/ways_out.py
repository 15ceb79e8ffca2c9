"""Ways out of a failed connection, each tried on the types of the whole call before it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from neumo.graph.adapter_chains import (
    MOST_TRIES,
    Applied,
    Before,
    Chain,
    Choices,
    double_chains,
    passed_through,
    single_chains,
)
from neumo.graph.candidates import Surroundings, each_value, fits, unconnected
from neumo.graph.compose import Call, Mismatch, try_types
from neumo.graph.module import NeuralModule
from neumo.graph.settings import changed_settings
from neumo.graph.value import Step, Value
from neumo.types import Any_, Environment, Fix, NeuralType, Obligation, Outcome, Size, Symbol, compare

MOST_FIXES = 3
_COMPARISONS = 20_000  # of types, for values in the place of one: about half a second
Types = dict[str, list[NeuralType]]  # what stands at each port of the call


@dataclass(slots=True)
class Way:
    """One way out: how to write it, what would stand at the ports then, and what it is made of.

    It is either another `value`, or a `chain` of adapters behind the refused one, or a `module` with other
    settings in the place of the one that gives (or takes). `doubts` are what it leaves to be checked when the
    graph runs, because the refused value did not say it either.
    """

    text: str
    types: Types
    value: Value | None = None
    chain: Chain = ()
    module: NeuralModule | None = None
    doubts: tuple[Obligation, ...] = ()

    @property
    def note(self) -> str:
        """Say that it was tried, and what is still taken on trust."""
        return f"fits, assuming {' and '.join(map(str, self.doubts))}" if self.doubts else "fits"


@dataclass(slots=True)
class Advice:
    """Finds the ways out of the failed connections of one call; each builds on the way found before it."""

    call: Call
    around: Surroundings
    types: Types = field(init=False)
    failing: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.types = {
            port: [value.type for value in each_value(source)] for port, source in self.call.inputs.items()
        }
        self.failing = {mismatch.port for mismatch in self.call.mismatches}

    def fixes(self, mismatch: Mismatch) -> list[Fix]:
        """Give up to three verified fixes: values first, then one adapter, then two, then other settings."""
        found: list[Way] = []
        for way in self.ways(mismatch):
            if all(way.text != before.text for before in found):  # two values may be spelled alike
                found.append(way)
            if len(found) == MOST_FIXES:
                break
        if found:
            self.types = found[0].types
        self.failing.discard(mismatch.port)
        return [Fix(way.text, way.note) for way in found]

    def ways(self, mismatch: Mismatch) -> Iterator[Way]:
        """Give the ways out, the simplest first."""
        values = list(islice(self._values(mismatch), 2))
        yield from values
        target, given = self.call.env.type(mismatch.wanted).as_single(), mismatch.value.type
        single = self._chains(mismatch, single_chains(target, given, _choices(self.around, mismatch.value)))
        double = self._chains(mismatch, double_chains(target, given, _choices(self.around, mismatch.value)))
        adapters = list(islice(single, MOST_FIXES)) or list(islice(double, MOST_FIXES))
        yield from adapters
        yield from self._settings(mismatch, nothing_else=not values and not adapters)

    def works(self, types: Types, port: str) -> Outcome:
        """Give the outcome at the port with these types; `MISMATCH` also if they break what did fit."""
        outcomes = try_types(self.call, types)
        broken = {each for each, outcome in outcomes.items() if outcome is Outcome.MISMATCH}
        return outcomes[port] if broken <= self.failing - {port} else Outcome.MISMATCH

    def _fits(self, types: Types, port: str) -> bool:
        return self.works(types, port) not in (Outcome.ASSUMED, Outcome.MISMATCH)

    def _values(self, mismatch: Mismatch) -> Iterator[Way]:
        port = mismatch.port
        loose = self.call.signature.takes[port]
        found = unconnected(self.around.fitting(port, loose, Environment()), self.around)
        for other in found[: max(MOST_TRIES, _COMPARISONS // len(self.around.connected))]:
            types = self._with(mismatch, other.type)
            if other is not mismatch.value and self._fits(types, port):
                yield Way(self._written(mismatch, other), types, value=other)

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
        """Try chains of adapters: what they give has to fit, and nothing else may break."""
        for chain in chains:
            types = self._behind(mismatch, chain)
            outcome = self.works(types, mismatch.port)
            if outcome is Outcome.MISMATCH:
                continue
            doubts = self._doubts(mismatch, chain[-1].result) if outcome is Outcome.ASSUMED else ()
            if doubts is not None:
                yield Way(self._chain_text(mismatch, chain), types, chain=chain, doubts=doubts)

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
            of_sizes or not giver.trainable
        ):  # weights that were trained for something else do not become right
            for module, words in changed_settings(giver, reasons, giving=True):
                types = self._given_by(module, mismatch)
                if types is not None and self._fits(types, mismatch.port):
                    nothing_else = False
                    yield Way(words, types, module=module)
        if of_sizes or (nothing_else and not taker.trainable):
            for module, words in changed_settings(taker, reasons, giving=False):
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


def _comes_out(applied: Applied, value: Value) -> bool:
    """Say whether a value goes through this very adapter."""
    return any(through is value for through, _, _ in applied.passed)


def _choices(around: Surroundings, converted: Value) -> Choices:
    """Offer the values of a call to further ports of an adapter, then all that are around."""
    connected = {id(value): value for value in around.connected}
    others = {id(value): value for value in reversed(around.values)}
    values = [value for value in (connected | others).values() if value is not converted]
    return lambda wanted: (value for value in values if _may_feed(wanted, value.type))


def _may_feed(wanted: NeuralType, given: NeuralType) -> bool:
    """Tell quickly what cannot fit: another element, another number of axes."""
    if isinstance(wanted.element, Any_):
        return True
    return wanted.rank == given.rank and isinstance(given.element, type(wanted.element))


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


def missing_fixes(around: Surroundings, wanted: dict[str, NeuralType]) -> list[Fix]:
    """Give, for ports that were left out, the values that fit each beside everything that is connected.

    Where no value fits, one that fits behind an adapter is looked for: lengths for a port that takes a mask.
    """
    fixes: list[Fix] = []
    env = around.call.env
    for port, found in wanted.items():
        room = max(1, MOST_FIXES // len(wanted))
        spelled = dict.fromkeys(around.spell(value) for value in around.fitting(port, found, env))
        fixes += [Fix(f"{port}={text}", "fits") for text in list(spelled)[:room]]
        if not spelled:
            fixes += [Fix(text, "fits") for text in islice(_converted(around, port, found), 1)]
    return fixes


def _converted(around: Surroundings, port: str, wanted: NeuralType) -> Iterator[str]:
    """Find values that fit a port behind an adapter, the newest first."""
    target = around.call.env.type(wanted).as_single()
    for value in islice(reversed(around.values), MOST_TRIES):
        for (applied,) in single_chains(target, value.type, _choices(around, value)):
            if fits(wanted.as_single(), applied.result, around.call.env):
                beside = [
                    f"{name}={around.spell(other)}"
                    for name, other in applied.beside.items()
                    if isinstance(other, Value)
                ]
                extra = f", with {', '.join(beside)}" if beside else ""
                yield f"take {port} from {applied.adapter.notation()} behind {around.spell(value)}{extra}"
