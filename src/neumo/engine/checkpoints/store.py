"""Checkpoint folders: written whole or not at all, verified when they are read, kept by a rule.

    checkpoints/step-00000120/
        weights.safetensors      the weights as trained
        average.safetensors      their average, if the training keeps one
        optimizer.safetensors    the state of the optimizer
        state.json               position, seed, best figures, versions, and the checksums of the other files

Where several processes each write their part, folders such as `weights.shards` take the place of the files.
A folder is written under a hidden name, flushed to the disk and renamed, so a reader never sees half of
one. There is no pickle in it: arrays are safetensors, the rest is JSON.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

from neumo.engine import faults
from neumo.types.errors import CheckpointError

STATE: Final = "state.json"
PARTS: Final = ".parts"  # beside the checkpoints, on the same disk: what processes write before it is in one
_NAME: Final = re.compile(r"step-(\d{8,})")
_CHUNK: Final = 1 << 20  # bytes read at once

Writer = Callable[[Path], str | None]  # returns the SHA-256 of what it wrote, if it knows it


@dataclass(frozen=True)
class Saved:
    """A checkpoint that was read and found whole: where it is and its state; `path / name` are its arrays."""

    path: Path
    state: dict[str, Any]


@dataclass(frozen=True)
class CheckpointStore:
    """Keeps the checkpoints of one training in a folder.

    >>> import tempfile
    >>> store = CheckpointStore(Path(tempfile.mkdtemp()))
    >>> saved = store.write(120, {"epoch": 1}, {"notes.txt": lambda path: path.write_text("hello") and None})
    >>> saved.path.name, store.read(saved.path).state["epoch"]
    ('step-00000120', 1)
    """

    folder: Path

    def paths(self) -> list[Path]:
        """List the checkpoints, the newest first."""
        if not self.folder.is_dir():
            return []
        found = [path for path in self.folder.iterdir() if _NAME.fullmatch(path.name) and path.is_dir()]
        return sorted(found, key=step_of, reverse=True)

    def write(self, step: int, state: Mapping[str, Any], files: Mapping[str, Writer]) -> Saved:
        """Write a checkpoint: each of `files` writes itself to the path that it is given.

        Raises `CheckpointError` if the disk refuses; what was there before is then still there.
        """
        final = self.folder / f"step-{step:08d}"
        hidden = self.folder / f".writing-{final.name}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.tidy()
            hidden.mkdir()
            whole = _fill(hidden, state, files)
            self._publish(hidden, final)
        except BaseException as error:
            shutil.rmtree(hidden, ignore_errors=True)
            self.tidy()
            if isinstance(error, OSError):
                raise _cannot_write(final, error) from error
            raise
        return Saved(final, whole)

    def check_room(self, step: int) -> None:
        """Raise `CheckpointError` if the disk has less room than the newest checkpoint takes.

        What interrupted writers left behind is removed before: it may be the room that is missing.
        """
        self.tidy()
        self.discard_parts()
        paths = self.paths()
        if not paths:
            return
        need = sum(path.stat().st_size for path in paths[0].rglob("*") if path.is_file())
        free = shutil.disk_usage(self.folder).free
        if free < need:
            what = f"it takes about {need / 1e6:.1f} MB, and {free / 1e6:.1f} MB are free"
            raise _cannot_write(self.folder / f"step-{step:08d}", OSError(errno.ENOSPC, what))

    def _publish(self, hidden: Path, final: Path) -> None:
        aside = self.folder / f".replaced-{final.name}"
        if final.exists():
            _rename(final, aside)  # a kill between the two renames is undone by `tidy`
        _rename(hidden, final)
        _flush_folder(self.folder)
        shutil.rmtree(aside, ignore_errors=True)

    def tidy(self) -> None:
        """Remove what an interrupted writer left behind, and put back what it had moved aside."""
        if not self.folder.is_dir():
            return
        for path in self.folder.glob(".writing-step-*"):
            shutil.rmtree(path, ignore_errors=True)
        for path in self.folder.glob(".replaced-step-*"):
            original = self.folder / path.name.removeprefix(".replaced-")
            if original.exists():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.rename(original)

    def discard_parts(self) -> None:
        """Remove what processes have written of a checkpoint that did not come about."""
        shutil.rmtree(self.folder / PARTS, ignore_errors=True)

    def read(self, path: Path, *, verify: bool = True) -> Saved:
        """Read one checkpoint and verify every file; raises `CheckpointError` if anything is damaged.

        With `verify=False` only the state is: where another process has verified the same files.
        """
        if not (path / STATE).is_file():
            raise CheckpointError(
                f"{path} is not a checkpoint: it has no {STATE}",
                code="checkpoint-missing",
                fixes=[f"the checkpoints here: {_list(self.paths())}"] if self.paths() else [],
            )
        state = _read_state(path / STATE)
        if _NAME.fullmatch(path.name) and state.get("step", step_of(path)) != step_of(path):
            raise CheckpointError(
                f"{path.name} holds step {state['step']}: its folder has been renamed",
                code="checkpoint-damaged",
                where=str(path),
                fixes=[f"give it back its name, step-{state['step']:08d}"],
            )
        for name, digest in state["files"].items() if verify else ():
            _verify(path / name, digest)
        return Saved(path, state)

    def newest(self, *, repair: bool = True) -> tuple[Saved | None, list[str]]:
        """Read the newest checkpoint that is whole, and say in words which ones were passed over and why.

        With `repair=False` nothing is changed: who only reads must not tidy up behind a training. Raises
        `CheckpointError` if there are checkpoints but none is whole: starting anew is the user's choice.
        """
        if repair:
            self.tidy()
            self.discard_parts()
        passed: list[str] = []
        damaged: list[Path] = []
        for path in self.paths():
            try:
                saved = self.read(path)
            except CheckpointError as error:
                passed.append(error.what)
                damaged.append(path)
            else:
                if repair:
                    self.set_aside(damaged, "damaged")
                return saved, passed
        if passed:
            raise CheckpointError(
                f"none of the {len(passed)} checkpoints in {self.folder} is whole",
                code="checkpoint-damaged",
                details=passed,
                fixes=["resume='never' starts anew", "give the path of another checkpoint as resume"],
            )
        return None, passed

    def set_aside(self, paths: Iterable[Path], word: str) -> None:
        """Rename checkpoints so that they are neither resumed nor removed: `damaged-step-00000120`."""
        for path in paths:
            names = (f"{word}-{path.name}" if n == 1 else f"{word}-{path.name}-{n}" for n in range(1, 1000))
            path.rename(next(target for name in names if not (target := self.folder / name).exists()))

    def keep(self, wanted: Iterable[Path]) -> None:
        """Remove all checkpoints but these."""
        names = {path.name for path in wanted}
        for path in self.paths():
            if path.name not in names:
                hidden = (
                    self.folder / f".writing-{path.name}"
                )  # renamed first: a half removed one is never read
                _rename(path, hidden)
                shutil.rmtree(hidden, ignore_errors=True)


def step_of(path: Path) -> int:
    """Return the step that a checkpoint folder is named by.

    >>> step_of(Path("checkpoints/step-00000120"))
    120
    """
    found = _NAME.fullmatch(path.name)
    return int(found[1]) if found else -1


def _fill(folder: Path, state: Mapping[str, Any], files: Mapping[str, Writer]) -> dict[str, Any]:
    digests: dict[str, str] = {}
    for name, write in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        faults.reach("write")
        digests[name] = write(path) or digest_of(path)
        _flush(path)
    for inner in {(folder / name).parent for name in files} - {folder}:
        _flush_folder(inner)
    whole = {**state, "files": digests}
    whole["checksum"] = _state_digest(whole)
    faults.reach("write")
    (folder / STATE).write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    _flush(folder / STATE)
    _flush_folder(folder)
    return whole


def _read_state(path: Path) -> dict[str, Any]:
    try:
        state: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(path, f"it cannot be read: {error}") from error
    if not isinstance(state, dict) or not isinstance(cast(dict[str, Any], state).get("files"), dict):
        raise _damaged(path, "it does not hold the state of a training")
    state = cast(dict[str, Any], state)
    if state.get("checksum") != _state_digest(state):
        raise _damaged(path, "its checksum does not agree with its text")
    return state


def _verify(path: Path, digest: str) -> None:
    if not path.is_file():
        raise _damaged(path, "it is missing")
    if digest_of(path) != digest:
        raise _damaged(path, "its checksum does not agree with the one written in state.json")


def digest_of(path: Path) -> str:
    """Compute the SHA-256 of a file, in hexadecimal digits."""
    whole = sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            whole.update(chunk)
    return whole.hexdigest()


def _state_digest(state: Mapping[str, Any]) -> str:
    plain = {key: value for key, value in state.items() if key != "checksum"}
    return sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _rename(path: Path, target: Path) -> None:
    faults.reach("rename")
    path.rename(target)


def _flush(path: Path) -> None:
    faults.reach("flush")
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _flush_folder(path: Path) -> None:
    if os.name == "nt":  # Windows cannot open a folder; its renames are journalled
        return
    faults.reach("flush")
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _damaged(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(
        f"{path.parent.name}/{path.name} is damaged: {reason}",
        code="checkpoint-damaged",
        where=str(path),
        fixes=["resume from another checkpoint of the same folder"],
    )


def _cannot_write(path: Path, error: OSError) -> CheckpointError:
    full = error.errno == errno.ENOSPC
    return CheckpointError(
        f"cannot write the checkpoint {path.name}: {error.strerror or error}",
        code="checkpoint-disk",
        where=str(path),
        details=["earlier checkpoints are untouched"],
        fixes=["make room on the disk, or keep fewer: Checkpoint(keep_last=1)"] if full else [],
    )


def _list(paths: list[Path]) -> str:
    return ", ".join(path.name for path in paths[:5])
