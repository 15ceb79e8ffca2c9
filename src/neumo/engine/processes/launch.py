"""Several processes from one command: how many, on how many machines, and where they meet."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from neumo.types.errors import ConfigError

_FOLDER: Final = "NEUMO_LAUNCHER"  # where processes leave word for their launcher
_STARTED: Final = "NEUMO_STARTED"  # when the launcher began, in seconds of the clock of this machine
_LAUNCHER: Final = "launcher"  # a file in it: the process that listens
_HEARS: Final = "hears-"  # files in it, by the number on the machine: who waits for a signal to end,
_HEARD: Final = "heard-"  # and who has got one
_STARTERS: Final = {"SLURM_STEP_NUM_TASKS": "srun", "OMPI_COMM_WORLD_SIZE": "mpirun"}  # by what they set
_ONE_EACH: Final = {"srun": "srun --ntasks-per-node=1", "mpirun": "mpirun --map-by ppr:1:node"}
_NEEDED: Final = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # what torchrun and others set
_PLACE: Final = re.compile(r"[\w.\-\[\]:]+:\d{1,5}")


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How a command is launched: `processes` on each of `nodes` machines, begun anew `restarts` times.

    >>> Launch(processes=2, nodes="1:4", rendezvous="node1:29400").nodes_range
    (1, 4)

    Several machines meet at `rendezvous`, HOST:PORT of one of them, which every one names. `nodes` "1:4" goes
    on with one to four machines. `here` says whether the rendezvous is on this machine, where its name does
    not tell; `address` is that of this machine, as the others see it.
    """

    processes: int = 1
    nodes: str = "1"
    rendezvous: str | None = None
    restarts: int = 3
    here: bool | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise _wrong(f"processes={self.processes} is below 1", "--processes 2")
        if self.restarts < 0:
            raise _wrong(f"restarts={self.restarts} is below 0", "--restarts 3")
        least, most = self.nodes_range
        if not 1 <= least <= most:
            raise _wrong(f"nodes={self.nodes!r} is not a number of machines", "--nodes 2", "--nodes 1:4")
        if not self.several and (self.rendezvous or self.address or self.here is not None):
            raise _wrong("a place to meet is given, and there is one machine", "--nodes 2", "leave it out")
        if most > 1 and self.rendezvous is None:
            what = f"{self.nodes} machines need a place to meet"
            raise _wrong(what, "--rendezvous HOST:29400, the same on all of them")
        if self.rendezvous is not None and not _PLACE.fullmatch(self.rendezvous):
            raise _wrong(f"rendezvous={self.rendezvous!r} is not HOST:PORT", "--rendezvous node1:29400")

    @property
    def nodes_range(self) -> tuple[int, int]:
        """The smallest and the largest number of machines."""
        least, _, most = self.nodes.partition(":")
        try:
            return int(least), int(most or least)
        except ValueError:
            return 0, 0

    @property
    def several(self) -> bool:
        """Whether there is more than one process, or there may be."""
        return self.processes > 1 or self.nodes_range[1] > 1


def launched(environment: Mapping[str, str] | None = None) -> bool:
    """Say whether a launcher such as torchrun has started this process as one of several.

    >>> launched({}), launched({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"})
    (False, True)

    Raises `ConfigError` for numbers that no launcher sets: with them a process would wait for nobody.
    """
    given = os.environ if environment is None else environment
    if not all(name in given for name in _NEEDED):
        return False
    _check_numbers(given)
    return True


def _check_numbers(given: Mapping[str, str]) -> None:
    """Refuse a number that is none, or that no process of so many can have."""
    size = _number(given, "WORLD_SIZE", 1)
    _number(given, "RANK", 0, size - 1)
    _number(given, "MASTER_PORT", 1, 65535)
    if "LOCAL_RANK" in given:
        here = _number(given, "LOCAL_WORLD_SIZE", 1, size) if "LOCAL_WORLD_SIZE" in given else size
        _number(given, "LOCAL_RANK", 0, here - 1)
    if not given["MASTER_ADDR"].strip():
        raise _set_wrongly("MASTER_ADDR is empty", given, "MASTER_ADDR")


def _number(given: Mapping[str, str], name: str, least: int, most: int | None = None) -> int:
    text = given[name].strip()
    number = int(text) if text.isascii() and text.isdecimal() else None
    if number is not None and number >= least and (most is None or number <= most):
        return number
    wanted = f"from {least} to {most}" if most is not None else f"of at least {least}"
    what = f"{name}={given[name]!r} is not a number {wanted}"
    if name == "RANK" and number is not None:
        what = f"RANK={number} is not the number of one of {given['WORLD_SIZE']} processes, from 0 to {most}"
    raise _set_wrongly(what, given, name)


def _set_wrongly(what: str, given: Mapping[str, str], name: str) -> ConfigError:
    there = [f"{each}={given[each]}" for each in (*_NEEDED, "LOCAL_RANK") if each in given]
    return ConfigError(
        what,
        code="launch",
        where=f"the environment: {' '.join(there)}",
        why="These variables tell a process which one of several it is, and where the first one waits.",
        fixes=[
            "one command that sets them all: neumo train RECIPE --processes N, or torchrun",
            f"env -u {name} neumo train RECIPE, if it is meant to train alone"
            if name not in ("RANK", "WORLD_SIZE")
            else "env -u RANK -u WORLD_SIZE neumo train RECIPE, if it is meant to train alone",
        ],
    )


def launched_by_neumo() -> bool:
    """Say whether `neumo train --processes` has started this process.

    >>> launched_by_neumo()
    False
    """
    return launched() and _FOLDER in os.environ


def check_alone(environment: Mapping[str, str] | None = None) -> None:
    """Raise `ConfigError` if this process is one of several that do not know of each other.

    >>> check_alone({"SLURM_STEP_NUM_TASKS": "1"})

    `srun` and `mpirun` start a command several times: without RANK each of them would train by itself.
    So would each of several commands of which somebody has set a part of the variables only.
    """
    given = os.environ if environment is None else environment
    if launched(given):
        return
    if given.get("WORLD_SIZE", "1").strip() != "1" or given.get("RANK", "0").strip() != "0":
        absent = [name for name in _NEEDED if name not in given]
        there = [f"{name}={given[name]}" for name in _NEEDED if name in given]
        what = f"{' and '.join(there)} {'are' if len(there) > 1 else 'is'} set, but not {', '.join(absent)}"
        raise _set_wrongly(f"{what}: each process would train by itself", given, "RANK")
    for name, command in _STARTERS.items():
        if (count := given.get(name, "")).isdecimal() and int(count) > 1:
            raise ConfigError(
                f"{command} has started this command {count} times, and each would train by itself",
                code="launch",
                where=f"{name}={count}",
                fixes=[
                    f"one command a machine: {_ONE_EACH[command]} neumo train RECIPE --processes N",
                    f"env -u {name} neumo train RECIPE, if these are separate trainings, in separate folders",
                ],
            )


def launched_rank() -> int:
    """The number of this process among those that were launched together; 0 if it is alone.

    >>> launched_rank()
    0
    """
    return int(os.environ["RANK"]) if launched() else 0


@cache
def restarted() -> bool:
    """Say whether the launcher has started this process again, after another one had died or a machine came.

    >>> restarted()
    False
    """
    if not launched():
        return False
    if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0:
        return True
    folder = os.environ.get(_FOLDER)
    if folder is None:
        return False
    try:  # where another machine has failed, nothing is counted as a restart on this one
        (Path(folder) / f"started-{os.environ.get('LOCAL_RANK', '0')}").touch(exist_ok=False)
    except FileExistsError:
        return True
    except OSError:
        return False
    return False


def seconds_since_launch() -> float:
    """How long ago the launcher of this process began, before it began anything anew; 0 if there is none.

    >>> seconds_since_launch()
    0.0
    """
    try:
        return time.monotonic() - float(os.environ[_STARTED])
    except (KeyError, ValueError):
        return 0.0


def give_up(error: Mapping[str, Any], message: str, code: int) -> bool:
    """Leave an error for the launcher of this process, which shows it and begins nothing anew.

    Says whether there is a launcher to show it: processes that neumo has not launched show it themselves.
    `error` is fit for JSON, `message` is for people.
    """
    launcher = _launcher()
    if launcher is None:
        return False
    folder, rank = Path(os.environ[_FOLDER]), launched_rank()
    told = Failure(rank, code, message, dict(error), time.time())
    hidden = folder / f".failed-{rank}"
    hidden.write_text(json.dumps(vars(told)), encoding="utf-8")
    hidden.rename(folder / f"failed-{rank}.json")
    os.kill(launcher, signal.SIGTERM)
    return True


def end_all(number: int) -> None:
    """Let the launcher end all processes by a signal that this one has got, and begin nothing anew."""
    launcher = _launcher()
    if launcher is not None:
        os.kill(launcher, number)


def _launcher() -> int | None:
    """The process of neumo that has launched this one, as long as it is there."""
    try:
        found = int((Path(os.environ.get(_FOLDER, "")) / _LAUNCHER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if found == os.getppid() else None


@dataclass(frozen=True)
class Failure:
    """An error that a process has left for its launcher, with its exit code and the time."""

    rank: int
    code: int
    message: str
    error: dict[str, Any]
    when: float


def failures(folder: Path) -> list[Failure]:
    """Read what processes have left, the first one first; the same message counts once."""
    found = [Failure(**json.loads(path.read_text(encoding="utf-8"))) for path in folder.glob("failed-*.json")]
    by_message = {each.message: each for each in sorted(found, key=lambda one: -one.when)}
    return sorted(by_message.values(), key=lambda one: one.when)


def say_heard(heard: bool | None) -> None:
    """Leave word for the launcher whether a signal to end was heard here; None: nobody listens any more."""
    if _launcher() is None:
        return
    folder, place = Path(os.environ[_FOLDER]), os.environ.get("LOCAL_RANK", "0")
    with suppress(OSError):  # of a full disk: then the launcher waits for longer
        (folder / f"{_HEARS}{place}").unlink(missing_ok=True)
        if heard is False:
            (folder / f"{_HEARD}{place}").unlink(missing_ok=True)
        if heard is not None:
            name = f"{_HEARD if heard else _HEARS}{place}"
            (folder / name).write_text(str(os.getpid()), encoding="utf-8")


def deaf(folder: Path) -> list[int]:
    """Find the processes that should have heard a signal by now, where not one of all has.

    One that has heard it finishes its step and saves, while the others wait for it and hear nothing.
    """
    if any(folder.glob(f"{_HEARD}*")):
        return []
    texts: list[str] = []
    for path in folder.glob(f"{_HEARS}*"):
        with suppress(OSError):  # it has just ended
            texts.append(path.read_text(encoding="utf-8"))
    return [int(text) for text in texts if text.isdecimal() and _parent(int(text)) == os.getpid()]


def _parent(process: int) -> int | None:
    """The process that has started another one; None where that cannot be known, or it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]) if fields[0] != "Z" else None


@contextmanager
def listening(folder: Path, **environment: str) -> Generator[None, None, None]:
    """Let processes that are launched leave word in a folder, with defaults for their environment."""
    (folder / _LAUNCHER).write_text(str(os.getpid()), encoding="utf-8")
    before = dict(os.environ)
    for name, value in environment.items():
        os.environ.setdefault(name, value)
    os.environ[_FOLDER] = str(folder)
    os.environ[_STARTED] = str(time.monotonic())
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _wrong(what: str, *fixes: str) -> ConfigError:
    return ConfigError(what, code="launch", fixes=list(fixes))
