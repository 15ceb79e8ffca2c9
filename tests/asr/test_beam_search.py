"""Prefix beam search: against enumeration of all paths, alone and in a batch, with and without pruning."""

import itertools

import numpy as np
import pytest

from neumo.asr.search.prefix import prefix_beam_search
from neumo.types import DataError

EXACT = {"least_label": -np.inf, "least_beam": -np.inf}


def collapse(path, blank):
    merged = [label for n, label in enumerate(path) if n == 0 or label != path[n - 1]]
    return tuple(label for label in merged if label != blank)


def enumerated(probs):
    """The probability of every label sequence: sums over all paths (T, V)."""
    frames, labels = probs.shape
    found = {}
    for path in itertools.product(range(labels), repeat=frames):
        said = collapse(path, labels - 1)
        found[said] = found.get(said, 0.0) + float(np.prod(probs[np.arange(frames), path]))
    return found


def posteriors(seed, *shape, sharp=1.5):
    logits = np.random.default_rng(seed).standard_normal(shape) * sharp
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def search(log_probs, lengths=None, **settings):
    lengths = np.full(len(log_probs), log_probs.shape[1]) if lengths is None else np.asarray(lengths)
    return prefix_beam_search(log_probs, lengths, **settings)


@pytest.mark.parametrize(("frames", "labels"), [(1, 3), (2, 2), (3, 3), (5, 3), (6, 3), (5, 4), (8, 2)])
def test_a_beam_that_holds_all_finds_what_enumeration_finds(frames, labels):
    log_probs = posteriors(frames, 6, frames, labels)
    for found, utterance in zip(
        search(log_probs, beam=10_000, n_best=10_000, **EXACT), log_probs, strict=True
    ):
        expected = enumerated(np.exp(utterance))
        assert len(found.labels) == len(expected)
        scores = {tuple(row.tolist()): score for row, score in zip(found.labels, found.scores, strict=True)}
        assert scores.keys() == expected.keys()
        for said, probability in expected.items():
            assert scores[said] == pytest.approx(np.log(probability), abs=1e-9)
        assert (np.diff(found.scores) <= 0).all()
        assert np.exp(found.scores).sum() == pytest.approx(1)


@pytest.mark.parametrize("seed", range(20))
def test_pruned_labels_are_impossible_and_the_rest_is_exact(seed):
    log_probs = posteriors(seed, 3, 6, 3, sharp=4)
    probs = np.exp(log_probs)
    probs[(log_probs < -2.0) & (log_probs < log_probs.max(axis=2, keepdims=True))] = 0
    settings = {"beam": 10_000, "n_best": 10_000, "least_label": -2.0, "least_beam": -np.inf}
    for found, utterance in zip(search(log_probs, **settings), probs, strict=True):
        expected = {said: value for said, value in enumerated(utterance).items() if value > 0}
        scores = {tuple(row.tolist()): score for row, score in zip(found.labels, found.scores, strict=True)}
        assert scores.keys() == expected.keys()
        for said, probability in expected.items():
            assert scores[said] == pytest.approx(np.log(probability), abs=1e-9)


@pytest.mark.parametrize("beam", [1, 2, 3, 7, 16, 64])
def test_a_narrow_beam_never_finds_more_than_there_is(beam):
    log_probs = posteriors(5, 4, 7, 3)
    for found, utterance in zip(search(log_probs, beam=beam, n_best=beam, **EXACT), log_probs, strict=True):
        expected = enumerated(np.exp(utterance))
        assert len(found.labels) <= beam
        assert len({tuple(row.tolist()) for row in found.labels}) == len(found.labels)
        for row, score in zip(found.labels, found.scores, strict=True):
            assert score <= np.log(expected[tuple(row.tolist())]) + 1e-9


@pytest.mark.parametrize("settings", [{}, {"beam": 3}, {"beam": 5, "least_label": -2.0, "least_beam": -3.0}])
def test_results_do_not_depend_on_the_batch(settings):
    log_probs = posteriors(9, 7, 40, 6, sharp=3)
    lengths = np.array([40, 0, 17, 1, 33, 2, 40])
    together = search(log_probs, lengths, n_best=5, **settings)
    for row, length in enumerate(lengths):
        (alone,) = search(log_probs[row : row + 1, :length], [length], n_best=5, **settings)
        assert [ids.tolist() for ids in alone.labels] == [ids.tolist() for ids in together[row].labels]
        np.testing.assert_allclose(alone.scores, together[row].scores, atol=1e-9)


def test_what_lies_behind_the_end_is_not_looked_at():
    log_probs = posteriors(3, 2, 12, 4)
    garbage = log_probs.copy()
    garbage[:, 9:] = np.nan
    clean, dirty = (search(each, [9, 5], n_best=3) for each in (log_probs, garbage))
    for one, other in zip(clean, dirty, strict=True):
        assert [ids.tolist() for ids in one.labels] == [ids.tolist() for ids in other.labels]
        assert (one.scores == other.scores).all()


def test_frames_of_blanks_cost_no_step_and_change_nothing():
    log_probs = posteriors(1, 2, 9, 3, sharp=2)
    blanks = np.full((2, 27, 3), np.log(0.0005))
    blanks[:, :, 2] = np.log(0.999)
    blanks[:, ::3] = log_probs  # two frames of blanks behind each
    settings = {"beam": 100_000, "n_best": 3, "least_beam": -np.inf}
    spread = search(blanks, **settings)
    probs = np.exp(blanks)
    probs[(blanks < -5) & (blanks < blanks.max(axis=2, keepdims=True))] = 0
    for found, utterance in zip(spread, probs, strict=True):
        for row, score in zip(found.labels, found.scores, strict=True):
            assert score == pytest.approx(forward(utterance, row.tolist()), abs=1e-9)


def forward(probs, labels):
    """The logarithm of all paths of a label sequence (Graves et al. 2006, equation 6)."""
    blank = probs.shape[1] - 1
    extended = [blank]
    for label in labels:
        extended += [label, blank]
    alpha = np.zeros(len(extended))
    alpha[0] = 1
    for t, frame in enumerate(probs):
        before = alpha
        alpha = np.zeros_like(before)
        for s, label in enumerate(extended):
            total = before[s]
            if t or s < 2:
                total += before[s - 1] if s else 0
                if s > 1 and label not in (blank, extended[s - 2]):
                    total += before[s - 2]
            alpha[s] = total * frame[label]
    return np.log(alpha[-1] + (alpha[-2] if len(extended) > 1 else 0))


def test_long_utterances_do_not_underflow():
    log_probs = posteriors(2, 1, 4000, 5, sharp=0.1)
    (found,) = search(log_probs, beam=8)
    assert np.isfinite(found.scores).all()
    assert found.scores[0] < -1000


def test_equal_hypotheses_come_in_one_order():
    flat = np.full((3, 6, 4), np.log(0.25))
    found = search(flat, beam=4, n_best=4)
    assert len({tuple(tuple(row.tolist()) for row in each.labels) for each in found}) == 1
    assert all(len(each.labels) == 4 for each in found)


def test_nothing_said_is_an_empty_hypothesis():
    (none,) = search(np.zeros((1, 0, 3)))
    assert [row.tolist() for row in none.labels] == [[]]
    assert none.scores.tolist() == [0.0]
    assert search(np.zeros((0, 5, 3))) == []


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_frames_without_any_possible_label_are_named(bad):
    log_probs = posteriors(1, 3, 8, 4)
    log_probs[1, 5] = bad
    with pytest.raises(DataError, match="frame 5 of utterance 1") as caught:
        search(log_probs)
    assert caught.value.code == "no-label"
    assert len(search(log_probs, [8, 5, 8])) == 3  # behind the end nobody minds


def test_labels_that_cannot_be_are_never_said():
    log_probs = np.full((1, 5, 3), -np.inf)
    log_probs[0, :, 0] = 0.0
    log_probs[0, 2, :2] = -np.inf, 0.0
    (found,) = search(log_probs, n_best=5)
    assert [row.tolist() for row in found.labels] == [[0, 1, 0]]
    (found,) = search(np.where(np.isneginf(log_probs), -5000.0, log_probs), n_best=5)
    assert [row.tolist() for row in found.labels] == [[0, 1, 0]]


def test_a_blank_alone_says_nothing():
    (found,) = search(np.zeros((1, 4, 1)))
    assert [row.tolist() for row in found.labels] == [[]]


def test_a_large_batch_is_cut_into_parts_that_fit(monkeypatch):
    log_probs, lengths = posteriors(3, 7, 20, 5), [20, 3, 20, 11, 0, 20, 7]
    whole = search(log_probs, lengths, n_best=2)
    monkeypatch.setattr("neumo.asr.search.prefix._AT_ONCE", 2 * 20 * 5)
    for one, other in zip(whole, search(log_probs, lengths, n_best=2), strict=True):
        assert [ids.tolist() for ids in one.labels] == [ids.tolist() for ids in other.labels]
