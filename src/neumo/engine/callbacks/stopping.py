"""Ending a training early: when a metric gets no better, or when the time is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from neumo.engine.callback import Callback
from neumo.engine.checks.arguments import check_kind
from neumo.engine.processes.launch import seconds_since_launch
from neumo.engine.processes.signals import TIME_LIMIT
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from neumo.engine.loop.run import Run


class EarlyStop(Callback):
    """Stops when a metric has not become better for `patience` evaluations in a row.

    A training that it has stopped stays stopped when it is resumed, until it is given more patience. The
    evaluation behind an interruption, such as a signal or a time limit, does not count: the training stops
    where it would have without it.

    >>> EarlyStop("wer", patience=3).patience
    3
    """

    order: ClassVar[int] = 20

    def __init__(self, metric: str, *, patience: int = 5, least: float = 0.0, largest: bool = False) -> None:
        check_kind("EarlyStop", "metric", metric, str, code="metric")
        check_kind("EarlyStop", "patience", patience, int, code="rhythm")
        check_kind("EarlyStop", "least", least, float, code="rhythm")
        if patience < 1:
            raise ConfigError(f"EarlyStop: patience={patience} is below 1", code="rhythm")
        self.metric = metric
        self.patience = patience
        self.least = least
        self.largest = largest
        self._best: float | None = None
        self._seen = -1
        self._waited = 0

    def on_action_start(self, run: Run) -> None:
        """Stop at once where a training goes on that was over, and is not given more patience."""
        if self._waited >= self.patience:
            self._stop(run)

    def on_step_end(self, run: Run) -> None:
        """Look whether the metric was measured at this step."""
        if not run.measured.get(self.metric) == run.step != self._seen:
            return
        self._seen = run.step
        value = -run.metrics[self.metric] if self.largest else run.metrics[self.metric]
        if value == value and (self._best is None or value < self._best - self.least):
            self._best, self._waited = value, 0
        else:
            self._waited += 1
        if self._waited >= self.patience:
            self._stop(run)

    def on_epoch_end(self, run: Run) -> None:
        """Look whether the metric was measured at this step."""
        self.on_step_end(run)

    def _stop(self, run: Run) -> None:
        run.stop(f"{self.metric} has not become better for {self.patience} evaluations")

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


class TimeLimit(Callback):
    """Stops after so many minutes, behind a whole step, so that a resumed training goes on exactly there.

    The minutes are those of the job: where a launcher has begun processes anew, the time before counts.
    """

    order: ClassVar[int] = 20

    def __init__(self, minutes: float) -> None:
        check_kind("TimeLimit", "minutes", minutes, float, code="rhythm")
        if not minutes > 0:
            raise ConfigError(f"TimeLimit: minutes={minutes} is not above 0", code="rhythm")
        self.minutes = minutes

    def on_step_end(self, run: Run) -> None:
        """Look at the clock."""
        if max(run.seconds, seconds_since_launch()) > 60 * self.minutes:
            run.stop(f"{TIME_LIMIT} {self.minutes:g} minutes is over")
