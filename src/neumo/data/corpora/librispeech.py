"""LibriSpeech: read English books, 960 hours and four test sets (Panayotov et al. 2015)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from neumo.data.corpora.corpus import Archive, Corpus, Line, Splits, keyed, one_folder, read_lines

# https://www.openslr.org/resources/12/md5sum.txt
_MD5 = {
    "dev-clean": "42e2234ba48799c1f50f24a7926300a1",
    "dev-other": "c8d0bcc9cca99d4f8b62fcc847357931",
    "test-clean": "32fa31d27d2e1cad72775fee3f4849a9",
    "test-other": "fb5a50374b501bb3bac4815ee91d3135",
    "train-clean-100": "2a93770f6d5c6c964bc36631d331a522",
    "train-clean-360": "c0e676e450a7ff2f54aeade5171606fa",
    "train-other-500": "d1a0fd59409feb2c614ce4d30c387708",
}


def lay_out(root: Path) -> Splits:
    """Find every part that is there: LibriSpeech/PART/SPEAKER/CHAPTER/*.flac with a file of transcripts."""
    home = one_folder(root, "*/*/*/*.trans.txt", "LibriSpeech")
    parts = sorted(folder.name for folder in home.iterdir() if next(folder.glob("*/*/*.trans.txt"), None))
    return {part: _lines(home / part) for part in parts}


def _lines(part: Path) -> Iterator[Line]:
    for transcripts in sorted(part.glob("*/*/*.trans.txt")):
        for name, text in keyed(read_lines(transcripts)).items():
            yield {
                "audio_filepath": transcripts.parent / f"{name}.flac",
                "text": text,
                "speaker": name.split("-")[0],
                "id": name,
            }


CORPUS = Corpus(
    name="librispeech",
    title="LibriSpeech: read English, 960 hours (OpenSLR 12)",
    licence="CC BY 4.0",
    home="https://www.openslr.org/12/",
    url="https://www.openslr.org/resources/12/",
    archives=tuple(Archive(f"{part}.tar.gz", part, md5=digest) for part, digest in _MD5.items()),
    layout=lay_out,
    notes=("texts are in capitals, as published: normalise: {case: lower} in a vocabulary of small letters",),
)
