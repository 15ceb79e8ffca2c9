"""What a module gives against the clocks of what it takes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest

from neumo.graph.collect import collect
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.relax import relax
from neumo.graph.signature import Signature
from neumo.types import Acoustic, Audio, B, ConfigError, F, Mel, PortError, Spectrogram, T, U, Var

FRAMES = Mel(rate=22050, hop=256)[B, F(80), T]


@dataclass(frozen=True)
class Vocoder(NeuralModule):
    up: int = 256
    least: int = 1
    name_of_it: str = "vocoder"

    def signature(self) -> Signature:
        if self.up == 100:
            raise ValueError("100 is too few")
        return Signature(
            takes={"mel": Mel(rate=Var("rate"), hop=Var("hop"))[B, F, T]},
            gives={"audio": Audio(rate=Var("rate"))[B, T * self.up]},
        )


@dataclass(frozen=True)
class FrontEnd(NeuralModule):
    """Says one hop and makes another."""

    hop: int = 200
    stride: int = 160

    def signature(self) -> Signature:
        return Signature(
            takes={"audio": Audio(rate=16000)[B, T]},
            gives={"mel": Spectrogram(rate=16000, hop=self.hop)[B, F(64), T // self.stride + 1]},
        )


@dataclass(frozen=True)
class Gives(NeuralModule):
    """Takes frames and gives what a test says."""

    gives: Any = None

    def signature(self) -> Signature:
        return Signature(takes={"mel": FRAMES}, gives={"y": self.gives})


def test_samples_that_are_not_as_many_as_their_rate_says_are_refused() -> None:
    with pytest.raises(PortError) as caught:
        Vocoder(up=300)(mel=inputs(mel=FRAMES).mel)
    error = caught.value
    assert error.code == "clock"
    assert error.what == "Vocoder.audio has 25839.8 steps a second by its size, but its rate says 22050"
    assert error.why == ("T of mel has 86.1328 steps a second; the size is 300*T.",)
    assert [fix.text for fix in error.fixes] == ["build Vocoder with up=256"]
    assert Vocoder()(mel=inputs(mel=FRAMES).mel).audio.port


def test_frames_of_another_hop_than_stated_are_refused() -> None:
    with pytest.raises(
        PortError, match=r"100 steps a second by its size, but its rate and hop say 80"
    ) as caught:
        FrontEnd()(audio=inputs(audio=Audio(rate=16000)[B, T]).audio)
    assert [fix.text for fix in caught.value.fixes] == [
        "build FrontEnd with hop=160",
        "build FrontEnd with stride=200",
    ]


def test_a_setting_that_the_module_refuses_is_not_offered() -> None:
    with pytest.raises(PortError, match="by its size") as caught:
        Vocoder(up=50)(mel=inputs(mel=Mel(rate=16000, hop=100)[B, F(80), T]).mel)
    assert caught.value.fixes == ()


@pytest.mark.parametrize(
    "gives",
    [
        Audio(rate=22050)[B, T("said")],  # nobody knows how many
        Audio(rate=22050)[B, T(None)],
        Audio()[B, T * 300],
        Audio(rate=Var("unknown"))[B, T * 300],
        Spectrogram(rate=22050, hop=256)[B, T, U],  # of two axes along time it is not said which
        Spectrogram(rate=22050, hop=256)[B, F],
        Acoustic()[B, T * 300],
    ],
)
def test_what_says_nothing_of_its_clock_contradicts_nothing(gives: Any) -> None:
    assert Gives(gives)(mel=inputs(mel=FRAMES).mel).y.port


def test_a_clock_that_may_differ_is_not_held_against_its_size() -> None:
    with relax("clock", reason="a test"):
        assert Vocoder(up=300)(mel=inputs(mel=FRAMES).mel).audio.port


def test_what_contradicts_itself_is_gathered_with_the_rest() -> None:
    with collect(raises=False) as errors:
        Vocoder(up=300)(mel=inputs(mel=FRAMES).mel)
    assert [error.code for error in errors] == ["clock"]


def test_an_axis_that_states_another_clock_than_its_size_is_refused() -> None:
    halved = Gives(Acoustic()[B, F(8), T.ceildiv(2).at(100)])
    with pytest.raises(PortError) as caught:
        halved(mel=inputs(mel=FRAMES).mel)
    assert caught.value.what == "Gives.y has 43.0664 steps a second by its size, but its axis says 100"
    assert Gives(Acoustic()[B, T(None).at(100)])(mel=inputs(mel=FRAMES).mel).y.port
    assert Gives(Acoustic()[B, T.at(Fraction(22050, 256)), U])(mel=inputs(mel=FRAMES).mel).y.port


@dataclass(frozen=True)
class Stretch(NeuralModule):
    """With a setting that leaves nothing to contradict."""

    by: int = 2
    is_open: int = 100

    def signature(self) -> Signature:
        size = T("said") if self.by == 1 else T * self.by
        gives = Acoustic()[B, size] if self.by == 1 else Acoustic()[B, size.at(100)]
        return Signature(takes={"x": Acoustic()[B, T.at(100)]}, gives={"y": gives})


def test_a_setting_that_says_nothing_is_not_offered() -> None:
    with pytest.raises(PortError, match="by its size") as caught:
        Stretch()(x=inputs(x=Acoustic()[B, T.at(100)]).x)
    assert caught.value.fixes == ()


@dataclass(frozen=True)
class Twice(NeuralModule):
    """Takes two kinds of frames along one size."""

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, T.at(100)], "fine": Mel(rate=16000, hop=80)[B, F, T]})


def test_inputs_of_one_size_and_two_clocks_are_refused_where_they_are_stated() -> None:
    crops = inputs(x=Acoustic()[B, T.at(100)], fine=Mel(rate=16000, hop=80)[B, F, T])  # as many of both
    with pytest.raises(ConfigError) as caught:
        Twice()(x=crops.x, fine=crops.fine)
    assert caught.value.code == "clock"
    assert "Twice cannot state its ports" in str(caught.value)
    assert "T has 100 steps a second in 'x' and 200 in 'fine'" in str(caught.value)
