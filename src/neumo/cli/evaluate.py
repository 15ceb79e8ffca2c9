"""`neumo evaluate`: how many words and characters a model gets wrong."""

from __future__ import annotations

import json as json_text
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neumo.cli.progress import progress_bar
from neumo.cli.transcribe import Precision, channel_policy, load_for_use
from neumo.types.errors import CheckpointError, ConfigError, DataError

if TYPE_CHECKING:
    from neumo.asr.transcribe import Transcriber
    from neumo.data.manifest import Manifest
    from neumo.graph.yaml import Recipe
    from neumo.metrics.error_rate import CorpusErrors
    from neumo.types.vocab import Vocab


def evaluate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A .neumo file, or a recipe.", show_default=False)
    ],
    manifest: Annotated[
        list[str] | None,
        typer.Option("--manifest", metavar="FILE", help="What to measure on; a recipe has one of its own."),
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="Measure each manifest by itself, and show them in a table.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="For a recipe: the run folder with its weights.")
    ] = None,
    normaliser: Annotated[
        str, typer.Option("--normaliser", help="How texts are rewritten before comparing: none or basic.")
    ] = "none",
    show: Annotated[int, typer.Option("--show", metavar="N", min=0, help="Show the N worst utterances.")] = 0,
    utterances: Annotated[
        Path | None,
        typer.Option("--utterances", metavar="FILE", help="Write a JSON line for each utterance."),
    ] = None,
    beam: Annotated[
        int | None, typer.Option("--beam", min=1, help="Search with so many hypotheses, not greedily.")
    ] = None,
    lm: Annotated[
        Path | None, typer.Option("--lm", metavar="FILE", help="An n-gram language model for CTC (ARPA).")
    ] = None,
    alpha: Annotated[float | None, typer.Option("--alpha", help="What the language model counts.")] = None,
    beta: Annotated[float | None, typer.Option("--beta", help="What each word adds, with --lm.")] = None,
    precision: Annotated[
        Precision, typer.Option("--precision", help="fp32, bf16, or auto: bf16 on CPUs made for it.")
    ] = Precision.fp32,
    channels: Annotated[
        str, typer.Option("--channels", help="For recordings with several: refuse, mix, first or a number.")
    ] = "refuse",
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:1.")] = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Measure the word and character error rates of a model on a manifest.

    Errors are added up over the corpus: substitutions, insertions and deletions over all reference words. The
    rates name the normaliser that was used. A recording that cannot be read fails the evaluation, which would
    be wrong without it. Several sets make a table: each --manifest with --each, or the `evaluate.graphs` of a
    recipe.
    """
    if utterances is not None:
        _check_writable(utterances)
    search = {"beam": beam, "lm": lm, "alpha": alpha, "beta": beta}
    if Path(model).suffix in (".yaml", ".yml"):
        if precision is not Precision.fp32:
            raise ConfigError(
                "--precision is for model files; a recipe has its own",
                code="option",
                fixes=["factory: {precision: bf16} in the recipe"],
            )
        transcriber, sets = from_recipe(model, folder, device, search)
    else:
        transcriber, sets = load_for_use(model, device, precision, search).transcriber(times=False), {}
    # The policy comes as any text; one that is no channel policy is refused there.
    transcriber.channels = channel_policy(channels)  # type: ignore[assignment]
    if manifest:
        _check_once(manifest)
        sets = _by_name(manifest) if each else {"": manifest}
    if not any(sets.values()):
        raise ConfigError(
            "evaluate needs to know what to measure on",
            code="manifest",
            fixes=[f"neumo evaluate {model} --manifest FILE"],
        )
    measured = {name: Measured.on(transcriber, files, normaliser) for name, files in sets.items()}
    if utterances is not None:
        rows = [
            {**({"set": name} if name else {}), **row} for name, one in measured.items() for row in one.rows
        ]
        lines = (json_text.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        utterances.write_text("".join(lines), encoding="utf-8")
    reports = {name: one.report(show) for name, one in measured.items()}
    if json:
        whole = {"sets": reports} if len(reports) > 1 else next(iter(reports.values()))
        typer.echo(json_text.dumps(whole, ensure_ascii=False, indent=2))
        return
    if len(measured) > 1:
        typer.echo(set_table(measured))
    for name, one in measured.items():
        if len(measured) == 1:
            typer.echo(summary(one.words, one.characters))
        for note in one.notes:
            typer.echo(f"  note      {f'{name}: ' if len(measured) > 1 else ''}{note}")
        for row in _worst(one.rows, show):
            typer.echo(f"\n{row['item']}\n  said   {row['reference']}\n  heard  {row['hypothesis']}")


@dataclass(frozen=True)
class Measured:
    """What came of one set: its utterances, the errors by words and by characters, and a row for each."""

    entries: Manifest
    words: CorpusErrors
    characters: CorpusErrors
    rows: list[dict[str, Any]]
    notes: list[str]

    @classmethod
    def on(cls, transcriber: Transcriber, files: list[str], normaliser: str) -> Measured:
        """Measure on the utterances of some manifests."""
        from neumo.data.manifest import read_manifest

        entries = read_manifest(files, needs_text=True)
        words, characters = measure(transcriber, entries, normaliser)
        rows = utterance_rows(entries, words, characters)
        notes = spelling_notes(entries, transcriber.vocab, words)
        if transcriber.vocab.normalise is not None:
            notes.append(f"references are written as the vocabulary says: {transcriber.vocab.normalise}")
        return cls(entries, words, characters, rows, notes)

    def report(self, show: int) -> dict[str, Any]:
        """Return the figures, ready for JSON, with the worst utterances if any are asked for."""
        return {
            "manifest": list(self.entries.files),
            "words": self.words.to_json(),
            "characters": self.characters.to_json(),
            "notes": self.notes,
            **({"worst": _worst(self.rows, show)} if show else {}),
        }


def set_table(measured: dict[str, Measured]) -> str:
    """Put the rates of several sets under each other, with the normaliser below, as it is one for all."""
    rows = [["set", "WER", "CER", "words", "sub", "ins", "del", "utterances"]]
    for name, one in measured.items():
        counts = one.words.counts
        errors = [counts.substitutions, counts.insertions, counts.deletions]
        figures = [counts.reference, *errors, len(one.rows)]
        rows.append([name, f"{one.words.rate:.2%}", f"{one.characters.rate:.2%}", *map(str, figures)])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    first = next(iter(measured.values()))
    return "\n".join([*lines, f"normaliser {first.words.normaliser}"])


def _check_once(manifests: list[str]) -> None:
    """Refuse a file that is given twice: each of its utterances would count twice."""
    paths = [Path(path).resolve() for path in manifests]
    if twice := [name for at, name in enumerate(manifests) if paths[at] in paths[:at]]:
        raise ConfigError(
            f"the manifest {twice[0]} is given twice, so each of its utterances would count twice",
            code="manifest",
            fixes=[f"--manifest {twice[0]} once"],
        )


def _by_name(manifests: list[str]) -> dict[str, list[str]]:
    """Call each manifest by its file, without folders where that tells them apart."""
    names = [Path(path).stem for path in manifests]
    return {
        name if names.count(name) == 1 else path: [path] for name, path in zip(names, manifests, strict=True)
    }


def from_recipe(
    path: str, folder: Path | None, device: str, search: Mapping[str, Any] | None = None
) -> tuple[Transcriber, dict[str, list[str]]]:
    """Return what transcribes with the weights of a run, and the manifests of each set of the recipe.

    `search` are settings of `neumo.asr.exchange.with_beam`; without any, the decoder is that of the recipe.
    """
    from neumo.asr.exchange import with_beam
    from neumo.asr.transcribe import Transcriber
    from neumo.cli.train import default_folder
    from neumo.engine.checkpoints.average import averaged_weights
    from neumo.engine.recipes import make_factory, read_actions, trained_weights
    from neumo.graph.yaml import load_recipe

    recipe = load_recipe(path)
    actions = read_actions(recipe)
    graph = recipe.graph("infer")
    folder = folder or actions.factory.folder or default_folder(path)
    if not folder.is_dir():
        raise ConfigError(
            f"a recipe has no weights, and there is no run folder {folder}",
            code="run-folder",
            fixes=[f"neumo train {path}", "--folder RUN", "give a .neumo file in the place of the recipe"],
        )
    factory = make_factory(recipe, device=device, folder=folder, progress=False)
    averaged = averaged_weights(folder) if actions.train.average is not None else None
    weights = averaged or trained_weights(folder, actions.evaluate.checkpoint)
    missing = [row for row in factory.load(graph, weights, partial=True) if not row.startswith("left over")]
    if missing:
        raise CheckpointError(
            f"the weights in {folder} are not those of {path}", code="weights", details=missing[:20]
        )
    names = actions.evaluate.graphs or ("evaluate",)
    sets = {name if len(names) > 1 else "": _manifests(recipe, name) for name in names}
    wanted = {name: value for name, value in (search or {}).items() if value is not None}
    return Transcriber(factory, with_beam(graph, **wanted) if wanted else graph, times=False), sets


def _manifests(recipe: Recipe, name: str) -> list[str]:
    """The manifests that a graph of a recipe reads, if there is one of this name."""
    graph = recipe.graphs.get(name)
    layers = [module for module in graph.modules.values() if module.role == "data"] if graph else []
    found = [getattr(layer, "manifest", ()) for layer in layers]
    return [str(path) for one in found for path in ([one] if isinstance(one, str | Path) else one)]


def measure(
    transcriber: Transcriber, entries: Manifest, normaliser: str = "none"
) -> tuple[CorpusErrors, CorpusErrors]:
    """Transcribe a manifest and return its errors by words and by characters.

    Raises `DataError` that names every recording that could not be read.
    """
    from neumo.metrics.error_rate import CorpusErrors

    words, characters = (CorpusErrors(unit, normaliser=normaliser) for unit in ("word", "char"))
    bad: list[DataError] = []
    with progress_bar("evaluating", len(entries)) as done:
        for index, transcript in enumerate(transcriber(entries)):
            done(index + 1)
            if transcript.error is not None:
                bad.append(transcript.error)
                continue
            for errors in (words, characters):
                errors.add(
                    _written(transcriber.vocab, entries[index].text or ""), transcript.text, item=index
                )
    if bad:
        raise DataError(
            f"{len(bad)} of {len(entries)} recordings could not be read",
            code="unreadable",
            details=[f"{error.where}: {error.what}" if error.where else error.what for error in bad[:20]],
            why="Rates over the rest would look like rates over all.",
            data={"recordings": [error.to_json() for error in bad]},
        )
    return words, characters


def _written(vocab: Vocab, text: str) -> str:
    """Write a reference as the vocabulary of the model says, as it was in training."""
    return text if vocab.normalise is None else vocab.normalise(text)


def summary(words: CorpusErrors, characters: CorpusErrors) -> str:
    """Return rates, counts and the most frequent confusions as lines for a terminal."""
    lines = [words.text(), characters.text()]
    lists = {
        "heard as": [f"{said} as {heard} {times}x" for said, heard, times in words.top_substitutions()],
        "missed": [f"{said} {times}x" for said, times in words.top_deletions()],
        "added": [f"{heard} {times}x" for heard, times in words.top_insertions()],
    }
    lines += [f"  {label:<10}{', '.join(found)}" for label, found in lists.items() if found]
    return "\n".join([*lines, *(f"  note      {note}" for note in words.notes())])


def spelling_notes(entries: Manifest, vocab: Vocab, words: CorpusErrors) -> list[str]:
    """Say which characters of the references, as they were compared, the model can never write, and why."""
    from neumo.data.text import CoverageCounter

    counter = CoverageCounter(vocab)
    for row in words.utterances:
        counter.add(row.item or 0, row.reference, entries.name(row.item or 0))
    found = counter.result()
    if found.complete:
        return []
    listed = ", ".join(f"{each.label!r} {each.count}x" for each in found.unknown[:10])
    more = f" and {len(found.unknown) - 10} more" if len(found.unknown) > 10 else ""
    what = f"{len(found.affected)} of {found.texts} references use characters that the model never writes"
    return [f"{what}: {listed}{more}", *found.hints]


def _check_writable(path: Path) -> None:
    """Refuse a file that could not be written before anything is measured."""
    if path.is_dir() or not path.parent.is_dir():
        what = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise ConfigError(f"cannot write {path}: {what}", code="output")


def utterance_rows(entries: Manifest, words: CorpusErrors, characters: CorpusErrors) -> list[dict[str, Any]]:
    """Return one JSON-able row for each utterance, in the order of the manifest."""
    rows: list[dict[str, Any]] = []
    for by_word, by_character in zip(words.utterances, characters.utterances, strict=True):
        index = by_word.item or 0
        counts = by_word.counts
        rows.append(
            {
                "item": entries.name(index),
                "audio_filepath": entries[index].audio_filepath,
                "reference": by_word.reference,
                "hypothesis": by_word.hypothesis,
                "wer": counts.rate,
                "cer": by_character.counts.rate,
                "substitutions": counts.substitutions,
                "insertions": counts.insertions,
                "deletions": counts.deletions,
                "words": counts.reference,
                "empty_reference": by_word.empty_reference,
            }
        )
    return rows


def _worst(rows: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    wrong = [row for row in rows if row["substitutions"] + row["insertions"] + row["deletions"]]
    return sorted(wrong, key=lambda row: (-row["cer"], row["item"]))[:count]
