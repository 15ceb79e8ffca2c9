"""Whatever an overlap shows, labels come out once, in order of time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from neumo.asr.join import Heard, Joiner
from neumo.asr.word_times import Span


def read(labels, start, end, *, shift=0, drop=()):
    """What a chunk hears of `(label, frame)` pairs; `shift` frames late, without the labels in `drop`."""
    inside = [(label, at + shift) for label, at in labels if start <= at < end and label not in drop]
    return Heard([label for label, _ in inside], [Span(at, at + 1, -0.1) for _, at in inside])


def join(labels, size, overlap, length, **settings):
    joiner = Joiner(tolerance=5)
    for number, start in enumerate(range(0, max(1, length - overlap), size - overlap)):
        end = min(start + size, length)
        changed = settings if number % 2 else {}
        joiner.add(read(labels, start, end, **changed), start, end)
    return joiner


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("shift", [0, 1, 3])
def test_nothing_is_lost_or_doubled(seed, shift):
    draw = np.random.default_rng(seed)
    length = int(draw.integers(50, 900))
    frames = np.cumsum(draw.integers(3, 12, length // 3))
    labels = [(int(draw.integers(3)), int(at)) for at in frames if at < length]
    joiner = join(labels, 100, 40, length, shift=shift)
    assert [label for section in joiner.sections for label in section.ids] == [label for label, _ in labels]
    times = [n for section in joiner.sections for span in section.spans for n in (span.first, span.last)]
    assert all(later >= earlier - 2 * shift for earlier, later in pairwise(times))


def test_what_one_chunk_misses_at_its_edge_is_taken_from_the_other():
    labels = [(n, 5 * n) for n in range(60)]
    left, right = read(labels, 0, 190, drop=(36, 37)), read(labels, 150, 300, drop=(30, 31))
    joiner = Joiner(tolerance=3)
    joiner.add(left, 0, 190)
    joiner.add(right, 150, 300)
    (section,) = joiner.sections
    assert section.ids == list(range(60))


def test_a_pause_over_the_seam_ends_a_word():
    joiner = Joiner(tolerance=3)
    joiner.add(Heard([1, 2], [Span(10, 12, 0.0), Span(20, 130, 0.0)]), 0, 100)
    joiner.add(Heard([3], [Span(150, 151, 0.0)]), 60, 160)
    assert [section.ids for section in joiner.sections] == [[1, 2], [3]]
    assert joiner.sections[0].spans[-1].last < 100


def test_chunks_without_labels_and_chunks_left_out():
    joiner = Joiner(tolerance=3)
    joiner.add(Heard([], []), 0, 100)
    joiner.add(Heard([1], [Span(90, 91, 0.0)]), 60, 160)
    joiner.add(Heard([1], [Span(400, 401, 0.0)]), 400, 500)  # what lies between was silent
    joiner.add(Heard([], []), 460, 520)
    assert [section.ids for section in joiner.sections] == [[1], [1]]


def test_chunks_that_disagree_are_both_heard_on_their_side():
    joiner = Joiner(tolerance=3)
    joiner.add(Heard([1, 2], [Span(10, 11, 0.0), Span(70, 71, 0.0)]), 0, 100)
    joiner.add(Heard([4, 5], [Span(62, 63, 0.0), Span(95, 96, 0.0)]), 60, 160)
    assert [section.ids for section in joiner.sections] == [[1, 2], [5]]
