"""N-gram language models in arrays: the probability of a word behind the words before it.

Shapes: M pairs of a state and a word, W words, G n-grams of an order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from neumo.lm.table import IntTable
from neumo.types.errors import ConfigError

BOS: Final = "<s>"
EOS: Final = "</s>"
UNK: Final = "<unk>"
ROOT: Final = 0  # the state that knows no word before
IMPOSSIBLE: Final = -100 * float(np.log(10))  # of an unknown word, where a model has no <unk>: 1e-100


@dataclass(frozen=True)
class Grams:
    """The n-grams of one order: words (G, n) by number, natural logarithms of probabilities and of back-off.

    >>> Grams(np.array([[0, 1]]), np.array([-0.5]), np.array([0.0])).order
    2
    """

    words: np.ndarray
    logp: np.ndarray
    backoff: np.ndarray

    @property
    def order(self) -> int:
        """How many words each has."""
        return self.words.shape[1]

    def __len__(self) -> int:
        return len(self.words)


class NGramModel:
    """Gives log-probabilities of words by the last words before them, backing off to fewer.

    >>> model = NGramModel.of(["<unk>", "<s>", "</s>", "yes"], [
    ...     Grams(np.array([[0], [1], [2], [3]]), np.log([0.1, 1e-99, 0.5, 0.4]), np.log([1, 0.5, 1, 1])),
    ...     Grams(np.array([[1, 3]]), np.log([0.8]), np.zeros(1)),
    ... ])
    >>> logp, state = model.score(model.start, "yes")
    >>> round(float(np.exp(logp)), 3), round(float(np.exp(model.score(model.start, "</s>")[0])), 3)
    (0.8, 0.25)

    A state is a number: the longest end of the words so far that the model knows. It starts with `start`
    (behind `<s>`) or `ROOT` (behind nothing known). Logarithms are natural. A word that the model does not
    have counts as `<unk>`; where there is no `<unk>` either, its probability is 1e-100.

    Read one with `read_arpa`, estimate one with `estimate`.
    """

    def __init__(
        self,
        words: tuple[str, ...],
        levels: tuple[int, ...],
        logp: np.ndarray,
        backoff: np.ndarray,
        suffix: np.ndarray,
        parent: np.ndarray,
        last: np.ndarray,
        children: IntTable,
    ) -> None:
        self.words = words
        self.levels = levels  # nodes up to and with each order, the root first: a node's order shows in it
        self._index = {word: number for number, word in enumerate(words)}
        self._logp, self._backoff, self._suffix = logp, backoff, suffix
        self._parent, self._last = parent, last
        self._children = children
        self.unk = self._index.get(UNK, self._index.get("<UNK>", -1))
        self.eos = self._index.get(EOS, -1)
        bos = self._index.get(BOS, -1)
        self.start = ROOT if bos < 0 else self._shortened(np.array([bos + 1])).item()

    @classmethod
    def of(cls, words: Sequence[str], grams: Sequence[Grams]) -> NGramModel:
        """Build a model of n-grams, those of order 1 first, which are all `words` in their order.

        N-grams may come in any order, each once. Where the words before the last one are no n-gram
        themselves, they become one, with the probability that backing off gives them.
        """
        from neumo.lm.build import build

        return build(words, grams)

    @property
    def order(self) -> int:
        """The most words of an n-gram."""
        return len(self.levels) - 1

    @property
    def counts(self) -> tuple[int, ...]:
        """How many n-grams there are of each order."""
        return tuple(int(count) for count in np.diff(self.levels))

    @property
    def nbytes(self) -> int:
        """The memory of the arrays, in bytes; words take some 100 bytes each on top."""
        arrays = (self._logp, self._backoff, self._suffix, self._parent, self._last)
        return sum(array.nbytes for array in arrays) + self._children.nbytes

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,}" for count in self.counts)
        return f"NGramModel(order {self.order}: {counts}; {self.nbytes / 2**20:.1f} MiB)"

    def __contains__(self, word: object) -> bool:
        return word in self._index

    def index(self, word: str) -> int:
        """Look the number of a word up: that of `<unk>` if it has none, -1 without `<unk>`."""
        return self._index.get(word, self.unk)

    def score(self, state: int, word: str) -> tuple[float, int]:
        """Give the log-probability of one word behind a state, and the state behind it."""
        logp, states = self.score_many(np.array([state]), np.array([self.index(word)]))
        return float(logp[0]), int(states[0])

    def score_many(self, states: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give log-probabilities (M,) of words (M,) by number behind states (M,), and the states behind them.

        A number of -1 is an unknown word without `<unk>`.
        """
        states, words = np.asarray(states, dtype=np.int64), np.asarray(words, dtype=np.int64)
        logp = np.zeros(len(states))
        found = np.full(len(states), ROOT, dtype=np.int64)
        left, at, word = np.arange(len(states)), states, words
        while len(left):
            node = self._child(at, word)
            miss = (node < 0) & (at != ROOT)
            hit = ~miss
            logp[left[hit]] += np.where(node[hit] < 0, IMPOSSIBLE, self._logp[node[hit]])
            found[left[hit]] = np.maximum(node[hit], ROOT)
            left, at, word = left[miss], at[miss], word[miss]
            logp[left] += self._backoff[at]
            at = self._suffix[at].astype(np.int64)
        return logp, self._shortened(found)

    def _shortened(self, nodes: np.ndarray) -> np.ndarray:
        """States behind n-grams: of the highest order only the last words tell what follows."""
        return np.where(nodes >= self.levels[-2], self._suffix[nodes], nodes)

    def _child(self, nodes: np.ndarray, words: np.ndarray) -> np.ndarray:
        """The n-gram of one more word, -1 if there is none; behind the root all words are there."""
        keys = nodes * len(self.words) + words
        unknown = words < 0
        found = np.where(nodes == ROOT, words + 1, self._children.find(np.where(unknown, 0, keys)))
        return np.where(unknown, -1, found)

    def sentence(self, words: Iterable[str], *, bos: bool = True, eos: bool = True) -> np.ndarray:
        """Give the log-probability of each word of a sentence, and of its end: (words + 1,).

        >>> unigrams = Grams(np.arange(3)[:, None], np.log([0.5, 1e-99, 0.5]), np.zeros(3))
        >>> model = NGramModel.of(["<unk>", "<s>", "</s>"], [unigrams])
        >>> np.exp(model.sentence(["no", "way"])).round(2).tolist()
        [0.5, 0.5, 0.5]
        """
        state, scores = self.start if bos else ROOT, list[float]()
        for word in (*words, EOS) if eos else words:
            logp, state = self.score(state, word)
            scores.append(logp)
        return np.array(scores)

    def grams(self, order: int) -> Grams:
        """Give the n-grams of an order, from 1 to the model's own."""
        if not 1 <= order <= self.order:
            raise ConfigError(f"a model of order {self.order} has no {order}-grams", code="field")
        nodes = np.arange(self.levels[order - 1], self.levels[order])
        columns: list[np.ndarray] = []
        at = nodes
        for _ in range(order):
            columns.append(self._last[at])
            at = self._parent[at]
        words = np.stack(columns[::-1], axis=1)
        return Grams(words, self._logp[nodes], self._backoff[nodes])
