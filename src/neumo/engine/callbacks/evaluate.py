"""Evaluating graphs while a training goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from neumo.engine.callbacks.callback import Callback
from neumo.engine.callbacks.rhythm import one_rhythm

if TYPE_CHECKING:
    from neumo.engine.run import Run
    from neumo.graph.graph import Graph


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
        self.every_epochs, self.every_steps = one_rhythm("Evaluate", every_epochs, every_steps)
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
