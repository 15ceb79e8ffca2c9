"""Evaluating graphs while a training goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from neumo.engine.callback import Callback
from neumo.engine.callbacks.rhythm import one_rhythm
from neumo.engine.checks.figures import hides, own_figures
from neumo.engine.processes.signals import ended_early
from neumo.types import Loss
from neumo.types.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from neumo.engine.loop.run import Run
    from neumo.graph.graph import Graph
    from neumo.graph.module import Metric
    from neumo.graph.value import Value


class Evaluate(Callback):
    """Evaluates a graph every so many epochs or steps, with the averaged weights if there are any.

    Its metrics appear in `run.metrics`, in the history and in the log, with `name` in front if one is given.
    A graph that gives a figure of the training, as one whose output is called `loss` does, needs a name.
    `best` names the metric that decides which step is the best one; the smallest value wins, or the largest.
    """

    order: ClassVar[int] = 10

    def __init__(
        self,
        graph: Graph,
        *,
        every_epochs: int | None = None,
        every_steps: int | None = None,
        best: str | None = None,
        largest: bool = False,
        name: str = "",
    ) -> None:
        self.graph = graph
        self.every_epochs, self.every_steps = one_rhythm("Evaluate", every_epochs, every_steps)
        self.best = best
        self.largest = largest
        self.name = name
        self._last = -1

    @property
    def prefix(self) -> str:
        """What stands in front of its figures: its name, if it has one."""
        return f"{self.name}." if self.name else ""

    def on_step_end(self, run: Run) -> None:
        """Evaluate if the step asks for it."""
        if self.every_steps and run.step % self.every_steps == 0:
            self._evaluate(run)

    def on_epoch_end(self, run: Run) -> None:
        """Evaluate if the epoch asks for it."""
        if self.every_epochs and (run.epoch + 1) % self.every_epochs == 0:
            self._evaluate(run)

    def on_action_end(self, run: Run) -> None:
        """Evaluate the last weights, unless that was just done.

        Where the training was interrupted they are never the best: without the interruption nobody would
        have looked.
        """
        if run.moved:
            self._evaluate(run, judge=not ended_early(run.stopped))

    def _evaluate(self, run: Run, *, judge: bool = True) -> None:
        if self._last == run.step:
            return
        self._last = run.step
        found = run.evaluate(self.graph)
        for note in (f"graph {self.graph.name!r}: {text}" for text in found.notes):
            if note not in run.notes:
                run.note(note)
        metrics = {self.prefix + key: value for key, value in found.items()}
        run.measure(metrics, by=self.graph)
        if self.best is not None and judge:
            run.judge(self.prefix + self.best, largest=self.largest)

    def state(self) -> dict[str, Any]:
        """Remember the last step that was evaluated."""
        return {"last": self._last}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._last = state["last"]


def check_figures(evaluations: Sequence[Evaluate], phases: Iterable[str] = ()) -> None:
    """Raise `ConfigError` where two evaluations give a figure of one name, or one gives a figure that the
    training or a phase of it gives itself: the later would hide the earlier.
    """
    _check_once(evaluations)
    taken = own_figures(phases)
    known: dict[str, Evaluate] = {}
    for each in evaluations:
        for figure in figures(each.graph) or ():
            name = each.prefix + figure
            if name in taken:
                called = each.graph.name if each.graph.name != each.name else "dev"
                raise hides(
                    f"graph {each.graph.name!r} gives {name!r}, which",
                    name,
                    fixes=[f"name={called!r} (in a recipe, name: {called}) makes it '{called}.{figure}'"],
                )
            other = known.setdefault(name, each)
            if other.graph is not each.graph:
                raise ConfigError(
                    f"graphs {other.graph.name!r} and {each.graph.name!r} both give {each.prefix + figure!r}",
                    code="metric",
                    fixes=[f"Evaluate(graph, name={each.graph.name!r}) puts a name in front of its figures"],
                )


def _check_once(evaluations: Sequence[Evaluate]) -> None:
    known: set[tuple[object, ...]] = set()
    for each in evaluations:
        told = (id(each.graph), each.prefix, each.every_epochs, each.every_steps)
        if told in known:
            raise ConfigError(
                f"graph {each.graph.name!r} is evaluated twice at the same time, under one name",
                code="metric",
                fixes=[
                    "leave one of them out",
                    "Evaluate(graph, name='again') puts a name in front of its figures",
                ],
            )
        known.add(told)


def check_followed(followed: Iterable[tuple[str, str]], evaluations: Sequence[Evaluate]) -> None:
    """Raise `ConfigError` for what follows a metric, as pairs of both, that no evaluation gives."""
    known: list[str] = []
    for each in evaluations:
        given = figures(each.graph)
        if given is None:
            return
        known += [each.prefix + figure for figure in given]
    for what, metric in followed:
        if metric not in known:
            raise ConfigError(
                f"{what} follows {metric!r}, and no evaluation gives that figure",
                code="metric",
                details=[f"they give {', '.join(known)}" if known else "there is no evaluation"],
                fixes=did_you_mean(metric, known) or ["evaluate=graph, with a graph that gives it"],
            )


def figures(graph: Graph) -> list[str] | None:
    """Name the figures that an evaluation of a graph gives; None if a metric does not tell before it runs.

    Metrics tell by the result of nothing at all; losses are figures by the name of their output.
    """
    names: list[tuple[str, str]] = []  # (output, figure)
    for output, value in graph.outputs.items():
        if value.step.module.role == "metric":
            told = _figures_of(cast("Metric", value.step.module))
            if told is None:
                return None
            names += [(output, figure) for figure in told]
    plain = [figure for _, figure in names]
    shown = [figure if plain.count(figure) == 1 else f"{output}.{figure}" for output, figure in names]
    return [*shown, *(output for output, value in graph.outputs.items() if _is_loss(value))]


def _figures_of(metric: Metric) -> list[str] | None:
    try:
        return list(metric.start().result())
    except Exception:
        return None  # a metric of a user's own that has nothing to say about nothing


def _is_loss(value: Value) -> bool:
    return isinstance(value.type.element, Loss)
