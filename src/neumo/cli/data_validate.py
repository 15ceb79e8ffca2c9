"""`neumo data validate`: look manifests through before anything is trained on them."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neumo.cli.progress import progress_bar
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from neumo.data.audio import Wanted
    from neumo.data.findings import SetFigures, Validation
    from neumo.data.validate import Frames
    from neumo.graph.graph import Graph
    from neumo.graph.yaml import Recipe
    from neumo.types.axis import Axis
    from neumo.types.vocab import Vocab

_SHOWN = 5  # findings of one kind that are printed without --all


def validate(
    manifests: Annotated[
        list[str],
        typer.Argument(metavar="MANIFEST...", help="Manifests, or Kaldi folders.", show_default=False),
    ],
    vocab: Annotated[
        Path | None,
        typer.Option("--vocab", metavar="FILE", help="Labels, one a line, or a SentencePiece .model."),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe", metavar="FILE", help="Take vocabulary and encoder from a recipe or model file."
        ),
    ] = None,
    frame: Annotated[
        float | None,
        typer.Option("--frame", metavar="SECONDS", min=0.0001, help="How often the encoder gives a frame."),
    ] = None,
    decode: Annotated[
        bool, typer.Option("--decode", help="Read the samples too: finds silence, damage, copies.")
    ] = False,
    text_field: Annotated[
        str | None, typer.Option("--text-field", metavar="KEY", help="The key that holds the text.")
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Print every finding, not five of a kind.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with the distributions.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Count, measure and check manifests: what is broken, what is there twice, what cannot be learned from.

    Every finding names file, line and utterance. Several manifests are looked at together: speakers and
    recordings that they share are named. Exit code 1 when something is broken; warnings do not count.
    """
    from neumo.data.page import to_page
    from neumo.data.validate import Frames
    from neumo.data.validate import validate as look

    labels, frames, wanted = (None, None, None) if recipe is None else of_recipe(recipe)
    labels = labels if vocab is None else read_vocab(vocab)
    frames = frames if frame is None else Frames.every(frame)
    if frames is not None and labels is None:
        raise ConfigError(
            "how many frames a text needs depends on its labels, and there is no vocabulary",
            code="option",
            fixes=["--vocab FILE", "--recipe FILE"],
        )
    with progress_bar("validating", None) as done:
        found = look(
            manifests,
            vocab=labels,
            frames=frames,
            decode=decode,
            text_field=text_field,
            wanted=wanted,
            progress=done,
        )
    if html is not None:
        try:
            html.write_text(to_page(found), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"cannot write {html}: {error.strerror}", code="output") from None
    if json:
        typer.echo(json_text.dumps(found.to_json(), ensure_ascii=False, indent=2))
    else:
        _print(found, show_all)
        if html is not None:
            typer.echo(f"the page is {html}")
    if not found.ok:
        raise typer.Exit(1)


def read_vocab(path: Path) -> Vocab:
    """Read a vocabulary from a file of labels, one a line, or from a SentencePiece model."""
    from neumo.graph.yaml.read import read_yaml
    from neumo.graph.yaml.scope import Scope
    from neumo.graph.yaml.vocabs import read_vocab as read

    key = "sentencepiece" if path.suffix == ".model" else "file"
    scope = Scope()
    found = read(path.stem.replace(" ", "_"), read_yaml(json_text.dumps({key: str(path)}), "--vocab"), scope)
    if scope.problems or found is None:
        problem = scope.problems[0]
        raise ConfigError(problem.what, code=problem.code, fixes=problem.fixes)
    return found


def of_recipe(path: str) -> tuple[Vocab | None, Frames | None, Wanted | None]:
    """Take from a recipe the vocabulary of the texts, the frames of its encoder, and what its data takes."""
    from neumo.cli.recipes import read_recipe

    recipe = read_recipe(path, [])
    return _vocab_of(recipe), _frames_of(recipe), _wanted_of(recipe)


def _wanted_of(recipe: Recipe) -> Wanted | None:
    """What the first data layer of a recipe that reads sound does with rates and channels."""
    from neumo.data.audio import Wanted

    for graph in recipe.graphs.values():
        for module in graph.modules.values():
            given = [getattr(module, name, None) for name in ("rate", "on_rate", "channels")]
            if module.role == "data" and None not in given:
                return Wanted(given[0], given[1], given[2])  # type: ignore[arg-type]
    return None


def _vocab_of(recipe: Recipe) -> Vocab | None:
    modules = [module for graph in recipe.graphs.values() for module in graph.modules.values()]
    found = [
        module for module in modules if module.role in ("data", "decoder") and getattr(module, "vocab", None)
    ]
    return getattr(found[0], "vocab") if found else None  # noqa: B009


def _frames_of(recipe: Recipe) -> Frames | None:
    """Ask the graphs how many frames the scores have for so many samples: the sizes of their types say it."""
    from neumo.data.validate import Frames, ctc_frames

    modules = [module for graph in recipe.graphs.values() for module in graph.modules.values()]
    counting = [module for module in modules if hasattr(module, "needed_frames")]
    if not counting and not any(type(module).__name__.endswith("CTC") for module in modules):
        return None  # only CTC needs a frame for each label
    # What is random in training, such as the speed, is left out elsewhere.
    graphs = sorted(recipe.graphs.items(), key=lambda item: item[1].mode != "infer")
    for name, graph in graphs:
        for size, symbol, rate in _sizes(graph):

            def count(seconds: float, size: Any = size, symbol: Any = symbol, rate: int = rate) -> int:
                return max(0, size.evaluate({symbol: max(1, round(seconds * rate))}))

            needed = counting[0].needed_frames if counting else ctc_frames  # type: ignore[attr-defined]
            return Frames(f"{size} frames of {symbol} samples (graph {name!r})", count, needed)
    return None


def _sizes(graph: Graph) -> list[tuple[Any, Any, int]]:
    """The time axes of scores that the samples of a recording decide: (size, its symbol, Hz)."""
    from neumo.types import Audio, Scores
    from neumo.types.axis import Kind

    values = [value for step in graph.steps for value in step.outputs.values()]
    rates = {}
    for value in values:
        if isinstance(value.type.element, Audio) and isinstance(value.type.element.rate, int):
            rates |= {
                symbol: value.type.element.rate for axis in value.type.axes for symbol in _symbols(axis)
            }
    found: list[tuple[Any, Any, int]] = []
    for value in values:
        if not isinstance(value.type.element, Scores):
            continue
        for axis in value.type.axes:
            symbols = _symbols(axis) if axis.kind is Kind.TIME else ()
            if len(symbols) == 1 and (symbol := symbols[0]) in rates:
                found.append((axis.size, symbol, rates[symbol]))
    return found


def _symbols(axis: Axis) -> list[Any]:
    return [] if axis.size is None else list(axis.size.symbols())


def _print(found: Validation, show_all: bool) -> None:
    """Print tables on a terminal, and plain lines of the same words in a pipe."""
    rows = [_row(figures) for figures in found.sets]
    _table(
        [
            "manifest",
            "entries",
            "hours",
            "shortest",
            "median",
            "longest",
            "rates",
            "words",
            "characters",
            "speakers",
        ],
        rows,
    )
    typer.echo(f"looked at: {'; '.join(found.checked)}")
    for note in found.notes:
        typer.echo(f"note: {note}")
    from neumo.data.findings import KINDS

    for kind, count in found.counts().items():
        level, what = KINDS[kind]
        typer.echo(f"\n{level}: {count} {what}")
        listed = [finding for finding in found.findings if finding.kind == kind]
        for finding in listed if show_all else listed[:_SHOWN]:
            typer.echo(f"  {finding}")
        if len(listed) > _SHOWN and not show_all:
            typer.echo(f"  and {len(listed) - _SHOWN} more (--all)")
    broken = sum(1 for finding in found.findings if finding.level == "error")
    typer.echo(f"\n{'nothing is broken' if found.ok else f'broken: {broken} errors'}")


def _row(figures: SetFigures) -> list[str]:
    seconds = figures.quantiles((0, 0.5, 1))
    rates = ", ".join(
        f"{rate} Hz" + (f" {count}x" if len(figures.rates) > 1 else "")
        for rate, count in figures.rates.most_common()
    )
    return [
        figures.name,
        str(figures.entries),
        f"{figures.hours:.2f}",
        *(f"{seconds[key]:.2f} s" if seconds else "" for key in ("0", "0.5", "1")),
        rates,
        str(figures.words),
        str(len(figures.characters)),
        str(len(figures.speakers) or ""),
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not sys.stdout.isatty():
        widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
        for row in [head, *rows]:
            typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for n, name in enumerate(head):
        table.add_column(name, justify="left" if n in (0, 6) else "right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
