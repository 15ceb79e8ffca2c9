"""What is said about rarer differences: fields of structs, clocks, sizes that only a module itself knows."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from neumo.graph import compose as compose_module
from neumo.graph.collect import collect
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.graph.source import CallSite
from neumo.types import Acoustic, Any_, B, F, Ids, Lengths, PortError, Score, Size, Struct, T, U

from .specs import DE, EN, Add, ConvEncoder, Gain, MelSpectrogram, SpeechData


def told(error: PortError) -> str:
    return " ".join(str(error).split())


@dataclass(frozen=True)
class Rescore(NeuralModule):
    def signature(self) -> Signature:
        best = Struct(text=Ids(EN)[B, U], score=Score()[B])[()]
        return Signature(takes={"best": best, "n": Lengths(U)[B]}, gives={"best": best})


@dataclass(frozen=True)
class Exactly(NeuralModule):
    """Takes values as long as one of the graph."""

    size: Size

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F, T(self.size)]})


def test_a_field_of_a_struct_is_named() -> None:
    given = inputs(best=Struct(text=Ids(DE)[B, U], score=Score()[B])[()], n=Lengths(U)[B])
    with pytest.raises(PortError, match=r"its text does not fit") as caught:
        Rescore()(best=given.best, n=given.n)
    assert "'ä'" in told(caught.value)


def test_a_struct_of_a_refused_call_has_open_sizes() -> None:
    with collect(raises=False) as errors:
        best = Rescore()(best=inputs(x=Acoustic()[B, F, T]).x).best
    assert [error.code for error in errors] == ["element", "missing"]
    assert str(best.type.element) == f"Struct(text=Ids({EN})[B=?, T=?], score=Score[B=?])"


def test_the_clock_that_another_port_has_is_told() -> None:
    data = inputs(a=Acoustic()[B, F(8), T.at(100)], b=Acoustic()[B, F(8), T.at(50)])
    with pytest.raises(PortError) as caught:
        Add()(a=data.a, b=data.b)
    assert caught.value.code == "clock"
    assert "because a has 100 steps a second" in told(caught.value)


def test_sizes_that_the_module_itself_asks_for_are_explained_without_another_port() -> None:
    batch = SpeechData(EN)()
    feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    enc = ConvEncoder(width=8)(mel=feats.mel, mel_len=feats.mel_len).encoded
    full, samples = feats.mel.type.axes[2].size, batch.audio.type.axes[1].size
    assert full is not None
    assert samples is not None
    with pytest.raises(PortError) as caught:
        Exactly(full * 2)(x=enc)
    assert "It is 4 times too short." in told(caught.value)
    text = batch.text.type.axes[1].size
    assert text is not None
    with pytest.raises(PortError) as caught:
        Exactly(text)(x=enc)
    assert "need not be equal" in told(caught.value)
    other = SpeechData(EN)().text.type.axes[1].size
    assert other is not None
    with pytest.raises(PortError) as caught:
        Exactly(other)(x=enc)
    assert caught.value.code == "size"


def test_a_call_without_a_place_is_composed_and_refused_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compose_module, "caller", lambda: None)
    with pytest.raises(PortError) as caught:
        Gain()(audio=inputs(x=Any_()[B, T]).x)
    assert caught.value.where is None


def test_code_without_columns_is_placed_by_its_first_line() -> None:
    code = told.__code__
    place = CallSite(code, 1_000_000).place()
    assert (place.line, place.file) == (code.co_firstlineno, code.co_filename)
