"""What the sections `factory`, `train` and `evaluate` of a recipe may hold.

    factory: {precision: bf16, seed: 1, folder: runs/an4}
    train:
      graph: train                                # the default, if there is a graph of that name
      optimizer: {kind: AdamW, lr: 2e-3}
      schedule: {kind: Cosine, warmup_ratio: 0.1}
      epochs: 30
      clip: 1.0
      ema: 0.999
      evaluate: {graph: evaluate, best: wer}      # the graph `evaluate` by default; [] for none
      checkpoint: {keep_last: 2}
    evaluate: {graph: evaluate, checkpoint: best}

Reading and checking the sections needs no framework.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from neumo.engine.checks.verify import Verify
from neumo.engine.loop.options import Allowance, NonFinite
from neumo.engine.loop.phases import Alternate, Phase
from neumo.engine.processes.strategies import Strategy
from neumo.engine.recipes.beside import CallbackSettings
from neumo.engine.recipes.phases import PhaseSettings
from neumo.engine.updates.compile import Compile
from neumo.engine.updates.optimizers import EMA, LARC, Optimizer
from neumo.engine.updates.precision import LossScale, Precision, read_overrides
from neumo.engine.updates.schedules import Schedule
from neumo.graph.yaml import Recipe
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from neumo.graph.graph import Graph


@dataclass(frozen=True, kw_only=True)
class FactorySettings:
    """The section `factory`: the arguments of `NeuralFactory`; `strategy` names its `kind`, DDP or FSDP."""

    backend: str = "torch"
    device: str = "auto"
    precision: Precision = "fp32"
    precisions: dict[str, Precision] = field(default_factory=dict[str, Precision])
    seed: int = 0
    folder: Path | None = None
    verify: Verify = "boundary"
    workers: int = 0
    allow: tuple[Allowance, ...] = ()
    compile: bool | str | tuple[str, ...] | Compile | None = None
    strategy: Any = None

    def __post_init__(self) -> None:
        for name in ("seed", "workers"):
            value = getattr(self, name)
            if value < 0:
                raise ConfigError(f"factory: {name}={value} is below 0", code=name)
        read_overrides(self.precisions)


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings:
    """An evaluation during training: which graph, how often, and which metric decides what is best."""

    graph: str = "evaluate"
    every_epochs: int | None = None
    every_steps: int | None = None
    best: str | None = None
    largest: bool = False
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class CheckpointSettings:
    """How often checkpoints are written, and how many are kept."""

    every_epochs: int | None = None
    every_steps: int | None = None
    keep_last: int = 2
    keep_best: int = 1


@dataclass(frozen=True, kw_only=True)
class EarlyStopSettings:
    """When a training ends early: a metric that has not become better for `patience` evaluations."""

    metric: str
    patience: int = 5
    least: float = 0.0
    largest: bool = False

    def __post_init__(self) -> None:
        if self.patience < 1:
            raise ConfigError(f"early_stop: patience={self.patience} is below 1", code="rhythm")


@dataclass(frozen=True, kw_only=True)
class TieSettings:
    """Two weights that are one: `weight` takes the values of `to`, with its axes exchanged if `transpose`."""

    weight: str
    to: str
    transpose: bool = False


@dataclass(frozen=True, kw_only=True)
class StartSettings:
    """Where weights start: a file, the modules that are taken from it (all if none are named), new names."""

    file: Path
    modules: tuple[str, ...] = ()
    rename: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class TrainSettings(CallbackSettings):
    """The section `train`: the arguments of `NeuralFactory.train`, with graphs and modules by name.

    `optimizer` and `schedule` name their `kind`; `freeze` lists the modules, weights and patterns of
    either whose values stay (`encoder`, `head.weight`, `encoder.*.norm.*`); `weights` is a file, a
    checkpoint, a run folder or a model (`.neumo`) from which the weights start, and may name the modules that
    are taken from it; `tie` makes two weights one.
    """

    graph: str | None = None
    loss: str | None = None
    optimizer: Any = None
    schedule: Any = None
    epochs: int | None = None
    max_steps: int | None = None
    max_minutes: float | None = None
    batches_per_step: int | None = None
    clip: float | None = None
    larc: LARC | None = None
    ema: float | EMA | None = None
    loss_scale: float | LossScale | None = None
    evaluate: tuple[EvaluateSettings, ...] | EvaluateSettings | str | None = None
    checkpoint: CheckpointSettings | bool | None = None
    early_stop: EarlyStopSettings | None = None
    freeze: tuple[str, ...] = ()
    tie: tuple[TieSettings, ...] | TieSettings = ()
    weights: Path | StartSettings | None = None
    resume: str = "auto"
    nonfinite: NonFinite = "skip"
    bad_limit: int = 10
    phases: tuple[PhaseSettings, ...] = ()
    alternate: Alternate = "steps"

    @property
    def start(self) -> StartSettings | None:
        """Where the weights start, however it was written."""
        return StartSettings(file=self.weights) if isinstance(self.weights, Path) else self.weights

    @property
    def ties(self) -> tuple[TieSettings, ...]:
        """The weights that are tied, however they were written."""
        return (self.tie,) if isinstance(self.tie, TieSettings) else self.tie

    def evaluations(self, recipe: Recipe) -> tuple[EvaluateSettings, ...]:
        """The evaluations, however they were written; by default the graph `evaluate`, if there is one."""
        if self.evaluate is None:
            return (EvaluateSettings(),) if "evaluate" in recipe.graphs else ()
        if isinstance(self.evaluate, str):
            return (EvaluateSettings(graph=self.evaluate),)
        return self.evaluate if isinstance(self.evaluate, tuple) else (self.evaluate,)


DEFAULTS: Final = vars(TrainSettings())


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """The section `evaluate`: a graph or several, and with which weights (the run folder's, if none are
    named).
    """

    graph: str | None = None
    graphs: tuple[str, ...] = ()
    weights: Path | None = None
    checkpoint: Literal["last", "best"] = "last"
    per_utterance: bool = False

    def __post_init__(self) -> None:
        if self.graph is not None and self.graphs:
            raise ConfigError("evaluate names a graph, and graphs as well", code="evaluate", fixes=["graphs"])

    def sets(self, recipe: Recipe) -> dict[str, Graph]:
        """The graphs to evaluate, by name: those that are named, or the usual one."""
        names = self.graphs or (self.graph or usual_graph(recipe, "evaluate", "test", "dev"),)
        graphs = [recipe.graph(name) for name in names]
        return {name or graph.name: graph for name, graph in zip(names, graphs, strict=True)}


@dataclass(frozen=True)
class Actions:
    """What a recipe asks for, read and checked: nothing in it can fail for its spelling any more."""

    factory: FactorySettings
    train: TrainSettings
    evaluate: EvaluationSettings
    optimizer: Optimizer | None
    schedule: Schedule | None
    strategy: Strategy | None = None
    phases: tuple[Phase, ...] = ()


def usual_graph(recipe: Recipe, *names: str) -> str | None:
    """Find the first usual name that the recipe has a graph for; with None a recipe gives its only one."""
    return next((name for name in names if name in recipe.graphs), None)


def trained_graph(recipe: Recipe, actions: Actions) -> str | None:
    """Name the graph that a recipe trains: the one that it says, `train`, or the only one."""
    name = actions.train.graph or usual_graph(recipe, "train")
    return next(iter(recipe.graphs)) if name is None and len(recipe.graphs) == 1 else name
