"""Ways out of a refused connection: what is offered, what is not, and that asking does no harm."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from neumo.graph.adapters import LengthsToMask
from neumo.graph.candidates import Surroundings
from neumo.graph.compose import Call, check
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.graph.ways_out import Advice
from neumo.types import Acoustic, B, F, Ids, Lengths, LogProbs, Loss, Mask, PortError, Score, T, U, V

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
    data = inputs(a=Acoustic()[B, F(4), T], b=Acoustic()[B, F(4), T], c=Acoustic()[B, F(4), T])
    half = Down()(x=data.c)
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
    data = inputs(a=Acoustic()[B, F(4), T], b=Acoustic()[B, F(4), T], c=Acoustic()[B, F(4), T])
    half = Down()(x=data.c)
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


def test_a_port_that_was_left_out_can_be_fed_by_an_adapter_behind_a_value() -> None:
    data = inputs(ids=Ids(EN)[B, T], ids_len=Lengths(T)[B], other=Ids(EN)[B, U], other_len=Lengths(U)[B])
    port = Port({"ids": Ids(EN)[B, T], "mask": Mask(T, true="keep")[B, T]})
    with pytest.raises(PortError, match="Port needs mask") as caught:
        port(ids=data.ids)
    assert [fix.text for fix in caught.value.fixes] == [
        "take mask from LengthsToMask(true=keep) behind data.ids_len, with like=data.ids"
    ]
    mask = LengthsToMask()(lengths=data.ids_len, like=data.ids).mask
    port(ids=data.ids, mask=mask)


def test_a_port_that_was_left_out_takes_what_is_there_first() -> None:
    data = inputs(ids=Ids(EN)[B, T], ids_len=Lengths(T)[B], mask=Mask(T, true="keep")[B, T])
    with pytest.raises(PortError) as caught:
        Port({"ids": Ids(EN)[B, T], "mask": Mask(T, true="keep")[B, T]})(ids=data.ids)
    assert [fix.text for fix in caught.value.fixes] == ["mask=data.mask"]


def test_a_port_that_was_left_out_may_need_a_plain_adapter_or_have_none() -> None:
    data = inputs(x=Acoustic()[B, F(4), T], losses=Loss()[B])
    with pytest.raises(PortError) as caught:
        Port({"x": Acoustic()[B, F(4), T], "loss": Loss()[()], "ids": Ids(EN)[B, U]})(x=data.x)
    assert [fix.text for fix in caught.value.fixes] == ["take loss from Reduce(mean) behind data.losses"]


def test_a_port_that_nothing_can_feed_says_so() -> None:
    data = inputs(x=Acoustic()[B, F(4), T])
    with pytest.raises(PortError) as caught:
        Port({"x": Acoustic()[B, F(4), T], "ids": Ids(EN)[B, U]})(x=data.x)
    fixes = [fix.text for fix in caught.value.fixes]
    assert fixes == ["declare it as an open input: inputs(ids=Ids(en)[B, U], ...)"]
    assert caught.value.why == ("No value that has been made so far fits ids.",)
