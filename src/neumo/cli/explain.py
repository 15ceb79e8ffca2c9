"""`neumo explain`: what the code of an error means."""

from __future__ import annotations

import json as json_text
from typing import Annotated

import typer

from neumo.graph.explain import all_pages
from neumo.graph.explain import explain as find_page


def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="[CODE]", help="The word in brackets: PortError[lengths].")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Explain the code of an error, with a wrong and a right example; without a code, list them all."""
    pages = list(all_pages().values()) if code is None else [find_page(code)]
    if json:
        rows = [
            {"code": page.code, "topic": page.topic, "title": page.title, "text": page.text} for page in pages
        ]
        typer.echo(json_text.dumps(rows if code is None else rows[0], ensure_ascii=False, indent=2))
    elif code is not None:
        typer.echo(pages[0].render())
    else:
        typer.echo("\n".join(_list()))


def _list() -> list[str]:
    pages = list(all_pages().values())
    width = max(len(page.code) for page in pages)
    lines: list[str] = []
    for number, page in enumerate(pages):
        if not number or pages[number - 1].topic != page.topic:
            lines += [""] * bool(number) + [page.topic]
        lines.append(f"  {page.code:<{width}}  {page.title}")
    return [*lines, "", "neumo explain CODE shows a wrong and a right example."]
