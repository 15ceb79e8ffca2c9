"""Graphs as plain torch modules: for hand-written loops, compilers, data parallelism and export."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

from torch import nn

from neumo.backends.torch.call import Outputs, convention, wrong_outputs
from neumo.backends.torch.weights import set_modes
from neumo.engine.backend import Setup
from neumo.engine.plan import ABSENT, Plan, PlanStep, compile_plan
from neumo.graph.learned import check_learned
from neumo.types.errors import GraphError, did_you_mean

if TYPE_CHECKING:
    from neumo.backends.torch.session import TorchSession
    from neumo.engine.factory import NeuralFactory
    from neumo.graph.graph import Graph


def to_torch(graph: Graph, seed: int = 0, factory: NeuralFactory | None = None) -> TorchGraph:
    """Make a plain `nn.Module` of a graph.

    >>> import torch
    >>> from neumo.backends.torch.wrap import wrap
    >>> from neumo.graph.graph import Graph
    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import Acoustic, B, F
    >>> row = Acoustic()[B, F(4)]
    >>> layer = wrap(nn.Linear(4, 4), takes={"x": row}, gives={"y": row}, name="layer")
    >>> model = to_torch(Graph(outputs={"y": layer(x=inputs(x=row).x).y}))
    >>> model(x=torch.zeros(2, 4))["y"].shape, list(model.state_dict())
    (torch.Size([2, 4]), ['layer.weight', 'layer.bias'])

    `forward` takes the open inputs by name (those of the data layer, where the graph begins with one) or in
    their order, and returns the outputs by name, metrics left out; what the data layer gives beside, such as
    `item`, may be given and is not looked at. Parameters are called `module.parameter`, as in
    `factory.weights`. With a `factory` the modules are those that it has built, and training them here trains
    them there; without one they start as in a factory with this `seed`.

    A graph for "both" does in `eval()` what an inference does: ports that are there in training only get
    nothing, and inputs that only feed them may be left out.

    Raises `GraphError` for a graph that gives nothing but metrics, and where two data layers give one name;
    `PortError` where modules of the `factory` have learned something else than the graph connects.
    """
    names = [name for name, value in graph.outputs.items() if value.step.module.role != "metric"]
    if not names:
        raise GraphError(
            f"graph {graph.name!r} has only metrics, and a torch module computes none",
            code="infer",
            fixes=["factory.evaluate(graph)"],
        )
    plan, used = compile_plan(graph, names), compile_plan(graph, names, training=False)
    _check_feeds(graph, plan)
    session = _session(seed, factory)
    if factory is not None:
        factory.settle()
        check_learned(graph.steps)
        factory.lend(graph)
    session.build(plan.modules)
    inferred = {feed.port for feed in used.feeds}
    maybe = {feed.port for feed in plan.feeds if feed.value.type.optional or feed.port not in inferred}
    ports = sorted((feed.port for feed in plan.feeds), key=lambda port: port in maybe)
    return _kind(tuple((port, port in maybe) for port in ports))(plan, used, ports, session)


@dataclass(frozen=True)
class _Call:
    """One call as plain data, so that copies of the module call their own layers."""

    module: str
    arguments: tuple[str, ...]  # names, where they are passed by keyword
    slots: tuple[int, ...]
    groups: tuple[int | None, ...]  # how many slots make up each argument; None for one that is no tuple
    read: Outputs | None
    targets: tuple[int, ...]
    release: tuple[int, ...]  # slots that nobody reads after this call
    gives: tuple[str, ...]


@dataclass(frozen=True)
class _Program:
    """A plan as plain data: the slot of each input, the calls, and where the outputs are."""

    feeds: tuple[tuple[str, int], ...]
    needed: frozenset[str]
    calls: tuple[_Call, ...]
    wanted: tuple[tuple[str, int], ...]
    slots: int


class TorchGraph(nn.Module):
    """Is a graph as a plain torch module; see `to_torch`."""

    def __init__(self, plan: Plan, used: Plan, ports: Sequence[str], session: TorchSession) -> None:
        super().__init__()
        self._ports = tuple(ports)
        layers = [step for step in (feed.value.step for feed in plan.feeds) if hasattr(step.module, "open")]
        given = {port for layer in layers for port in layer.outputs}
        self._spare = frozenset(given.difference(ports))  # nothing reads these outputs of a data layer
        self._kept: dict[str, tuple[bool, frozenset[str]]] = {}
        for name, spec in plan.modules.items():
            if hasattr(nn.Module, name):
                raise _taken(name)
            self.add_module(name, session.implementation(spec))
            self._kept[name] = session.kept(spec)
        self._programs = {True: self._program(plan), False: self._program(used)}  # by whether it trains
        self.train()

    def _program(self, plan: Plan) -> _Program:
        return _Program(
            feeds=tuple((feed.port, feed.slot) for feed in plan.feeds),
            needed=frozenset(feed.port for feed in plan.feeds if not feed.value.type.optional),
            calls=tuple(_as_data(step, self.get_submodule(step.name)) for step in plan.steps),
            wanted=tuple(plan.wanted.items()),
            slots=plan.slots,
        )

    def train(self, mode: bool = True) -> TorchGraph:
        """Switch to training or evaluation; what the factory has frozen stays in evaluation."""
        super().train(mode)
        for name, (frozen, still) in self._kept.items():
            if mode and (frozen or still):
                set_modes(cast(nn.Module, self._modules[name]), frozen=frozen, still=still)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by the inputs, of which the class is made anew."""
        always = self._programs[True].needed & self._programs[False].needed
        return _blank, (tuple((port, port not in always) for port in self._ports),), self.__dict__

    def _run(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Compute the outputs from the inputs by name."""
        program = self._programs[self.training]
        slots: list[Any] = [None] * program.slots
        for port, slot in program.feeds:
            slots[slot] = given.get(port)
        for call in program.calls:
            made = self._call(call, [slots[slot] for slot in call.slots])
            if len(call.targets) == 1:
                slots[call.targets[0]] = made
            else:
                for target, value in zip(call.targets, made, strict=True):
                    slots[target] = value
            for slot in call.release:
                slots[slot] = None
        return {name: slots[slot] for name, slot in program.wanted}

    def _call(self, call: _Call, values: list[Any]) -> Any:
        if call.groups:
            values = _grouped(values, call.groups)
        module: Any = self._modules[call.module]
        if call.arguments:
            given = module(**dict(zip(call.arguments, values, strict=True)))
        else:
            given = module(*values)
        if call.read is not None:
            given = call.read(given)
        if len(call.targets) > 1 and (not isinstance(given, tuple | list) or len(given) != len(call.targets)):
            raise wrong_outputs(call.module, given, call.gives)
        return given

    def _bind(self, values: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Give the arguments of a call by the names of the inputs; raises `GraphError` if they do not fit."""
        given: dict[str, Any] = dict(zip(self._ports, values, strict=False))
        unknown = [name for name in named if name not in self._ports and name not in self._spare]
        twice = [name for name in named if name in given]
        given |= named
        needed = self._programs[self.training].needed
        missing = [name for name in self._ports if name in needed and name not in given]
        if len(values) > len(self._ports) or unknown or twice or missing:
            raise _misuse(self._ports, len(values), unknown, twice, missing)
        return given


@cache
def _kind(ports: tuple[tuple[str, bool], ...]) -> type[TorchGraph]:
    """Make the class whose `forward` shows its inputs (name, may be left out), as `torch.export` asks for."""

    def forward(self: TorchGraph, *values: Any, **named: Any) -> dict[str, Any]:
        """Compute the outputs of the graph from its inputs."""
        return self._run(self._bind(values, named))

    place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    places = [inspect.Parameter("self", place)]
    empty = inspect.Parameter.empty
    places += [inspect.Parameter(name, place, default=None if maybe else empty) for name, maybe in ports]
    cast(FunctionType, forward).__dict__["__signature__"] = inspect.Signature(places)
    return type("TorchGraph", (TorchGraph,), {"forward": forward, "__module__": __name__})


def _blank(ports: tuple[tuple[str, bool], ...]) -> TorchGraph:
    kind = _kind(ports)
    return kind.__new__(kind)


def _as_data(step: PlanStep, module: nn.Module) -> _Call:
    rule = convention(step.module, module, step.sources)
    sources = [step.sources.get(port, ABSENT) for port in rule.order]
    many = any(not isinstance(source, int) for source in sources)
    return _Call(
        module=step.name,
        arguments=rule.order if rule.named else (),
        slots=tuple(
            slot for source in sources for slot in ((source,) if isinstance(source, int) else source)
        ),
        groups=tuple(None if isinstance(source, int) else len(source) for source in sources) if many else (),
        read=rule.read,
        targets=step.targets,
        release=step.release,
        gives=tuple(step.step.outputs),
    )


def _grouped(values: Sequence[Any], groups: Sequence[int | None]) -> list[Any]:
    rest = iter(values)
    return [next(rest) if count is None else tuple(next(rest) for _ in range(count)) for count in groups]


def _check_feeds(graph: Graph, plan: Plan) -> None:
    """Two data layers may give values of one name, and `forward` could not tell them apart."""
    names = [feed.port for feed in plan.feeds]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise GraphError(
            f"two data layers of graph {graph.name!r} give {twice[0]!r}",
            code="data-layer",
            details=[feed.value.name for feed in plan.feeds if feed.port == twice[0]],
            fixes=["read both with MultiData, which renames what two of them give"],
        )


def _session(seed: int, factory: NeuralFactory | None) -> TorchSession:
    from neumo.backends.torch.session import TorchSession

    if factory is None:
        return TorchSession(Setup(device="cpu", seed=seed))
    session: Any = factory.session
    if not isinstance(session, TorchSession):
        raise GraphError(
            f"the factory computes with {type(session).__name__}, not with torch",
            code="backend",
            fixes=["NeuralFactory(backend='torch')", "to_torch(graph) without a factory"],
        )
    return session


def _taken(name: str) -> GraphError:
    return GraphError(
        f"a module called {name!r} cannot be part of a torch module: torch uses that name",
        code="name",
        fixes=[f"name it otherwise: .named('{name}_module')"],
    )


def _misuse(
    ports: Sequence[str],
    count: int,
    unknown: Sequence[str],
    twice: Sequence[str],
    missing: Sequence[str],
) -> GraphError:
    if unknown:
        what = f"the graph takes no input {unknown[0]!r}"
    elif count > len(ports):
        what = f"the graph takes {len(ports)} inputs, and got {count}"
    elif twice:
        what = f"the input {twice[0]!r} is given twice, by its place and by its name"
    else:
        what = f"the graph is not given {missing[0]!r}"
    return GraphError(
        what,
        code="inputs",
        details=[f"its inputs are {', '.join(ports)}"],
        fixes=[fix for name in unknown for fix in did_you_mean(name, ports)],
    )
