"""Callbacks: what happens beside a training, at its start and end and at those of epochs, steps and
batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from neumo.engine.run import Run
    from neumo.graph.graph import Graph


class Callback:
    """Is told when something starts and ends; override what you need.

    >>> class StopAtSmallLoss(Callback):
    ...     '''Stops as soon as the loss is small.'''
    ...     def on_step_end(self, run):
    ...         if run.loss < 0.1:
    ...             run.stop("the loss is small")

    `run` tells the step, epoch, batch, loss, learning rate, metrics and history, and can stop the training,
    evaluate a graph, save a checkpoint and leave a note. A callback that counts something returns it from
    `state()`, so that a resumed training goes on counting. At each event those of smaller `order` come
    first: evaluations (10), your own (15), early stopping (20), the log (80), checkpoints (90), the display
    (95).
    """

    order: ClassVar[int] = 15

    def on_action_start(self, run: Run) -> None:
        """The training begins, or goes on from a checkpoint."""

    def on_action_end(self, run: Run) -> None:
        """The training is over."""

    def on_epoch_start(self, run: Run) -> None:
        """An epoch begins, or goes on from its middle."""

    def on_epoch_end(self, run: Run) -> None:
        """All batches of an epoch have been used; `run.epoch_loss` is their mean loss."""

    def on_step_start(self, run: Run) -> None:
        """An update of the weights begins."""

    def on_step_end(self, run: Run) -> None:
        """The weights were updated; `run.loss`, `run.lr` and `run.norm` tell of this step."""

    def on_batch_start(self, run: Run) -> None:
        """A batch is about to be computed."""

    def on_batch_end(self, run: Run) -> None:
        """A batch was computed."""

    def close(self) -> None:
        """The training is over or has failed: let go of files and displays."""

    def state(self) -> dict[str, Any]:
        """Return what a resumed training must know, ready for JSON."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""


class Evaluate(Callback):
    """Evaluates a graph every so many epochs or steps, with the averaged weights if there are any.

    Its metrics appear in `run.metrics`, in the history and in the log, with `name` in front if one is given.
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
        self.every_epochs, self.every_steps = _one_rhythm("Evaluate", every_epochs, every_steps)
        self.best = best
        self.largest = largest
        self.name = name
        self._last = -1

    def on_step_end(self, run: Run) -> None:
        """Evaluate if the step asks for it."""
        if self.every_steps and run.step % self.every_steps == 0:
            self._evaluate(run)

    def on_epoch_end(self, run: Run) -> None:
        """Evaluate if the epoch asks for it."""
        if self.every_epochs and (run.epoch + 1) % self.every_epochs == 0:
            self._evaluate(run)

    def on_action_end(self, run: Run) -> None:
        """Evaluate the last weights, unless that was just done."""
        if run.moved:
            self._evaluate(run)

    def _evaluate(self, run: Run) -> None:
        if self._last == run.step:
            return
        self._last = run.step
        prefix = f"{self.name}." if self.name else ""
        metrics = {prefix + key: value for key, value in run.evaluate(self.graph).items()}
        run.measure(metrics)
        if self.best is not None:
            run.judge(prefix + self.best, largest=self.largest)

    def state(self) -> dict[str, Any]:
        """Remember the last step that was evaluated."""
        return {"last": self._last}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._last = state["last"]


class EarlyStop(Callback):
    """Stops when a metric has not become better for `patience` evaluations in a row.

    >>> EarlyStop("wer", patience=3).patience
    3
    """

    order: ClassVar[int] = 20

    def __init__(self, metric: str, *, patience: int = 5, least: float = 0.0, largest: bool = False) -> None:
        if patience < 1:
            raise ConfigError(f"EarlyStop: patience={patience} is below 1", code="rhythm")
        self.metric = metric
        self.patience = patience
        self.least = least
        self.largest = largest
        self._best: float | None = None
        self._seen = -1
        self._waited = 0

    def on_step_end(self, run: Run) -> None:
        """Look whether the metric is new."""
        measured = run.measured.get(self.metric, -1)
        if measured <= self._seen:
            return
        self._seen = measured
        value = -run.metrics[self.metric] if self.largest else run.metrics[self.metric]
        if self._best is None or value < self._best - self.least:
            self._best, self._waited = value, 0
        else:
            self._waited += 1
        if self._waited >= self.patience:
            run.stop(f"{self.metric} has not become better for {self.patience} evaluations")

    def on_epoch_end(self, run: Run) -> None:
        """Look whether the metric is new."""
        self.on_step_end(run)

    def on_action_end(self, run: Run) -> None:
        """Refuse to have waited for a metric that never came."""
        if self._seen < 0 and run.moved and self.metric not in run.metrics:
            run.note(
                f"EarlyStop: no evaluation gave {self.metric!r}, but {', '.join(run.metrics) or 'nothing'}"
            )

    def state(self) -> dict[str, Any]:
        """Remember the best value and how long it has been waited for a better one."""
        return {"best": self._best, "seen": self._seen, "waited": self._waited}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._best, self._seen, self._waited = state["best"], state["seen"], state["waited"]


class Checkpoint(Callback):
    """Saves checkpoints every so many epochs or steps, whenever there is a new best one, and at the end.

    The `keep_last` newest and the `keep_best` best ones are kept; what is best is said by
    `Evaluate(best=...)`.
    """

    order: ClassVar[int] = 90

    def __init__(
        self,
        *,
        every_epochs: int | None = None,
        every_steps: int | None = None,
        keep_last: int = 2,
        keep_best: int = 1,
    ) -> None:
        self.every_epochs, self.every_steps = _one_rhythm("Checkpoint", every_epochs, every_steps)
        if keep_last < 1:
            raise ConfigError(
                "Checkpoint: keep_last is below 1, so there would be nothing to resume", code="checkpoint"
            )
        self.keep_last = keep_last
        self.keep_best = keep_best
        self.scores: dict[str, float] = {}  # checkpoint name -> its figure; smaller is better
        self._saved = (-1, -1)

    def on_step_end(self, run: Run) -> None:
        """Save if the step asks for it."""
        if (self.every_steps and run.step % self.every_steps == 0) or self._is_new_best(run):
            self._save(run)

    def on_epoch_end(self, run: Run) -> None:
        """Save if the epoch asks for it."""
        if (self.every_epochs and (run.epoch + 1) % self.every_epochs == 0) or self._is_new_best(run):
            self._save(run)

    def on_action_end(self, run: Run) -> None:
        """Save the last weights, unless that was just done."""
        if run.moved and self._saved != (run.step, run.position.epoch):
            self._save(run)

    def _is_new_best(self, run: Run) -> bool:
        return self.keep_best > 0 and run.best is not None and run.best.step == run.step and run.best.is_new

    def _save(self, run: Run) -> None:
        self._saved = (run.step, run.position.epoch)
        name = f"step-{run.step:08d}"
        if run.best is not None and run.measured.get(run.best.metric) == run.step:
            value = run.metrics[run.best.metric]
            self.scores[name] = -value if run.best.largest else value
        if run.best is not None:
            run.best.is_new = False
        run.save()
        self._tidy(run)

    def _tidy(self, run: Run) -> None:
        paths = run.checkpoints.paths()
        there = {path.name for path in paths}
        self.scores = {name: score for name, score in self.scores.items() if name in there}
        best = sorted(self.scores, key=lambda name: (self.scores[name], name))[: self.keep_best]
        run.checkpoints.keep([*paths[: self.keep_last], *(path for path in paths if path.name in best)])

    def state(self) -> dict[str, Any]:
        """Remember how good each checkpoint is."""
        return {"scores": self.scores}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.scores = dict(state["scores"])


class TimeLimit(Callback):
    """Stops after so many minutes, behind a whole step, so that a resumed training goes on exactly there."""

    order: ClassVar[int] = 20

    def __init__(self, minutes: float) -> None:
        self.minutes = minutes

    def on_step_end(self, run: Run) -> None:
        """Look at the clock."""
        if run.seconds > 60 * self.minutes:
            run.stop(f"the time limit of {self.minutes:g} minutes is over")


def _one_rhythm(kind: str, epochs: int | None, steps: int | None) -> tuple[int | None, int | None]:
    if epochs is not None and steps is not None:
        raise ConfigError(
            f"{kind}: give every_epochs or every_steps, not both",
            code="rhythm",
            fixes=[f"{kind}(every_epochs=1)"],
        )
    for name, value in (("every_epochs", epochs), ("every_steps", steps)):
        if value is not None and value < 1:
            raise ConfigError(f"{kind}: {name}={value} is below 1", code="rhythm")
    return (1, None) if epochs is None and steps is None else (epochs, steps)
