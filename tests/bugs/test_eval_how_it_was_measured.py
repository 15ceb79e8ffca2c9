import json

from neumo.metrics import CorpusErrors


def scored(pairs, **options):
    errors = CorpusErrors("word", **options)
    for reference, hypothesis in pairs:
        errors.add(reference, hypothesis)
    return errors


PAIRS = [("DON'T STOP", "dont stop"), ("don't", "dont"), ("a hot dog", "a hotdog"), ("the cat", "the hat")]


def test_every_rate_comes_with_normaliser_and_version():
    """The evaluation path is published with the figure."""
    raw, basic = scored(PAIRS), scored(PAIRS, normaliser="basic")
    assert raw.text().endswith("normaliser none-1)")
    assert basic.text().endswith("normaliser basic-1)")
    report = json.loads(json.dumps(basic.to_json()))
    assert report["normaliser"] == "basic-1"
    assert report["neumo"]


def test_top_substitutions_are_shown():
    """Apostrophes."""
    errors = scored([*PAIRS, ("don't", "dont")])
    assert errors.top_substitutions(1) == [("don't", "dont", 2)]
    assert errors.top_deletions() == [("dog", 1)]


def test_errors_of_writing_are_told_from_errors_of_hearing():
    """Apostrophes, uppercase, compound words."""
    assert scored(PAIRS).notes() == [
        "1 of 5 substitutions differ only in case",
        "2 of 5 substitutions differ only in punctuation",
    ]


def test_compound_words_are_noted():
    assert scored([("a hot dog", "a hotdog")]).notes() == [
        "1 utterances differ only in case or in where words are split"
    ]
