"""Lowering the learning rate where a metric has stopped to become better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from neumo.engine.callback import Callback

if TYPE_CHECKING:
    from neumo.engine.loop.run import Run
    from neumo.engine.updates.schedules import Plateau


class Lowering(Callback):
    """The schedule of a `Plateau`, made for one training: a function of the step that follows a metric.

    An evaluation counts at the step or epoch end where it was made, as often as evaluations are. What is
    remembered is part of checkpoints, so that the rates of a resumed training are those of an uninterrupted
    one.
    """

    order: ClassVar[int] = 20

    def __init__(self, spec: Plateau, warm: int) -> None:
        self.spec = spec
        self.warm = warm  # steps
        self.times = 0  # how often the rate was lowered
        self._best: float | None = None
        self._waited = 0
        self._resting = 0
        self._seen = -1

    def __call__(self, step: int) -> float:
        """Return the factor of a step, counted from 0, as far as the metric is known now."""
        level = max(self.spec.gamma**self.times, self.spec.end)
        return level * ((step + 1) / self.warm if step < self.warm else 1.0)

    def on_step_end(self, run: Run) -> None:
        """Look whether the metric was measured at this step."""
        if run.measured.get(self.spec.metric) == run.step != self._seen:
            self._seen = run.step
            self._judge(run.metrics[self.spec.metric])

    def on_epoch_end(self, run: Run) -> None:
        """Look whether the metric was measured at this step."""
        self.on_step_end(run)

    def on_action_end(self, run: Run) -> None:
        """Say that the metric never came, which kept the rate as it was."""
        if self._seen < 0 and run.moved and self.spec.metric not in run.metrics:
            given = ", ".join(run.metrics) or "nothing"
            run.note(f"Plateau: no evaluation gave {self.spec.metric!r}, but {given}")

    def _judge(self, metric: float) -> None:
        value = -metric if self.spec.largest else metric
        better = value == value and (self._best is None or value < self._best - self.spec.least)
        if better:
            self._best = value
        self._waited = 0 if better or self._resting else self._waited + 1
        self._resting = max(self._resting - 1, 0)
        if self._waited >= self.spec.patience:
            self.times, self._waited, self._resting = self.times + 1, 0, self.spec.cooldown

    def state(self) -> dict[str, Any]:
        """Remember how far the rate was lowered, and what is waited for."""
        return {
            "times": self.times,
            "best": self._best,
            "waited": self._waited,
            "resting": self._resting,
            "seen": self._seen,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.times, self._best, self._waited = state["times"], state["best"], state["waited"]
        self._resting, self._seen = state["resting"], state["seen"]
