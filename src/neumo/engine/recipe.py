"""Actions from recipes: the sections `factory`, `train` and `evaluate`, checked before anything is built.

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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from neumo.engine.average import averaged_weights
from neumo.engine.callbacks import Callback, Checkpoint, EarlyStop, Evaluate
from neumo.engine.checkpoint import CheckpointStore
from neumo.engine.compile import Compile
from neumo.engine.optimizers import EMA, LARC, OPTIMIZERS, Muon, Optimizer
from neumo.engine.options import Allowance, NonFinite, TrainOptions
from neumo.engine.phases import Alternate, Phase
from neumo.engine.precision import LossScale, Precision, check_overrides, read_overrides
from neumo.engine.preflight import find_loss
from neumo.engine.recipe_callbacks import (
    MAKING,
    CallbackSettings,
    check_average,
    leave_average,
    make_callbacks,
)
from neumo.engine.recipe_check import check_best, place_of, placed
from neumo.engine.recipe_kinds import read_kind
from neumo.engine.recipe_phases import PhaseSettings, losses_of, read_phases
from neumo.engine.schedules import SCHEDULES, Schedule
from neumo.engine.strategies import STRATEGIES, Strategy
from neumo.engine.verify import Verify
from neumo.engine.weight_names import check_heads, check_modules
from neumo.graph.yaml import Recipe, raise_all
from neumo.graph.yaml.fields import attempt
from neumo.types.errors import ConfigError, NeumoError

if TYPE_CHECKING:
    from neumo.engine.evaluate import Evaluation
    from neumo.engine.factory import NeuralFactory
    from neumo.engine.train import TrainResult
    from neumo.graph.graph import Graph

RECIPE: Final = "recipe.yaml"  # in the run folder: what was run

Keys: TypeAlias = tuple[str | int, ...]  # the way to a value of a recipe


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


_DEFAULTS: Final = vars(TrainSettings())


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
        names = self.graphs or (self.graph or _usual(recipe, "evaluate", "test", "dev"),)
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


def read_actions(recipe: Recipe) -> Actions:
    """Read and check the sections of a recipe; `neumo check` does no more than this, without any framework.

    >>> from neumo.graph.yaml import Recipe
    >>> asked = {"train": {"epochs": 3, "optimizer": {"kind": "AdamW", "lr": 0.002}}}
    >>> read_actions(Recipe(graphs={}, actions=asked)).optimizer.lr
    0.002

    Raises an error with all mistakes, each at its place: unknown keys, kinds, graphs and modules, with the
    nearest match, and settings that a training would refuse.
    """
    train = recipe.section("train", TrainSettings)
    actions = Actions(
        recipe.section("factory", FactorySettings),
        train,
        recipe.section("evaluate", EvaluationSettings),
        read_kind(recipe, "optimizer", OPTIMIZERS),
        read_kind(recipe, "schedule", SCHEDULES),
        read_kind(recipe, "strategy", STRATEGIES, "factory"),
        read_phases(recipe, train.phases),
    )
    raise_all(_mistakes(recipe, actions), str(recipe.path or "the recipe"))
    return actions


def section_mistakes(recipe: Recipe) -> list[NeumoError]:
    """List what is wrong within the sections of a recipe, for `load_recipe`: its graphs may be wrong, too.

    >>> from neumo.graph.yaml import Recipe
    >>> wrong = {"train": {"epoch": 3, "clip": "a"}, "factory": {"seed": -1}}
    >>> for error in section_mistakes(Recipe(graphs={}, actions=wrong)):
    ...     print(error.what)
    train has no field 'epoch'
    train.clip must be a number or null, not the text 'a'
    factory: seed=-1 is below 0
    """
    readers: list[Callable[[], object]] = [
        lambda: read_phases(recipe, recipe.section("train", TrainSettings).phases),
        lambda: read_kind(recipe, "optimizer", OPTIMIZERS),
        lambda: read_kind(recipe, "schedule", SCHEDULES),
        lambda: read_kind(recipe, "strategy", STRATEGIES, "factory"),
        lambda: recipe.section("evaluate", EvaluationSettings),
        lambda: recipe.section("factory", FactorySettings),
    ]
    found: list[NeumoError] = []
    for read in readers:
        try:
            read()
        except NeumoError as error:
            found += error.also or (error,)
    return found


def _mistakes(recipe: Recipe, actions: Actions) -> list[NeumoError]:
    """List what is wrong with sections that can be read: unknown names, and settings that are refused."""
    found = [*_unknown_graphs(recipe, actions)]
    if recipe.graphs:
        found += _unknown_precisions(recipe, actions.factory)
    if not found and recipe.graphs:
        found += _unknown_modules(recipe, actions.train)
        found += _unknown_groups(recipe, actions)
        if recipe.actions.get("train"):
            found += _refused_callbacks(recipe, actions.train)
            found += _refused_options(recipe, actions)
    return found


def _unknown_graphs(recipe: Recipe, actions: Actions) -> Iterator[NeumoError]:
    train = actions.train
    named: list[tuple[str | None, Keys]] = [(train.graph, ("train", "graph"))]
    named += [
        (each.graph, ("train", "evaluate", number, "graph"))
        for number, each in enumerate(train.evaluations(recipe))
    ]
    named += [(name, ("evaluate", "graphs", n)) for n, name in enumerate(actions.evaluate.graphs)]
    for name, keys in [*named, (actions.evaluate.graph, ("evaluate", "graph"))]:
        if name is not None:
            yield from _refusal(recipe, keys, recipe.graph, name)


def _unknown_modules(recipe: Recipe, train: TrainSettings) -> Iterator[NeumoError]:
    """Find names of modules that the section gets wrong; their weights are looked for when they are built."""
    if not train.freeze and not train.ties and not (train.start and train.start.modules):
        return
    graph = recipe.graph(train.graph or _usual(recipe, "train"))
    modules = [name for name, module in graph.modules.items() if module.role not in ("data", "metric")]
    for number, pattern in enumerate(train.freeze):
        owner = f"train.freeze: graph {graph.name!r}"
        yield from _refusal(recipe, ("train", "freeze", number), check_heads, modules, [pattern], owner)
    for number, name in enumerate(train.start.modules if train.start is not None else ()):
        keys = ("train", "weights", "modules", number)
        owner = f"train.weights: graph {graph.name!r}"
        yield from _refusal(recipe, keys, check_modules, modules, [name], owner)
    for number, tie in enumerate(train.ties):
        for side in ("weight", "to"):
            head = getattr(tie, side).partition(".")[0]
            keys = ("train", "tie", number, side)
            owner = f"train.tie: graph {graph.name!r}"
            yield from _refusal(recipe, keys, check_modules, modules, [head], owner)


def _unknown_precisions(recipe: Recipe, factory: FactorySettings) -> Iterator[NeumoError]:
    """Find names of modules that `precisions` gets wrong; any graph of the recipe may have them."""
    modules = {name: module for graph in recipe.graphs.values() for name, module in graph.modules.items()}
    computing = {name: module for name, module in modules.items() if module.role not in ("data", "metric")}
    for override in read_overrides(factory.precisions):
        keys = ("factory", "precisions", override.label)
        yield from _refusal(recipe, keys, check_overrides, [override], computing, "the recipe")


def _unknown_groups(recipe: Recipe, actions: Actions) -> Iterator[NeumoError]:
    """Find names of modules that phases, and the groups of the optimizer, get wrong."""
    graph = recipe.graph(actions.train.graph or _usual(recipe, "train"))
    modules = [name for name, module in graph.modules.items() if module.role not in ("data", "metric")]
    for number, phase in enumerate(actions.phases):
        keys = ("train", "phases", number, "trains")
        owner = f"train.phases: graph {graph.name!r}"
        yield from _refusal(recipe, keys, check_heads, modules, phase.trains, owner)
    optimizer = actions.optimizer
    if optimizer is None:
        return
    named: list[tuple[Keys, Sequence[str]]] = [
        (("groups", number, "weights"), group.patterns) for number, group in enumerate(optimizer.groups)
    ]
    if isinstance(optimizer, Muon):
        named.append((("others_for",), optimizer.others_for))
    owner = f"train.optimizer: graph {graph.name!r}"
    for keys, patterns in named:
        yield from _refusal(recipe, ("train", "optimizer", *keys), check_heads, modules, patterns, owner)


def _refused_callbacks(recipe: Recipe, train: TrainSettings) -> Iterator[NeumoError]:
    """Make what happens beside the training, one setting after the other."""
    graph = recipe.graph(train.graph or _usual(recipe, "train"))
    for name in MAKING:
        if (value := getattr(train, name)) != _DEFAULTS[name]:
            alone = CallbackSettings(**{name: value})
            yield from _refusal(recipe, ("train", name), make_callbacks, recipe, alone, graph)


def _refused_options(recipe: Recipe, actions: Actions) -> Iterator[NeumoError]:
    """Make what the training would be told, so that `check` refuses all that `train` would."""
    given = {
        key: value
        for key, value in _plain(actions.train).items()
        if value != _DEFAULTS[key] and key not in MAKING
    }

    def made(**settings: Any) -> TrainOptions:
        told = "epochs" in settings or "max_steps" in settings
        train = TrainSettings(**({} if told else {"epochs": 1}), **settings)
        chosen = actions.phases if train.phases else ()
        options = _options(recipe, replace(actions, train=train, phases=chosen), None, ())
        _ = options.average
        return options

    for name, error in attempt(made, given)[1]:
        if not isinstance(error, NeumoError):
            raise error
        yield placed(error, place_of(recipe, "train", *([name] if name else []), named_in=error.what))
    graph = recipe.graph(actions.train.graph or _usual(recipe, "train"))
    at: Keys = ("train", "phases") if actions.phases else ("train", "loss")
    lost = [error for loss in losses_of(actions) for error in _refusal(recipe, at, find_loss, graph, loss)]
    keys = ("train", "graph") if lost and lost[0].code == "mode" else at
    yield from (placed(error, place_of(recipe, *keys)) for error in lost)
    if not lost:
        yield from _refusal(recipe, (), check_best, recipe, actions)


def _refusal(recipe: Recipe, keys: Keys, check: Callable[..., object], *given: Any) -> Iterator[NeumoError]:
    """Give the error that a check raises, with its place in the recipe."""
    try:
        check(*given)
    except NeumoError as error:
        yield placed(error, place_of(recipe, *keys)) if keys else error


def trained_graph(recipe: Recipe, actions: Actions) -> str | None:
    """Name the graph that a recipe trains: the one that it says, `train`, or the only one."""
    name = actions.train.graph or _usual(recipe, "train")
    return next(iter(recipe.graphs)) if name is None and len(recipe.graphs) == 1 else name


def make_factory(recipe: Recipe, **changes: Any) -> NeuralFactory:
    """Make the factory of a recipe; `changes` are arguments that go before those of the recipe."""
    from neumo.engine.factory import NeuralFactory

    actions = read_actions(recipe)
    given: dict[str, Any] = {**_plain(actions.factory), "strategy": actions.strategy, **changes}
    factory = NeuralFactory(**given)
    factory.check_precisions(*recipe.graphs.values())
    return factory


def training_options(recipe: Recipe, actions: Actions) -> TrainOptions:
    """Make the arguments of `NeuralFactory.train` out of a recipe."""
    return _options(recipe, actions, None, ())


def run_train(
    recipe: Recipe,
    *,
    factory: NeuralFactory | None = None,
    resume: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
) -> TrainResult:
    """Train as a recipe says; what was run is kept as `recipe.yaml` in the run folder."""
    from neumo.engine.prepare import train
    from neumo.graph.yaml import save_recipe

    actions = read_actions(recipe)
    options = _options(recipe, actions, resume, callbacks)
    graph = recipe.graph(actions.train.graph or _usual(recipe, "train"))
    maker = factory if factory is not None else make_factory(recipe)
    if maker.folder is not None:
        maker.folder.mkdir(parents=True, exist_ok=True)
        if maker.session.world.rank == 0:
            save_recipe(recipe, maker.folder / RECIPE)
    for tie in actions.train.ties:
        maker.tie(graph, tie.weight, tie.to, transpose=tie.transpose)
    if actions.train.freeze:
        maker.freeze(graph, *actions.train.freeze)
    if (start := actions.train.start) is not None:
        maker.load(graph, start.file, modules=start.modules or None, rename=start.rename or None)
    result = train(maker, graph, options)
    if actions.train.average is not None:
        leave_average(maker, graph, actions.train.average, result)
    return result


def run_evaluate(
    recipe: Recipe,
    *,
    factory: NeuralFactory | None = None,
    graph: str | None = None,
    weights: str | Path | None = None,
) -> Evaluation:
    """Evaluate a graph of a recipe with the weights that were trained from it, or with named ones."""
    settings = read_actions(recipe).evaluate
    chosen = recipe.graph(graph or settings.graph or _usual(recipe, "evaluate", "test", "dev"))
    return _evaluated(recipe, {chosen.name: chosen}, factory, weights)[chosen.name]


def run_evaluations(
    recipe: Recipe, *, factory: NeuralFactory | None = None, weights: str | Path | None = None
) -> dict[str, Evaluation]:
    """Evaluate all graphs that `evaluate.graphs` of a recipe names, as `run_evaluate` does one."""
    return _evaluated(recipe, read_actions(recipe).evaluate.sets(recipe), factory, weights)


def _evaluated(
    recipe: Recipe,
    graphs: Mapping[str, Graph],
    factory: NeuralFactory | None,
    weights: str | Path | None,
) -> dict[str, Evaluation]:
    actions = read_actions(recipe)
    settings = actions.evaluate
    maker = factory if factory is not None else make_factory(recipe)
    place = Path(weights) if weights is not None else settings.weights
    if place is None and actions.train.average is not None:
        place = averaged_weights(maker.folder)
    for graph in graphs.values():
        maker.load(graph, place if place is not None else trained_weights(maker.folder, settings.checkpoint))
    return maker.evaluate(graphs, per_utterance=settings.per_utterance)


def trained_weights(folder: Path | None, which: Literal["last", "best"] = "last") -> Path:
    """Find the newest or the best checkpoint of a run folder; raises `ConfigError` if it has none."""
    saved, _ = (
        CheckpointStore(folder / "checkpoints").newest(repair=False) if folder is not None else (None, [])
    )
    if folder is None or saved is None:
        raise ConfigError(
            "there are no trained weights to evaluate",
            code="weights",
            details=[f"{folder} has no checkpoints"] if folder is not None else ["the factory has no folder"],
            fixes=["train first", "evaluate.weights=model.safetensors"],
        )
    best: Mapping[str, Any] | None = saved.state.get("best")
    if which == "best" and best is not None:
        path = folder / "checkpoints" / f"step-{best['step']:08d}"
        return path if path.is_dir() else saved.path
    return saved.path


def _options(
    recipe: Recipe, actions: Actions, resume: str | Path | None, callbacks: Sequence[Callback]
) -> TrainOptions:
    settings = actions.train
    stops = [EarlyStop(**_plain(settings.early_stop))] if settings.early_stop is not None else []
    checkpoint = settings.checkpoint
    if settings.average is not None:
        if actions.evaluate.checkpoint == "best":
            raise ConfigError(
                "train.average: the mean of checkpoints is left at the end, and evaluate.checkpoint asks for "
                "the best one",
                code="average",
                fixes=["evaluate: {checkpoint: last}", "leave out average"],
            )
        kept = checkpoint if isinstance(checkpoint, CheckpointSettings) else CheckpointSettings()
        judged = any(each.best is not None for each in settings.evaluations(recipe))
        check_average(settings.average, keep_last=kept.keep_last, keep_best=kept.keep_best, judged=judged)
    trained = recipe.graph(settings.graph or _usual(recipe, "train"))
    return TrainOptions(
        loss=settings.loss,
        optimizer=actions.optimizer,
        schedule=actions.schedule,
        epochs=settings.epochs,
        max_steps=settings.max_steps,
        max_minutes=settings.max_minutes,
        batches_per_step=settings.batches_per_step,
        clip=settings.clip,
        larc=settings.larc,
        ema=settings.ema,
        loss_scale=settings.loss_scale,
        evaluate=[_evaluation(recipe, each) for each in settings.evaluations(recipe)],
        checkpoint=Checkpoint(**_plain(checkpoint))
        if isinstance(checkpoint, CheckpointSettings)
        else checkpoint,
        resume=resume if resume is not None else settings.resume,
        nonfinite=settings.nonfinite,
        bad_limit=settings.bad_limit,
        callbacks=[*callbacks, *stops, *make_callbacks(recipe, settings, trained)],
        phases=actions.phases,
        alternate=settings.alternate,
    )


def _evaluation(recipe: Recipe, settings: EvaluateSettings) -> Evaluate:
    given: dict[str, Any] = {**_plain(settings), "graph": recipe.graph(settings.graph)}
    return Evaluate(**given)


def _plain(settings: Any) -> dict[str, Any]:
    return {field.name: getattr(settings, field.name) for field in fields(settings)}


def _usual(recipe: Recipe, *names: str) -> str | None:
    """The first usual name that the recipe has a graph for; with None a recipe gives its only one."""
    return next((name for name in names if name in recipe.graphs), None)
