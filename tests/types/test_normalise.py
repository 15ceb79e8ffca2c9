"""A policy for how texts are written, and the pieces of SentencePiece models, read without the library."""

import contextlib
import os
import tarfile
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neumo.types import ConfigError, Normalise, Vocab
from neumo.types.pieces import join_pieces, read_pieces

SHARED = Path(os.environ.get("NEUMO_SHARED", Path(__file__).parents[3] / "shared")) / "checkpoints"
MODELS = sorted(SHARED.glob("*.nemo")) if SHARED.is_dir() else []


@pytest.mark.parametrize(
    ("policy", "text", "written"),
    [
        (Normalise(), "  a\u00a0b\tc ", "a b c"),
        (Normalise(), "e\u0301", "\u00e9"),
        (Normalise(unicode="NFD"), "\u00e9", "e\u0301"),
        (Normalise(unicode="keep"), "e\u0301", "e\u0301"),
        (Normalise(unicode="NFKC"), "ﬁve ２", "five 2"),
        (Normalise(case="lower"), "ÄÖÜ ß", "äöü ß"),
        (Normalise(case="upper"), "straße", "STRASSE"),
        (Normalise(case="lower"), "İ", "i̇"),  # Turkish: a capital that becomes two characters
        (Normalise(punctuation="drop"), "¿Qué? 5%!", "Qué 5"),
        (Normalise(punctuation="space"), "well-known—fact", "well known fact"),
        (Normalise(punctuation="drop", kept=""), "don't", "dont"),
        (Normalise(punctuation="drop", kept="'-"), "a-b_c", "a-bc"),
        (Normalise(marks="drop"), "tiếng Việt", "tieng Viet"),
        (Normalise(marks="drop"), "السَّلَامُ عَلَيْكُمْ", "السلام عليكم"),
        (Normalise(digits="drop"), "route 66", "route"),
        (Normalise(spaces="drop"), "厨房 用品", "厨房用品"),
        (Normalise(), "\u202bשלום\u202c \u200fעולם", "שלום עולם"),  # marks of direction say nothing
        (Normalise(), "\ufeffكتـــاب", "كتاب"),
        (Normalise(controls="keep"), "\u200fא", "\u200fא"),
    ],
)
def test_texts_are_written_as_the_policy_says(policy, text, written):
    assert policy(text) == written


POLICIES = st.builds(
    Normalise,
    unicode=st.sampled_from(["keep", "NFC", "NFD", "NFKC", "NFKD"]),
    case=st.sampled_from(["keep", "lower", "upper"]),
    punctuation=st.sampled_from(["keep", "drop", "space"]),
    marks=st.sampled_from(["keep", "drop"]),
    digits=st.sampled_from(["keep", "drop"]),
    controls=st.sampled_from(["keep", "drop"]),
    spaces=st.sampled_from(["keep", "single", "drop"]),
)


@given(POLICIES)
def test_settings_come_back_from_their_data(policy):
    assert Normalise.from_data(policy.to_data()) == policy


@given(
    POLICIES.filter(lambda p: p.case != "upper"), st.text(st.characters(categories=["L", "M", "N", "P", "Z"]))
)
def test_a_written_text_is_written_alike(policy, text):
    once = policy(text)
    assert policy(once) == once


@pytest.mark.parametrize(
    "data", [{"unicode": "nfc"}, {"case": "Lower"}, {"acse": "lower"}, {"kept": 3}, "lower", 3]
)
def test_wrong_settings_are_refused(data):
    with pytest.raises(ConfigError) as caught:
        Normalise.from_data(data)
    assert caught.value.code == "vocab"


def test_the_policy_is_part_of_a_vocabulary():
    plain, lower = Vocab("ab"), Vocab("ab", normalise={"case": "lower"})
    assert plain != lower
    assert plain.digest != lower.digest
    assert lower.encode("AB").ids == (0, 1)
    assert "case lower" in lower.difference(plain).sentence
    assert lower.with_blank().normalise == lower.with_ends().normalise == Normalise(case="lower")
    assert Vocab.from_data(lower.to_data()) == lower


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_real_models_are_read_as_the_library_reads_them(path):
    sentencepiece = pytest.importorskip("sentencepiece")
    for data in _models_in(path):
        library = sentencepiece.SentencePieceProcessor(model_proto=data)
        found = read_pieces(data)
        assert list(found.pieces) == [library.id_to_piece(n) for n in range(library.get_piece_size())]
        theirs = {
            "unk": library.unk_id(), "bos": library.bos_id(), "eos": library.eos_id(), "pad": library.pad_id()
        }  # fmt: skip
        assert dict(found.roles) == {role: place for role, place in theirs.items() if place >= 0}
        vocab = Vocab.of_pieces(data, "pieces")
        ids = library.encode("the quick brown fox", out_type=int)
        assert vocab.decode(ids) == library.decode(ids)


def _models_in(path):
    with tarfile.open(path) as file:
        for member in file:
            if member.name.endswith("tokenizer.model"):
                found = file.extractfile(member)
                assert found is not None
                yield found.read()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no model",
        b"\x0a",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x0a\x05\x0a\x03\xff\xfe\xfd",
    ],
)
def test_bytes_that_are_no_model_are_refused(data):
    with pytest.raises(ConfigError) as caught:
        Vocab.of_pieces(data)
    assert caught.value.code == "vocab"


@given(st.binary(max_size=60))
def test_no_bytes_are_a_bug(data):
    with contextlib.suppress(ConfigError):
        read_pieces(data)


def test_pieces_join_to_a_text():
    assert join_pieces(["▁a", "b", "▁", "c"]) == "ab c"
    assert join_pieces(["a"]) == "a"
    assert join_pieces(["▁", "▁a"]) == " a"
    assert join_pieces(["<0xE5>", "<0x8E>", "<0xA8>"]) == "厨"
    assert join_pieces(["<0xE5>", "a"]) == "\ufffda"


def test_a_vocabulary_of_pieces_says_who_cuts():
    listed = Vocab(["▁a", "b"], unit="piece")
    assert listed.decode([0, 1, 0]) == "ab a"
    with pytest.raises(ConfigError, match=r"neumo\.data\.pieces"):
        listed.encode("ab")
    with pytest.raises(ConfigError, match="no SentencePiece model"):
        Vocab("ab", model=b"x")
    with pytest.raises(ConfigError, match="base64"):
        Vocab("ab", unit="piece", model="ä")


def test_normal_forms_are_those_of_unicode():
    assert Normalise(unicode="NFC")("Å") == unicodedata.normalize("NFC", "Å")
