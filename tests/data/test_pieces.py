"""Texts are cut into pieces and come back; vocabularies made from texts say what they lose."""

import json
import pickle
import random
import sys

import pytest

from neumo.asr.word_times import Spelling
from neumo.cli.main import run
from neumo.data import encode_text, measure_coverage
from neumo.data.learn_vocab import learn_vocab
from neumo.data.pieces import encode, train_pieces
from neumo.graph.yaml import load_recipe, recipe_text
from neumo.metrics import WordErrorRate
from neumo.types import BackendError, ConfigError, DataError, Normalise, Relation, Vocab

pytest.importorskip("sentencepiece")

WORDS = """zero one two three four five six seven eight nine ten eleven twelve""".split()  # noqa: SIM905


def sentences(words=WORDS, count=300, seed=1):
    draw = random.Random(seed)
    return [" ".join(draw.choices(words, k=draw.randint(1, 8))) for _ in range(count)]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def vocab(request):
    return train_pieces(sentences(), 30, kind=request.param, name="pieces")


def test_every_text_comes_back_from_its_ids(vocab):
    for text in sentences(seed=2):
        ids = encode(vocab, text).ids
        assert vocab.decode(ids) == text
    assert sum(len(encode(vocab, text).ids) for text in sentences()) < 0.7 * sum(map(len, sentences()))
    assert measure_coverage(sentences(seed=3), vocab).altered == ()


def test_the_same_texts_give_the_same_model(vocab):
    kind = "bpe" if train_pieces(sentences(), 30, kind="bpe") == vocab else "unigram"
    assert train_pieces(sentences(), 30, kind=kind).digest == vocab.digest
    assert train_pieces(sentences(seed=9), 30, kind=kind) != vocab


def test_the_model_goes_where_the_vocabulary_goes(vocab):
    for again in (
        Vocab.from_data(json.loads(json.dumps(vocab.to_data()))),
        pickle.loads(pickle.dumps(vocab)),
    ):
        assert again == vocab
        assert encode(again, "seven eight").ids == encode(vocab, "seven eight").ids
    for more in (vocab.with_blank(), vocab.with_ends()):
        assert more.relation(vocab) is Relation.EXTENDS
        assert encode(more, "seven").ids == encode(vocab, "seven").ids
    before = vocab.with_blank("start")
    assert before.decode(encode(before, "seven eight").ids) == "seven eight"


def test_models_of_the_same_pieces_are_told_apart():
    one = train_pieces(sentences(), 30, kind="bpe")
    two = Vocab(one.labels, unit="piece", unk=0)
    assert one.relation(two) is Relation.ROLES
    assert "another SentencePiece model" in one.difference(two).sentence


def test_unknown_characters_are_named(vocab):
    found = encode(vocab, "sevén 7")
    assert found.unknown == ("é", "7")
    with pytest.raises(DataError, match="é"):
        encode_text("sevén", vocab)


def test_words_are_parted_in_times_and_rates(vocab):
    spelling = Spelling.of(vocab.with_blank())
    ids = encode(vocab, "seven eight nine").ids
    assert [word for word, _ in spelling.words(ids)] == ["seven", "eight", "nine"]
    rate = WordErrorRate(vocab).start()
    row, other = list(ids), list(encode(vocab, "seven one nine").ids)
    rate.update(hypothesis=[other], hypothesis_len=[len(other)], reference=[row], reference_len=[len(row)])
    assert rate.result()["wer"] == pytest.approx(1 / 3)


def test_a_recipe_reads_a_model_and_writes_it_along(vocab, tmp_path):
    (tmp_path / "p.model").write_bytes(vocab.model)
    (tmp_path / "r.yaml").write_text(
        "neumo: 1\nvocabs:\n  pieces: {sentencepiece: p.model, normalise: {case: lower}}\n"
        "modules:\n  decoder: {kind: GreedyCTC, vocab: pieces}\ngraphs: {}\n"
    )
    recipe = load_recipe(tmp_path / "r.yaml")
    assert recipe.modules["decoder"].vocab.labels == vocab.labels
    (tmp_path / "p.model").unlink()
    again = load_recipe(recipe_text(recipe) + "\n").vocabs["pieces"]
    assert again == recipe.vocabs["pieces"]
    assert encode(again, "SEVEN").ids == encode(vocab, "seven").ids


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{sentencepiece: gone.model}", "does not exist"),
        ("{sentencepiece: text.model}", "no SentencePiece model"),
        ("{sentencepiece: p.model, unk: 0}", "from the model"),
        ("{sentencepiece: p.model, labels: ab}", "one of them"),
        ("{sentencepiece: p.model, normalise: {case: title}}", "normalise.case is 'title'"),
        ("{labels: ab, unit: piece, model: '#'}", "base64"),
    ],
)
def test_a_wrong_entry_of_a_recipe_is_named(vocab, tmp_path, entry, said):
    (tmp_path / "p.model").write_bytes(vocab.model)
    (tmp_path / "text.model").write_text("no model\n")
    (tmp_path / "r.yaml").write_text(f"neumo: 1\nvocabs:\n  pieces: {entry}\ngraphs: {{}}\n")
    with pytest.raises(ConfigError) as caught:
        load_recipe(tmp_path / "r.yaml")
    assert said in " ".join(str(caught.value).split())


def test_ids_become_text_without_the_library(vocab, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    again = Vocab.from_data(vocab.to_data())
    assert again.decode([1, 2]) == vocab.decode([1, 2])
    from neumo.data import pieces

    pieces._processor.cache_clear()
    with pytest.raises(BackendError, match="sentencepiece"):
        encode(again, "seven")


def test_what_a_vocabulary_loses_is_said():
    learned = learn_vocab(["Yes", "yes é", "yes", ""], "char", 4)
    text = "\n".join(learned.warnings)
    assert "6 different characters, more than the 4 labels" in text
    assert "2 of 4 texts have characters without a label" in text
    assert "1 of 4 texts are empty" in text
    assert "capitals" in text
    clean = learn_vocab(["Yes", "yes é"], "char", normalise=Normalise(case="lower", marks="drop"))
    assert clean.vocab.labels == (" ", "e", "s", "y")
    assert clean.coverage.complete


def test_fewer_pieces_than_characters_are_refused():
    """10,878 characters with a vocabulary of 1024 are not accepted in silence."""
    texts = ["".join(chr(0x4E00 + (7 * n + k) % 3000) for k in range(10)) for n in range(600)]
    with pytest.raises(DataError) as caught:
        learn_vocab(texts, "unigram", 100)
    assert caught.value.code == "pieces"
    assert "3000 different characters" in str(caught.value)
    learned = learn_vocab(texts, "char", 100)
    assert any(
        "3000 different characters, more than the 100 labels" in warning for warning in learned.warnings
    )


def neumo(capsys, *words):
    capsys.readouterr()
    with pytest.raises(SystemExit) as done:
        run([str(word) for word in words])
    said = capsys.readouterr()
    return int(done.value.code or 0), said.out, said.err


def test_the_command_writes_what_its_recipe_reads(tmp_path, capsys):
    lines = [{"audio_filepath": "a.wav", "text": text.title()} for text in sentences()]
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for words, file in ((["--kind", "bpe", "--size", 30], "p.model"), ([], "p.txt")):
        made = ["data", "vocab", tmp_path / "m.jsonl", *words, "-o", tmp_path / file, "--case", "lower"]
        code, out, err = neumo(capsys, *made)
        assert (code, err) == (0, "")
        assert "all 300 texts come back from their ids" in out
        snippet = out.partition("in a recipe:\n")[2]
        (tmp_path / "r.yaml").write_text(f"neumo: 1\n{snippet}graphs: {{}}\n")
        vocab = load_recipe(tmp_path / "r.yaml").vocabs["p"]
        assert vocab.decode(encode(vocab, "Seven Eight").ids) == "seven eight"
        code, out, _ = neumo(capsys, *made, "--json")
        assert json.loads(out)["digest"] == vocab.digest
    code, _, err = neumo(
        capsys, "data", "vocab", tmp_path / "m.jsonl", "--kind", "bpe", "-o", tmp_path / "p.txt"
    )
    assert code == 2
    assert "p.model" in err
