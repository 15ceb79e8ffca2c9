"""`neumo data kaldi`: write a Kaldi data folder as a manifest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from neumo.types.errors import ConfigError


def kaldi(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder with wav.scp, and maybe segments, text, utt2spk.")
    ],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help="The manifest to write.", show_default=False),
    ],
) -> None:
    """Write a Kaldi data folder as JSON lines, with paths relative to them. No command of it is executed.

    A data layer reads the folder as it is, too: manifest: data/train.
    """
    from neumo.data.manifest import read_manifest, write_manifest

    manifest = read_manifest(folder)
    home = output.absolute().parent
    if not home.is_dir():
        raise ConfigError(f"cannot write {output}: there is no folder {home}", code="output")
    lines = (
        {
            **manifest.record(index),
            "audio_filepath": Path(os.path.relpath(manifest[index].audio, home)).as_posix(),
        }
        for index in range(len(manifest))
    )
    write_manifest(output, lines)
    typer.echo(f"{output}: {len(manifest)} entries of {folder}")
    for note in manifest.notes:
        typer.echo(f"note: {note}")
