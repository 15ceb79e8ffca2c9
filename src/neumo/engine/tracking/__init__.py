"""What a training leaves for people: a log file of JSON lines, and a display on the terminal."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar

from neumo.engine.callbacks import Callback

if TYPE_CHECKING:
    from neumo.engine.run import Run

LOG = "metrics.jsonl"


class LossLogger(Callback):
    """Writes `metrics.jsonl` into the run folder: one JSON object for each step, epoch and note.

    A resumed training cuts the log back to where its checkpoint was saved, so the log reads as if nothing had
    happened. Numbers that are not finite are written as null.
    """

    order: ClassVar[int] = 80

    def __init__(self, every_steps: int = 1) -> None:
        self.every_steps = every_steps
        self._file: IO[bytes] | None = None
        self._keep = 0  # bytes of an earlier log that stay
        self._noted = 0

    def on_action_start(self, run: Run) -> None:
        """Open the log."""
        if run.folder is None:
            return
        path = run.folder / LOG
        path.touch()
        with path.open("r+b") as file:
            file.truncate(min(self._keep, path.stat().st_size))
        self._file = path.open("ab")
        self._write_notes(run)

    def on_step_end(self, run: Run) -> None:
        """Write the figures of the step."""
        if run.step % self.every_steps == 0:
            row: dict[str, Any] = {
                "step": run.step,
                "epoch": run.epoch,
                "loss": run.loss,
                "lr": run.lr,
                "norm": run.norm,
            }
            self._write({**row, "skipped": run.skipped} if run.skipped else row)
        self._write_notes(run)

    def on_epoch_end(self, run: Run) -> None:
        """Write the figures of the epoch."""
        self._write_notes(run)
        self._write({"event": "epoch", **run.history[-1]})

    def on_action_end(self, run: Run) -> None:
        """Write the last figures."""
        self._write_notes(run)
        self.state()
        if run.moved:
            self._write({"event": "end", "step": run.step, "stopped": run.stopped, **run.metrics})
        self.close()

    def close(self) -> None:
        """Close the log."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def state(self) -> dict[str, Any]:
        """Remember how long the log is, up to the line that says that the training has ended."""
        if self._file is not None:
            self._file.flush()
            self._keep = self._file.tell()
        return {"bytes": self._keep}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._keep = state["bytes"]

    def _write_notes(self, run: Run) -> None:
        for text in run.notes[self._noted :]:
            self._write({"event": "note", "step": run.step, "text": text})
        self._noted = len(run.notes)

    def _write(self, row: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write((json.dumps(_plain(row), ensure_ascii=False) + "\n").encode())


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read a `metrics.jsonl`, without a last line that a killed process left half written."""
    rows: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


class Progress(Callback):
    """Shows a bar on a terminal, and one plain line for each epoch elsewhere, both on the error stream."""

    order: ClassVar[int] = 95

    def __init__(self, stream: IO[str] | None = None, bar: bool | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._wants_bar = self._stream.isatty() if bar is None else bar
        self._bar: Any = None
        self._task: Any = None

    def on_action_start(self, run: Run) -> None:
        """Start the bar."""
        if not self._wants_bar:
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(file=self._stream, force_terminal=True),
            transient=True,
        )
        self._task = self._bar.add_task("training", total=run.total_steps or None, completed=run.step)
        self._bar.start()

    def on_step_end(self, run: Run) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.update(
                self._task, completed=run.step, description=f"epoch {run.epoch + 1}  loss {run.loss:.4g}"
            )

    def on_epoch_end(self, run: Run) -> None:
        """Say how the epoch went."""
        row = run.history[-1]
        figures = [f"loss {row['loss']:.4g}"]
        figures += [
            f"{name} {value:.4g}"
            for name, value in row.items()
            if name in run.metrics and isinstance(value, float)
        ]
        of = f"/{run.epochs}" if run.epochs is not None else ""
        self.say(f"epoch {run.epoch + 1}{of}  step {run.step}  {'  '.join(figures)}  {run.seconds:.0f} s")

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def say(self, text: str) -> None:
        """Write a line, above the bar if there is one."""
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=self._stream, flush=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
