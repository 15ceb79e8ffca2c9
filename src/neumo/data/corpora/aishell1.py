"""AISHELL-1: 178 hours of read Mandarin by 400 speakers (Bu et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from neumo.data.corpora.corpus import Archive, Corpus, Line, Splits, keyed, one_folder, read_lines

_SETS = ("train", "dev", "test")


def lay_out(root: Path) -> Splits:
    """Find wav/SET/SPEAKER/*.wav and transcript/aishell_transcript_v0.8.txt."""
    home = one_folder(root, "transcript/aishell_transcript*.txt", "AISHELL-1")
    texts = keyed(read_lines(next(iter(sorted((home / "transcript").glob("aishell_transcript*.txt"))))))
    return {name: _lines(home / "wav" / name, texts) for name in _SETS}


def _lines(folder: Path, texts: dict[str, str]) -> Iterator[Line]:
    for wav in sorted(folder.glob("*/*.wav")):
        text = texts.get(wav.stem)
        if text is None:
            continue  # a few recordings have no transcript, as published
        yield {
            "audio_filepath": wav,
            "text": "".join(text.split()),
            "words": text,
            "speaker": wav.parent.name,
            "id": wav.stem,
        }


CORPUS = Corpus(
    name="aishell1",
    title="AISHELL-1: read Mandarin, 178 hours (OpenSLR 33)",
    licence="Apache 2.0",
    home="https://www.openslr.org/33/",
    url="https://www.openslr.org/resources/33/",
    archives=(Archive("data_aishell.tgz", md5="2f494334227864a8a8fec932999db9d8"),),
    nested="S[0-9]*.tar.gz",
    layout=lay_out,
    notes=(
        "text has no spaces, so that its labels are characters; words has it as published, cut into words",
    ),
)
