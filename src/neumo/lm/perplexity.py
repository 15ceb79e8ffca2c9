"""How well a model predicts a text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from neumo.lm.ngram import NGramModel
from neumo.types.errors import DataError

_AT_ONCE = 4096  # sentences


@dataclass(frozen=True)
class Perplexity:
    """The perplexity of a text, with and without the words that a model does not have.

    `value` is over all words and the ends of sentences, with unknown words as `<unk>` (infinite where a
    model has no `<unk>`); `known` leaves unknown words out. `tokens` counts words and ends of sentences.
    """

    value: float
    known: float
    sentences: int
    tokens: int
    unknown: int

    def to_json(self) -> dict[str, Any]:
        """Give it as plain values."""
        return dict(vars(self))


def perplexity(model: NGramModel, sentences: Iterable[Iterable[str]]) -> Perplexity:
    """Measure a model on sentences: exp of minus the mean log-probability of a word.

    >>> from neumo.lm.estimate import estimate
    >>> model = estimate([["so", "be", "it"], ["so", "it", "be"]], order=2).model
    >>> measured = perplexity(model, [["so", "be", "that"]])
    >>> round(measured.value, 1), round(measured.known, 1), measured.unknown
    (4.4, 2.7, 1)
    """
    scores: list[np.ndarray] = []
    unknown: list[np.ndarray] = []
    count, rest = 0, (list(sentence) for sentence in sentences)
    while window := list(islice(rest, _AT_ONCE)):
        window = [sentence for sentence in window if sentence]
        count += len(window)
        for logp, missing in _walk(model, window):
            scores.append(logp)
            unknown.append(missing)
    if not count:
        raise DataError("the text to be measured has no words", code="lm-text")
    logp, missing = np.concatenate(scores), np.concatenate(unknown)
    value = float("inf") if model.unk < 0 and missing.any() else float(np.exp(-logp.mean()))
    known = float(np.exp(-logp[~missing].mean())) if (~missing).any() else float("nan")
    return Perplexity(value, known, count, len(logp), int(missing.sum()))


def _walk(model: NGramModel, window: list[list[str]]) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Score the words of all sentences that have one at each place, and the ends behind them."""
    window.sort(key=len, reverse=True)
    states = np.full(len(window), model.start, dtype=np.int64)
    for place in range(len(window[0]) + 1 if window else 0):
        words = [sentence[place] for sentence in window if len(sentence) > place]
        at_end = sum(1 for sentence in window if len(sentence) == place)
        numbers = np.array([model.index(word) for word in words] + [model.eos] * at_end, dtype=np.int64)
        logp, after = model.score_many(states[: len(words) + at_end], numbers)
        missing = np.array([word not in model for word in words] + [False] * at_end, dtype=bool)
        states = after[: len(words)]
        yield logp, missing | (numbers == model.unk)
