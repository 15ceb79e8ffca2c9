"""The names of modules, steps, nested graphs and outputs that were given none."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING

from neumo.graph.inputs import GraphInputs, is_open
from neumo.graph.module import NeuralModule, label_of, name_of
from neumo.graph.nest import Nesting
from neumo.graph.outputs import Chosen
from neumo.graph.source import Location
from neumo.graph.value import Step, Value
from neumo.types import GraphError, Row

if TYPE_CHECKING:
    from neumo.graph.graph import Graph


def name_modules(steps: Iterable[Step], known: Mapping[str, NeuralModule]) -> dict[str, NeuralModule]:
    """Name each module of some steps, in their order.

    A module is called as it was before (`known`, in a pruned graph), or as `named` says; else as in the
    nested graph that it comes from, or by its class. Of two with one name the later one is numbered.
    """
    steps = list(steps)
    modules = list({id(s.module): s.module for s in steps if not isinstance(s.module, GraphInputs)}.values())
    places = {id(s.module): s.location for s in reversed(steps)}  # of the first call of each
    names = _given_names(modules, known, places)
    free = FreeNames(names.values())
    for key, name in _inner_names(steps).items():
        if key not in names and name not in free.taken:
            names[key] = free.take(name)
    for module in modules:
        if id(module) not in names:
            names[id(module)] = free.take(type(module).__name__)
    return {names[id(module)]: module for module in modules}


def _given_names(
    modules: Iterable[NeuralModule],
    known: Mapping[str, NeuralModule],
    places: Mapping[int, Location | None],
) -> dict[int, str]:
    before = {id(module): name for name, module in known.items()}
    taken: dict[str, NeuralModule] = {}
    for module in modules:
        given = before.get(id(module)) or name_of(module)
        if given is None:
            continue
        if given in taken:
            raise GraphError(
                f"two modules are named {given!r}",
                code="name",
                details=[
                    Row(word, type(each).__name__, _called_at(places.get(id(each))))
                    for word, each in (("one", taken[given]), ("other", module))
                ],
                fixes=["give each object its own name, or call one object twice to share its weights"],
            )
        taken[given] = module
    return {id(module): name for name, module in taken.items()}


def _called_at(location: Location | None) -> str:
    return "" if location is None else f"called at {location.place()}"


def _inner_names(steps: Iterable[Step]) -> dict[int, str]:
    """What the modules of nested graphs are called in them: their weights keep their names."""
    found: dict[int, str] = {}
    for step in steps:
        if step.within:
            found.setdefault(id(step.module), step.within[0].graph.name_of(step.module))
    return found


def name_nestings(steps: Iterable[Step]) -> dict[str, Nesting]:
    """Name each call of a nested graph: `front`, `front_2` for its second use."""
    free = FreeNames()
    calls = {id(step.within[0]): step.within[0] for step in steps if step.within}
    return {free.take(call.graph.name): call for call in calls.values()}


def step_names(graph: Graph, taken: Iterable[str] = ()) -> dict[int, str]:
    """Name each step after its module: `mel`, `encoder`, `encoder_2` for the second use; by `id(step)`."""
    modules = {id(module): name for name, module in graph.modules.items()}
    stems = {id(step): "inputs" if is_open(step) else snake(modules[id(step.module)]) for step in graph.steps}
    free, reserved = FreeNames(taken), set(stems.values())
    return {key: free.take(stem, avoid=reserved) for key, stem in stems.items()}


def name_outputs(chosen: Iterable[Chosen], modules: Mapping[int, str]) -> dict[str, Value]:
    """Name the outputs; those without a name of their own by what they are called in their records.

    The first of several that are called alike keeps the name; the others get that of their module before it.
    A module that is called again numbers its values: `y`, `y_2`, `y_3`. `modules` are names by `id`.
    """
    outputs: dict[str, Value] = {}
    free = FreeNames()
    for each in chosen:
        module, rival = each.value.step.module, outputs.get(each.name)
        stem = each.name
        if rival is not None and rival.step.module is not module:
            stem = f"{snake(modules.get(id(module)) or label_of(module))}_{stem}"
        outputs[each.name if each.given else free.take(stem)] = each.value
    return outputs


class FreeNames:
    """Gives out names, each once: of two that are alike the later one is numbered.

    >>> names = FreeNames({"mel"})
    >>> names.take("mel"), names.take("mel"), names.take("text"), sorted(names.taken)
    ('mel_2', 'mel_3', 'text', ['mel', 'mel_2', 'mel_3', 'text'])

    Numbers begin with `first` and stand behind `between`.
    """

    def __init__(self, taken: Iterable[str] = (), *, first: int = 2, between: str = "_") -> None:
        self.taken = set(taken)
        self._first = first
        self._between = between
        self._next: dict[str, int] = {}  # where to go on: thousands of modules may have one name

    def take(self, name: str, stem: str = "", avoid: Container[str] = ()) -> str:
        """Take a name if it is free, else the first free number of `stem` that is none of `avoid`."""
        stem = stem or name
        while name in self.taken:
            number = self._next.get(stem, self._first)
            self._next[stem] = number + 1
            numbered = f"{stem}{self._between}{number}"
            if numbered not in avoid:
                name = numbered
        self.taken.add(name)
        return name


def snake(name: str) -> str:
    """Write the name of a class as the name of a value.

    >>> snake("MelSpectrogram"), snake("CTCLoss_2")
    ('mel_spectrogram', 'ctc_loss_2')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
