"""Ways out of a failed connection, each tried on the types of the whole call before it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from neumo.graph.adapters import Adapter, proposals
from neumo.graph.candidates import Surroundings, each_value, unconnected
from neumo.graph.compose import Call, Mismatch, try_types
from neumo.graph.module import NeuralModule
from neumo.graph.settings import changed_settings
from neumo.graph.value import Step, Value
from neumo.types import Environment, Fix, NeuralType, Outcome, Size, Symbol, compare

MOST_FIXES = 3
_TRIES = 40  # adapters tried behind another adapter
_COMPARISONS = 20_000  # of types, for values in the place of one: about half a second
Types = dict[str, list[NeuralType]]  # what stands at each port of the call


@dataclass(slots=True)
class Way:
    """One way out: how to write it, and what would stand at the ports then."""

    text: str
    types: Types


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
        return [Fix(way.text, "fits") for way in found]

    def ways(self, mismatch: Mismatch) -> Iterator[Way]:
        """Give the ways out, the simplest first."""
        values = list(islice(self._values(mismatch), 2))
        yield from values
        adapters = list(self._adapters(mismatch)) or list(self._pairs(mismatch))
        yield from adapters
        yield from self._settings(mismatch, nothing_else=not values and not adapters)

    def works(self, types: Types, port: str) -> bool:
        """Say whether the port fits now for sure, and nothing that did fit is broken."""
        outcomes = try_types(self.call, types)
        if outcomes[port] in (Outcome.ASSUMED, Outcome.MISMATCH):
            return False
        return {each for each, outcome in outcomes.items() if outcome is Outcome.MISMATCH} <= self.failing - {
            port
        }

    def _values(self, mismatch: Mismatch) -> Iterator[Way]:
        port = mismatch.port
        loose = self.call.signature.takes[port]
        found = unconnected(self.around.fitting(port, loose, Environment()), self.around)
        for other in found[: max(_TRIES, _COMPARISONS // len(self.around.connected))]:
            types = self._with(mismatch, other.type)
            if other is not mismatch.value and self.works(types, port):
                yield Way(self._written(mismatch, other), types)

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

    def _adapters(self, mismatch: Mismatch) -> Iterator[Way]:
        target = self.call.env.type(mismatch.wanted).as_single()
        for adapter in proposals(target, mismatch.value.type):
            found = self._apply(adapter, mismatch.value.type)
            if found is None:
                continue
            types = self._behind(mismatch, found)
            if self.works(types, mismatch.port):
                yield Way(f"insert {adapter.notation()} before it{found.words}", types)

    def _pairs(self, mismatch: Mismatch) -> Iterator[Way]:
        target = self.call.env.type(mismatch.wanted).as_single()
        for adapter in proposals(target, mismatch.value.type):
            found = self._apply(adapter, mismatch.value.type)
            for second in list(proposals(target, found.result))[:_TRIES] if found is not None else ():
                after = self._apply(second, found.result) if found is not None else None
                if found is None or after is None:
                    continue
                types = self._behind(
                    mismatch, _Applied(after.result, found.extra + after.extra, found.gives | after.gives)
                )
                if self.works(types, mismatch.port):
                    words = found.words or after.words
                    yield Way(
                        f"insert {adapter.notation()}, then {second.notation()}, before it{words}", types
                    )

    def _apply(self, adapter: Adapter, given: NeuralType) -> _Applied | None:
        """Give what an adapter makes of a type, and what else it is connected to; None if it cannot be."""
        types = {adapter.entry: given}
        if _results(adapter, types) is None:
            return None
        extra: list[tuple[str, Value, str]] = []
        for port, wanted in adapter.signature_for(types).takes.items():
            other = None if port == adapter.entry else self._beside(adapter, port, types, wanted.optional)
            if other is not None:
                types[port] = other.type
                extra.append((port, other, self.around.spell(other)))
            elif port != adapter.entry and not wanted.optional:
                return None
        results = _results(adapter, types) or {}
        through = {port: results[port] for port, _, _ in extra if port in results}
        return _Applied(results[adapter.exit], extra, through)

    def _beside(
        self, adapter: Adapter, port: str, types: dict[str, NeuralType], optional: bool
    ) -> Value | None:
        """Find a value for a further port of an adapter: one of the call, or any if there has to be one."""
        values = self.around.connected if optional else [*self.around.connected, *self.around.values]
        fitting = (value for value in values if _results(adapter, {**types, port: value.type}) is not None)
        return next(fitting, None)

    def _behind(self, mismatch: Mismatch, found: _Applied) -> Types:
        """Put what an adapter gives at the port, and at the ports of what went through it as well."""
        types = self._with(mismatch, found.result)
        for port, source in self.call.inputs.items():
            for through, value, _ in found.extra:
                if source is value and through in found.gives:
                    types[port] = [found.gives[through]]
        return types

    def _settings(self, mismatch: Mismatch, *, nothing_else: bool) -> Iterator[Way]:
        """Try other settings of the module that gives, and of the one that takes where that is as good."""
        reasons, giver, taker = mismatch.comparison.reasons, mismatch.value.step.module, self.call.module
        of_sizes = any(reason.part == "size" for reason in reasons)
        if (
            of_sizes or not giver.trainable
        ):  # weights that were trained for something else do not become right
            for module, words in changed_settings(giver, reasons, giving=True):
                types = self._given_by(module, mismatch)
                if types is not None and self.works(types, mismatch.port):
                    nothing_else = False
                    yield Way(words, types)
        if of_sizes or (nothing_else and not taker.trainable):
            for module, words in changed_settings(taker, reasons, giving=False):
                if self._taken_by(module, mismatch.port):
                    yield Way(words, self.types)

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


def _results(adapter: Adapter, types: dict[str, NeuralType]) -> dict[str, NeuralType] | None:
    """Give the types that an adapter makes of others, or None if one of them does not fit for sure."""
    instance, env = adapter.signature_for(types).scheme.instantiate(type(adapter).__name__), Environment()
    for port, given in types.items():
        if compare(instance.takes[port], given, env).outcome in (Outcome.ASSUMED, Outcome.MISMATCH):
            return None
    return instance.results(env)


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


@dataclass(slots=True)
class _Applied:
    """What an adapter gives, what else went into it (port, value, spelling), and what became of that."""

    result: NeuralType
    extra: list[tuple[str, Value, str]]
    gives: dict[str, NeuralType]

    @property
    def words(self) -> str:
        return (
            f", with {', '.join(f'{port}={spelled}' for port, _, spelled in self.extra)}"
            if self.extra
            else ""
        )


def missing_fixes(around: Surroundings, wanted: dict[str, NeuralType]) -> list[Fix]:
    """Give, for ports that were left out, the values that fit each beside everything that is connected."""
    fixes: list[Fix] = []
    env = around.call.env
    for port, found in wanted.items():
        room = max(1, MOST_FIXES // len(wanted))
        spelled = dict.fromkeys(around.spell(value) for value in around.fitting(port, found, env))
        fixes += [Fix(f"{port}={text}", "fits") for text in list(spelled)[:room]]
    return fixes
