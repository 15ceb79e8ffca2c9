"""Vocabularies made from texts, and proved on them: every text must come back from its ids."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from neumo.data.manifest import Manifest
from neumo.data.pieces import train_pieces
from neumo.data.text import Coverage, CoverageCounter, describe
from neumo.types.errors import ConfigError, DataError
from neumo.types.normalise import Normalise
from neumo.types.vocab import Vocab

VocabKind = Literal["char", "bpe", "unigram"]

_NAMED = 5  # texts or characters that a warning names


@dataclass(slots=True)
class LearnedVocab:
    """Holds a vocabulary with what it does to the texts it was made from.

    `characters` counts those of the written texts, `ids` is how many ids all texts have. `warnings` are
    worth reading before a training.
    """

    vocab: Vocab
    coverage: Coverage
    characters: Counter[str]
    ids: int
    warnings: list[str] = field(default_factory=list[str])

    def to_json(self) -> dict[str, Any]:
        """Give figures and warnings as plain values."""
        return {
            "size": len(self.vocab),
            "unit": self.vocab.unit,
            "digest": self.vocab.digest,
            "normalise": None if self.vocab.normalise is None else self.vocab.normalise.to_data(),
            "texts": self.coverage.texts,
            "characters": len(self.characters),
            "characters_per_id": round(sum(self.characters.values()) / max(self.ids, 1), 3),
            "coverage": self.coverage.to_json(),
            "warnings": self.warnings,
        }


def learn_vocab(
    texts: Sequence[str],
    kind: VocabKind,
    size: int | None = None,
    *,
    normalise: Normalise | None = None,
    coverage: float = 1.0,
    name: str = "",
    names: Sequence[str] = (),
) -> LearnedVocab:
    """Make a vocabulary of characters or pieces from texts, and check every text against it.

    >>> learned = learn_vocab(["yes no", "no"], "char")
    >>> learned.vocab.labels, learned.coverage.complete, learned.ids
    ((' ', 'e', 'n', 'o', 's', 'y'), True, 8)

    `size` is the number of labels: all characters if it is left out, else the most frequent ones; pieces need
    it. `names` are what the texts are called in messages. Raises `DataError` where the texts do not yield
    such a vocabulary, such as one of fewer pieces than there are characters.
    """
    written = [normalise(text) if normalise else text for text in texts]
    found: Counter[str] = Counter()
    for text in written:
        found.update(text)
    if not found:
        raise DataError("the texts are empty, so there is nothing to make a vocabulary of", code="pieces")
    if kind == "char":
        vocab = Vocab(_labels(found, size, coverage), name, normalise=normalise)
    elif size is None:
        raise ConfigError("a vocabulary of pieces needs a size, such as 128", code="option")
    else:
        vocab = train_pieces(texts, size, kind=kind, normalise=normalise, coverage=coverage, name=name)
    counter = CoverageCounter(vocab)
    ids = sum(
        len(counter.add(n, text, names[n] if n < len(names) else f"text {n}")) for n, text in enumerate(texts)
    )
    learned = LearnedVocab(vocab, counter.result(), found, ids)
    learned.warnings = list(_warnings(learned, texts, written))
    return learned


def texts_of(manifest: Manifest) -> tuple[list[str], list[str]]:
    """Give the texts of a manifest and what each entry is called."""
    texts: list[str] = []
    for entry in manifest:
        texts.append(entry.text or "")
    return texts, [manifest.name(index) for index in range(len(manifest))]


def write_vocab(vocab: Vocab, path: Path) -> str:
    """Write labels, one a line, or the model of pieces; give the lines of a recipe that read it.

    Raises `ConfigError` where the file cannot be written.
    """
    key = "file" if vocab.model is None else "sentencepiece"
    data = "".join(f"{label}\n" for label in vocab.labels).encode() if vocab.model is None else vocab.model
    try:
        path.write_bytes(data)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}", code="output") from None
    written = {} if vocab.normalise is None else vocab.normalise.to_data() or {"unicode": "NFC"}
    policy = f", normalise: {_flow(written)}" if written else ""
    return f"vocabs:\n  {vocab.name or 'labels'}: {{{key}: {path.name}{policy}}}"


def _flow(data: dict[str, str]) -> str:
    return (
        "{"
        + ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in data.items())
        + "}"
    )


def _labels(found: Counter[str], size: int | None, coverage: float) -> list[str]:
    """Choose the characters that become labels: the most frequent ones, in the order of Unicode."""
    ranked = [character for character, _ in sorted(found.items(), key=lambda item: (-item[1], item[0]))]
    if coverage < 1:
        total, kept, count = sum(found.values()), 0, 0
        while kept < coverage * total:
            kept += found[ranked[count]]
            count += 1
        ranked = ranked[:count]
    chosen = sorted(ranked if size is None else ranked[:size])
    if "\n" in chosen or "\r" in chosen:
        raise DataError(
            "a text has a line break, which no file of labels can hold",
            code="pieces",
            fixes=["--spaces single makes spaces of line breaks"],
        )
    return chosen


def _warnings(learned: LearnedVocab, texts: Sequence[str], written: Sequence[str]) -> Iterable[str]:
    found, labels = learned.coverage, len(learned.vocab)
    if len(learned.characters) > labels:
        yield f"the texts have {len(learned.characters)} different characters, more than the {labels} labels"
    if found.unknown:
        shown = ", ".join(f"{describe(u.label)} {u.count}x" for u in found.unknown[:_NAMED])
        more = f" and {len(found.unknown) - _NAMED} more" if len(found.unknown) > _NAMED else ""
        yield f"{len(found.affected)} of {found.texts} texts have characters without a label: {shown}{more}"
    if found.altered:
        shown = ", ".join(repr(texts[n]) for n in found.altered[:_NAMED])
        yield f"{len(found.altered)} of {found.texts} texts do not come back from their ids: {shown}"
    if found.empty:
        yield f"{len(found.empty)} of {found.texts} texts are empty"
    letters = sum(count for c, count in learned.characters.items() if c.lower() != c.upper())
    capitals = sum(count for c, count in learned.characters.items() if c.lower() != c)
    if 0 < capitals < letters:
        share = 100 * capitals / letters
        yield f"{share:.1f} % of the letters are capitals: --case lower makes one label of each pair"
    rewritten = sum(1 for before, after in zip(texts, written, strict=True) if before != after)
    if rewritten and learned.vocab.normalise == Normalise():  # what was asked for needs no warning
        yield f"{rewritten} of {found.texts} texts are written differently: {learned.vocab.normalise}"
    yield from found.hints
