"""Mini LibriSpeech: five hours of LibriSpeech to train on and two to develop with."""

from __future__ import annotations

from neumo.data.corpora.corpus import Archive, Corpus
from neumo.data.corpora.librispeech import lay_out

CORPUS = Corpus(
    name="mini_librispeech",
    title="Mini LibriSpeech: 5 + 2 hours of LibriSpeech (OpenSLR 31)",
    licence="CC BY 4.0",
    home="https://www.openslr.org/31/",
    url="https://www.openslr.org/resources/31/",
    archives=(
        Archive("train-clean-5.tar.gz", "train-clean-5", md5="5df7d4e78065366204ca6845bb08f490"),
        Archive("dev-clean-2.tar.gz", "dev-clean-2", md5="6d7ab67ac6a1d2c993d050e16d61080d"),
    ),
    layout=lay_out,
    notes=("texts are in capitals, as published: normalise: {case: lower} in a vocabulary of small letters",),
)
