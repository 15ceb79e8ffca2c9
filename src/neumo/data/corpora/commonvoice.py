"""Common Voice: sentences read by volunteers in more than a hundred languages (Ardila et al. 2020)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from neumo.data.corpora.corpus import Corpus, Line, Splits, layout_error

_SETS = ("train", "dev", "test", "validated", "other")


def lay_out(root: Path) -> Splits:
    """Find SET.tsv beside clips/, which has the recordings as MP3; of several languages, each by its name."""
    homes = sorted(
        {path.parent for depth in ("", "*/", "*/*/", "*/*/*/") for path in root.glob(f"{depth}clips")}
    )
    if not homes:
        raise layout_error(root, "clips", "Common Voice")
    splits: Splits = {}
    for home in homes:
        for name in (name for name in _SETS if (home / f"{name}.tsv").is_file()):
            splits[name if len(homes) == 1 else f"{home.name}-{name}"] = _lines(home, name)
    return splits


def _lines(home: Path, name: str) -> Iterator[Line]:
    with (home / f"{name}.tsv").open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            clip = row.get("path") or ""
            if not clip:
                continue
            yield {
                "audio_filepath": home / "clips" / (clip if Path(clip).suffix else f"{clip}.mp3"),
                "text": row.get("sentence") or "",
                "speaker": row.get("client_id") or "",
                "id": Path(clip).stem,
                **{key: row[key] for key in ("locale", "accents", "gender", "age") if row.get(key)},
            }


CORPUS = Corpus(
    name="commonvoice",
    title="Common Voice: sentences read by volunteers, one archive for each language",
    licence="CC0 1.0",
    home="https://commonvoice.mozilla.org/datasets",
    by_hand="Mozilla gives the archive of a language to those who accept its terms: choose it on the page, "
    "save it, and name its folder with --archives.",
    patterns=("cv-corpus-*.tar.gz", "common-voice-*.tar.gz", "*common*voice*.tar.gz", "cv-corpus-*.tar"),
    layout=lay_out,
    notes=(
        "train, dev and test share no speaker; validated holds all of them and more: do not train on it and "
        "test on test",
    ),
)
