"""What several values make together: their element, their clocks, their marks, and what they measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from neumo.graph import adapters as ad
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    MFCC,
    ONE,
    Acoustic,
    Audio,
    B,
    C,
    F,
    Features,
    H,
    Ids,
    Image,
    Latent,
    Mask,
    Mel,
    NeuralType,
    Pitch,
    PortError,
    Speaker,
    T,
    Text,
    U,
    V,
    Vocab,
    W,
)

from .more_specs import PIECES
from .specs import MelSpectrogram

VOWELS = Vocab("aeiou", name="vowels")
MEL = Mel(rate=16000, hop=160, scale="ln", n_mels=80)


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [
        (MEL[B, F(80), T], MEL[B, F(80), T], "Mel(rate=16000, hop=160, scale=ln)[B, F=160, T]"),
        (MEL[B, F(80), T], Mel(rate=16000, hop=160)[B, F(80), T], "Features[B, F=160, T at 100 Hz]"),
        (MEL[B, F(80), T], Pitch(unit="hz")[B, F(1), T], "Features[B, F=81, T at 100 Hz]"),
        (Pitch(unit="hz")[B, F(1), T], MEL[B, F(80), T], "Features[B, F=81, T at 100 Hz]"),
        (MEL[B, F(80), T], Features()[B, F(3), T.at(100)], "Features[B, F=83, T at 100 Hz]"),
        (Acoustic()[B, F(4), T.at(50)], Pitch()[B, ONE, T], "Features[B, F=5, T at 50 Hz]"),
        (MFCC(n_mfcc=13)[B, F(13), T], MFCC(n_mfcc=20)[B, F(20), T], "MFCC[B, F=33, T]"),
        (Audio(rate=8000)[B, C(1), T], Audio(rate=8000)[B, C(1), T], "Audio(rate=8000)[B, F=2, T]"),
        (Image(channels="rgb", peak=1.0)[B, C(3), H, W], Image(channels="grey", peak=1.0)[B, ONE, H, W],
         "Image(peak=1.0)[B, F=4, H, W]"),
        (Image()[B, C(1), F(9), W], Image()[B, C("C"), F(9), W], "Image[B, C + 1, F=9, W]"),
        (Latent(part="mean")[B, F(2)], Latent(part="std")[B, F(2)], "Features[B, F=4]"),
        (Speaker()[B, F(2), V(VOWELS)], Text()[B, F(2), V(VOWELS)], f"Features[B, F=4, V={VOWELS}]"),
        (Acoustic("a")[B, F(2), T(None)], Acoustic("b")[B, F(2), T(None)], "Acoustic[B, F=4, T=?]"),
    ],
)  # fmt: skip
def test_what_lies_side_by_side_keeps_its_meaning_where_it_has_one(
    first: NeuralType, second: NeuralType, value: str
) -> None:
    given = inputs(first=first, second=second)
    assert str(ad.Concat(1)(first=given.first, second=given.second).value.type) == value


def test_parts_of_two_clocks_do_not_lie_side_by_side() -> None:
    given = inputs(mel=MEL[B, F(80), T(200)], slow=Pitch()[B, F(1), T(200).at(50)])
    for one, two in (("mel", "slow"), ("slow", "mel")):
        with pytest.raises(PortError) as caught:
            ad.Concat(1)(first=getattr(given, one), second=getattr(given, two))
        assert caught.value.code == "clock"


@pytest.mark.parametrize("wrong", [Ids(PIECES)[B, F(2), T], Mask(T)[B, F(2), T]])
def test_whole_numbers_and_flags_have_no_place_among_features(wrong: NeuralType) -> None:
    given = inputs(mel=MEL[B, F(80), T], wrong=wrong)
    with pytest.raises(PortError, match=r"is not Features"):
        ad.Concat(1)(first=given.mel, second=given.wrong)


# one behind the other


@pytest.mark.parametrize(
    ("first", "second", "frame"),
    [
        ("bos..", "..eos", "bos..eos"),
        ("bos..", "none", "bos.."),
        ("none", "..eos", "..eos"),
        ("none", "none", "none"),
        ("bos..eos", "bos..eos", None),
        ("..eos", "none", None),
        ("none", "bos..", None),
        (None, "..eos", None),
        ("bos..", None, None),
    ],
)
def test_rows_keep_the_marks_at_their_ends(first: str | None, second: str | None, frame: str | None) -> None:
    given = inputs(a=Ids(PIECES, pad=0, frame=first)[B, T], b=Ids(PIECES, pad=0, frame=second)[B, U])
    joined = ad.Append()(first=given.a, second=given.b).value.type
    assert joined.element == Ids(PIECES, pad=0, frame=frame)


def test_what_is_behind_the_end_is_the_pad() -> None:
    given = inputs(a=Ids(PIECES, pad=-100)[B, T], b=Ids(PIECES, pad=-100)[B, U], c=Ids(PIECES)[B, U])
    assert ad.Append(fill=-100)(first=given.a, second=given.b).value.type.element == Ids(PIECES, pad=-100)
    assert ad.Append()(first=given.a, second=given.b).value.type.element == Ids(PIECES, pad=0)
    assert ad.Append()(first=given.c, second=given.c).value.type.element == Ids(PIECES)
    with pytest.raises(PortError, match="Mel is not Ids"):
        ad.Append()(first=given.a, second=inputs(x=Mel()[B, U]).x)


def test_masks_are_joined_with_what_they_measure() -> None:
    given = inputs(a=Mask(T, true="keep")[B, T], b=Mask(U, true="keep")[B, U], c=Mask(T, true="pad")[B, T])
    joined = ad.Append()(first=given.a, second=given.b).value.type
    assert str(joined) == "Mask(T + U, true=keep)[B, T + U]"
    with pytest.raises(PortError, match="True means pad, not keep"):
        ad.Append()(first=given.c, second=given.c)
    again = ad.Append(fill=1)(first=given.c, second=given.c).value.type
    assert str(again) == "Mask(2*T, true=pad)[B, 2*T]"


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [
        (Acoustic()[B, F(2), T.at(50)], Acoustic()[B, F(2), U.at(50)], "Acoustic[B, F=2, T + U at 50 Hz]"),
        (Acoustic()[B, F(2), T], Acoustic()[B, F(2), U.at(50)], "Acoustic[B, F=2, T + U]"),
        (Acoustic()[B, F(2), T.at(50)], Acoustic()[B, F(2), U.at(100)], None),
        (MEL[B, F(80), T], MEL[B, F(80), U], "Mel(rate=16000, hop=160, scale=ln, n_mels=80)[B, F=80, T + U]"),
        (MEL[B, F(80), T], Mel(rate=16000, hop=200, scale="ln", n_mels=80)[B, F(80), U], None),
    ],
)
def test_sequences_of_two_clocks_are_not_joined(
    first: NeuralType, second: NeuralType, value: str | None
) -> None:
    given = inputs(first=first, second=second)
    if value is None:
        with pytest.raises(PortError) as caught:
            ad.Append(2)(first=given.first, second=given.second)
        assert caught.value.code in ("clock", "facet")
    else:
        assert str(ad.Append(2)(first=given.first, second=given.second).value.type) == value


# one value for all steps


@dataclass(frozen=True)
class ManyVoices(NeuralModule):
    """Takes a voice at each frame."""

    def signature(self) -> Signature:
        return Signature(
            takes={"frames": Features()[B, F(8), T], "voice": Speaker()[B, F(4), T]},
            gives={"y": Features()[B, F(8), T]},
        )


def test_one_voice_is_repeated_for_all_frames() -> None:
    given = inputs(frames=Features()[B, F(8), T.at(50)], voice=Speaker()[B, F(4)])
    with pytest.raises(PortError) as caught:
        ManyVoices()(frames=given.frames, voice=given.voice)
    assert "insert Repeat(axis=2) before it, with like=given.frames" in str(caught.value)
    spread = ad.Repeat(2)(value=given.voice, like=given.frames)
    assert str(spread.value.type) == "Speaker[B, F=4, T at 50 Hz]"
    assert ManyVoices()(frames=given.frames, voice=spread.value).y.type.axes[2].clock == 50
    both = ad.Concat(1)(first=given.frames, second=spread.value)
    assert str(both.value.type) == "Features[B, F=12, T at 50 Hz]"


def test_a_voice_of_other_rows_is_not_repeated() -> None:
    given, other = inputs(frames=Features()[B, F(8), T]), inputs(voice=Speaker()[B, F(4)])
    with pytest.raises(PortError) as caught:
        ad.Repeat(2)(value=other.voice, like=given.frames)
    assert caught.value.code == "batch"


@pytest.mark.parametrize(
    ("wanted", "given", "axes"),
    [
        (Features()[B, T, F(4)], Speaker()[B, F(4)], [1]),
        (Features()[B, F(4), T], Speaker()[B, F(4)], [2]),
        (Features()[B, T], Features()[B], [1]),
        (Features()[B, T, ONE], Features()[B, F(1)], [1]),
        (Features()[B, T, U], Features()[B, T], [1, 2]),
        (Features()[B, F(4), F], Speaker()[B, F(4)], []),
        (Features()[B, T], Speaker()[B, F(4)], []),
        (Mel()[B, T, F(4)], Mel()[B, F(4)], []),
    ],
)
def test_only_features_are_proposed_for_all_steps(
    wanted: NeuralType, given: NeuralType, axes: list[int]
) -> None:
    assert [each.axis for each in ad.Repeat.propose(wanted, given)] == axes


def test_nothing_is_repeated_where_nothing_is_known() -> None:
    assert str(ad.Repeat(2).signature().gives["value"]) == "Any[B, X=?, T]"
    with pytest.raises(PortError, match=r"1 axis, not 3"):
        ad.Repeat(3)(value=inputs(x=Features()[B]).x, like=inputs(y=Features()[B, F, H, T]).y)


# an axis of size one


@dataclass(frozen=True)
class Convolution(NeuralModule):
    """Takes a picture, or anything as one."""

    channels: Any

    def signature(self) -> Signature:
        return Signature(
            takes={"x": Mel(n_mels=64)[B, self.channels, F(64), T]},
            gives={"y": Features()[B, C(8), F(64), T], "same": Features()[B, self.channels, T]},
        )


@pytest.mark.parametrize("channels", [C(1), C("C"), F(1), ONE])
def test_frames_are_a_picture_of_one_channel(channels: Any) -> None:
    mel = MelSpectrogram()(**inputs(**MelSpectrogram().signature().takes)._asdict()).mel
    found = Convolution(channels)(x=ad.Unsqueeze(1)(value=mel).value)
    assert found.same.type.axes[1].size == 1
    with pytest.raises(PortError) as caught:
        Convolution(channels)(x=mel)
    is_offered = "insert Unsqueeze(at=1) before it" in str(caught.value)
    assert is_offered is (channels.size == 1)  # of an open size, nothing says that one is meant


def test_an_axis_of_size_one_is_put_in_order_as_a_feature() -> None:
    (order,) = ad.Transpose.propose(Features()[B, C(1), T], Features()[B, T, ONE])
    assert order.notation() == "Transpose(B T 1 -> B 1 T)"
    assert list(ad.Transpose.propose(Features()[B, C(2), T], Features()[B, T, ONE])) == []


def test_what_has_no_rows_is_joined_as_well() -> None:
    given = inputs(a=Features()[F(2), T], b=Features()[F(2), U])
    assert str(ad.Append()(first=given.a, second=given.b).value.type) == "Features[F=2, T + U]"
