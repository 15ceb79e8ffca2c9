"""What a recipe as a whole must keep before anything is built: rules of its graphs, names of figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, cast

from neumo.engine.callbacks.evaluate import figures as figures
from neumo.engine.checks.preflight import find_loss
from neumo.engine.recipes.phases import losses_of
from neumo.engine.recipes.settings import Actions, trained_graph
from neumo.engine.updates.schedules import Plateau
from neumo.graph.rules import Finding, Purpose, find, find_between
from neumo.graph.yaml import Recipe
from neumo.types.errors import ConfigError, GraphError, NeumoError, did_you_mean

if TYPE_CHECKING:
    from neumo.graph.graph import Graph
    from neumo.graph.module import NeuralModule
    from neumo.graph.yaml.read import Node, YamlPlace


def recipe_findings(
    recipe: Recipe, actions: Actions | None = None, *, has_weights: bool = False
) -> dict[str, list[Finding]]:
    """Find where the graphs of a recipe break rules, alone and together, by the names of the graphs.

    >>> recipe_findings(Recipe(graphs={}))
    {}

    `actions` tell which graph is trained, and what is frozen in it. With `has_weights` they come from a
    model file.
    """
    trained = trained_graph(recipe, actions) if actions is not None and recipe.actions.get("train") else None
    frozen: list[NeuralModule] = []
    purposes: dict[str, Purpose] = {}
    if actions is not None and trained is not None:
        graph = recipe.graphs[trained]
        frozen = frozen_modules(graph, actions.train.freeze)
        purposes[trained] = Purpose("train", loss=find_loss(graph, losses_of(actions)[0])[1], frozen=frozen)
        has_weights = has_weights or actions.train.weights is not None
    found = {name: find(graph, purposes.get(name)) for name, graph in recipe.graphs.items()}
    chosen = [] if trained is None else [trained]
    for finding in find_between(recipe.graphs, trained=chosen, frozen=frozen, has_weights=has_weights):
        found.setdefault(finding.graph, []).append(finding)
    return found


def frozen_modules(graph: Graph, freeze: Iterable[str]) -> list[NeuralModule]:
    """Give the modules of a graph that are frozen as a whole; `head.weight` freezes a part of one."""
    patterns = [pattern for pattern in freeze if "." not in pattern]
    return [
        module
        for name, module in graph.modules.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    ]


def check_best(recipe: Recipe, actions: Actions) -> None:
    """Raise `ConfigError` for a `best` that the evaluation does not give."""
    for number, asked in enumerate(actions.train.evaluations(recipe)):
        given = figures(recipe.graph(asked.graph)) if asked.best is not None else None
        if asked.best is None or given is None or asked.best in given:
            continue
        raise ConfigError(
            f"train.evaluate.best is {asked.best!r}, and graph {asked.graph!r} gives no such figure",
            code="metric",
            where=place_of(recipe, "train", "evaluate", number, "best"),
            details=[f"it gives {', '.join(given) or 'nothing'}"],
            fixes=did_you_mean(asked.best, given),
        )


def check_followed(recipe: Recipe, actions: Actions) -> None:
    """Raise `ConfigError` for an early stop or a schedule that follows a figure which no evaluation gives."""
    followed = [(f"{where} follows", metric, keys) for where, metric, keys in _schedules(actions)]
    if actions.train.early_stop is not None:
        keys = ("train", "early_stop", 0, "metric")
        followed.insert(0, ("train.early_stop waits for", actions.train.early_stop.metric, keys))
    if not followed:
        return
    known: list[str] = []
    for asked in actions.train.evaluations(recipe):
        given = figures(recipe.graph(asked.graph))
        if given is None:
            return
        known += [f"{asked.name}.{figure}" if asked.name else figure for figure in given]
    for what, metric, keys in followed:
        if metric not in known:
            raise ConfigError(
                f"{what} {metric!r}, and no evaluation gives that figure",
                code="metric",
                where=place_of(recipe, *keys),
                details=[f"they give {', '.join(known) or 'nothing'}"],
                fixes=did_you_mean(metric, known),
            )


def _schedules(actions: Actions) -> Iterator[tuple[str, str, tuple[str | int, ...]]]:
    """Find the schedules that follow a metric: by name, with the metric, and where the recipe says so."""
    if isinstance(actions.schedule, Plateau):
        yield "train.schedule", actions.schedule.metric, ("train", "schedule", "metric")
    for number, phase in enumerate(actions.phases):
        if isinstance(phase.schedule, Plateau):
            keys = ("train", "phases", number, "schedule", "metric")
            yield f"the schedule of phase {phase.label!r}", phase.schedule.metric, keys


def place_of(recipe: Recipe, *keys: str | int, named_in: str = "") -> YamlPlace | str | None:
    """Find the place of a value in the recipe's text, as far as it is written there.

    `named_in` is the text of a mistake: a setting below the keys that it names, best as `name=value`, is the
    place.
    """
    node: Node | None = recipe.tree
    if node is None:
        return None if recipe.path is None else str(recipe.path)
    for key in keys:
        there = node.is_list if isinstance(key, int) else node.is_map and key in node.data
        node = cast("Node", node.data[key]) if there else node
    inner = (_named(node, named_in, end) for end in ("=", r"(?!\w)")) if named_in else ()
    for found in inner:
        if found is not None:
            return found.place
    return node.key if node.is_map else node.place


def _named(node: Node, text: str, end: str) -> Node | None:
    """Find the setting that a text names, followed by `end`, in a mapping or in what it holds."""
    for name, child in node.children.items():
        if re.search(rf"(?<![\w.]){re.escape(name)}{end}", text):
            return child
    below = (_named(child, text, end) for child in [*node.children.values(), *node.items])
    return next((found for found in below if found is not None), None)


def placed(error: NeumoError, where: YamlPlace | str | None) -> NeumoError:
    """Give an error of what a recipe says the place where it says so."""
    kind = ConfigError if type(error) is GraphError else type(error)
    return kind(
        error.what,
        code=error.code,
        where=error.where if where is None else where,
        details=error.details,
        why=error.why,
        path=error.path,
        fixes=error.fixes,
        data=error.data,
    )
