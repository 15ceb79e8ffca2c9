"""Evaluation: metrics over a whole data source, and the mean of its losses."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from neumo.engine.backend import Session
from neumo.engine.checks.preflight import data_step, infeasible_flags, listed, loss_count
from neumo.engine.checks.verify import Verify
from neumo.engine.passes.one_pass import Pass
from neumo.engine.passes.shared_pass import Computed
from neumo.engine.plan import compile_plan
from neumo.engine.processes.workers import Workers
from neumo.engine.processes.world import World, share_trouble
from neumo.types import ConfigError, GraphError, Loss

if TYPE_CHECKING:
    from neumo.data.source import DataSource
    from neumo.graph.graph import Graph
    from neumo.graph.module import Metric
    from neumo.graph.value import Step, Value


class Evaluation(dict[str, float]):
    """The figures of one evaluation by name, and how they came about.

    `utterances` has one row for each utterance, if that was asked for: its name, its own figures, and the
    texts that were compared where a metric keeps them. `count` is the number of utterances, `seconds` the
    wall time. `infeasible` names the utterances that a loss had to leave out; a loss that left out all of
    them is NaN, which is never the best.
    """

    def __init__(
        self,
        figures: Mapping[str, float],
        *,
        items: int,
        seconds: float,
        utterances: list[dict[str, Any]],
        infeasible: Sequence[str] = (),
    ) -> None:
        super().__init__(figures)
        self.count = items
        self.seconds = seconds
        self.utterances = utterances
        self.infeasible = tuple(infeasible)

    @property
    def notes(self) -> list[str]:
        """What must be said beside the figures."""
        if not self.infeasible:
            return []
        left_out = f"leave out {len(self.infeasible)} of {self.count} utterances, too short for their text"
        return [f"a loss of the evaluation had to {left_out}: {listed(self.infeasible)}"]


@dataclass
class _Measure:
    """A metric of the graph: its name among the outputs, its specification, and where its inputs are."""

    name: str
    metric: Metric
    ports: dict[str, int]  # port -> position among the wanted values

    def inputs(self, arrays: list[Any]) -> dict[str, Any]:
        return {port: arrays[position] for port, position in self.ports.items()}


@dataclass
class _LossMean:
    """The mean of a loss: where it is among the wanted values, how many things it is over, and where it flags
    what it left out.
    """

    name: str
    loss: int
    count: int | None  # None: it is the mean over the utterances
    flags: int | None  # None: it leaves nothing out
    total: float = 0.0
    things: float = 0.0
    items: int = 0
    left_out: list[int] = field(default_factory=list[int])

    def add(self, batch: Computed) -> None:
        """Count the loss of a batch as many times as it is the mean over."""
        self.items += len(batch.items)
        if self.flags is not None:
            flags = batch.arrays[self.flags].reshape(-1)
            self.left_out += [item for item, flag in zip(batch.items, flags, strict=True) if flag]
        things = len(batch.items) if self.count is None else float(batch.arrays[self.count].sum())
        if things:
            self.total += float(batch.arrays[self.loss]) * things
            self.things += things

    @property
    def mean(self) -> float:
        """The mean; NaN if it is over nothing."""
        return self.total / self.things if self.things and len(self.left_out) < self.items else math.nan


class _Count:
    """What one evaluation has seen so far."""

    def __init__(self, measures: list[_Measure], losses: list[_LossMean]) -> None:
        self.items = 0
        self._totals = [(measure, cast(Any, measure.metric.start())) for measure in measures]
        self._losses = [replace(loss, left_out=[]) for loss in losses]

    def add(self, batch: Computed) -> None:
        """Count one batch."""
        self.items += len(batch.items)
        for measure, total in self._totals:
            total.update(**measure.inputs(batch.arrays))
        for loss in self._losses:
            loss.add(batch)

    def figures(self) -> dict[str, float]:
        """What it came to."""
        found = _joined([(measure.name, total.result()) for measure, total in self._totals])
        return {**found, **{loss.name: loss.mean for loss in self._losses}}

    @property
    def left_out(self) -> list[int]:
        """The items that any of the losses had to leave out, each once."""
        return list(dict.fromkeys(item for loss in self._losses for item in loss.left_out))


class Evaluator:
    """Evaluates one graph, as often as wanted: the plan, the data and its workers are prepared once."""

    def __init__(
        self,
        session: Session,
        graph: Graph,
        source: DataSource,
        *,
        seed: int = 0,
        verify: Verify = "boundary",
        workers: int | Workers = 0,
    ) -> None:
        self.session = session
        self.source = source
        self.seed = seed
        wanted: dict[str, Value] = {}
        self.measures = list(_measures(graph, wanted))
        self.losses = [
            _loss_mean(name, value, wanted)
            for name, value in graph.outputs.items()
            if isinstance(value.type.element, Loss)
        ]
        if not self.measures and not self.losses:
            raise GraphError(
                f"graph {graph.name!r} has nothing to evaluate: no output is a metric or a loss",
                code="nothing-to-evaluate",
                details=[f"{name}: {value.type}" for name, value in graph.outputs.items()],
                fixes=["add the output of a metric module, such as WordErrorRate"],
            )
        plan = compile_plan(graph, wanted, training=False)
        self.data = data_step(graph, plan.sources)
        self._pass = Pass.prepare(session, plan, source, seed=seed, verify=verify, workers=workers)

    def run(self, *, per_utterance: bool = False) -> Evaluation:
        """Go through all batches once; several processes share them, and all get the figures."""
        started = time.monotonic()
        count = _Count(self.measures, self.losses)
        rows: list[dict[str, Any]] = []

        def use(batch: Computed) -> None:
            if batch.items:
                count.add(batch)
                if per_utterance:
                    rows.extend(self._rows(batch))

        self._pass.run(use)
        world = self.session.world
        figures, items, rows, infeasible = _shared(
            world,
            lambda: [count.figures(), count.items, rows, [self.source.name(item) for item in count.left_out]],
        )
        seconds = time.monotonic() - started
        return Evaluation(figures, items=items, seconds=seconds, utterances=rows, infeasible=infeasible)

    def close(self) -> None:
        """End the workers."""
        self._pass.close()

    def _rows(self, batch: Computed) -> Iterator[dict[str, Any]]:
        for row, item in enumerate(batch.items):
            figures: list[tuple[str, dict[str, float]]] = []
            texts: dict[str, str] = {}
            for measure in self.measures:
                one = cast(Any, measure.metric.start())
                one.update(
                    **{port: value[row : row + 1] for port, value in measure.inputs(batch.arrays).items()}
                )
                figures.append((measure.name, one.result()))
                texts |= _texts(one)
            yield {"item": self.source.name(item), **_joined(figures), **texts}


def by_name(graphs: Mapping[str, Graph] | Sequence[Graph]) -> dict[str, Graph]:
    """Give the graphs of several sets the names by which their figures are told apart.

    Raises `ConfigError` for two graphs of one name.
    """
    if isinstance(graphs, Mapping):
        return dict(graphs)
    names = [graph.name for graph in graphs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"two of the graphs to evaluate are called {name!r}",
                code="evaluate",
                fixes=["evaluate({'dev': one, 'test': another})"],
            )
    return dict(zip(names, graphs, strict=True))


def _texts(total: Any) -> dict[str, str]:
    """The texts that an error rate has compared, of one utterance."""
    seen: Any = getattr(getattr(total, "errors", None), "utterances", None)
    return {"reference": seen[0].reference, "hypothesis": seen[0].hypothesis} if seen else {}


def _shared(world: World, make: Callable[[], list[Any]]) -> list[Any]:
    """Give all processes what the first one makes, or the reason why it cannot."""
    if world.size == 1:
        return make()
    text, trouble = "null", None
    try:
        if world.rank == 0:
            text = json.dumps(make(), default=_plain)
    except Exception as error:
        trouble = error
    share_trouble(world, trouble, "an evaluation")
    return json.loads(world.share(text.encode()))


def _plain(number: Any) -> Any:
    """A number of numpy as one of Python."""
    return number.item()


def _loss_mean(name: str, value: Value, wanted: dict[str, Value]) -> _LossMean:
    counted, flags = loss_count(value), infeasible_flags([value.step])
    return _LossMean(
        name,
        _want(wanted, value),
        None if counted is None else _want(wanted, counted),
        _want(wanted, flags[0]) if flags else None,
    )


def _measures(graph: Graph, wanted: dict[str, Value]) -> Iterator[_Measure]:
    for name, value in graph.outputs.items():
        step: Step = value.step
        if step.module.role == "metric":
            ports = {port: _want(wanted, cast("Value", given)) for port, given in step.inputs.items()}
            yield _Measure(name, cast("Metric", step.module), ports)


def _want(wanted: dict[str, Value], value: Value) -> int:
    """Ask for a value, once, and say where it will be among the wanted ones."""
    key = f"{id(value.step)}.{value.port}"
    wanted.setdefault(key, value)
    return list(wanted).index(key)


def _joined(results: list[tuple[str, dict[str, float]]]) -> dict[str, float]:
    """Put the figures of several metrics side by side; where two have the same name, the output's goes in
    front.
    """
    names = [key for _, figures in results for key in figures]
    return {
        (key if names.count(key) == 1 else f"{output}.{key}"): value
        for output, figures in results
        for key, value in figures.items()
    }
