"""Explicit casts: what is known and no type says, with the reason; what a type denies cannot be claimed."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import neumo
from neumo.engine import NeuralFactory
from neumo.graph.assume import Assume, assume
from neumo.graph.collect import collect
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.yaml import load_recipe, recipe_text
from neumo.types import (
    Acoustic,
    Any_,
    Audio,
    B,
    ConfigError,
    Element,
    F,
    Features,
    Ids,
    Lengths,
    Logits,
    LogProbs,
    Mask,
    Mel,
    NeuralType,
    PortError,
    Probs,
    Scores,
    Spectrogram,
    T,
    Text,
    U,
    V,
    Var,
    Vocab,
    parse,
)

from .specs import EN, EN_SORTED, ConvEncoder, MelSpectrogram, SpeechData, UntypedSource

WHY = "somebody looked"


def value(type: NeuralType) -> Any:
    return inputs(x=type).x


def test_open_facets_are_said_and_the_sizes_stay() -> None:
    raw = UntypedSource()()
    audio = assume(raw.audio, Audio(rate=16000, peak=1.0)[B, T], reason=WHY)
    assert str(audio.type) == "Audio(rate=16000, peak=1.0)[B, T]"
    assert audio.type.axes[1].size == raw.audio.type.axes[1].size
    feats = MelSpectrogram()(audio=audio, audio_len=raw.audio_len)
    assert feats.mel.step.assumptions == []


def test_a_claim_is_listed_with_its_reason_and_its_place() -> None:
    raw = UntypedSource()()
    audio = neumo.assume(raw.audio, Audio(rate=16000, peak=1.0)[B, T], reason="the corpus is all 16 kHz")
    graph = Graph(outputs=MelSpectrogram()(audio=audio, audio_len=raw.audio_len))
    (claim,) = graph.assumptions()
    assert claim.reason == "the corpus is all 16 kHz"
    assert claim.place.startswith("tests/graph/test_assume.py:")
    assert str(claim) == (
        f"Assume.value: type = Audio(rate=16000, peak=1.0)[B, T] (the corpus is all 16 kHz; {claim.place})"
    )
    (plain, *_) = Graph(outputs=MelSpectrogram()(audio=raw.audio, audio_len=raw.audio_len)).assumptions()
    assert (plain.reason, str(plain)) == ("", "MelSpectrogram.audio: rate = 16000")


@pytest.mark.parametrize(
    ("given", "claimed", "result"),
    [
        (Any_()[B, T], Audio(rate=8000)[B, T], "Audio(rate=8000)[B, T]"),
        (Features()[B, F, T], Acoustic("bert")[B, F, T], "Acoustic(bert)[B, F, T]"),
        (Mel(rate=16000, scale="ln")[B, F(64), T], Mel(n_mels=64)[B, F, T],
         "Mel(rate=16000, scale=ln, n_mels=64)[B, F=64, T]"),
        (Spectrogram(rate=8000)[B, F, T], Mel(rate=Var("r"))[B, F, T], "Mel(rate=8000)[B, F, T]"),
        (Scores(EN)[B, T, V(EN)], LogProbs()[B, T, V],
         f"LogProbs({EN})[B, T, V={EN}]"),
        (Scores()[B, T, F(3)], LogProbs()[B, T, V], "LogProbs[B, T, V=3]"),
        (parse("Any[B, X, T]"), Acoustic()[B, F(8), T], "Acoustic[B, F=8, T]"),
        (Acoustic()[B, F, T], Any_()[B, F, T], "Any[B, F, T]"),
        (Acoustic()[B, F(None), T], Acoustic()[B, F(8), T], "Acoustic[B, F=8, T]"),
        (Lengths(T)[B], Lengths(U)[B], "Lengths(T)[B]"),
        (Acoustic()[B, T.at(50), F], Features()[B, T, F], "Features[B, T at 50 Hz, F]"),
        (Audio()[B, T], Audio()[B, T // 2 + U], "Audio[B, U + T//2]"),
        (Ids(EN).optional()[B, U], Ids(EN)[B, U], f"Ids({EN})[B, U]"),
    ],
)  # fmt: skip
def test_a_claim_keeps_what_it_leaves_open(given: NeuralType, claimed: NeuralType, result: str) -> None:
    assert str(assume(value(given), claimed, reason=WHY).type) == result


@pytest.mark.parametrize(
    ("given", "claimed", "why"),
    [
        (Audio(rate=8000)[B, T], Audio(rate=16000)[B, T], "rate is 8000, not 16000"),
        (Mel(scale="ln")[B, F, T], Spectrogram(scale="db")[B, F, T], "scale is ln, not db"),
        (Ids(EN)[B, U], Ids(EN_SORTED)[B, U], "vocab is "),
        (Audio()[B, T], Ids()[B, T], "it is Audio, not Ids"),
        (Acoustic()[B, F(8), T], Acoustic()[B, F(9), T], "axis 1 is 8 long, not 9"),
        (Acoustic()[B, F(8), F(9)], Acoustic()[B, F, F], "axis 1 is 8 long, not 9"),
        (Acoustic()[B, F, T], Acoustic()[B, T], "it has 3 axes, not 2"),
        (Acoustic()[B, F, T], Audio()[B, T], "it is Acoustic, not Audio"),
        (Acoustic()[B, T.at(50), F], Acoustic()[B, T.at(100), F], "axis 1 has 50 steps a second, not 100"),
        (Acoustic()[B, T], Acoustic()[B.list(), T], "axis 0 is no list"),
        (Mel()[B, F(80), T], Audio()[B, F(80), T], "it is Mel, not Audio"),
        (Text()[B, T, F], Acoustic()[B, T, F], "it is Text, not Acoustic"),
        (Features()[B, F, T], Mel()[B, F, T], "it is Features, not Mel"),
        (Logits()[B, T, V], LogProbs()[B, T, V], "it is Logits, not LogProbs"),
        (Probs()[B, T, V], Logits()[B, T, V], "it is Probs, not Logits"),
        (Features()[B, T, F(16)], Features()[T, B, F(16)], "its axes are B T F, not T B F"),
        (Acoustic()[B, F(8), T], Acoustic()[B, T("T2"), F("G")], "its axes are B F T, not B T F"),
        (Any_()[B, T, V], Acoustic()[B, T, F], "its axes are B T V, not B T F"),
        (Lengths(T, unit="fraction")[B], Lengths(T)[B], "its numbers are float, not int"),
    ],
)
def test_what_the_type_denies_cannot_be_claimed(given: NeuralType, claimed: NeuralType, why: str) -> None:
    with pytest.raises(PortError) as caught:
        assume(value(given), claimed, reason=WHY)
    assert caught.value.code == "assume"
    assert why in caught.value.what
    assert "test_assume.py" in str(caught.value.where)


def test_a_size_that_is_always_another_cannot_be_claimed() -> None:
    frames = MelSpectrogram()(audio=(b := SpeechData(EN)()).audio, audio_len=b.audio_len)
    size = frames.mel.type.axes[2].size
    assert size is not None
    with pytest.raises(PortError, match=r"axis 2 is T//160 \+ 1 long, not T//160 \+ 2"):
        assume(frames.mel, Mel()[B, F, T(size + 1)], reason=WHY)
    half = assume(frames.mel, Mel()[B, F, T((size + 1) // 2 * 2)], reason="the length is even")
    assert half.type.axes[2].size == (size + 1) // 2 * 2


def test_lengths_can_be_said_to_count_what_they_count() -> None:
    batch = SpeechData(EN)()
    feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    counted = inputs(n=Any_()[B]).n
    size = feats.mel.type.axes[2].size
    claimed = assume(
        counted, Lengths(size)[B(feats.mel.type.axes[0].size)], reason="the reader counts frames"
    )
    enc = ConvEncoder()(mel=feats.mel, mel_len=claimed)
    assert str(enc.encoded_len.type) == "Lengths(T//320 + 1)[B]"


def test_several_contradictions_are_all_told() -> None:
    with pytest.raises(PortError) as caught:
        assume(value(Mel(rate=8000, scale="ln")[B, F(8), T]), Mel(rate=1, scale="db")[B, F(9), T], reason=WHY)
    assert caught.value.why == ("Scale is ln, not db.", "Axis 1 is 8 long, not 9.")


@pytest.mark.parametrize("reason", ["", "  ", None])
def test_a_claim_without_a_reason_is_refused(reason: Any) -> None:
    with pytest.raises(ConfigError, match="is assumed without a reason"):
        assume(value(Audio()[B, T]), Audio(rate=1)[B, T], reason=reason)


def test_the_text_of_a_type_is_a_claim() -> None:
    claimed = assume(value(Audio()[B, T]), "Audio(rate=8000)[B, T]", reason=WHY)
    assert str(claimed.type) == "Audio(rate=8000)[B, T]"
    with pytest.raises(ConfigError, match="there is no element 'Adio'"):
        assume(value(Audio()[B, T]), "Adio[B, T]", reason=WHY)


def test_what_is_no_type_cannot_be_claimed() -> None:
    wrong: Any = Audio(rate=1)
    with pytest.raises(ConfigError, match="is no type that a value could have") as caught:
        assume(value(Audio()[B, T]), wrong, reason=WHY)
    assert caught.value.code == "assume"
    assert isinstance(wrong, Element)


def test_a_module_that_was_left_without_its_value_says_so() -> None:
    with pytest.raises(PortError, match="needs value"):
        Assume(Audio()[B, T], WHY)()


def test_a_refused_claim_is_gathered_and_goes_on() -> None:
    with collect(raises=False) as errors:
        audio = assume(value(Audio(rate=8000)[B, T]), Audio(rate=16000)[B, T], reason=WHY)
    assert [error.code for error in errors] == ["assume"]
    assert str(audio.type) == "Audio(rate=16000)[B, T]"


def test_claims_are_copied_written_and_read() -> None:
    text = """
neumo: 1
vocabs:
  ab: {labels: ab}
modules:
  known: {kind: Assume, type: "LogProbs(ab)[B, T, V=ab]", reason: the exporter forgot it}
graphs:
  g:
    inputs: {x: "Any[B, T, V]"}
    steps: {y: known(value=x)}
"""
    graph = load_recipe(text).graph()
    again = load_recipe(recipe_text(graph)).graph()
    assert again == graph
    assert str(again.outputs["value"].type) == "LogProbs(ab[2]#9bad6162)[B, T, V=ab[2]#9bad6162]"
    spec = Assume(Audio(rate=1)[B, T], WHY)
    assert pickle.loads(pickle.dumps(spec)) == copy.deepcopy(spec) == spec
    with pytest.raises(ConfigError, match="without a reason") as caught:
        load_recipe(text.replace("the exporter forgot it", "''"))
    assert str(caught.value.where).startswith("<text>:6:")


ARRAY = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)


@pytest.mark.parametrize(
    ("given", "claimed", "array", "wrong"),
    [
        (Any_()[B, T], Audio(peak=1.0)[B, T], ARRAY, None),
        (Any_()[B, T], Audio(peak=1.0)[B, T], 3000 * ARRAY, "its peak is 3000, and 1 was promised"),
        (Any_()[B, T], Ids(Vocab("abc"))[B, T], ARRAY, "it holds float numbers, not int"),
        (Any_()[B, T], Ids(Vocab("abc"))[B, T], np.full((2, 6), 3), "12 ids are outside the 3 labels"),
        (Any_()[B, F], Acoustic()[B, F(6)], ARRAY, None),
        (Any_()[B, F], Acoustic()[B, F(7)], ARRAY, "axis 1 must be 7 long"),
        (Scores()[B, V(6)], Probs()[B, V(6)], ARRAY, "the probabilities of a position sum to"),
        (Any_()[B, T], Mask(T, true="keep")[B, T], ARRAY > 0, None),
    ],
)  # fmt: skip
def test_what_can_be_seen_of_a_claim_is_checked_when_the_graph_runs(
    given: NeuralType, claimed: NeuralType, array: Any, wrong: str | None
) -> None:
    opened = inputs(x=given)
    graph = Graph("claim", "infer", {"y": assume(opened.x, claimed, reason=WHY)})
    factory = NeuralFactory(device="cpu", progress=False)
    if wrong is None:
        assert (factory.infer(graph, {"x": array})[0]["y"] == array).all()
        return
    with pytest.raises(PortError) as caught:
        factory.infer(graph, {"x": array})
    assert wrong in " ".join(str(caught.value).split())
    assert "taken on trust at composition: type = " in " ".join(str(caught.value).split())
    assert NeuralFactory(device="cpu", progress=False, verify="off").infer(graph, {"x": array})
