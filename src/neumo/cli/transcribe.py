"""`neumo transcribe`: recordings to text, with a model file."""

from __future__ import annotations

import glob
import json as json_text
import os
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neumo.cli.progress import progress_bar
from neumo.types.errors import ConfigError, DataError

if TYPE_CHECKING:
    from neumo.asr.transcribe import Recording, Transcript

SUFFIXES = frozenset(
    (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aiff", ".aif", ".au", ".caf", ".w64", ".rf64")
)
"""What counts as a recording inside a folder; a file that is named is read whatever its suffix."""


class Format(StrEnum):
    """How transcripts are printed."""

    text = "text"
    json = "json"
    ctm = "ctm"
    srt = "srt"
    vtt = "vtt"


_CAPTIONS = (Format.srt, Format.vtt)


def transcribe(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A .neumo file.", show_default=False)],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE...", help="Recordings, folders or patterns; - reads a list from stdin."),
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
    recordings: list[Recording] = [*gather(files or [], sys.stdin), *_entries(manifest or [])]
    if not recordings:
        raise ConfigError(
            "there is nothing to transcribe",
            code="files",
            fixes=[f"neumo transcribe {model} FILE...", f"neumo transcribe {model} --manifest FILE"],
        )
    if form in _CAPTIONS and len(recordings) > 1:
        raise ConfigError(
            f"{form.value} holds the captions of one recording, and there are {len(recordings)}",
            code="option",
            fixes=[
                "one recording at a time",
                "--format ctm, which names the recording in each line",
                "--json",
            ],
        )
    from neumo.hub.bundle import load_model

    loaded = load_model(model, device=device)
    settings = {"channels": channel_policy(channels), "times": _needs_times(form, times)}
    transcripts = loaded.transcriber(**settings)(recordings)
    failed = 0
    with progress_bar("transcribing", len(recordings), shown=len(recordings) > 1) as done:
        for number, transcript in enumerate(transcripts, 1):
            failed += _print(transcript, form, times=times, named=len(recordings) > 1)
            done(number)
    if failed and len(recordings) > 1:
        typer.echo(f"{failed} of {len(recordings)} recordings could not be read", err=True)
    if failed:
        raise typer.Exit(1)


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


def _print(transcript: Transcript, form: Format, *, times: bool, named: bool) -> bool:
    """Print one transcript; say whether it failed."""
    failed = transcript.error is not None
    if form is Format.json:
        typer.echo(json_text.dumps(transcript.to_json(), ensure_ascii=False))
    elif transcript.error is not None:
        typer.echo(_in_words_of_the_command(transcript.error).render(), err=True)
    elif form is not Format.text:
        typer.echo(_with_times(transcript, form), nl=False)
    elif times:
        head = f"{transcript.name}\t" if named else ""
        for word in transcript.words:
            typer.echo(f"{head}{word.start:.2f}\t{word.end:.2f}\t{word.confidence:.2f}\t{word.text}")
    else:
        typer.echo(f"{transcript.name}\t{transcript.text}" if named else transcript.text)
    return failed


def _with_times(transcript: Transcript, form: Format) -> str:
    from neumo.asr.captions import to_ctm, to_srt, to_vtt

    if form is Format.ctm:
        return "".join(f"{line}\n" for line in to_ctm(transcript.name, transcript.words))
    write = to_srt if form is Format.srt else to_vtt
    return write(transcript.words, transcript.seconds)


def _needs_times(form: Format, asked: bool) -> bool | None:
    """JSON has times where the model can tell them (None); asked for by name, they are there or an error."""
    if asked or form not in (Format.text, Format.json):
        return True
    return None if form is Format.json else False


def _form(format: Format | None, *, json: bool) -> Format:
    """Settle how to print; options that contradict one another are refused."""
    if json and format not in (None, Format.json):
        raise ConfigError(
            f"--json and --format {format} are two forms", code="option", fixes=["leave one of them out"]
        )
    return Format.json if json else format or Format.text
