"""Averaging the weights of checkpoints, which is often better than any of them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from neumo.engine.backend import Session, Setup, find_backend
from neumo.engine.checkpoints.store import CheckpointStore, step_of
from neumo.engine.checkpoints.weight_files import LEARNED, learned_in, notes_in, weights_file
from neumo.types.errors import CheckpointError, ConfigError

AVERAGED: Final = "averaged.safetensors"  # in a run folder
_OF: Final = "neumo.averaged"  # notes in the file: the checkpoints that it is the mean of,
_NEWEST: Final = "neumo.newest"  # and the newest one that there was


def average_checkpoints(
    folder: str | Path,
    *,
    last: int | None = None,
    best: int | None = None,
    paths: Sequence[str | Path] = (),
    out: str | Path | None = None,
    session: Session | None = None,
) -> Path:
    """Write the mean of the weights of some checkpoints of a run to a file, and return its path.

    `average_checkpoints("runs/first", last=5)` takes the 5 newest, `best=5` the 5 with the best figures by
    `Evaluate(best=...)`, `paths` those that are named; 5 newest ones if nothing is said. The file is
    `averaged.safetensors` in the run folder if `out` names no other; `factory.load(graph, path)` reads it.

    Weights and statistics are averaged in double precision (Izmailov et al. 2018; the last checkpoints of one
    training, as in Vaswani et al. 2017, section 6.1), counters are those of the newest checkpoint. Of a
    checkpoint with averaged weights those are taken, as when it is loaded. Every file is verified. Raises
    `ConfigError` if there are fewer checkpoints than asked for, and `CheckpointError` if one is damaged or of
    another model.
    """
    run = Path(folder)
    chosen = choose_checkpoints(run, last=last, best=best, paths=paths)
    target = Path(out) if out is not None else run / AVERAGED
    worker = session if session is not None else find_backend("torch").open_session(Setup(device="cpu"))
    with ExitStack() as stack:
        files = [stack.enter_context(weights_file(path)) for path in chosen]
        learned = learned_in(files[-1])
        notes = {LEARNED: json.dumps(learned), _OF: ", ".join(path.name for path in chosen)}
        newest = CheckpointStore(run / "checkpoints").paths()[:1]
        hidden = target.with_name(f".writing-{target.name}")
        try:
            worker.average(files, hidden, notes={**notes, _NEWEST: "".join(path.name for path in newest)})
            os.replace(hidden, target)
        finally:
            hidden.unlink(missing_ok=True)
    return target


def averaged_weights(folder: Path | None) -> Path | None:
    """Find the mean of checkpoints that a training has left in its folder, if it has.

    Raises `ConfigError` if there is a newer checkpoint than there was when it was made.
    """
    path = None if folder is None else folder / AVERAGED
    if folder is None or path is None or not path.is_file():
        return None
    newest = "".join(each.name for each in CheckpointStore(folder / "checkpoints").paths()[:1])
    notes = notes_in(path)
    if newest != notes.get(_NEWEST, ""):
        raise ConfigError(
            f"{path} is the mean of older checkpoints: the newest is {newest or 'gone'}",
            code="average",
            details=[f"it is the mean of {notes.get(_OF, 'checkpoints that it does not name')}"],
            fixes=[
                "let the training come to its end, which makes it anew",
                f"neumo average {folder}",
                f"remove {path.name}: then the newest checkpoint is taken",
            ],
        )
    return path


def choose_checkpoints(
    run: Path, *, last: int | None = None, best: int | None = None, paths: Sequence[str | Path] = ()
) -> list[Path]:
    """Choose checkpoints of a run folder, the oldest first; raises `ConfigError` if there are too few."""
    if sum((last is not None, best is not None, bool(paths))) > 1:
        raise ConfigError("give one of last, best and paths", code="average", fixes=["last=5", "best=5"])
    if paths:
        return sorted((Path(path) for path in paths), key=lambda path: (step_of(path), str(path)))
    count = best if best is not None else last if last is not None else 5
    if count < 1:
        raise ConfigError(f"the average of {count} checkpoints is none", code="average", fixes=["last=5"])
    known = CheckpointStore(run / "checkpoints").paths()
    if not known:
        raise CheckpointError(f"{run} has no checkpoint", code="checkpoint-missing")
    ranked = ranked_checkpoints(run, by_figure=best is not None)
    word, option = ("with a figure", "keep_best") if best is not None else ("of the newest", "keep_last")
    if len(ranked) < count:
        raise ConfigError(
            f"the average of {count} checkpoints was asked for, and {run} has {len(ranked)} {word}",
            code="average",
            details=[f"it has {', '.join(path.name for path in reversed(known))}"],
            fixes=[
                *([f"{'best' if best is not None else 'last'}={len(ranked)}"] if ranked else []),
                f"Checkpoint({option}={count}) keeps enough of them",
            ],
        )
    return sorted(ranked[:count], key=step_of)


def ranked_checkpoints(run: Path, *, by_figure: bool) -> list[Path]:
    """List the checkpoints of a run, the newest first, or those that have a figure, the best first."""
    store = CheckpointStore(run / "checkpoints")
    known = store.paths()
    if not by_figure or not known:
        return known
    scores = _scores(store.read(known[0]).state)
    return sorted((path for path in known if path.name in scores), key=lambda path: scores[path.name])


def _scores(state: dict[str, Any]) -> dict[str, float]:
    """How good the checkpoints of a run are, by name; smaller is better."""
    found: dict[str, float] = {}
    for key, kept in state.get("callbacks", {}).items():
        if key.startswith("Checkpoint-"):
            found |= kept.get("scores", {})
    return found
