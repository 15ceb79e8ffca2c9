"""A graph as rules look at it: who uses what, what stands before what, and what things are called."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

from neumo.graph.inputs import GraphInputs
from neumo.graph.module import NeuralModule, label_of
from neumo.graph.source import TextSite
from neumo.graph.value import Step, Value
from neumo.types import GraphError, Lengths, Loss, Mask, NeuralType, Size, did_you_mean

if TYPE_CHECKING:
    from neumo.graph.graph import Graph

_WITHOUT_GRADIENT = ("int", "bool", "str")


@dataclass(frozen=True)
class Purpose:
    """Says what a graph is about to be used for, where that is known better than by its mode.

    `loss` is the one that is trained, `frozen` the modules whose weights stay, `trainable` tells whether a
    module has weights (by default what its class declares).

    >>> Purpose(mode="train").mode
    'train'
    """

    mode: Literal["both", "train", "infer"] | None = None
    loss: Value | None = None
    frozen: Collection[NeuralModule] = ()
    trainable: Callable[[NeuralModule], bool] | None = None


class View:
    """Indexes a graph once, so that each rule is linear in its connections."""

    def __init__(self, graph: Graph, purpose: Purpose) -> None:
        self.graph = graph
        self.steps: tuple[Step, ...] = graph.steps
        self.training = (purpose.mode or graph.mode) == "train"
        self.inferring = (purpose.mode or graph.mode) == "infer"
        self.position = {id(step): index for index, step in enumerate(graph.steps)}
        self._purpose = purpose
        self._names = {id(module): name for name, module in graph.modules.items()}
        self._frozen = {id(module) for module in purpose.frozen}

    def label(self, step: Step) -> str:
        """Name a step by its module in this graph."""
        return self._names.get(id(step.module)) or label_of(step.module)

    def name(self, value: Value) -> str:
        """Name a value by module and port: `mel.mel_len`."""
        return f"{self.label(value.step)}.{value.port}"

    def spell(self, value: Value) -> str:
        """Write a value as the user does where its record is used; by module where that cannot be seen."""
        made = value.step
        if isinstance(made.module, GraphInputs) and isinstance(made.location, TextSite):
            return value.port  # in a recipe, open inputs have no record
        for user, given in self.users.get(id(made), []):
            port = next(name for name, each in user.edges() if each is given)
            record = _record_of(user, port, given)
            if record is not None:
                return f"{record}.{value.port}"
        return self.name(value)

    def made(self, step: Step) -> str:
        """Say which module made something, and on which line."""
        return f"{self.label(step)}, {step.place() or ''}".removesuffix(", ")

    def has_weights(self, module: NeuralModule) -> bool:
        """Say whether training could change a module, were it not frozen."""
        known = self._purpose.trainable
        return module.trainable if known is None else known(module)

    def is_frozen(self, module: NeuralModule) -> bool:
        """Say whether the weights of a module are kept as they are."""
        return id(module) in self._frozen

    @cached_property
    def losses(self) -> list[Value]:
        """The losses that are trained: the chosen one, or the outputs that are losses."""
        if self._purpose.loss is not None:
            return [self._purpose.loss]
        return [value for value in self.graph.outputs.values() if isinstance(value.type.element, Loss)]

    @cached_property
    def reached(self) -> set[int]:
        """The steps (by id) to which gradients of the losses flow: integers let none through."""
        return self.ancestors(self.losses, carries_gradient)

    @cached_property
    def behind(self) -> set[int]:
        """The steps (by id) that the losses depend on in any way."""
        return self.ancestors(self.losses)

    @cached_property
    def users(self) -> dict[int, list[tuple[Step, Value]]]:
        """The steps that use a step (by id), each with the value that it uses."""
        users: dict[int, list[tuple[Step, Value]]] = {}
        for step in self.steps:
            for _, value in step.edges():
                users.setdefault(id(value.step), []).append((step, value))
        return users

    @cached_property
    def serves(self) -> dict[int, list[str]]:
        """The outputs that need a step (by id): the names of two of them at most."""
        served: dict[int, list[str]] = {}
        for name, value in self.graph.outputs.items():
            served.setdefault(id(value.step), []).append(name)
        for step in reversed(self.steps):
            mine = served.setdefault(id(step), [])
            del mine[2:]
            for _, value in step.edges():
                theirs = served.setdefault(id(value.step), [])
                theirs.extend(name for name in mine if name not in theirs)
        return served

    def ancestors(
        self, values: Iterable[Value], follow: Callable[[Value], bool] = lambda _: True
    ) -> set[int]:
        """Collect the steps (by id) behind some values, along the connections that `follow` accepts."""
        found: set[int] = set()
        pending = [value.step for value in values]
        while pending:
            step = pending.pop()
            if id(step) not in found:
                found.add(id(step))
                pending.extend(value.step for _, value in step.edges() if follow(value))
        return found

    @cached_property
    def meters(self) -> dict[Size, list[Value]]:
        """The lengths and masks of the graph by the size that they measure."""
        found: dict[Size, list[Value]] = {}
        for step in self.steps:
            for value in step.outputs.values():
                if isinstance(value.type.element, Lengths | Mask):
                    for size in value.type.element.sizes():
                        found.setdefault(size, []).append(value)
        return found

    @cached_property
    def used(self) -> set[tuple[int, str]]:
        """The values that a step or an output of the graph uses, as (id of the step, port)."""
        edges = [value for step in self.steps for _, value in step.edges()]
        return {value.key for value in [*edges, *self.graph.outputs.values()]}

    def is_used(self, value: Value) -> bool:
        """Say whether anything uses a value."""
        return value.key in self.used

    def path(self, step: Step, port: str, follow: Callable[[Value], bool]) -> str:
        """Write the way from a source to a port of a step, along values that `follow` accepts."""
        names = [f"{self.label(step)}.{port}"]
        value = next((value for name, value in step.edges() if name == port), None)
        while value is not None:
            names.append(self.name(value))
            value = next((given for _, given in value.step.edges() if follow(given)), None)
        return " -> ".join(reversed(names))

    def way(self, value: Value, source: Value) -> list[tuple[Step, str]]:
        """Give the steps from a source's value to a value, each with the port where it comes in."""
        came: dict[int, tuple[Step, str]] = {}  # id of a step -> the step behind it, and its port there
        pending = [value.step]
        while True:
            step = pending.pop()
            for port, given in step.edges():
                if given.step is source.step:
                    if given.port == source.port:
                        return [(source.step, source.port), (step, port), *_chain(step, came)]
                elif id(given.step) not in came:
                    came[id(given.step)] = (step, port)
                    pending.append(given.step)


def _chain(step: Step, came: dict[int, tuple[Step, str]]) -> list[tuple[Step, str]]:
    chain: list[tuple[Step, str]] = []
    while id(step) in came:
        step, port = came[id(step)]
        chain.append((step, port))
    return chain


def _record_of(user: Step, port: str, given: Value) -> str | None:
    """Read in the user's text how the record is called of which a value went into a port."""
    place = user.place(port)
    if place is None:
        return None
    written = place.text[place.start : place.end]
    found = re.fullmatch(rf"{port}\s*=\s*([A-Za-z_][\w.]*)\.{given.port}", written)
    return None if found is None else found[1]


def carries_gradient(value: Value) -> bool:
    """Say whether a gradient can flow back through a value: through numbers, not through indices."""
    return value.type.element.dtype not in _WITHOUT_GRADIENT


def declared_ports(
    module: NeuralModule, kind: Literal["mixes", "targets"], ports: Mapping[str, NeuralType]
) -> tuple[str, ...] | None:
    """Give the ports that a class declares as mixed or as targets; None if it declares nothing.

    A name that is no port is one that other settings would give (a data layer without texts); but a name that
    is nearly one is a slip, and a `GraphError`.
    """
    names: Any = getattr(module, kind, None)
    if isinstance(names, str):
        names = (names,)  # ("mel") is no tuple, and what is meant is clear
    if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in cast("Any", names)):
        return None  # nothing, or a setting of the user's own that is called so
    declared = tuple(cast("Iterable[str]", names))
    for name in declared:
        if name not in ports:
            _refuse_slip(module, kind, name, [port for port in ports if port not in declared])
    return declared


def _refuse_slip(module: NeuralModule, kind: str, name: str, others: list[str]) -> None:
    meant = did_you_mean(name, others, cutoff=0.8)  # it may as well be a setting of the user's own
    if meant:
        raise GraphError(
            f"{type(module).__name__}.{kind} names {name!r}, which is no port",
            code="module",
            fixes=meant,
        )
