"""Nesting beside the rest: gathered errors, relaxed facets, places, ports that take many, frameworks."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from neumo.engine.plan import compile_plan
from neumo.graph import frameworks
from neumo.graph.collect import collect
from neumo.graph.fixed import Fixed, UnknownName
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.relax import relax
from neumo.graph.signature import Signature
from neumo.graph.yaml import load_recipe
from neumo.types import (
    Acoustic,
    Audio,
    B,
    BackendError,
    F,
    GraphError,
    Lengths,
    Loss,
    Mel,
    NeuralType,
    PortError,
    T,
)

from .snapshots import expect
from .specs import EN, ConvEncoder, CTCHead, Down, MelSpectrogram, SpeechData, SumLoss

X = Acoustic()[B, F(8), T]


def front_end() -> Graph:
    speech = inputs(audio=Audio(rate=16000, peak=1.0)[B, T], audio_len=Lengths(T)[B])
    feats = MelSpectrogram()(audio=speech.audio, audio_len=speech.audio_len)
    enc = ConvEncoder()(mel=feats.mel, mel_len=feats.mel_len)
    return Graph("front_end", outputs={"encoded": enc.encoded, "encoded_len": enc.encoded_len})


@dataclass(frozen=True)
class SumOrNothing(NeuralModule):
    def signature(self) -> Signature:
        return Signature(takes={"losses": Loss().many().optional()[()]}, gives={"loss": Loss()[()]})


@dataclass(frozen=True)
class Echo(NeuralModule):
    """Gives back what comes in; what does not come in is no output either."""

    def signature(self) -> Signature:
        return Signature(takes={"x": X, "more": X.as_optional()}, gives={"x": X, "more": X.as_optional()})

    def signature_for(self, given: Mapping[str, NeuralType]) -> Signature:
        stated = self.signature()
        return Signature(takes=stated.takes, gives={port: stated.gives[port] for port in given})


@dataclass(frozen=True)
class Vocoder(NeuralModule):
    floor: float

    def signature(self) -> Signature:
        return Signature(takes={"mel": Mel(floor=self.floor)[B, F, T]}, gives={"audio": Audio()[B, T * 256]})


def test_a_refused_nesting_is_told_once() -> None:
    encode = front_end()
    batch = SpeechData(EN, rate=8000)()
    with collect(raises=False) as errors:
        found = encode(audio=batch.audio, audio_len=batch.audio_len)
        CTCHead(EN)(encoded=found.encoded)
    assert [error.what for error in errors] == [
        "SpeechData.audio cannot feed front_end.audio: rate is 8000, not 16000"
    ]
    assert list(found._asdict()) == ["encoded", "encoded_len"]
    assert found.encoded.step.refusal == tuple(errors)


def test_what_comes_of_a_good_nesting_is_judged_while_errors_are_gathered() -> None:
    encode = front_end()
    batch = SpeechData(EN)()
    with collect(raises=False) as errors:
        found = encode(audio=batch.audio, audio_len=batch.audio_len)
        CTCHead(EN, width=512)(encoded=found.encoded)
    (error,) = errors
    assert "CTCHead" in error.what


def test_what_was_let_pass_inside_is_let_pass_again() -> None:
    opened = inputs(mel=Mel(floor=1e-9)[B, F(80), T])
    with relax("floor", reason="only noise"):
        speech = Vocoder(1e-5)(mel=opened.mel)
    spoken = Graph("spoken", outputs=speech)
    again = spoken(mel=inputs(mel=Mel(floor=1e-9)[B, F(80), T]).mel)
    assert again.audio.step.relaxed == speech.audio.step.relaxed


def test_a_nesting_knows_the_line_of_a_recipe() -> None:
    text = """
neumo: 1
modules:
  data: {kind: SpeechData, vocab: en, manifest: a.jsonl}
  mel: {kind: MelSpectrogram}
vocabs: {en: {labels: " abcdefghijklmnopqrstuvwxyz'"}}
graphs:
  features:
    mode: train
    inputs: {audio: "Audio(rate=16000, peak=1.0, channels=1)[B, T]", audio_len: "Lengths(T)[B]"}
    steps: {feats: "mel(audio=audio, audio_len=audio_len)"}
  use:
    mode: infer
    steps:
      batch: data()
      found: features(audio=batch.audio, audio_len=batch.audio_len)
"""
    with pytest.raises(GraphError) as caught:
        load_recipe(text)
    assert caught.value.code == "mode"
    expect("graph_mode", caught.value.render())


def test_losses_that_were_left_out_are_left_out_of_a_sum() -> None:
    some = inputs(a=Loss()[()], b=Loss().optional()[()])
    total = Graph("total", outputs=SumOrNothing()(losses=[some.a, some.b]))
    fresh = inputs(p=Loss()[()])
    assert total(a=fresh.p).loss.step.inputs["losses"] == (fresh.p,)
    none = inputs(a=Loss().optional()[()])
    nothing = Graph("nothing", outputs=SumOrNothing()(losses=[none.a]))
    assert nothing().loss.step.inputs == {}


def test_an_input_that_is_given_on_is_left_out_of_the_record_with_it() -> None:
    some = inputs(a=Loss()[()], b=Loss().optional()[()])
    graph = Graph("echo", outputs={"total": SumLoss()(losses=[some.a]).loss, "rest": some.b})
    fresh = inputs(p=Loss()[()], q=Loss()[()])
    assert list(graph(a=fresh.p)._asdict()) == ["total"]
    assert graph(a=fresh.p, b=fresh.q).rest is fresh.q


def test_any_text_names_a_graph_in_messages() -> None:
    graph = Graph("my front end", outputs=Down()(x=inputs(x=X).x))
    with pytest.raises(PortError, match="my front end needs x"):
        graph()


def test_a_graph_can_be_copied_and_pickled() -> None:
    graph = front_end()
    assert graph.name_of(graph["ConvEncoder"]) == "ConvEncoder"
    assert graph.symbols
    for again in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph)):
        assert again == graph
        assert again.name_of(again["ConvEncoder"]) == "ConvEncoder"
        assert again["ConvEncoder"] is not graph["ConvEncoder"]
        with pytest.raises(GraphError, match="the outputs of graph 'front_end' cannot be changed"):
            again.outputs.clear()
    assert copy.copy(graph)["ConvEncoder"] is graph["ConvEncoder"]


def test_what_a_graph_does_not_have_gets_the_nearest() -> None:
    graph = front_end()
    for wrong, code, near in (
        (lambda: graph.outputs["encode"], "output", "encoded"),
        (lambda: graph.inputs["audo"], "output", "audio"),
        (lambda: graph["ConvEncodr"], "unknown-module", "ConvEncoder"),
    ):
        with pytest.raises(UnknownName) as caught:
            wrong()
        assert (caught.value.code, caught.value.fixes[0].text) == (code, f"did you mean {near!r}?")
    expect("graph_unknown_module", caught.value.render())
    assert Fixed({}, "input", "graph 'x'").get("y") is None
    with pytest.raises(KeyError, match="its inputs are none"):
        Fixed({}, "input", "graph 'x'")["y"]


def test_what_is_silenced_is_part_of_a_graph() -> None:
    why = {"unused-output": "the lengths are not needed"}
    value = Down()(x=inputs(x=X).x)
    loud, quiet = Graph("g", outputs=value), Graph("g", outputs=value, silence=why)
    assert quiet.silence == why
    assert loud != quiet
    assert quiet == Graph("g", outputs=value, silence=dict(why))
    assert quiet.prune("x").silence == quiet.rename(x="y").silence == why


@pytest.mark.parametrize("wrong", ["unused-output", {"unused-output": ""}, {"unused-output": 3}, {3: "why"}])
def test_silence_needs_a_reason(wrong: Any) -> None:
    with pytest.raises(GraphError) as caught:
        Graph("g", outputs=inputs(x=X), silence=wrong)
    assert caught.value.code == "silence"
    if isinstance(wrong, dict) and "" in wrong.values():
        expect("graph_silence", caught.value.render())


def test_only_rules_that_exist_are_silenced() -> None:
    with pytest.raises(GraphError, match="no rule 'unused-outputs'") as caught:
        Graph("g", outputs=inputs(x=X), silence={"unused-outputs": "why"})
    assert (caught.value.code, caught.value.fixes[0].text) == ("silence", "did you mean 'unused-output'?")


def test_a_graph_asks_the_rules_about_itself() -> None:
    graph = Graph("g", outputs=Down()(x=inputs(x=X, x_len=Lengths(T)[B]).x))
    assert all(finding.rule for finding in graph.findings())


def test_a_graph_names_its_dynamic_axes() -> None:
    graph = Graph("g", outputs=Down()(x=inputs(x=X).x).x)
    assert graph.dynamic_axes()["x"] == {0: "B", 2: "T"}


def test_a_framework_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frameworks.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BackendError, match="torch is not installed") as caught:
        Graph("g", outputs=inputs(x=X)).to_torch()
    assert caught.value.code == "missing-package"
    assert caught.value.fixes[0].text == "pip install 'neumo[torch]'"


def test_inputs_that_were_declared_apart_have_sizes_of_their_own() -> None:
    one = inputs(a=Acoustic()[B, F(8), T], a_len=Lengths(T)[B])
    two = inputs(b=Acoustic()[B, F(8), T])
    pair = Graph("pair", outputs=[Down()(x=one.a).x, Down()(x=two.b).x, one.a_len])
    fresh = inputs(p=Acoustic()[B, F(8), T("T3")], q=Acoustic()[B, F(8), T("T4")], n=Lengths(T("T3"))[B])
    found = pair(a=fresh.p, a_len=fresh.n, b=fresh.q)
    assert [str(value.type.axes[-1]) for value in (found.x, found.down_2_x)] == ["ceil(T3/2)", "ceil(T4/2)"]
    with pytest.raises(PortError, match=r"inputs.n cannot feed pair.a_len"):
        pair(a=fresh.q, a_len=fresh.n, b=fresh.q)


@dataclass(frozen=True)
class Guided(NeuralModule):
    """Is told the target while it is trained."""

    def signature(self) -> Signature:
        return Signature(takes={"x": X, "target": X.only("train")}, gives={"y": X})


def test_a_graph_for_both_may_be_told_its_targets_in_a_graph_for_inference() -> None:
    opened = inputs(x=X, target=X.only("train"))
    inner = Graph("inner", "both", Guided()(x=opened.x, target=opened.target))
    fresh = inputs(x=X, target=X)
    given = Graph("use", "infer", inner(x=fresh.x, target=fresh.target))
    assert [feed.port for feed in compile_plan(given, training=False).feeds] == ["x"]
    left_out = inner(x=fresh.x)
    assert "target" not in left_out.y.step.inputs
    assert Graph("use", "infer", left_out).mode == "infer"
    with pytest.raises(GraphError, match=r"'fit' is trained, and leaves out Guided.target"):
        Graph("fit", "train", left_out)


def test_a_graph_for_inference_is_not_told_its_targets() -> None:
    fresh = inputs(x=X, target=X)
    told = Guided()(x=fresh.x, target=fresh.target)
    with pytest.raises(GraphError) as caught:
        Graph("use", "infer", told)
    assert caught.value.code == "when"


def test_an_output_that_is_there_only_with_an_optional_input_may_be_missing_in_a_nested_graph() -> None:
    outside = inputs(x=X, more=X.as_optional())
    first = Echo()(x=outside.x, more=outside.more)
    second = Echo()(x=first.x, more=first.more)
    echo = Graph("echo", outputs={"x": second.x, "more": second.more})
    alone = echo(x=inputs(x=X).x)
    assert list(alone._asdict()) == ["x"]
    assert len(Graph(outputs=alone).steps) == 3
