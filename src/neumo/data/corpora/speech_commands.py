"""Speech Commands: 35 words of one second each by 2618 speakers (Warden 2018)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from neumo.data.corpora.corpus import Archive, Corpus, Line, Splits, one_folder, read_lines

_LISTS = {"dev": "validation_list.txt", "test": "testing_list.txt"}


def lay_out(root: Path) -> Splits:
    """Find WORD/SPEAKER_nohash_NUMBER.wav and the lists of the two smaller sets; the rest is to train on."""
    home = one_folder(root, "testing_list.txt", "Speech Commands")
    listed = {name: sorted(read_lines(home / file)) for name, file in _LISTS.items()}
    held = {row for rows in listed.values() for row in rows}
    everything = sorted(f"{path.parent.name}/{path.name}" for path in home.glob("[!_]*/*.wav"))
    sets = {"train": [row for row in everything if row not in held], **listed}
    return {name: _lines(home, rows) for name, rows in sets.items()}


def _lines(home: Path, rows: Iterable[str]) -> Iterator[Line]:
    for row in rows:
        word, _, name = row.partition("/")
        yield {
            "audio_filepath": home / word / name,
            "text": word,
            "speaker": name.partition("_")[0],
            "id": f"{word}-{Path(name).stem}",
        }


CORPUS = Corpus(
    name="speech_commands",
    title="Speech Commands 0.02: 35 words, 105,829 recordings",
    licence="CC BY 4.0",
    home="https://arxiv.org/abs/1804.03209",
    url="https://storage.googleapis.com/download.tensorflow.org/data/",
    archives=(
        Archive(
            "speech_commands_v0.02.tar.gz",
            sha256="af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
        ),
    ),
    layout=lay_out,
    notes=("background noise (_background_noise_) is in no manifest",),
)
