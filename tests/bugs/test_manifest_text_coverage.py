import io
import json
import unicodedata

import numpy as np
import pytest
import soundfile

from neumo.cli.main import run
from neumo.data import SpeechSource, measure_coverage
from neumo.data.learn_vocab import learn_vocab
from neumo.data.pieces import encode, train_pieces
from neumo.types import Normalise, Vocab
from neumo.types.errors import DataError

TEXTS = ["Hello", "café", "route 66", "fine 😀", "don’t", "plain words"] + ["yes"] * 14


@pytest.fixture
def lines(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(1600, np.int16), 16000)
    return [{"audio_filepath": str(tmp_path / "a.wav"), "text": text} for text in TEXTS]


def test_every_unknown_character_is_listed_before_training(lines):
    """Uppercase, e-acute, digits, emoji, curly quotes."""
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
    """5 of 20 texts are more than a tenth."""
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
    """An upper-case vocabulary and lower-case texts."""
    coverage = measure_coverage(["hello world", "yes"], Vocab(" ABCDEFGHIJKLMNOPQRSTUVWXYZ'"))
    assert coverage.share == 1.0
    assert coverage.hints == (
        "all unknown characters are in the vocabulary in upper case: the texts' case is not the vocabulary's",
    )


@pytest.mark.parametrize(("vocab_form", "text_form"), [("NFC", "NFD"), ("NFD", "NFC")])
@pytest.mark.parametrize("text", ["tiếng việt", "école"])
def test_unicode_forms_are_told_apart(text, vocab_form, text_form):
    """NFC against NFD, never rewritten in silence."""
    vocab = Vocab(list(dict.fromkeys(unicodedata.normalize(vocab_form, text))))
    coverage = measure_coverage([unicodedata.normalize(text_form, text)], vocab)
    assert not coverage.complete
    assert any(f"({text_form})" in hint for hint in coverage.hints)
    assert measure_coverage([unicodedata.normalize(vocab_form, text)], vocab).complete


def test_texts_come_back_from_their_ids():
    """Arabic with harakat, and a text that its ids do not give back."""
    arabic = "السَّلَامُ عَلَيْكُمْ"
    assert measure_coverage([arabic], Vocab(list(dict.fromkeys(arabic)))).altered == ()
    swallowed = Vocab("abc", pad="c")
    assert measure_coverage(["abc"], swallowed).altered == (0,)


def test_words_without_a_label_are_reported_as_words():
    coverage = measure_coverage(["yes no", "maybe"], Vocab(["yes", "no"], unit="word"))
    assert [(u.label, u.count) for u in coverage.unknown] == [("maybe", 1)]


VIETNAMESE = ["tiếng việt", "xin chào các bạn", "cảm ơn rất nhiều", "Đường phố Hà Nội"] * 8
ARABIC = ["السَّلَامُ عَلَيْكُمْ", "صَبَاحُ الْخَيْرِ", "شُكْرًا جَزِيلًا"] * 8


def rewriting_model(texts, size):
    """A model that rewrites texts before it cuts them, as SentencePiece's own default does."""
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=size, model_type="bpe",
        normalization_rule_name="nmt_nfkc_cf", bos_id=-1, eos_id=-1, minloglevel=2,
    )  # fmt: skip
    return Vocab.of_pieces(model.getvalue())


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize(("texts", "size"), [(VIETNAMESE, 60), (ARABIC, 46)], ids=["vietnamese", "arabic"])
def test_our_pieces_give_every_text_back(texts, size, form, kind):
    """Nothing is stripped or rewritten but by the policy that stands with the vocabulary."""
    pytest.importorskip("sentencepiece")
    texts = [unicodedata.normalize(form, text) for text in texts]
    characters = len(set("".join(texts)) - {" "})
    vocab = train_pieces(texts, characters + 4, kind=kind)
    assert [vocab.decode(encode(vocab, text).ids) for text in texts] == texts
    other = unicodedata.normalize({"NFC": "NFD", "NFD": "NFC"}[form], texts[0])
    if other != texts[0]:
        coverage = measure_coverage([other], vocab)
        assert not coverage.complete or coverage.altered == (0,)
    same = Vocab.of_pieces(vocab.model, normalise=Normalise(unicode=form))
    assert encode(same, other).ids == encode(vocab, texts[0]).ids


def test_a_model_that_rewrites_texts_is_found_out(tmp_path, capsys):
    """Round trip text, ids, text over the whole manifest."""
    vocab = rewriting_model(VIETNAMESE, 60)
    found = measure_coverage(["đường phố hà nội", "Đường phố Hà Nội"], vocab)
    assert found.altered == (1,)  # its capitals do not come back
    (tmp_path / "p.model").write_bytes(vocab.model)
    soundfile.write(tmp_path / "a.wav", np.full(1600, 0.1), 16000)
    rows = [{"audio_filepath": "a.wav", "text": text} for text in ("cảm ơn", "Cảm ơn")]
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(SystemExit) as done:
        run(["data", "validate", str(tmp_path / "m.jsonl"), "--vocab", str(tmp_path / "p.model")])
    assert done.value.code == 1
    assert f"{tmp_path}/m.jsonl:2: a.wav: 'Cảm ơn' comes back as 'cảm ơn'" in capsys.readouterr().out
    source = SpeechSource(tmp_path / "m.jsonl", vocab=vocab)
    assert "1 texts do not come back from their ids as they were" in source.report().text()


def test_too_few_labels_for_the_characters_are_said():
    """10,878 characters were accepted with a vocabulary of 1024."""
    texts = [chr(0x4E00 + n) + chr(0x4E00 + n // 2) for n in range(2000)]
    learned = learn_vocab(texts, "char", 1024)
    assert "the texts have 2000 different characters, more than the 1024 labels" in learned.warnings
    assert len(learned.coverage.unknown) == 976


@pytest.mark.parametrize("case", ["upper", "lower"])
def test_a_case_mismatch_with_pieces_is_said(case):
    """Capitals in the vocabulary, small letters in the manifest: 100 % errors and no message."""
    pytest.importorskip("sentencepiece")
    texts = ["HELLO WORLD", "YES OR NO", "NEVER MIND"] * 10
    given = {"upper": texts, "lower": [text.lower() for text in texts]}
    vocab = train_pieces(given[case], 24, kind="bpe")
    wrong = given["lower" if case == "upper" else "upper"]
    coverage = measure_coverage(wrong, vocab)
    assert coverage.share == 1.0
    assert any(f"in the vocabulary in {case} case" in hint for hint in coverage.hints)
    soundless = [{"audio_filepath": "none.wav", "duration": 1.0, "text": text} for text in wrong]
    with pytest.raises(DataError) as caught:
        SpeechSource(soundless, vocab=vocab, check="off")
    assert f"in {case} case" in " ".join(str(caught.value).split())
    assert caught.value.fixes[0].text == f"normalise: {{case: {case}}} in the vocabulary"
    settled = Vocab.of_pieces(vocab.model, normalise=Normalise(case=case))
    assert measure_coverage(wrong, settled).complete
