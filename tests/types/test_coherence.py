"""What a type says twice it says alike: the facets of its element and the sizes of its axes."""

from __future__ import annotations

from typing import Any

import pytest

from neumo.graph.inputs import inputs
from neumo.graph.signature import Signature
from neumo.types import (
    MFCC,
    AtLeast,
    Audio,
    B,
    C,
    ConfigError,
    Element,
    F,
    Features,
    H,
    Ids,
    Image,
    LogProbs,
    Mel,
    NeuralType,
    Scores,
    Spectrogram,
    Struct,
    Symbol,
    T,
    U,
    V,
    Var,
    Vocab,
    W,
    parse,
)

AB, CD, ABC = Vocab("ab", name="ab"), Vocab("cd", name="cd"), Vocab("abc", name="abc")


@pytest.mark.parametrize(
    ("element", "axes", "why"),
    [
        (Mel(n_mels=80), (B, F(64), T), "Mel(n_mels=80) has 80 features, F=64 has 64"),
        (MFCC(n_mfcc=13), (B, F(40), T), "MFCC(n_mfcc=13) has 13 features, F=40 has 40"),
        (MFCC(n_mfcc=1), (B, F(40), T), "MFCC(n_mfcc=1) has 1 feature, F=40 has 40"),
        (Spectrogram(n_fft=512), (B, F(256), T), "Spectrogram(n_fft=512) has 257 features, F=256 has 256"),
        (Audio(channels=1), (B, C(2), T), "Audio(channels=1) has 1 channel, F=2 has 2"),
        (Audio(channels=2), (B, T), "Audio(channels=2) has 2 channels, and no axis for them"),
        (Image(channels="rgb"), (B, C(1), H, W), "Image(channels=rgb) has 3 channels, F=1 has 1"),
        (Image(channels="rgba"), (B, H, W), "Image(channels=rgba) has 4 channels, and no axis for them"),
        (LogProbs(AB), (B, T, V(28)), "has 2 labels, V=28 has 28"),
        (LogProbs(AB), (B, T, V(ABC)), "has 2 labels, V=abc[3]"),
        (LogProbs(AB), (B, T, V(CD)), "are along the labels of another vocabulary: V=cd[2]"),
        (Mel(n_mels=80), (B, C(1), F(64), T), "Mel(n_mels=80) has 80 features, F=1 has 1"),
    ],
)
def test_a_type_that_contradicts_itself_is_refused(element: Element, axes: Any, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        element[axes]
    assert caught.value.code == "contradiction"
    assert why in caught.value.what
    with pytest.raises(ConfigError):
        element.optional()[axes]
    with pytest.raises(ConfigError):
        Struct(x=Features()[B], y=element[axes])


def test_so_is_its_text_and_the_bins_of_a_transform_are_explained() -> None:
    with pytest.raises(ConfigError, match="n_fft // 2 \\+ 1 bins") as caught:
        parse("Spectrogram(n_fft=512)[B, F=512, T]")
    assert caught.value.code == "contradiction"


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (Mel(n_mels=80)[B, F(80), T], "Mel(n_mels=80)[B, F=80, T]"),
        (Mel(n_mels=80)[B, F(None), T], "Mel(n_mels=80)[B, F=80, T]"),
        (Mel(n_mels=80)[B, C(1), F(80), T], "Mel(n_mels=80)[B, F=1, F=80, T]"),
        (Mel(n_mels=80)[B, C(None), F(80), T], "Mel(n_mels=80)[B, F=?, F=80, T]"),
        (Mel(n_mels=80, n_fft=512)[B, F(80), T], "Mel(n_fft=512, n_mels=80)[B, F=80, T]"),
        (Mel(n_mels=Var("n"))[B, F(64), T], "Mel(n_mels=$n)[B, F=64, T]"),
        (Mel(n_mels=80)[B, T], "Mel(n_mels=80)[B, T]"),
        (MFCC(n_mels=80)[B, F(13), T], "MFCC(n_mels=80)[B, F=13, T]"),
        (Audio(channels=1)[B, T], "Audio(channels=1)[B, T]"),
        (Audio(channels=2)[B, C, T], "Audio(channels=2)[B, C, T]"),
        (Audio(channels=2)[()], "Audio(channels=2)[]"),
        (Image(channels="grey")[B, H, W], "Image(channels=grey)[B, H, W]"),
        (Image()[B, C(7), H, W], "Image[B, F=7, H, W]"),
        (LogProbs(AB)[B, T, V(None)], f"LogProbs({AB})[B, T, V={AB}]"),
        (LogProbs(AtLeast(AB))[B, T, V(9)], f"LogProbs(at_least({AB}))[B, T, V=9]"),
        (LogProbs(AB, over="T")[B, T], f"LogProbs({AB}, over=T)[B, T]"),
        (Scores(AB)[B, V(2)], f"Scores({AB})[B, V=2]"),
        (Ids(AB)[B, T, V(9)], f"Ids({AB})[B, T, V=9]"),
    ],
)
def test_a_type_that_may_be_right_is_made(t: NeuralType, text: str) -> None:
    assert str(t) == text


def test_a_named_size_becomes_the_number_in_all_ports_of_a_signature() -> None:
    made = Signature(
        takes={"mel": Mel(n_mels=80)[B, F, T], "n": Features()[B, U]},
        gives={"x": Features()[B, F * 2, T], "p": LogProbs(AB)[B, T, V], "q": Features()[B, V]},
    )
    assert [str(t) for t in (*made.takes.values(), *made.gives.values())] == [
        "Mel(n_mels=80)[B, F=80, T]",
        "Features[B, U]",
        "Features[B, F=160, T]",
        f"LogProbs({AB})[B, T, V={AB}]",
        f"Features[B, V={AB}]",
    ]
    assert str(inputs(mel=Mel(n_mels=80)[B, F, T]).mel.type) == "Mel(n_mels=80)[B, F=80, T]"


def test_one_name_cannot_stand_for_two_numbers() -> None:
    with pytest.raises(
        ConfigError, match="the size F of a signature is 80 in one port and 64 in Mel"
    ) as caught:
        Signature(takes={"a": Mel(n_mels=80)[B, F, T], "b": Mel(n_mels=64)[B, F, T]})
    assert caught.value.code == "contradiction"
    with pytest.raises(ConfigError, match=r"Mel\(n_mels=80\) has 80 features, F=82 has 82"):
        Signature(takes={"a": Mel(n_mels=81)[B, F, T]}, gives={"b": Mel(n_mels=80)[B, F + 1, T]})


def test_sizes_of_a_graph_and_axes_beside_others_stay_as_they_are() -> None:
    rigid = F(Symbol("F", 1, rigid=True))
    assert Signature(takes={"a": Mel(n_mels=80)[B, rigid, T]}).takes["a"].axes[1] == rigid
    several = Mel(n_mels=80)[B, C, F, T]
    assert Signature(takes={"a": several}).takes["a"] is several


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Audio(rate=-1), "Audio.rate is a whole number above 0, not -1"),
        (lambda: Audio(rate="16k"), "Audio.rate is a whole number above 0, not '16k'"),
        (lambda: Audio(rate=True), "Audio.rate is a whole number above 0, not True"),
        (lambda: Audio(rate=16000.0), "Audio.rate is a whole number above 0, not 16000.0"),
        (lambda: Audio(peak=0), "Audio.peak is a number above 0, not 0"),
        (lambda: Mel(fmin="low"), "Mel.fmin is a number, not 'low'"),
        (lambda: Mel(fmin=False), "Mel.fmin is a number, not False"),
        (lambda: Mel(center=1), "Mel.center is True or False, not 1"),
        (lambda: Ids(pad="<pad>"), "Ids.pad is a whole number, not '<pad>'"),
        (lambda: Ids(pad=True), "Ids.pad is a whole number, not True"),
        (lambda: Features(space=3), "Features.space is a text, not 3"),
        (
            lambda: Ids(frame="sos..eos"),
            "Ids.frame is 'none' or 'bos..' or '..eos' or 'bos..eos', not 'sos..eos'",
        ),
    ],
)
def test_a_facet_has_a_class_of_values(make: Any, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert (caught.value.code, caught.value.what) == ("element", why)


def test_values_of_the_right_class_are_taken() -> None:
    assert (Audio(rate=16000, peak=1).peak, Ids(pad=-100, frame="..eos").pad, Mel(fmax=8000).fmax) == (
        1,
        -100,
        8000,
    )


@pytest.mark.parametrize("axis", [F, V, T, B, H])
def test_no_axis_is_declared_with_the_size_nought(axis: Any) -> None:
    with pytest.raises(ConfigError, match="has at least the size 1, not 0") as caught:
        axis(0)
    assert caught.value.code == "axis"
