"""Prefix beam search for CTC over a whole batch at once.

Shapes: B utterances, N hypotheses of each, K labels of a frame, V labels with the blank. R is B times N.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from neumo.asr.search.posteriors import DUMP, FIRST, STAY, Posteriors, Step

_AT_ONCE = 1 << 23  # probabilities that are prepared at once: 300 MB with all that is made of them
_LEAST = 1e-300  # of the best hypothesis of an utterance; what is below counts as impossible


class Fusion(Protocol):
    """What a language model adds: a factor for each label that a hypothesis may go on with.

    The state of a hypothesis is a row of some arrays, which the search carries along.
    """

    def start(self, batch: int) -> list[np.ndarray]:
        """Give the arrays (batch,) of the empty hypotheses."""
        ...

    def weigh(self, state: list[np.ndarray], labels: np.ndarray, candidates: np.ndarray) -> None:
        """Multiply candidates (B, K, N) by the factors of labels (B, K) behind hypotheses (B, N)."""
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
    """The hypotheses: R rows, N for each utterance; rows without probability are no hypotheses."""

    width: int
    blank: np.ndarray  # (R,) probability of its paths that end in a blank
    label: np.ndarray  # (R,) probability of its paths that end in its last label
    last: np.ndarray  # (R,) its last label; the blank's id for none
    key: np.ndarray  # (R,) a hash of utterance and labels
    parent: np.ndarray  # (R,) the key without its last label
    node: np.ndarray  # (R,) where its labels are written down
    state: list[np.ndarray] = field(default_factory=list)  # (R,) each

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
        self.tables: dict[tuple[int, int, int], np.ndarray] = {}

    def step(self, step: Step) -> None:
        """Go on by one frame."""
        self._retire(len(step.blank))
        beam, width = self.beam, self.beam.width
        rows, labels = step.labels.shape
        if step.rested is not None:  # a blank was between: paths that ended in a label now end in it
            moved = (beam.label.reshape(rows, width) * step.rested[:, None]).ravel()
            beam.blank, beam.label = beam.blank + moved, beam.label - moved
        total = beam.blank + beam.label
        at = beam.last + np.repeat(np.arange(0, rows * step.probs_of.shape[1], step.probs_of.shape[1]), width)
        again = step.probs_of.take(at)  # probability of the last label of each hypothesis
        candidates = np.empty((rows, labels + FIRST, width))
        new = candidates[:, FIRST:]
        np.multiply(total.reshape(rows, 1, width), step.probs[:, :, None], out=new)
        # To say the last label once more takes a blank between.
        repeat = step.row_of.take(at) * width + self._corners(rows, labels, width)
        flat = candidates.reshape(-1)
        flat[repeat] = beam.blank * again
        if self.fusion is not None and labels:
            self.fusion.weigh([each.reshape(rows, width) for each in beam.state], step.labels, new)
        candidates[:, DUMP] = 0.0
        by_blank = (total.reshape(rows, width) * step.blank[:, None]).ravel()
        by_label = beam.label * again
        child, parent = self.pairs
        if len(child):  # what would grow into a hypothesis that is there already
            meets = repeat[child] + (parent - child)
            by_label[child] += flat[meets]
            flat[meets] = 0.0
        np.add(by_blank, by_label, out=(stay := np.empty(rows * width)))
        candidates[:, STAY] = stay.reshape(rows, width)
        self._select(step, candidates, by_blank, by_label)

    def _corners(self, rows: int, labels: int, width: int) -> np.ndarray:
        """Flat index of the first candidate of each hypothesis."""
        known = self.tables.get((rows, labels, width))
        if known is None:
            starts = np.arange(rows) * ((labels + FIRST) * width)
            known = self.tables[rows, labels, width] = (starts[:, None] + np.arange(width)).ravel()
        return known

    def _select(self, step: Step, candidates: np.ndarray, by_blank: np.ndarray, by_label: np.ndarray) -> None:
        """Keep the best candidates of each utterance as its hypotheses."""
        beam, (rows, kinds, width) = self.beam, candidates.shape
        each = candidates.reshape(rows, -1)
        best = each.max(axis=1)
        floor = best * self.least
        if width == self.limit:  # as many are at least as good as the worst that stays
            np.maximum(floor, candidates[:, STAY].min(axis=1), out=floor)
        kept = each >= floor[:, None]
        index = np.flatnonzero(kept)
        counts = kept.sum(axis=1)
        if counts.max() > self.limit:
            index, counts = self._best(each.reshape(-1), index, counts)
        upper = index // width
        utterance = upper // kinds
        kind = upper - utterance * kinds
        source = index - (upper - utterance) * width  # utterance * width + place
        grown = np.flatnonzero(kind >= FIRST)
        scale = 1.0 / best
        self.log_scale[:rows] += np.log(best)
        scale = scale.take(utterance)
        arrays = [array.take(source) for array in beam.arrays()[2:]]
        blank, label = by_blank.take(source), by_label.take(source)
        blank[grown] = 0.0
        label[grown] = candidates.reshape(-1).take(index[grown])
        last, key, parent, node, *state = arrays
        said = step.labels[utterance[grown], kind[grown] - FIRST]
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
        self, values: np.ndarray, index: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Reduce each utterance to its best candidates; of equal ones at the bar to the first."""
        rows, most = len(counts), int(counts.max())
        row = np.repeat(np.arange(rows), counts)
        place = np.arange(len(index)) + (np.arange(rows) * most - (np.cumsum(counts) - counts)).take(row)
        laid = np.zeros(rows * most)
        laid[place] = left = values.take(index)
        laid = laid.reshape(rows, most)
        laid.partition(most - self.limit, axis=1)
        kept = left >= laid[:, most - self.limit].take(row)
        index, row = index[kept], row[kept]
        counts = np.bincount(row, minlength=rows)
        if counts.max() > self.limit:
            nth = np.arange(len(index)) - (np.cumsum(counts) - counts).take(row)
            index, counts = index[nth < self.limit], np.minimum(counts, self.limit)
        return index, counts

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
