"""`neumo check`: whether the graphs of a recipe are right."""

from __future__ import annotations

import json as json_text
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neumo.cli.recipes import read_recipe

if TYPE_CHECKING:
    from neumo.graph.graph import Graph
    from neumo.graph.recipe import Recipe


def check(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A recipe, or a model file (.neumo).", show_default=False)
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Override fields: modules.mel.n_mels=80.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Check a recipe: every field, every connection, every setting, all mistakes at once.

    Nothing is run and no data is read; neither torch nor another framework is needed. Exits with 1 if the
    recipe is wrong.
    """
    start = time.perf_counter()
    found = read_recipe(recipe, overrides or [])
    if found.actions:
        from neumo.engine.recipe import read_actions

        read_actions(found)
    seconds = time.perf_counter() - start
    if json:
        typer.echo(json_text.dumps({"ok": True, **report(found)}, ensure_ascii=False, indent=2))
        return
    for line in _lines(recipe, found, seconds):
        typer.echo(line)


def report(recipe: Recipe) -> dict[str, Any]:
    """Give what a check found, as plain values: graphs, assumptions, warnings, notes."""
    return {
        "graphs": {name: _graph(graph) for name, graph in recipe.graphs.items()},
        "notes": list(recipe.notes),
    }


def _graph(graph: Graph) -> dict[str, Any]:
    return {
        "mode": graph.mode,
        "modules": len(graph.modules),
        "steps": len(graph.steps),
        "connections": sum(1 for step in graph.steps for _ in step.edges()),
        "inputs": {name: str(value.type) for name, value in graph.inputs.items()},
        "outputs": {name: str(value.type) for name, value in graph.outputs.items()},
        "assumptions": [str(assumption) for assumption in graph.assumptions()],
        "warnings": [
            f"{graph.name_of(s.module)}.{port}: {text}" for s in graph.steps for port, text in s.warnings
        ],
    }


def _lines(file: str, recipe: Recipe, seconds: float) -> list[str]:
    found = report(recipe)
    width = max((len(name) for name in recipe.graphs), default=0)
    lines = [f"{file}: right ({seconds * 1000:.0f} ms)"]
    for name, graph in found["graphs"].items():
        counts = f"{graph['modules']} modules, {graph['connections']} connections"
        lines.append(f"  {name:<{width}}  {graph['mode']:<5}  {counts}  -> {', '.join(graph['outputs'])}")
    for name, graph in found["graphs"].items():
        lines += [f"  assumed  {name}: {text}, checked when it runs" for text in graph["assumptions"]]
        lines += [f"  warning  {name}: {text}" for text in graph["warnings"]]
    return lines + [f"  note     {note}" for note in found["notes"]]
