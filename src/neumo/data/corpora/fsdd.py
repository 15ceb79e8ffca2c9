"""Free Spoken Digit Dataset: single digits by six speakers at 8 kHz (Jackson et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from neumo.data.corpora.corpus import Archive, Corpus, Line, Splits, one_folder

_DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_TEST = 5  # recordings 0 to 4 of each digit and speaker are the published test set


def lay_out(root: Path) -> Splits:
    """Find recordings/DIGIT_SPEAKER_NUMBER.wav."""
    home = one_folder(root, "recordings/?_*_*.wav", "FSDD")
    names = sorted((home / "recordings").glob("?_*_*.wav"))
    return {
        "train": _lines(path for path in names if _number(path) >= _TEST),
        "test": _lines(path for path in names if _number(path) < _TEST),
    }


def _number(path: Path) -> int:
    number = path.stem.rpartition("_")[2]
    return int(number) if number.isdigit() else -1


def _lines(paths: Iterator[Path]) -> Iterator[Line]:
    for path in paths:
        digit, speaker, _ = path.stem.split("_", 2)
        if digit.isdigit() and _number(path) >= 0:
            text = _DIGITS[int(digit)]
            yield {"audio_filepath": path, "text": text, "speaker": speaker, "id": path.stem}


CORPUS = Corpus(
    name="fsdd",
    title="Free Spoken Digit Dataset 1.0.9: single digits of six speakers",
    licence="CC BY-SA 4.0",
    home="https://github.com/Jakobovski/free-spoken-digit-dataset",
    url="https://github.com/Jakobovski/free-spoken-digit-dataset/archive/",
    archives=(Archive("v1.0.9.tar.gz"),),
    patterns=("free-spoken-digit-dataset-*.tar.gz", "free-spoken-digit-dataset-*.zip"),
    layout=lay_out,
)
