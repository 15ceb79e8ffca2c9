"""The log of a training as a table for spreadsheets."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from neumo.engine.callbacks import Callback
from neumo.engine.checkpoints.writing import surviving
from neumo.engine.tracking.metrics import LOG

if TYPE_CHECKING:
    from neumo.engine.loop.run import Run

TABLE: Final = "metrics.csv"


class CSV(Callback):
    """Writes `metrics.csv` when a training ends: the rows of `metrics.jsonl`, a column for each figure.

    Steps have `event` empty; the other rows say "epoch" or "end". Notes are left out. The table is made from
    the log each time, so a resumed training has one table of all its steps.
    """

    order: ClassVar[int] = 81  # behind the log
    only_first: ClassVar[bool] = True

    def __init__(self) -> None:
        self._run: Run | None = None

    def on_action_start(self, run: Run) -> None:
        """Remember where the log is."""
        self._run = run

    def close(self) -> None:
        """Write the table."""
        run, self._run = self._run, None
        if run is not None and run.folder is not None and (run.folder / LOG).is_file():
            with surviving(run, TABLE):
                write_table(run.folder / LOG, run.folder / TABLE)


def write_table(log: Path, table: Path) -> None:
    """Write the figures of a `metrics.jsonl` as CSV; a line that a killed process left half written ends it.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / LOG).write_text('{"step": 1, "loss": 0.5}\\n{"event": "end", "wer": 0.1}\\n')
    >>> write_table(folder / LOG, folder / TABLE)
    >>> print((folder / TABLE).read_text(), end="")
    event,step,loss,wer
    ,1,0.5,
    end,,,0.1
    """
    columns = ["event", *dict.fromkeys(key for row in _rows(log) for key in row if key != "event")]
    hidden = table.with_name(f".{table.name}")
    try:
        with hidden.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(_rows(log))
        hidden.replace(table)
    except OSError:
        hidden.unlink(missing_ok=True)
        raise


def _rows(log: Path) -> Iterator[dict[str, Any]]:
    with log.open(encoding="utf-8") as file:
        for line in file:
            try:
                row: dict[str, Any] = json.loads(line)
            except ValueError:
                return
            if row.get("event") != "note":
                yield row
