"""What a callback is: told of the start and end of a training, its epochs, its steps and its batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from neumo.engine.callbacks.samples import Sample
    from neumo.engine.loop.run import Run

EVENTS: Final = tuple(
    f"on_{what}_{when}" for what in ("action", "epoch", "step", "batch") for when in ("start", "end")
)


class Callback:
    """Is told when something starts and ends; override what you need.

    >>> class StopAtSmallLoss(Callback):
    ...     '''Stops as soon as the loss is small.'''
    ...     def on_step_end(self, run):
    ...         if run.loss < 0.1:
    ...             run.stop("the loss is small")

    `run` tells the step, epoch, batch, loss, learning rate, metrics and history, and can stop the training,
    evaluate a graph, ask for a checkpoint and leave a note; `run.value("encoder.features")` computes any
    value of the graph for the batch of now. A callback that counts something returns it from `state()`, so
    that a resumed training goes on counting. At each event those of smaller `order` come first: what changes
    the training (5), evaluations (10), your own (15), early stopping (20), samples (60), the log (80),
    trackers (85), checkpoints (90), the display (95).

    Of several processes each tells its callbacks, unless `only_first` says that the first process is enough.
    """

    order: ClassVar[int] = 15
    only_first: ClassVar[bool] = False  # whether it runs in the first process only: logs, displays, writers

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

    def on_sample(self, run: Run, sample: Sample) -> None:
        """A sample of what the graph computes was written into the run folder; for trackers."""

    def on_saved(self, run: Run) -> None:
        """A checkpoint was written, behind all that was told before."""

    def close(self) -> None:
        """The training is over or has failed: let go of files and displays."""

    def state(self) -> dict[str, Any]:
        """Return what a resumed training must know, ready for JSON."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
