"""Makes a training fail on purpose: kills, full disks, numbers that are not finite, slow processes.

    NEUMO_FAULTS="kill@step=7,rank=1; enospc@write=2" torchrun --nproc-per-node 2 --max-restarts 1 train.py

A fault is an action at a point: `ACTION@POINT=NUMBER`, with more settings behind commas; `;` separates
faults.

| action | what happens |
|---|---|
| `kill`, `term`, `int`, `usr1` | the process sends itself SIGKILL, SIGTERM, SIGINT or SIGUSR1 |
| `exit` | the process ends at once, with `status` (1) |
| `error` | a RuntimeError is raised |
| `slow` | the process sleeps for `seconds` (1) |
| `nan`, `inf` | the loss of step NUMBER is not finite |
| `enospc`, `eio` | a write to the disk fails: it is full, or broken |
| `vanish` | the file `path` is renamed to `path.vanished` |

| point | NUMBER |
|---|---|
| `step`, `step-end` | the step that begins or has ended, from 1 |
| `epoch-end` | the epoch that has ended, from 1 |
| `batch` | how many batches this process has been given, from 1 |
| `item` | the index of the utterance that is read, in a worker process if there are any |
| `write`, `flush`, `rename` | how many files of checkpoints this process writes, flushes or renames, from 1 |
| `checkpoint-file` | the same, all of them counted together |
| `exchange` | how many exchanges of figures with other processes there were, from 1 |

`rank=1` means one process only, `restart=1` the process that torchrun has started again once (0 if it is not
given). Each fault happens once in a process and all that it starts. `NEUMO_FAULTS_FIRED` names a file that
remembers what has happened, for runs that are started again by hand.
"""

from __future__ import annotations

import errno
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from neumo.types.errors import ConfigError, did_you_mean

FAULTS: Final = "NEUMO_FAULTS"
FIRED: Final = "NEUMO_FAULTS_FIRED"
RESTARTS: Final = "TORCHELASTIC_RESTART_COUNT"  # set by torchrun

_SIGNALS: Final = {"kill": "SIGKILL", "term": "SIGTERM", "int": "SIGINT", "usr1": "SIGUSR1"}
_DISK: Final = {"enospc": errno.ENOSPC, "eio": errno.EIO}
_VALUES: Final = {"nan": float("nan"), "inf": float("inf")}
ACTIONS: Final = (*_SIGNALS, "exit", "error", "slow", *_VALUES, *_DISK, "vanish")
_FILES: Final = ("write", "flush", "rename", "checkpoint-file")
POINTS: Final = ("step", "step-end", "epoch-end", "batch", "item", *_FILES, "exchange")
_SETTINGS: Final = {"rank": int, "restart": int, "seconds": float, "status": int, "path": str}
_FORM: Final = "ACTION@POINT=NUMBER, such as kill@step=7,rank=1"

T = TypeVar("T")


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong: what, at which point, in which process.

    >>> fault = read_faults("slow@step=4,rank=1,seconds=2")[0]
    >>> fault.action, fault.point, fault.number, fault.rank, fault.settings["seconds"]
    ('slow', 'step', 4, 1, 2.0)
    """

    text: str
    action: str
    point: str
    number: int
    rank: int | None = None
    restart: int = 0
    settings: dict[str, Any] = field(default_factory=dict[str, Any])

    def meets(self, point: str, number: int) -> bool:
        """Say whether this is where it happens, in this process."""
        here = self.rank is None or self.rank == _rank()
        return here and (self.point, self.number) == (point, number) and self.restart == _restart()

    def happen(self) -> None:
        """Do it."""
        if self.action in _SIGNALS:
            os.kill(os.getpid(), signal.Signals[_SIGNALS[self.action]])
        elif self.action == "exit":
            os._exit(self.settings.get("status", 1))
        elif self.action == "error":
            raise RuntimeError(f"injected fault: {self.text}")
        elif self.action == "slow":
            time.sleep(self.settings.get("seconds", 1.0))
        elif self.action in _DISK:
            code = _DISK[self.action]
            raise OSError(code, f"{os.strerror(code)} (injected fault: {self.text})")
        elif self.action == "vanish":
            path = Path(self.settings["path"])
            path.rename(path.with_name(path.name + ".vanished"))


class Plan:
    """The faults that are armed, and what was reached and has happened so far in this process."""

    def __init__(self, faults: list[Fault], fired: Path) -> None:
        self.faults = faults
        self.reached: Counter[str] = Counter()
        self._fired = fired
        self._place: dict[str, int] = {}

    @property
    def fired(self) -> list[str]:
        """The faults that have happened, in this process and in all that share its memory of them."""
        if not self._fired.exists():
            return []
        return [line.rpartition("\t")[0] for line in self._fired.read_text(encoding="utf-8").splitlines()]

    def reach(self, point: str, number: int | None) -> None:
        """Come to a point; without a number it is counted."""
        self.reached[point] += 1
        self._place[point] = self.reached[point] if number is None else number
        for fault in self.faults:
            if fault.action not in _VALUES and fault.meets(point, self._place[point]) and self._is_new(fault):
                fault.happen()

    def spoil(self, value: T) -> T:
        """Give back the loss of a step, or what a fault makes of it."""
        for fault in self.faults:
            step = self._place.get("step", 0)
            if fault.action in _VALUES and fault.meets("step", step) and self._is_new(fault):
                changed: Any = value
                return changed * _VALUES[fault.action]
        return value

    def _is_new(self, fault: Fault) -> bool:
        """Write down, before it happens, that it has."""
        line = f"{fault.text}\t{_rank()}"
        known = self._fired.read_text(encoding="utf-8").splitlines() if self._fired.exists() else []
        if line in known:
            return False
        with self._fired.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        return True


_plan: Plan | None = None
_unread = FAULTS in os.environ


def reach(point: str, number: int | None = None) -> None:
    """Say that a point is reached, so that armed faults happen there; costs nothing while none is armed."""
    if _plan is None and not _unread:
        return
    plan = _armed_plan()
    if plan is not None:
        plan.reach(point, number)
        if point in _FILES and point != "checkpoint-file":
            plan.reach("checkpoint-file", None)


def spoil(loss: T) -> T:
    """Give back the loss of the step of now, or what an armed `nan` or `inf` makes of it."""
    if _plan is None and not _unread:
        return loss
    plan = _armed_plan()
    return loss if plan is None else plan.spoil(loss)


@contextmanager
def armed(text: str = "") -> Generator[Plan, None, None]:
    """Arm faults for a while, in this process and in those that it forks; without any, points are counted.

    >>> with armed("error@step=2") as plan:
    ...     reach("step", 1)
    ...     try:
    ...         reach("step", 2)
    ...     except RuntimeError as error:
    ...         print(error)
    ...     reach("step", 2)  # each fault happens once
    injected fault: error@step=2
    >>> plan.reached["step"], plan.faults[0].number
    (3, 2)

    Raises `ConfigError` for what is no fault.
    """
    global _plan
    before, faults = _plan, read_faults(text)
    with tempfile.TemporaryDirectory() as folder:
        _plan = Plan(faults, Path(folder) / "fired")
        try:
            yield _plan
        finally:
            _plan = before


def armed_now() -> str:
    """Say which faults are armed, "" if none is; a training notes it.

    >>> armed_now()
    ''
    """
    plan = _armed_plan()
    return "; ".join(fault.text for fault in plan.faults) if plan is not None else ""


def read_faults(text: str) -> list[Fault]:
    """Read faults from their text; raises `ConfigError`, with the nearest match, for a wrong spelling.

    >>> read_faults("kil@step=7")
    Traceback (most recent call last):
        ...
    neumo.types.errors.ConfigError: ConfigError[faults]: 'kil' in the fault 'kil@step=7' is no action
    <BLANKLINE>
      it may be kill, term, int, usr1, exit, error, slow, nan, inf, enospc, eio, vanish
    <BLANKLINE>
      fix      did you mean 'kill'?
    """
    return [_read_fault(part.strip()) for part in text.split(";") if part.strip()]


def _read_fault(text: str) -> Fault:
    action, at, rest = text.partition("@")
    parts = [part.strip() for part in rest.split(",")]
    if not at or not all("=" in part for part in parts):
        raise ConfigError(f"{text!r} is no fault", code="faults", details=[f"a fault is {_FORM}"])
    pairs = [(key.strip(), value.strip()) for key, _, value in (part.partition("=") for part in parts)]
    (point, number), *more = pairs
    _require(action, ACTIONS, "action", text)
    _require(point, POINTS, "point", text)
    settings: dict[str, Any] = {}
    for key, value in more:
        _require(key, tuple(_SETTINGS), "setting", text)
        settings[key] = _number(value, _SETTINGS[key], key, text)
    _check_pair(action, point, settings, text)
    place = _number(number, int, point, text)
    return Fault(text, action, point, place, settings.pop("rank", None), settings.pop("restart", 0), settings)


def _require(word: str, known: tuple[str, ...], what: str, text: str) -> None:
    if word not in known:
        raise ConfigError(
            f"{word!r} in the fault {text!r} is no {what}",
            code="faults",
            details=[f"it may be {', '.join(known)}"],
            fixes=did_you_mean(word, known),
        )


def _number(value: str, kind: type, key: str, text: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise ConfigError(
            f"{key}={value} in the fault {text!r} is no number",
            code="faults",
            details=[f"a fault is {_FORM}"],
        ) from None


def _check_pair(action: str, point: str, settings: dict[str, Any], text: str) -> None:
    why = ""
    if action in _VALUES and point != "step":
        why = f"{action} is what becomes of the loss of a step"
    elif action in _DISK and point not in _FILES:
        why = f"{action} happens where files are written: {', '.join(_FILES)}"
    elif action == "vanish" and "path" not in settings:
        why = "vanish needs a path"
    if why:
        raise ConfigError(f"the fault {text!r} cannot happen: {why}", code="faults")


def _armed_plan() -> Plan | None:
    """The plan of now; what the environment says is read when the first point is reached."""
    global _plan, _unread
    if _unread:
        _unread = False
        faults = read_faults(os.environ.get(FAULTS, ""))
        if faults and _plan is None:
            if FIRED not in os.environ:  # processes that are started from here inherit it
                os.environ[FIRED] = str(Path(tempfile.mkdtemp(prefix="neumo-faults-")) / "fired")
            _plan = Plan(faults, Path(os.environ[FIRED]))
    return _plan


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


def _restart() -> int:
    return int(os.environ.get(RESTARTS, "0"))
