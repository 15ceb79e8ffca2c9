"""Going on with a training: which checkpoint, what it restores, and what is done with an older run in the
folder.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from neumo.engine.checkpoints.average import AVERAGED
from neumo.engine.checkpoints.store import CheckpointStore, Saved
from neumo.engine.loop.nonfinite import FILE, forget_later
from neumo.engine.processes.launch import restarted
from neumo.engine.processes.world import first_says, sharing_trouble
from neumo.engine.tracking import LOG
from neumo.types.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from neumo.engine.backend import TrainedState
    from neumo.engine.callbacks import Callback
    from neumo.engine.loop.phases import Cycle
    from neumo.engine.loop.train import Training
    from neumo.engine.processes.world import World

_TURNS_SHOWN: Final = 12  # steps of a pattern of phases, in messages
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
    with sharing_trouble(world, "the checkpoint to go on from"):
        if world.rank == 0:
            saved, notes = _choose(folder, resume)
    path = first_says(world, str(saved.path) if saved is not None else "", "the checkpoint to go on from")
    with sharing_trouble(world, "reading the checkpoint"):
        if world.rank and path:
            saved = _read(Path(path), world.rank)
    return saved, notes


def _read(path: Path, rank: int) -> Saved:
    """Read the checkpoint that the first process has chosen, and verified."""
    if not path.is_dir():
        raise _not_shared(path, rank)
    return CheckpointStore(path.parent).read(path, verify=False)


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
    names = [updater.name for updater in training.updaters]
    load_trained(training.trainer, saved, run.seed, training.cycle, names)
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


def load_trained(trainer: TrainedState, saved: Saved, seed: int, cycle: Cycle, names: Sequence[str]) -> None:
    """Load weights and optimizers, by the `names` of their phases; refuses those of another training."""
    if (before := saved.state["seed"]) != seed:
        raise ConfigError(
            f"{saved.path.name} was trained with seed {before}, and this factory has seed {seed}",
            code="resume",
            where=str(saved.path),
            fixes=[f"NeuralFactory(seed={before})", "resume='never' starts anew"],
        )
    _check_cycle(cycle, [name for name in names if name], saved)
    trainer.load(saved.path, saved.state["trainer"])


def _check_cycle(cycle: Cycle, names: Sequence[str], saved: Saved) -> None:
    """Raise `ConfigError` where the same phases took turns in another way: the rates count their updates."""
    before = saved.state.get("cycle")
    same = list(saved.state["trainer"].get("phases", ())) == list(names)  # else the trainer says what differs
    if before is None or not same or [tuple(each) for each in before] == list(cycle.rounds):
        return
    ours = [list(each) for each in cycle.rounds]
    raise ConfigError(
        f"{saved.path.name} was trained with phases that took turns in another way",
        code="resume",
        where=str(saved.path),
        details=[f"before: {_turns(before, names)}", f"now:    {_turns(ours, names)}"],
        why="Rates count the updates of each phase, so they would be those of other steps.",
        fixes=["the same steps, every and alternate as before", "another folder starts anew"],
    )


def _turns(rounds: Sequence[Sequence[int]], names: Sequence[str]) -> str:
    """Say which phases update in each step of a pattern."""
    steps = [" ".join(names[number] for number in each) for each in rounds[:_TURNS_SHOWN]]
    return " | ".join([*steps, *(["..."] if len(rounds) > _TURNS_SHOWN else [])])


def whole_state(
    training: Training, callbacks: Sequence[Callback], versions: Mapping[str, str]
) -> dict[str, Any]:
    """Return everything but arrays that a checkpoint holds, ready for JSON."""
    return {
        **training.run.state(),
        "trainer": training.trainer.scalars(),
        "cycle": [list(each) for each in training.cycle.rounds],
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
