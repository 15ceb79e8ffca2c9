"""What a training does when its process is told to end: finish the step, save, and say how to go on."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from neumo.engine.processes.launch import say_heard

if TYPE_CHECKING:
    from neumo.engine.loop.run import Run

REASONS: Final = {
    "SIGTERM": "SIGTERM: it was told to end",
    "SIGINT": "SIGINT: it was interrupted",
    "SIGUSR1": "SIGUSR1: the time limit of its job is near",  # sbatch --signal=USR1@300
}
TIME_LIMIT: Final = "the time limit of"  # how the reason of `TimeLimit` begins
_AGAIN: Final = b"\nfinishing this step, then saving; Ctrl-C again ends it at once\n"


class Signals:
    """Stops a run behind a whole step, in all its processes, when one of them gets a signal to end.

    A second SIGINT raises `KeyboardInterrupt` at once. Handlers are those of the main thread, and are put
    back afterwards; a signal that was ignored before stays ignored.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._before: dict[int, Any] = {}
        self._interrupted = False

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for name in REASONS:
                number = getattr(signal, name, None)  # Windows has no SIGUSR1
                if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._hear)
        if self._before:
            say_heard(False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before:
            say_heard(None)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True
            if self._run.first:
                os.write(2, _AGAIN)  # not print: it may have been interrupted itself
        say_heard(True)
        self._run.stop(REASONS[signal.Signals(number).name])


def ended_by(stopped: str) -> str:
    """Name the signal that has ended a run, "" if none has.

    >>> ended_by("SIGTERM: it was told to end"), ended_by("all epochs are done")
    ('SIGTERM', '')
    """
    name = stopped.partition(":")[0]
    return name if name in REASONS else ""


def ended_early(stopped: str) -> bool:
    """Say whether a run was ended from outside: by a signal, or by its time limit."""
    return bool(ended_by(stopped)) or stopped.startswith(TIME_LIMIT)


def how_to_go_on(run: Run) -> str:
    """Say where a run that was ended early goes on from, if it can."""
    saved = run.checkpoints.paths() if run.folder is not None else []
    if not saved:
        return f"{run.stopped}, behind step {run.step}; there is no checkpoint to go on from"
    where = "" if saved[0].name == f"step-{run.step:08d}" else f", from step {int(saved[0].name[5:])}"
    return f"{run.stopped}, behind step {run.step}; the same training goes on when it is resumed{where}"


def pass_on(stopped: str) -> None:
    """End the program as the signal that has ended its training would have: exit status 143 or 130.

    A time limit is no failure: after SIGUSR1 the program goes on.
    """
    name = ended_by(stopped)
    if name == "SIGTERM":
        raise SystemExit(128 + signal.SIGTERM)
    if name == "SIGINT":
        raise KeyboardInterrupt
