"""AISHELL-2: 1000 hours of read Mandarin (Du et al. 2018), by application only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from neumo.data.corpora.corpus import Corpus, Line, Splits, keyed, layout_error, read_lines

_SETS = {"data": "train", "dev": "dev", "test": "test"}


def lay_out(root: Path) -> Splits:
    """Find every folder with wav.scp and trans.txt: data (to train on), dev and test, of each device."""
    found = sorted(path.parent for path in root.rglob("wav.scp") if (path.parent / "trans.txt").is_file())
    if not found:
        raise layout_error(root, "wav.scp beside a trans.txt", "AISHELL-2")
    splits: Splits = {}
    for folder in found:
        name = _SETS.get(folder.name, folder.name)
        device = folder.parent.name.lower()
        splits[name if device in ("ios", root.name.lower()) else f"{name}-{device}"] = _lines(folder)
    return splits


def _lines(folder: Path) -> Iterator[Line]:
    texts = keyed(read_lines(folder / "trans.txt"))
    for name, wav in keyed(read_lines(folder / "wav.scp")).items():
        if name not in texts:
            continue
        yield {
            "audio_filepath": folder / wav,
            "text": "".join(texts[name].split()),
            "speaker": Path(wav).parent.name,
            "id": name,
        }


CORPUS = Corpus(
    name="aishell2",
    title="AISHELL-2: read Mandarin, 1000 hours",
    licence="for research, by application to AISHELL",
    home="https://www.aishelltech.com/aishell_2",
    by_hand="AISHELL-2 is given on application. Put what you were given below --root, or its archives below "
    "--archives.",
    patterns=("*AISHELL-2*", "*AISHELL*DEV*TEST*", "*aishell2*", "TEST*DEV*DATA*.zip"),
    layout=lay_out,
)
