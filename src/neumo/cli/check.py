"""`neumo check`: whether the graphs of a recipe are right."""

from __future__ import annotations

import json as json_text
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neumo.cli.recipes import read_recipe

if TYPE_CHECKING:
    from neumo.engine.passes.dry_run import DryRun
    from neumo.engine.recipes import Actions
    from neumo.graph.graph import Graph
    from neumo.graph.rules import Finding
    from neumo.graph.yaml import Recipe


def check(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A recipe, or a model file (.neumo).", show_default=False)
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Override fields: modules.mel.n_mels=80.")
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="Run each graph once on a generated batch as well; needs torch.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Check a recipe: every field, connection, setting and rule of its graphs, all mistakes at once.

    Nothing is run and no data is read; neither torch nor another framework is needed. Warnings are printed;
    rules that the recipe silences are listed with the reasons. With --run each graph also runs once, on a
    batch that is made from its types, with every guard on, and a loss goes back to its weights. Exits with 1
    if the recipe is wrong.
    """
    start = time.perf_counter()
    found = read_recipe(recipe, overrides or [], whole=True)
    actions = None
    if found.actions:
        from neumo.engine.recipes import read_actions

        actions = read_actions(found)
    findings = check_findings(found, actions, has_weights=recipe.endswith(".neumo"))
    seconds = time.perf_counter() - start
    runs = run_once(found, actions) if run else []
    if json:
        result = {"ok": True, **report(found, findings)} | ({"runs": [*map(vars, runs)]} if run else {})
        typer.echo(json_text.dumps(result, ensure_ascii=False, indent=2))
        return
    for line in [*_lines(recipe, found, findings, seconds), *(f"  ran      {each}" for each in runs)]:
        typer.echo(line)


def run_once(recipe: Recipe, actions: Actions | None, *, as_trained: bool = False) -> list[DryRun]:
    """Run each graph of a recipe once on a batch made from its types, `as_trained` in its precision, too."""
    from neumo.engine.recipes.dry_runs import dry_runs

    return dry_runs(recipe, actions, as_trained=as_trained)


def check_findings(
    recipe: Recipe, actions: Actions | None, *, has_weights: bool = False
) -> dict[str, list[Finding]]:
    """Find what rules have to say about the graphs of a recipe, by graph; raises an error for all errors."""
    from neumo.engine.recipes.check import check_followed, recipe_findings
    from neumo.graph.rules import active
    from neumo.graph.yaml import raise_all

    if actions is not None:
        check_followed(recipe, actions)
    found = recipe_findings(recipe, actions, has_weights=has_weights)
    errors = [finding.error() for each in found.values() for finding in active(each, "error")]
    raise_all([*errors], str(recipe.path or "the recipe"))
    return found


def say_findings(findings: Mapping[str, Iterable[Finding]], say: Callable[[str], Any]) -> None:
    """Say each warning, and what is silenced."""
    for line in _finding_lines(findings):
        say(line)


def report(recipe: Recipe, findings: Mapping[str, Sequence[Finding]]) -> dict[str, Any]:
    """Give what a check found, as plain values: graphs, assumptions, warnings, findings of rules, notes."""
    return {
        "graphs": {name: _graph(graph, findings.get(name, ())) for name, graph in recipe.graphs.items()},
        "notes": list(recipe.notes),
    }


def _graph(graph: Graph, findings: Iterable[Finding]) -> dict[str, Any]:
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
        "findings": [finding.to_json() for finding in findings],
    }


def _lines(file: str, recipe: Recipe, findings: Mapping[str, Sequence[Finding]], seconds: float) -> list[str]:
    from neumo.graph.rules import unneeded

    found = report(recipe, findings)
    width = max((len(name) for name in recipe.graphs), default=0)
    lines = [f"{file}: right ({seconds * 1000:.0f} ms)"]
    for name, graph in found["graphs"].items():
        counts = f"{graph['modules']} modules, {graph['connections']} connections"
        lines.append(f"  {name:<{width}}  {graph['mode']:<5}  {counts}  -> {', '.join(graph['outputs'])}")
    for name, graph in found["graphs"].items():
        lines += [f"  assumed  {name}: {text}, checked when it runs" for text in graph["assumptions"]]
        lines += [f"  warning  {name}: {text}" for text in graph["warnings"]]
    lines += [f"  {line}" for line in _finding_lines(findings)]
    for name, graph in recipe.graphs.items():
        idle = unneeded(graph, findings.get(name, ()))
        lines += [f"  note     {name}: silences {rule}, which it keeps" for rule in idle]
    return lines + [f"  note     {note}" for note in found["notes"]]


def _finding_lines(findings: Mapping[str, Iterable[Finding]]) -> list[str]:
    return [
        f"silenced {name}: {finding}, because: {finding.silenced}"
        if finding.silenced
        else f"warning  {name}: {finding}"
        for name, each in findings.items()
        for finding in each
    ]
