"""Which words of a language model a hypothesis may still become."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import numpy as np

DEAD: Final = 0  # no word begins like this
ROOT: Final = 1  # between two words
_MARK = "▁"  # SentencePiece writes it before a piece that begins a word


class Spelling:
    """How labels spell words: which of them end the word before, and what each adds to a word.

    >>> Spelling([" ", "a", "b"]).ends.tolist(), Spelling(["▁a", "b"]).adds
    ([True, False, False], ['a', 'b'])
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.ends = np.array([label == " " or label.startswith(_MARK) for label in labels], dtype=bool)
        self.adds = [label.removeprefix(_MARK).strip(" ") for label in labels]

    def spells(self, word: str) -> bool:
        """Tell whether labels can write a word; pieces of several characters are looked at by character."""
        return all(character in self._characters for character in word)

    @property
    def _characters(self) -> frozenset[str]:
        return frozenset("".join(self.adds))


class Lexicon:
    """Follows words label by label: nodes are beginnings of words, made when a search first comes to them.

    >>> lexicon = Lexicon(["be", "bee"], Spelling([" ", "b", "e"]))
    >>> lexicon.prepare(np.array([ROOT]))
    >>> b = lexicon.after(np.array([ROOT]), np.array([1]))
    >>> lexicon.prepare(b)
    >>> lexicon.word[lexicon.after(b, np.array([2]))].tolist(), lexicon.after(b, np.array([1])).tolist()
    ([0], [0])

    `word` gives for a node the word that ends there, as its place in `words`, or -1. `loses` says for a node
    and a label whether no word is left that begins so. Most words are never near what is heard: of a lexicon
    of 200,000 words some thousand nodes are made, and the rest is a sorted list.
    """

    def __init__(self, words: Sequence[str], spelling: Spelling) -> None:
        self._order = sorted(range(len(words)), key=lambda place: words[place])
        self._words = [words[place] for place in self._order]
        self._spelling = spelling
        self._labels = len(spelling.adds) + 1  # and the blank
        self._span: list[tuple[int, int, int]] = [(0, 0, 0), (0, len(words), 0)]  # first, last, characters
        self._named: dict[tuple[int, int, int], int] = {}
        self._row = np.array([0, -1], dtype=np.int64)  # of the tables; -1 until a search comes there
        self.word = np.array([-1, -1], dtype=np.int64)
        self._rows = 1
        self._next = np.zeros((64, self._labels), dtype=np.int32)
        self._loses = np.zeros((64, self._labels), dtype=bool)
        self._begins = [self._walk(ROOT, text) for text in spelling.adds]
        self._next[0, :-1] = np.where(spelling.ends, self._begins, DEAD)
        self._loses[0, :-1] = spelling.ends & (self._next[0, :-1] == DEAD)

    def prepare(self, nodes: np.ndarray) -> None:
        """Make what `after` and `loses` need to know about nodes of any shape."""
        new = nodes[self._row[nodes] < 0]
        for node in set(new.tolist()) if len(new) else ():
            self._fill(node)

    def after(self, nodes: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The nodes behind one more label each."""
        return self._next.reshape(-1).take(self._row[nodes] * self._labels + labels)

    def loses(self, nodes: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Tell of each pair whether the label leaves the words of the lexicon."""
        return self._loses.reshape(-1).take(self._row[nodes] * self._labels + labels)

    def _fill(self, node: int) -> None:
        if self._rows == len(self._next):
            self._next, self._loses = (
                np.concatenate([table, np.zeros_like(table)]) for table in (self._next, self._loses)
            )
        row, self._rows = self._rows, self._rows + 1
        starts = set(self._continuations(node))
        for label, (adds, ends) in enumerate(
            zip(self._spelling.adds, self._spelling.ends.tolist(), strict=True)
        ):
            if ends:
                after = self._begins[label]
            elif not adds:
                after = node
            else:
                after = self._walk(node, adds) if adds[0] in starts else DEAD
            self._next[row, label] = after
            self._loses[row, label] = after == DEAD
        self._row[node] = row  # last: the tables above may have grown

    def _continuations(self, node: int) -> list[str]:
        """The characters that words go on with."""
        first, last, depth = self._span[node]
        found: list[str] = []
        while first < last:
            word = self._words[first]
            if len(word) == depth:
                first += 1
                continue
            found.append(word[depth])
            first = self._beyond(word[: depth + 1], first, last)
        return found

    def _beyond(self, prefix: str, first: int, last: int) -> int:
        """The first of some sorted words that does not begin with a prefix, which the word `first` has."""
        return bisect_left(self._words, True, first, last, key=lambda word: not word.startswith(prefix))

    def _walk(self, node: int, text: str) -> int:
        first, last, depth = self._span[node]
        if not text:
            return node
        prefix = (self._words[first][:depth] if first < last else "") + text
        low = bisect_left(self._words, prefix, first, last)
        if low == last or not self._words[low].startswith(prefix):
            return DEAD
        span = (low, self._beyond(prefix, low, last), len(prefix))
        if span not in self._named:
            self._named[span] = len(self._span)
            self._span.append(span)
            self._row = np.append(self._row, -1)
            self.word = np.append(self.word, self._order[low] if self._words[low] == prefix else -1)
        return self._named[span]
