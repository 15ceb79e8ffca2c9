"""Text normalisers for scoring, each with a version that is published with the error rate."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from neumo.types.errors import ConfigError, did_you_mean

_QUOTES = str.maketrans({"’": "'", "‘": "'", "`": "'", "´": "'", "ʼ": "'", "＇": "'"})
_LONE_APOSTROPHE = re.compile(r"(?<!\w)'|'(?!\w)")


@dataclass(frozen=True, slots=True)
class Normaliser:
    """Rewrites texts before they are compared; `name` and `version` are published with every rate.

    >>> NORMALISERS["basic"]("Don’t  stop—EVER, twenty-one!")
    "don't stop ever twenty one"
    >>> str(NORMALISERS["basic"])
    'basic-1'
    """

    name: str
    version: int
    apply: Callable[[str], str]

    def __call__(self, text: str) -> str:
        """Rewrite one text."""
        return self.apply(text)

    def __str__(self) -> str:
        return f"{self.name}-{self.version}"


def find_normaliser(name: str) -> Normaliser:
    """Look a normaliser up by name; raise `ConfigError` with the nearest match.

    >>> find_normaliser("none")("As it is.")
    'As it is.'
    """
    if name not in NORMALISERS:
        choices = ", ".join(map(repr, NORMALISERS))
        what = f"there is no normaliser {name!r}; there are {choices}"
        raise ConfigError(what, code="normaliser", fixes=did_you_mean(name, NORMALISERS))
    return NORMALISERS[name]


def _as_it_is(text: str) -> str:
    return text


def _basic(text: str) -> str:
    """Lower the case, unify apostrophes, turn other punctuation into spaces, keep letters and digits."""
    text = unicodedata.normalize("NFKC", text).translate(_QUOTES).lower()
    kept = "".join(c if c == "'" or unicodedata.category(c)[0] in "LNMZ" else " " for c in text)
    return " ".join(_LONE_APOSTROPHE.sub(" ", kept).split())


NORMALISERS: dict[str, Normaliser] = {
    "none": Normaliser("none", 1, _as_it_is),
    "basic": Normaliser("basic", 1, _basic),
}
