"""The log of a training: a file of JSON lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from neumo.engine.callbacks import Callback
from neumo.engine.checkpoints.writing import Lines

if TYPE_CHECKING:
    from neumo.engine.loop.run import Run

LOG: Final = "metrics.jsonl"


class LossLogger(Callback):
    """Writes `metrics.jsonl` into the run folder: one JSON object for each step, epoch and note.

    A resumed training cuts the log back to where its checkpoint was saved, so the log reads as if nothing had
    happened. Numbers that are not finite are written as null.
    """

    order: ClassVar[int] = 80
    only_first: ClassVar[bool] = True

    def __init__(self, every_steps: int = 1) -> None:
        self.every_steps = every_steps
        self._lines: Lines | None = None
        self._keep = 0  # bytes of an earlier log that stay
        self._noted = 0
        self._end: dict[str, Any] | None = None

    def on_action_start(self, run: Run) -> None:
        """Open the log."""
        if run.folder is None:
            return
        path = run.folder / LOG
        path.touch()
        size = path.stat().st_size
        if size < self._keep:
            lost = self._keep - size
            run.note(f"{LOG} has lost {lost} bytes since the checkpoint was saved: lines are missing")
        with path.open("r+b") as file:
            file.truncate(min(self._keep, size))
        self._lines = Lines(path, run.note)
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
                **run.figures,
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
        if run.step:  # of a training that was over already, too: opening the log has taken its last line away
            self._end = {"event": "end", "step": run.step, "stopped": run.stopped, **run.metrics}

    def close(self) -> None:
        """Write that the training has ended, which is behind its last checkpoint, and close the log."""
        lines, end = self._lines, self._end
        self._lines = self._end = None
        if lines is not None:
            if end is not None:
                lines.add(end)
            lines.close()

    def state(self) -> dict[str, Any]:
        """Remember how long the log is; raises `OSError` if the disk does not take what belongs to it."""
        if self._lines is not None:
            self._keep = self._lines.flush()  # a checkpoint counts on what it says of the log
        return {"bytes": self._keep}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._keep = state["bytes"]

    def _write_notes(self, run: Run) -> None:
        for text in run.notes[self._noted :]:
            self._write({"event": "note", "step": run.step, "text": text})
        self._noted = len(run.notes)

    def _write(self, row: dict[str, Any]) -> None:
        if self._lines is not None:
            self._lines.add(row)


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read a `metrics.jsonl`, without a last line that a killed process left half written."""
    rows: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows
