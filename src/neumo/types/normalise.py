"""How texts are written before they are cut into labels: one policy, stated with the vocabulary."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final, Literal

from neumo.types.errors import ConfigError, did_you_mean

_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "unicode": ("keep", "NFC", "NFD", "NFKC", "NFKD"),
    "case": ("keep", "lower", "upper"),
    "punctuation": ("keep", "drop", "space"),
    "marks": ("keep", "drop"),
    "digits": ("keep", "drop"),
    "controls": ("keep", "drop"),
    "spaces": ("keep", "single", "drop"),
}
_LIKE: Final = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "＇": "'", "`": "'", "´": "'"})
# Marks that say nothing but in which direction, or whether joined, letters are drawn (Unicode, Cf).
_VOWELLESS = re.compile(r"[\u0640]")  # tatweel only stretches a word


@dataclass(frozen=True)
class Normalise:
    """Says how texts are written before they become labels, the same in training, evaluation and scoring.

    >>> english = Normalise(case="lower", punctuation="space")
    >>> english("Don’t stop—EVER, No. 21!")
    "don't stop ever no 21"
    >>> Normalise(unicode="NFD")("é") == "e\\u0301", Normalise(marks="drop")("السَّلَامُ") == "السلام"
    (True, True)

    `unicode` is a form of Unicode (UAX 15) or "keep". `case` is "keep", "lower" or "upper". `punctuation`
    (and symbols) is dropped, becomes a space, or is kept; characters of `kept` stay in any case, and
    typographic apostrophes count as the plain one if that is kept. `marks` are the accents and vowel signs
    that stand on a letter: where they are dropped, the text comes back in form NFC if none was asked for.
    `digits` are kept unless dropped: numbers are not spelt out. `controls` are invisible characters, such as
    those of direction in Hebrew and Arabic, a byte order mark, or the stretcher of Arabic. `spaces` in a row
    become a single one, without any at the ends; "drop" is for languages that part no words.
    """

    unicode: Literal["keep", "NFC", "NFD", "NFKC", "NFKD"] = "NFC"
    case: Literal["keep", "lower", "upper"] = "keep"
    punctuation: Literal["keep", "drop", "space"] = "keep"
    kept: str = "'"
    marks: Literal["keep", "drop"] = "keep"
    digits: Literal["keep", "drop"] = "keep"
    controls: Literal["keep", "drop"] = "drop"
    spaces: Literal["keep", "single", "drop"] = "single"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value: object = getattr(self, name)
            if value not in choices:
                wanted = ", ".join(map(repr, choices))
                raise ConfigError(
                    f"normalise.{name} is {value!r}, expected one of {wanted}",
                    code="vocab",
                    fixes=did_you_mean(str(value), choices),
                )
        if not isinstance(self.kept, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"normalise.kept is {self.kept!r}, expected a text", code="vocab")

    def __call__(self, text: str) -> str:
        """Write one text as the policy says."""
        form = self.unicode
        if form != "keep":
            text = unicodedata.normalize(form, text)
        if self.marks == "drop":
            text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
            text = unicodedata.normalize("NFC" if form == "keep" else form, text)
        if self.case != "keep":
            text = text.lower() if self.case == "lower" else text.upper()
        if "'" in self.kept and self.punctuation != "keep":
            text = text.translate(_LIKE)
        text = text.translate(_table(self))
        if form != "keep" and self.case != "keep":
            text = unicodedata.normalize(form, text)  # the case of a letter may have another form
        if self.spaces == "keep":
            return text
        return (" " if self.spaces == "single" else "").join(text.split())

    def write(self, character: str) -> str:
        """Write one character as the policy says, apart from its form, case and marks.

        >>> Normalise(punctuation="drop").write("!")
        ''
        """
        kind = unicodedata.category(character)
        if character in self.kept or (kind[0] == "L" and character != "\u0640"):
            return character
        if (kind in ("Cf", "Cc") and not character.isspace()) or _VOWELLESS.fullmatch(character):
            return "" if self.controls == "drop" else character
        if kind[0] in "PS" and self.punctuation != "keep":
            return " " if self.punctuation == "space" else ""
        return "" if kind[0] == "N" and self.digits == "drop" else character

    def __str__(self) -> str:
        """Name what differs from leaving a text as it is.

        >>> str(Normalise(case="lower", punctuation="drop"))
        "unicode NFC, case lower, punctuation drop (' kept), controls drop, spaces single"
        """
        said = [f"{name} {getattr(self, name)}" for name in _CHOICES if getattr(self, name) != "keep"]
        if self.punctuation != "keep" and self.kept:
            at = said.index(f"punctuation {self.punctuation}")
            said[at] += f" ({self.kept} kept)"
        return ", ".join(said) or "as it is"

    def to_data(self) -> dict[str, str]:
        """Write the settings that differ from their defaults as plain values.

        >>> Normalise(case="lower").to_data()
        {'case': 'lower'}
        """
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {field.name: given[field.name] for field in fields(self) if given[field.name] != field.default}

    @classmethod
    def from_data(cls, data: object) -> Normalise:
        """Read a mapping of settings; an unknown one is refused.

        >>> Normalise.from_data({"case": "lower"}).case
        'lower'
        """
        if isinstance(data, Normalise):
            return data
        known = [field.name for field in fields(cls)]
        if not isinstance(data, Mapping):
            raise ConfigError(
                f"normalise must be a mapping, not {data!r}",
                code="vocab",
                fixes=[f"it may have {', '.join(known)}"],
            )
        settings: Mapping[Any, Any] = data  # pyright: ignore[reportUnknownVariableType]
        for name in settings:
            if name not in known:
                raise ConfigError(
                    f"normalise has no {name!r}",
                    code="vocab",
                    details=[f"it may have {', '.join(known)}"],
                    fixes=did_you_mean(str(name), known),
                )
        return cls(**settings)


class _Table(dict[int, str]):
    """What becomes of each character, filled as characters are met: `str.translate` asks for their codes."""

    def __init__(self, policy: Normalise) -> None:
        super().__init__()
        self._policy = policy

    def __missing__(self, code: int) -> str:
        self[code] = self._policy.write(chr(code))
        return self[code]


@lru_cache(maxsize=32)
def _table(policy: Normalise) -> _Table:
    return _Table(policy)
