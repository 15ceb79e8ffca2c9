"""`neumo data vocab`: make a vocabulary from the texts of manifests."""

from __future__ import annotations

import json as json_text
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from neumo.types.errors import ConfigError


class Kind(StrEnum):
    """The units that a text is cut into."""

    char = "char"
    bpe = "bpe"
    unigram = "unigram"


def vocab(
    manifests: Annotated[
        list[str],
        typer.Argument(metavar="MANIFEST...", help="Manifests, or Kaldi folders.", show_default=False),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="x.txt for characters, x.model for pieces.",
            show_default=False,
        ),
    ],
    kind: Annotated[Kind, typer.Option("--kind", help="Characters, or pieces by SentencePiece.")] = Kind.char,
    size: Annotated[
        int | None,
        typer.Option("--size", metavar="N", min=2, help="How many labels; all characters by default."),
    ] = None,
    coverage: Annotated[
        float,
        typer.Option(
            "--coverage", metavar="SHARE", min=0.5, max=1.0, help="Share of characters with a label."
        ),
    ] = 1.0,
    unicode: Annotated[
        str, typer.Option("--unicode", metavar="FORM", help="NFC, NFD, NFKC, NFKD or keep.")
    ] = "NFC",
    case: Annotated[str, typer.Option("--case", metavar="HOW", help="keep, lower or upper.")] = "keep",
    punctuation: Annotated[
        str, typer.Option("--punctuation", metavar="HOW", help="keep, drop or space; apostrophes stay.")
    ] = "keep",
    kept: Annotated[
        str, typer.Option("--kept", metavar="MARKS", help="Punctuation that stays when the rest goes.")
    ] = "'",
    marks: Annotated[
        str, typer.Option("--marks", metavar="HOW", help="keep or drop accents and vowel signs.")
    ] = "keep",
    digits: Annotated[str, typer.Option("--digits", metavar="HOW", help="keep or drop.")] = "keep",
    spaces: Annotated[str, typer.Option("--spaces", metavar="HOW", help="single, keep or drop.")] = "single",
    text_field: Annotated[
        str | None, typer.Option("--text-field", metavar="KEY", help="The key that holds the text.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Make a vocabulary of characters or pieces, and check that every text comes back from its ids.

    How texts are written before they are cut (form of Unicode, case, punctuation, ...) is stated with the
    vocabulary in a recipe, and is the same in training, evaluation and scoring.
    """
    from neumo.data.learn_vocab import learn_vocab, texts_of, write_vocab
    from neumo.data.manifest import read_manifest
    from neumo.types.normalise import Normalise

    _check_suffix(output, kind)
    settings: dict[str, Any] = {
        "unicode": unicode,
        "case": case,
        "punctuation": punctuation,
        "kept": kept,
        "marks": marks,
        "digits": digits,
        "spaces": spaces,
    }
    normalise = Normalise.from_data(settings)
    manifest = read_manifest(manifests, text_field=text_field, needs_text=True)
    texts, names = texts_of(manifest)
    name = output.stem if output.stem.isidentifier() else "labels"
    learned = learn_vocab(
        texts, kind.value, size, normalise=normalise, coverage=coverage, name=name, names=names
    )
    snippet = write_vocab(learned.vocab, output)
    figures = learned.to_json()
    if json:
        typer.echo(json_text.dumps({**figures, "file": str(output)}, ensure_ascii=False, indent=2))
        return
    units = "pieces" if learned.vocab.unit == "piece" else "characters"
    typer.echo(f"{output}: {len(learned.vocab)} {units} from {len(texts)} texts of {', '.join(manifests)}")
    typer.echo(f"texts are written: {normalise}")
    typer.echo(
        f"{figures['characters']} different characters; {figures['characters_per_id']} characters a label"
    )
    if not learned.coverage.unknown and not learned.coverage.altered:
        typer.echo(f"all {len(texts)} texts come back from their ids")
    for warning in learned.warnings:
        typer.echo(f"warning: {warning}")
    typer.echo(f"in a recipe:\n{snippet}")


def _check_suffix(output: Path, kind: Kind) -> None:
    """Refuse a name by which the file would be read as the other kind."""
    pieces = kind is not Kind.char
    if pieces != (output.suffix == ".model"):
        wanted = output.with_suffix(".model" if pieces else ".txt")
        what = f"{output} is no name for {'a model of pieces' if pieces else 'a list of characters'}"
        raise ConfigError(what, code="option", fixes=[f"-o {wanted}"])
