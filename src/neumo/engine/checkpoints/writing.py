"""Writing into the run folder while a training goes on, on a disk that may be full for a while."""

from __future__ import annotations

import json
import math
import os
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from neumo.engine.loop.run import Run

_AT_ONCE: Final = 1 << 13  # bytes that are collected before they are written
_KEPT: Final = 1 << 24  # bytes that are kept while the disk refuses them


class Lines:
    """A file that rows are added to, as JSON lines; what the disk refuses is kept, and tried again.

    >>> import tempfile
    >>> lines = Lines(Path(tempfile.mkdtemp()) / "rows.jsonl", print)
    >>> lines.add({"step": 1, "loss": math.nan})
    >>> lines.flush()
    26

    `note` is told once when the disk begins to refuse, and of rows that are lost because more than 16 MiB
    wait: the oldest. Numbers that are not finite are written as null.
    """

    def __init__(self, path: Path, note: Callable[[str], None]) -> None:
        self.path = path
        self._note = note
        self._waiting: deque[bytes] = deque()
        self._size = 0  # bytes that wait
        self._refused = False
        self._lost = 0

    def add(self, row: Mapping[str, Any], *, now: bool = False) -> None:
        """Add a row; it is written as soon as enough of them wait, or `now`. A refusal is noted only."""
        self._waiting.append((json.dumps(_plain(row), ensure_ascii=False) + "\n").encode())
        self._size += len(self._waiting[-1])
        if now or self._size >= _AT_ONCE:
            self.try_to_write()

    def try_to_write(self) -> None:
        """Write what waits if the disk takes it."""
        try:
            self._write()
        except OSError as error:
            self._refuse(error)

    def flush(self) -> int:
        """Write all that waits through to the disk, and return how many bytes the file then has.

        Raises `OSError` if the disk refuses; what waits then goes on waiting.
        """
        try:
            self._write()
            with self.path.open("ab") as file:
                os.fsync(file.fileno())
                return file.seek(0, os.SEEK_END)
        except OSError as error:
            error.filename = str(self.path)  # which errors of writing do not tell
            raise

    def close(self) -> None:
        """Write what waits; a refusal is noted with how much is lost."""
        try:
            self._write()
        except OSError as error:
            lost = self._lost + len(self._waiting)
            self._note(f"cannot write {self.path.name}: {error.strerror or error}; {lost} rows are lost")

    def _write(self) -> None:
        if not self._waiting:
            return
        with self.path.open("ab", buffering=0) as file:
            while self._waiting:
                line = self._waiting[0]
                written = file.write(line)
                self._size -= written
                if written < len(line):  # the last bytes that the disk has: the rest is the next try
                    self._waiting[0] = line[written:]
                else:
                    self._waiting.popleft()
        self._refused = False
        if self._lost:
            self._note(f"{self.path.name}: {self._lost} rows are missing, for which the disk had no room")
            self._lost = 0

    def _refuse(self, error: OSError) -> None:
        while self._size > _KEPT and len(self._waiting) > 1:
            self._size -= len(self._waiting[1])  # the first one may be half written
            del self._waiting[1]
            self._lost += 1
        if not self._refused:
            self._refused = True
            reason = error.strerror or error
            self._note(f"cannot write {self.path.name}: {reason}; its rows wait, and are tried again")


def replace_text(path: Path, text: str) -> None:
    """Write a text whole or not at all: under a hidden name, through to the disk, then renamed."""
    hidden = path.with_name(f".{path.name}")
    try:
        with hidden.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        hidden.replace(path)
    except OSError:
        hidden.unlink(missing_ok=True)  # half a text would take the room that is missing
        raise


@contextmanager
def surviving(run: Run, what: str) -> Generator[None, None, None]:
    """Note once that the disk refused to take something, and go on without it."""
    try:
        yield
    except OSError as error:
        text = f"cannot write {what}: {error.strerror or error}; the training goes on without it"
        if text not in run.notes:
            run.note(text)


def set_aside(path: Path) -> Path:
    """Rename a file that cannot be read to a name that no other has, `broken-1-run.json`, and return that."""
    names = (path.with_name(f"broken-{number}-{path.name}") for number in range(1, 10_000))
    target = next(name for name in names if not name.exists())
    return path.rename(target)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
