"""Text against a vocabulary: ids, and a report of every character that the vocabulary does not have."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from neumo.data.pieces import encode
from neumo.types.errors import DataError
from neumo.types.vocab import Vocab

UnknownPolicy = Literal["raise", "drop_utterance", "drop_character"]
UNKNOWN_POLICIES: tuple[UnknownPolicy, ...] = ("raise", "drop_utterance", "drop_character")

_EXAMPLES = 3  # utterances that are named for each unknown character
_LOOKALIKES = {
    "’": "'",
    "‘": "'",
    "`": "'",
    "´": "'",
    "“": '"',
    "”": '"',
    "–": "-",
    "—": "-",
    "\u00a0": " ",
    "…": "...",
}


@dataclass(slots=True)
class Unknown:
    """Counts one character (or word) that a vocabulary does not have."""

    label: str
    count: int = 0
    utterances: int = 0
    examples: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        times = f"{self.count} time{'s' * (self.count != 1)}"
        return (
            f"{describe(self.label)}  {times} in {self.utterances} of the texts, such as {self.examples[0]}"
        )


@dataclass(frozen=True, slots=True)
class Coverage:
    """Says how well a vocabulary covers a set of texts.

    `affected` are the positions of texts with unknown characters, `altered` of those that do not come back
    from their ids as they were, `empty` of those without any text. `hints` name causes: case, Unicode form,
    quotes.
    """

    texts: int
    unknown: tuple[Unknown, ...]
    affected: tuple[int, ...]
    altered: tuple[int, ...]
    empty: tuple[int, ...]
    hints: tuple[str, ...]
    vocab: str

    @property
    def complete(self) -> bool:
        """Tell whether every character of every text has a label."""
        return not self.unknown

    @property
    def share(self) -> float:
        """Give the share of texts with an unknown character, 0 to 1."""
        return len(self.affected) / max(self.texts, 1)

    def to_json(self) -> dict[str, Any]:
        """Give counts and examples as plain values."""
        unknown = [
            {"label": u.label, "count": u.count, "utterances": u.utterances, "examples": list(u.examples)}
            for u in self.unknown
        ]
        return {
            "texts": self.texts,
            "affected": len(self.affected),
            "altered": len(self.altered),
            "empty": len(self.empty),
            "unknown": unknown,
            "hints": list(self.hints),
        }

    def error(self, where: str | None = None, *, why: str = "") -> DataError:
        """Make the error that lists every unknown character."""
        what = f"{len(self.unknown)} labels are not in the vocabulary {self.vocab}: "
        what += f"{len(self.affected)} of {self.texts} texts use them"
        sentences = [*([why] if why else []), *self.hints]
        fixes = [f"normalise: {policy} in the vocabulary" for policy in _policies(self.hints)]
        fixes += ['on_unknown="drop_utterance" or "drop_character" counts and leaves them out']
        details = [str(unknown) for unknown in self.unknown[:40]]
        if len(self.unknown) > len(details):
            rest = " ".join(u.label for u in self.unknown[len(details) : 400])
            details.append(f"and {len(self.unknown) - len(details)} more: {rest}")
        return DataError(
            what,
            code="unknown-text",
            where=where,
            details=details,
            why=sentences,
            fixes=fixes,
            data=self.to_json(),
        )


def describe(label: str) -> str:
    """Write a label so that it can be told from its lookalikes.

    >>> describe("é"), describe("maybe")
    ("'é' (U+00E9 latin small letter e with acute)", "'maybe'")
    """
    if len(label) != 1:
        return repr(label)
    return f"{label!r} (U+{ord(label):04X} {unicodedata.name(label, 'unnamed').lower()})"


class CoverageCounter:
    """Gathers texts one by one into a `Coverage`, so that no list of all texts is needed.

    >>> counter = CoverageCounter(Vocab("ab"))
    >>> counter.add(0, "abba", "text 0"), counter.result().complete
    ((0, 1, 1, 0), True)
    """

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab
        self._found: dict[str, Unknown] = {}
        self._affected: list[int] = []
        self._altered: list[int] = []
        self._empty: list[int] = []
        self._texts = 0
        silent = [vocab[i] for role, i in vocab.roles if role != "unk"]
        self._exact = vocab.unit == "char" and all(
            len(label) != 1 for label in silent
        )  # ids give the text back

    def add(self, position: int, text: str, name: str) -> tuple[int, ...]:
        """Count a text under its position and its name in messages; give the ids of its known labels."""
        return self.look(position, text, name)[0]

    def look(
        self, position: int, text: str, name: str
    ) -> tuple[tuple[int, ...], tuple[str, ...], str | None]:
        """Count a text; give its ids, its unknown labels, and what comes back if that is another text."""
        vocab = self.vocab
        encoding = encode(vocab, text)
        self._texts += 1
        if not text.strip():
            self._empty.append(position)
        if encoding.unknown:
            self._affected.append(position)
            self._count(encoding.unknown, name)
        elif not self._exact and (again := vocab.decode(encoding.ids)) != self._canonical(text):
            self._altered.append(position)
            return encoding.ids, (), again
        return encoding.ids, encoding.unknown, None

    def _canonical(self, text: str) -> str:
        text = text if self.vocab.normalise is None else self.vocab.normalise(text)
        return " ".join(text.split()) if self.vocab.unit == "word" else text

    def _count(self, labels: tuple[str, ...], name: str) -> None:
        for label, count in Counter(labels).items():
            unknown = self._found.setdefault(label, Unknown(label))
            unknown.count += count
            unknown.utterances += 1
            if len(unknown.examples) < _EXAMPLES:
                unknown.examples.append(name)

    def result(self) -> Coverage:
        """Give what was counted so far, the most frequent unknown labels first."""
        unknown = tuple(sorted(self._found.values(), key=lambda u: (-u.count, u.label)))
        return Coverage(
            texts=self._texts,
            unknown=unknown,
            affected=tuple(self._affected),
            altered=tuple(self._altered),
            empty=tuple(self._empty),
            hints=tuple(_hints(unknown, self.vocab)),
            vocab=str(self.vocab),
        )


def measure_coverage(
    texts: Iterable[str], vocab: Vocab, *, name: Callable[[int], str] = "text {}".format
) -> Coverage:
    """Check every text against a vocabulary; `name` gives what a position is called in messages.

    >>> coverage = measure_coverage(["yes", "NO"], Vocab.english())
    >>> [unknown.label for unknown in coverage.unknown], coverage.affected
    (['N', 'O'], (1,))
    >>> coverage.hints[0]
    "all unknown characters are in the vocabulary in lower case: the texts' case is not the vocabulary's"
    """
    counter = CoverageCounter(vocab)
    for position, text in enumerate(texts):
        counter.add(position, text, name(position))
    return counter.result()


def encode_text(
    text: str, vocab: Vocab, *, on_unknown: UnknownPolicy = "raise", where: str = ""
) -> np.ndarray:
    """Turn a text into int64 ids [U]; raise `DataError` for unknown characters unless they may be dropped.

    >>> encode_text("abba!", Vocab("ab"), on_unknown="drop_character").tolist()
    [0, 1, 1, 0]
    """
    encoding = encode(vocab, text)
    if encoding.unknown and on_unknown != "drop_character":
        raise measure_coverage([text], vocab, name=lambda _: where or repr(text)).error(where or None)
    return np.array(encoding.ids, dtype=np.int64)


def _hints(unknown: tuple[Unknown, ...], vocab: Vocab) -> list[str]:
    """Name what most unknown labels have in common."""
    hints: list[str] = []
    for case, changed in (("lower", str.lower), ("upper", str.upper)):
        known = [u for u in unknown if changed(u.label) != u.label and changed(u.label) in vocab]
        if known:
            share = "all" if len(known) == len(unknown) else f"{len(known)} of {len(unknown)}"
            hints.append(
                f"{share} unknown {_pieces(vocab)} are in the vocabulary in {case} case: "
                "the texts' case is not the vocabulary's"
            )
    like = [u.label for u in unknown if _LOOKALIKES.get(u.label, "") in vocab]
    if like:
        pairs = ", ".join(f"{label!r} for {_LOOKALIKES[label]!r}" for label in like)
        hints.append(f"typographic characters stand where the vocabulary has plain ones: {pairs}")
    hints.extend(_unicode_hints(unknown, vocab))
    return hints


def _policies(hints: Sequence[str]) -> list[str]:
    """Name the policies of writing that would give the unknown characters a label."""
    said = {
        "in lower case:": "{case: lower}",
        "in upper case:": "{case: upper}",
        "the vocabulary as one character (NFC)": "{unicode: NFC}",
        "the vocabulary as marks (NFD)": "{unicode: NFD}",
    }
    return [policy for words, policy in said.items() if any(words in hint for hint in hints)]


def _unicode_hints(unknown: tuple[Unknown, ...], vocab: Vocab) -> list[str]:
    marks = [u.label for u in unknown if len(u.label) == 1 and unicodedata.combining(u.label)]
    if marks and any(len(unicodedata.normalize("NFD", label)) > 1 for label in vocab):
        return ["the texts write accents as separate marks (NFD), the vocabulary as one character (NFC)"]
    split = [u.label for u in unknown if _all_known(unicodedata.normalize("NFD", u.label), vocab)]
    if split and vocab.unit == "char":
        return ["the texts write accented letters as one character (NFC), the vocabulary as marks (NFD)"]
    return []


def _all_known(text: str, vocab: Vocab) -> bool:
    return len(text) > 1 and all(character in vocab for character in text)


def _pieces(vocab: Vocab) -> str:
    return "words" if vocab.unit == "word" else "characters"
