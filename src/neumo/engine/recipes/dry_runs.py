"""Runs every graph of a recipe once, on batches made from its types."""

from __future__ import annotations

from neumo.engine.backend import Setup, find_backend
from neumo.engine.loop.options import check_allowances
from neumo.engine.passes.dry_run import DryRun, dry_run
from neumo.engine.recipes.phases import losses_of
from neumo.engine.recipes.settings import Actions, trained_graph
from neumo.engine.updates.precision import read_overrides
from neumo.graph.yaml import Recipe, raise_all
from neumo.types import NeumoError


def dry_runs(
    recipe: Recipe, actions: Actions | None = None, *, seed: int = 0, as_trained: bool = False
) -> list[DryRun]:
    """Run every graph of a recipe once, on the CPU; graphs that share modules share their weights here, too.

    With `as_trained` they run on the device and in the precision that the recipe trains with.
    Raises the error of the graph that fails, or one that shows those of all that do.
    """
    backend = actions.factory.backend if actions is not None else "torch"
    trained = trained_graph(recipe, actions) if actions is not None and recipe.actions.get("train") else None
    setup = Setup(device="cpu", seed=seed)
    if actions is not None and as_trained:
        asked = actions.factory
        setup = Setup(
            device=asked.device,
            precision=asked.precision,
            precisions=read_overrides(asked.precisions),
            seed=asked.seed,
            allow=check_allowances(asked.allow),
        )
    session = find_backend(backend).open_session(setup)
    done: list[DryRun] = []
    errors: list[NeumoError] = []
    for name, graph in recipe.graphs.items():
        losses = losses_of(actions) if actions is not None and name == trained else [None]
        train = True if name == trained else None
        try:
            done += [dry_run(graph, session, train=train, loss=loss, seed=seed) for loss in losses]
        except NeumoError as error:
            errors.append(error)
    raise_all(errors, str(recipe.path or "the recipe"))
    return done
