"""Settings behind a mismatch: which one asks for something, and what it would have to be."""

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
    C,
    F,
    Features,
    Ids,
    Lengths,
    LogProbs,
    Mel,
    PortError,
    T,
    U,
    V,
    Vocab,
)

from .specs import EN, CTCLoss

ODD = Vocab(["a", "<blank>", "b"], name="odd", blank=1)


@dataclass(frozen=True)
class Search(NeuralModule):
    """Takes scores over its labels and a blank."""

    vocab: Vocab
    where: str = "end"
    least: bool = False

    def signature(self) -> Signature:
        labels = self.vocab.with_blank("start" if self.where == "start" else "end")
        return Signature(takes={"x": LogProbs(labels)[B, T, V(labels)]})


@dataclass(frozen=True)
class Plain(NeuralModule):
    """Takes scores over its labels as they are."""

    labels: Vocab

    def signature(self) -> Signature:
        return Signature(takes={"x": LogProbs(self.labels)[B, T, V(self.labels)]})


@dataclass(frozen=True)
class Read(NeuralModule):
    periodic: bool = False

    def signature(self) -> Signature:
        return Signature(takes={"ids": Ids(EN)[B, T], "ids_len": Lengths(T)[B]})


@dataclass(frozen=True)
class Crops(NeuralModule):
    per_second: int = 50

    def signature(self) -> Signature:
        return Signature(
            takes={"x": Acoustic()[B, F, T]}, gives={"x": Acoustic()[B, F(8), T(200).at(self.per_second)]}
        )


def refused(module: NeuralModule, labels: Vocab) -> PortError:
    data = inputs(x=LogProbs(labels)[B, T, V(labels)])
    with pytest.raises(PortError) as caught:
        module(x=data.x)
    return caught.value


def fixes(error: PortError) -> list[str]:
    return [fix.text for fix in error.fixes]


def test_labels_are_found_behind_the_blank_that_was_added_to_them() -> None:
    de = Vocab("abcß", name="de")
    error = refused(Search(EN), de.with_blank())
    assert fixes(error) == ["build Search with vocab=de"]
    assert "because Search has vocab=en" in str(error)
    assert fixes(refused(Search(EN, "start"), de.with_blank("start"))) == ["build Search with vocab=de"]


@pytest.mark.parametrize(
    "labels",
    [
        Vocab("abcß", name="de"),  # no blank
        Vocab("abcß", name="de").with_blank("start"),  # at the other end
        Vocab(["-"], name="only", blank=0),
        Vocab("abß_", name="de", blank="_", pad="_"),  # a role of the label that would go
        Vocab("abß_", name="de", blank="_", eos="b"),
        ODD,
    ],
)
def test_labels_that_no_blank_was_added_to_are_no_setting(labels: Vocab) -> None:
    assert "with vocab=de" not in " ".join(fixes(refused(Search(EN), labels)))


def test_what_takes_scores_may_be_built_for_other_labels() -> None:
    error = refused(Plain(EN.with_blank("start")), EN.with_blank())
    assert fixes(error) == [
        "insert Reorder(en+blank -> blank+en) before it",
        "build Plain with labels=en+blank",
    ]


def test_two_vocabularies_of_one_name_are_told_apart() -> None:
    one, two = Vocab("abc", name="mine"), Vocab("abd", name="mine")
    error = refused(Plain(one), two)
    assert fixes(error) == [f"build Plain with labels={two}"]
    assert f"because Plain has labels={one}" in str(error)


def test_a_value_that_may_be_absent_is_refused_by_no_setting() -> None:
    data = inputs(ids=Ids(EN)[B, T], n=Lengths(T).optional()[B])
    with pytest.raises(PortError, match="it may be absent") as caught:
        Read()(ids=data.ids, ids_len=data.n)
    assert "periodic" not in str(caught.value)


def test_the_setting_behind_a_clock_is_found() -> None:
    @dataclass(frozen=True)
    class Sum(NeuralModule):
        def signature(self) -> Signature:
            return Signature(takes={"one": Acoustic()[B, F, T], "other": Acoustic()[B, F, T]})

    data = inputs(y=Acoustic()[B, F(8), T(200).at(100)])
    with pytest.raises(PortError) as caught:
        Sum()(one=data.y, other=Crops()(x=data.y).x)
    assert caught.value.code == "clock"
    assert fixes(caught.value) == ["build Crops with per_second=100"]


def test_labels_of_a_loss_are_not_exchanged_where_its_targets_have_them() -> None:
    de = Vocab("abcß", name="de").with_blank()
    data = inputs(x=LogProbs(de)[B, T, V(de)], n=Lengths(T)[B], text=Ids(EN)[B, U], text_len=Lengths(U)[B])
    with pytest.raises(PortError) as caught:
        CTCLoss(EN)(log_probs=data.x, log_probs_len=data.n, targets=data.text, targets_len=data.text_len)
    assert caught.value.fixes == ()


def test_the_label_of_the_very_module_is_told() -> None:
    @dataclass(frozen=True)
    class Source(NeuralModule):
        peak: float = 1.0

        def signature(self) -> Signature:
            return Signature(takes={"x": Audio()[B, T]}, gives={"x": Audio(peak=self.peak)[B, T]})

    @dataclass(frozen=True)
    class Wants(NeuralModule):
        def signature(self) -> Signature:
            return Signature(takes={"x": Audio(peak=7.0)[B, T]})

    data = inputs(x=Audio()[B, T])
    first = Source(7.0)(x=data.x)
    with pytest.raises(PortError) as caught:
        Wants()(x=Source()(x=first.x).x)
    assert fixes(caught.value)[-1] == "build Source_2 with peak=7.0"


def test_a_whole_element_is_a_setting_that_is_looked_into() -> None:
    @dataclass(frozen=True)
    class Wants(NeuralModule):
        mel: Mel

        def signature(self) -> Signature:
            return Signature(takes={"x": self.mel[B, F, T]})

    with pytest.raises(PortError) as caught:
        Wants(Mel(rate=8000, hop=80))(x=inputs(x=Mel(rate=16000, hop=160)[B, F, T]).x)
    assert fixes(caught.value) == ["build Wants with mel.rate=16000 and mel.hop=160"]


def test_one_setting_behind_two_reasons_that_differ_is_not_changed() -> None:
    @dataclass(frozen=True)
    class Wants(NeuralModule):
        size: int = 64

        def signature(self) -> Signature:
            return Signature(takes={"x": Features()[B, F(self.size), C(self.size)]})

    with pytest.raises(PortError) as caught:
        Wants()(x=inputs(x=Features()[B, F(8), C(9)]).x)
    assert caught.value.fixes == ()
