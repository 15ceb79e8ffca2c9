"""What a recipe lets happen beside a training: trackers, samples, profiles, and what changes on the way.

train:
  track: [tensorboard, {kind: wandb, project: digits}]
  samples: {graph: evaluate, every_epochs: 5, count: 4}
  profile: {start: 20, steps: 5}
  unfreeze: {at: {encoder: 2, "encoder.blocks.11.*": 1}, unit: epochs}
  schedule_values:
    - {module: encoder, number: "*.dropout", pieces: [{start: 0.0, end: 0.3, until: 1000}, {value: 0.3}]}
  average: {last: 5}                  # what is left at the end is the mean of the 5 newest checkpoints
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from neumo.engine.callbacks import Callback, Keep, Profile, Ramp, Samples, ScheduleValue, Unfreeze
from neumo.engine.checkpoints.average import (
    AVERAGED,
    average_checkpoints,
    choose_checkpoints,
    ranked_checkpoints,
)
from neumo.engine.processes.world import first_says, sharing_trouble
from neumo.engine.tracking import MLflow, TensorBoard, Tracker, WandB
from neumo.engine.updates.weight_names import check_heads, check_modules
from neumo.types.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from neumo.engine.factory import NeuralFactory
    from neumo.engine.loop.train import TrainResult
    from neumo.graph.graph import Graph
    from neumo.graph.yaml import Recipe

TrackerKind = Literal["tensorboard", "wandb", "mlflow"]
_TRACKERS: Final[Mapping[str, tuple[type[Tracker], tuple[str, ...]]]] = {
    "tensorboard": (TensorBoard, ()),
    "wandb": (WandB, ("project", "name", "mode")),
    "mlflow": (MLflow, ("uri", "experiment", "name")),
}


@dataclass(frozen=True, kw_only=True)
class TrackSettings:
    """A tracker: `project` and `mode` are of W&B, `uri` and `experiment` of MLflow, `name` of both."""

    kind: TrackerKind
    every_steps: int = 1
    project: str | None = None
    mode: str | None = None
    uri: str | None = None
    experiment: str | None = None
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class SamplesSettings:
    """Samples of what a graph computes; see `Samples`."""

    graph: str = "evaluate"
    every_epochs: int | None = None
    every_steps: int | None = None
    count: int = 4
    outputs: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ProfileSettings:
    """Which steps are profiled; see `Profile`."""

    start: int = 10
    steps: int = 5


@dataclass(frozen=True, kw_only=True)
class UnfreezeSettings:
    """When weights are let free, by names and patterns; see `Unfreeze`."""

    at: dict[str, int]
    unit: Literal["epochs", "steps"] = "epochs"


@dataclass(frozen=True, kw_only=True)
class PieceSettings:
    """A part of a schedule: a `value` that stays, or a line from `start` to `end`; `until` when."""

    value: float | None = None
    start: float | None = None
    end: float | None = None
    until: int | float | None = None

    def piece(self) -> Keep | Ramp:
        """Make the piece; raises `ConfigError` for settings that do not go together."""
        if self.value is not None and self.start is None and self.end is None:
            return Keep(self.value, self.until)
        if self.value is None and self.start is not None and self.end is not None:
            return Ramp(self.start, self.end, self.until)
        raise ConfigError(
            "schedule_values: a piece has a value, or a start and an end",
            code="schedule",
            fixes=["{value: 0.1, until: 500}", "{start: 0.0, end: 0.3}"],
        )


@dataclass(frozen=True, kw_only=True)
class ValueSettings:
    """A number of a module that changes over the steps; see `ScheduleValue`."""

    module: str
    number: str
    pieces: tuple[PieceSettings, ...]


@dataclass(frozen=True, kw_only=True)
class AverageSettings:
    """Of which checkpoints the mean is left at the end: so many of the newest, or of the best."""

    last: int | None = None
    best: int | None = None

    def __post_init__(self) -> None:
        if (self.last is None) == (self.best is None):
            raise ConfigError("average: give last or best", code="average", fixes=["average: {last: 5}"])


@dataclass(frozen=True, kw_only=True)
class CallbackSettings:
    """The part of the section `train` that says what happens beside the training."""

    track: tuple[TrackSettings | TrackerKind, ...] | TrackSettings | TrackerKind = ()
    samples: SamplesSettings | None = None
    profile: ProfileSettings | bool = False
    unfreeze: UnfreezeSettings | None = None
    schedule_values: tuple[ValueSettings, ...] | ValueSettings = ()
    average: AverageSettings | None = None


MAKING: Final = ("track", "samples", "profile", "unfreeze", "schedule_values")  # settings that make callbacks


def make_callbacks(recipe: Recipe, settings: CallbackSettings, trained: Graph) -> list[Callback]:
    """Make the callbacks that a recipe asks for; raises the error of what is asked for wrongly."""
    modules = [name for name, module in trained.modules.items() if module.role not in ("data", "metric")]
    owner = f"graph {trained.name!r}"
    made: list[Callback] = []
    track = settings.track if isinstance(settings.track, tuple) else (settings.track,)
    made += [
        _tracker(each if isinstance(each, TrackSettings) else TrackSettings(kind=each)) for each in track
    ]
    if settings.samples is not None:
        made.append(_samples(recipe.graph(settings.samples.graph), settings.samples))
    if settings.profile is not False:
        asked = settings.profile if isinstance(settings.profile, ProfileSettings) else ProfileSettings()
        made.append(Profile(start=asked.start, steps=asked.steps))
    if settings.unfreeze is not None:
        check_heads(modules, settings.unfreeze.at, f"train.unfreeze: {owner}")
        made.append(Unfreeze(settings.unfreeze.at, unit=settings.unfreeze.unit))
    values = settings.schedule_values
    for value in values if isinstance(values, tuple) else (values,):
        check_modules(modules, [value.module], f"train.schedule_values: {owner}")
        made.append(ScheduleValue(value.module, value.number, *(each.piece() for each in value.pieces)))
    return made


def _samples(graph: Graph, settings: SamplesSettings) -> Samples:
    return Samples(
        graph,
        every_epochs=settings.every_epochs,
        every_steps=settings.every_steps,
        count=settings.count,
        outputs=settings.outputs,
    )


def _tracker(settings: TrackSettings) -> Tracker:
    kind, known = _TRACKERS[settings.kind]
    given: dict[str, Any] = {
        each.name: getattr(settings, each.name)
        for each in fields(settings)
        if each.name not in ("kind", "every_steps") and getattr(settings, each.name) is not None
    }
    for name in given:
        if name not in known:
            raise ConfigError(
                f"track: {settings.kind} has no setting {name!r}",
                code="tracking",
                details=[f"it has {', '.join((*known, 'every_steps'))}"],
                fixes=did_you_mean(name, known),
            )
    return kind(every_steps=settings.every_steps, **given)


def check_average(settings: AverageSettings, *, keep_last: int, keep_best: int, judged: bool) -> None:
    """Raise `ConfigError` if the checkpoints of which the mean is wanted are not kept.

    >>> check_average(AverageSettings(last=2), keep_last=2, keep_best=1, judged=False)
    """
    if settings.best is not None and not judged:
        raise ConfigError(
            f"average: {{best: {settings.best}}} needs to know what is best",
            code="average",
            fixes=["evaluate: {best: wer} says which figure decides"],
        )
    for name, wanted, kept in (("last", settings.last, keep_last), ("best", settings.best, keep_best)):
        if wanted is not None and wanted > kept:
            raise ConfigError(
                f"average: {{{name}: {wanted}}} needs {wanted} checkpoints, and {kept} are kept",
                code="average",
                fixes=[f"checkpoint: {{keep_{name}: {wanted}}}"],
            )


def leave_average(
    factory: NeuralFactory, graph: Graph, settings: AverageSettings, result: TrainResult
) -> None:
    """Put the mean of checkpoints into the modules; of those that there are, if a training was short.

    The first process makes it; all processes raise what it cannot do.
    """
    folder, world = factory.folder, factory.session.world
    if folder is None:
        return
    names = ""
    with sharing_trouble(world, "the mean of checkpoints"):
        if world.rank == 0:
            names = ", ".join(path.name for path in _average(factory, folder, settings))
    names = first_says(world, names, "the mean of checkpoints")
    if not names:
        result.notes.append("no checkpoint has a figure, so there is no mean of the best ones")
        return
    factory.load(graph, folder / AVERAGED)
    result.notes.append(f"the weights are the mean of {names}")


def _average(factory: NeuralFactory, folder: Path, settings: AverageSettings) -> list[Path]:
    """Write the mean of the newest or the best checkpoints, and say of which; of none, there is none."""
    there = ranked_checkpoints(folder, by_figure=settings.best is not None)
    count = min(settings.best or settings.last or 1, len(there))
    if not count:
        return []
    best, last = (count, None) if settings.best is not None else (None, count)
    average_checkpoints(folder, last=last, best=best, session=factory.session)
    return choose_checkpoints(folder, last=last, best=best)
