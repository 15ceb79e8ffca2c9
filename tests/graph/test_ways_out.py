"""Ways out of a refused connection: what is offered, what is not, and that asking does no harm."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from neumo.graph.adapters import Append, LengthsToMask
from neumo.graph.assume import assume
from neumo.graph.candidates import Surroundings
from neumo.graph.compose import Call, check
from neumo.graph.inputs import inputs
from neumo.graph.learned import set_learned
from neumo.graph.module import NeuralModule
from neumo.graph.multi import MultiData
from neumo.graph.relax import relax
from neumo.graph.signature import Signature
from neumo.graph.value import Record
from neumo.graph.ways_out import Advice
from neumo.types import (
    Acoustic,
    Any_,
    Audio,
    B,
    F,
    Features,
    Hypotheses,
    Ids,
    Lengths,
    LogProbs,
    Loss,
    Mask,
    Mel,
    NeuralType,
    PortError,
    Score,
    Spectrogram,
    T,
    U,
    V,
    Var,
)

from .apply_fixes import apply, refused_call, ways_of
from .more_specs import Sum
from .specs import DE, EN, EN_SORTED, CTCHead, CTCLoss, Down, SpeechData, SumLoss
from .test_fixes_apply import PIECES, Port
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


def test_two_values_in_each_others_place_are_one_mistake() -> None:
    with pytest.raises(PortError) as caught:
        swapped_scores_and_targets()
    assert [fix.code for fix in caught.value.fixes] == ["log_probs=scores.log_probs, targets=batch.text"]
    assert caught.value.also == ()


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


def test_a_mask_is_made_of_the_lengths_of_joined_texts() -> None:
    data = inputs(one=Ids(EN)[B, T], other=Ids(EN)[B, U], mask=Mask(T, true="keep")[B, T])
    joined = Append()(first=data.one, second=data.other)
    port = Port({"ids": Ids(EN)[B, T], "mask": Mask(T, true="keep")[B, T]})
    with pytest.raises(PortError, match="it covers other") as caught:
        port(ids=joined.value, mask=data.mask)
    assert [fix.text for fix in caught.value.fixes] == [
        "take mask from LengthsToMask(true=keep) behind joined.length, with like=joined.value"
    ]
    port(ids=joined.value, mask=LengthsToMask()(lengths=joined.length, like=joined.value).mask)


def test_nothing_is_made_of_lengths_where_none_fit() -> None:
    data = inputs(ids=Ids(EN)[B, T], n=Lengths(U)[B], mask=Mask(U, true="keep")[B, U])
    with pytest.raises(PortError) as caught:
        Port({"ids": Ids(EN)[B, T], "mask": Mask(T, true="keep")[B, T]})(ids=data.ids, mask=data.mask)
    assert caught.value.fixes == ()


def test_a_value_and_its_lengths_are_exchanged_together() -> None:
    data = inputs(
        said=Ids(EN)[B, T], said_len=Lengths(T)[B], found=Hypotheses(EN)[B, U], found_len=Lengths(U)[B]
    )
    port = Port({"ids": Hypotheses(EN)[B, T], "ids_len": Lengths(T)[B], "of": Ids(EN)[B, U]})
    with pytest.raises(PortError) as caught:
        port(ids=data.said, ids_len=data.said_len, of=data.said)
    assert [fix.text for fix in caught.value.fixes] == ["ids=data.found, ids_len=data.found_len"]
    port(ids=data.found, ids_len=data.found_len, of=data.said)


def test_a_value_is_not_exchanged_together_with_what_does_not_measure_it() -> None:
    data = inputs(x=Acoustic()[B, F(4), T], y=Ids(EN)[B, T], z=Ids(EN)[B, U], more=Acoustic()[B, F(8), U])
    port = Port({"x": Acoustic()[B, F(8), T], "y": Ids(EN)[B, T]})
    with pytest.raises(PortError) as caught:
        port(x=data.x, y=data.y)
    assert caught.value.fixes == ()


def test_a_value_is_not_exchanged_for_one_that_nothing_measures() -> None:
    data = inputs(x=Score()[B, T], n=Lengths(T)[B], y=Acoustic()[B, F(8), U])
    with pytest.raises(PortError) as caught:
        Port({"x": Acoustic()[B, F(8), T], "n": Lengths(T)[B]})(x=data.x, n=data.n)
    assert caught.value.fixes == ()


def test_what_another_source_gives_is_no_pair() -> None:
    data, other = (inputs(x=Acoustic()[B, F(n), T], n=Lengths(T)[B]) for n in (4, 8))
    with pytest.raises(PortError) as caught:
        Port({"x": Acoustic()[B, F(8), T], "n": Lengths(T)[B]})(x=data.x, n=data.n)
    assert other.x not in caught.value.fixes
    assert caught.value.fixes == ()


def test_a_value_that_the_refused_one_was_made_of_is_no_way_out() -> None:
    data = inputs(x=Acoustic()[B, F(4), T])
    half = Down()(x=data.x)
    with pytest.raises(PortError) as caught:
        Port({"a": Acoustic()[B, F(4), T], "b": Acoustic()[B, F(4), T], "c": Acoustic()[B, F(4), T]})(
            a=data.x, b=data.x, c=half.x
        )
    assert caught.value.fixes == ()


def test_two_adapters_in_either_order_are_one_way() -> None:
    data = inputs(x=Audio(rate=8000, peak=32768.0)[B, T])
    with pytest.raises(PortError) as caught:
        Port({"x": Audio(rate=16000, peak=1.0)[B, T]})(x=data.x)
    assert [fix.text for fix in caught.value.fixes] == [
        "insert Resample(8000 -> 16000), then Repeak(32768 -> 1), before it"
    ]


def test_a_port_without_a_way_out_does_not_hide_those_of_others() -> None:
    data = inputs(prev=Ids(EN)[B, U], enc=Acoustic()[B, T, F(8)], mask=Mask(T, true="pad")[B, T])
    port = Port(
        {
            "prev": Ids(DE)[B, U],
            "enc": Acoustic()[B, F(8), T],
            "mask": Mask(T, true="keep")[B, T],
        }
    )
    with pytest.raises(PortError) as caught:
        port(prev=data.prev, enc=data.enc, mask=data.mask)
    errors = [caught.value, *caught.value.also]
    assert [[fix.text for fix in error.fixes] for error in errors] == [
        [],
        ["insert Transpose(B T F -> B F T) before it"],
        ["insert Invert(mask) before it"],
    ]


def test_two_data_layers_are_to_be_read_at_once() -> None:
    one, two = SpeechData(EN)(), SpeechData(EN, rate=8000)()
    port = Port({"x": Audio(rate=16000)[B, T], "noise": Audio(rate=8000)[B, U]})
    with pytest.raises(PortError) as caught:
        port(x=one.audio, noise=two.audio)
    assert [fix.text for fix in caught.value.fixes] == [
        "read SpeechData and SpeechData_2 at once, by MultiData(layers=(..., ...))"
    ]
    both = MultiData(layers=(SpeechData(EN), SpeechData(EN, rate=8000)))()
    port(x=both.audio, noise=both.audio_1)


def test_one_data_layer_called_twice_is_no_pair_of_layers() -> None:
    data = SpeechData(EN)
    one, two = data(), data()
    with pytest.raises(PortError) as caught:
        Port({"x": Audio(rate=16000)[B, T], "noise": Audio(rate=16000)[B, U]})(x=one.audio, noise=two.audio)
    assert caught.value.fixes == ()


def test_two_layers_at_once_are_not_offered_where_more_is_wrong() -> None:
    one, two = SpeechData(EN)(), SpeechData(EN, rate=8000)()
    with pytest.raises(PortError) as caught:
        Port({"x": Audio(rate=16000)[B, T], "n": Lengths(T)[B]})(x=one.audio, n=two.audio_len)
    assert [fix.text for fix in caught.value.fixes] == ["n=one.audio_len"]


def test_what_is_too_general_may_be_claimed_to_be_more() -> None:
    data = inputs(frames=Spectrogram(rate=16000)[B, F(64), T])
    port = Port({"mel": Mel(hop=160, n_mels=Var("n"))[B, F(64), T]})
    with pytest.raises(PortError, match="too general") as caught:
        port(mel=data.frames)
    (fix,) = caught.value.fixes
    assert fix.text == 'mel=assume(data.frames, Mel(hop=160)[B, F(64), T], reason="...")'
    assert fix.note == "fits, if you know that it is true"
    port(mel=assume(data.frames, Mel(hop=160)[B, F(64), T], reason="a test"))


def test_a_claim_names_the_axes_of_the_value_where_they_have_names() -> None:
    data = inputs(x=Features()[B, T // 2, F(8)], y=Features()[B, U, F(8)])
    with pytest.raises(PortError) as caught:
        Port({"x": Acoustic()[B, T, F(8)], "y": Acoustic()[B, U, F(8)]})(x=data.x, y=data.y)
    assert [error.fixes[0].text for error in (caught.value, *caught.value.also)] == [
        'x=assume(data.x, Acoustic()[B, T, F(8)], reason="...")',
        'y=assume(data.y, Acoustic()[B, U, F(8)], reason="...")',
    ]


def test_what_the_type_denies_is_not_to_be_claimed() -> None:
    data = inputs(frames=Spectrogram()[B, F, T], any=Any_()[B, T])
    with pytest.raises(PortError) as caught:
        Port({"mel": Mel()[B, F(64), T]})(mel=data.frames)
    assert caught.value.fixes == ()
    with pytest.raises(PortError) as caught:
        Port({"found": Hypotheses(EN)[B, T]})(found=data.any)
    assert caught.value.fixes == ()


def test_it_is_said_why_an_adapter_cannot_stand_there() -> None:
    data = inputs(ids=Ids(PIECES, pad=0, frame="none")[B, T], mask=Mask(T, true="keep")[B, T])
    port = Port({"ids": Ids(PIECES, frame="bos..eos")[B, T], "mask": Mask(T, true="keep")[B, T]})
    with pytest.raises(PortError) as caught:
        port(ids=data.ids, mask=data.mask)
    assert caught.value.why == (
        "Reframe(none -> bos..eos) makes what is wanted, but no value fits its port ids_len, and mask would "
        "not fit beside it any more.",
    )


def test_only_what_hinders_an_adapter_is_said() -> None:
    data = inputs(
        ids=Ids(PIECES, pad=0, frame="none")[B, T], n=Lengths(T)[B], mask=Mask(T, true="keep")[B, T]
    )
    port = Port({"ids": Ids(PIECES, frame="bos..eos")[B, T], "mask": Mask(T, true="keep")[B, T]})
    with pytest.raises(PortError) as caught:
        port(ids=data.ids, mask=data.mask)
    assert caught.value.why == (
        "Reframe(none -> bos..eos) makes what is wanted, but mask would not fit beside it any more.",
    )


def test_a_head_of_new_weights_may_have_other_labels_and_one_of_trained_weights_may_not() -> None:
    data = inputs(x=Acoustic()[B, F(8), T], n=Lengths(T)[B], text=Ids(EN)[B, U], text_len=Lengths(U)[B])
    head = CTCHead(DE, width=8)

    def refused() -> PortError:
        scores = head(encoded=data.x)
        with pytest.raises(PortError) as caught:
            CTCLoss(EN)(
                log_probs=scores.log_probs, log_probs_len=data.n, targets=data.text, targets_len=data.text_len
            )
        return caught.value

    error = refused()
    assert [fix.text for fix in error.fixes] == ["build CTCHead with vocab=en"]
    assert "because CTCLoss has vocab=en" in str(error)
    set_learned(head, {"encoded": Acoustic()})
    assert refused().fixes == ()


def test_a_claim_is_not_offered_for_what_differs_but_was_let_pass() -> None:
    data = inputs(frames=Spectrogram(rate=8000)[B, F(64), T])
    with relax("rate", reason="a test"), pytest.raises(PortError, match="too general") as caught:
        Port({"mel": Mel(rate=16000)[B, F, T]})(mel=data.frames)
    assert caught.value.fixes == ()


def test_a_claim_may_say_a_size_that_is_known_when_the_graph_runs_only() -> None:
    data = inputs(x=Features()[B, T(None), F(8)])
    with pytest.raises(PortError, match="too general") as caught:
        Port({"x": Acoustic()[B, T(9), F(8)]})(x=data.x)
    assert caught.value.fixes[0].text == 'x=assume(data.x, Acoustic()[B, T(9), F(8)], reason="...")'


def test_an_adapter_that_only_fits_alone_is_not_named() -> None:
    data = inputs(ids=Ids(EN)[B, T], x=Acoustic()[B, F(8), T, U])
    port = Port({"ids": Ids(EN)[B, T], "x": Acoustic()[B, F(8), T, T + 1]})
    with pytest.raises(PortError) as caught:
        port(ids=data.ids, x=data.x)
    assert "makes what is wanted" not in str(caught.value)


def compared() -> dict[str, NeuralType]:
    return {
        "hypothesis": Hypotheses(EN)[B, U],
        "hypothesis_len": Lengths(U)[B],
        "reference": Ids(EN)[B, U("R")],
        "reference_len": Lengths(U("R"))[B],
    }


HEARD = {
    "text": Ids(EN)[B, U],
    "text_len": Lengths(U)[B],
    "heard": Hypotheses(EN)[B, T],
    "heard_len": Lengths(T)[B],
}


@dataclass(frozen=True)
class Compare(NeuralModule):
    """Compares what was found with what is right."""

    role = "metric"

    def signature(self) -> Signature:
        return Signature(takes=compared(), gives={"errors": Score()[()]})


def fixes_of(module: NeuralModule, data: Record, **given: str) -> list[tuple[str, str]]:
    call = refused_call(module, {port: data[name] for port, name in given.items()}, {"data": data})
    ((mismatch, ways),) = ways_of(call)
    for way in ways:
        apply(call, mismatch, way)
    return [(way.text, way.code) for way in ways]


def test_two_values_that_stand_in_each_others_place_are_exchanged_with_their_lengths() -> None:
    found = fixes_of(
        Compare(),
        inputs(**HEARD),
        hypothesis="text",
        hypothesis_len="text_len",
        reference="heard",
        reference_len="heard_len",
    )
    assert found == [
        (
            "exchange hypothesis and reference, and hypothesis_len and reference_len",
            "hypothesis=data.heard, hypothesis_len=data.heard_len, reference=data.text,\n"
            "reference_len=data.text_len",
        )
    ]


def test_two_values_without_lengths_are_exchanged_alone() -> None:
    port = Port({"x": Mel()[B, F, T], "y": Audio()[B, U], "z": Loss()[()]})
    data = inputs(x=Audio()[B, T], y=Mel()[B, F(8), U], z=Loss()[()])
    assert fixes_of(port, data, x="x", y="y", z="z") == [("exchange x and y", "x=data.y, y=data.x")]


def test_a_metric_of_its_own_hypothesis_is_given_the_reference_of_the_data() -> None:
    found = fixes_of(
        Compare(),
        inputs(**HEARD),
        hypothesis="heard",
        hypothesis_len="heard_len",
        reference="heard",
        reference_len="text_len",
    )
    assert found == [("reference=data.text", "")]


def test_the_reference_of_the_data_comes_with_its_lengths() -> None:
    found = fixes_of(
        Compare(),
        inputs(other=Lengths(T("T4"))[B], **HEARD),
        hypothesis="heard",
        hypothesis_len="heard_len",
        reference="heard",
        reference_len="other",
    )
    assert found == [("reference=data.text, reference_len=data.text_len", "")]


def test_nothing_completes_the_mistake_where_data_brings_nothing_along() -> None:
    found = fixes_of(
        Compare(),
        inputs(other=Lengths(U)[B], heard=HEARD["heard"], heard_len=HEARD["heard_len"]),
        hypothesis="heard",
        hypothesis_len="heard_len",
        reference="heard",
        reference_len="other",
    )
    assert found == []


def test_what_data_brings_along_comes_before_what_a_model_found() -> None:
    data = inputs(**HEARD)
    with pytest.raises(PortError) as caught:
        Compare()(hypothesis=data.heard, hypothesis_len=data.heard_len, reference_len=data.text_len)
    assert [fix.text for fix in caught.value.fixes] == ["reference=data.text"]


def code_for(names: dict[str, object], wanted: NeuralType, given: NeuralType) -> str:
    data = inputs(x=given)
    call = refused_call(Port({"x": wanted}), {"x": data.x}, {"data": data, **names})
    (fix, *_) = Advice(call, Surroundings(call)).fixes(call.mismatches[0])
    return fix.code


def test_a_vocabulary_is_written_as_the_caller_names_it() -> None:
    ours, theirs = EN.with_blank(), EN_SORTED.with_blank()
    wanted, given = LogProbs(ours)[B, T, V(ours)], LogProbs(theirs)[B, T, V(theirs)]
    names = {"letters": EN, "plain": EN_SORTED}
    code = "x=Reorder(plain.with_blank(), letters.with_blank())(scores=data.x).scores"
    assert code_for(names, wanted, given) == code
    wanted, given = Ids(EN)[B, U], Ids(EN_SORTED)[B, U]
    names = {"ctc": CTCLoss(EN), "layer": SpeechData(EN_SORTED), "__name__": "here"}
    assert code_for(names, wanted, given) == "x=RemapIds(layer.vocab, ctc.vocab)(ids=data.x).ids"
    assert code_for({}, wanted, given) == ""  # nothing holds it


def test_lengths_that_another_value_decides_are_not_traced_to_it() -> None:
    found = fixes_of(
        Compare(),
        inputs(late=Lengths(T("T5"))[B], **HEARD),
        hypothesis="heard",
        hypothesis_len="late",
        reference="text",
        reference_len="text_len",
    )
    assert [text for text, _ in found] == ["hypothesis_len=data.heard_len"]


@dataclass(frozen=True)
class Error(NeuralModule):
    """Compares what was said with a target of the same frames."""

    role = "loss"

    def signature(self) -> Signature:
        takes = {"said": Mel()[B, F, T], "target": Mel()[B, F, T], "target_len": Lengths(T)[B]}
        return Signature(takes=takes, gives={"loss": Loss()[()]})


def test_what_a_model_said_is_not_replaced_by_the_target() -> None:
    batch = inputs(mel=Mel()[B, F(80), T], mel_len=Lengths(T)[B], late=Lengths(U)[B])
    call = refused_call(
        Error(), {"said": batch.mel, "target": batch.mel, "target_len": batch.late}, {"batch": batch}
    )
    assert [way.text for _, ways in ways_of(call) for way in ways] == ["target_len=batch.mel_len"]
