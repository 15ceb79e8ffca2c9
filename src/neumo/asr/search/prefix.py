"""Prefix beam search for CTC over a whole batch at once.

Shapes: B utterances, N hypotheses of each, V labels with the blank, R rows of candidates (see `Step`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from neumo.asr.search.posteriors import Posteriors, Step

_AT_ONCE = 1 << 23  # probabilities that are prepared at once: 300 MB with all that is made of them
_LEAST = 1e-300  # of the best hypothesis of an utterance; what is below counts as impossible


class Fusion(Protocol):
    """What a language model adds: a factor for each label that a hypothesis may go on with.

    The state of a hypothesis is a row of some arrays, which the search carries along.
    """

    def start(self, batch: int) -> list[np.ndarray]:
        """Give the arrays (batch,) of the empty hypotheses."""
        ...

    def weigh(self, state: list[np.ndarray], step: Step, candidates: np.ndarray) -> None:
        """Multiply the candidates (R, N) of a step by what its labels are worth behind states (B, N)."""
        ...

    def advance(self, state: list[np.ndarray], labels: np.ndarray) -> list[np.ndarray]:
        """Give the state behind one more label each."""
        ...

    def finish(self, state: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Give the logarithms of all factors so far, and of those for ending here."""
        ...


@dataclass(frozen=True)
class Found:
    """What a search found in one utterance, best first: labels without blanks, and log-probabilities.

    `scores` are sums of `acoustic`, the logarithm of all paths of a hypothesis, and `lm`.
    """

    labels: list[np.ndarray]
    scores: np.ndarray
    acoustic: np.ndarray
    lm: np.ndarray


@dataclass
class _Beam:
    """The hypotheses: N for each utterance, B N in all; those without probability are none."""

    width: int
    blank: np.ndarray  # (B N,) probability of its paths that end in a blank
    label: np.ndarray  # (B N,) probability of its paths that end in its last label
    last: np.ndarray  # (B N,) its last label; the blank's id for none
    key: np.ndarray  # (B N,) a hash of utterance and labels
    parent: np.ndarray  # (B N,) the key without its last label
    node: np.ndarray  # (B N,) where its labels are written down
    state: list[np.ndarray] = field(default_factory=list)  # (B N,) each

    def arrays(self) -> list[np.ndarray]:
        return [self.blank, self.label, self.last, self.key, self.parent, self.node, *self.state]

    def first(self, rows: int) -> _Beam:
        one, two, three, four, five, six, *state = (array[:rows] for array in self.arrays())
        return _Beam(self.width, one, two, three, four, five, six, state)


class _Written:
    """Labels of all hypotheses, as a tree: each node has a label and the node before it."""

    def __init__(self, roots: int) -> None:
        self.count = roots
        self._before = [np.full(roots, -1, dtype=np.int64)]
        self._label = [np.full(roots, -1, dtype=np.int64)]

    def add(self, before: np.ndarray, label: np.ndarray) -> np.ndarray:
        nodes = np.arange(self.count, self.count + len(before))
        self.count += len(before)
        self._before.append(before)
        self._label.append(label)
        return nodes

    def read(self, nodes: np.ndarray) -> list[np.ndarray]:
        before, label = np.concatenate(self._before), np.concatenate(self._label)
        columns: list[np.ndarray] = []
        while (label[nodes] >= 0).any():
            columns.append(label[nodes])
            nodes = np.where(label[nodes] >= 0, before[nodes], nodes)
        rows = np.stack(columns[::-1], axis=1) if columns else np.zeros((len(nodes), 0), dtype=np.int64)
        return [row[row >= 0] for row in rows]


def prefix_beam_search(
    log_probs: np.ndarray,
    lengths: np.ndarray,
    *,
    beam: int = 64,
    least_label: float = -5.0,
    least_beam: float = -10.0,
    fusion: Fusion | None = None,
    n_best: int = 1,
) -> list[Found]:
    """Find the likeliest label sequences under CTC: log_probs (B, T, V), the blank last, lengths (B,).

    >>> log_probs = np.log([[[0.4, 0.0001, 0.5999], [0.4, 0.0001, 0.5999]]])
    >>> found = prefix_beam_search(log_probs, np.array([2]))[0]
    >>> found.labels[0].tolist(), round(float(np.exp(found.scores[0])), 2)
    ([0], 0.64)

    The best path has two blanks (0.36), yet the three paths of the label 0 have 0.64 together. `beam`
    hypotheses of an utterance are kept in each frame, of those at most `least_beam` (a logarithm) worse than
    the best. A label below `least_label` is impossible in a frame unless it is the best. With -inf for both
    and a beam that holds all, this is exact. Hannun et al. 2014, https://arxiv.org/abs/1408.2873.

    Each of its hypotheses begins with those of the frame before; two of them can only meet where one is the
    other and its last label. So each remembers the key of what it grew from, and where both are in the beam
    their probabilities are added: a sort of a thousand keys a frame, and no loop over hypotheses.
    """
    at_once = max(1, _AT_ONCE // max(1, log_probs.shape[1] * log_probs.shape[2]))
    if len(log_probs) > at_once:
        found: list[Found] = []
        for start in range(0, len(log_probs), at_once):
            part = slice(start, start + at_once)
            found += prefix_beam_search(
                log_probs[part],
                lengths[part],
                beam=beam,
                least_label=least_label,
                least_beam=least_beam,
                fusion=fusion,
                n_best=n_best,
            )
        return found
    batch, _, labels = log_probs.shape
    posteriors = Posteriors.of(log_probs, lengths, least=least_label)
    search = _Search(batch, labels, beam, max(float(np.exp(least_beam)), _LEAST), fusion)
    for step in posteriors:
        search.step(step)
    found = search.finish(posteriors.log_scale, n_best)
    return [found[place] for place in np.argsort(posteriors.order)]


class _Search:
    """The state of a search: the beam, what was written down, and how far each utterance was scaled."""

    def __init__(self, batch: int, labels: int, beam: int, least: float, fusion: Fusion | None) -> None:
        self.limit, self.least, self.fusion = beam, least, fusion
        self.none = labels - 1  # the blank
        rng = np.random.default_rng(20141408)  # the same keys in every search
        span = np.iinfo(np.int64)
        draw = rng.integers(span.min, span.max, size=labels + 2 * batch, dtype=np.int64)
        self.salt, roots, none = draw[:labels], draw[labels : labels + batch], draw[labels + batch :]
        self.written = _Written(batch)
        self.log_scale = np.zeros(batch)
        self.ended: list[_Beam] = []  # the last utterances first
        self.beam = _Beam(
            width=1,
            blank=np.ones(batch),
            label=np.zeros(batch),
            last=np.full(batch, labels - 1, dtype=np.int64),
            key=roots,
            parent=none,
            node=np.arange(batch),
            state=fusion.start(batch) if fusion else [],
        )
        self.pairs = (np.zeros(0, dtype=np.int64),) * 2  # rows of hypotheses, and of what they grew from

    def step(self, step: Step) -> None:
        """Go on by one frame."""
        self._retire(len(step.stay))
        beam, width, rows = self.beam, self.beam.width, len(step.stay)
        if step.rested is not None:  # a blank was between: paths that ended in a label now end in it
            moved = (beam.label.reshape(rows, width) * step.rested[:, None]).ravel()
            beam.blank, beam.label = beam.blank + moved, beam.label - moved
        total = (beam.blank + beam.label).reshape(rows, width)
        candidates = total.take(step.utterance, axis=0)
        candidates *= step.prob[:, None]
        at = beam.last + np.repeat(np.arange(rows) * step.prob_of.shape[1], width)
        again = step.prob_of.take(at)  # probability of the last label of each hypothesis
        # To say the last label once more takes a blank between.
        repeat = step.row_of.take(at) * width + np.tile(np.arange(width), rows)
        flat = candidates.reshape(-1)
        flat[repeat] = beam.blank * again
        if self.fusion is not None:
            self.fusion.weigh([each.reshape(rows, width) for each in beam.state], step, candidates)
        by_blank = candidates[step.stay].ravel()
        by_label = beam.label * again
        child, parent = self.pairs
        if len(child):  # what would grow into a hypothesis that is there already
            meets = repeat[child] + (parent - child)
            by_label[child] += flat[meets]
            flat[meets] = 0.0
        candidates[step.stay] = (by_blank + by_label).reshape(rows, width)
        self._select(step, candidates, by_blank, by_label)

    def _select(self, step: Step, candidates: np.ndarray, by_blank: np.ndarray, by_label: np.ndarray) -> None:
        """Keep the best candidates of each utterance as its hypotheses."""
        beam, rows, width = self.beam, len(step.stay), candidates.shape[1]
        best = np.maximum.reduceat(candidates.max(axis=1), step.stay)
        floor = best * self.least
        if width == self.limit:  # as many are at least as good as the worst that stays
            np.maximum(floor, candidates[step.stay].min(axis=1), out=floor)
        index = np.flatnonzero(candidates >= floor.take(step.utterance)[:, None])
        row = index // width
        utterance = step.utterance.take(row)
        counts = np.bincount(utterance, minlength=rows)
        if counts.max() > self.limit:
            kept, counts = self._best(candidates.reshape(-1).take(index), utterance, counts)
            index, row, utterance = index[kept], row[kept], utterance[kept]
        source = index + (utterance - row) * width  # utterance * width + place
        label_of = step.label.take(row)
        grown = np.flatnonzero(label_of != self.none)
        scale = 1.0 / best
        self.log_scale[:rows] += np.log(best)
        scale = scale.take(utterance)
        arrays = [array.take(source) for array in beam.arrays()[2:]]
        blank, label = by_blank.take(source), by_label.take(source)
        blank[grown] = 0.0
        label[grown] = candidates.reshape(-1).take(index[grown])
        last, key, parent, node, *state = arrays
        said = label_of[grown]
        last[grown] = said
        before = key[grown]
        parent[grown] = before
        mixed = (before ^ self.salt[said]) * 0x2545F4914F6CDD1D
        key[grown] = mixed ^ (mixed >> 29)
        node[grown] = self.written.add(node[grown], said)
        if self.fusion is not None:
            for array, values in zip(
                state, self.fusion.advance([s[grown] for s in state], said), strict=True
            ):
                array[grown] = values
        self._settle([blank * scale, label * scale, *arrays], utterance, counts)

    def _best(
        self, values: np.ndarray, utterance: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tell the best candidates of each utterance, of equal ones the first, and how many they are."""
        rows, most = len(counts), int(counts.max())
        first = np.cumsum(counts) - counts
        place = np.arange(len(values)) + (np.arange(rows) * most - first).take(utterance)
        laid = np.zeros(rows * most)
        laid[place] = values
        laid = laid.reshape(rows, most)
        laid.partition(most - self.limit, axis=1)
        kept = np.flatnonzero(values >= laid[:, most - self.limit].take(utterance))
        counts = np.bincount(utterance[kept], minlength=rows)
        if counts.max() > self.limit:
            nth = np.arange(len(kept)) - (np.cumsum(counts) - counts).take(utterance[kept])
            kept, counts = kept[nth < self.limit], np.minimum(counts, self.limit)
        return kept, counts

    def _settle(self, arrays: list[np.ndarray], utterance: np.ndarray, counts: np.ndarray) -> None:
        """Lay hypotheses out in rows of equal width, and find those that grew from one another."""
        width = int(counts.max())
        one, two = _pairs(arrays[3], arrays[4])
        if counts.min() < width:
            starts = np.cumsum(counts) - counts
            place = np.arange(len(utterance)) + (np.arange(len(counts)) * width - starts).take(utterance)
            padded: list[np.ndarray] = []
            for array in arrays:
                wide = np.zeros(len(counts) * width, dtype=array.dtype)
                wide[place] = array
                padded.append(wide)
            arrays, one, two = padded, place[one], place[two]
        blank, label, last, key, parent, node, *state = arrays
        self.beam = _Beam(width, blank, label, last, key, parent, node, state)
        self.pairs = one, two

    def _retire(self, left: int) -> None:
        """Put the utterances aside that have no frame left: the last rows."""
        beam = self.beam
        rows = len(beam.blank) // beam.width
        for row in range(rows - 1, left - 1, -1):
            part = slice(row * beam.width, (row + 1) * beam.width)
            blank, label, last, key, parent, node, *state = (array[part] for array in beam.arrays())
            self.ended.append(_Beam(beam.width, blank, label, last, key, parent, node, state))
        if left < rows:
            self.beam = beam.first(left * beam.width)
            child, parent = self.pairs
            inside = child < left * beam.width
            self.pairs = child[inside], parent[inside]

    def finish(self, log_scale: np.ndarray, n_best: int) -> list[Found]:
        """Read the hypotheses of each utterance."""
        self._retire(0)
        beams = self.ended[::-1]
        with np.errstate(divide="ignore"):
            logs = [np.log(beam.blank + beam.label) for beam in beams]
        chosen: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        nodes: list[np.ndarray] = []
        for row, (beam, log) in enumerate(zip(beams, logs, strict=True)):
            log = log + (self.log_scale[row] + log_scale[row])
            lm = ending = np.zeros_like(log)
            if self.fusion is not None:
                lm, ending = self.fusion.finish(beam.state)
            total = log + ending
            order = np.argsort(-total, kind="stable")
            order = order[np.isfinite(total[order])][:n_best]
            chosen.append((total[order], (log - lm)[order], (lm + ending)[order]))
            nodes.append(beam.node[order])
        rows = iter(self.written.read(np.concatenate(nodes)) if nodes else ())
        return [Found([next(rows) for _ in scores], scores, *parts) for scores, *parts in chosen]


def _pairs(key: np.ndarray, parent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose parent is among the keys, and the rows of these; faster than comparing all with all."""
    by_key, by_parent = np.argsort(key), np.argsort(parent)
    keys, parents = key[by_key], parent[by_parent]
    place = np.searchsorted(keys, parents)
    place[place == len(keys)] = 0
    hit = keys[place] == parents
    return by_parent[hit], by_key[place[hit]]
