from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from tests.types.strategies import vocabs

from neumo.types import AtLeast, ConfigError, DataError, Relation, Vocab, find_vocab

AB = Vocab("ab", name="two")


def test_english_is_the_public_order():
    letters = Vocab.english()
    assert len(letters) == 28
    assert "".join(letters) == " abcdefghijklmnopqrstuvwxyz'"
    assert str(letters) == "en[28]#c4af7923"
    assert repr(letters) == "Vocab(en[28]#c4af7923)"


def test_labels_order_and_roles_are_the_identity_but_not_the_name():
    assert Vocab("ab", name="x") == AB
    assert hash(Vocab("ab", name="x")) == hash(AB)
    assert Vocab("ab", name="x").digest == AB.digest
    assert Vocab("ba") != AB
    assert Vocab("ab", blank=1) != AB
    assert Vocab("ab", blank=1).digest != AB.digest
    assert Vocab("ab", unit="word") != AB
    assert Vocab("ab", unit="word").digest != AB.digest
    assert AB != "ab"


def test_roles_are_given_by_label_or_index():
    vocab = Vocab(["<pad>", "a", "<s>", "</s>", "<unk>"], pad="<pad>", bos="<s>", eos=3, unk="<unk>")
    assert vocab.roles == (("pad", 0), ("bos", 2), ("eos", 3), ("unk", 4))


def test_the_blank_goes_to_either_end_and_makes_another_vocabulary():
    vocab = Vocab("ab", name="two", pad="a")
    end, start = vocab.with_blank(), vocab.with_blank("start")
    assert (end.labels, end.blank, end.pad, end.name) == (("a", "b", "<blank>"), 2, 0, "two+blank")
    assert (start.labels, start.blank, start.pad, start.name) == (("<blank>", "a", "b"), 0, 1, "blank+two")
    assert Vocab("ab").with_blank().name == "vocab+blank"
    assert end.relation(start) is Relation.PERMUTED
    with pytest.raises(ConfigError, match="already has a blank"):
        end.with_blank()
    with pytest.raises(ConfigError, match="'end' or the 'start'"):
        vocab.with_blank("middle")


def test_the_ends_stand_behind_the_labels_which_keep_their_ids_and_roles():
    vocab = Vocab("ab", name="two", pad="a", unit="word")
    ends = vocab.with_ends()
    assert ends.labels == ("a", "b", "<bos>", "<eos>")
    assert (ends.bos, ends.eos, ends.pad, ends.unit, ends.name) == (2, 3, 0, "word", "two+ends")
    assert ends.relation(vocab) is Relation.EXTENDS
    assert ends.decode([2, 1, 0, 3]) == "b"
    assert Vocab("ab").with_ends().name == "vocab+ends"
    assert Vocab.from_data(ends.to_data()) == ends


def test_ends_that_are_there_already_are_not_added_again():
    both = Vocab(["<s>", "</s>", "a"], bos="<s>", eos="</s>")
    assert both.with_ends() is both
    one = Vocab(["a", "</s>"], eos="</s>").with_ends()
    assert (one.labels, one.bos, one.eos) == (("a", "</s>", "<bos>"), 2, 1)
    with pytest.raises(ConfigError, match="twice"):
        Vocab(["a", "<eos>"]).with_ends()


@pytest.mark.parametrize(
    ("given_labels", "wanted", "relation", "sentence"),
    [
        (Vocab("ab"), AB, Relation.SAME, "the same 2 labels"),
        (
            Vocab("ab", blank=1),
            Vocab("ab", pad=0),
            Relation.ROLES,
            "the same 2 labels with other roles: blank=1 there, pad=0 here",
        ),
        (Vocab("ab", blank=1), AB, Relation.ROLES,
         "the same 2 labels with other roles: blank=1 there, none here"),
        (Vocab("abc"), AB, Relation.EXTENDS, "the wanted 2 labels and 1 more behind them: 'c'"),
        (AB, Vocab("abcdefgh"), Relation.PREFIX,
         "only the first 2 of the wanted 8 labels, without 'c', 'd', 'e', 'f', 'g' and 1 more"),
        (
            Vocab("ba"),
            AB,
            Relation.PERMUTED,
            "the same 2 labels in another order, first difference at index 0: 'b' there, 'a' here",
        ),
        (Vocab("abx"), Vocab("aby"), Relation.OVERLAPS, "other labels: 'x' only there; 'y' only here"),
        (Vocab("bax"), AB, Relation.OVERLAPS, "other labels: 'x' only there"),
        (AB, Vocab("abc", blank=0), Relation.PREFIX, None),
        (Vocab("ab", blank=1), Vocab("abc"), Relation.OVERLAPS, "other labels: 'c' only here"),
        (Vocab("xy"), AB, Relation.DISJOINT, "none of the 2 labels is among the wanted 2: 'x', 'y' there"),
    ],
)  # fmt: skip
def test_relations_and_their_sentences(given_labels, wanted, relation, sentence):
    assert given_labels.relation(wanted) is relation
    difference = given_labels.difference(wanted)
    assert difference.relation is relation
    if sentence is not None:
        assert difference.sentence == sentence


def test_a_difference_tells_where_and_what():
    there = Vocab(" 'abcdefghijklmnopqrstuvwxyz")
    difference = there.difference(Vocab.english())
    assert (difference.index, difference.given_label, difference.wanted_label) == (1, "'", "a")
    longer = Vocab("abc").difference(AB)
    assert (longer.index, longer.given_label, longer.wanted_label) == (2, "c", None)
    assert (longer.only_given, longer.only_wanted) == (("c",), ())
    assert AB.difference(Vocab("abc")).wanted_label == "c"


def test_unknown_pieces_are_reported_never_dropped_in_silence():
    assert AB.encode("abca").ids == (0, 1, 0)
    assert AB.encode("abca").unknown == ("c",)
    with_unk = Vocab(["a", "<unk>"], unk="<unk>")
    assert with_unk.encode("ab").ids == (0, 1)
    assert with_unk.encode("ab").unknown == ("b",)


def test_words_are_cut_at_spaces_and_joined_by_one():
    words = Vocab(["yes", "no"], unit="word")
    assert words.encode(" yes  no ").ids == (0, 1)
    assert words.decode([0, 1]) == "yes no"


def test_decoding_leaves_silent_roles_out_and_refuses_strange_ids():
    vocab = AB.with_blank()
    assert vocab.decode([0, 2, 1]) == "ab"
    with pytest.raises(DataError, match="id 3 is outside"):
        vocab.decode([3])
    with pytest.raises(DataError, match="id -1 is outside"):
        vocab.decode([-1])


def test_lookups():
    assert AB.index("b") == 1
    assert AB[1] == "b"
    assert "a" in AB
    assert "c" not in AB
    with pytest.raises(ConfigError, match="has no label 'c'"):
        AB.index("c")


@given(vocabs())
def test_data_and_pickle_give_the_vocabulary_back(vocab):
    for again in (Vocab.from_data(vocab.to_data()), pickle.loads(pickle.dumps(vocab))):
        assert again == vocab
        assert (again.name, again.digest) == (vocab.name, vocab.digest)


def test_vocabularies_are_found_by_digest():
    mine = Vocab("zyx")
    assert find_vocab(mine.digest) == mine
    assert find_vocab("00000000") is None
    assert find_vocab(mine.digest, [mine]) is mine
    named = Vocab("zyx", name="named")
    assert find_vocab(mine.digest, [mine, named], name="named") is named
    assert find_vocab(mine.digest, [mine, named], name="other") is mine


def test_at_least_prints_its_vocabulary():
    assert str(AtLeast(AB)) == f"at_least({AB})"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Vocab(""), "at least one label"),
        (lambda: Vocab("aba"), "label 'a' twice"),
        (lambda: Vocab(["a", 1]), "label 1 of the vocabulary is 1"),
        (lambda: Vocab("ab", name="a b"), "cannot name a vocabulary"),
        (lambda: Vocab("ab", blank=2), "blank=2 is not in this vocabulary"),
        (lambda: Vocab("ab", blank=-1), "blank=-1"),
        (lambda: Vocab("ab", pad="x"), "pad='x'"),
        (lambda: Vocab("ab", unit="byte"), "'char', 'word' or 'piece'"),
        (lambda: Vocab.from_data({"labels": "ab", "blnk": 1}), "(?s)has no 'blnk'.*did you mean 'blank'"),
        (lambda: Vocab.from_data({"name": "x"}), "needs labels"),
    ],
)
def test_wrong_vocabularies_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize("labels", [{"a": 1, "b": 0}, {"a", "b"}, frozenset("ab"), None, 5])
def test_labels_without_an_order_are_refused(labels: Any) -> None:
    with pytest.raises(ConfigError, match="come in order, as a text or a list") as caught:
        Vocab(labels)
    assert caught.value.code == "vocab"


def test_a_dict_of_indices_is_told_how_to_be_put_in_order() -> None:
    indices: Any = {"a": 1, "b": 0}
    with pytest.raises(ConfigError) as caught:
        Vocab(indices)
    assert caught.value.fixes[0].text.startswith("sorted(labels, key=labels.get)")
    assert Vocab(sorted(indices, key=indices.get)).labels == ("b", "a")


def test_a_label_that_is_no_text_is_refused_whatever_it_is() -> None:
    with pytest.raises(ConfigError, match=r"label 0 of the vocabulary is \['a'\], not a text"):
        Vocab([["a"]])  # type: ignore[list-item]


@pytest.mark.parametrize("pad", [0.5, 0.0, True, [0], -1, "z"])
def test_a_role_is_the_index_of_a_label(pad: Any) -> None:
    with pytest.raises(ConfigError, match="is not in this vocabulary of 2 labels"):
        Vocab("ab", pad=pad)


def test_a_name_that_is_no_text_is_refused() -> None:
    name: Any = 5
    with pytest.raises(ConfigError, match="5 cannot name a vocabulary"):
        Vocab("ab", name=name)


def test_the_same_labels_for_another_unit_are_told_apart() -> None:
    sentence = Vocab("ab").difference(Vocab("ab", unit="word")).sentence
    assert sentence == "the same 2 labels for another unit: char there, word here"


def test_at_least_takes_a_vocabulary_only() -> None:
    nothing: Any = None
    with pytest.raises(ConfigError, match="AtLeast takes a Vocab, not None"):
        AtLeast(nothing)


def test_an_unknown_key_that_is_no_text_is_refused() -> None:
    data: Any = {"labels": "ab", 5: 1}
    with pytest.raises(ConfigError, match="a vocabulary has no 5"):
        Vocab.from_data(data)


@pytest.mark.parametrize(
    ("there", "here", "sentence"),
    [
        (
            Vocab("ab").with_blank(),
            Vocab("ab").with_blank("start"),
            "the same 3 labels, but the blank is last there and first here",
        ),
        (
            Vocab("pacbd", pad="p"),
            Vocab("acpbd", pad="p"),
            "the same 5 labels, but the pad is first there and at index 2 here",
        ),
        (
            Vocab("pea", pad="p", eos="e"),
            Vocab("epa", pad="p", eos="e"),
            "the same 3 labels, but the pad is first there and at index 1 here, "
            "the eos is at index 1 there and first here",
        ),
        (
            Vocab("abx", blank="x"),
            Vocab("bax", blank="x"),
            "the same 3 labels in another order, first difference at index 0: 'a' there, 'b' here",
        ),
        (
            Vocab("xab", blank="x"),
            Vocab("abx"),
            "the same 3 labels in another order, first difference at index 0: 'x' there, 'a' here",
        ),
    ],
)
def test_roles_that_moved_are_named(there: Vocab, here: Vocab, sentence: str) -> None:
    assert there.difference(here).sentence == sentence
