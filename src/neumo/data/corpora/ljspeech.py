"""LJ Speech: one reader, 24 hours, for synthesis (Ito and Johnson 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from neumo.data.corpora.corpus import Archive, Corpus, Line, Splits, one_folder, read_lines


def lay_out(root: Path) -> Splits:
    """Find metadata.csv (name|text|normalised text) beside wavs/; no division into sets is published."""
    home = one_folder(root, "metadata.csv", "LJ Speech")
    return {"all": _lines(home)}


def _lines(home: Path) -> Iterator[Line]:
    for row in read_lines(home / "metadata.csv"):
        name, text, *rest = row.split("|")
        yield {
            "audio_filepath": home / "wavs" / f"{name}.wav",
            "text": text,
            "normalized_text": rest[0] if rest else text,
            "speaker": "lj",
            "id": name,
        }


CORPUS = Corpus(
    name="ljspeech",
    title="LJ Speech 1.1: one reader, 24 hours, 22.05 kHz",
    licence="public domain",
    home="https://keithito.com/LJ-Speech-Dataset/",
    url="https://data.keithito.com/data/speech/",
    archives=(
        Archive(
            "LJSpeech-1.1.tar.bz2", sha256="be1a30453f28eb8dd26af4101ae40cbf2c50413b1bb21936cbcdc6fae3de8aa5"
        ),
    ),
    layout=lay_out,
    notes=("no division into sets is published: all.jsonl holds everything",),
)
