"""The elements of single fields, each with the wrong connection that it is there to refuse."""

from __future__ import annotations

from typing import Any

import pytest

from neumo.types import (
    Alignment,
    B,
    C,
    ConfigError,
    DialogueState,
    Durations,
    F,
    Features,
    H,
    Hypotheses,
    Ids,
    Image,
    Latent,
    Lengths,
    LogDet,
    Loss,
    Mel,
    Outcome,
    Pitch,
    Positions,
    Scorer,
    Speaker,
    State,
    Strings,
    Symbol,
    T,
    U,
    Values,
    Var,
    Vocab,
    W,
    compare,
    parse,
)

SLOTS = Vocab(["hotel", "taxi"], name="slots")
OTHER_SLOTS = Vocab(["taxi", "hotel"], name="slots")
N = T(Symbol("T9", 1, True))
M = U(Symbol("U9", 2, True))


@pytest.mark.parametrize(
    ("wanted", "given_type", "sentence"),
    [
        # a search that was made for labels without ends, asking a decoder that ends with <eos>
        (Scorer(SLOTS)[B], Scorer(SLOTS.with_ends())[B],
         "the wanted 2 labels and 2 more behind them: '<bos>', '<eos>'"),
        # transcripts as they are written against texts as they are spoken: every figure counts as an error
        (Strings(form="spoken")[B], Strings(form="written")[B], "form is written, not spoken"),
        (Strings(form="graphemes")[B], Strings(form="phonemes")[B], "form is phonemes, not graphemes"),
        (Strings(language="de")[B], Strings(language="en")[B], "language is en, not de"),
        (Strings(by="user")[B], Strings(by="system")[B], "by is system, not user"),
        (Values("seconds")[B], Values("frames")[B], "unit is frames, not seconds"),
        (Values(norm="z")[B], Values(norm="minmax")[B], "norm is minmax, not z"),
        # answers found in tokens, read as positions in frames
        (Positions(N)[B], Positions(M)[B], "U9 and T9 need not be equal"),
        (Positions(N)[B], Lengths(N)[B], "Lengths is not Positions"),
        (Image(channels="rgb")[B, C, H, W], Image(channels="bgr")[B, C, H, W], "channels is bgr, not rgb"),
        (Image(peak=1.0)[B, C, H, W], Image(peak=255.0)[B, C, H, W], "peak is 255.0, not 1.0"),
        (Image(norm="imagenet")[B, C, H, W], Image(norm="none")[B, C, H, W], 'norm is none, not imagenet'),
        (Pitch(unit="hz")[B, T], Pitch(unit="ln_hz")[B, T], "unit is ln_hz, not hz"),
        (Pitch(norm="per_speaker")[B], Pitch(norm="global")[B], "norm is global, not per_speaker"),
        (Durations(unit="frames")[B, U], Durations(unit="seconds")[B, U], "unit is seconds, not frames"),
        (Durations(scale="linear")[B, U], Durations(scale="ln")[B, U], "scale is ln, not linear"),
        (Durations(N)[B, U], Durations(N * 2)[B, U], "It is 2 times too long"),
        (LogDet(reduction="mean")[()], LogDet(reduction="sum")[()], "reduction is sum, not mean"),
        (Loss()[()], LogDet()[()], "LogDet is not Loss"),
        (Speaker(norm="l2")[B, F], Speaker(norm="none")[B, F], "norm is none, not l2"),
        (Speaker("xvector")[B, F], Speaker("ecapa")[B, F], "space is ecapa, not xvector"),
        (State("encoder")[B, F], State("decoder")[B, F], "module is decoder, not encoder"),
        (DialogueState(SLOTS)[B], DialogueState(OTHER_SLOTS)[B],
         "the same 2 labels in another order, first difference at index 0: 'taxi' there, 'hotel' here"),
        # a metric whose hypothesis is a reference: no errors at all
        (Hypotheses()[B, U], Ids()[B, U], "Ids is too general: it may be something else than Hypotheses"),
        (Latent(part="sample")[B, F], Latent(part="mean")[B, F], "part is mean, not sample"),
        (Latent(part="std")[B, F], Latent(part="log_variance")[B, F], "part is log_variance, not std"),
        (Alignment(form="hard")[B, T, U], Alignment(form="soft")[B, T, U], "form is soft, not hard"),
    ],
)  # fmt: skip
def test_what_each_element_is_there_for(wanted: Any, given_type: Any, sentence: str) -> None:
    assert [str(reason) for reason in compare(wanted, given_type).reasons] == [sentence]
    assert compare(wanted, wanted).outcome is Outcome.SAME
    assert parse(str(wanted)).element.label == wanted.element.label


@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        (Strings(), "str"),
        (Values(), "float"),
        (Positions(), "int"),
        (Image(), "float"),
        (Pitch(), "float"),
        (Durations(), "any"),
        (Durations(unit="frames"), "any"),
        (Durations(unit="frames", scale="linear"), "int"),
        (Durations(unit="frames", scale="ln"), "float"),
        (Durations(scale="ln"), "float"),
        (Durations(unit="seconds"), "float"),
        (LogDet(), "float"),
        (Speaker(), "float"),
        (State(), "float"),
        (DialogueState(), "int"),
        (Hypotheses(), "int"),
    ],
)
def test_the_class_of_numbers(element: Any, dtype: str) -> None:
    assert element.dtype == dtype


def test_the_class_of_numbers_follows_a_variable_that_is_solved() -> None:
    lengths = Lengths(T, unit=Var("unit"))[B]
    assert lengths.element.dtype == "int"
    assert lengths.substitute({}, {Var("unit"): "fraction"}).element.dtype == "float"
    frames = Durations(unit="frames", scale=Var("scale"))[B, U]
    assert frames.substitute({}, {Var("scale"): "ln"}).element.dtype == "float"
    assert frames.substitute({}, {Var("scale"): "linear"}).element.dtype == "int"


def test_what_they_are_cases_of() -> None:
    assert compare(Features()[B, F], Speaker()[B, F]).outcome is Outcome.SUBTYPE
    assert compare(Ids()[B, U], Hypotheses()[B, U]).outcome is Outcome.SUBTYPE


@pytest.mark.parametrize(
    "make",
    [
        lambda: Strings(form="loud"),
        lambda: Strings(by="nobody"),
        lambda: Image(channels="rbg"),
        lambda: Pitch(unit="mel"),
        lambda: Durations(unit="hours"),
        lambda: Durations(scale="log2"),
        lambda: LogDet(reduction="max"),
        lambda: Latent(part="median"),
        lambda: Alignment(form="firm"),
    ],
)
def test_values_that_a_facet_does_not_have_are_refused(make: Any) -> None:
    with pytest.raises(ConfigError, match=r" is '.*' or '.*', not '") as caught:
        make()
    assert caught.value.code == "element"


def test_a_value_that_is_nearly_right_is_suggested() -> None:
    with pytest.raises(ConfigError, match="did you mean 'rgb'"):
        Image(channels="rgbb")


def test_variables_work_in_every_facet() -> None:
    assert compare(Pitch(unit=Var("u"))[B], Pitch(unit="hz")[B]).outcome is Outcome.BOUND
    assert compare(Image(channels=Var("c"))[B], Image(channels="bgr")[B]).outcome is Outcome.BOUND
    assert compare(Pitch(unit="hz")[B], Pitch()[B]).outcome is Outcome.ASSUMED
    assert compare(Mel()[B], Mel(n_mels=3)[B]).outcome is Outcome.SAME
