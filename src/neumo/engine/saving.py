"""Saving a training while it goes on: all processes together, even if the disk is full for a while."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from neumo.engine.resume import whole_state
from neumo.engine.world import first_says, together
from neumo.types.errors import CheckpointError

if TYPE_CHECKING:
    from neumo.data.source import DataSource
    from neumo.engine.callbacks import Callback
    from neumo.engine.train import Training
    from neumo.engine.world import World

TRIES: Final = 3  # checkpoints in a row that may fail
_OF_THE_DISK: Final = ("checkpoint-disk", "checkpoint-path")  # what another try may get over


class Saver:
    """Saves a training; a disk that refuses is noted, and the next checkpoint is another try.

    After `TRIES` failures in a row, or at the end of the training, it raises `CheckpointError` in all
    processes. The earlier checkpoints are untouched in any case.
    """

    def __init__(
        self, training: Training, callbacks: Sequence[Callback], learned: Callable[[], dict[str, Any]]
    ) -> None:
        self._training = training
        self._callbacks = callbacks
        self._learned = learned
        self._failed = 0  # in a row

    def __call__(self, *, must: bool) -> bool:
        """Save now, and say whether that was possible; if it `must` be, there is no other try."""
        training = self._training
        training.count_infeasible()
        state = self._state()
        trouble: CheckpointError | None = None
        try:
            self._write(state)
        except CheckpointError as error:
            if error.code not in _OF_THE_DISK:
                raise
            trouble = error
        what = first_says(training.run.world, trouble.what if trouble is not None else "")
        if not what:
            self._failed = 0
            return True
        self._failed += 1
        if must or self._failed >= TRIES:
            raise _gives_up(trouble, what, self._failed, must=must)
        if training.run.first:
            training.run.note(f"{what}; the training goes on, and the next checkpoint is another try")
        return False

    def _state(self) -> dict[str, Any]:
        training = self._training
        state = whole_state(training, self._callbacks, training.session.versions)
        return {
            **state,
            "learned": self._learned(),
            "data": shared_state(training.source, training.run.world),
        }

    def _write(self, state: dict[str, Any]) -> None:
        run = self._training.run
        files = self._training.trainer.writers(run.checkpoints.folder)
        if run.first:
            run.checkpoints.check_room(run.step)
            run.checkpoints.write(run.step, state, files)


def shared_state(source: DataSource, world: World) -> dict[str, Any] | None:
    """What a data source remembers of its bad items, as all processes know them; None if nothing."""
    from neumo.data.quarantine import join_states  # loads numpy, which reading a recipe does not need

    remember: Callable[[], dict[str, Any]] | None = getattr(source, "state", None)
    return join_states(together(world, remember() if remember is not None else None))


def restore_source(source: DataSource, state: dict[str, Any] | None) -> None:
    """Let a data source know of the bad items that were found before."""
    if state is not None and hasattr(source, "load_state"):
        known: Any = source
        known.load_state(state)


def _gives_up(error: CheckpointError | None, what: str, failed: int, *, must: bool) -> CheckpointError:
    when = "at the end of the training" if must else f"{failed} times in a row"
    return CheckpointError(
        f"{what}, {when}",
        code="checkpoint-disk",
        where=error.where if error is not None else None,
        details=["earlier checkpoints are untouched"],
        fixes=list(error.fixes) if error is not None else [],
    )
