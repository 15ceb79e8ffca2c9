"""The whole message of each rule, as it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from neumo.graph.graph import Graph, Mode
from neumo.graph.inputs import inputs
from neumo.graph.rules import Finding, find, find_between
from neumo.graph.yaml import load_recipe
from neumo.types import B, F, Features, Ids, Lengths, Mask, T, U

from .rule_specs import (
    LABELS,
    OTHERS,
    WIDTH,
    Alignments,
    Attention,
    BareConv,
    CrossEntropy,
    Dense,
    Embed,
    Encoder,
    Front,
    Head,
    ProbHead,
    Sentence,
    Sharpen,
    Speech,
    Speller,
    Translator,
)
from .rule_specs_more import EditLoss, Search
from .snapshots import ROOT, expect
from .specs import EN, ConvEncoder, MelSpectrogram, SpeechData


def shown(name: str, findings: list[Finding]) -> None:
    (finding,) = findings
    expect(f"rule_{name}", finding.error().render())


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_padding() -> None:
    batch = Speech()()
    frames = Front()(audio=batch.audio, audio_len=batch.audio_len)
    states = Encoder()(mel=frames.mel)
    shown("padding", find(Graph("infer", "infer", {"encoded": states.encoded})))


def test_padding_beside_a_causal_mask() -> None:
    given = inputs(
        x=Features()[B, T, F(WIDTH)],
        y=Features()[B, U, F(WIDTH)],
        y_len=Lengths(U)[B],
        causal=Mask(U, true="pad")[U, U],
    )
    made = Translator()(source=given.x, target=given.y, causal=given.causal)
    shown("padding_causal", find(Graph("translate", "both", {"y": made.x, "n": given.y_len})))


def test_one_mask_of_two() -> None:
    given = inputs(x=Features()[B, T, F(WIDTH)], pad=Mask(T, true="pad")[B, T], y=Features()[B, U, F(WIDTH)])
    made = Translator()(source=given.x, target=given.y, source_pad=given.pad)
    shown("padding_second_mask", find(Graph("translate", "both", {"y": made.x})))


def test_a_padded_axis_that_is_gone() -> None:
    given = inputs(x=Features()[B, T, F(WIDTH)], x_len=Lengths(T)[B])
    made = Sentence()(x=given.x)
    shown("padding_lost", find(Graph("pool", "both", {"x": made.x, "n": given.x_len})))


def test_padding_of_a_memory_with_a_mask_or_lengths() -> None:
    given = inputs(x=Features()[B, F(WIDTH), T], x_len=Lengths(T)[B], q=Features()[B, F(WIDTH), U])
    attended = Attention().named("attend")(query=given.q, memory=given.x)
    shown("padding_mask", find(Graph("read", "both", {"x": attended.x, "n": given.x_len})))


def test_padding_of_a_module_that_cannot_be_told() -> None:
    given = inputs(x=Features()[B, F(WIDTH), T], x_len=Lengths(T)[B])
    filtered = BareConv()(x=given.x)
    shown("padding_no_port", find(Graph("filter", "both", {"x": filtered.x, "n": given.x_len})))


def test_loss_behind_indices() -> None:
    batch = Speech()()
    frames = Front()(audio=batch.audio, audio_len=batch.audio_len)
    states = Encoder()(mel=frames.mel, mel_len=frames.mel_len)
    scores = ProbHead()(x=states.encoded).log_probs
    heard = Search()(scores=scores, scores_len=states.encoded_len)
    loss = EditLoss()(hypothesis=heard.ids, reference=batch.text)
    shown("loss_reaches_weights", find(Graph("train", "train", {"loss": loss.loss})))


def test_softmax_twice() -> None:
    given = inputs(ids=Ids(LABELS)[B, T], tags=Ids(OTHERS)[B, T])
    scores = ProbHead(OTHERS).named("tagger")(x=Embed()(ids=given.ids).x)
    sharp = Sharpen()(scores=scores.log_probs)
    loss = CrossEntropy()(logits=sharp.logits, targets=given.tags)
    shown("softmax_twice", find(Graph("train", "train", {"loss": loss.loss})))


def test_target_in_inference() -> None:
    batch = Speech()()
    frames = Front()(audio=batch.audio, audio_len=batch.audio_len)
    states = Encoder()(mel=frames.mel, mel_len=frames.mel_len)
    spelt = Speller()(encoded=states.encoded, encoded_len=states.encoded_len, said=batch.text)
    shown("target_in_inference", find(Graph("infer", "infer", {"logits": spelt.logits})))


def test_one_module_two_vocabularies() -> None:
    given = inputs(spoken=Ids(LABELS)[B, T], written=Ids(OTHERS)[B, U])
    embed = Embed().named("embed")
    one = embed(ids=given.spoken)
    two = embed(ids=given.written)
    shown("two_vocabularies", find(Graph(outputs={"one": one.x, "two": two.x})))


def test_untrained_module() -> None:
    given = inputs(x=Features()[B, F(WIDTH), T], tags=Ids(OTHERS)[B, T])
    loss = CrossEntropy()(logits=Head(OTHERS)(x=given.x).logits, targets=given.tags)
    scores = Head(LABELS).named("second")(x=given.x)
    graph = Graph("train", "train", {"loss": loss.loss, "scores": scores.logits})
    shown("untrained_module", find(graph))


def test_unused_output() -> None:
    given = inputs(x=Features()[B, F(WIDTH), T], x_len=Lengths(T)[B])
    shown("unused_output", find(Graph("infer", "infer", {"x": Dense()(x=given.x).x})))


def test_never_trained() -> None:
    batch = Speech()()
    frames = Front()(audio=batch.audio, audio_len=batch.audio_len)
    states = Encoder()(mel=frames.mel, mel_len=frames.mel_len)
    loss = Alignments()(
        log_probs=ProbHead()(x=states.encoded).log_probs,
        log_probs_len=states.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )
    other = ProbHead()(x=states.encoded)
    train = Graph("train", "train", {"loss": loss.loss})
    infer = Graph("infer", "infer", {"scores": other.log_probs, "n": states.encoded_len})
    shown("never_trained", find_between({"train": train, "infer": infer}))


def test_a_recipe_is_pointed_at_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("recipe.yaml").write_text(
        "neumo: 1\n"
        "modules: {slow: {kind: Resample, source: 16000, target: 8000}}\n"
        "graphs:\n"
        "  narrow:\n"
        "    inputs: {audio: 'Audio(rate=16000)[B, T]', n: 'Lengths(T)[B]'}\n"
        "    steps:\n"
        "      out: slow(audio=audio)\n"
        "    outputs: {audio: out.audio, n: n}\n"
    )
    graph = load_recipe("recipe.yaml").graph("narrow")
    shown("padding_recipe", find(graph))


def test_a_front_end_that_serves_otherwise_is_to_be_built_as_in_training() -> None:
    encoder, heard = ConvEncoder(), SpeechData(EN)()
    loud, low = MelSpectrogram(), MelSpectrogram(hop=320)
    graphs: dict[str, Graph] = {}
    fronts: dict[Mode, MelSpectrogram] = {"train": loud, "infer": low}
    for mode, front in fronts.items():
        mel = front(audio=heard.audio, audio_len=heard.audio_len)
        states = encoder(mel=mel.mel, mel_len=mel.mel_len)
        graphs[mode] = Graph(mode, outputs={"encoded": states.encoded}, mode=mode)
    (found,) = (each for each in find_between(graphs) if each.rule == "one-module-two-vocabularies")
    assert [fix.text for fix in found.error().fixes][:2] == [
        "build MelSpectrogram with hop=160, or use one MelSpectrogram for both",
        "convert one of the two values before it",
    ]
