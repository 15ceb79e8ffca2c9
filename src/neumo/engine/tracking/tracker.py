"""What trackers have in common: which figures are sent when, and none of them twice."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from neumo.engine.callbacks import Callback
from neumo.engine.checkpoints.writing import replace_text, set_aside, surviving
from neumo.engine.tracking.metrics import LOG
from neumo.engine.tracking.provenance import read_starts
from neumo.types.errors import BackendError, ConfigError

if TYPE_CHECKING:
    from neumo.engine.callbacks import Sample
    from neumo.engine.loop.run import Run

FOLDER: Final = "tracking"  # in the run folder: how far each tracker has come

_STEP, _EPOCH, _END = range(3)  # what comes first, second and third at one step
_ROWS, _SECONDS = 200, 10.0  # rows are sent together: so many, or those of so long
_WAIT: Final = 10_000  # rows that wait for a program that does not answer


@dataclass(frozen=True)
class Row:
    """The figures of one step, or of the epoch or training that ended with it."""

    step: int
    figures: Mapping[str, float]
    time: float  # seconds since 1970


class Tracker(Callback):
    """Sends the figures of a training, and its samples, to a program that shows trainings beside each other.

    Every `every_steps` steps loss, learning rate and norm are sent, after each epoch its mean loss, and what
    evaluations give when they give it. A resumed training goes on in the same place: figures of steps that
    were sent before it was interrupted are not sent again.

    A program that does not answer ends no training once it has opened: that is noted, and figures wait for
    the next try, up to 10,000 rows. What was sent before a try failed may then be there twice.
    """

    order: ClassVar[int] = 85
    only_first: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = ()  # that it needs
    extra: ClassVar[str] = ""  # of neumo, which installs them

    def __init__(self, *, every_steps: int = 1) -> None:
        if every_steps < 1:
            raise ConfigError(f"{type(self).__name__}: every_steps={every_steps} is below 1", code="rhythm")
        self.every_steps = every_steps
        self._mark: _Mark | None = None
        self._rows: list[tuple[int, Row]] = []
        self._sent: dict[str, int] = {}  # metric -> the step at which it was measured when it was sent
        self._flushed = 0.0
        self._ended = False
        self._run: Run | None = None
        self._refused = False
        self._lost = 0  # rows

    def open(self, run: Run, folder: Path, known: str) -> str:
        """Begin, or go on with what is `known` by this name; return the name."""
        raise NotImplementedError

    def send(self, rows: list[Row]) -> None:
        """Send figures."""
        raise NotImplementedError

    def send_sample(self, sample: Sample) -> None:
        """Send a sample."""
        raise NotImplementedError

    def finish(self, ended: bool) -> None:
        """Let go of everything; `ended` says whether the training came to its end."""
        raise NotImplementedError

    def on_action_start(self, run: Run) -> None:
        """Begin, or go on where an interrupted training had come to."""
        for package in self.packages:
            if importlib.util.find_spec(package) is None:
                raise BackendError(
                    f"{type(self).__name__} needs the package {package}, which is not installed",
                    code="missing-package",
                    fixes=[f"pip install 'neumo[{self.extra}]'"],
                )
        if run.folder is None:
            raise ConfigError(
                f"{type(self).__name__} needs a folder",
                code="folder",
                fixes=["NeuralFactory(folder='runs/first')"],
            )
        mark = _Mark(run.folder / FOLDER / f"{type(self).__name__.lower()}.json")
        if broken := mark.read(fresh=not (run.step or run.epoch or run.batch)):
            run.note(f"{broken}, and {type(self).__name__} begins a new record of this training")
        mark.name = self.open(run, run.folder, mark.name)
        with surviving(run, f"how far {type(self).__name__} has come"):
            mark.write()
        self._run, self._mark, self._flushed = run, mark, time.monotonic()
        self._sent = dict(run.measured)
        self._ended = False

    def on_step_end(self, run: Run) -> None:
        """Take down the figures of the step."""
        figures = self._measured(run)
        if run.step % self.every_steps == 0:
            figures = {"loss": run.loss, "lr": run.lr, "norm": run.norm, **run.figures, **figures}
        self._take(run.step, _STEP, figures)

    def on_epoch_end(self, run: Run) -> None:
        """Take down the figures of the epoch."""
        self._take(
            run.step, _EPOCH, {"epoch": run.epoch + 1, "epoch_loss": run.epoch_loss, **self._measured(run)}
        )

    def on_action_end(self, run: Run) -> None:
        """Take down the last figures."""
        self._take(run.step, _END, self._measured(run))
        self._ended = True

    def on_sample(self, run: Run, sample: Sample) -> None:
        """Send a sample that was just written."""
        mark = self._mark
        if mark is None or sample.step <= mark.samples_before:
            return
        self._flush()
        mark.samples = sample.step
        try:
            mark.write()
            self.send_sample(sample)
        except Exception as error:
            self._refuse(error, f"{sample.name} of step {sample.step} is left out")

    def state(self) -> dict[str, Any]:
        """Send all that a checkpoint knows: what comes later is computed again by a resumed training."""
        self._flush()
        return {}

    def close(self) -> None:
        """Send the rest, and end."""
        if self._mark is None:
            return
        self._flush()
        lost = self._lost + len(self._rows)
        if lost and self._run is not None:
            self._run.note(f"{type(self).__name__}: {lost} rows were never taken; {LOG} has them")
        self._rows.clear()
        self._mark = None
        try:
            self.finish(self._ended)
        except Exception as error:
            self._refuse(error, "the training is over all the same")
        self._refused, self._lost, self._run = False, 0, None

    def _measured(self, run: Run) -> dict[str, float]:
        """What evaluations gave since this was last asked."""
        new = {name: run.metrics[name] for name, step in run.measured.items() if step != self._sent.get(name)}
        self._sent = dict(run.measured)
        return new

    def _take(self, step: int, what: int, figures: Mapping[str, float]) -> None:
        if self._mark is None or not figures or [step, what] <= self._mark.row_before:
            return
        self._rows.append((what, Row(step, figures, time.time())))
        if len(self._rows) >= _ROWS or what != _STEP or time.monotonic() - self._flushed > _SECONDS:
            self._flush()

    def _flush(self) -> None:
        """Write down how far it has come, then send: a kill in between loses rows, and doubles none."""
        mark = self._mark
        if mark is None or not self._rows:
            return
        self._flushed = time.monotonic()
        what, last = self._rows[-1]
        before, mark.row = mark.row, [last.step, what]
        try:
            mark.write()
            self.send([row for _, row in self._rows])
        except Exception as error:
            mark.row = before
            with suppress(OSError):
                mark.write()
            self._lost += max(0, len(self._rows) - _WAIT)
            del self._rows[:-_WAIT]
            self._refuse(error, "its figures wait, and are tried again")
        else:
            self._rows.clear()
            self._refused = False

    def _refuse(self, error: Exception, then: str) -> None:
        """Note that the program did not take something, once until it takes something again."""
        if self._run is not None and not self._refused:
            self._run.note(f"{type(self).__name__} failed, {type(error).__name__}: {error}; {then}")
        self._refused = True


class _Mark:
    """How far a tracker has come: the last row that was sent, the last samples, and its name for the run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = ""
        self.row, self.row_before = [-1, 0], [-1, 0]  # step, and which row of it
        self.samples = self.samples_before = -1  # a step

    def read(self, *, fresh: bool) -> str:
        """Read how far it had come; a file that cannot be read is kept under another name, which is said."""
        if fresh or not self.path.is_file():
            return ""
        try:
            known: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
            name, (step, what), samples = known["name"], known["row"], known["samples"]
            self.name, self.row, self.samples = str(name), [int(step), int(what)], int(samples)
        except (ValueError, KeyError, TypeError):
            aside = set_aside(self.path)
            return f"{FOLDER}/{self.path.name} cannot be read: it is kept as {aside.name}"
        self.row_before, self.samples_before = self.row, self.samples
        return ""

    def write(self) -> None:
        self.path.parent.mkdir(exist_ok=True)
        text = json.dumps({"name": self.name, "row": self.row, "samples": self.samples})
        replace_text(self.path, text + "\n")


def settings_of(run: Run) -> dict[str, Any]:
    """What a tracker shows beside the figures: what the run folder says of this start."""
    starts = read_starts(run.folder) if run.folder is not None else []
    start = starts[-1] if starts else {}
    git: dict[str, Any] = start.get("git") or {}
    versions: dict[str, Any] = start.get("versions") or {}
    return {
        "seed": run.seed,
        "total_steps": run.total_steps,
        "epochs": run.epochs,
        "processes": run.world.size,
        "graph": run.stage.graph.name if run.stage is not None else "",
        "command": start.get("command", ""),
        "commit": git.get("commit", ""),
        **{f"version of {name}": version for name, version in versions.items()},
    }
