"""Language models in a beam search: scores against enumeration, spelling, words that nobody knows."""

import numpy as np
import pytest

from neumo.asr.search.fusion import LabelFusion, WordFusion, fuse
from neumo.asr.search.lexicon import DEAD, ROOT, Lexicon, Spelling
from neumo.lm import Grams, NGramModel, estimate, units_of
from neumo.types import ConfigError, Vocab

from .test_beam_search import EXACT, enumerated, posteriors, search

LETTERS = Vocab(" ab")
TEXT = ["a b ab", "ab a", "bb ab a", "b a", "ab"]


def words_model(order=2):
    return estimate([units_of(text, "word") for text in TEXT], order=order).model


def letters_model(order=3):
    return estimate([units_of(text, "char") for text in TEXT], order=order).model


def word_score(model, text, alpha, beta, unknown):
    words = text.split()
    scores = model.sentence(words)
    lost = sum(word not in model for word in words)
    return alpha * scores.sum() + beta * len(words) + (alpha * unknown * lost if lost else 0.0)


def check_all(log_probs, found, lm_of):
    expected = enumerated(np.exp(log_probs))
    assert len(found.labels) == len(expected)
    for ids, total, acoustic, lm in zip(found.labels, found.scores, found.acoustic, found.lm, strict=True):
        said = tuple(ids.tolist())
        assert acoustic == pytest.approx(np.log(expected[said]), abs=1e-8)
        assert lm == pytest.approx(lm_of(LETTERS.decode(said)), abs=1e-8)
        assert total == pytest.approx(acoustic + lm, abs=1e-8)
    assert (np.diff(found.scores) <= 0).all()


@pytest.mark.parametrize(
    ("alpha", "beta", "unknown"), [(1.0, 0.0, 0.0), (0.5, 1.5, -3.0), (2.0, -1.0, -10.0)]
)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_words_are_scored_as_the_model_scores_them(alpha, beta, unknown, order):
    model = words_model(order)
    fusion = fuse(model, LETTERS, alpha=alpha, beta=beta, unknown=unknown, unit="word")
    log_probs = posteriors(order, 3, 5, 4)
    for found, utterance in zip(
        search(log_probs, beam=9999, n_best=9999, fusion=fusion, **EXACT), log_probs, strict=True
    ):
        check_all(utterance, found, lambda text: word_score(model, text, alpha, beta, unknown))


@pytest.mark.parametrize("order", [1, 3])
def test_labels_are_scored_as_the_model_scores_them(order):
    model = letters_model(order)
    fusion = fuse(model, LETTERS, alpha=0.7, beta=0.3)
    assert isinstance(fusion, LabelFusion)

    def score(text):
        units = ["<space>" if character == " " else character for character in text]
        return 0.7 * model.sentence(units).sum() + 0.3 * len(units)

    log_probs = posteriors(order, 3, 5, 4)
    for found, utterance in zip(
        search(log_probs, beam=9999, n_best=9999, fusion=fusion, **EXACT), log_probs, strict=True
    ):
        check_all(utterance, found, score)


def test_factors_that_no_longer_fit_are_computed_again(monkeypatch):
    log_probs = posteriors(5, 4, 60, 4, sharp=1.5)
    plenty = search(log_probs, beam=32, fusion=fuse(letters_model(5), LETTERS, alpha=0.7))
    monkeypatch.setattr("neumo.asr.search.fusion._FEWEST", 8)
    monkeypatch.setattr("neumo.asr.search.fusion._ROOM", 0)
    few = search(log_probs, beam=32, fusion=fuse(letters_model(5), LETTERS, alpha=0.7))
    for one, other in zip(plenty, few, strict=True):
        assert one.labels[0].tolist() == other.labels[0].tolist()
        assert one.scores.tolist() == other.scores.tolist()


@pytest.mark.parametrize("unit", ["word", "label"])
def test_a_model_of_no_weight_changes_nothing(unit):
    model = words_model() if unit == "word" else letters_model()
    fusion = fuse(model, LETTERS, alpha=0.0, beta=0.0, unknown=-np.inf, unit=unit)
    log_probs = posteriors(4, 5, 30, 4, sharp=2.5)
    plain, fused = (search(log_probs, beam=8, n_best=8, fusion=each) for each in (None, fusion))
    for one, other in zip(plain, fused, strict=True):
        assert [ids.tolist() for ids in one.labels] == [ids.tolist() for ids in other.labels]
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-9)
        assert not other.lm.any()


@pytest.mark.parametrize("kind", ["word", "label"])
def test_results_with_a_model_do_not_depend_on_the_batch(kind):
    def fresh():
        model = words_model() if kind == "word" else letters_model()
        return fuse(model, LETTERS, alpha=0.5, beta=1.0, unit=kind)

    log_probs, lengths = posteriors(6, 6, 40, 4, sharp=2), np.array([40, 3, 25, 0, 40, 11])
    together = search(log_probs, lengths, beam=6, n_best=4, fusion=fresh())
    for row, length in enumerate(lengths):
        (alone,) = search(log_probs[row : row + 1, :length], [length], beam=6, n_best=4, fusion=fresh())
        assert [ids.tolist() for ids in alone.labels] == [ids.tolist() for ids in together[row].labels]
        np.testing.assert_allclose(alone.scores, together[row].scores, atol=1e-9)


def test_a_closed_lexicon_gives_its_words_only():
    model = words_model()
    fusion = fuse(model, LETTERS, alpha=0.5, beta=0.0, unknown=-np.inf, unit="word")
    for found in search(posteriors(8, 8, 12, 4), beam=50, n_best=20, fusion=fusion):
        for ids in found.labels:
            assert all(word in model for word in LETTERS.decode(ids).split())


def test_the_model_decides_between_words_that_sound_alike():
    log_probs = np.log(np.full((1, 3, 4), 1e-4))
    log_probs[0, 0, 1] = log_probs[0, 2, 2] = np.log(0.9)  # a?b: the middle is a blank or a space
    log_probs[0, 1, 3], log_probs[0, 1, 0] = np.log(0.45), np.log(0.55)
    (plain,) = search(log_probs)
    model = estimate([["ab"]] * 5 + [["a"], ["b"]], order=2).model
    (fused,) = search(log_probs, fusion=fuse(model, LETTERS, alpha=1.0, beta=0.0, unit="word"))
    assert LETTERS.decode(plain.labels[0]) == "a b"
    assert LETTERS.decode(fused.labels[0]) == "ab"


def test_pieces_that_begin_words_end_the_word_before():
    vocab = Vocab(["▁a", "▁b", "b", "▁"])
    model = estimate([["ab", "b"], ["a", "ab"]], order=2).model
    fusion = fuse(model, vocab, alpha=0.5, beta=1.0, unknown=-4.0, unit="word")
    log_probs = posteriors(2, 2, 4, 5)
    for found, utterance in zip(
        search(log_probs, beam=9999, n_best=9999, fusion=fusion, **EXACT), log_probs, strict=True
    ):
        expected = enumerated(np.exp(utterance))
        assert len(found.labels) == len(expected)
        for ids, lm in zip(found.labels, found.lm, strict=True):
            text = "".join(vocab[i] for i in ids).replace("▁", " ")
            assert lm == pytest.approx(word_score(model, text, 0.5, 1.0, -4.0), abs=1e-8)


def test_a_vocabulary_of_words_goes_with_a_model_of_words():
    vocab = Vocab(["a", "b", "ab", "bb"], unit="word")
    assert isinstance(fuse(words_model(), vocab, alpha=0.5, beta=1.0), LabelFusion)
    assert isinstance(fuse(words_model(), LETTERS, alpha=0.5, beta=1.0), WordFusion)


def test_another_case_is_said():
    model = estimate([["SO", "BE", "IT"], ["IT", "IS"]], order=2).model
    with pytest.raises(ConfigError, match=r"spell 0%[\s\S]*In lower case 100% of them") as caught:
        fuse(model, Vocab.english(), alpha=0.5, beta=1.0, name="upper.arpa")
    assert caught.value.code == "lm-words"
    with pytest.raises(ConfigError, match="In upper case 100%"):
        fuse(estimate([["so"]], order=1).model, Vocab(" OS"), alpha=0.5, beta=1.0)


def test_labels_that_end_no_word_are_refused():
    with pytest.raises(ConfigError, match="ends a word"):
        fuse(words_model(), Vocab("abc"), alpha=0.5, beta=1.0, unit="word")
    with pytest.raises(ConfigError, match="none of the 2 labels"):
        fuse(words_model(), Vocab(["x", "y"]), alpha=0.5, beta=1.0, unit="label")


def test_a_model_without_marks_for_ends_and_unknown_words_works():
    model = NGramModel.of(["a", "ab"], [Grams(np.array([[0], [1]]), np.log([0.5, 0.5]), np.zeros(2))])
    fusion = fuse(model, LETTERS, alpha=0.5, beta=0.0, unit="word")
    for found in search(posteriors(1, 3, 8, 4), beam=20, n_best=3, fusion=fusion):
        assert np.isfinite(found.scores).all()


def test_a_lexicon_follows_every_word_and_nothing_else():
    rng = np.random.default_rng(1)
    words = sorted({"".join(rng.choice(list("abc'é"), size=rng.integers(1, 6))) for _ in range(300)})
    labels = [" ", *"abc'é"]
    lexicon = Lexicon(words[::-1], Spelling(labels))
    beginnings = {word[:size] for word in words for size in range(1, len(word) + 1)}
    for text in [*words, *(word + "a" for word in words), "zz", "", *beginnings]:
        node = np.array([ROOT])
        for character in text:
            if character in labels:
                lexicon.prepare(node)
                node = lexicon.after(node, np.array([labels.index(character)]))
            else:
                node = np.array([DEAD])
        number = int(lexicon.word[node[0]])
        assert (node[0] != DEAD) == (text in beginnings or not text)
        assert (number >= 0) == (text in words)
        assert number < 0 or words[::-1][number] == text
