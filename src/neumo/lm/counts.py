"""Counts the n-grams of a text, of all orders at once.

Shapes: P positions of the text, G n-grams of an order.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from neumo.lm.ngram import BOS, EOS, UNK
from neumo.types.errors import DataError

UNK_ID, BOS_ID, EOS_ID = 0, 1, 2
MARKS = (UNK, BOS, EOS)


@dataclass(frozen=True)
class Counted:
    """The n-grams of one order, each once.

    `prefix` and `suffix` are the places of the n-grams without the last and without the first word among
    those of the order below. `adjusted` is how many different words come before an n-gram, and its `raw`
    count for those that begin with `<s>`, which has none before, and for the highest order: what a model of
    Kneser and Ney is made of.
    """

    words: np.ndarray  # (G, n)
    prefix: np.ndarray  # (G,)
    suffix: np.ndarray  # (G,)
    raw: np.ndarray  # (G,)
    adjusted: np.ndarray  # (G,)


@dataclass(frozen=True)
class Counts:
    """The n-grams of a text: `words` by number (`<unk>`, `<s>` and `</s>` first), and those of each order.

    >>> counts = count([["a", "b"], ["a"]], order=2)
    >>> counts.words, counts.sentences, counts.tokens
    (('<unk>', '<s>', '</s>', 'a', 'b'), 2, 3)
    >>> bigrams = counts.levels[1]
    >>> [(*(counts.words[n] for n in row), int(raw)) for row, raw in zip(bigrams.words, bigrams.raw)]
    [('<s>', 'a', 2), ('a', '</s>', 1), ('a', 'b', 1), ('b', '</s>', 1)]
    """

    words: tuple[str, ...]
    levels: tuple[Counted, ...]
    sentences: int
    tokens: int


def count(sentences: Iterable[Iterable[str]], *, order: int, min_count: int = 1) -> Counts:
    """Count the n-grams of sentences up to an order; rarer words than `min_count` become `<unk>`.

    A sentence is words between `<s>` and `</s>`; empty ones are left out, and marks inside of one are a
    `DataError`. It takes some 40 bytes a word of the text for each order.
    """
    flat, starts, words = _numbered(sentences)
    if not starts:
        raise DataError(
            "the text for a language model has no words", code="lm-text", why="Every line of it is blank."
        )
    ids, begins = np.frombuffer(flat, dtype=np.int32), np.frombuffer(starts, dtype=np.int64)
    if min_count > 1:
        ids, words = _without_rare(ids, words, min_count)
    behind = np.diff(begins, append=len(ids))  # words of each sentence, with its marks
    offset = np.arange(len(ids)) - np.repeat(begins, behind)
    raw: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
    place = ids.astype(np.int64)  # which n-gram of the order below ends at each position
    for n in range(1, order + 1):
        ends = np.flatnonzero(offset >= n - 1)
        if not len(ends):
            break
        before = place[ends - 1] if n > 1 else np.zeros(len(ends), dtype=np.int64)
        _, first, found, times = np.unique(
            before * len(words) + ids[ends], return_index=True, return_inverse=True, return_counts=True
        )
        first = ends[first]
        suffix = place[first] if n > 1 else np.zeros(len(first), dtype=np.int64)
        prefix = place[first - 1] if n > 1 else np.zeros(len(first), dtype=np.int64)
        grams = np.stack([ids[first - back] for back in range(n - 1, -1, -1)], axis=1)
        if n == 1:  # all words, also those that were never said
            raw.append(_all_words(grams, times, len(words)))
        else:
            place = np.full(len(ids), -1, dtype=np.int64)
            place[ends] = found
            raw.append((grams, prefix, suffix, times))
    levels = [
        Counted(
            grams, prefix, suffix, times, _adjusted(grams, times, raw[n + 1][2] if n + 1 < len(raw) else None)
        )
        for n, (grams, prefix, suffix, times) in enumerate(raw)
    ]
    return Counts(tuple(words), tuple(levels), len(starts), len(ids) - 2 * len(starts))


def _all_words(
    grams: np.ndarray, times: np.ndarray, words: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    raw = np.zeros(words, dtype=np.int64)
    raw[grams[:, 0]] = times
    none = np.zeros(words, dtype=np.int64)
    return np.arange(words, dtype=np.int32)[:, None], none, none, raw


def _adjusted(grams: np.ndarray, raw: np.ndarray, longer: np.ndarray | None) -> np.ndarray:
    """How many different words stand before each; `longer` are the suffixes of longer n-grams."""
    if longer is None:
        adjusted = raw.copy()
    else:
        before = np.bincount(longer, minlength=len(grams))
        adjusted = np.where(grams[:, 0] == BOS_ID, raw, before)
    if grams.shape[1] == 1:
        adjusted[BOS_ID] = 0  # never predicted
    return adjusted


def _numbered(sentences: Iterable[Iterable[str]]) -> tuple[array[int], array[int], list[str]]:
    flat, starts = array("i"), array("q")
    index = {word: number for number, word in enumerate(MARKS)}
    for number, sentence in enumerate(sentences, 1):
        said = list(sentence)
        if not said:
            continue
        if marks := [word for word in said if word in MARKS[1:]]:
            raise DataError(
                f"sentence {number} of the text has {marks[0]} in it",
                code="lm-text",
                why="Marks of beginnings and ends are put around each sentence.",
                fixes=["give sentences without them"],
            )
        starts.append(len(flat))
        flat.append(BOS_ID)
        flat.extend(index.setdefault(word, len(index)) for word in said)
        flat.append(EOS_ID)
    return flat, starts, list(index)


def _without_rare(ids: np.ndarray, words: list[str], least: int) -> tuple[np.ndarray, list[str]]:
    kept = np.bincount(ids, minlength=len(words)) >= least
    kept[: len(MARKS)] = True
    number = np.where(kept, np.cumsum(kept) - 1, UNK_ID)
    return number[ids].astype(np.int32), [word for word, keep in zip(words, kept, strict=True) if keep]
