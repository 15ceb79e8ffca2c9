"""What the neural types of 2019 did, as neumo does it: kept, or changed where the test says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    ANY,
    ONE,
    Acoustic,
    Any_,
    Audio,
    B,
    ConfigError,
    F,
    H,
    Ids,
    Kind,
    Loss,
    Mel,
    NeuralType,
    Outcome,
    PortError,
    Score,
    Spectrogram,
    Struct,
    Symbol,
    T,
    Text,
    Var,
    W,
    compare,
    kind_of_name,
    parse,
)

N = T(Symbol("T9", 1, True, "SpeechData"))
FITS = (Outcome.SAME, Outcome.SUBTYPE, Outcome.BOUND)


def codes(wanted: NeuralType, given: NeuralType) -> list[str]:
    return [reason.code for reason in compare(wanted, given).reasons]


def both_ways(one: NeuralType, two: NeuralType) -> list[list[str]]:
    return [codes(one, two), codes(two, one)]


# spelling


@pytest.mark.parametrize(("short", "long"), [("T", "T(T)"), ("F=64", "F(64)"), ("C", "F=C"), ("U", "T=U")])
def test_a_short_and_a_long_spelling_of_an_axis_are_the_same(short: str, long: str) -> None:
    one, two = parse(f"Audio[B, {short}]"), parse(f"Audio[B, {long}]")
    assert one == two
    assert compare(one, two).outcome is compare(two, one).outcome is Outcome.SAME


def test_an_axis_that_there_is_not_is_refused() -> None:
    """Kinds of axes are a closed set: an axis of one's own has a name, `F("speakers")`, and a kind."""
    assert kind_of_name("Q") is None
    with pytest.raises(ConfigError, match="the kind of the axis Q is not clear"):
        parse("Audio[B, Q]")
    assert F("speakers").kind is Kind.FEATURE


# parameters of a type


def test_equal_rates_fit_and_others_do_not() -> None:
    slow, fast = Audio(rate=8000)[B, T], Audio(rate=16000)[B, T]
    assert both_ways(slow, fast) == [["facet"], ["facet"]]
    assert compare(slow, Audio(rate=8000)[B, T]).outcome is Outcome.SAME


# order of axes


@pytest.mark.parametrize("make", [lambda *axes: Mel()[axes], lambda *axes: Any_()[axes]])
def test_axes_in_another_order_are_refused_both_ways(make: Callable[..., NeuralType]) -> None:
    wanted, given = make(B, F, T), make(B, T, F)
    for one, two in ((wanted, given), (given, wanted)):
        (reason,) = compare(one, two).reasons
        assert (reason.code, reason.sentence) == ("axes", "the same axes in another order")


def test_duplicate_kinds_are_compared_position_by_position() -> None:
    """Differs: in 2019 the sizes were kept by kind, so that one of two time axes was not compared at all."""
    wanted = Acoustic()[B, T(3), T(4)]
    assert compare(wanted, Acoustic()[B, T(3), T(4)]).outcome is Outcome.SAME
    assert codes(wanted, Acoustic()[B, T(4), T(3)]) == ["size", "size"]
    assert codes(wanted, Acoustic()[B, T(5), T(4)]) == ["size"]


# general and specific


def test_a_general_port_takes_a_specific_value_and_not_the_reverse() -> None:
    """One doctrine: a port takes what it names and every case of it; siblings are two things."""
    general, specific = Spectrogram()[B, F, T], Mel()[B, F, T]
    assert compare(general, specific).outcome is Outcome.SUBTYPE
    assert codes(specific, general) == ["general"]
    assert both_ways(Acoustic()[B, F, T], Text()[B, F, T]) == [["element"], ["element"]]
    assert both_ways(Audio()[B, T], Ids()[B, T]) == [["element"], ["element"]]


def test_two_types_without_axes_are_the_same() -> None:
    assert compare(Loss()[()], Loss()[()]).outcome is Outcome.SAME
    assert codes(Loss()[()], Loss()[B]) == ["axes"]
    assert codes(Loss()[B], Loss()[()]) == ["axes"]


# lists


def test_a_list_of_tensors_is_not_one_tensor() -> None:
    """Differs: in 2019 the two counted as transposed. They are told apart, and their sizes still compared."""
    nested, tensor = Acoustic()[B.list(), T, F(64)], Acoustic()[B, T, F(64)]
    assert both_ways(nested, tensor) == [["list"], ["list"]]
    assert codes(nested, Acoustic()[B, T, F(80)]) == ["list", "size"]


def test_list_axes_come_before_those_of_a_tensor() -> None:
    with pytest.raises(ConfigError) as caught:
        Acoustic()[T, B.list()]
    assert caught.value.code == "list"


# anything


@pytest.mark.parametrize("given", [Audio()[B, N], Ids()[B, N], Struct(x=Score()[B])[B, N]])
def test_a_port_for_anything_takes_every_element_of_its_rank(given: NeuralType) -> None:
    port = Any_()[B, ANY]
    assert compare(port, given).outcome in FITS
    assert codes(port, Any_()[B]) == ["axes"]
    assert codes(port, Audio()[B, N, F(1)]) == ["axes"]


def test_a_value_of_any_kind_feeds_no_port_that_names_one() -> None:
    assert codes(Audio()[B, T], Any_()[B, T]) == ["general"]
    assert compare(Any_()[B, T], Any_()[B, T]).outcome is Outcome.SAME


def test_a_port_for_anything_states_its_rank() -> None:
    """Differs: no axes means a scalar, not any axes. A module for values of every rank states its ports from
    what is connected (`signature_for`), so that what it gives is known too.
    """
    assert compare(Any_()[()], Loss()[()]).outcome is Outcome.SAME
    assert codes(Any_()[()], Audio()[B, T]) == ["axes"]


def test_any_axis_fits_a_port_that_takes_any() -> None:
    port = Acoustic()[B, ANY]
    for axis in (N, F(64), H, W, ANY):
        assert compare(port, Acoustic()[B, axis]).outcome in FITS
    assert codes(port, Acoustic()[B]) == ["axes"]
    assert codes(port, Acoustic()[T, ANY]) == ["axes"]


def test_an_axis_of_any_kind_is_no_reason_to_forget_another() -> None:
    """Differs: in 2019 an `Any` axis cleared the mismatches of the axes before it, so that ('T', 'Any') took
    ('B', x).
    """
    assert codes(Acoustic()[T, ANY], Acoustic()[B, F(3)]) == ["axes"]
    assert codes(Acoustic()[B(2), ANY, F(3)], Acoustic()[B(4), T(1), F(5)]) == ["batch", "size"]


def test_an_axis_of_unknown_kind_is_taken_on_trust() -> None:
    """Differs: in 2019 a named axis refused an `Any` one. Types are gradual here: what is not known is
    accepted, written down, and checked when the graph runs.
    """
    found = compare(Acoustic()[B, F(64)], Acoustic()[B, ANY(64)])
    assert found.outcome is Outcome.ASSUMED
    assert [str(each) for each in found.obligations] == ["kind = F"]


# sizes


def test_a_port_of_any_size_takes_a_fixed_one() -> None:
    assert compare(Mel()[B, F, T], Mel()[B, F(64), T(100)]).outcome is Outcome.BOUND
    assert compare(Mel()[B, F(None), T], Mel()[B, F(64), T]).outcome in FITS


def test_a_port_of_a_fixed_size_refuses_one_that_changes() -> None:
    assert codes(Mel()[B, F(64), T], Mel()[B, F(Symbol("F", 3, True)), T]) == ["size"]
    assert codes(Mel()[B, F(64), T], Mel()[B, F(80), T]) == ["size"]


def test_a_size_that_nobody_stated_is_taken_on_trust() -> None:
    """Differs: in 2019 a port that states a size refused a value that does not. Here `?` is gradual."""
    found = compare(Mel()[B, F(64), T], Mel()[B, F(None), T])
    assert found.outcome is Outcome.ASSUMED
    assert [str(each) for each in found.obligations] == ["F = 64"]


def test_one_is_not_any_number() -> None:
    assert codes(Acoustic()[B, ONE], Acoustic()[B, T]) == ["axes"]


# structs


class Box(Struct):
    """A struct of a user: where a face is in a picture."""

    corner = Score()[B, F(2)]
    extent = Score()[B, F(2)]


class Word(Struct):
    """Another one: a word and when it was said."""

    text = Ids()[B, T]
    start = Score()[B]


def test_structs_of_users_with_other_fields_are_two_things() -> None:
    """Differs: in 2019 two bound methods were compared where the fields were meant, so that no two structs
    were ever equal, and kinds of axes could be a user's own. Here fields are types, and are compared.
    """
    assert both_ways(Box()[B.list()], Word()[B.list()]) == [["element"], ["element"]]
    assert compare(Word()[B.list()], Word()[B.list()]).outcome is Outcome.SAME
    assert both_ways(Struct(a=Score()[B])[()], Struct(b=Score()[B])[()]) == [["fields"], ["fields"]]
    assert codes(Word()[()], Word(text=Ids()[B, T(7)])[()]) == []
    assert codes(Struct(a=Score()[B, F(2)])[()], Struct(a=Score()[B, F(3)])[()]) == ["size"]


# wiring


@dataclass(frozen=True)
class CurvePoints(NeuralModule):
    """Gives numbers and what a function makes of them."""

    role: ClassVar[Any] = "data"

    def signature(self) -> Signature:
        """State the ports."""
        return Signature(gives={"x": Acoustic()[B, F(1)], "y": Acoustic()[B, F(1)]})


@dataclass(frozen=True)
class Affine(NeuralModule):
    """Fits them."""

    def signature(self) -> Signature:
        """State the ports."""
        return Signature(takes={"x": Acoustic()[B, F]}, gives={"y": Acoustic()[B, F]})


@dataclass(frozen=True)
class Squares(NeuralModule):
    """Measures how well."""

    def signature(self) -> Signature:
        """State the ports."""
        return Signature(
            takes={"y": Acoustic()[B, F], "target": Acoustic()[B, F]}, gives={"loss": Loss()[()]}
        )


def test_data_a_model_and_a_loss_can_be_wired_and_a_loss_feeds_no_model() -> None:
    points, line, squares = CurvePoints(), Affine(), Squares()
    batch = points()
    loss = squares(y=line(x=batch.x).y, target=batch.y).loss
    assert str(loss.type) == "Loss[]"
    with pytest.raises(
        PortError, match=r"Squares\.loss cannot feed Affine\.x: Loss is not Acoustic"
    ) as caught:
        line(x=loss)
    assert caught.value.code == "element"


def test_a_facet_that_is_taken_as_it_comes_is_given_on() -> None:
    """The tags of 2019 could be inferred for the outputs of a combining module; a variable does it here."""

    @dataclass(frozen=True)
    class Louder(NeuralModule):
        def signature(self) -> Signature:
            audio = Audio(rate=Var("rate"))[B, T]
            return Signature(takes={"audio": audio}, gives={"audio": audio})

    louder = Louder()(audio=inputs(audio=Audio(rate=8000)[B, T]).audio)
    assert str(louder.audio.type) == "Audio(rate=8000)[B, T]"
