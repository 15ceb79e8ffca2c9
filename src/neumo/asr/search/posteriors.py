"""What a search goes through: the labels that are likely in each frame, and the frames that need a step.

Shapes: B utterances, T frames, V labels with the blank, S steps (frames in which a label is likely), P labels
that are likely, of all steps.
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
    blank: np.ndarray  # (S, B) probability of the blank
    rested: np.ndarray  # (S, B) whether frames with nothing but blank come before
    place: np.ndarray  # (P,) step * B + utterance of each label that is likely, rising
    label: np.ndarray  # (P,)
    prob: np.ndarray  # (P,)
    labels: int  # V

    @classmethod
    def of(cls, log_probs: np.ndarray, lengths: np.ndarray, *, least: float) -> Posteriors:
        """Prune log-probabilities (B, T, V), the blank last, of which the first `lengths` frames count."""
        batch, _, labels = log_probs.shape
        frames = np.arange(log_probs.shape[1]) < lengths[:, None]  # (B, T)
        best = np.where(frames, log_probs.max(axis=2), 0.0).astype(np.float64)
        if not np.isfinite(best).all():
            raise _no_label(log_probs, best)
        bar = np.where(frames, np.minimum(best, least), np.inf).astype(log_probs.dtype)
        likely = log_probs >= bar[:, :, None]
        if least == -np.inf:
            likely &= np.isfinite(log_probs)
        index, label = np.divmod(np.flatnonzero(likely), labels)  # of a frame of all, and of a label
        log = log_probs[likely].astype(np.float64) - best.ravel()[index]
        said = label < labels - 1
        stepped = np.zeros(best.size, dtype=bool)
        stepped[index[said]] = True
        stepped = stepped.reshape(best.shape)
        steps = stepped.sum(axis=1)
        order = np.argsort(-steps, kind="stable")
        rank = np.argsort(order)
        blank = np.full(best.size, -np.inf)
        blank[index[~said]] = log[~said]
        blank = blank.reshape(best.shape)
        silent = frames & ~stepped
        # Of each frame that is a step: its place among those of all utterances, step by step.
        places = (np.cumsum(stepped, axis=1) - 1) * batch + rank[:, None]
        shape = (int(steps.max(initial=0)), batch)
        place, prob = places.ravel()[index[said]], np.exp(log[said])
        rising = np.argsort(place, kind="stable")
        return cls(
            order=order,
            steps=steps[order],
            log_scale=(best + np.where(silent, blank, 0.0)).sum(axis=1)[order],
            blank=_laid(np.exp(blank[stepped]), places[stepped], 1.0, shape),
            rested=_laid(_rested(silent, stepped), places[stepped], False, shape),
            place=place[rising],
            label=label[said][rising],
            prob=prob[rising],
            labels=labels,
        )

    def __iter__(self) -> Iterator[Step]:
        """Yield the steps; utterances that have none left are no longer among their rows."""
        (steps, batch), labels = self.blank.shape, self.labels
        active = self.steps > np.arange(steps)[:, None]  # (S, B)
        flat = np.bincount(self.place, minlength=steps * batch)  # labels of each
        counts = flat.reshape(steps, batch)
        behind = np.cumsum(np.where(active, counts + 1, 0), axis=1)
        stays = behind - counts  # (S, B) rows within their steps: one is in front of all
        ends = np.cumsum(behind[:, -1] + 1) if batch else np.zeros(0, dtype=np.int64)
        starts = np.concatenate([[0], ends[:-1]])  # of the rows of each step
        nth = np.arange(len(self.place)) - (np.cumsum(flat) - flat)[self.place]
        row = 1 + stays.ravel()[self.place] + nth
        row_of = np.zeros((steps, batch, labels), dtype=np.int64)
        row_of.reshape(-1)[self.place * labels + self.label] = row
        prob_of = np.zeros((steps, batch, labels))
        prob_of.reshape(-1)[self.place * labels + self.label] = self.prob
        utterance = np.zeros(int(ends[-1]) if steps else 0, dtype=np.int64)
        said = np.full(len(utterance), labels - 1, dtype=np.int64)
        prob = np.zeros(len(utterance))
        step, owner = np.nonzero(active)
        at = starts[step] + stays[active]
        utterance[at], prob[at] = owner, self.blank[active]
        at = starts[self.place // max(batch, 1)] + row
        utterance[at], said[at], prob[at] = self.place % max(batch, 1), self.label, self.prob
        for n, left in enumerate(active.sum(axis=1).tolist()):
            part = slice(starts[n], ends[n])
            rested = self.rested[n, :left]
            yield Step(
                utterance=utterance[part],
                label=said[part],
                prob=prob[part],
                stay=stays[n, :left],
                prob_of=prob_of[n, :left],
                row_of=row_of[n, :left],
                rested=rested if rested.any() else None,
            )


def _laid(values: np.ndarray, places: np.ndarray, rest: float, shape: tuple[int, int]) -> np.ndarray:
    """Put the values of steps into their places (S, B)."""
    whole = np.full(shape, rest, dtype=values.dtype)
    whole.reshape(-1)[places] = values
    return whole


def _rested(silent: np.ndarray, stepped: np.ndarray) -> np.ndarray:
    """Tell of each frame that is a step whether the frame before it in its utterance is none."""
    before = np.zeros_like(silent)
    before[:, 1:] = silent[:, :-1]
    return before[stepped]


def _no_label(log_probs: np.ndarray, best: np.ndarray) -> DataError:
    utterance, frame = (int(each[0]) for each in np.nonzero(~np.isfinite(best)))
    found = "NaN" if np.isnan(log_probs[utterance, frame]).any() else f"{best[utterance, frame]}"
    return DataError(
        f"frame {frame} of utterance {utterance} of the batch has no label that is possible: "
        f"the best log-probability is {found}",
        code="no-label",
        why="The network gives numbers that are not finite.",
    )
