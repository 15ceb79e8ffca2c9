import jiwer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neumo.metrics import CorpusErrors, char_error_rate, find_normaliser, word_error_rate
from neumo.types.errors import ConfigError, DataError

texts = st.lists(st.sampled_from(["a", "b", "cat", "cats", "hat"]), min_size=1, max_size=6).map(" ".join)
corpora = st.lists(st.tuples(texts, texts), min_size=1, max_size=8)


@settings(max_examples=200, deadline=None)
@given(corpora)
def test_corpus_rates_are_those_of_jiwer(pairs):
    references, hypotheses = map(list, zip(*pairs, strict=True))
    assert word_error_rate(references, hypotheses) == pytest.approx(jiwer.wer(references, hypotheses))
    assert char_error_rate(references, hypotheses) == pytest.approx(jiwer.cer(references, hypotheses))


def test_utterances_keep_their_item_and_counts():
    errors = CorpusErrors("word")
    errors.add("a  b", " a c ", item=7)
    (utterance,) = errors.utterances
    assert (utterance.item, utterance.reference, utterance.counts.substitutions) == (7, "a b", 1)


def test_what_was_heard_too_much_and_too_little_is_ranked():
    errors = CorpusErrors("word")
    for _ in range(2):
        errors.add("go on", "go")
    errors.add("stop", "uh stop")
    errors.add("no", "know")
    assert errors.top_deletions() == [("on", 2)]
    assert errors.top_insertions() == [("uh", 1)]
    assert errors.top_substitutions() == [("no", "know", 1)]


def test_errors_of_another_kind_do_not_add_up():
    with pytest.raises(DataError, match=r"words \(none-1\) and of chars"):
        CorpusErrors("word").extend(CorpusErrors("char"))


def test_lists_of_another_length_do_not_pair_up():
    with pytest.raises(DataError, match="2 references and 1 hypotheses"):
        word_error_rate(["a", "b"], ["a"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don’t STOP!", "don't stop"),
        ("'quoted' words, 'tis", "quoted words tis"),
        ("twenty-one", "twenty one"),
        ("  ", ""),
        ("ﬁne ＡＢＣ", "fine abc"),
        ("Übermut 42%", "übermut 42"),
    ],
)
def test_the_basic_normaliser(text, expected):
    assert find_normaliser("basic")(text) == expected
    assert find_normaliser("basic")(expected) == expected


def test_an_unknown_normaliser_has_a_nearest_match():
    with pytest.raises(ConfigError, match="did you mean 'basic'"):
        CorpusErrors("word", normaliser="basics")
