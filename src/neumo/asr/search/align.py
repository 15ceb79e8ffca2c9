"""In which frame each label of a hypothesis was said: the best of its paths.

Shapes: B utterances, T frames, V labels with the blank last, U labels of a hypothesis, S = 2 U + 1 of them
with blanks between.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_AT_ONCE = 1 << 23  # scores that are looked at together: 64 MB


def best_frames(log_probs: np.ndarray, lengths: np.ndarray, labels: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Find the first frame of each label on the best path of each hypothesis: log_probs (B, T, V), (B,).

    >>> log_probs = np.log([[[0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.1, 0.8, 0.1]]])
    >>> best_frames(log_probs, np.array([3]), [np.array([0, 1])])[0].tolist()
    [0, 2]

    These are the frames that `GreedyCTC` gives where it finds the same hypothesis. A hypothesis that needs
    more frames than there are is not for this. Viterbi, as in Graves 2012,
    https://doi.org/10.1007/978-3-642-24797-2, section 7.5.
    """
    longest = max((len(row) for row in labels), default=0)
    if not longest:
        return [np.zeros(0, dtype=np.int64) for _ in labels]
    at_once = max(1, _AT_ONCE // (log_probs.shape[1] * (2 * longest + 1)))
    found: list[np.ndarray] = []
    for start in range(0, len(labels), at_once):
        part = slice(start, start + at_once)
        found += _align(log_probs[part], lengths[part], labels[part])
    return found


def _align(log_probs: np.ndarray, lengths: np.ndarray, labels: Sequence[np.ndarray]) -> list[np.ndarray]:
    order = np.argsort(-lengths, kind="stable")  # the longest first: those that have not ended lie together
    counts = np.array([len(labels[row]) for row in order])
    blank = log_probs.shape[2] - 1
    spread = np.full((len(order), 2 * int(counts.max()) + 1), blank, dtype=np.int64)  # (B, S)
    for row, place in zip(spread, order, strict=True):
        row[1 : 2 * len(labels[place]) : 2] = labels[place]
    scores = np.take_along_axis(log_probs[order], spread[:, None, :], axis=2).transpose(1, 0, 2)
    came, best = _go(np.ascontiguousarray(scores), spread, blank, lengths[order])
    rows = np.arange(len(order))
    last = 2 * counts  # the blank at the end, or the label before it
    at = np.where(best[rows, last] >= best[rows, np.maximum(last - 1, 0)], last, np.maximum(last - 1, 0))
    frames = np.zeros(spread.shape, dtype=np.int64)
    for t in range(len(came) - 1, -1, -1):
        frames[rows, at] = t  # going back, the first frame is written last
        at = at - came[t, rows, at]
    found = [row[1 : 2 * count : 2] for row, count in zip(frames, counts, strict=True)]
    return [found[place] for place in np.argsort(order)]


def _go(
    scores: np.ndarray, spread: np.ndarray, blank: int, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How many places back each place (T, B, S) came from, and the scores (B, S) at the ends."""
    barred = np.full(spread.shape, -np.inf)
    leaps = (spread[:, 2:] != spread[:, :-2]) & (spread[:, 2:] != blank)  # from a label to another one
    barred[:, 2:][leaps] = 0.0
    best = np.full((len(spread), spread.shape[1] + 2), -np.inf)  # with two places that nobody comes to
    best[:, 2:4] = scores[0, :, :2]
    came = np.zeros(scores.shape, dtype=np.int8)
    for t in range(1, len(scores)):
        left = int((lengths > t).sum())
        stay, step, leap = best[:left, 2:], best[:left, 1:-1], best[:left, :-2] + barred[:left]
        nearer = np.maximum(stay, step)
        came[t, :left] = np.where(leap > nearer, 2, step > stay)
        best[:left, 2:] = np.maximum(nearer, leap) + scores[t, :left]
    return came, best[:, 2:]
