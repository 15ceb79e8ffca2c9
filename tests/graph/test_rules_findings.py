"""What comes of findings: errors, warnings, silence, JSON; rules over several graphs; the time it takes."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from neumo.graph.explain import explain
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import DataLayer, NeuralModule
from neumo.graph.rules import (
    RULES,
    Finding,
    Purpose,
    active,
    check_rules,
    find,
    find_between,
    mixed_ports,
    refuse,
    unneeded,
)
from neumo.graph.rules.view import declared_ports
from neumo.graph.signature import Signature
from neumo.types import B, F, Features, GraphError, Ids, Lengths, Mask, Mel, T, U

from . import rule_graphs as graphs
from . import rule_graphs_more as more
from .rule_specs import (
    LABELS,
    OTHERS,
    WIDTH,
    Attention,
    BareConv,
    CrossEntropy,
    Dense,
    Embed,
    Encoder,
    Front,
    Head,
    Sentences,
    Speech,
)
from .rule_specs_more import EditLoss, Search

DOCS = Path(__file__).parent.parent.parent / "docs" / "rules.md"
WARNINGS = {"untrained-module", "never-trained", "padding-doubt", "pad-is-a-label", "unused-output"}


def padded(silence: dict[str, str] | None = None) -> Graph:
    """An encoder that is not told of padding, in a graph that uses the lengths elsewhere."""
    batch = Speech()()
    mel = Front()(audio=batch.audio, audio_len=batch.audio_len)
    return Graph("infer", "infer", {"x": Encoder()(mel=mel.mel).encoded}, silence=silence)


def echo() -> Graph:
    """A graph with a warning: declared lengths that nothing reads."""
    given = inputs(x=Features()[B, F(WIDTH), T], x_len=Lengths(T)[B])
    return Graph("echo", "infer", {"x": Dense()(x=given.x).x})


def test_every_rule_has_a_severity_a_sentence_and_a_page() -> None:
    assert {name for name, rule in RULES.items() if rule.severity == "warning"} == WARNINGS
    for name, rule in RULES.items():
        assert rule.name == name
        assert rule.doc.endswith(".")
        assert explain(name).topic == "rules"


def test_the_docs_list_every_rule_with_its_severity_and_its_sentence() -> None:
    rows = [f"| `{rule.name}` | {rule.severity} | {rule.doc} |" for rule in RULES.values()]
    text = DOCS.read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("| `")] == rows


def test_an_error_is_raised_and_a_warning_is_returned() -> None:
    with pytest.raises(GraphError) as caught:
        check_rules(padded())
    assert caught.value.code == "padding"
    assert [finding.rule for finding in check_rules(echo())] == ["unused-output"]
    with pytest.raises(GraphError) as caught:
        check_rules(echo(), strict=True)
    assert caught.value.code == "unused-output"


def test_several_errors_are_told_together() -> None:
    given = inputs(x=Features()[B, F(WIDTH), T], x_len=Lengths(T)[B])
    again = BareConv().named("second")(x=BareConv().named("first")(x=given.x).x)
    with pytest.raises(GraphError) as caught:
        check_rules(Graph(outputs={"x": again.x, "n": given.x_len}))
    assert caught.value.data["about"] == "first.x"
    assert [error.data["about"] for error in caught.value.also] == ["second.x"]  # type: ignore[attr-defined]
    refuse([])


def test_what_is_silenced_is_listed_with_its_reason_and_stops_nothing() -> None:
    graph = padded({"padding": "all utterances are equally long"})
    (finding,) = find(graph)
    assert (finding.rule, finding.silenced) == ("padding", "all utterances are equally long")
    assert check_rules(graph) == []
    assert active([finding], "error") == []
    assert graph.findings() == [finding]


def test_a_rule_that_is_silenced_and_kept_is_known() -> None:
    graph = padded({"padding": "all utterances are equally long", "softmax-twice": "on purpose"})
    assert unneeded(graph, find(graph)) == ["softmax-twice"]


def test_what_a_nested_graph_silences_is_silent_where_it_is_used() -> None:
    given = inputs(x=Features()[B, F(WIDTH), T], x_len=Lengths(T)[B])
    silence = {"padding": "the kernel is one frame wide"}
    inner = Graph("inner", outputs={"x": BareConv()(x=given.x).x, "n": given.x_len}, silence=silence)
    batch = inputs(x=Features()[B, F(WIDTH), T], x_len=Lengths(T)[B])
    nested = inner(x=batch.x, x_len=batch.x_len)
    again = BareConv().named("again")(x=nested.x)
    found = find(Graph("outer", outputs={"x": again.x, "n": nested.n}))
    assert [(each.about, each.silenced) for each in found] == [
        ("BareConv.x", "the kernel is one frame wide"),
        ("again.x", ""),
    ]


def test_an_unknown_rule_cannot_be_silenced() -> None:
    with pytest.raises(GraphError) as caught:
        padded({"paddings": "all utterances are equally long"})
    assert caught.value.code == "silence"
    assert [fix.text for fix in caught.value.fixes] == ["did you mean 'padding'?"]


def test_a_finding_tells_where_it_is() -> None:
    (finding,) = find(padded())
    assert str(finding).startswith("Encoder is not told where the padding of mel begins")
    assert "[padding], " in str(finding)
    assert finding.where is not None
    assert finding.where.text[slice(finding.where.start, finding.where.end)] == "mel=mel.mel"
    assert str(Finding("padding", "it is padded")) == "it is padded [padding]"
    assert Finding("padding", "it is padded").where is None


def test_a_finding_is_plain_values_for_other_programs() -> None:
    (finding,) = find(padded())
    found = json.loads(json.dumps(finding.to_json()))
    assert found.pop("where").rpartition(":")[0].endswith("test_rules_findings.py")
    assert found == {
        "rule": "padding",
        "severity": "error",
        "what": "Encoder is not told where the padding of mel begins: mel_len is left out",
        "about": "Encoder.mel",
        "path": "Speech.audio -> Front.mel -> Encoder.mel",
        "fixes": ["mel_len=mel.mel_len"],
        "silenced": "",
    }
    assert Finding("padding", "it is padded").to_json()["where"] is None
    assert Finding("padding", "it is padded").to_json()["path"] == ""


def test_a_way_out_that_is_offered_was_tried() -> None:
    """A mask of the other meaning measures the same axis, and does not fit."""
    given = inputs(x=Features()[B, F(WIDTH), T], q=Features()[B, F(WIDTH), U], mask=Mask(T, true="pad")[B, T])
    attended = Attention()(query=given.q, memory=given.x)
    (finding,) = find(Graph(outputs={"x": attended.x, "mask": given.mask}))
    assert [fix.text for fix in finding.fixes] == [
        "connect memory_mask, such as the lengths that come with inputs.x"
    ]


def test_a_way_out_is_spelled_as_the_user_does_where_that_can_be_seen() -> None:
    batch = Speech()()
    frames, frames_len = Front()(audio=batch.audio, audio_len=batch.audio_len)
    encoded = Encoder()(mel=frames).encoded
    (finding,) = find(Graph("infer", "infer", {"x": encoded, "n": frames_len}))
    assert [fix.text for fix in finding.fixes] == ["mel_len=Front.mel_len"]
    assert finding.step is not None
    finding.step.location = None
    assert [fix.text for fix in finding.fixes] == ["mel_len=Front.mel_len"]
    assert finding.where is None


def test_lengths_that_come_later_are_no_way_out() -> None:
    """What is made of the encoder's own output cannot go into it."""
    graph = graphs.a_convolution_that_takes_no_lengths()
    (finding,) = find(graph)
    assert [fix.text for fix in finding.fixes] == [
        "give BareConv a port such as x_len: Lengths(T)[B], and use it",
        "if BareConv works position by position: mixes = () in the class",
    ]


def test_one_port_that_takes_many_values_is_told_once() -> None:
    @dataclass(frozen=True)
    class Blend(NeuralModule):
        def signature(self) -> Signature:
            takes = {"xs": Features().many()[B, F, T], "n": Lengths(T).optional()[B]}
            return Signature(takes=takes, gives={"x": Features()[B, F, T]})

    given = inputs(x=Features()[B, F(WIDTH), T], y=Features()[B, F(WIDTH), T], n=Lengths(T)[B])
    (finding,) = find(Graph(outputs={"x": Blend()(xs=[given.x, given.y]).x, "n": given.n}))
    assert finding.about == "Blend.xs"


def test_mixed_ports_are_declared_or_follow_from_lengths() -> None:
    assert mixed_ports(BareConv()) == ["x"]
    assert mixed_ports(Dense()) == []
    assert mixed_ports(Encoder()) == ["mel"]
    assert mixed_ports(Attention()) == ["memory"]
    assert mixed_ports(Head()) == []


def test_a_port_that_is_declared_with_a_slip_is_refused() -> None:
    @dataclass(frozen=True)
    class Slip(NeuralModule):
        mixes: ClassVar[tuple[str, ...]] = ("fetures",)

        def signature(self) -> Signature:
            features = Features()[B, F, T]
            return Signature(takes={"features": features}, gives={"x": features})

    with pytest.raises(GraphError) as caught:
        mixed_ports(Slip())
    assert caught.value.code == "module"
    assert [fix.text for fix in caught.value.fixes] == ["did you mean 'features'?"]


def test_a_declaration_may_name_ports_that_other_settings_give() -> None:
    @dataclass(frozen=True)
    class Odd(DataLayer):
        targets: ClassVar[Any] = "words"

        def signature(self) -> Signature:
            return Signature(gives={"ids": Ids(LABELS)[B, T]})

    @dataclass(frozen=True)
    class Own(DataLayer):
        targets: int = 3

        def signature(self) -> Signature:
            return Signature(gives={"ids": Ids(LABELS)[B, T]})

    assert declared_ports(Odd(), "targets", Odd().signature().gives) == ("words",)
    assert declared_ports(Own(), "targets", Own().signature().gives) is None
    batch = Odd()()
    assert find(Graph("train", "train", {"x": Embed()(ids=batch.ids).x})) == []


def test_the_purpose_goes_before_the_mode() -> None:
    graph = graphs.a_loss_of_fixed_scores_that_is_only_looked_at()
    assert find(graph) == []
    (finding,) = find(graph, Purpose("train"))
    assert finding.rule == "loss-reaches-weights"


def test_of_several_losses_one_is_trained() -> None:
    batch = Sentences()()
    n = graphs.full(batch)
    heads = {name: Head(OTHERS).named(name) for name in ("one", "two")}
    losses = {
        name: CrossEntropy()(
            logits=head(x=Embed()(ids=batch.ids).x).logits, targets=batch.tags, targets_len=n
        ).loss
        for name, head in heads.items()
    }
    graph = Graph("train", "train", losses)
    assert find(graph) == []
    found = find(graph, Purpose(loss=graph.outputs["one"]))
    assert [finding.about for finding in found] == ["Embed_2", "two"]
    assert find(graph, Purpose(loss=graph.outputs["one"], frozen=[heads["two"], graph["Embed_2"]])) == []


def test_frozen_modules_are_no_training() -> None:
    batch = Sentences()()
    embed, head = Embed(), Head(OTHERS)
    loss = CrossEntropy()(
        logits=head(x=embed(ids=batch.ids).x).logits, targets=batch.tags, targets_len=graphs.full(batch)
    ).loss
    graph = Graph("train", "train", {"loss": loss})
    assert find(graph, Purpose(frozen=[embed])) == []
    (finding,) = find(graph, Purpose(frozen=[embed, head]))
    error = finding.error()
    assert finding.rule == "loss-reaches-weights"
    assert "Embed: frozen" in error.details
    assert "Head: frozen" in error.details
    assert [fix.text for fix in finding.fixes] == ["unfreeze a module"]


def test_whether_a_module_has_weights_may_be_known_better() -> None:
    graph = graphs.a_loss_of_scores_that_come_from_outside()
    assert find(graph, Purpose(trainable=lambda module: True)) == []
    graph = graphs.a_recogniser_with_all_its_lengths()
    (finding,) = find(graph, Purpose(trainable=lambda module: False))
    assert finding.rule == "loss-reaches-weights"


def test_a_module_that_is_cut_off_twice_is_told_once() -> None:
    batch = Speech()()
    scores, n = graphs.scored(batch)
    ids = Search()(scores=scores, scores_len=n).ids
    embed = Embed().named("embed")
    logits = Head()(x=embed(ids=ids).x).logits
    loss = CrossEntropy()(logits=logits, targets=ids).loss
    extra = EditLoss()(hypothesis=ids, reference=batch.text).loss
    outputs = {"loss": loss, "extra": extra, "best": graphs.Best()(scores=scores).ids}
    graph = Graph("train", "train", outputs, silence={"padding": "no lengths here"})
    found = [finding.about for finding in find(graph) if finding.rule == "untrained-module"]
    assert found == ["Encoder", "ProbHead"]


# Rules over several graphs


def recipe(encoder: Encoder, other: Encoder, hop: int = 160) -> dict[str, Graph]:
    batch, dev = Speech()(), Speech()()
    mel = Front()(audio=batch.audio, audio_len=batch.audio_len)
    states = encoder(mel=mel.mel, mel_len=mel.mel_len)
    head = graphs.ProbHead()
    loss = graphs.Alignments()(
        log_probs=head(x=states.encoded).log_probs,
        log_probs_len=states.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )
    seen = Front(hop)(audio=dev.audio, audio_len=dev.audio_len)
    known = other(mel=seen.mel, mel_len=seen.mel_len)
    scores = head(x=known.encoded).log_probs
    infer = Graph("infer", "infer", {"scores": scores, "n": known.encoded_len})
    return {"train": Graph("train", "train", {"loss": loss.loss}), "infer": infer}


def test_graphs_that_share_their_modules_are_right() -> None:
    encoder = Encoder()
    assert find_between(recipe(encoder, encoder)) == []


def test_a_module_that_only_a_prediction_uses_is_never_trained() -> None:
    other = Encoder()
    found = recipe(Encoder(), other)
    (finding,) = find_between(found)
    assert (finding.rule, finding.about, finding.graph) == ("never-trained", "Encoder", "infer")
    assert finding.severity == "warning"
    assert "'infer' would predict at random" in finding.sentence
    assert find_between(found, has_weights=True) == []
    assert find_between(found, frozen=[other]) == []
    assert find_between({"infer": found["infer"]}) == []


def test_a_module_is_told_once_for_all_graphs() -> None:
    found = recipe(Encoder(), Encoder())
    again = Graph("test", "infer", {"scores": found["infer"].outputs["scores"]})
    assert [finding.graph for finding in find_between({**found, "test": again})] == ["infer"]


def test_a_graph_for_both_trains_if_it_is_the_one() -> None:
    found = recipe(Encoder(), Encoder())
    both = Graph("train", "both", {"loss": found["train"].outputs["loss"]})
    assert find_between({"train": both, "infer": found["infer"]}) == []
    (finding,) = find_between({"train": both, "infer": found["infer"]}, trained=["train"])
    assert finding.rule == "never-trained"


def test_training_and_prediction_on_other_frames_are_found() -> None:
    encoder = Encoder()
    (finding,) = find_between(recipe(encoder, encoder, hop=200))
    assert (finding.rule, finding.graph) == ("one-module-two-vocabularies", "infer")
    text = finding.error().render()
    assert "hop=160    in graph 'train'" in text
    assert "hop=200    in graph 'infer'" in text


def test_what_one_graph_alone_breaks_is_not_told_again() -> None:
    graph = more.one_encoder_of_two_frame_rates()
    assert find_between({"graph": graph}) == []


def test_a_second_use_is_told_once_and_with_all_that_differs() -> None:
    encoder = Encoder()
    given = inputs(
        a=Mel(rate=16000, hop=160)[B, F(80), T],
        b=Mel(rate=22050, hop=256)[B, F(80), T],
        c=Mel(rate=8000, hop=80)[B, F(80), T],
    )
    calls = {name: encoder(mel=value).encoded for name, value in zip("abc", given, strict=True)}
    (finding,) = find(Graph(outputs=calls))
    assert "rate=16000, hop=160" in finding.error().render()
    assert "rate=22050, hop=256" in finding.error().render()


def deep(modules: int) -> Graph:
    given = inputs(x=Features()[B, F(WIDTH), T], x_len=Lengths(T)[B])
    x = given.x
    for _ in range(modules):
        x = Attention()(query=x, memory=x, memory_len=given.x_len).x
    return Graph("deep", "both", {"x": x})


def seconds_for(graph: Graph) -> float:
    """The least CPU time of five looks at a graph."""
    seconds: list[float] = []
    for _ in range(5):
        start = time.process_time()
        assert find(graph) == []
        seconds.append(time.process_time() - start)
    return min(seconds)


def test_a_graph_of_a_thousand_modules_is_looked_at_in_a_moment() -> None:
    graph = deep(1000)
    assert sum(1 for step in graph.steps for _ in step.edges()) == 3000
    seconds = seconds_for(graph)
    print(f"find: {seconds * 1000:.0f} ms for 1,000 modules and 3,000 connections")
    assert seconds < 0.1 or sys.gettrace() is not None  # tracing takes ten times as long
    assert seconds < 8 * seconds_for(deep(250))  # linear: four times as many take four times as long
