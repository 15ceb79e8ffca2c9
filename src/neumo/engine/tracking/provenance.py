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
from neumo.types.errors import NeumoError

if TYPE_CHECKING:
    from neumo.engine.run import Run
    from neumo.graph.graph import Graph

RUN: Final = "run.json"
GRAPH: Final = "graph"  # .yaml and .svg

_PACKAGES: Final = ("neumo", "torch", "numpy", "safetensors", "soundfile", "soxr", "PyYAML")
_SECONDS: Final = 10  # for git, which may have a large directory to look through
_PATCH: Final = 1 << 20  # bytes of changes that are kept beside the commit


class Provenance(Callback):
    """Writes into the run folder what was run: `run.json`, and the graph as `graph.yaml` and `graph.svg`.

    `run.json` has one entry for each start of the training, so a resumed run adds to it: when, on what, with
    which versions, seed and number of processes, the commit of the working directory and whether it was
    changed, the command and how to give it again, and how it ended. Changes that are not committed are kept
    as `changes.patch`. Environment variables are not written down.
    """

    order: ClassVar[int] = 1
    only_first: ClassVar[bool] = True

    def __init__(self) -> None:
        self._run: Run | None = None
        self._start: dict[str, Any] = {}

    def on_action_start(self, run: Run) -> None:
        """Write the record of this start."""
        if run.folder is None:
            return
        self._run = run
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
        _write(run.folder, [*read_starts(run.folder), self._start])
        _write_patch(run.folder, here)
        if run.stage is not None:
            _write_graph(run, run.stage.graph, run.folder)

    def on_action_end(self, run: Run) -> None:
        """Write why it ended."""
        self._start["stopped"] = run.stopped

    def close(self) -> None:
        """Write how it ended."""
        run, self._run = self._run, None
        if run is None or run.folder is None:
            return
        stopped = self._start.pop("stopped", "") or "it failed or was interrupted"
        figures = {name: value for name, value in run.metrics.items() if value == value}
        self._start["end"] = {"time": _now(), "step": run.step, "stopped": stopped, "metrics": figures}
        starts = read_starts(run.folder)
        _write(run.folder, [*starts[:-1], self._start])


def read_starts(folder: Path) -> list[dict[str, Any]]:
    """Read what a run folder says of the starts of its training, the oldest first."""
    try:
        record: Any = json.loads((folder / RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    starts: Any = cast("dict[str, Any]", record).get("starts") if isinstance(record, dict) else None
    return cast("list[dict[str, Any]]", starts) if isinstance(starts, list) else []


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
    changed = _git(folder, "status", "--porcelain", "--untracked-files=normal")
    return {
        "commit": commit.strip(),
        "branch": (_git(folder, "rev-parse", "--abbrev-ref", "HEAD") or "").strip(),
        "changed": None if changed is None else bool(changed.strip()),
    }


def _git(folder: Path, *words: str) -> str | None:
    # Without monitors, hooks and filters of diffs: a repository must not run anything of its own here.
    quiet = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-optional-locks"]
    try:
        done = subprocess.run(  # noqa: S603
            ["git", *quiet, "-C", str(folder), *words],  # noqa: S607
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")


def _write_patch(folder: Path, here: Path) -> None:
    """Keep the changes that no commit has."""
    patch = _git(here, "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color")
    if patch and len(patch) <= _PATCH:
        _keep(folder, "changes", "patch", patch)


def _write_graph(run: Run, graph: Graph, folder: Path) -> None:
    """Write the graph so that it can be loaded, and looked at."""
    hidden = folder / f".{GRAPH}.yaml"
    try:
        graph.save(hidden)
    except NeumoError as error:
        run.note(f"the graph is not in the run folder: {error.what}")
    else:
        _keep(folder, GRAPH, "yaml", hidden.read_text(encoding="utf-8"))
    finally:
        hidden.unlink(missing_ok=True)
    _keep(folder, GRAPH, "svg", graph.svg())


def _keep(folder: Path, stem: str, suffix: str, text: str) -> None:
    """Write a text under a name that no other text has, `graph.yaml` or `graph-2.yaml`, once."""
    for number in range(1, 10_000):
        path = folder / (f"{stem}.{suffix}" if number == 1 else f"{stem}-{number}.{suffix}")
        if not path.exists():
            path.write_text(text, encoding="utf-8")
        if path.read_text(encoding="utf-8") == text:
            return


def _write(folder: Path, starts: Sequence[Mapping[str, Any]]) -> None:
    """Write the record whole or not at all."""
    hidden = folder / f".{RUN}"
    hidden.write_text(json.dumps({"starts": starts}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    hidden.replace(folder / RUN)


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
