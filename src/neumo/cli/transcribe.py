"""`neumo transcribe`: recordings to text, with a model file."""

from __future__ import annotations

import glob
import json as json_text
import os
import sys
from collections.abc import Iterable, Iterator
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


def transcribe(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A .neumo file.", show_default=False)],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE...", help="Recordings, folders or patterns; - reads a list from stdin."),
    ] = None,
    manifest: Annotated[
        list[str] | None, typer.Option("--manifest", metavar="FILE", help="Transcribe what a manifest lists.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a recording.")] = False,
    channels: Annotated[
        str, typer.Option("--channels", help="For recordings with several: refuse, mix, first or a number.")
    ] = "refuse",
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:1.")] = "auto",
) -> None:
    """Turn recordings into text.

    One recording gives its text; several give a line each, the name and the text with a tab between. A
    recording that cannot be read is named on the error stream, the others are transcribed all the same, and
    the exit code is then 1. Recordings are resampled to the rate of the model. Silence gives no text.
    """
    recordings: list[Recording] = [*gather(files or [], sys.stdin), *_entries(manifest or [])]
    if not recordings:
        raise ConfigError(
            "there is nothing to transcribe",
            code="files",
            fixes=[f"neumo transcribe {model} FILE...", f"neumo transcribe {model} --manifest FILE"],
        )
    from neumo.hub.bundle import load_model

    loaded = load_model(model, device=device)
    transcripts = loaded.transcriber(channels=channel_policy(channels))(recordings)
    failed = 0
    with progress_bar("transcribing", len(recordings), shown=len(recordings) > 1) as done:
        for number, transcript in enumerate(transcripts, 1):
            failed += _print(transcript, json=json, named=len(recordings) > 1)
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


def _print(transcript: Transcript, *, json: bool, named: bool) -> bool:
    """Print one transcript; say whether it failed."""
    if json:
        typer.echo(json_text.dumps(transcript.to_json(), ensure_ascii=False))
    if transcript.error is not None:
        if not json:
            typer.echo(_in_words_of_the_command(transcript.error).render(), err=True)
        return True
    if not json:
        typer.echo(f"{transcript.name}\t{transcript.text}" if named else transcript.text)
    return False
