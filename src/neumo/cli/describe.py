"""`neumo describe`: what modules take and give, their settings, and what can go where."""

from __future__ import annotations

import json as json_text
from typing import Annotated, Any, Final

import typer

from neumo.cli.describe_fits import print_fits
from neumo.cli.describe_markdown import default_text
from neumo.cli.describe_markdown import markdown as write_markdown
from neumo.graph.catalogue import catalogue, describe_module, vocabs_of
from neumo.graph.catalogue_fits import connections
from neumo.graph.draw.sketch import short_type
from neumo.graph.registry import lookup
from neumo.types.errors import ConfigError

_WIDTH: Final = 100


def describe(
    module: Annotated[
        str | None, typer.Argument(metavar="[MODULE]", help="A kind, such as ConvEncoder.")
    ] = None,
    fits: Annotated[
        str | None,
        typer.Option("--fits", metavar="PORT", help="List what can go there: CTCLoss.targets"),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option("--recipe", metavar="FILE", help="Look for it in a recipe: --fits train.ctc.targets"),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print as JSON; without MODULE the whole catalogue.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the reference of all modules as Markdown.")
    ] = False,
) -> None:
    """Describe one module in full, list all of them, or say what can be connected to a port.

    Modules of your own are listed too once they are imported: neumo --import my_models describe.
    """
    if fits is not None:
        print_fits(fits, recipe, json=json)
    elif recipe is not None:
        raise ConfigError(
            "--recipe says where to look for the port of --fits",
            code="option",
            fixes=["add --fits GRAPH.MODULE.PORT", "neumo show draws the graphs of a recipe"],
        )
    elif module is not None:
        found = describe_module(lookup(module))
        typer.echo(json_text.dumps(found, ensure_ascii=False, indent=2) if json else "\n".join(_page(found)))
    elif markdown:
        typer.echo(_markdown(), nl=False)
    elif json:
        typer.echo(json_text.dumps(_everything(), ensure_ascii=False, indent=2))
    else:
        typer.echo("\n".join(_table([describe_module(entry.cls) for entry in catalogue()])))


def _markdown() -> str:
    return write_markdown([describe_module(entry.cls) for entry in catalogue()])


def _everything() -> dict[str, Any]:
    """Give the catalogue as JSON holds it: all modules, and which output may feed which input."""
    entries = catalogue()
    return {
        "version": 1,
        "vocabs": vocabs_of(entries),
        "modules": [describe_module(entry.cls) for entry in entries],
        "connections": [connection.to_json() for connection in connections(entries)],
    }


def _table(modules: list[dict[str, Any]]) -> list[str]:
    width = max((len(found["kind"]) for found in modules), default=0)
    lines: list[str] = []
    for number, found in enumerate(modules):
        if not number or modules[number - 1]["collection"] != found["collection"]:
            lines += [""] * bool(number) + [found["collection"]]
        lines.append(_cut(f"  {found['kind']:<{width}}  {found['summary']}"))
    return [*lines, "", "neumo describe MODULE shows ports and settings."]


def _page(found: dict[str, Any]) -> list[str]:
    about = f"{found['collection']}, {found['role']}" + (", has weights" if found["trainable"] else "")
    lines = [f"{found['kind']} ({about})", "", *(f"  {line}".rstrip() for line in found["doc"].split("\n"))]
    ports = [*found["takes"], *found["gives"]]
    width = max(map(len, ports + [field["name"] for field in found["fields"]]), default=0)
    example = ", ".join(f"{name}={value}" for name, value in found["example"].items())
    shown = f"  with {short_type(example)}" if example else ""
    for side in ("takes", "gives"):
        if found[side]:
            rows = (f"  {port:<{width}}  {short_type(about['type'])}" for port, about in found[side].items())
            lines += ["", f"{side}{shown}", *rows]
    if found["ports_unknown"]:
        lines += ["", f"ports: {found['ports_unknown']}"]
    if found["fields"]:
        lines += ["", "fields", *(_field_line(field, width) for field in found["fields"])]
    if found["presets"]:
        lines += ["", f"presets: {{kind: {found['kind']}, preset: NAME, ...}} in a recipe"]
        lines += [f"  {name}" for name in found["presets"]]
    return lines


def _field_line(field: dict[str, Any], width: int) -> str:
    default = "" if field["required"] else f" = {default_text(field['default'])}"
    return _cut(
        f"  {field['name']:<{width}}  {field['words']}{default}{' (required)' if field['required'] else ''}"
    )


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
