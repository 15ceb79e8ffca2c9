"""Looks back from a call: which module made a value or a size, on which line, and along which path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from neumo.graph.compose import Call
from neumo.graph.module import NeuralModule, label_of
from neumo.graph.names import FreeNames
from neumo.graph.order import order_steps
from neumo.graph.value import Step, Value
from neumo.types import (
    Audio,
    Durations,
    Ids,
    Kind,
    Lengths,
    NeuralType,
    Size,
    Spectrogram,
    Symbol,
    Text,
)
from neumo.types.gap import slopes


class Trace:
    """Everything upstream of one call, with names that tell modules of one class apart."""

    def __init__(self, call: Call) -> None:
        values = [
            v for source in call.inputs.values() for v in (source if isinstance(source, tuple) else (source,))
        ]
        self.steps: list[Step] = order_steps(value.step for value in values)
        self._labels = _number_labels([*(step.module for step in self.steps), call.module])
        self._makers = _find_makers(self.steps)
        self._calls = _number_calls(self.steps)

    def label(self, module: NeuralModule) -> str:
        """Name a module, numbered where several have one name: `SpeechData_2`."""
        return self._labels.get(id(module)) or label_of(module)

    def step(self, step: Step) -> str:
        """Name a call: by its module, or as `call 2 of SpeechData` where there are several."""
        number = self._calls.get(id(step), 0)
        return f"call {number} of {self.label(step.module)}" if number else self.label(step.module)

    def name(self, value: Value) -> str:
        """Name a value by its module and port."""
        return f"{self.label(value.step.module)}.{value.port}"

    def place(self, step: Step) -> str:
        """Say on which line a step was written."""
        return str(step.place() or "")

    def made_by(self, step: Step) -> str:
        """Say which module made something, and on which line."""
        return f"{self.step(step)}, {self.place(step)}".rstrip(", ")

    def makers(self, symbols: Iterable[Symbol]) -> list[Step]:
        """List the steps that made these sizes, in the order of composition."""
        found = {id(step): step for symbol in symbols if (step := self._makers.get(symbol)) is not None}
        return sorted(found.values(), key=lambda step: step.serial)

    def source_of(self, size: Size, other: Size) -> str:
        """Name the value along whose axis a size runs in the end: the audio that frames were made of.

        It is one that has nothing to do with the `other` size, or else the axis is named, too.
        """
        made = (value for step in self.makers(size.symbols()) for value in step.outputs.values())
        found = [value for value in made if _runs_along(value.type, size.symbols())]
        alone = [value for value in found if not _runs_along(value.type, other.symbols())]
        if alone:
            return self.name(alone[0])
        return f"the {size} of {self.name(found[0])}" if found else ""

    def unit(self, size: Size, of: NeuralType | None = None) -> str:
        """Name what a size along time counts: samples of audio, symbols of a text, or frames."""
        if of is not None and isinstance(of.element, Audio | Spectrogram):
            return "samples" if isinstance(of.element, Audio) else "frames"
        symbols = size.symbols()
        is_text = of is not None and isinstance(of.element, Ids | Text)
        if all(map(self._counts_text, symbols)) if symbols else is_text:
            return "symbols"
        sounds = (v.type for step in self.steps for v in step.outputs.values())
        sampled = any(isinstance(t.element, Audio) and t.axes and t.axes[-1].size == size for t in sounds)
        return "samples" if sampled else "frames"

    def _counts_text(self, symbol: Symbol) -> bool:
        """Say whether a size was made as the number of symbols of a text."""
        maker = self._makers.get(symbol)
        made = (value.type for value in maker.outputs.values()) if maker is not None else ()
        along = [type(each.element) for each in made if any(axis.symbol == symbol for axis in each.axes)]
        if any(issubclass(element, Audio | Spectrogram) for element in along):
            return False
        return any(issubclass(element, Ids | Text) for element in along)

    def sum_behind(self, steps: Sequence[Step], size: Size) -> str:
        """Name the durations that add up to a size, where no value of the step that made it has the size."""
        values = [value for step in steps for value in step.outputs.values()]
        if any(_runs_along(value.type, size.symbols()) for value in values):
            return ""
        return next((self.name(value) for value in values if isinstance(value.type.element, Durations)), "")

    def with_owners(self, shown: NeuralType) -> NeuralType:
        """Give every symbol the name of the module that made it, for printing."""
        owned: dict[Symbol, Size] = {}
        for symbol in shown.symbols():
            owned[symbol] = Symbol(symbol.name, symbol.uid, symbol.rigid, self._owner(symbol)).size
        return shown.substitute(owned)

    def _owner(self, symbol: Symbol) -> str:
        """Name what made a size: the module, its call, and the output where it made several of one name."""
        maker = self._makers.get(symbol)
        if maker is None:
            return ""
        number = self._calls.get(id(maker), 0)
        owner = f"{self.label(maker.module)}.call{number}" if number else self.label(maker.module)
        alike = [other for other, step in self._makers.items() if step is maker and other.name == symbol.name]
        first = next(port for port, value in maker.outputs.items() if symbol in value.type.symbols())
        return owner if len(alike) == 1 else f"{owner}.{first}"

    def path(self, value: Value) -> list[str]:
        """Follow a value back to its source, along the inputs that decided its sizes."""
        names = [self.name(value)]
        step = value.step
        symbols = value.type.symbols()
        while step.inputs:
            edges = [each for _, each in step.edges()]
            following = max(edges, key=lambda each: (len(symbols & each.type.symbols()), -edges.index(each)))
            names.append(self.name(following))
            step = following.step
        if len(names) > 7:
            names = [*names[:4], "...", *names[-2:]]
        return names[::-1]

    def is_replaced(self, old: Size, step: Step, new: Size) -> bool:
        """Say whether a step takes a value of one size and gives its like of another, as a trimming does."""
        return any(
            type(gives.type.element) is type(takes.type.element)
            and _runs_along(gives.type, new.symbols() - old.symbols())
            and _runs_along(takes.type, old.symbols() - new.symbols())
            for gives in step.outputs.values()
            for _, takes in step.edges()
        )

    def _downstream(self, early: Step) -> set[int]:
        """Collect the steps that depend on one, and itself."""
        found = {id(early)}
        for step in self.steps:
            if any(id(value.step) in found for _, value in step.edges()):
                found.add(id(step))
        return found

    def resizers(self, given: Value, decided: Value) -> list[tuple[Step, Fraction | None]]:
        """List the steps between two values that change a time axis, with the factor of each."""
        downstream = self._downstream(given.step)
        found: list[tuple[Step, Fraction | None]] = []
        for step in order_steps([decided.step]):
            if step is given.step or id(step) not in downstream:
                continue
            before = {slope for _, value in step.edges() for slope in _rates(value.type)}
            after = {slope for value in step.outputs.values() for slope in _rates(value.type)}
            if after and before and not after & before:
                factor = after.pop() / before.pop() if len(after) == len(before) == 1 else None
                found.append((step, factor))
        return found


def _runs_along(of: NeuralType, symbols: frozenset[Symbol]) -> bool:
    """Say whether a size of an axis depends on one of these symbols."""
    sizes = (axis.size for axis in of.axes if axis.size is not None)
    return any(not symbols.isdisjoint(size.symbols()) for size in sizes)


def _rates(of: NeuralType) -> set[Fraction]:
    """How fast each time axis (or what lengths count) grows with the size it comes from."""
    sizes = [axis.size for axis in of.axes if axis.kind is Kind.TIME]
    if isinstance(of.element, Lengths):
        sizes.append(of.element.of)
    return {slope for size in sizes if size is not None for slope in slopes(size).values()}


def _number_labels(modules: Iterable[NeuralModule]) -> dict[int, str]:
    free = FreeNames()
    return {key: free.take(label_of(module)) for key, module in {id(m): m for m in modules}.items()}


def _number_calls(steps: Iterable[Step]) -> dict[int, int]:
    """Number the calls of modules that are called more than once, from 1."""
    calls: dict[int, list[Step]] = {}
    for step in steps:
        calls.setdefault(id(step.module), []).append(step)
    return {id(step): n for many in calls.values() if len(many) > 1 for n, step in enumerate(many, start=1)}


def _find_makers(steps: Iterable[Step]) -> dict[Symbol, Step]:
    makers: dict[Symbol, Step] = {}
    for step in steps:
        for value in step.outputs.values():
            for symbol in value.type.symbols():
                makers.setdefault(symbol, step)
    return makers
