from __future__ import annotations

import random
import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from tests.types.strategies import elements, types

from neumo.types import (
    ANY,
    ONE,
    Acoustic,
    Any_,
    AtLeast,
    Audio,
    B,
    C,
    ConfigError,
    F,
    H,
    Ids,
    Lengths,
    LogProbs,
    Loss,
    Mask,
    Mel,
    Strings,
    Struct,
    Symbol,
    T,
    Text,
    U,
    V,
    Values,
    Var,
    Vocab,
    W,
    parse,
    parse_element,
    parse_size,
)

EN = Vocab.english()
LETTERS = {"letters": EN, "de": Vocab("abc", name="de")}


@given(types())
def test_printed_types_read_back(t):
    again = parse(str(t))
    assert again == t
    assert str(again) == str(t)


@given(elements())
def test_printed_elements_read_back(element):
    assert parse_element(str(element)) == element


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (
            Mel(rate=16000, hop=160, n_mels=64)[B, F(64), T // 160 + 1],
            "Mel(rate=16000, hop=160, n_mels=64)[B, F=64, T//160 + 1]",
        ),
        (Lengths(T.ceildiv(2))[B], "Lengths(ceil(T/2))[B]"),
        (Mask(T, true="keep")[B, T], "Mask(T, true=keep)[B, T]"),
        (Lengths(unit=None)[B], "Lengths(unit=None)[B]"),
        (Lengths(T, unit="fraction")[B], "Lengths(T, unit=fraction)[B]"),
        (Ids(EN)[B, U], "Ids(en[28]#c4af7923)[B, U]"),
        (Ids(EN, frame="bos..eos", pad=-100)[B, U], "Ids(en[28]#c4af7923, pad=-100, frame=bos..eos)[B, U]"),
        (Ids(frame="bos..")[B, U], "Ids(frame=bos..)[B, U]"),
        (Ids(AtLeast(EN))[B, U], "Ids(at_least(en[28]#c4af7923))[B, U]"),
        (LogProbs(EN)[B, T, V(EN)], "LogProbs(en[28]#c4af7923)[B, T, V=en[28]#c4af7923]"),
        (Ids().optional()[B, T], "Ids?[B, T]"),
        (Ids(EN).optional()[B, T], "Ids(en[28]#c4af7923)?[B, T]"),
        (Loss().many()[()], "Loss*[]"),
        (Loss()[()].as_many().as_optional(), "Loss?*[]"),
        (Acoustic()[B, F(256), T.ceildiv(2).at(50)], "Acoustic[B, F=256, ceil(T/2) at 50 Hz]"),
        (Acoustic()[T.at(Fraction(22050, 256))], "Acoustic[T at 11025/128 Hz]"),
        (Acoustic()[T(500).at(50), T(None).at(50)], "Acoustic[T=500 at 50 Hz, T=? at 50 Hz]"),
        (Mel(rate=16000, hop=160)[T.at(100)], "Mel(rate=16000, hop=160)[T]"),
        (Strings()[B.list()], "Strings[list B]"),
        (Ids()[B.list(), U.list().at(50), T], "Ids[list B, list U at 50 Hz, T]"),
        (Ids()[B("list").list()], "Ids[list B=list]"),
        (
            Struct(text=Ids(EN)[B, U], score=Values()[B])[()],
            "Struct(text=Ids(en[28]#c4af7923)[B, U], score=Values[B])[]",
        ),
        (
            Struct(best=Struct(text=Ids()[B].as_optional())[B])[B.list()].only("train"),
            "Struct(best=Struct(text=Ids?[B])[B])[list B] when train",
        ),
        (Any_()[B, F(C * H * W)], "Any[B, F=C*H*W]"),
        (Ids(EN).only("train")[B, U], "Ids(en[28]#c4af7923)[B, U] when train"),
        (Ids().optional().many().only("train")[B, U], "Ids?*[B, U] when train"),
        (Loss().only("train")[()], "Loss[] when train"),
        (Audio(rate=Var("rate"))[B, T(None)], "Audio(rate=$rate)[B, T=?]"),
        (Text("bert")[B, T, F("D")], "Text(bert)[B, T, F=D]"),
        (Text("my model")[B], 'Text("my model")[B]'),
        (Mel(center=True, floor=1e-5)[B, ONE, ANY], "Mel(floor=1e-05, center=True)[B, 1, X]"),
        (Mel(norm="1")[B], 'Mel(norm="1")[B]'),
        (Mel(scale="True")[B], 'Mel(scale="True")[B]'),
        (Mel(fmax=float("inf"), fmin=float("-inf"))[B], "Mel(fmin=-inf, fmax=inf)[B]"),
    ],
)
def test_the_printed_form(t, text):
    assert str(t) == repr(t) == text
    assert parse(text) == t


@pytest.mark.parametrize(
    ("text", "t"),
    [
        ("Mel(n_mels=64)[B, F(64), T]", Mel(n_mels=64)[B, F(64), T]),
        ("Mel( n_mels = 64 )[ B,F=64 ,T ]", Mel(n_mels=64)[B, F(64), T]),
        ("Audio(16000)[B, T]", Audio(rate=16000)[B, T]),
        ("Audio(16000, 1.0)[B, T]", Audio(rate=16000, peak=1.0)[B, T]),
        ("Mask(T, true='keep')[B, T]", Mask(T, true="keep")[B, T]),
        ("Text('it\\'s \"it\"')[B]", Text('it\'s "it"')[B]),
        ("Ids(letters)[B, U]", Ids(EN)[B, U]),
        ("Ids(letters+blank)[B, U]", Ids(EN.with_blank())[B, U]),
        ("Ids(blank+letters)[B, U]", Ids(EN.with_blank("start"))[B, U]),
        ("Ids(letters+ends)[B, U]", Ids(EN.with_ends())[B, U]),
        ("Ids(vocab=letters)[B, U]", Ids(EN)[B, U]),
        ("Ids(at_least(at_least(de)))[B, U]", Ids(AtLeast(LETTERS["de"]))[B, U]),
        ("LogProbs[B, V=letters]", LogProbs()[B, V(EN)]),
        ("LogProbs[B, V(letters+blank)]", LogProbs()[B, V(EN.with_blank())]),
        ("LogProbs[B, V=blank+letters]", LogProbs()[B, V(EN.with_blank("start"))]),
        ("LogProbs[B, V=29]", LogProbs()[B, V(29)]),
        ("LogProbs[B, V=labels]", LogProbs()[B, V("labels")]),
        ("Audio()[B, ?]", Audio()[B, ANY(None)]),
        ("Audio[B, T(?)]", Audio()[B, T(None)]),
        ("Audio[B, floor((T+1)/2)]", Audio()[B, T.ceildiv(2)]),
        ("Audio[B, 2*(T//2) - 1]", Audio()[B, T // 2 * 2 - 1]),
        ("Audio[B@SpeechData]", Audio()[B(Symbol("B", owner="SpeechData"))]),
        ("Mel(fmin=-1.5, fmax=.5, floor=1e-5)[B]", Mel(fmin=-1.5, fmax=0.5, floor=1e-5)[B]),
        ("Loss[]", Loss()[()]),
        ("Acoustic[T at 12.5 Hz]", Acoustic()[T.at(12.5)]),
        ("Acoustic[ T  at  11025 / 128  Hz ]", Acoustic()[T.at(Fraction(11025, 128))]),
        ("Mel(rate=16000, hop=160)[T at 100 Hz]", Mel(rate=16000, hop=160)[T]),
        ("Struct( text = Ids[B] , )[]".replace(" , ", ""), Struct(text=Ids()[B])[()]),
    ],
)
def test_what_people_may_write(text, t):
    assert parse(text, names=LETTERS) == t


def test_the_names_come_before_the_vocabularies_of_the_process():
    mine = Vocab(EN.labels, name="mine")
    assert parse("Ids(en[28]#c4af7923)[B]", names={"x": mine}).element.vocab is mine


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the name of an element here"),
        ("3[B]", "expected the name of an element here"),
        ("Mell[B]", "there is no element 'Mell'.*did you mean 'Mel'"),
        ("Mel[B", r"expected ',' here"),
        ("Mel", r"expected '\[' here"),
        ("Mel[B] x", "nothing may follow here"),
        ("Mel[B] when", "expected 'train' here"),
        ("Mel[B] when test", "expected 'train' here"),
        ("Mel[B] when train x", "nothing may follow here"),
        ("Mel[B];", "unexpected character here"),
        ("Mel(n_mel=3)[B]", "Mel has no facet 'n_mel'.*did you mean 'n_mels'"),
        ("Mel(rate=1, rate=2)[B]", "rate is given twice"),
        ("Mel(rate=1 hop=2)[B]", r"expected ',' here"),
        ("Mel(rate=", "expected a number, a word or a quoted text here"),
        ("Mel(rate=)[B]", "expected a number, a word or a quoted text here"),
        ("Mel(rate=inf, hop=*)[B]", "expected a number"),
        ("Mel(rate=$)[B]", "expected a word here"),
        ('Text("\\x")[B]', "is not a text that can be read"),
        ("Text(a, b)[B]", "Text takes 1 facets"),
        ("Mel[64]", "the kind of the axis 64 is not clear.*F=64 for a feature axis"),
        ("Mel[width]", "the kind of the axis width is not clear"),
        ("Mel[B, F=3 - 5]", "an axis cannot have the size -2"),
        ("Mel[B, -T - 1]", "an axis cannot have the size -T - 1"),
        ("Mel[T at]", "expected a number of ticks per second here"),
        ("Mel[T at x Hz]", "expected a number of ticks per second here"),
        ("Mel[T at 50]", "expected 'Hz' here"),
        ("Mel[T at 50/0 Hz]", "expected a whole number above 0 here"),
        ("Mel[T at 0 Hz]", "a clock is a number of ticks per second above 0"),
        ("Mel[B at 50 Hz]", "only a time axis has a clock, B is none"),
        ("Mel[list]", "the kind of the axis list is not clear"),
        ("Mel[list, B]", "the kind of the axis list is not clear"),
        ("Struct(a=Mel[B], a=Mel[B])[]", "expected the name of a field here, each once"),
        ("Struct(Mel[B])[]", "expected the name of a field here, each once"),
        ("Struct(a=Mel[B] b=Mel[B])[]", "expected ',' here"),
        ("Struct(a=Mel)[]", r"expected '\[' here"),
        ("Mel[T//0]", "expected a whole number above 0 here"),
        ("Mel[T//U]", "expected a whole number above 0 here"),
        ("Mel[F(64]", r"expected '\)' here"),
        ("Mel[F=]", "expected a size here"),
        ("Ids(3)[B]", "expected a vocabulary here"),
        ("Ids(leters)[B]", "no vocabulary is called 'leters'.*did you mean 'letters'"),
        ("Ids(de+letters)[B]", "only a blank or the ends can be added"),
        ("Ids(xx[3]#01234567)[B]", "no vocabulary with the digest 01234567 is known.*pass it: parse"),
        ("Ids(at_least)[B]", "no vocabulary is called 'at_least'"),
        ("Ids(at_least(de)[B]", "expected ',' here"),
        ("Mel[ceil(T)]", "expected '/' here"),
        ("Mel[V=at_least(letters)]", r"expected ',' here"),
    ],
)
def test_what_cannot_be_read_is_pointed_at(text, message):
    with pytest.raises(ConfigError) as caught:
        parse(text, names=LETTERS)
    assert re.search(message, " ".join(str(caught.value).split()))
    assert all(len(line) <= 100 for line in str(caught.value).splitlines())


def test_the_caret_stands_under_the_place():
    with pytest.raises(ConfigError) as caught:
        parse("Mel[B, 64, T]")
    assert str(caught.value).splitlines()[2:4] == ["    Mel[B, 64, T]", "           ^"]


def test_sizes_of_their_own():
    assert parse_size("-T + 3") == 3 - T.size
    assert parse_size("(T + 1)*2") == 2 * T.size + 2
    with pytest.raises(ConfigError, match="nothing may follow"):
        parse_size("T T")


@pytest.mark.parametrize(
    "text",
    [
        "Lengths(" + "(" * 5000,
        "Lengths(" + "ceil(" * 3000,
        "Any[" + "(" * 5000 + "T" + ")" * 5000 + "]",
        "Ids(" + "at_least(" * 4000,
    ],
)
def test_a_text_that_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="nested too deeply") as caught:
        parse(text)
    assert caught.value.code == "notation"
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", [None, 5, b"Any[]", ["Any[]"]])
def test_what_is_no_text_is_refused(text: Any) -> None:
    with pytest.raises(ConfigError, match="a type is read from a text, not from"):
        parse(text)


def test_two_thousand_mutations_give_a_type_or_a_config_error() -> None:
    draw = random.Random(7)
    seeds = [
        "Mel(rate=16000, n_mels=64)[B, F=64, T//160 + 1]",
        "Lengths(ceil((T - 3)/2)*4)[B]",
        "Ids(at_least(letters+blank), pad=-100, frame=bos..eos)?[B, U']",
        "Audio(rate=$rate, peak=1e-05)*[B, T=?]",
        "Logits(letters, over='x')[B, V=letters]",
    ]
    pieces = [
        *"()[],=+-*/?$#@'\"\\ .09eTBFX\u00e9\u6f22\n\0",
        "ceil(",
        "None",
        "nan",
        "1e999",
        "9" * 50,
        "\u00b2",
    ]
    names = {"letters": Vocab("ab", name="letters")}
    read = 0
    for _ in range(2000):
        text = draw.choice(seeds)
        for _ in range(draw.choice([1, 1, 2, 4])):
            start = draw.randrange(len(text) + 1)
            text = text[:start] + draw.choice([*pieces, ""]) + text[start + draw.randrange(3) :]
        try:
            str(parse(text, names))
            read += 1
        except ConfigError as error:
            error.render()
    assert read > 50


def test_dots_stand_for_facets_that_are_left_out() -> None:
    mel = Mel(rate=16000, hop=160, n_mels=64)[B, F(64), T]
    assert mel.text(facets=frozenset({"hop", "..."})) == "Mel(hop=160, ...)[B, F=64, T]"
    assert mel.text(facets=frozenset({"..."})) == "Mel(...)[B, F=64, T]"
    assert mel.text(facets=frozenset({"rate", "hop", "n_mels", "..."})) == str(mel)
