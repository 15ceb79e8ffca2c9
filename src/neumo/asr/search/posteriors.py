"""What a search goes through: the labels that are likely in each frame, and the frames that need a step.

Shapes: B utterances, T frames, V labels with the blank, S steps (frames in which a label is likely).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from neumo.types.errors import DataError


class Step(NamedTuple):
    """One frame of each utterance that has one left, the longest utterances first.

    What a hypothesis may do is a row of candidates: to stay as it is, by a blank, or to say a label. Rows lie
    together by utterance, that to stay before those of its labels, and there is one in front for what is
    impossible; R are all.
    """

    utterance: np.ndarray  # (R,) whose row it is
    label: np.ndarray  # (R,) which label it says, the blank for none
    prob: np.ndarray  # (R,) how probable that is
    stay: np.ndarray  # (B,) the row to stay of each utterance
    prob_of: np.ndarray  # (B, V) 0 for what is pruned and for the blank
    row_of: np.ndarray  # (B, V) the row of a label; 0, the impossible one, for what is pruned and the blank
    rested: np.ndarray | None  # (B,) whether frames with nothing but blank come before; None: nowhere


@dataclass(frozen=True)
class Posteriors:
    """The probabilities of a batch, pruned, without the frames in which only the blank is likely.

    >>> log_probs = np.log([[[0.5, 0.3, 0.2], [0.001, 0.001, 0.998], [0.6, 0.001, 0.399]]])
    >>> posteriors = Posteriors.of(log_probs, np.array([3]), least=-5.0)
    >>> posteriors.steps.tolist(), [step.label.tolist() for step in posteriors]
    ([2], [[2, 2, 0, 1], [2, 2, 0]])

    A label is impossible in a frame where its log-probability is below `least`, unless it is the best one;
    the search is exact for what remains. In a frame with nothing but blank no hypothesis changes, so its
    probability is one for all, kept in `log_scale`, and no step is needed: in most models these are two
    thirds of the frames. Each frame is divided by its best label, as probabilities of long utterances are
    smaller than any float.
    """

    order: np.ndarray  # (B,) utterances, those with most steps first: every array below is in this order
    steps: np.ndarray  # (B,) how many steps each has
    log_scale: np.ndarray  # (B,) logarithm of what all hypotheses of an utterance were divided by
    probs: np.ndarray  # (B, S, V)
    kept: np.ndarray  # (B, S, V) bool: labels that are likely, without the blank
    blank: np.ndarray  # (B, S)
    rested: np.ndarray  # (B, S) bool

    @classmethod
    def of(cls, log_probs: np.ndarray, lengths: np.ndarray, *, least: float) -> Posteriors:
        """Prune log-probabilities (B, T, V), the blank last, of which the first `lengths` frames count."""
        frames = np.arange(log_probs.shape[1]) < lengths[:, None]  # (B, T)
        logs = np.where(frames[:, :, None], log_probs, 0.0).astype(np.float64)
        best = logs.max(axis=2, initial=-np.inf)
        if not np.isfinite(best).all():
            raise _no_label(log_probs, best)
        likely = (logs >= np.minimum(best, least)[:, :, None]) & np.isfinite(logs)
        likely &= frames[:, :, None]
        stepped = likely[:, :, :-1].any(axis=2)  # (B, T)
        silent = frames & ~stepped
        steps = stepped.sum(axis=1)
        order = np.argsort(-steps, kind="stable")
        place = np.argsort(~stepped[order], axis=1, kind="stable")[:, : int(steps.max(initial=0))]  # (B, S)
        logs, likely, best = (_chosen(array[order], place) for array in (logs, likely, best))
        with np.errstate(under="ignore", invalid="ignore"):
            probs = np.where(likely, np.exp(logs - best[:, :, None]), 0.0)
        inside = np.arange(place.shape[1]) < steps[order][:, None]
        rests = np.cumsum(silent, axis=1)[order]
        rests = np.take_along_axis(rests, place, axis=1)  # silent frames so far, at each step
        rested = np.diff(rests, axis=1, prepend=0) > 0
        return cls(
            order=order,
            steps=steps[order],
            log_scale=_scale(log_probs, silent, order) + np.where(inside, best, 0.0).sum(axis=1),
            probs=np.where(inside[:, :, None], probs, 0.0),
            kept=likely[:, :, :-1] & inside[:, :, None],
            blank=np.where(inside, probs[:, :, -1], 1.0),
            rested=rested & inside,
        )

    def __iter__(self) -> Iterator[Step]:
        """Yield the steps; utterances that have none left are no longer among their rows."""
        kept = np.ascontiguousarray(self.kept.transpose(1, 0, 2))  # a step lies together: (S, B, V)
        probs = np.ascontiguousarray(self.probs.transpose(1, 0, 2))
        probs[:, :, -1] = 0.0
        steps, batch, labels = kept.shape
        active = self.steps > np.arange(steps)[:, None]  # (S, B)
        counts = kept.sum(axis=2)
        behind = np.cumsum(np.where(active, counts + 1, 0), axis=1)
        ends = np.cumsum(behind[:, -1] + 1) if batch else np.zeros(0, dtype=np.int64)
        starts = np.concatenate([[0], ends[:-1]])  # of the rows of each step
        stays = 1 + behind - counts - 1  # (S, B) rows within their steps
        row, label = np.divmod(np.flatnonzero(kept), max(labels, 1))  # of each label: step and utterance
        flat = counts.ravel()
        place = 1 + stays.ravel()[row] + np.arange(len(row)) - (np.cumsum(flat) - flat)[row]
        row_of = np.zeros((steps, batch, labels + 1), dtype=np.int64)
        row_of.reshape(-1)[row * (labels + 1) + label] = place
        utterance = np.zeros(int(ends[-1]) if steps else 0, dtype=np.int64)
        said = np.full(len(utterance), labels, dtype=np.int64)
        prob = np.zeros(len(utterance))
        step, owner = np.nonzero(active)
        at = starts[step] + stays[active]
        utterance[at], prob[at] = owner, self.blank.T[active]
        at = starts[row // max(batch, 1)] + place
        utterance[at], said[at], prob[at] = row % max(batch, 1), label, probs[:, :, :-1][kept]
        for n, left in enumerate(active.sum(axis=1).tolist()):
            part = slice(starts[n], ends[n])
            rested = self.rested[:left, n]
            yield Step(
                utterance=utterance[part],
                label=said[part],
                prob=prob[part],
                stay=stays[n, :left],
                prob_of=probs[n, :left],
                row_of=row_of[n, :left],
                rested=rested if rested.any() else None,
            )


def _no_label(log_probs: np.ndarray, best: np.ndarray) -> DataError:
    utterance, frame = (int(each[0]) for each in np.nonzero(~np.isfinite(best)))
    found = "NaN" if np.isnan(log_probs[utterance, frame]).any() else f"{best[utterance, frame]}"
    return DataError(
        f"frame {frame} of utterance {utterance} of the batch has no label that is possible: "
        f"the best log-probability is {found}",
        code="no-label",
        why="The network gives numbers that are not finite.",
    )


def _chosen(array: np.ndarray, place: np.ndarray) -> np.ndarray:
    """(B, T, ...) and frames (B, S) -> (B, S, ...)."""
    return array[np.arange(len(array))[:, None], place]


def _scale(log_probs: np.ndarray, silent: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The log-probability of the frames in which only the blank is likely, for each utterance."""
    return np.where(silent, log_probs[:, :, -1], 0.0).sum(axis=1, dtype=np.float64)[order]
