import time

import jiwer
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from neumo.metrics import ErrorCounts, align, edit_distance, error_counts

tokens = st.lists(st.sampled_from("abcd"), max_size=24)


@settings(max_examples=500, deadline=None)
@given(tokens, tokens)
def test_substitutions_insertions_and_deletions_are_those_of_jiwer(reference, hypothesis):
    """Jiwer counts with rapidfuzz; it refuses empty references only since it cannot divide."""
    counts = error_counts(reference, hypothesis)
    edits = [edit.tag for edit in Levenshtein.editops(reference, hypothesis)]
    assert counts.substitutions == edits.count("replace")
    assert counts.insertions == edits.count("insert")
    assert counts.deletions == edits.count("delete")
    assert (counts.reference, counts.hypothesis) == (len(reference), len(hypothesis))
    if reference:
        output = jiwer.process_words(" ".join(reference), " ".join(hypothesis))
        assert (output.hits, output.substitutions) == (counts.hits, counts.substitutions)
        assert abs(output.wer - counts.rate) < 1e-12


@settings(max_examples=200, deadline=None)
@given(tokens, tokens)
def test_an_alignment_walks_through_both_sequences(reference, hypothesis):
    pairs = align(reference, hypothesis)
    assert [i for i, _ in pairs if i is not None] == list(range(len(reference)))
    assert [j for _, j in pairs if j is not None] == list(range(len(hypothesis)))
    errors = sum(i is None or j is None or reference[i] != hypothesis[j] for i, j in pairs)
    assert errors == edit_distance(reference, hypothesis)


@settings(max_examples=200, deadline=None)
@given(tokens, tokens, tokens)
def test_the_distance_is_a_metric(one, two, three):
    assert edit_distance(one, one) == 0
    assert edit_distance(one, two) == edit_distance(two, one)
    assert edit_distance(one, three) <= edit_distance(one, two) + edit_distance(two, three)


def test_counts_add_up():
    total = ErrorCounts(1, 2, 3, 4) + ErrorCounts(hits=1)
    assert total == ErrorCounts(1, 2, 3, 5)
    assert (total.errors, total.reference, total.hypothesis) == (6, 9, 8)


def test_long_texts_are_no_trouble():
    reference = [f"w{n % 997}" for n in range(10_000)]
    hypothesis = [word for n, word in enumerate(reference) if n % 7]
    started = time.process_time()
    assert edit_distance(reference, hypothesis) == 1429
    assert time.process_time() - started < 5
