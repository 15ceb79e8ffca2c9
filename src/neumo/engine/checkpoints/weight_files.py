"""Where weights are found: a safetensors file, a checkpoint, a run folder, or a model file."""

from __future__ import annotations

import importlib
import json
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from neumo.engine.checkpoints.store import STATE, CheckpointStore
from neumo.types.errors import CheckpointError

MODEL_SUFFIX: Final = ".neumo"
LEARNED: Final = "neumo.learned"  # what the modules of a weights file learned, as JSON, in its metadata
_ARRAYS: Final = ("average.safetensors", "average.shards", "weights.safetensors", "weights.shards")
_MEMBER: Final = "weights.safetensors"  # of a model file


@contextmanager
def weights_file(path: Path) -> Generator[Path]:
    """Give the safetensors file that a path means, for as long as it is read.

    Of a run folder that is its newest whole checkpoint, of a checkpoint its averaged weights if it has them,
    of a model file (`.neumo`) a copy of its weights, once all of its checksums hold. Weights that were
    written in parts are a folder of such files. Raises `CheckpointError`.
    """
    if path.suffix != MODEL_SUFFIX or path.is_dir():
        yield _in_folder(path)
        return
    # By name, as backends are: the room of models stands above this one, and most loads do not need it.
    archive: Any = importlib.import_module("neumo.hub.archive").Archive(path)
    with tempfile.TemporaryDirectory() as folder:
        state = {"learned": archive.card().get("learned", {})}  # as beside a checkpoint
        (Path(folder) / STATE).write_text(json.dumps(state), encoding="utf-8")
        yield archive.copy(_MEMBER, Path(folder) / _MEMBER)


def learned_in(file: Path) -> Any:
    """Give what the modules of a weights file learned: its own metadata, or the state beside it, says so.

    The file is one that a backend has read. Raises `CheckpointError` where the metadata is no JSON.
    """
    if file.is_dir():
        return _learned_beside(file)
    text = notes_in(file).get(LEARNED)
    if text is None:
        return _learned_beside(file)
    try:
        return json.loads(text)
    except ValueError:
        raise CheckpointError(
            f"what the modules of {file.name} learned cannot be read: {text!r} is no JSON",
            code="model-card",
            fixes=["write the file again: factory.save(graph, path)"],
        ) from None


def notes_in(file: Path) -> dict[str, str]:
    """Give the texts that a safetensors file has about itself."""
    with file.open("rb") as stream:  # it begins with the length of its header, and the header
        header: Any = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
    return header.get("__metadata__", {})


def _learned_beside(file: Path) -> Any:
    try:
        state: Any = json.loads((file.parent / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", state).get("learned", {}) if isinstance(state, dict) else {}


def _in_folder(path: Path) -> Path:
    if not path.is_dir():
        return path
    if (path / STATE).is_file():
        files = CheckpointStore(path.parent).read(path).state["files"]
        whole = {name.partition("/")[0] for name in files}  # a folder of parts stands for one file
        return path / next(name for name in _ARRAYS if name in whole)
    saved, _ = CheckpointStore(path / "checkpoints").newest(repair=False)
    if saved is None:
        raise CheckpointError(f"{path} has no checkpoint", code="checkpoint-missing")
    return _in_folder(saved.path)
