"""Estimates n-gram models: interpolated modified Kneser-Ney smoothing.

Shapes: G n-grams of an order, H n-grams of the order below, which are their contexts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from neumo.lm.counts import BOS_ID, Counted, Counts, count
from neumo.lm.ngram import Grams, NGramModel
from neumo.types.errors import ConfigError

FALLBACK = (0.5, 1.0, 1.5)  # where counts of counts tell none; KenLM has the same ones
_NEVER = -99 * float(np.log(10))


@dataclass(frozen=True)
class Discounts:
    """What is taken off counts of one, of two, and of three and more, for one order.

    >>> Discounts.of(np.repeat([1, 2, 3, 4, 5], [100, 40, 20, 10, 30]))
    Discounts(one=0.5555555555555556, two=1.1666666666666665, more=1.8888888888888888, measured=True)
    >>> Discounts.of(np.array([1, 2, 2]))
    Discounts(one=0.5, two=1.0, more=1.5, measured=False)

    `measured` is False where a text is too small or too regular: where one of the first four counts is
    missing, or would be discounted to less than nothing.
    """

    one: float
    two: float
    more: float
    measured: bool = True

    @classmethod
    def of(cls, counts: np.ndarray) -> Discounts:
        """Estimate them out of counts (G,); Chen and Goodman 1999, equation 26."""
        n1, n2, n3, n4 = (int((counts == k).sum()) for k in (1, 2, 3, 4))
        if min(n1, n2, n3, n4):
            y = n1 / (n1 + 2 * n2)
            found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
            if all(0 <= value <= k for k, value in enumerate(found, 1)):
                return cls(*found)
        return cls(*FALLBACK, measured=False)

    def off(self, counts: np.ndarray) -> np.ndarray:
        """What is taken off each count (G,)."""
        return np.array([0.0, self.one, self.two, self.more])[np.minimum(counts, 3)]


@dataclass(frozen=True)
class Estimated:
    """A model, and what it was made of.

    `discounts` are those of each order. `pruned` is how many n-grams of each order were left out.
    """

    model: NGramModel
    discounts: tuple[Discounts, ...]
    sentences: int
    tokens: int
    pruned: tuple[int, ...]


def estimate(
    sentences: Iterable[Iterable[str]],
    *,
    order: int = 3,
    prune: Sequence[int] = (),
    min_count: int = 1,
) -> Estimated:
    """Estimate a model of sentences, each some words (or characters, or pieces of words).

    >>> made = estimate([["so", "be", "it"], ["so", "it", "be"]], order=2)
    >>> made.model.counts, made.tokens
    ((6, 7), 6)
    >>> made.model.index("so"), round(float(np.exp(made.model.sentence(["so"])[0])), 3)
    (3, 0.586)

    Probabilities are those of interpolated modified Kneser-Ney smoothing (Chen and Goodman 1999,
    https://dash.harvard.edu/handle/1/25104739): a count, less a discount that depends on it, and the rest by
    one word less of context, where words count by how many different ones they follow. Below the order of
    one is the same probability for each word, for `</s>` and for `<unk>`. So the probabilities of all words
    behind any state sum to one.

    `prune` has a threshold an order from the second on, the last for all that follow: `(0, 1)` leaves out
    n-grams of order 3 and more that were seen once. Thresholds must not fall. Words that were seen less than
    `min_count` times count as `<unk>`. Raises `ConfigError` for settings that cannot be meant and `DataError`
    for a text without words.
    """
    _check(order, prune, min_count)
    counts = count(sentences, order=order, min_count=min_count)
    return _estimated(counts, prune)


def _check(order: int, prune: Sequence[int], min_count: int) -> None:
    if not 1 <= order <= 16:
        raise ConfigError(f"the order of a language model is {order}; it must be from 1 to 16", code="field")
    if any(low > high for low, high in pairwise(prune)) or min(prune, default=0) < 0:
        raise ConfigError(
            f"the thresholds of pruning are {', '.join(map(str, prune))}; they must not fall",
            code="field",
            why="An n-gram would remain whose beginning or end is left out.",
        )
    if min_count < 1:
        raise ConfigError(f"min_count is {min_count}; it must be at least 1", code="field")


def _estimated(counts: Counts, prune: Sequence[int]) -> Estimated:
    discounts: list[Discounts] = []
    levels: list[_Level] = []
    for n, level in enumerate(counts.levels, 1):
        counted = level.adjusted[level.adjusted > 0] if n == 1 else level.adjusted
        discounts.append(Discounts.of(counted))
        threshold = prune[min(n - 2, len(prune) - 1)] if prune and n > 1 else 0
        kept = level.raw > threshold if n > 1 else np.ones(len(level.raw), dtype=bool)
        lower = levels[-1] if levels else None
        levels.append(_Level.of(level, discounts[-1], kept, lower))
    grams: list[Grams] = []
    for n, (level, smooth) in enumerate(zip(counts.levels, levels, strict=True)):
        weight = levels[n + 1].weight if n + 1 < len(levels) else np.ones(len(level.raw))
        with np.errstate(divide="ignore"):
            logp = np.maximum(np.log(smooth.probs), _NEVER)
            backoff = np.maximum(np.log(weight), _NEVER)
        grams.append(Grams(level.words[smooth.kept], logp[smooth.kept], backoff[smooth.kept]))
    return Estimated(
        NGramModel.of(counts.words, grams),
        tuple(discounts),
        counts.sentences,
        counts.tokens,
        tuple(int((~smooth.kept).sum()) for smooth in levels),
    )


@dataclass(frozen=True)
class _Level:
    """One order: probabilities (G,), what is left to the order below (H,), and what is kept (G,)."""

    probs: np.ndarray
    weight: np.ndarray
    kept: np.ndarray

    @classmethod
    def of(cls, level: Counted, discounts: Discounts, kept: np.ndarray, lower: _Level | None) -> _Level:
        contexts = 1 if lower is None else len(lower.probs)
        total = np.bincount(level.prefix, weights=level.adjusted, minlength=contexts)
        rest = np.where(kept, level.adjusted - discounts.off(level.adjusted), 0.0)
        taken = np.bincount(level.prefix, weights=rest, minlength=contexts)
        safe = np.where(total > 0, total, 1.0)
        weight = np.where(total > 0, np.maximum(1 - taken / safe, 0.0), 1.0)
        if lower is None:
            below = np.full(len(rest), 1 / (len(rest) - 1))  # each word, </s> and <unk>; not <s>
            below[BOS_ID] = 0.0
        else:
            below = lower.probs[level.suffix]
        return cls(rest / safe[level.prefix] + weight[level.prefix] * below, weight, kept)
