"""What a training computes with, for callbacks that look into it or change it on its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neumo.engine.plan import Plan, compile_plan
from neumo.graph.inputs import is_open
from neumo.graph.names import step_names
from neumo.graph.value import Value
from neumo.types.errors import GraphError, did_you_mean

if TYPE_CHECKING:
    from neumo.data.source import DataSource
    from neumo.engine.backend import Program, TrainedState
    from neumo.engine.factory import NeuralFactory
    from neumo.engine.loop.run import Current
    from neumo.graph.graph import Graph

Asked = str | Value


@dataclass(eq=False)
class Stage:
    """The factory, the graph and the data of a training, the plan of its loss, and what updates the weights.

    `values` computes any value of the graph for the batch of now.
    """

    factory: NeuralFactory
    graph: Graph
    plan: Plan
    source: DataSource
    trainer: TrainedState
    _programs: dict[tuple[Any, ...], tuple[Plan, Program]] = field(
        default_factory=dict[tuple[Any, ...], tuple["Plan", "Program"]]
    )

    def values(self, asked: Sequence[Asked], current: Current, epoch: int) -> list[Any]:
        """Compute values of the graph for a batch, as numpy arrays, with the weights of now.

        The modes and the random numbers are those of the training step, so dropout drops the same; nothing
        that the step will see is changed. The plan of a set of values is made once.
        """
        chosen = [find_value(self.graph, each) for each in asked]
        plan, program = self._program(chosen)
        session = self.factory.session
        feeds = self._feeds(plan, current, epoch)
        with session.observing(plan, self.plan, current.seed):
            return [_own(session.to_numpy(value)) for value in program(feeds)]

    def _program(self, chosen: Sequence[Value]) -> tuple[Plan, Program]:
        key = tuple(value.key for value in chosen)
        if key not in self._programs:
            plan = compile_plan(self.graph, {str(place): value for place, value in enumerate(chosen)})
            self._programs[key] = plan, self.factory.session.program(plan)
        return self._programs[key]

    def _feeds(self, plan: Plan, current: Current, epoch: int) -> list[Any]:
        """Take what the training has read for its loss, and read again what only these values need."""
        known = dict(zip((feed.value.key for feed in self.plan.feeds), current.feeds, strict=True))
        missing = [feed for feed in plan.feeds if feed.value.key not in known]
        if missing:
            batch = self._collated(current.items, epoch)
            arrays = self.factory.session.feed(batch.get(feed.port) for feed in missing)
            known.update(zip((feed.value.key for feed in missing), arrays, strict=True))
        return [known[feed.value.key] for feed in plan.feeds]

    def _collated(self, items: Sequence[int], epoch: int) -> Mapping[str, Any]:
        return self.source.collate([self.source.item(item, epoch) for item in items])


def find_value(graph: Graph, asked: Asked) -> Value:
    """Find a value of a graph: itself, an output by name, or a step and a port such as `encoder.features`.

    >>> from neumo.graph import Graph, inputs
    >>> from neumo.graph.adapters import Resample
    >>> from neumo.types import Audio, B, T
    >>> slow = inputs(audio=Audio(rate=8000)[B, T])
    >>> graph = Graph(outputs={"out": Resample(8000, 16000)(audio=slow.audio).audio})
    >>> find_value(graph, "out").port, find_value(graph, "resample.audio").port
    ('audio', 'audio')

    Raises `GraphError` with the nearest match for what is no value of the graph, and for metrics.
    """
    value = _look_up(graph, asked)
    if value.step.module.role == "metric":
        raise GraphError(
            f"{value.name} is a metric: a figure of a whole evaluation, not of a batch",
            code="output",
            fixes=["run.metrics has the figures of the last evaluation"],
        )
    return value


def _look_up(graph: Graph, asked: Asked) -> Value:
    if isinstance(asked, Value):
        graph.consumers(asked)  # or says that it is of another graph
        return asked
    if asked in graph.outputs:
        return graph.outputs[asked]
    named = _ports(graph)
    if asked not in named:
        names = [*graph.outputs, *named]
        raise GraphError(
            f"graph {graph.name!r} has no value {asked!r}",
            code="output",
            details=["a value is named by an output of the graph, or by a step and a port of it"],
            fixes=did_you_mean(asked, names) or [f"it has {', '.join(names[:8])}"],
        )
    return named[asked]


def port_names(graph: Graph) -> dict[tuple[int, str], str]:
    """Name all values of a graph by step and port: `{value.key: "encoder.features"}`."""
    names = step_names(graph)
    return {
        value.key: f"{names[id(step)]}.{port}" for step in graph.steps for port, value in step.outputs.items()
    }


def _ports(graph: Graph) -> dict[str, Value]:
    """All values by step and port; the first call of a module goes by the module's own name as well."""
    names = port_names(graph)
    found = {names[value.key]: value for value in graph.values()}
    for step in graph.steps:
        if not is_open(step):
            name = graph.name_of(step.module)
            for port, value in step.outputs.items():
                found.setdefault(f"{name}.{port}", value)
    return found


def _own(array: Any) -> Any:
    """A copy: what a callback does to it must not reach the training."""
    return array.copy() if hasattr(array, "copy") else array
