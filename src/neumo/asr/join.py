"""Putting together what was heard in chunks that overlap: no label is lost, and none is there twice."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from neumo.asr.word_times import Span

__all__ = ["Heard", "Joiner"]


@dataclass(frozen=True)
class Heard:
    """The labels of one stretch of a recording, each with its span in frames of the recording."""

    ids: list[int]
    spans: list[Span]


@dataclass
class Joiner:
    """Takes the labels of one chunk after the other, and joins those that both sides of a seam have heard.

    >>> joiner = Joiner(tolerance=2)
    >>> joiner.add(Heard([1, 2, 3], [Span(n, n, 0.0) for n in (10, 50, 90)]), 0, 100)
    >>> joiner.add(Heard([2, 3, 4], [Span(n, n, 0.0) for n in (51, 90, 120)]), 40, 140)
    >>> [section.ids for section in joiner.sections]
    [[1, 2, 3, 4]]

    In the overlap both chunks have heard the same sound, so the same label at the same time, give or take
    `tolerance` frames, is one label. The seam goes through such a one, where the agreement is longest and
    then nearest to the middle: near its edges a chunk knows too little of what comes before or behind. Where
    nothing agrees, as in a pause, the seam goes through the widest gap in the labels of both; words end
    there, and a new section begins.
    """

    tolerance: int
    sections: list[Heard] = field(default_factory=list[Heard])
    _end: int = 0  # of the chunk before, in frames

    def add(self, heard: Heard, start: int, end: int) -> None:
        """Add the labels of a chunk from frame `start` up to `end`; chunks come in order of time."""
        before = self.sections[-1] if self.sections else None
        if before is None or start >= self._end:
            rest = heard
        elif (pair := _seam(before, heard, (start, self._end), self.tolerance)) is not None:
            _extend(before, heard, *pair)
            rest = Heard([], [])
        else:
            late = before.spans[_first_from(before.spans, start) :]
            seam = _widest_gap([*late, *heard.spans], start, self._end)
            _cut(before, seam)
            rest = _since(heard, seam)
            if not before.ids:
                self.sections.pop()
        if rest.ids:
            self.sections.append(Heard(list(rest.ids), list(rest.spans)))
        self._end = max(end, self._end)


def _seam(left: Heard, right: Heard, overlap: tuple[int, int], tolerance: int) -> tuple[int, int] | None:
    """The places of the label that both have heard, where the seam goes through; None if there is none."""
    begin, stop = overlap
    pairs = list(_pairs(left, right, begin - tolerance, stop + tolerance, tolerance))
    agreed = set(pairs)

    def worth(pair: tuple[int, int]) -> tuple[int, int]:
        i, j = pair
        run = sum((i + n, j + n) in agreed for n in range(-2, 3))
        return run, -abs(2 * left.spans[i].first - begin - stop)

    return max(pairs, key=worth, default=None)


def _pairs(left: Heard, right: Heard, begin: int, stop: int, tolerance: int) -> Iterator[tuple[int, int]]:
    late = range(_first_from(left.spans, begin), len(left.spans))
    for j, span in enumerate(right.spans):
        if span.first >= stop:
            return
        for i in late:
            if left.ids[i] == right.ids[j] and abs(left.spans[i].first - span.first) <= tolerance:
                yield i, j


def _first_from(spans: list[Span], frame: int) -> int:
    """The place of the first span that begins in this frame or later."""
    return bisect_left(spans, frame, key=lambda span: span.first)


def _extend(left: Heard, right: Heard, i: int, j: int) -> None:
    """Keep the left labels up to place i, and put the right ones behind place j, which are the same label."""
    here = left.spans[i]
    following = right.spans[j + 1].first if j + 1 < len(right.spans) else here.last
    first = min(here.first, following)
    left.ids[i + 1 :] = right.ids[j + 1 :]
    left.spans[i:] = [
        Span(first, max(first, min(here.last, following)), here.log_prob),
        *right.spans[j + 1 :],
    ]


def _widest_gap(spans: list[Span], begin: int, stop: int) -> int:
    """The middle of the widest stretch of the overlap in which no label was read."""
    inside = sorted(n for span in spans for n in (span.first, span.last) if begin <= n < stop)
    edges = [begin, *inside, stop]
    left, right = max(pairwise(edges), key=lambda pair: pair[1] - pair[0])
    return (left + right + 1) // 2


def _cut(heard: Heard, seam: int) -> None:
    """Drop the labels from a frame on; what is left ends before it."""
    count = _first_from(heard.spans, seam)
    del heard.ids[count:], heard.spans[count:]
    if count:
        last = heard.spans[-1]
        heard.spans[-1] = Span(last.first, max(last.first, min(last.last, seam - 1)), last.log_prob)


def _since(heard: Heard, seam: int) -> Heard:
    skipped = _first_from(heard.spans, seam)
    return Heard(heard.ids[skipped:], heard.spans[skipped:])
