"""AN4: spelt words, digits and commands, recorded at Carnegie Mellon in 1991."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from neumo.data.corpora.corpus import Archive, Corpus, Line, Splits, one_folder, read_lines

_ROW = re.compile(r"^(?:<s>)?\s*(?P<text>.*?)\s*(?:</s>)?\s*\((?P<name>[^()]+)\)\s*$")
_SETS = {"train": "an4_clstk", "test": "an4test_clstk"}


def lay_out(root: Path) -> Splits:
    """Find etc/an4_SET.transcription and the recordings below wav/."""
    home = one_folder(root, "etc/an4_train.transcription", "AN4")
    return {name: _lines(home, name, folder) for name, folder in _SETS.items()}


def _lines(home: Path, name: str, folder: str) -> Iterator[Line]:
    for row in read_lines(home / "etc" / f"an4_{name}.transcription"):
        found = _ROW.match(row)
        if found is None:
            continue
        utterance = found["name"].strip()
        speaker = utterance.split("-")[1] if utterance.count("-") >= 2 else ""
        yield {
            "audio_filepath": home / "wav" / folder / speaker / f"{utterance}.sph",
            "text": found["text"].lower(),
            "speaker": speaker,
            "id": utterance,
        }


CORPUS = Corpus(
    name="an4",
    title="AN4: spelt words, digits and commands, 50 minutes",
    licence="free for any purpose, with its notice (Carnegie Mellon University, see LICENSE)",
    home="http://www.speech.cs.cmu.edu/databases/an4/",
    url="http://www.speech.cs.cmu.edu/databases/an4/",
    archives=(Archive("an4_sphere.tar.gz"),),
    layout=lay_out,
    notes=("texts are written in small letters here; the files of transcripts have capitals",),
)
