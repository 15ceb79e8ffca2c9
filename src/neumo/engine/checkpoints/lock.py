"""One training in a run folder at a time: a lock that is taken over from a process that is no more."""

from __future__ import annotations

import json
import os
import platform
import secrets
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from neumo.engine.processes.launch import check_alone
from neumo.engine.processes.world import sharing_trouble
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from neumo.engine.processes.world import World

LOCK: Final = ".lock"

_BEAT: Final = 10.0  # seconds between signs of life
_PATIENCE: Final = 60.0  # seconds without one, after which a process that cannot be looked at is no more
_held: Final = set[str]()  # by this process: an `exec` keeps its number, and nothing else


class Lock:
    """Holds a run folder for a training of this process; see `hold_folder`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: list[str] = []
        self.on_lost: Callable[[str], None] | None = None  # told if another training has taken over
        self._process = os.getpid()
        self._text = json.dumps(
            {
                "host": platform.node(),
                "place": _place(),
                "process": self._process,
                "began": _began(self._process),
                "token": secrets.token_hex(8),
            }
        )
        self._done = threading.Event()
        self._beats = threading.Thread(target=self._beat, name="neumo-lock", daemon=True)

    def take(self) -> None:
        """Take the lock; raises `ConfigError` if a training that is alive has it."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            while not self._create():
                theirs = self._read()
                if theirs is not None and not self._is_over(theirs):
                    raise _taken(self.path, theirs)
                if theirs is not None and self._remove(theirs):
                    self.notes.append(f"the training of {_owner(theirs)} did not end its work in this folder")
        except OSError as error:
            raise ConfigError(
                f"cannot write to the run folder {self.path.parent}: {error.strerror or error}",
                code="run-folder",
                fixes=["another folder"],
            ) from error
        _held.add(self._text)
        self._beats.start()

    def release(self) -> None:
        """Let the folder go, unless another training has it by now."""
        if os.getpid() != self._process:  # a fork of the one that holds it
            return
        self._done.set()
        self._beats.join()
        _held.discard(self._text)
        with suppress(OSError):
            if self._read() == self._text:
                self.path.unlink()

    def _create(self) -> bool:
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return False
        try:
            os.write(handle, self._text.encode())
        except OSError:
            self.path.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)
        return True

    def _read(self) -> str | None:
        try:
            return self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def _is_over(self, theirs: str) -> bool:
        """Whether the process that has the lock is no more."""
        known = _fields(theirs)
        if known.get("place") == _place() and known.get("began"):
            number = known.get("process")
            if number == os.getpid():
                return theirs not in _held
            return _began(number) != known["began"]
        return self._is_silent(theirs)

    def _is_silent(self, theirs: str) -> bool:
        """Wait for a sign of life of a process on another machine, whose clock may differ."""
        before, until = self._last_beat(), time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            time.sleep(min(1.0, _BEAT / 10))
            if self._read() != theirs:
                return True  # it has ended just now
            if self._last_beat() != before:
                return False
        return True

    def _last_beat(self) -> int:
        try:
            with self.path.open("rb") as file:  # a network disk looks at the file when it is opened
                return os.fstat(file.fileno()).st_mtime_ns
        except FileNotFoundError:
            return -1

    def _remove(self, theirs: str) -> bool:
        """Take a lock away, unless it is another one by now; says whether it was this one."""
        aside = self.path.with_name(f"{LOCK}-{secrets.token_hex(4)}")
        try:
            self.path.rename(aside)
        except FileNotFoundError:
            return False
        right = aside.read_text(encoding="utf-8", errors="replace") == theirs
        if not right:  # that of a training which was faster
            with suppress(OSError):
                os.link(aside, self.path)
        aside.unlink()
        return right

    def _beat(self) -> None:
        while not self._done.wait(_BEAT):
            try:
                found = self._read()
                if found == self._text:
                    os.utime(self.path)
            except OSError:  # a disk that does not answer for a while
                continue
            if found in (self._text, None):
                continue
            if self.on_lost is not None:
                self.on_lost("another training has taken over the run folder")
            return


@contextmanager
def hold_folder(folder: Path | None, world: World) -> Generator[Lock | None, None, None]:
    """Keep other trainings out of a run folder; gives the lock to the first process.

    >>> import tempfile
    >>> from neumo.engine.processes.world import Alone
    >>> place = Path(tempfile.mkdtemp())
    >>> with hold_folder(place, Alone()):
    ...     [path.name for path in place.iterdir()]
    ['.lock']
    >>> list(place.iterdir())
    []

    A lock is taken over at once from a process of this machine that is no more, and from one of another
    machine when it gives no sign of life for a minute. Raises `ConfigError` in all processes if the training
    that has the folder is alive.
    """
    lock = Lock(folder / LOCK) if folder is not None and world.rank == 0 else None
    with sharing_trouble(world, "the lock of the run folder"):
        if world.size == 1:
            check_alone()
        if lock is not None:
            lock.take()
    try:
        yield lock
    finally:
        if lock is not None:
            lock.release()


def _place() -> str:
    """Name what numbers of processes belong to: a machine since it was started, and a container of it."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return ""


def _began(process: Any) -> str:
    """When a process began, in ticks since the machine was started; "" if it is no more or not known."""
    try:
        status = Path(f"/proc/{int(process)}/stat").read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError, TypeError):
        return ""
    fields = status.rpartition(")")[2].split()  # state and 18 others before the start: see proc(5)
    return "" if fields[0] in "ZX" else fields[19]


def _fields(text: str) -> dict[str, Any]:
    try:
        known: Any = json.loads(text)
    except ValueError:  # a process was killed before it had written it
        return {}
    return cast("dict[str, Any]", known) if isinstance(known, dict) else {}


def _owner(text: str) -> str:
    known = _fields(text)
    return f"process {known.get('process', 'unknown')} on {known.get('host', 'an unknown machine')}"


def _taken(path: Path, theirs: str) -> ConfigError:
    return ConfigError(
        f"another training is running in {path.parent}: {_owner(theirs)}",
        code="run-folder",
        where=str(path),
        why="Two trainings in one folder would overwrite each other's checkpoints and logs.",
        fixes=["another folder for this training", "end the other one first, and go on with it"],
    )
