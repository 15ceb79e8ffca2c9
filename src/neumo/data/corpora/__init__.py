"""Public corpora, one file for each: where they are, what they add up to, their licence and their layout."""

from __future__ import annotations

from neumo.data.corpora import (
    aishell1,
    aishell2,
    an4,
    commonvoice,
    fsdd,
    librispeech,
    ljspeech,
    mini_librispeech,
    speech_commands,
)
from neumo.data.corpora.corpus import Archive as Archive
from neumo.data.corpora.corpus import Corpus as Corpus
from neumo.types.errors import ConfigError, did_you_mean

CORPORA: dict[str, Corpus] = {
    module.CORPUS.name: module.CORPUS
    for module in (
        librispeech, mini_librispeech, an4, commonvoice, aishell1, aishell2, ljspeech, fsdd, speech_commands
    )
}  # fmt: skip


def find_corpus(name: str) -> Corpus:
    """Look a corpus up by name; raise `ConfigError` with the nearest match.

    >>> find_corpus("an4").licence.startswith("free")
    True
    """
    if name not in CORPORA:
        raise ConfigError(
            f"there is no corpus {name!r}",
            code="corpus-name",
            details=[f"there are {', '.join(CORPORA)}"],
            fixes=did_you_mean(name, CORPORA),
        )
    return CORPORA[name]
