"""`neumo describe --fits PORT`: what can be connected to a port, in the catalogue or in a recipe."""

from __future__ import annotations

import json as json_text
from typing import Any

import typer

from neumo.cli.recipes import read_recipe
from neumo.graph.candidates import candidates_for, find_port, wanted_beside
from neumo.graph.catalogue_fits import fits_modules, fits_port
from neumo.graph.draw.sketch import short_type
from neumo.graph.graph import Graph
from neumo.graph.module import signature_of
from neumo.graph.value import Value
from neumo.types.errors import ConfigError


def print_fits(port: str, recipe: str | None, *, json: bool) -> None:
    """Print what can go to a port: `CTCLoss.targets`, or `train.ctc.targets` of a recipe."""
    found = _in_catalogue(port) if recipe is None else _in_recipe(port, recipe)
    typer.echo(json_text.dumps(found, ensure_ascii=False, indent=2) if json else "\n".join(_lines(found)))


def _in_catalogue(port: str) -> dict[str, Any]:
    into, out_of = fits_port(port)
    return {
        "port": port,
        "fed_by": [each.to_json() for each in into],
        "feeds": [each.to_json() for each in out_of],
    }


def _in_recipe(port: str, recipe: str) -> dict[str, Any]:
    """Look at a port of a graph: its values that fit now, then the modules that would."""
    graph, name = _graph_of(port, recipe)
    step, asked = find_port(graph, name)
    connected = {id(value) for at, value in step.edges() if at == asked}
    wanted = signature_of(step.module).takes[asked].as_single()
    solved = wanted_beside(step, asked)
    beside = {each.giver for each in fits_modules(solved)}  # with the sizes that the other connections tell
    values = [
        {"value": _spelled(graph, value), "type": str(value.type), "connected": id(value) in connected}
        for value in candidates_for(graph, name)
    ]
    modules = [each.to_json() for each in fits_modules(wanted) if each.giver in beside]
    return {"port": f"{graph.name}.{name}", "wanted": str(solved), "values": values, "fed_by": modules}


def _graph_of(port: str, file: str) -> tuple[Graph, str]:
    """Split `train.ctc.targets` into the graph of a recipe and the port; a single graph need not be named."""
    recipe = read_recipe(file, ())
    name, _, rest = port.partition(".")
    if name in recipe.graphs and "." in rest:
        return recipe.graphs[name], rest
    if len(recipe.graphs) == 1:
        return recipe.graph(), port
    raise ConfigError(
        f"{port!r} does not say which graph of {file} is meant",
        code="recipe-name",
        details=[f"its graphs are {', '.join(recipe.graphs)}"],
        fixes=[f"write {each.name}.{port}" for each in recipe.graphs.values() if name in each.modules],
    )


def _spelled(graph: Graph, value: Value) -> str:
    module = value.step.module
    return f"{graph.name_of(module)}.{value.port}" if module in graph else value.name


def _lines(found: dict[str, Any]) -> list[str]:
    """Write what was found as text: values of the graph first, then the modules of the catalogue."""
    lines = [found["port"] + (f"  {short_type(found['wanted'])}" if "wanted" in found else "")]
    if "values" in found:
        lines += ["", "values of the graph that fit"]
        width = max((len(each["value"]) for each in found["values"]), default=0)
        lines += [
            f"  {each['value']:<{width}}  {short_type(each['type'])}{'  (connected)' * each['connected']}"
            for each in found["values"]
        ] or ["  none"]
    if found["fed_by"]:
        lines += ["", "can be fed by", *_rows(found["fed_by"], "from")]
    if found.get("feeds"):
        lines += ["", "can feed", *_rows(found["feeds"], "to")]
    if len(lines) == 1:
        lines += ["", "No module of the catalogue fits."]
    return lines


def _rows(connections: list[dict[str, Any]], side: str) -> list[str]:
    width = max(len(each[side]) for each in connections)
    return [f"  {each[side]:<{width}}  {_how(each)}".rstrip() for each in connections]


def _how(connection: dict[str, Any]) -> str:
    """Say on what condition two ports fit, in a few words."""
    if connection["outcome"] == "adapter":
        return f"through {connection['through']}"
    words = [connection["through"]] if connection["through"] else []
    words += [f"assuming {' and '.join(connection['assumes'])}"] if connection["assumes"] else []
    return ", ".join(words)
