import unicodedata

import numpy as np
import pytest
import soundfile

from neumo.data import SpeechSource, measure_coverage
from neumo.types import Vocab
from neumo.types.errors import DataError

TEXTS = ["Hello", "café", "route 66", "fine 😀", "don’t", "plain words"] + ["yes"] * 14


@pytest.fixture
def lines(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(1600, np.int16), 16000)
    return [{"audio_filepath": str(tmp_path / "a.wav"), "text": text} for text in TEXTS]


def test_every_unknown_character_is_listed_before_training(lines):
    """C11: uppercase, e-acute, digits, emoji, curly quotes."""
    with pytest.raises(DataError) as caught:
        SpeechSource(lines, vocab=Vocab.english())
    error = caught.value
    assert error.code == "unknown-text"
    assert {u["label"]: u["count"] for u in error.data["unknown"]} == {
        "H": 1,
        "é": 1,
        "6": 2,
        "😀": 1,
        "’": 1,
    }
    assert error.data["unknown"][0]["examples"] == [f"{lines[2]['audio_filepath']} (entries:3)"]
    message = " ".join(str(error).split())
    assert "5 of 20 texts use them" in message
    assert "'é' (U+00E9 latin small letter e with acute)" in message
    assert "typographic characters stand where the vocabulary has plain ones: '’' for" in message


def test_dropping_stops_above_a_threshold(lines):
    """C11: 5 of 20 texts are more than a tenth."""
    with pytest.raises(DataError, match="max_unknown_share allows 10%"):
        SpeechSource(lines, vocab=Vocab.english(), on_unknown="drop_utterance")


def test_dropped_utterances_and_characters_are_counted(lines):
    whole = SpeechSource(lines, vocab=Vocab.english(), on_unknown="drop_utterance", max_unknown_share=0.5)
    (dropped,) = whole.report().dropped
    assert (dropped.count, len(whole)) == (5, 15)
    letters = SpeechSource(lines, vocab=Vocab.english(), on_unknown="drop_character", max_unknown_share=0.5)
    assert len(letters) == 20
    assert Vocab.english().decode(letters.item(4, 0)["text"]) == "dont"
    assert "unknown in 5 of 20 texts: '6' x2" in letters.report().text()


def test_a_case_mismatch_is_said():
    """C13: an upper-case vocabulary and lower-case texts."""
    coverage = measure_coverage(["hello world", "yes"], Vocab(" ABCDEFGHIJKLMNOPQRSTUVWXYZ'"))
    assert coverage.share == 1.0
    assert coverage.hints == (
        "all unknown characters are in the vocabulary in upper case: the texts' case is not the vocabulary's",
    )


@pytest.mark.parametrize(("vocab_form", "text_form"), [("NFC", "NFD"), ("NFD", "NFC")])
@pytest.mark.parametrize("text", ["tiếng việt", "école"])
def test_unicode_forms_are_told_apart(text, vocab_form, text_form):
    """C12: NFC against NFD, never rewritten in silence."""
    vocab = Vocab(list(dict.fromkeys(unicodedata.normalize(vocab_form, text))))
    coverage = measure_coverage([unicodedata.normalize(text_form, text)], vocab)
    assert not coverage.complete
    assert any(f"({text_form})" in hint for hint in coverage.hints)
    assert measure_coverage([unicodedata.normalize(vocab_form, text)], vocab).complete


def test_texts_come_back_from_their_ids():
    """C12: Arabic with harakat, and a text that its ids do not give back."""
    arabic = "السَّلَامُ عَلَيْكُمْ"
    assert measure_coverage([arabic], Vocab(list(dict.fromkeys(arabic)))).altered == ()
    swallowed = Vocab("abc", pad="c")
    assert measure_coverage(["abc"], swallowed).altered == (0,)


def test_words_without_a_label_are_reported_as_words():
    coverage = measure_coverage(["yes no", "maybe"], Vocab(["yes", "no"], unit="word"))
    assert [(u.label, u.count) for u in coverage.unknown] == [("maybe", 1)]
