"""Saving a training while it goes on: all processes together, even if the disk is full for a while."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from neumo.engine.loop.resume import whole_state
from neumo.engine.processes.world import share_trouble, together
from neumo.types.errors import CheckpointError

if TYPE_CHECKING:
    from neumo.data.source import DataSource
    from neumo.engine.callbacks import Callback
    from neumo.engine.loop.train import Training
    from neumo.engine.processes.world import World

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
        trouble = self._try()
        # Of all processes: also one that is not the first may be unable to write its part.
        what = next(
            (text for text in together(training.run.world, trouble.what if trouble else "") if text), ""
        )
        if not what:
            self._failed = 0
            return True
        self._failed += 1
        if must or self._failed >= TRIES:
            raise _gives_up(trouble, what, self._failed, must=must)
        if training.run.first:
            training.run.note(f"{what}; the training goes on, and the next checkpoint is another try")
        return False

    def _try(self) -> CheckpointError | None:
        """Write a checkpoint, or return why the disk does not take it; all processes do the same.

        Whatever else goes wrong in one process is raised in all.
        """
        run = self._training.run
        state, trouble = self._state()
        share_trouble(run.world, trouble if not _may_pass(trouble) else None, "the state of a checkpoint")
        if not any(together(run.world, trouble is not None, "whether there is room")):
            try:
                files = self._training.trainer.writers(run.checkpoints.folder)
                if run.first:
                    run.checkpoints.write(run.step, state, files)
            except Exception as error:
                if run.first:
                    run.checkpoints.discard_parts()
                trouble = error
            share_trouble(run.world, trouble if not _may_pass(trouble) else None, "a checkpoint")
        return trouble if isinstance(trouble, CheckpointError) else None

    def _state(self) -> tuple[dict[str, Any], Exception | None]:
        """The state of the training, and what went wrong with it in this process, such as a full disk."""
        training, run = self._training, self._training.run
        state: dict[str, Any] = {}
        trouble: Exception | None = None
        try:
            if run.first:
                run.checkpoints.check_room(run.step)
            state = whole_state(training, self._callbacks, training.session.versions)
            state["learned"] = self._learned()
        except OSError as error:  # of a callback, such as a log that the checkpoint counts on
            trouble = _refused(error)
        except Exception as error:
            trouble = error
        data = shared_state(training.source, run.world)  # asks all processes, whatever has happened here
        return {**state, "data": data}, trouble


def _may_pass(trouble: Exception | None) -> bool:
    """Whether another try may get over it."""
    return trouble is None or (isinstance(trouble, CheckpointError) and trouble.code in _OF_THE_DISK)


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


def _refused(error: OSError) -> CheckpointError:
    place = f", {Path(error.filename).name}" if isinstance(error.filename, str) else ""
    return CheckpointError(
        f"what belongs to a checkpoint cannot be written{place}: {error.strerror or error}",
        code="checkpoint-disk",
        details=["earlier checkpoints are untouched"],
        fixes=["make room on the disk, or keep fewer: Checkpoint(keep_last=1)"],
    )


def _gives_up(error: CheckpointError | None, what: str, failed: int, *, must: bool) -> CheckpointError:
    when = "at the end of the training" if must else f"{failed} times in a row"
    return CheckpointError(
        f"{what}, {when}",
        code="checkpoint-disk",
        where=error.where if error is not None else None,
        details=["earlier checkpoints are untouched"],
        fixes=list(error.fixes) if error is not None else [],
    )
