"""Runs each graph once on a batch made from its types: no data is read, every guard is on.

What composing cannot see shows here in seconds instead of after an epoch: code that does not do what its
signature says, a loss without a gradient, a metric that fails.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from neumo.engine.backend import Session, Setup, TrainingSetup, find_backend
from neumo.engine.checks.preflight import check_trainable, find_loss
from neumo.engine.checks.verify import make_guards
from neumo.engine.passes.one_pass import run_program
from neumo.engine.plan import compile_plan
from neumo.engine.updates.optimizers import SGD
from neumo.engine.updates.precision import LossScale, read_loss_scale
from neumo.types import BackendError, NeumoError, Size

if TYPE_CHECKING:
    from neumo.engine.plan import Plan
    from neumo.graph.graph import Graph
    from neumo.graph.module import Metric
    from neumo.graph.value import Value


@dataclass(frozen=True)
class DryRun:
    """What one generated batch did in one graph.

    `calls` counts the calls of modules, `figures` are its losses and the main figure of each metric (of
    noise, with weights that know nothing), `gradient` is the norm of the gradient of a graph that is
    trained, `seconds` is the time with building.
    """

    graph: str
    calls: int
    seconds: float
    figures: Mapping[str, float] = field(default_factory=dict[str, float])
    gradient: float | None = None

    def __str__(self) -> str:
        told = [f"{name} {value:.4g}" for name, value in self.figures.items()]
        told += [f"gradient {self.gradient:.4g}"] if self.gradient is not None else []
        figures = f": {', '.join(told)}" if told else ""
        return f"{self.graph}, {self.calls} calls in {self.seconds:.2f} s{figures}"


def dry_run(
    graph: Graph,
    session: Session | None = None,
    *,
    train: bool | None = None,
    loss: str | None = None,
    seed: int = 0,
) -> DryRun:
    """Run a graph once on a generated batch, with every guard on the values of every port.

    >>> from neumo.graph import Graph, inputs
    >>> from neumo.graph.adapters import LogSoftmax
    >>> from neumo.types import B, Logits, T, V
    >>> scores = LogSoftmax()(logits=inputs(x=Logits()[B, T, V]).x).log_probs
    >>> dry_run(Graph(outputs={"scores": scores})).calls
    1

    What data layers and callers would give is made from their types. With `train=True`, the default for
    graphs of the mode "train", the loss is computed in training mode and followed back to the weights, which
    stay as they are. Metrics are given what the graph computes. `session` holds the modules; without one they
    are built on the CPU. Raises what the action would raise: `PortError` for a value that is not what its
    type says, `GraphError` for a loss that trains nothing, `BackendError` for code that fails.
    """
    start = time.perf_counter()
    session = session or find_backend("torch").open_session(Setup(device="cpu", seed=seed))
    if train if train is not None else graph.mode == "train":
        made = _trained(graph, session, loss, seed)
    else:
        made = _inferred(graph, session, seed)
    return DryRun(graph.name, made.calls, time.perf_counter() - start, made.figures, made.gradient)


@dataclass(frozen=True)
class _Made:
    calls: int
    figures: Mapping[str, float]
    gradient: float | None = None


def _trained(graph: Graph, session: Session, loss: str | None, seed: int) -> _Made:
    """One training step at a learning rate of 0: forward, backward, no change."""
    name, value = find_loss(graph, loss)
    plan = compile_plan(graph, {**_computed(graph), name: value})
    session.build(plan.modules)
    check_trainable(session, graph, value)
    program = session.program(plan, make_guards(plan, "values", session.to_numpy))
    setup = TrainingSetup(loss=name, optimizer=SGD(lr=0.0), loss_scale=_scale(session))
    trainer = session.trainer(program, plan, setup)
    feeds, before = _feeds(graph, plan, session, seed), session.weights(plan.modules)
    try:
        trainer.accumulate(feeds, seed=seed, weight=1.0, reference=1.0, last=True)
        update = trainer.apply(1.0)
    except Exception as error:
        explained = program.explain(error)
        if explained is error:
            raise
        raise explained from error
    finally:  # a training step moves the statistics of normalisation even where no weight moves
        session.load_weights(plan.modules, before, partial=False)
    if update.skipped not in ("", "empty"):
        raise BackendError(
            f"the {update.skipped} of graph {graph.name!r} is not finite on a generated batch",
            code="non-finite",
            details=[f"loss {update.loss}, norm of the gradient {update.norm}"],
            fixes=["look for logarithms, roots and divisions of numbers that may be 0"],
        )
    return _Made(len(plan.steps), {name: update.loss}, update.norm)


def _scale(session: Session) -> LossScale | None:
    """Leave an fp16 loss as it is: a training finds the scale that fits, and one step does not."""
    first, *others = session.precision.split(", ")
    half = first == "fp16" or any(each.endswith(" in fp16") for each in others)
    return read_loss_scale(1.0) if half else None


def _inferred(graph: Graph, session: Session, seed: int) -> _Made:
    """Everything that the graph computes, in evaluation mode, and what its metrics make of it."""
    wanted = _computed(graph)
    plan = compile_plan(graph, wanted, training=False)
    session.build(plan.modules)
    program = session.program(plan, make_guards(plan, "values", session.to_numpy))
    feeds = _feeds(graph, plan, session, seed)
    with session.inference(plan, seed) as reseed:
        reseed(0)
        values = run_program(program, feeds)
    arrays = {
        name: session.to_numpy(value) if hasattr(value, "shape") else value
        for name, value in zip(plan.wanted, values, strict=True)
    }
    figures: dict[str, float] = {}
    for name, value in graph.outputs.items():
        if value.step.module.role == "metric":
            figures.update(_measured(name, value, arrays))
        elif value.type.element.dtype == "float" and not value.type.axes and arrays[name] is not None:
            figures[name] = float(arrays[name])
    return _Made(len(plan.steps), figures)


def _computed(graph: Graph) -> dict[str, Value]:
    """The outputs that a program computes, and what the metrics among them are given."""
    wanted: dict[str, Value] = {}
    for name, value in graph.outputs.items():
        if value.step.module.role != "metric":
            wanted[name] = value
            continue
        for port, given in value.step.edges():
            wanted[f"{name}.{port}"] = given
    return wanted


def _measured(name: str, value: Value, arrays: Mapping[str, Any]) -> dict[str, float]:
    """Let a metric count one batch; the first of its figures is the one it is for."""
    counted = cast("Metric", value.step.module).start()
    try:
        cast("Any", counted).update(**{port: arrays[f"{name}.{port}"] for port in value.step.inputs})
        return {figure: float(number) for figure, number in list(counted.result().items())[:1]}
    except NeumoError:
        raise
    except Exception as error:
        raise BackendError(
            f"the metric {value.name} fails on what the graph computes: {type(error).__name__}: {error}",
            code="module-failed",
            where=str(value.step.location) if value.step.location is not None else None,
        ) from error


def _feeds(graph: Graph, plan: Plan, session: Session, seed: int) -> tuple[Any, ...]:
    """A batch for everything that comes from outside, with sizes that leave something of every axis."""
    from neumo.data.generate import example_batch

    types = {str(feed.slot): feed.value.type for feed in plan.feeds}
    batch = example_batch(types, seed=seed, also=list(_sizes(graph, types.values())))
    return tuple(_brought(session, value) for value in batch.values())


def _sizes(graph: Graph, fed: Iterable[Any]) -> Iterable[Size]:
    """The sizes of all values of the graph that follow from what is fed."""
    known = {symbol for type in fed for symbol in type.symbols()}
    for value in graph.values():
        for size in value.type.sizes():
            if size.symbols() <= known:
                yield size


def _brought(session: Session, value: Any) -> Any:
    """Bring arrays to the device, those in lists and dicts as well; texts stay."""
    if isinstance(value, list):
        return [_brought(session, part) for part in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        return {name: _brought(session, part) for name, part in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, str) or value.dtype.kind == "U":
        return value
    return session.feed([value])[0]
