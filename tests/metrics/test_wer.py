import json

import numpy as np
import pytest

from neumo.graph.inputs import inputs
from neumo.metrics import Accumulator, CharErrorRate, WordErrorRate
from neumo.types import B, Hypotheses, Ids, Item, Lengths, T, U, Vocab
from neumo.types.errors import ConfigError, DataError, PortError

LETTERS = Vocab.english()


def ids_of(*texts):
    rows = [LETTERS.encode(text).ids for text in texts]
    padded = np.full((len(rows), max(map(len, rows)) + 2), 5)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded, np.array([len(ids) for ids in rows])


def batch(hypotheses, references, **more):
    (hypothesis, hypothesis_len), (reference, reference_len) = ids_of(*hypotheses), ids_of(*references)
    return {
        "hypothesis": hypothesis,
        "hypothesis_len": hypothesis_len,
        "reference": reference,
        "reference_len": reference_len,
        **more,
    }


def test_rates_are_of_the_corpus_and_padding_does_not_count():
    metric = WordErrorRate(LETTERS).start()
    assert isinstance(metric, Accumulator)
    metric.update(**batch(["the cat", "no"], ["the hat", "no"], item=np.array([4, 9])))
    metric.update(**batch(["go"], ["go on now please"]))
    assert metric.result() == {
        "wer": 4 / 7,
        "substitutions": 1,
        "insertions": 0,
        "deletions": 3,
        "hits": 3,
        "words": 7,
        "utterances": 3,
        "empty_references": 0,
    }
    assert [utterance.item for utterance in metric.errors.utterances] == [4, 9, None]
    json.dumps(metric.result())


def test_characters_count_spaces_between_words():
    metric = CharErrorRate(LETTERS).start()
    metric.update(**batch(["ab"], ["a b"]))
    assert (metric.result()["cer"], metric.result()["characters"]) == (1 / 3, 3)


def test_accumulators_of_two_processes_merge():
    one, two, whole = (WordErrorRate(LETTERS).start() for _ in range(3))
    one.update(**batch(["a b"], ["a c"]))
    two.update(**batch(["b"], ["b b"]))
    whole.update(**batch(["a b", "b"], ["a c", "b b"]))
    one.merge(two)
    assert one.result() == whole.result()


def test_arrays_that_do_not_pair_up_are_refused():
    metric = WordErrorRate(LETTERS).start()
    with pytest.raises(DataError, match="2 hypotheses, 1 references"):
        metric.update(**batch(["a", "b"], ["a"]))
    with pytest.raises(DataError, match="1 rows of ids have 2 lengths"):
        metric.update(**{**batch(["a"], ["a"]), "hypothesis_len": np.array([1, 1])})


def test_it_composes_and_refuses_another_vocabulary():
    given = inputs(
        hypothesis=Hypotheses(LETTERS)[B, U],
        hypothesis_len=Lengths(U)[B],
        reference=Ids(LETTERS)[B, T],
        reference_len=Lengths(T)[B],
        other=Hypotheses(Vocab("abc"))[B, U],
        item=Item()[B],
    )
    ports = {name: getattr(given, name) for name in ("hypothesis_len", "reference", "reference_len")}
    score = WordErrorRate(LETTERS)(hypothesis=given.hypothesis, item=given.item, **ports).score
    assert str(score.type) == "Score[]"
    with pytest.raises(PortError):
        WordErrorRate(LETTERS)(hypothesis=given.other, **ports)


def test_an_unknown_normaliser_is_refused_when_the_metric_is_made():
    with pytest.raises(ConfigError, match="there is no normaliser"):
        WordErrorRate(LETTERS, normaliser="whisper")


def test_a_reference_measured_against_itself_is_refused():
    """It would score 0 errors; only what a decoder chose is a hypothesis."""
    given = inputs(text=Ids(LETTERS)[B, U], text_len=Lengths(U)[B])
    for metric in (WordErrorRate(LETTERS), CharErrorRate(LETTERS)):
        with pytest.raises(PortError, match="Ids is too general") as refused:
            metric(
                hypothesis=given.text,
                hypothesis_len=given.text_len,
                reference=given.text,
                reference_len=given.text_len,
            )
        assert refused.value.code == "general"
