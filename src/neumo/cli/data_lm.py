"""`neumo data lm`: estimate an n-gram language model of texts."""

from __future__ import annotations

import json as json_text
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neumo.cli.progress import progress_bar
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from neumo.lm import Estimated, Perplexity


class LMUnit(StrEnum):
    """What a model counts."""

    word = "word"
    char = "char"


def lm(
    texts: Annotated[
        list[Path],
        typer.Argument(
            metavar="TEXT_OR_MANIFEST...",
            help="Texts of a sentence a line (.gz too), manifests, or Kaldi folders.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="The ARPA file; packed if it ends in .gz.",
            show_default=False,
        ),
    ],
    order: Annotated[
        int, typer.Option("--order", metavar="N", min=1, max=16, help="The most words of an n-gram.")
    ] = 3,
    unit: Annotated[
        LMUnit, typer.Option("--unit", help="What is counted: words or characters.")
    ] = LMUnit.word,
    prune: Annotated[
        str,
        typer.Option(
            "--prune", metavar="N[,N...]", help="Leave out what was seen N times or less; from order 2 on."
        ),
    ] = "",
    min_count: Annotated[
        int, typer.Option("--min-count", metavar="N", min=1, help="Rarer words count as unknown.")
    ] = 1,
    test: Annotated[
        list[Path] | None,
        typer.Option(
            "--test", metavar="TEXT", help="Measure the perplexity of other texts; may be repeated."
        ),
    ] = None,
    text_field: Annotated[
        str | None,
        typer.Option("--text-field", metavar="KEY", help="The key of manifests that holds the text."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Estimate an n-gram language model (interpolated modified Kneser-Ney) and write it as an ARPA file.

    A beam search takes it: `{kind: BeamCTC, vocab: letters, lm: words.arpa}`. Texts should be written as the
    recogniser writes: in the same case, without punctuation that it does not know. `--prune 0,1` leaves out
    n-grams of three and more words that were seen once, which makes a model several times as small.
    """
    from neumo.lm import estimate, perplexity, units_of, write_arpa

    thresholds = _thresholds(prune)
    _check_writable(output)

    def sentences(paths: Iterable[Path], done: Callable[[int], None]) -> Iterator[list[str]]:
        lines = (line for path in paths for line in lines_of(path, text_field))
        for count, line in enumerate(lines, 1):
            if not count % 1000:
                done(count)
            yield units_of(line, unit.value)

    with progress_bar("counting", None) as done:
        made = estimate(sentences(texts, done), order=order, prune=thresholds, min_count=min_count)
    write_arpa(made.model, output)
    with progress_bar("measuring", None) as done:
        measured = {str(path): perplexity(made.model, sentences([path], done)) for path in test or ()}
    figures = _figures(made, measured, output, unit)
    if json:
        typer.echo(json_text.dumps(figures, ensure_ascii=False, indent=2))
        return
    for line in _report(made, measured, output, unit):
        typer.echo(line)


def lines_of(path: Path, text_field: str | None = None) -> Iterator[str]:
    """Read the texts of a manifest, of a Kaldi folder or of a file with a sentence a line."""
    from neumo.lm import text_lines

    if path.is_dir() or _is_manifest(path):
        from neumo.data.manifest import read_manifest

        for entry in read_manifest([str(path)], text_field=text_field, needs_text=True):
            if entry.text and entry.text.strip():
                yield entry.text
    else:
        yield from text_lines(path)


def _is_manifest(path: Path) -> bool:
    """Whether a file holds JSON, whatever its name: its first character is a brace or a bracket."""
    import gzip

    try:
        with open(path, "rb") as file:
            start = file.read(512)
        if start[:2] == b"\x1f\x8b":
            with gzip.open(path) as packed:
                start = packed.read(512)
    except (OSError, EOFError):
        return False  # whoever reads it says what is wrong
    return start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[") and path.suffix != ".txt"


def _thresholds(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise ConfigError(
            f"--prune {text} is no list of counts", code="option", fixes=["--prune 0,1"]
        ) from None


def _check_writable(output: Path) -> None:
    """Say before the work that nothing could be written."""
    if not output.parent.is_dir():
        raise ConfigError(
            f"there is no folder {output.parent}", code="option", fixes=[f"mkdir -p {output.parent}"]
        )
    if output.is_dir():
        raise ConfigError(f"{output} is a folder, not a file", code="option", fixes=[f"-o {output}/lm.arpa"])


def _figures(made: Estimated, measured: dict[str, Perplexity], output: Path, unit: LMUnit) -> dict[str, Any]:
    return {
        "file": str(output),
        "bytes": output.stat().st_size,
        "unit": unit.value,
        "order": made.model.order,
        "sentences": made.sentences,
        "tokens": made.tokens,
        "ngrams": list(made.model.counts),
        "pruned": list(made.pruned),
        "discounts": [vars(discounts) for discounts in made.discounts],
        "perplexity": {name: each.to_json() for name, each in measured.items()},
    }


def _report(made: Estimated, measured: dict[str, Perplexity], output: Path, unit: LMUnit) -> Iterator[str]:
    model = made.model
    units = "words" if unit is LMUnit.word else "characters"
    size, memory = output.stat().st_size / 2**20, model.nbytes / 2**20
    yield f"{output}: order {model.order}, {size:.1f} MiB, {memory:.1f} MiB in memory"
    yield f"  {made.sentences:,} sentences of {made.tokens:,} {units}, {model.counts[0] - 3:,} different ones"
    for order, (count, pruned) in enumerate(zip(model.counts, made.pruned, strict=True), 1):
        yield f"  {order}-grams  {count:,}" + (f", {pruned:,} left out" if pruned else "")
    if guessed := [order for order, each in enumerate(made.discounts, 1) if not each.measured]:
        listed = ", ".join(map(str, guessed))
        yield f"  note: the text is too small to measure discounts of order {listed}; usual ones were taken"
    for name, each in measured.items():
        share = each.unknown / each.tokens
        yield (
            f"  {name}: perplexity {each.value:,.1f}; {each.known:,.1f} without the {share:.1%} "
            f"unknown {units}, over {each.tokens:,} {units} and ends"
        )
