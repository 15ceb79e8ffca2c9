"""Saving checkpoints while a training goes on, and keeping the newest and the best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from neumo.engine.callback import Callback
from neumo.engine.callbacks.rhythm import one_rhythm
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from neumo.engine.loop.run import Run


class Checkpoint(Callback):
    """Saves checkpoints every so many epochs or steps, whenever there is a new best one, and at the end.

    The `keep_last` newest and the `keep_best` best ones are kept; what is best is said by
    `Evaluate(best=...)`. While the disk is full the training goes on, and the next checkpoint is another try;
    it ends with an error after three that failed, or if the last one cannot be written.
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
        self.every_epochs, self.every_steps = one_rhythm("Checkpoint", every_epochs, every_steps)
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
        judged = run.judged == run.step and _name(run) not in self.scores  # by the last evaluation of all
        if run.moved and (judged or self._saved != (run.step, run.position.epoch)):
            self._save(run, must=True)

    def _is_new_best(self, run: Run) -> bool:
        return self.keep_best > 0 and run.best is not None and run.best.step == run.step and run.best.is_new

    def _save(self, run: Run, *, must: bool = False) -> None:
        if run.best is not None and run.judged == run.step:
            value = run.metrics[run.best.metric]
            self.scores[_name(run)] = -value if run.best.largest else value
        if run.best is not None:
            run.best.is_new = False
        run.save(must=must)

    def on_saved(self, run: Run) -> None:
        """Remove the checkpoints that are not to be kept; one process does."""
        self._saved = (run.step, run.position.epoch)
        if run.first:
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


def _name(run: Run) -> str:
    return f"step-{run.step:08d}"
