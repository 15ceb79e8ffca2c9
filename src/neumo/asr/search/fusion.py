"""Language models inside of a beam search (shallow fusion): of words at their ends, or of every label.

Shapes: B utterances, N hypotheses of each, R rows of candidates (see `Step`), M hypotheses in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from neumo.asr.search.lexicon import ROOT, Lexicon, Spelling
from neumo.asr.search.posteriors import Step
from neumo.asr.search.prefix import Fusion
from neumo.lm.ngram import BOS, EOS, UNK, NGramModel
from neumo.lm.text import SPACE
from neumo.types.errors import ConfigError
from neumo.types.vocab import Vocab

LMUnit = Literal["auto", "word", "label"]
LM_UNITS: Final[tuple[LMUnit, ...]] = ("auto", "word", "label")
_ROOM = 1 << 27  # bytes of the factors that are kept
_FEWEST = 1 << 12  # states, whatever the room
_MARKS = (BOS, EOS, UNK, "<UNK>")
_WORD_BONUS = 1.5
_SEEN = 17  # bits of a place: 3 MB
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LOST = -500.0  # what is as good as impossible, and still has an order
_ENOUGH = 0.5  # share of words that have to be spelled, where another case would spell more


def fuse(
    model: NGramModel,
    vocab: Vocab,
    *,
    alpha: float,
    beta: float | None = None,
    unknown: float = -30.0,
    unit: LMUnit = "auto",
    name: str = "the language model",
) -> Fusion:
    """Make what a search adds to a hypothesis: `alpha` times its log-probability, and `beta` for each unit.

    >>> from neumo.lm import estimate
    >>> model = estimate([["so", "be", "it"]], order=2).model
    >>> type(fuse(model, Vocab.english(), alpha=0.5, beta=1.0)).__name__
    'WordFusion'

    The units are those of the model: whole words, which count when they end, or the labels of the vocabulary,
    with `<space>` for the blank between words. "auto" finds out which. `beta` is 1.5 for words and 0 for
    labels if it is None. `unknown` is added to the log-probability of a word that the model does not have, as
    soon as no word of it begins like this; with -inf there is none where anything else is possible. Raises
    `ConfigError` where the labels cannot spell the words, most often because of the case.
    """
    if unit == "auto":
        unit = "label" if vocab.unit == "word" or _is_of_labels(model, vocab) else "word"
    if unit == "label":
        return LabelFusion(model, _label_numbers(model, vocab, name), alpha, 0.0 if beta is None else beta)
    spelling = Spelling(vocab.labels)
    _check_words(model, vocab, spelling, name)
    return WordFusion(model, spelling, alpha, _WORD_BONUS if beta is None else beta, unknown)


class LabelFusion:
    """A language model whose units are the labels: each label of a hypothesis is weighed at once."""

    def __init__(self, model: NGramModel, numbers: np.ndarray, alpha: float, beta: float) -> None:
        self._model, self._numbers = model, numbers
        self._alpha, self._beta = alpha, beta
        self._width = len(numbers) + 1  # labels and blank
        self._most = max(_FEWEST, _ROOM // (8 * self._width))
        self._row = np.full(model.levels[-2], -1, dtype=np.int64)  # of the table, of each state
        self._table = np.ones((256, self._width))
        self._rows = 0

    def start(self, batch: int) -> list[np.ndarray]:
        """State of the model, and the logarithm of all factors."""
        return [np.full(batch, self._model.start, dtype=np.int64), np.zeros(batch)]

    def weigh(self, state: list[np.ndarray], step: Step, candidates: np.ndarray) -> None:
        """Multiply candidates (R, N) by what labels are worth behind states (B, N)."""
        at = state[0]
        new = at[self._row[at] < 0]
        if len(new):
            new = np.unique(new)
            if self._rows + len(new) > self._most:  # forget all: what is needed soon comes back
                self._row[:] = -1
                self._rows, new = 0, np.unique(at)
            self._fill(new)
        index = (self._row[at] * self._width).take(step.utterance, axis=0) + step.label[:, None]
        candidates *= self._table.reshape(-1).take(index)

    def _fill(self, states: np.ndarray) -> None:
        rows = np.arange(self._rows, self._rows + len(states))
        while rows[-1] >= len(self._table):
            self._table = np.concatenate([self._table, np.ones_like(self._table)])
        labels = self._width - 1
        logs, _ = self._logs(np.repeat(states, labels), np.tile(self._numbers, len(states)))
        self._table[rows, :-1] = np.exp(logs.reshape(len(states), labels))
        self._row[states] = rows
        self._rows += len(states)

    def _logs(self, states: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logp, after = self._model.score_many(states, numbers)
        return self._alpha * logp + self._beta, after

    def advance(self, state: list[np.ndarray], labels: np.ndarray) -> list[np.ndarray]:
        """States behind one more label each."""
        logs, after = self._logs(state[0], self._numbers[labels])
        return [after, state[1] + logs]

    def finish(self, state: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The logarithms of all factors, and of the end of a sentence."""
        return state[1], _ending(self._model, state[0], self._alpha)


class WordFusion:
    """A language model of words: a word is weighed when it ends, one that cannot become a known one at once.

    The state has five arrays: of the model, the node of the word in the lexicon, the logarithm of all
    factors, and what ending the word would add and lead to, NaN until somebody asks.
    """

    def __init__(
        self, model: NGramModel, spelling: Spelling, alpha: float, beta: float, unknown: float
    ) -> None:
        self._model, self._alpha, self._beta = model, alpha, beta
        # -inf of no weight is nothing; and somebody may say what no word is like, so that all would be lost.
        self._loss = max(alpha * unknown, _LOST) if alpha else 0.0
        self._factors = np.array([1.0, np.exp(self._loss)])
        words = [number for number, word in enumerate(model.words) if word not in _MARKS]
        self._numbers = np.array([*words, model.unk], dtype=np.int64)  # of a word of the lexicon; -1 last
        self._lexicon = Lexicon([model.words[number] for number in words], spelling)
        self._ends = np.append(spelling.ends, False)
        # Many hypotheses end in the same words. Of two pairs that share a place the later one is kept.
        self._seen = np.full(1 << _SEEN, -1, dtype=np.int64)
        self._added = np.zeros(1 << _SEEN)
        self._after = np.zeros(1 << _SEEN, dtype=np.int64)

    def start(self, batch: int) -> list[np.ndarray]:
        """Between words, behind the beginning of a sentence."""
        states = np.full(batch, self._model.start, dtype=np.int64)
        return [
            states,
            np.full(batch, ROOT, dtype=np.int64),
            np.zeros(batch),
            np.full(batch, np.nan),
            np.zeros(batch, dtype=np.int64),
        ]

    def weigh(self, state: list[np.ndarray], step: Step, candidates: np.ndarray) -> None:
        """Multiply candidates (R, N) by what labels are worth behind states (B, N)."""
        _, node, _, ending, _ = state
        self._lexicon.prepare(node)
        if self._loss:
            loses = self._lexicon.loses(node.take(step.utterance, axis=0), step.label[:, None])
            candidates *= self._factors.take(loses)
        rows = np.flatnonzero(self._ends.take(step.label))
        if len(rows):
            utterance = step.utterance[rows]
            self._weigh_ends(state, np.unique(utterance))
            candidates[rows] *= np.exp(ending[utterance])

    def _weigh_ends(self, state: list[np.ndarray], utterances: np.ndarray) -> None:
        """Find out what the ends of words would add, where nobody has asked before."""
        at, node, _, ending, after = state
        row, column = np.nonzero(np.isnan(ending[utterances]))
        row = utterances[row]
        ending[row, column], after[row, column] = self._end(at[row, column], node[row, column])

    def _end(self, at: np.ndarray, node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the ends of words add, and the states behind them."""
        key = (at << 32) | node
        place = ((key.astype(np.uint64) * _GOLDEN) >> np.uint64(64 - _SEEN)).astype(np.int64)
        miss = np.flatnonzero(self._seen.take(place) != key)
        added, after = self._added.take(place), self._after.take(place)
        if len(miss):
            added[miss], after[miss] = self._weigh_words(at[miss], node[miss])
            slot = place[miss]
            self._seen[slot], self._added[slot], self._after[slot] = key[miss], added[miss], after[miss]
        return added, after

    def _weigh_words(self, at: np.ndarray, node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same, of the model; between two words there is nothing to weigh."""
        added, after = np.zeros(len(at)), at.copy()
        inside = np.flatnonzero(node != ROOT)
        word = self._lexicon.word[node[inside]]
        logp, after[inside] = self._model.score_many(at[inside], self._numbers[word])
        lost = (word < 0) & (node[inside] > ROOT)  # the beginning of a word, and no word
        added[inside] = self._alpha * logp + self._beta + np.where(lost, self._loss, 0.0)
        return added, after

    def advance(self, state: list[np.ndarray], labels: np.ndarray) -> list[np.ndarray]:
        """States behind one more label each."""
        at, node, log, ending, after = state
        ends = self._ends[labels]
        lost = self._lexicon.loses(node, labels)
        return [
            np.where(ends, after, at),
            self._lexicon.after(node, labels).astype(np.int64),
            log + np.where(ends, ending, 0.0) + np.where(lost, self._loss, 0.0),
            np.full(len(at), np.nan),
            np.zeros(len(at), dtype=np.int64),
        ]

    def finish(self, state: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The logarithms of all factors, and of the end of the last word and of the sentence."""
        added, after = self._end(state[0], state[1])
        return state[2], added + _ending(self._model, after, self._alpha)


def _ending(model: NGramModel, states: np.ndarray, alpha: float) -> np.ndarray:
    if model.eos < 0 or not alpha:
        return np.zeros(len(states))
    return alpha * model.score_many(states, np.full(len(states), model.eos))[0]


def _unit(label: str) -> str:
    return SPACE if label == " " else label


def _is_of_labels(model: NGramModel, vocab: Vocab) -> bool:
    units = {_unit(label) for label in vocab.labels}
    return all(word in units or word in _MARKS for word in model.words)


def _label_numbers(model: NGramModel, vocab: Vocab, name: str) -> np.ndarray:
    """The units of labels; labels that a model does not have count as unknown."""
    known = [label for label in vocab.labels if _unit(label) in model]
    if not known:
        raise ConfigError(
            f"none of the {len(vocab)} labels of {vocab} is a unit of {name}",
            code="lm-words",
            details=[f"its units are {_some(_words(model))}"],
            why=_of_case(vocab.labels, _words(model)),
            fixes=['lm_unit="word" for a model of words'],
        )
    return np.array([model.index(_unit(label)) for label in vocab.labels], dtype=np.int64)


def _check_words(model: NGramModel, vocab: Vocab, spelling: Spelling, name: str) -> None:
    if not spelling.ends.any():
        raise ConfigError(
            f"no label of {vocab} ends a word, so a model of words has nothing to weigh",
            code="lm-words",
            why="That would be a blank, or pieces that begin with ▁.",
            fixes=['lm_unit="label" for a model of labels'],
        )
    words = _words(model)
    characters = frozenset("".join(spelling.adds))
    spelled = _share(words, characters)
    cases = {
        case: _share([getattr(word, case)() for word in words], characters) for case in ("lower", "upper")
    }
    better = max(cases, key=lambda case: cases[case])
    if spelled and (spelled >= _ENOUGH or cases[better] <= spelled):
        return
    missing = sorted(set("".join(words)) - characters)
    raise ConfigError(
        f"of the {len(words):,} words of {name} the labels of {vocab} spell {spelled:.0%}",
        code="lm-words",
        details=[f"labels that are missing: {_some(missing)}", f"words: {_some(words)}"],
        why=f"In {better} case {cases[better]:.0%} of them could be spelled."
        if cases[better] > spelled
        else (),
        fixes=[f"make the model of a text in {better} case"] if cases[better] > spelled else (),
    )


def _share(words: Sequence[str], characters: frozenset[str]) -> float:
    return sum(1 for word in words if characters.issuperset(word)) / max(len(words), 1)


def _words(model: NGramModel) -> list[str]:
    return [word for word in model.words if word not in _MARKS]


def _of_case(labels: Sequence[str], words: Sequence[str]) -> str | tuple[()]:
    for case in ("lower", "upper"):
        if any(getattr(word, case)() in labels for word in words):
            return f"In {case} case they would be."
    return ()


def _some(words: Sequence[str], limit: int = 8) -> str:
    return ", ".join(map(repr, words[:limit])) + (
        f" and {len(words) - limit} more" if len(words) > limit else ""
    )
