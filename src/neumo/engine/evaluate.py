"""Evaluation: metrics over a whole data source, and the mean of its losses."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from neumo.engine.backend import Batch, Session
from neumo.engine.plan import compile_plan
from neumo.engine.preflight import data_step
from neumo.engine.verify import Verify, make_guards
from neumo.types import GraphError, Loss

if TYPE_CHECKING:
    from neumo.data.source import DataSource
    from neumo.graph.graph import Graph
    from neumo.graph.module import Metric
    from neumo.graph.value import Step, Value


class Evaluation(dict[str, float]):
    """The figures of one evaluation by name, and how they came about.

    `utterances` has one row for each utterance, if that was asked for: its name, its own figures, and the
    texts that were compared where a metric keeps them. `count` is the number of utterances, `seconds` the
    wall time.
    """

    def __init__(
        self, figures: Mapping[str, float], *, items: int, seconds: float, utterances: list[dict[str, Any]]
    ) -> None:
        super().__init__(figures)
        self.count = items
        self.seconds = seconds
        self.utterances = utterances


@dataclass
class _Measure:
    """A metric of the graph: its name among the outputs, its specification, and where its inputs are."""

    name: str
    metric: Metric
    ports: dict[str, int]  # port -> position among the wanted values
    total: Any = None

    def inputs(self, arrays: list[Any]) -> dict[str, Any]:
        return {port: arrays[position] for port, position in self.ports.items()}


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
        workers: int = 0,
    ) -> None:
        self.session = session
        self.source = source
        self.seed = seed
        wanted: dict[str, Value] = {}
        self.measures = list(_measures(graph, wanted))
        self.losses = {
            name: _want(wanted, value)
            for name, value in graph.outputs.items()
            if isinstance(value.type.element, Loss)
        }
        if not self.measures and not self.losses:
            raise GraphError(
                f"graph {graph.name!r} has nothing to evaluate: no output is a metric or a loss",
                code="nothing-to-evaluate",
                details=[f"{name}: {value.type}" for name, value in graph.outputs.items()],
                fixes=["add the output of a metric module, such as WordErrorRate"],
            )
        self.plan = compile_plan(graph, wanted, training=False)
        self.data = data_step(graph, self.plan.sources)
        self.program = session.program(self.plan, make_guards(self.plan, verify, session.to_numpy))
        self.reader = session.reader(source, [feed.port for feed in self.plan.feeds], workers)

    def run(self, *, per_utterance: bool = False) -> Evaluation:
        """Go through all batches once."""
        started = time.monotonic()
        for measure in self.measures:
            measure.total = measure.metric.start()
        rows: list[dict[str, Any]] = []
        sums = dict.fromkeys(self.losses, 0.0)
        items = 0
        for batch, arrays in self._batches():
            items += len(batch.items)
            for measure in self.measures:
                measure.total.update(**measure.inputs(arrays))
            for name, position in self.losses.items():
                sums[name] += float(arrays[position]) * len(batch.items)
            if per_utterance:
                rows += self._rows(batch, arrays)
        figures = _joined([(measure.name, measure.total.result()) for measure in self.measures])
        figures.update({name: total / max(items, 1) for name, total in sums.items()})
        return Evaluation(figures, items=items, seconds=time.monotonic() - started, utterances=rows)

    def close(self) -> None:
        """End the workers."""
        self.reader.close()

    def _batches(self) -> Iterator[tuple[Batch, list[Any]]]:
        batches = self.source.batches(0)
        with self.session.inference(self.plan, self.seed) as reseed:
            for number, batch in enumerate(self.reader.read(batches, 0)):
                if batch.items:
                    reseed(number)
                    yield (
                        batch,
                        [self.session.to_numpy(value) for value in run_program(self.program, batch.feeds)],
                    )

    def _rows(self, batch: Batch, arrays: list[Any]) -> Iterator[dict[str, Any]]:
        for row, item in enumerate(batch.items):
            figures: list[tuple[str, dict[str, float]]] = []
            texts: dict[str, str] = {}
            for measure in self.measures:
                one = cast(Any, measure.metric.start())
                one.update(**{port: value[row : row + 1] for port, value in measure.inputs(arrays).items()})
                figures.append((measure.name, one.result()))
                texts |= _texts(one)
            yield {"item": self.source.name(item), **_joined(figures), **texts}


def _texts(total: Any) -> dict[str, str]:
    """The texts that an error rate has compared, of one utterance."""
    seen: Any = getattr(getattr(total, "errors", None), "utterances", None)
    return {"reference": seen[0].reference, "hypothesis": seen[0].hypothesis} if seen else {}


def run_program(program: Any, feeds: tuple[Any, ...]) -> list[Any]:
    """Run a program, and say which module it was if one fails."""
    try:
        return program(feeds)
    except Exception as error:
        explained = program.explain(error)
        if explained is error:
            raise
        raise explained from error


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
