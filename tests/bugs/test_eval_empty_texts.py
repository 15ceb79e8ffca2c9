import json

from neumo.metrics import CorpusErrors, WordErrorRate, word_error_rate
from neumo.types import Vocab


def test_an_empty_reference_counts_insertions_and_is_flagged():
    """'uh' that a normaliser made empty, both empty, empty hypothesis."""
    errors = CorpusErrors("word")
    errors.add("", "uh")
    errors.add("", "")
    errors.add("yes", "")
    errors.add("no", "no")
    counts = errors.counts
    assert (counts.substitutions, counts.insertions, counts.deletions, counts.hits) == (0, 1, 1, 1)
    assert errors.rate == 1.0
    assert [u.empty_reference for u in errors.utterances] == [True, True, False, False]
    assert len(errors.empty_references) == 2
    assert "2 utterances have an empty reference" in errors.notes()[0]


def test_the_corpus_rate_is_always_a_finite_number():
    """Nothing to recognise at all."""
    assert word_error_rate([], []) == 0.0
    assert word_error_rate([""], [""]) == 0.0
    assert word_error_rate([""], ["one two"]) == 2.0
    json.dumps(CorpusErrors("char").to_json(), allow_nan=False)


def test_a_text_that_normalises_to_nothing_is_an_empty_reference():
    errors = CorpusErrors("word", normaliser="basic")
    errors.add("...", "uh")
    assert errors.empty_references
    assert errors.counts.insertions == 1


def test_one_empty_output_among_a_hundred_is_scored_as_deletions():
    """The evaluation goes on."""
    errors = CorpusErrors("word")
    for n in range(100):
        errors.add("one two", "" if n == 50 else "one two")
    assert (errors.counts.deletions, errors.counts.hits) == (2, 198)
    assert errors.rate == 0.01


def test_empty_batches_of_ids_are_fine():
    """A batch whose hypotheses have no ids at all."""
    metric = WordErrorRate(Vocab.english()).start()
    metric.update(hypothesis=[[], []], hypothesis_len=[0, 0], reference=[[1], [0]], reference_len=[1, 0])
    assert metric.result()["deletions"] == 1
    assert metric.result()["empty_references"] == 1
