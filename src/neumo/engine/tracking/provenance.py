"""What was run: versions, the state of the working directory, and the command that does it again."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from neumo.engine.callbacks import Callback
from neumo.engine.checkpoints.writing import replace_text, set_aside, surviving
from neumo.types.errors import NeumoError

if TYPE_CHECKING:
    from neumo.engine.loop.run import Run
    from neumo.graph.graph import Graph

RUN: Final = "run.json"
GRAPH: Final = "graph"  # .yaml and .svg
FAILED: Final = "it failed or was interrupted"  # why a training has ended that does not say so itself

_PACKAGES: Final = ("neumo", "torch", "numpy", "safetensors", "soundfile", "soxr", "PyYAML")
_SECONDS: Final = 10  # for git, which may have a large directory to look through
_PATCH: Final = 1 << 20  # bytes of changes that are kept beside the commit

# The settings of a repository name programs, and one that was unpacked from elsewhere must run none of them
# here. Monitors of files and hooks are switched off, and so is each filter that the settings name (`_git`);
# no protocol is allowed, since programs fetch missing objects; files of submodules are not looked at.
_QUIET: Final = {"core.fsmonitor": "false", "core.hooksPath": os.devnull}
_ENVIRONMENT: Final = {"GIT_ALLOW_PROTOCOL": "none", "GIT_TERMINAL_PROMPT": "0"}
_SUBMODULES: Final = "--ignore-submodules=dirty"


class Provenance(Callback):
    """Writes into the run folder what was run: `run.json`, and the graph as `graph.yaml` and `graph.svg`.

    `run.json` has one entry for each start of the training, so a resumed run adds to it: when, on what, with
    which versions, seed and number of processes, the commit of the working directory and whether it was
    changed, the command and how to give it again, and how it ended. Changes that are not committed are kept
    as `changes.patch`, with whatever secrets they hold. Environment variables are not written down.
    """

    order: ClassVar[int] = 1
    only_first: ClassVar[bool] = True

    def __init__(self) -> None:
        self._run: Run | None = None
        self._before: list[dict[str, Any]] = []
        self._start: dict[str, Any] = {}

    def on_action_start(self, run: Run) -> None:
        """Write the record of this start."""
        if run.folder is None:
            return
        self._run = run
        self._before = _starts_before(run, run.folder / RUN)
        here = Path.cwd()
        self._start = {
            "time": _now(),
            "step": run.step,
            "epoch": run.epoch,
            "command": repeat_command(sys.orig_argv, os.environ, run.world.size),
            "directory": str(here),
            "git": git_state(here),
            "versions": _versions(run),
            "platform": platform.platform(),
            "host": platform.node(),
            "processes": run.world.size,
            "seed": run.seed,
            "total_steps": run.total_steps,
            "epochs": run.epochs,
            "device": list(run.stage.factory.session.notes) if run.stage is not None else [],
        }
        with surviving(run, RUN):
            _write(run.folder, [*self._before, self._start])
        with surviving(run, "the changes that no commit has"):
            _write_patch(run.folder, here)
        if run.stage is not None:
            with surviving(run, "the graph"):
                _write_graph(run, run.stage.graph, run.folder)

    def on_action_end(self, run: Run) -> None:
        """Write why it ended."""
        self._start["stopped"] = run.stopped

    def close(self) -> None:
        """Write how it ended."""
        run, self._run = self._run, None
        if run is None or run.folder is None:
            return
        stopped = self._start.pop("stopped", "") or FAILED
        figures = {name: value for name, value in run.metrics.items() if value == value}
        self._start["end"] = {"time": _now(), "step": run.step, "stopped": stopped, "metrics": figures}
        with surviving(run, RUN):
            _write(run.folder, [*self._before, self._start])


def read_starts(folder: Path) -> list[dict[str, Any]]:
    """Read what a run folder says of the starts of its training, the oldest first."""
    return _read_starts(folder / RUN) or []


def _read_starts(path: Path) -> list[dict[str, Any]] | None:
    """Read a record; None if there is none, or it is broken."""
    try:
        record: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    starts: Any = cast("dict[str, Any]", record).get("starts") if isinstance(record, dict) else None
    if not isinstance(starts, list) or not all(
        isinstance(start, dict) for start in cast("list[Any]", starts)
    ):
        return None
    return cast("list[dict[str, Any]]", starts)


def _starts_before(run: Run, path: Path) -> list[dict[str, Any]]:
    """Read the earlier starts; a record that cannot be read is kept under another name."""
    starts = _read_starts(path)
    if starts is None and path.exists():
        run.note(f"{path.name} cannot be read: it is kept as {set_aside(path).name}, and a new one begins")
    return starts or []


def repeat_command(words: Sequence[str], environment: Mapping[str, str], processes: int) -> str:
    """Write the command of this process as a shell takes it, with the launcher if there are several.

    >>> repeat_command(["/venv/bin/python", "/venv/bin/neumo", "train", "my recipe.yaml"], {}, 1)
    "neumo train 'my recipe.yaml'"
    >>> repeat_command(["python", "-u", "train.py"], {"LOCAL_WORLD_SIZE": "2"}, 4)
    'torchrun --nnodes 2 --nproc-per-node 2 train.py'
    """
    python, rest = list(words[:1]), list(words[1:])
    script = rest and Path(rest[0]).name == "neumo"
    if processes == 1:
        return shlex.join(["neumo", *rest[1:]] if script else [*python, *rest])
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c"):
        rest.pop(0)
    local = int(environment.get("LOCAL_WORLD_SIZE", processes))
    launch = ["torchrun", "--nnodes", str(max(1, processes // local)), "--nproc-per-node", str(local)]
    return shlex.join([*launch, *(["-m", "neumo", *rest[1:]] if script else rest)])


def git_state(folder: Path) -> dict[str, Any] | None:
    """Tell the commit, branch and cleanness of the working directory; None if it is in no git repository.

    >>> git_state(Path("/")) is None
    True
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    changed = _git(folder, "status", "--porcelain", "--untracked-files=normal", _SUBMODULES)
    return {
        "commit": commit.strip(),
        "branch": (_git(folder, "rev-parse", "--abbrev-ref", "HEAD") or "").strip(),
        "changed": None if changed is None else bool(changed.strip()),
    }


def _git(folder: Path, *words: str) -> str | None:
    """Ask git something, and let the repository run nothing of its own; None if it has no answer."""
    settings = dict(_QUIET)
    if words[0] in ("status", "diff"):  # these read files, through the filters that attributes ask for
        named = _output(folder, settings, "config", "--null", "--name-only", "--get-regexp", r"^filter\.")
        settings |= dict.fromkeys((name for name in (named or "").split("\0") if name), "")
        settings |= {name: "false" for name in settings if name.endswith(".required")}
    return _output(folder, settings, *words)


def _output(folder: Path, settings: Mapping[str, str], *words: str) -> str | None:
    numbered = enumerate(settings.items(), start=int(os.environ.get("GIT_CONFIG_COUNT", "0") or 0))
    given = {
        f"GIT_CONFIG_{what}_{number}": text
        for number, pair in numbered
        for what, text in zip(("KEY", "VALUE"), pair, strict=True)
    }
    count = int(os.environ.get("GIT_CONFIG_COUNT", "0") or 0) + len(settings)
    environment = {**os.environ, **given, "GIT_CONFIG_COUNT": str(count), **_ENVIRONMENT}
    try:
        done = subprocess.run(  # noqa: S603
            ["git", "--no-optional-locks", "-C", str(folder), *words],  # noqa: S607
            capture_output=True,
            timeout=_SECONDS,
            check=True,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")


def _write_patch(folder: Path, here: Path) -> None:
    """Keep the changes that no commit has."""
    patch = _git(here, "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color", _SUBMODULES)
    if patch and len(patch) <= _PATCH:
        _keep(folder, "changes", "patch", patch)


def _write_graph(run: Run, graph: Graph, folder: Path) -> None:
    """Write the graph so that it can be loaded, and looked at."""
    hidden = folder / f".{GRAPH}.yaml"
    try:
        graph.save(hidden)
    except NeumoError as error:
        run.note(f"the graph is not in the run folder: {error.what}")
        _keep(folder, GRAPH, "svg", graph.svg())
    else:
        kept = _keep(folder, GRAPH, "yaml", hidden.read_text(encoding="utf-8"))
        picture = kept.with_suffix(".svg")
        if not picture.exists():  # that of a resumed run also shows what modules have learned: the same graph
            replace_text(picture, graph.svg())
    finally:
        hidden.unlink(missing_ok=True)


def _keep(folder: Path, stem: str, suffix: str, text: str) -> Path:
    """Write a text under a name that no other text has, `graph.yaml` or `graph-2.yaml`, once."""
    number = 1
    while True:
        path = folder / (f"{stem}.{suffix}" if number == 1 else f"{stem}-{number}.{suffix}")
        if not path.exists():
            replace_text(path, text)
        if path.read_text(encoding="utf-8") == text:
            return path
        number += 1


def _write(folder: Path, starts: Sequence[Mapping[str, Any]]) -> None:
    """Write the record whole or not at all."""
    text = json.dumps({"starts": starts}, ensure_ascii=False, indent=1) + "\n"
    replace_text(folder / RUN, text)


def _versions(run: Run) -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found | dict(run.stage.factory.session.versions if run.stage is not None else {})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
