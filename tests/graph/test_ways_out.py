"""Ways out of a refused connection: what is offered, what is not, and that asking does no harm."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from neumo.graph.candidates import Surroundings
from neumo.graph.compose import Call, check
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.graph.ways_out import Advice
from neumo.types import Acoustic, B, F, Ids, Lengths, LogProbs, Loss, PortError, Score, T, U, V

from .more_specs import Sum
from .specs import EN, CTCLoss, Down, SumLoss
from .test_fixes_apply import Port
from .test_more_graphs import swapped_lengths, swapped_scores_and_targets


def test_a_setting_that_the_module_itself_refuses_is_not_offered() -> None:
    labels = EN.with_blank()
    data = inputs(
        scores=LogProbs(labels)[B, T, V(labels)],
        scores_len=Lengths(T)[B],
        ids=Ids(labels)[B, U],
        ids_len=Lengths(U)[B],
    )
    # CTCLoss(vocab=labels) cannot state its ports: its vocabulary would have two blanks
    with pytest.raises(PortError, match=r"cannot feed CTCLoss\.targets"):
        CTCLoss(EN)(
            log_probs=data.scores, log_probs_len=data.scores_len, targets=data.ids, targets_len=data.ids_len
        )


def test_a_setting_that_breaks_the_code_of_a_module_is_not_offered() -> None:
    @dataclass(frozen=True)
    class Tied(NeuralModule):
        width: int = 64

        def signature(self) -> Signature:
            if self.width == 80:
                raise ValueError("80 is odd enough")
            return Signature(takes={"x": Acoustic()[B, F(self.width), T]})

    with pytest.raises(PortError) as caught:
        Tied()(x=inputs(x=Acoustic()[B, F(80), T]).x)
    assert caught.value.fixes == ()


def test_swapped_values_are_each_offered_for_the_other_port() -> None:
    with pytest.raises(PortError) as caught:
        swapped_lengths()
    errors = [caught.value, *caught.value.also]
    offered = [[fix.text for fix in error.fixes] for error in errors]
    assert offered == [["log_probs_len=states.encoded_len"], ["targets_len=batch.text_len"]]


def test_what_is_written_already_is_not_offered() -> None:
    with pytest.raises(PortError) as caught:
        swapped_scores_and_targets()
    errors = [caught.value, *caught.value.also]
    offered = [[fix.text for fix in error.fixes] for error in errors]
    assert offered == [["log_probs=scores.log_probs"], ["targets=batch.text"]]


def test_one_of_several_values_is_pointed_at_and_replaced_alone() -> None:
    data = inputs(a=Acoustic()[B, F(4), T], b=Acoustic()[B, F(4), T])
    half = Down()(x=data.b)
    with pytest.raises(PortError) as caught:
        Sum()(xs=[data.a, half.x])
    assert [fix.text for fix in caught.value.fixes] == ["xs=[data.a, data.b]"]
    line, caret = caught.value.render().splitlines()[3:5]
    assert line[caret.index("^") : caret.rindex("^") + 1] == "half.x"


def test_values_that_are_unpacked_are_pointed_at_together() -> None:
    data = inputs(a=Loss()[()], b=Loss()[B])
    losses = [data.a]
    with pytest.raises(PortError) as caught:
        SumLoss()(losses=[*losses, data.b])
    line, caret = caught.value.render().splitlines()[3:5]
    assert line[caret.index("^") : caret.rindex("^") + 1] == "losses=[*losses, data.b]"


def test_one_of_many_values_is_replaced_in_words() -> None:
    data = inputs(a=Acoustic()[B, F(4), T], b=Acoustic()[B, F(4), T])
    half = Down()(x=data.b)
    with pytest.raises(PortError) as caught:
        Sum()(xs=[data.a] * 5 + [half.x])
    assert caught.value.fixes[0].text == "data.b in the place of half.x"


def test_two_values_that_are_spelled_alike_are_offered_once() -> None:
    one, two = (inputs(loss=Loss()[()], score=Score()[()], n=Lengths(T)[B]) for _ in range(2))
    given = {"x": one.n, "y": one.loss, "z": two.loss}
    call = Call(Port({"x": Score()[()], "y": Loss()[()], "z": Loss()[()]}), given, None, {})
    check(call)
    assert [fix.text for fix in Advice(call, Surroundings(call)).fixes(call.mismatches[0])] == [
        "x=inputs.score"
    ]


def test_a_setting_that_changes_nothing_is_not_offered() -> None:
    @dataclass(frozen=True)
    class Stubborn(NeuralModule):
        width: int = 64

        def signature(self) -> Signature:
            return Signature(takes={"x": Acoustic()[B, F(64), T]})

    with pytest.raises(PortError) as caught:
        Stubborn()(x=inputs(x=Acoustic()[B, F(80), T]).x)
    assert caught.value.fixes == ()
