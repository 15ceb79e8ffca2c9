"""Rules about losses, metrics and padding that is a label: what they find, and what they leave alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from neumo.graph.adapters import Softmax
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import Metric, NeuralModule, Role
from neumo.graph.rules import find
from neumo.graph.signature import Signature
from neumo.types import (
    B,
    Durations,
    F,
    Features,
    Hypotheses,
    Ids,
    Lengths,
    Logits,
    LogProbs,
    Loss,
    NeuralType,
    Score,
    Scores,
    T,
    U,
    V,
    Vocab,
)

from .rule_graphs import scored
from .rule_specs import LABELS, WIDTH, Embed, Head, Sentences, Speech
from .rule_specs_more import Distance, Search

MARKED = Vocab("_abc", pad="_", name="marked")


@dataclass(frozen=True)
class RowLoss(NeuralModule):
    """Gives a loss of each utterance and, if asked, their mean."""

    role: ClassVar[Role] = "loss"
    mean: bool = False

    def signature(self) -> Signature:
        takes = {"logits": Logits(LABELS)[B, T, V(LABELS)], "ids": Ids(LABELS)[B, T]}
        rows = {"loss": Loss(reduction="none")[B]}
        return Signature(takes=takes, gives=rows | ({"mean": Loss()[()]} if self.mean else {}))


def trained(*, mean: bool, mode: str = "train") -> Graph:
    batch = Sentences()()
    loss = RowLoss(mean)(logits=Head(LABELS)(x=Embed()(ids=batch.ids).x).logits, ids=batch.ids)
    outputs = {value.port: value for value in loss}
    return Graph("train", mode, outputs)  # pyright: ignore[reportArgumentType]


def test_a_loss_of_each_row_is_nothing_to_train_on() -> None:
    (finding,) = find(trained(mean=False))
    assert (finding.rule, finding.about) == ("loss-is-a-number", "RowLoss.loss")
    text = " ".join(finding.error().render().split())
    assert "RowLoss.loss is not one number, so it cannot be trained: it has one for each of [B]" in text
    assert "fix let RowLoss give a mean or a sum: its signature then says Loss()[()]" in text


@pytest.mark.parametrize(("mean", "mode"), [(True, "train"), (False, "infer"), (True, "both")])
def test_losses_of_rows_may_stand_beside(mean: bool, mode: str) -> None:
    assert "loss-is-a-number" not in {finding.rule for finding in find(trained(mean=mean, mode=mode))}


def test_a_metric_of_one_value_is_found() -> None:
    batch = Speech()()
    scores, n = scored(batch)
    heard = Search()(scores=scores, scores_len=n)
    lengths = {"hypothesis_len": heard.ids_len, "reference_len": heard.ids_len}
    one = Distance()(hypothesis=heard.ids, reference=heard.ids, **lengths)
    (finding,) = find(Graph("score", "infer", {"score": one.score}))
    assert (finding.rule, finding.about) == ("compared-with-itself", "Distance.reference")
    sentence = "Distance compares Search.ids with itself: hypothesis and reference are one value"
    assert finding.sentence == sentence
    assert [fix.text for fix in finding.fixes] == ["give reference what the data says, such as its text"]
    assert finding.error().render().count("Search.ids") == 1
    text = Distance()(hypothesis=batch.text, reference=batch.text)
    found = [f for f in find(Graph("score", "infer", {"score": text.score})) if f.rule == finding.rule]
    assert [(f.about, f.fixes[0].text) for f in found] == [
        ("Distance.hypothesis", "give hypothesis what the model found")
    ]
    lengths["reference_len"] = batch.text_len
    two = Distance()(hypothesis=heard.ids, reference=batch.text, **lengths)
    assert find(Graph("score", "infer", {"score": two.score})) == []


@dataclass(frozen=True)
class TagLoss(NeuralModule):
    """Takes tags of any vocabulary, and lengths if it is asked to."""

    role: ClassVar[Role] = "loss"
    with_lengths: bool = False

    def signature(self) -> Signature:
        takes: dict[str, NeuralType] = {"x": Features()[B, T, F(WIDTH)], "tags": Ids()[B, T]}
        lengths = {"tags_len": Lengths(T)[B]} if self.with_lengths else {}
        return Signature(takes=takes | lengths, gives={"loss": Loss()[()]})


def tagged(tags: Ids, *, with_lengths: bool = False) -> Graph:
    axes = (B, T)
    given = inputs(x=Features()[B, T, F(WIDTH)], tags=tags[axes], tags_len=Lengths(T)[B])
    lengths = {"tags_len": given.tags_len} if with_lengths else {}
    loss = TagLoss(with_lengths)(x=given.x, tags=given.tags, **lengths)
    return Graph("tags", outputs={"loss": loss.loss, "n": given.tags_len})


def test_padding_that_is_a_label_is_doubted() -> None:
    (finding,) = find(tagged(Ids(LABELS, pad=0)))
    assert (finding.rule, finding.about, finding.severity) == ("pad-is-a-label", "TagLoss.tags", "warning")
    assert finding.sentence == "TagLoss cannot tell the label 'a' in inputs.tags from padding"
    assert [fix.text for fix in finding.fixes] == [
        "pad inputs.tags with an index that is no label, such as -100",
        "let TagLoss take the lengths of tags",
    ]
    assert "given" in finding.error().render()


@pytest.mark.parametrize(
    "tags", [Ids(LABELS, pad=-100), Ids(LABELS), Ids(), Ids(pad=0), Ids(MARKED, pad=0), Ids(LABELS, pad=3)]
)
def test_padding_that_is_no_label_is_fine(tags: Ids) -> None:
    assert find(tagged(tags)) == []


def test_a_loss_that_knows_the_lengths_can_tell_labels_from_padding() -> None:
    assert find(tagged(Ids(LABELS, pad=0), with_lengths=True)) == []


@dataclass(frozen=True)
class Segmenter(NeuralModule):
    """Aligns a given text with speech: how many frames each label takes."""

    def signature(self) -> Signature:
        takes = {"scores": Scores(LABELS)[B, T, V(LABELS)], "text": Ids(LABELS)[B, U]}
        return Signature(takes=takes, gives={"durations": Durations()[B, U]})


@dataclass(frozen=True)
class Retimer(NeuralModule):
    """Gives durations that depend on the true ones."""

    def signature(self) -> Signature:
        takes = {"scores": Scores(LABELS)[B, T, V(LABELS)], "durations": Durations()[B, U]}
        return Signature(takes=takes, gives={"durations": Durations()[B, U]})


def test_a_forced_alignment_needs_the_text_and_does_not_predict_it() -> None:
    batch = Speech()()
    scores, _ = scored(batch)
    aligned = Segmenter()(scores=scores, text=batch.text)
    rules = {f.rule for f in find(Graph("align", "infer", {"durations": aligned.durations}))}
    assert "target-in-inference" not in rules


def test_durations_that_depend_on_given_durations_are_no_prediction() -> None:
    @dataclass(frozen=True)
    class Timed(Speech):
        targets: ClassVar[tuple[str, ...]] = ("durations",)

        def signature(self) -> Signature:
            gives = super().signature().gives
            return Signature(gives={**gives, "durations": Durations()[B, U]})

    batch = Timed()()
    scores, _ = scored(batch)
    again = Retimer()(scores=scores, durations=batch.durations)
    rules = [f.rule for f in find(Graph("time", "infer", {"durations": again.durations}))]
    assert "target-in-inference" in rules


def test_an_adapter_that_normalises_first_is_the_one_to_take_out() -> None:
    @dataclass(frozen=True)
    class Normal(NeuralModule):
        def signature(self) -> Signature:
            takes = {"scores": Scores(LABELS)[B, T, V(LABELS)]}
            return Signature(takes=takes, gives={"log_probs": LogProbs(LABELS)[B, T, V(LABELS)]})

    @dataclass(frozen=True)
    class Scale(NeuralModule):
        def signature(self) -> Signature:
            scores = Scores(LABELS)[B, T, V(LABELS)]
            return Signature(takes={"x": scores}, gives={"x": scores})

    batch = Sentences()()
    logits = Head(LABELS)(x=Embed()(ids=batch.ids).x).logits
    scaled = Scale()(x=Softmax()(logits=logits).probs).x
    again = Normal()(scores=scaled).log_probs
    twice = [f for f in find(Graph(outputs={"x": again})) if f.rule == "softmax-twice"]
    assert [fix.text for fix in twice[0].fixes] == ["take Softmax out", "take Normal out"]


@dataclass(frozen=True)
class TwoBest(NeuralModule):
    """Finds the two best texts."""

    role: ClassVar[Role] = "decoder"

    def signature(self) -> Signature:
        takes = {"scores": Scores(LABELS)[B, T, V(LABELS)]}
        return Signature(
            takes=takes, gives={"best": Hypotheses(LABELS)[B, U], "second": Hypotheses(LABELS)[B, U]}
        )


@dataclass(frozen=True)
class Agreement(Metric):
    """How far one search is from another."""

    def signature(self) -> Signature:
        takes = {"one": Hypotheses(LABELS)[B, T], "two": Hypotheses(LABELS)[B, U]}
        return Signature(takes=takes, gives={"score": Score()[()]})


def test_two_hypotheses_of_one_search_are_no_measure() -> None:
    scores = inputs(scores=Scores(LABELS)[B, T, V(LABELS)]).scores
    found, again = TwoBest().named("one")(scores=scores), TwoBest().named("two")(scores=scores)
    score = Agreement()(one=found.best, two=found.second).score
    (finding,) = find(Graph("score", "infer", {"score": score}))
    sentence = "Agreement compares what one found with itself: one and two are both of it"
    assert (finding.rule, finding.sentence) == ("compared-with-itself", sentence)
    other = Agreement()(one=found.best, two=again.best).score
    assert find(Graph("score", "infer", {"score": other})) == []


def test_a_loss_of_one_value_is_found() -> None:
    batch = Sentences()()
    loss = Near()(given=Embed()(ids=batch.ids).x, wanted=Embed()(ids=batch.ids).x)
    assert find(Graph("train", "train", {"loss": loss.loss})) == []
    made = Embed()(ids=batch.ids).x
    (finding,) = find(Graph("train", "train", {"loss": Near()(given=made, wanted=made).loss}))
    assert (finding.rule, finding.about) == ("compared-with-itself", "Near.wanted")


@dataclass(frozen=True)
class Near(NeuralModule):
    """How far features are from features."""

    role: ClassVar[Role] = "loss"

    def signature(self) -> Signature:
        x = Features()[B, F("D"), T]
        return Signature(takes={"given": x, "wanted": x}, gives={"loss": Loss()[()]})
