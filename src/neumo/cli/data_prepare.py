"""`neumo data prepare`: make a public corpus ready to be trained on."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from neumo.types.errors import ConfigError


def prepare(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The corpus; without it, all are listed.", show_default=False),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            "--root", metavar="DIR", help="Where the corpus and its manifests go.", show_default=False
        ),
    ] = None,
    archives: Annotated[
        Path | None,
        typer.Option("--archives", metavar="DIR", help="A folder with the archives: nothing is fetched."),
    ] = None,
    url: Annotated[
        str, typer.Option("--url", metavar="BASE", help="A mirror with the same files.", show_default=False)
    ] = "",
    part: Annotated[
        list[str] | None,
        typer.Option(
            "--part", metavar="NAME", help="Only this part, such as train-clean-100; may be repeated."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was made as JSON.")] = False,
) -> None:
    """Fetch, check and unpack a public corpus, and write a manifest for each of its published sets.

    Downloads go on where they stopped. Archives are compared with the checksums of their publishers, where
    those are known, and unpacked member by member: nothing may leave the folder.
    """
    from neumo.data.corpora import CORPORA, find_corpus
    from neumo.data.prepare import prepare as make

    if name is None:
        _list(json)
        return
    corpus = find_corpus(name)
    if root is None:
        raise ConfigError(
            f"where shall {name} go?", code="option", fixes=[f"neumo data prepare {name} --root DIR"]
        )
    with _progress() as (say, progress):
        if not json:
            say(f"{corpus.title}; licence: {corpus.licence}; {corpus.home}")
        found = make(
            CORPORA[name],
            root,
            archives=archives,
            url=url,
            parts=part or (),
            say=say if not json else lambda _line: None,
            progress=progress,
        )
    if json:
        typer.echo(json_text.dumps(found.to_json(), ensure_ascii=False, indent=2))
        return
    for made in found.sets.values():
        typer.echo(f"{made.manifest}  {made.entries} recordings, {made.hours:.2f} h")
        if made.left_out:
            typer.echo(f"  left out {len(made.left_out)} that cannot be read: {'; '.join(made.left_out[:3])}")
    for note in found.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"next: neumo data validate {' '.join(str(made.manifest) for made in found.sets.values())}")


def _list(json: bool) -> None:
    from neumo.data.corpora import CORPORA

    if json:
        rows = [
            {"name": c.name, "title": c.title, "licence": c.licence, "home": c.home, "parts": list(c.parts)}
            for c in CORPORA.values()
        ]
        typer.echo(json_text.dumps(rows, ensure_ascii=False, indent=2))
        return
    width = max(map(len, CORPORA))
    for corpus in CORPORA.values():
        by_hand = "" if corpus.url else " (by hand: see neumo data prepare NAME --root DIR)"
        typer.echo(f"{corpus.name.ljust(width)}  {corpus.title}; {corpus.licence}{by_hand}")
        if corpus.parts:
            typer.echo(f"{' ' * width}  parts: {', '.join(corpus.parts)}")


@contextmanager
def _progress() -> Iterator[tuple[Callable[[str], None], Callable[[str, int, int | None], None]]]:
    """Give what prints a line and what moves a bar; the bar is for terminals."""
    if not sys.stderr.isatty():
        yield typer.echo, lambda _what, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def move(what: str, done: int, total: int | None) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield lambda line: bar.console.print(line, markup=False, highlight=False), move
