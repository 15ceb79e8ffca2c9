"""Reads what a recipe asks for, and finds all its mistakes before anything is built; needs no framework."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from neumo.engine.checks.preflight import find_loss
from neumo.engine.loop.options import TrainOptions
from neumo.engine.processes.strategies import STRATEGIES
from neumo.engine.recipes.beside import MAKING, CallbackSettings, make_callbacks
from neumo.engine.recipes.check import check_best, place_of, placed
from neumo.engine.recipes.kinds import read_kind
from neumo.engine.recipes.options import training_options, values_of
from neumo.engine.recipes.phases import losses_of, read_phases
from neumo.engine.recipes.settings import (
    DEFAULTS,
    Actions,
    EvaluationSettings,
    FactorySettings,
    TrainSettings,
    usual_graph,
)
from neumo.engine.updates.optimizers import OPTIMIZERS, Muon
from neumo.engine.updates.precision import check_overrides, read_overrides
from neumo.engine.updates.schedules import SCHEDULES
from neumo.engine.updates.weight_names import check_heads, check_modules
from neumo.graph.yaml import Recipe, raise_all
from neumo.graph.yaml.fields import attempt
from neumo.types.errors import NeumoError

Keys: TypeAlias = tuple[str | int, ...]  # the way to a value of a recipe


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
    graph = recipe.graph(train.graph or usual_graph(recipe, "train"))
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
    graph = recipe.graph(actions.train.graph or usual_graph(recipe, "train"))
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
    graph = recipe.graph(train.graph or usual_graph(recipe, "train"))
    for name in MAKING:
        if (value := getattr(train, name)) != DEFAULTS[name]:
            alone = CallbackSettings(**{name: value})
            yield from _refusal(recipe, ("train", name), make_callbacks, recipe, alone, graph)


def _refused_options(recipe: Recipe, actions: Actions) -> Iterator[NeumoError]:
    """Make what the training would be told, so that `check` refuses all that `train` would."""
    given = {
        key: value
        for key, value in values_of(actions.train).items()
        if value != DEFAULTS[key] and key not in MAKING
    }

    def made(**settings: Any) -> TrainOptions:
        told = "epochs" in settings or "max_steps" in settings
        train = TrainSettings(**({} if told else {"epochs": 1}), **settings)
        chosen = actions.phases if train.phases else ()
        options = training_options(recipe, replace(actions, train=train, phases=chosen))
        _ = options.average
        return options

    for name, error in attempt(made, given)[1]:
        if not isinstance(error, NeumoError):
            raise error
        yield placed(error, place_of(recipe, "train", *([name] if name else []), named_in=error.what))
    graph = recipe.graph(actions.train.graph or usual_graph(recipe, "train"))
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
