from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from tests.types.strategies import DialectMel, elements

from neumo.types import (
    Any_,
    Audio,
    B,
    ConfigError,
    Element,
    F,
    Features,
    Ids,
    Lengths,
    LogProbs,
    Loss,
    Mask,
    Mel,
    Size,
    T,
    Text,
    Var,
    Vocab,
    element_class,
    facet,
    facets_of,
)

AB = Vocab("ab", name="two")


@dataclass(frozen=True)
class Tone(Features):
    """An element of a user, with every kind of facet."""

    unit: str | None = facet("hz", severity="should")
    of: Size | None = facet(kind="size")  # noqa: RUF009


def test_the_first_argument_is_the_natural_one():
    assert LogProbs(AB).vocab == AB
    assert Ids(AB).vocab == AB
    assert Lengths(T).of == T.size
    assert Lengths(7).of == 7
    assert Mask(T, true="keep").true == "keep"
    assert Text("bert").space == "bert"
    assert Audio(16000).rate == 16000


def test_indexing_with_axes_makes_a_type():
    assert Loss()[()].axes == ()
    assert Lengths(T)[B].axes == (B,)
    assert Audio()[B, T].axes == (B, T)
    assert Ids().optional()[B].optional
    assert Ids().optional()[B, T].axes == (B, T)
    assert Loss().many()[()].many
    assert Ids().only("train")[B, T].when == "train"


def test_what_a_port_is_for_can_be_said_in_any_order():
    for wrapped in (
        Ids().optional().many().only("train"),
        Ids().only("train").many().optional(),
        Ids().many().optional().only("train"),
    ):
        assert wrapped[B, T] == Ids()[B, T].as_optional().as_many().only("train")


def test_a_port_of_training_differs_from_one_of_every_mode():
    always, training = Ids()[B, T], Ids()[B, T].only("train")
    assert training != always
    assert hash(training) != hash(always)
    assert training.only(None) == always


def test_copies_of_a_type_of_training_stay_in_training():
    t = Ids()[B, T].only("train")
    copies = [
        t.as_optional(),
        t.as_required(),
        t.as_many(),
        t.as_single(),
        t.with_element(Loss()),
        t.with_axes(B),
        t.map_axes(lambda axis: B),
        t.fresh(),
        t.substitute({T.symbol: Size.of(7)}),
        pickle.loads(pickle.dumps(t)),
    ]
    assert [copy.when for copy in copies] == ["train"] * len(copies)


def test_a_mode_that_there_is_not_is_refused():
    test: Any = "test"
    with pytest.raises(ConfigError, match="not when 'test'") as caught:
        Loss()[()].only(test)
    assert caught.value.code == "when"


def test_facets_are_inherited():
    assert list(facets_of(DialectMel))[:3] == ["rate", "hop", "n_fft"]
    assert list(facets_of(DialectMel))[-1] == "dialect"
    assert facets_of(Mel)["floor"].severity == "must"
    assert facets_of(Mel)["window"].severity == "should"
    assert facets_of(Tone)["unit"].severity == "should"
    assert str(Tone(unit="mel")) == repr(Tone(unit="mel")) == "Tone(unit=mel)"


def test_the_class_of_numbers():
    assert (Audio().dtype, Ids().dtype, Mask().dtype, Any_().dtype) == ("float", "int", "bool", "any")
    assert Lengths(T).dtype == "int"
    assert Lengths(T, unit="fraction").dtype == "float"


def test_variables_and_sizes_of_an_element():
    assert Audio(rate=Var("rate"), peak=1.0).variables() == (Var("rate"),)
    assert Lengths(T // 2).sizes() == (T.size // 2,)
    assert Lengths(Var("n")).sizes() == ()
    assert Audio().sizes() == ()
    assert Var("x").fresh(rigid=True, owner="Me") != Var("x")


@given(elements())
def test_elements_survive_pickling(element):
    again = pickle.loads(pickle.dumps(element))
    assert again == element
    assert hash(again) == hash(element)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ids("ab"), "Ids takes a Vocab for vocab, not 'ab'"),
        (lambda: Audio(rate=[1]), r"Audio.rate cannot be \[1\]"),
        (lambda: Lengths("T"), "'T' is not a size"),
        (lambda: element_class("Mell"), "(?s)there is no element 'Mell'.*did you mean 'Mel'"),
        (lambda: Audio()[B, 3], "3 is not an axis of Audio"),
        (lambda: Audio()[B.list, T], r"(?s)is not an axis of Audio.*call it: B\.list\(\)"),
    ],
)
def test_wrong_elements_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_an_element_cannot_take_a_name_of_neumo():
    with pytest.raises(ConfigError, match=r"there already is an element 'Mel' in neumo\.types\.element"):
        type("Mel", (Element,), {})


def test_defining_an_element_again_replaces_it():
    first = type("Again", (Features,), {})
    second = type("Again", (Features,), {})
    assert first is not second
    assert element_class("Again") is second


def test_a_print_of_ones_own_is_kept():
    own = type("Shy", (Features,), {"__repr__": lambda self: "shy"})
    assert repr(own()) == "shy"


def test_types_copy_themselves_with_changes():
    mel = Mel(n_mels=64)[B, F(64), T]
    assert mel.rank == 3
    assert mel.as_optional().optional
    assert not mel.as_optional().as_required().optional
    assert mel.as_many().many
    assert not mel.as_many().as_single().many
    assert mel.with_element(Mel()) == Mel()[B, F(64), T]
    assert mel.with_axes(T, B) == Mel(n_mels=64)[T, B]
    assert mel.map_axes(lambda axis: T) == Mel(n_mels=64)[T, T, T]
    assert hash(mel) == hash(Mel(n_mels=64)[B, F(64), T])
    assert mel != "Mel"
    assert mel == mel


def test_types_survive_pickling():
    t = Mel(n_mels=64).optional()[B, F(64), T // 2]
    again = pickle.loads(pickle.dumps(t))
    assert again == t
    assert hash(again) == hash(t) == hash(t)


def test_substitution_and_fresh_copies_of_a_type():
    lengths = Lengths(T)[B]
    assert str(lengths.substitute({T.symbol: Size.of(7)})) == "Lengths(7)[B]"
    audio = Audio(rate=Var("rate"), peak=Var("peak"))[B, T]
    assert audio.substitute({}, {Var("rate"): 8000}) == Audio(rate=8000, peak=Var("peak"))[B, T]
    assert audio.substitute({}, {Var("other"): 8000}) is audio
    assert str(audio.fresh("Me")) == str(audio)
    assert audio.fresh("Me") != audio
    assert audio.fresh().element.variables() != audio.element.variables()
    assert Audio()[B].substitute({B.symbol: Size.of(2)}).element is not None
    assert Lengths(3)[B].substitute({B.symbol: Size.of(2)}) == Lengths(3)[B(2)]


@given(elements())
def test_hidden_facets_are_left_out_of_the_print(element):
    assert Audio()[()].text(facets=frozenset()) == "Audio[]"
    assert element[()].text(facets=frozenset()) == f"{element.label}[]"


def test_a_class_with_axes_is_told_the_parentheses() -> None:
    bare: Any = Audio
    with pytest.raises(ConfigError, match=r"write Audio\(\) before the bracket"):
        bare[B, T]


@pytest.mark.parametrize(
    "make", [lambda: Mask(T, true="perhaps"), lambda: Mask(T, true=True), lambda: Lengths(T, unit="apples")]
)
def test_a_mask_or_length_that_means_nothing_is_refused(make):
    with pytest.raises(ConfigError, match="or"):
        make()
