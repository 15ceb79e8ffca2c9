"""Going on with a training: which checkpoint, what it restores, and what is done with an older run in the
folder.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from neumo.engine.average import AVERAGED
from neumo.engine.checkpoint import CheckpointStore, Saved
from neumo.engine.launch import restarted
from neumo.engine.nonfinite import FILE, forget_later
from neumo.engine.tracking import LOG
from neumo.engine.world import first_says
from neumo.types.errors import CheckpointError, ConfigError, NeumoError

if TYPE_CHECKING:
    from neumo.engine.callbacks import Callback
    from neumo.engine.train import Training
    from neumo.engine.world import World

# What a new run in the folder must not go on with.
_OF_A_RUN: Final = (
    "checkpoints",
    LOG,
    FILE,
    AVERAGED,
    "model.neumo",
    "metrics.csv",
    "profile",
    "samples",
    "tracking",
    "tensorboard",
)


def after_restart(folder: Path | None, resume: str | Path) -> str | Path:
    """Say what to go on from: what was asked, or one's own checkpoints if the launcher has begun anew.

    >>> after_restart(None, "never")
    'never'
    """
    if not restarted() or folder is None:
        return resume
    return "auto" if resume == "never" or CheckpointStore(folder / "checkpoints").paths() else resume


def find_checkpoint(
    folder: Path | None, resume: str | Path, world: World | None = None
) -> tuple[Saved | None, list[str]]:
    """Find the checkpoint to go on from, and say in words what was passed over.

    `resume` is "auto" (the newest whole one of the run folder, if there is any), "never", or the path of a
    checkpoint or run folder, which must have one. Of several processes the first one chooses and verifies the
    checksums, and the others read the same files.
    """
    if world is None or world.size == 1:
        return _choose(folder, resume)
    saved, notes = None, list[str]()
    if world.rank == 0:
        try:
            saved, notes = _choose(folder, resume)
        except NeumoError as error:
            first_says(world, {"trouble": error.what})
            raise
    told = first_says(world, {"path": str(saved.path) if saved is not None else None})
    if "trouble" in told:
        raise CheckpointError(f"process 0 could not resume: {told['trouble']}", code="resume")
    if world.rank and told["path"] is not None:
        path = Path(told["path"])
        if not path.is_dir():
            raise _not_shared(path, world.rank)
        saved = CheckpointStore(path.parent).read(path, verify=False)
    return saved, notes


def _choose(folder: Path | None, resume: str | Path) -> tuple[Saved | None, list[str]]:
    if resume == "never":
        return None, _put_aside(folder)
    if resume == "auto":
        return CheckpointStore(folder / "checkpoints").newest() if folder is not None else (None, [])
    path = Path(resume)
    if not path.is_dir():
        raise CheckpointError(
            f"there is no checkpoint {path}",
            code="checkpoint-missing",
            fixes=["resume='auto' takes the newest"],
        )
    if (path / "checkpoints").is_dir():
        saved, notes = CheckpointStore(path / "checkpoints").newest()
    else:
        saved, notes = CheckpointStore(path.parent).read(path), []
        _put_later_aside(folder, saved)
    if saved is None:
        raise CheckpointError(f"{path} has no checkpoint", code="checkpoint-missing")
    return saved, notes


def _not_shared(path: Path, rank: int) -> CheckpointError:
    return CheckpointError(
        f"process {rank} cannot see the checkpoint {path.name} that process 0 goes on from",
        code="resume",
        where=str(path),
        why="All processes read the checkpoint, so the run folder must be on a disk that all machines share.",
        fixes=["a run folder on a shared disk", "copy the run folder to every machine before resuming"],
    )


def restore(training: Training, callbacks: Sequence[Callback], saved: Saved) -> None:
    """Put a training where a checkpoint was saved."""
    state, run = saved.state, training.run
    if state["seed"] != run.seed:
        raise ConfigError(
            f"{saved.path.name} was trained with seed {state['seed']}, and this factory has seed {run.seed}",
            code="resume",
            where=str(saved.path),
            fixes=[f"NeuralFactory(seed={state['seed']})", "resume='never' starts anew"],
        )
    training.trainer.load(saved.path, state["trainer"])
    if run.folder is not None and run.first:
        forget_later(run.folder, state["step"])
    planned = run.total_steps
    run.load(state)
    before = state.get("batches_per_step", 1)
    if before != run.batches_per_step:
        run.note(f"a step now uses {run.batches_per_step} batches, and used {before}")
    elif run.world.size != state.get("processes", 1):
        run.note(
            f"{state.get('processes', 1)} processes trained before, now {run.world.size}; "
            f"a step goes on using {before} batches"
        )
    precision = training.session.precision
    if (past := state.get("precision", precision)) != precision:
        run.note(f"the training goes on in {precision}, and was in {past}")
    if planned != state["total_steps"]:
        before = state["total_steps"]
        run.note(f"the training now has {planned} steps, and had {before}: the schedule differs from here on")
    for key, callback in zip(_keys(callbacks), callbacks, strict=True):
        if key in state["callbacks"]:
            callback.load(state["callbacks"][key])


def whole_state(
    training: Training, callbacks: Sequence[Callback], versions: Mapping[str, str]
) -> dict[str, Any]:
    """Return everything but arrays that a checkpoint holds, ready for JSON."""
    return {
        **training.run.state(),
        "trainer": training.trainer.scalars(),
        "callbacks": {
            key: callback.state() for key, callback in zip(_keys(callbacks), callbacks, strict=True)
        },
        "precision": training.session.precision,
        "versions": {"python": platform.python_version(), **versions},
    }


def _keys(callbacks: Sequence[Callback]) -> list[str]:
    """Name callbacks by class, and number those of one class in their order."""
    names = [type(callback).__name__ for callback in callbacks]
    return [f"{name}-{names[:n].count(name)}" for n, name in enumerate(names)]


def _put_aside(folder: Path | None) -> list[str]:
    """Move the checkpoints and the log of an older run out of the way of a new one."""
    if folder is None:
        return []
    old = [path for name in _OF_A_RUN if (path := folder / name).exists()]
    if not old:
        return []
    place = next(path for n in range(1, 10_000) if not (path := folder / f"earlier-{n}").exists())
    place.mkdir()
    for path in old:
        path.rename(place / path.name)
    return [f"the checkpoints and the log of the run before are now in {place}"]


def _put_later_aside(folder: Path | None, saved: Saved) -> None:
    """Rename the checkpoints behind the one that is gone back to: their steps are done anew."""
    if folder is None or (folder / "checkpoints").resolve() != saved.path.parent.resolve():
        return
    store = CheckpointStore(folder / "checkpoints")
    store.set_aside([path for path in store.paths() if path.name > saved.path.name], "abandoned")
