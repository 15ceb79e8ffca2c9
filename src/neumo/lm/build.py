"""Lays the n-grams of a model out as a tree: a node for each, below that of the words before its last one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neumo.lm.ngram import ROOT, Grams, NGramModel
from neumo.lm.table import IntTable

_MOST_NODES = 2**31 - 1  # nodes are int32


def build(words: Sequence[str], grams: Sequence[Grams]) -> NGramModel:
    """Make the model of n-grams, those of order 1 first; see `NGramModel.of`."""
    grams = _complete(words, grams)
    levels = np.cumsum([1, *(len(level) for level in grams)])
    assert levels[-1] <= _MOST_NODES, "more n-grams than an int32 counts"
    tree = _Tree(len(words), int(levels[-1]))
    for start, level in zip(levels[:-1].tolist(), grams, strict=True):
        tree.add(start, level)
    children = tree.table(int(levels[1]))
    model = NGramModel(
        tuple(words),
        tuple(levels.tolist()),
        tree.logp,
        tree.backoff,
        tree.suffix,
        tree.parent,
        tree.last,
        children,
    )
    _fill_in(model, tree)
    return model


class _Tree:
    """The arrays of a model while it grows from low orders to high ones."""

    def __init__(self, words: int, nodes: int) -> None:
        self.words, self.nodes = words, nodes
        self.logp, self.backoff = np.zeros(nodes), np.zeros(nodes)
        self.suffix = np.zeros(nodes, dtype=np.int32)
        self.parent = np.zeros(nodes, dtype=np.int32)
        self.last = np.zeros(nodes, dtype=np.int32)
        self._tables: list[IntTable] = []  # one an order from the second on, until all are joined

    def add(self, start: int, level: Grams) -> None:
        rows = slice(start, start + len(level))
        self.logp[rows], self.backoff[rows] = level.logp, level.backoff
        if level.order == 1:
            self.last[rows] = level.words[:, 0]
            return
        parent = self.walk(level.words[:, :-1])
        last = level.words[:, -1].astype(np.int64)
        self.parent[rows], self.last[rows] = parent, last
        self.suffix[rows] = self._suffixes(self.suffix[parent].astype(np.int64), last)
        self._tables.append(IntTable(parent * self.words + last, np.arange(start, start + len(level))))

    def walk(self, words: np.ndarray) -> np.ndarray:
        """Nodes of n-grams (G, n), -1 where there is none."""
        node = words[:, 0].astype(np.int64) + 1
        for column in range(1, words.shape[1]):
            node = np.where(node < 0, -1, self._find(np.maximum(node, 0), words[:, column], column - 1))
        return node

    def _find(self, nodes: np.ndarray, words: np.ndarray, table: int) -> np.ndarray:
        if table >= len(self._tables):
            return np.full(len(nodes), -1, dtype=np.int64)
        return self._tables[table].find(nodes * self.words + words)

    def _suffixes(self, above: np.ndarray, last: np.ndarray) -> np.ndarray:
        """The longest ends that are there: one word more than ends of the words before."""
        found = np.zeros(len(above), dtype=np.int64)
        left = np.arange(len(above))
        while len(left):
            node = np.where(above == ROOT, last + 1, -1)
            for table in self._tables:
                node = np.where(node < 0, table.find(above * self.words + last), node)
            found[left] = np.maximum(node, 0)
            miss = node < 0
            left, above, last = left[miss], self.suffix[above[miss]].astype(np.int64), last[miss]
        return found

    def table(self, first: int) -> IntTable:
        """The children of all nodes but the root, in one table."""
        nodes = np.arange(first, self.nodes)
        self._tables.clear()
        return IntTable(self.parent[first:].astype(np.int64) * self.words + self.last[first:], nodes)


def _complete(words: Sequence[str], grams: Sequence[Grams]) -> list[Grams]:
    """Add n-grams that are only the beginning of others; their probability is NaN until all are there."""
    complete = list(grams)
    for order in range(len(complete), 2, -1):
        wanted, there = complete[order - 1].words[:, :-1], complete[order - 2]
        missing = _missing(wanted, there.words, len(words))
        if len(missing):
            complete[order - 2] = Grams(
                np.concatenate([there.words, missing]),
                np.concatenate([there.logp, np.full(len(missing), np.nan)]),
                np.concatenate([there.backoff, np.zeros(len(missing))]),
            )
    return complete


def _missing(wanted: np.ndarray, there: np.ndarray, words: int) -> np.ndarray:
    """The rows that are wanted and not there, each once."""
    both = np.concatenate([there, wanted]).astype(np.int64)
    code = both[:, 0]
    for column in range(1, both.shape[1]):
        _, code = np.unique(code * words + both[:, column], return_inverse=True)
    known, asked = code[: len(there)], code[len(there) :]
    new, first = np.unique(asked, return_index=True)
    return wanted[first[~np.isin(new, known)]]


def _fill_in(model: NGramModel, tree: _Tree) -> None:
    """Give n-grams that were not listed what backing off gives them, those of low orders first."""
    for order in range(2, model.order):
        nodes = np.arange(model.levels[order - 1], model.levels[order])
        nodes = nodes[np.isnan(tree.logp[nodes])]
        if len(nodes):
            parent = tree.parent[nodes]
            shorter, _ = model.score_many(tree.suffix[parent], tree.last[nodes])
            tree.logp[nodes] = tree.backoff[parent] + shorter
