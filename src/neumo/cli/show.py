"""`neumo show`: draw the graphs of a recipe."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from neumo.cli.recipes import read_recipe
from neumo.graph.draw import to_mermaid, to_page, to_svg, to_text
from neumo.graph.graph import Graph
from neumo.types.errors import ConfigError


class Format(StrEnum):
    """The kinds of drawing."""

    text = "text"
    mermaid = "mermaid"
    svg = "svg"
    html = "html"


_SUFFIXES = {
    ".svg": Format.svg,
    ".html": Format.html,
    ".htm": Format.html,
    ".mmd": Format.mermaid,
    ".txt": Format.text,
}


def show(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A recipe, or a model file (.neumo).", show_default=False)
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Override fields: modules.mel.n_mels=80.")
    ] = None,
    graph: Annotated[
        str | None, typer.Option("--graph", metavar="NAME", help="Draw this graph only.")
    ] = None,
    format: Annotated[
        Format | None, typer.Option("--format", help="How to draw; else by the suffix of the file, or text.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write to a file: .html, .svg, .mmd or .txt."),
    ] = None,
) -> None:
    """Draw the graphs of a recipe, with the type of every value.

    HTML is a page for a browser: point at a port to read its type, at an axis to follow its size.
    """
    found = read_recipe(recipe, overrides or [])
    graphs = list(found.graphs.values()) if graph is None else [found.graph(graph)]
    kind = format or _kind(output)
    drawing = draw(graphs, kind, Path(recipe).name)
    if output is None:
        typer.echo(drawing, nl=not drawing.endswith("\n"))
        return
    try:
        output.write_text(drawing, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {output}: {error.strerror}", code="output") from None


def _kind(output: Path | None) -> Format:
    """Tell the format by the suffix of the file; a suffix that says nothing about drawings is refused."""
    suffix = output.suffix.lower() if output else ""
    if suffix and suffix not in _SUFFIXES:
        raise ConfigError(
            f"`neumo show` does not draw {suffix} files",
            code="option",
            fixes=[f"write to a file that ends in {', '.join(_SUFFIXES)}", "add --format"],
        )
    return _SUFFIXES.get(suffix, Format.text)


def draw(graphs: list[Graph], kind: Format, title: str) -> str:
    """Draw graphs in one of the formats; SVG and Mermaid hold a single one."""
    if kind is Format.text:
        return "\n\n".join(to_text(graph) for graph in graphs)
    if kind is Format.html:
        return to_page(graphs, title)
    if len(graphs) != 1:
        names = ", ".join(graph.name for graph in graphs)
        what = f"{kind.value} holds one graph, and {title} has {len(graphs)}"
        raise ConfigError(what, code="recipe-name", fixes=[f"add --graph, one of {names}"])
    return to_svg(graphs[0]) + "\n" if kind is Format.svg else to_mermaid(graphs[0])
