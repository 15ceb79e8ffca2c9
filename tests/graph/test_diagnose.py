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
from neumo.types import (
    Acoustic,
    Alignment,
    Any_,
    Audio,
    B,
    ConfigError,
    Durations,
    F,
    Ids,
    Lengths,
    Mel,
    PortError,
    Positions,
    Score,
    Size,
    Struct,
    T,
    Text,
    U,
)

from .specs import DE, EN, Add, ConvEncoder, CTCHead, Gain, MelSpectrogram, SpeechData
from .test_fixes_apply import Port as Takes


def told(error: PortError) -> str:
    return " ".join(str(error).split())


@dataclass(frozen=True)
class Rescore(NeuralModule):
    def signature(self) -> Signature:
        best = Struct(text=Ids(EN)[B, U], score=Score()[B])[()]
        return Signature(takes={"best": best, "n": Lengths(U)[B]}, gives={"best": best})


@dataclass(frozen=True)
class Speak(NeuralModule):
    """Says a text in as many frames as it likes."""

    def signature(self) -> Signature:
        said = T("said")
        return Signature(
            takes={"x": Text()[B, U, F]}, gives={"mel": Mel()[B, F(8), said], "n": Lengths(said)[B]}
        )


@dataclass(frozen=True)
class Last(NeuralModule):
    def signature(self) -> Signature:
        return Signature(takes={"x": Text()[B, U, F]}, gives={"durations": Durations(T)[B, U]})


@dataclass(frozen=True)
class Expand(NeuralModule):
    def signature(self) -> Signature:
        takes = {"x": Text()[B, U, F], "durations": Durations(T)[B, U]}
        return Signature(takes=takes, gives={"x": Text()[B, T, F]})


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


def test_a_share_of_one_size_is_none_of_another() -> None:
    data = inputs(x=Acoustic()[B, F(8), T], n=Lengths(T * 160, unit="fraction")[B])
    with pytest.raises(PortError, match="it is a share of other frames") as caught:
        Takes({"x": Acoustic()[B, F, T], "n": Lengths(T, unit="fraction")[B]})(x=data.x, n=data.n)
    assert caught.value.why == ("It is a share of 160*T, not of T, and says nothing about that.",)


def test_a_share_of_samples_is_none_of_frames() -> None:
    data = inputs(x=Mel()[B, F(8), T], audio=Audio()[B, U], n=Lengths(U, unit="fraction")[B])
    with pytest.raises(PortError, match="it is a share of samples"):
        Takes({"x": Mel()[B, F, T], "n": Lengths(T, unit="fraction")[B]})(x=data.x, n=data.n)


def test_rows_of_two_graphs_are_told_apart() -> None:
    one, other = inputs(x=Acoustic()[B, F(8)]).x, inputs(x=Acoustic()[B, F(8)]).x
    data = inputs(one=one.type, other=other.type)
    with pytest.raises(PortError, match="it belongs to another batch") as caught:
        Takes({"a": Acoustic()[B, F], "b": Acoustic()[B, F]})(a=data.one, b=data.other)
    text = told(caught.value)
    assert "given Acoustic[B@inputs.other, F=8]" in text
    assert "wanted Acoustic[B@inputs.one, F=8]" in text
    assert "It has the rows of inputs.other, but a has those of inputs.one." in text


def test_two_sizes_of_one_value_are_told_apart_by_the_axis() -> None:
    data = inputs(path=Alignment()[B, U, T], text=Ids(EN)[B, U])
    with pytest.raises(PortError, match="another number of symbols") as caught:
        Takes({"text": Ids()[B, U], "turned": Alignment()[B, T, U]})(text=data.text, turned=data.path)
    text = told(caught.value)
    assert "because text has U symbols" in text
    assert "It runs along the T of inputs.path, but text runs along inputs.text." in text


def test_what_decided_a_size_is_said_to_have_its_own_size() -> None:
    data = inputs(mel=Mel()[B, F(8), T(32)], audio=Audio()[B, T(9600)])
    with pytest.raises(PortError, match="9600 samples, not 8192") as caught:
        Takes({"mel": Mel()[B, F, T], "audio": Audio()[B, T * 256]})(mel=data.mel, audio=data.audio)
    assert "because mel has 32 frames" in told(caught.value)
    data = inputs(mel=Mel()[B, F(8), T(1)], audio=Audio()[B, T(9600)])
    with pytest.raises(PortError) as caught:
        Takes({"mel": Mel()[B, F, T], "audio": Audio()[B, T * 256]})(mel=data.mel, audio=data.audio)
    assert "because mel has 1 frame" in told(caught.value)


def test_what_decided_a_field_is_named() -> None:
    data = inputs(ids=Ids(EN)[B, T], best=Struct(start=Positions(U)[B])[()])
    with pytest.raises(PortError, match="its start does not fit") as caught:
        Takes({"ids": Ids()[B, T], "best": Struct(start=Positions(T)[B])[()]})(ids=data.ids, best=data.best)
    text = told(caught.value)
    assert "given Struct(start=Positions(U)[B])[]" in text
    assert "because ids has T symbols" in text


def test_a_size_known_when_the_graph_runs_only_is_told_as_it_was_learned() -> None:
    data = inputs(x=Acoustic()[B, F(8), T], n=Lengths(U)[B], m=Lengths(T)[B])
    with pytest.raises(PortError) as caught:
        Takes({"n": Lengths(T)[B], "m": Lengths(T)[B]})(n=data.n, m=data.m)
    assert "because n has U frames" in told(caught.value)


def test_lengths_of_a_value_that_a_step_did_not_take_are_not_from_before_it() -> None:
    data = inputs(x=Text()[B, U, F(8)], mel=Mel()[B, F(8), T], n=Lengths(T)[B])
    said = Speak()(x=data.x)
    with pytest.raises(PortError, match="it counts other frames") as caught:
        Takes({"mel": Mel()[B, F, T], "n": Lengths(T)[B]})(mel=said.mel, n=data.n)
    assert caught.value.why == ("Its frames are made by inputs, those of mel are made by Speak.",)


def test_what_durations_add_up_to_is_said_so() -> None:
    data = inputs(x=Text()[B, U, F(8)], ids=Ids(EN)[B, U], n=Lengths(U)[B])
    lasts = Last()(x=data.x)
    expanded = Expand()(x=data.x, durations=lasts.durations)
    with pytest.raises(PortError, match="it counts symbols, not frames") as caught:
        Takes({"x": Text()[B, T, F], "n": Lengths(T)[B]})(x=expanded.x, n=data.n)
    why = "Its symbols are made by inputs, the frames of x are what Last.durations add up to."
    assert caught.value.why == (why,)


def test_the_facets_that_differ_are_shown_of_many() -> None:
    facets = {"rate": 22050, "hop": 256, "n_fft": 1024, "win": 1024, "n_mels": 80}
    data = inputs(mel=Mel(**facets)[B, F(80), T])
    with pytest.raises(PortError) as caught:
        Takes({"mel": Mel(**{**facets, "hop": 300})[B, F, T]})(mel=data.mel)
    text = told(caught.value)
    assert "given Mel(hop=256, ...)[B, F=80, T]" in text
    assert "wanted Mel(hop=300, ...)[B, F=80, T]" in text


def test_a_size_that_nothing_tells_is_not_called_another_one() -> None:
    data = inputs(x=Text()[B, U, F(8)])
    with pytest.raises(PortError, match="nothing says how many frames it needs") as caught:
        Takes({"x": Text()[B, T + U, F]})(x=data.x)
    why = "No input says what T and U are in T + U, and U of inputs.x does not settle it."
    assert caught.value.why == (why,)


def test_an_error_of_a_signature_names_the_module_and_the_call() -> None:
    data = inputs(x=Acoustic()[B, F(8), T])
    with pytest.raises(ConfigError) as caught:
        CTCHead(EN.with_blank(), width=8)(encoded=data.x)
    error = caught.value
    assert error.what.startswith("CTCHead cannot state its ports: the vocabulary en+blank[29]#")
    assert "test_diagnose.py" in str(error)
    assert [fix.text for fix in error.fixes] == ["give the labels without the blank: it is added to them"]
