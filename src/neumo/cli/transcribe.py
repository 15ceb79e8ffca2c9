"""`neumo transcribe`: recordings to text, with a model file."""

from __future__ import annotations

import glob
import json as json_text
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from neumo.cli.progress import progress_bar
from neumo.types.errors import ConfigError, DataError

if TYPE_CHECKING:
    from neumo.asr.transcribe import Recording, Transcript
    from neumo.hub.bundle import Model

SUFFIXES = frozenset(
    (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".aif", ".au", ".caf", ".w64", ".rf64")
)
"""What counts as a recording inside a folder; a file that is named is read whatever its suffix."""


class Format(StrEnum):
    """How transcripts are printed."""

    txt = "txt"
    json = "json"
    ctm = "ctm"
    srt = "srt"
    vtt = "vtt"


_CAPTIONS = (Format.srt, Format.vtt)


class Precision(StrEnum):
    """In which precision a network computes."""

    auto = "auto"
    fp32 = "fp32"
    bf16 = "bf16"


def transcribe(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A .neumo file.", show_default=False)],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE...", help="Recordings, folders, patterns, manifests; - reads a list."),
    ] = None,
    manifest: Annotated[
        list[str] | None, typer.Option("--manifest", metavar="FILE", help="Transcribe what a manifest lists.")
    ] = None,
    times: Annotated[
        bool, typer.Option("--times", help="Print each word with start, end (seconds) and confidence.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object a recording, with the words and their times."),
    ] = False,
    format: Annotated[
        Format | None, typer.Option("--format", help="How to print; ctm, srt and vtt have times.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE|DIR", help="Write there; a folder gets a file a recording."),
    ] = None,
    skip: Annotated[
        bool,
        typer.Option("--skip-existing", help="Leave out recordings whose file is there already."),
    ] = False,
    memory: Annotated[
        str, typer.Option("--memory", help="What sound and network may take, beside the weights.")
    ] = "1GB",
    chunk: Annotated[
        float | None, typer.Option("--chunk", min=0.1, help="Seconds that go through the network at once.")
    ] = None,
    overlap: Annotated[
        float, typer.Option("--overlap", min=0.0, help="Seconds that one chunk shares with the next.")
    ] = 4.0,
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
) -> None:
    """Turn recordings into text.

    One recording gives its text; several give a line each, the name and the text with a tab between. A
    recording that cannot be read is named on the error stream, the others are transcribed all the same, and
    the exit code is then 1. Recordings are resampled to the rate of the model. Silence gives no text.

    With --times there is a line for each word: start and end in seconds, the confidence, the word, with tabs
    between. Times are near the word, not exact: see docs/speech-recognition.md.
    """
    form = _form(format, json=json)
    recordings = _recordings(files or [], manifest or [])
    if not recordings:
        raise ConfigError(
            "there is nothing to transcribe",
            code="files",
            fixes=[f"neumo transcribe {model} FILE...", f"neumo transcribe {model} --manifest FILE"],
        )
    with Outputs.at(output, form, recordings, times=times) as outputs:
        recordings = [each for each in recordings if not (skip and outputs.has(each))]
        options = {"beam": beam, "lm": lm, "alpha": alpha, "beta": beta}
        loaded = load_for_use(model, device, precision, options)
        settings = {"channels": channel_policy(channels), "times": _needs_times(form, times)}
        limits = {"memory": memory, "chunk": chunk, "overlap": overlap}
        transcripts = loaded.transcriber(**settings, **limits)(recordings)
        failed: list[DataError] = []
        with progress_bar("transcribing", len(recordings), shown=len(recordings) > 1) as done:
            for number, (recording, transcript) in enumerate(zip(recordings, transcripts, strict=True), 1):
                if transcript.error is not None:
                    failed.append(transcript.error)
                outputs.put(recording, transcript)
                done(number)
    if form is not Format.json or outputs.folder is not None:
        for error in failed:
            typer.echo(_in_words_of_the_command(error).render(), err=True)
    if failed and len(recordings) > 1:
        typer.echo(f"{len(failed)} of {len(recordings)} recordings could not be read", err=True)
    if failed:
        raise typer.Exit(1)


def load_for_use(model: str, device: str, precision: Precision, search: dict[str, Any]) -> Model:
    """Load a model to be used and no more: its norms are folded, and its decoder is the one asked for."""
    from neumo.asr.exchange import with_beam
    from neumo.backends.torch.fold import fold_graph, native_precision
    from neumo.hub.bundle import load_model

    chosen = str(precision)
    if precision is Precision.auto:
        chosen, why = native_precision(device)
        typer.echo(f"--precision auto chose {why}", err=True)
    loaded = load_model(model, device=device, precision=chosen)
    graph = loaded.graph
    if any(value is not None for value in search.values()):
        graph = with_beam(graph, **search)
    fold_graph(loaded.factory.session, graph)
    return replace(loaded, graphs={"infer": graph})


@dataclass
class Outputs:
    """Where transcripts go: the output stream, one file, or a file of each recording in a folder."""

    form: Format
    times: bool
    named: bool
    folder: Path | None = None
    file: TextIO | None = None

    @classmethod
    @contextmanager
    def at(
        cls, path: Path | None, form: Format, recordings: Sequence[Recording], *, times: bool
    ) -> Iterator[Outputs]:
        """Open what `--output` names: a folder if it is one, or has no suffix; else a file."""
        several = len(recordings) > 1
        if path is not None and (path.is_dir() or not path.suffix):
            path.mkdir(parents=True, exist_ok=True)
            outputs = cls(form, times, False, folder=path)
            _check_names(recordings, outputs)
            yield outputs
            return
        if form in _CAPTIONS and several:
            raise _one_at_a_time(form, len(recordings))
        if path is None:
            yield cls(form, times, several)
            return
        if not path.parent.is_dir():
            raise ConfigError(f"cannot write {path}: there is no folder {path.parent}", code="output")
        part = path.with_name(f"{path.name}.part")
        with part.open("w", encoding="utf-8") as file:
            yield cls(form, times, several, file=file)
        part.replace(path)

    def path(self, recording: Recording) -> Path:
        """The file of a recording in the folder; a piece of a file has its offset in its name."""
        name, offset = getattr(recording, "audio_filepath", recording), getattr(recording, "offset", None)
        piece = "" if offset is None else f"-{offset:.3f}"
        return (self.folder or Path()) / f"{Path(str(name)).stem}{piece}.{self.form.value}"

    def has(self, recording: Recording) -> bool:
        """Say whether the file of a recording is there."""
        return self.folder is not None and self.path(recording).exists()

    def put(self, recording: Recording, transcript: Transcript) -> None:
        """Write one transcript; where a recording could not be read, only a line of JSON says so."""
        if transcript.error is not None and (self.form is not Format.json or self.folder is not None):
            return
        text = _written(transcript, self.form, times=self.times, named=self.named)
        if self.folder is None:
            typer.echo(text, nl=False, file=self.file)
            return
        path = self.path(recording)
        part = path.with_name(f"{path.name}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)


def _check_names(recordings: Sequence[Recording], outputs: Outputs) -> None:
    """Two recordings of one name would write over one another."""
    seen: dict[Path, Recording] = {}
    for each in recordings:
        if (other := seen.setdefault(outputs.path(each), each)) is not each:
            raise ConfigError(
                f"two recordings would be written to {outputs.path(each)}",
                code="output",
                details=[str(getattr(one, "audio_filepath", one)) for one in (other, each)],
                fixes=["--output FILE with --format json", "a folder for each"],
            )


def _one_at_a_time(form: Format, count: int) -> ConfigError:
    return ConfigError(
        f"{form.value} holds the captions of one recording, and there are {count}",
        code="option",
        fixes=[
            "--output FOLDER, which gets a file a recording",
            "--format ctm, which names the recording in each line",
            "--json",
        ],
    )


def _recordings(words: list[str], manifests: list[str]) -> list[Recording]:
    """What the command line names; a word that ends in .json or .jsonl is a manifest."""
    listed = [word for word in words if Path(word).suffix.lower() in (".json", ".jsonl")]
    plain = [word for word in words if word not in listed]
    return [*gather(plain, sys.stdin), *_entries([*listed, *manifests])]


def gather(words: Iterable[str], stdin: Iterable[str]) -> Iterator[str]:
    """Turn the words of a command line into paths: files as they are, folders and patterns in sorted order.

    >>> list(gather(["a.wav", "-"], ["b.wav\\n", "\\n"]))
    ['a.wav', 'b.wav']

    Raises `DataError` for a folder or a pattern in which there is no recording.
    """
    for word in words:
        if word == "-":
            yield from filter(None, (line.rstrip("\r\n").removeprefix("\ufeff") for line in stdin))
        elif os.path.isdir(word):
            yield from _some(word, (str(path) for path in Path(word).rglob("*") if _is_recording(path)))
        elif not os.path.exists(word) and glob.has_magic(word):
            found = (Path(path) for path in glob.glob(os.path.expanduser(word), recursive=True))
            yield from _some(word, (str(path) for path in found if path.is_file()))
        else:
            yield word


def channel_policy(word: str) -> str | int:
    """Read the value of `--channels`.

    >>> channel_policy("mix"), channel_policy("1")
    ('mix', 1)
    """
    if word.isdecimal():
        return int(word)
    if word not in ("refuse", "mix", "first"):
        raise ConfigError(
            f"--channels {word}: expected refuse, mix, first or the number of a channel, from 0",
            code="channels",
        )
    return word


def _is_recording(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and path.is_file()


def _some(word: str, paths: Iterable[str]) -> list[str]:
    found = sorted(paths)
    if not found:
        raise DataError(
            f"there is no recording in {word}",
            code="no-recordings",
            details=[f"looked for {', '.join(sorted(SUFFIXES))}"] if os.path.isdir(word) else [],
        )
    return found


def _entries(manifests: list[str]) -> list[Recording]:
    if not manifests:
        return []
    from neumo.data.manifest import read_manifest

    return list(read_manifest(manifests))


def _in_words_of_the_command(error: DataError) -> DataError:
    """Name the option where an error names an argument of Python."""
    if error.code != "audio-channels":
        return error
    return DataError(
        error.what,
        code=error.code,
        where=error.where,
        fixes=["--channels mix (their mean), first or a number", 'a field "channel" in the manifest line'],
    )


def _written(transcript: Transcript, form: Format, *, times: bool, named: bool) -> str:
    """Write one transcript as text."""
    if form is Format.json:
        return json_text.dumps(transcript.to_json(), ensure_ascii=False) + "\n"
    if form is not Format.txt:
        return _with_times(transcript, form)
    head = f"{transcript.name}\t" if named else ""
    if not times:
        return f"{head}{transcript.text}\n"
    return "".join(
        f"{head}{word.start:.2f}\t{word.end:.2f}\t{word.confidence:.2f}\t{word.text}\n"
        for word in transcript.words
    )


def _with_times(transcript: Transcript, form: Format) -> str:
    from neumo.asr.captions import to_ctm, to_srt, to_vtt

    if form is Format.ctm:
        return "".join(f"{line}\n" for line in to_ctm(transcript.name, transcript.words))
    write = to_srt if form is Format.srt else to_vtt
    return write(transcript.words, transcript.seconds)


def _needs_times(form: Format, asked: bool) -> bool | None:
    """JSON has times where the model can tell them (None); asked for by name, they are there or an error."""
    if asked or form not in (Format.txt, Format.json):
        return True
    return None if form is Format.json else False


def _form(format: Format | None, *, json: bool) -> Format:
    """Settle how to print; options that contradict one another are refused."""
    if json and format not in (None, Format.json):
        raise ConfigError(
            f"--json and --format {format} are two forms", code="option", fixes=["leave one of them out"]
        )
    return Format.json if json else format or Format.txt
