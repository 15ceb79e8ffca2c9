"""Graphs that hand structs, lists and clocks on."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    Acoustic,
    Audio,
    B,
    F,
    Ids,
    Lengths,
    Mel,
    PortError,
    Score,
    Strings,
    Struct,
    T,
    U,
    Var,
    Vocab,
)

AB = Vocab("ab")


class Best(Struct):
    """What a search finds."""

    ids = Ids(AB)[B, U]
    score = Score()[B]


@dataclass(frozen=True)
class Search(NeuralModule):
    """Finds the best text."""

    def signature(self) -> Signature:
        return Signature(
            takes={"frames": Acoustic()[B, F(8), T], "frames_len": Lengths(T)[B]},
            gives={"best": Best()[()], "best_len": Lengths(U)[B], "times": Score()[B, T // 2]},
        )


@dataclass(frozen=True)
class Write(NeuralModule):
    """Writes texts out, with their scores."""

    def signature(self) -> Signature:
        found = Struct(ids=Ids(AB)[B, U], score=Score()[B])[()]
        takes = {"found": found, "found_len": Lengths(U)[B]}
        return Signature(takes=takes, gives={"text": Strings()[B.list()]})


@dataclass(frozen=True)
class Mix(NeuralModule):
    """Mixes two recordings of one rate, whichever it is."""

    def signature(self) -> Signature:
        audio = Audio(rate=Var("rate"))[B, T]
        return Signature(takes={"first": Struct(audio=audio)[()], "second": audio}, gives={"audio": audio})


def test_a_struct_goes_from_module_to_module_with_its_lengths() -> None:
    opened = inputs(frames=Acoustic()[B, F(8), T.at(100)], frames_len=Lengths(T)[B])
    found = Search()(frames=opened.frames, frames_len=opened.frames_len)
    assert str(found.times.type) == "Score[B, T//2 at 50 Hz]"
    text = Write()(found=found.best, found_len=found.best_len).text
    assert str(text.type) == "Strings[list B]"


def test_the_lengths_of_another_call_do_not_go_with_a_struct() -> None:
    opened = inputs(frames=Acoustic()[B, F(8), T], frames_len=Lengths(T)[B])
    one, two = (Search()(frames=opened.frames, frames_len=opened.frames_len) for _ in range(2))
    with pytest.raises(PortError) as caught:
        Write()(found=one.best, found_len=two.best_len)
    assert caught.value.code == "lengths"


def test_a_field_that_does_not_fit_is_named() -> None:
    opened = inputs(found=Struct(ids=Ids(Vocab("ba"))[B, U], score=Score()[B])[()], n=Lengths(U)[B])
    with pytest.raises(PortError, match=r"cannot feed Write\.found: its ids does not fit") as caught:
        Write()(found=opened.found, found_len=opened.n)
    assert caught.value.code == "vocab"
    assert "Its ids does not fit: the same 2 labels in another order" in str(caught.value)


def test_a_facet_inside_a_struct_may_be_told_by_another_port() -> None:
    opened = inputs(first=Struct(audio=Audio()[B, T])[()], second=Audio(rate=8000)[B, T])
    mixed = Mix()(first=opened.first, second=opened.second).audio
    assert str(mixed.type) == "Audio(rate=8000)[B, T]"
    assert [str(obligation) for _, obligation in mixed.step.assumptions] == ["audio.rate = 8000"]


def test_frames_of_two_clocks_do_not_meet_though_they_are_equally_many() -> None:
    @dataclass(frozen=True)
    class Sum(NeuralModule):
        """Adds frames up."""

        def signature(self) -> Signature:
            frames = Acoustic()[B, F, T]
            return Signature(takes={"first": frames, "second": frames}, gives={"sum": frames})

    opened = inputs(fast=Acoustic()[B, F(8), T(500).at(100)], slow=Acoustic()[B, F(8), T(500).at(50)])
    with pytest.raises(PortError) as caught:
        Sum()(first=opened.fast, second=opened.slow)
    assert caught.value.code == "clock"
    message = str(caught.value)
    assert "inputs.slow cannot feed Sum.second: it has 50 frames a second, not 100" in message
    assert "Acoustic[B, F=8, T=500 at 50 Hz]" in message
    assert "because first has 100 steps a second" in message


def test_messages_about_other_things_leave_clocks_out() -> None:
    opened = inputs(mel=Mel(rate=16000, hop=160)[B, F(64), T], frames=Acoustic()[B, F(9), T.at(50)])
    with pytest.raises(PortError) as caught:
        Search()(frames=opened.frames, frames_len=opened.mel)
    assert " Hz" not in str(caught.value)
