"""Trains and evaluates as a recipe says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from neumo.engine.callbacks import Callback
from neumo.engine.checkpoints.average import averaged_weights
from neumo.engine.checkpoints.store import CheckpointStore
from neumo.engine.recipes.actions import read_actions
from neumo.engine.recipes.beside import leave_average
from neumo.engine.recipes.kept import KeepRecipe
from neumo.engine.recipes.options import training_options, values_of
from neumo.engine.recipes.settings import usual_graph
from neumo.graph.yaml import Recipe
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from neumo.engine.factory import NeuralFactory
    from neumo.engine.loop.train import TrainResult
    from neumo.engine.passes.evaluate import Evaluation
    from neumo.graph.graph import Graph


def make_factory(recipe: Recipe, **changes: Any) -> NeuralFactory:
    """Make the factory of a recipe; `changes` are arguments that go before those of the recipe."""
    from neumo.engine.factory import NeuralFactory

    actions = read_actions(recipe)
    given: dict[str, Any] = {**values_of(actions.factory), "strategy": actions.strategy, **changes}
    factory = NeuralFactory(**given)
    factory.check_precisions(*recipe.graphs.values())
    return factory


def run_train(
    recipe: Recipe,
    *,
    factory: NeuralFactory | None = None,
    resume: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
) -> TrainResult:
    """Train as a recipe says; what was run is kept as `recipe.yaml` in the run folder."""
    from neumo.engine.loop.prepare import train
    from neumo.graph.yaml import write_recipe

    actions = read_actions(recipe)
    maker = factory if factory is not None else make_factory(recipe)
    kept = KeepRecipe(write_recipe(recipe, maker.folder))
    options = training_options(recipe, actions, resume, [kept, *callbacks])
    graph = graph_to_train(recipe, maker)
    result = train(maker, graph, options)
    if actions.train.average is not None:
        leave_average(maker, graph, actions.train.average, result)
    return result


def graph_to_train(recipe: Recipe, factory: NeuralFactory) -> Graph:
    """Find the graph that a recipe trains, and tie, freeze and load its weights as the recipe says."""
    settings = read_actions(recipe).train
    graph = recipe.graph(settings.graph or usual_graph(recipe, "train"))
    for tie in settings.ties:
        factory.tie(graph, tie.weight, tie.to, transpose=tie.transpose)
    if settings.freeze:
        factory.freeze(graph, *settings.freeze)
    if (start := settings.start) is not None:
        factory.load(graph, start.file, modules=start.modules or None, rename=start.rename or None)
    return graph


def run_evaluate(
    recipe: Recipe,
    *,
    factory: NeuralFactory | None = None,
    graph: str | None = None,
    weights: str | Path | None = None,
) -> Evaluation:
    """Evaluate a graph of a recipe with the weights that were trained from it, or with named ones."""
    settings = read_actions(recipe).evaluate
    chosen = recipe.graph(graph or settings.graph or usual_graph(recipe, "evaluate", "test", "dev"))
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
