"""Gathered errors: all mistakes at once, each once, no consequences, and nothing usable afterwards."""

from __future__ import annotations

import linecache
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import neumo
from neumo.engine.plan import compile_plan
from neumo.graph.adapters import LogSoftmax, Resample, Transpose
from neumo.graph.collect import collect, unknown_record, unknown_value
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.graph.value import Doubt, Record
from neumo.types import (
    Acoustic,
    Any_,
    Audio,
    B,
    F,
    GraphError,
    Ids,
    Lengths,
    LogProbs,
    Loss,
    Mel,
    NeumoError,
    NeuralType,
    PortError,
    T,
    U,
    V,
)

from .more_specs import Fixed
from .specs import (
    DE,
    EN,
    EN_SORTED,
    Add,
    ConvEncoder,
    CTCHead,
    CTCLoss,
    Gain,
    LinearHead,
    MelSpectrogram,
    SpeechData,
    SpeedPerturb,
    SumLoss,
    TimeMajorEncoder,
    Up,
)


@dataclass(frozen=True)
class Halves(NeuralModule):
    """Takes parts of a whole: only the whole tells how long it is."""

    def signature(self) -> Signature:
        return Signature(
            takes={
                "whole": Acoustic()[B, F, T],
                "half": Acoustic()[B, F, T // 2],
                "third": Acoustic().optional()[B, F, T // 3],
            }
        )


def found(build: Callable[[], object]) -> list[tuple[str, str]]:
    """The mistakes of a piece of code as (code, port), each once."""
    with collect(raises=False) as errors:
        build()
    return [(error.code, error.data.get("port", "")) for error in errors]


def gathered(build: Callable[[], object]) -> NeumoError:
    """The error that a block of `collect` raises at its end."""
    with pytest.raises(NeumoError) as caught:
        _gather(build)
    return caught.value


def _gather(build: Callable[[], object]) -> None:
    with collect():
        build()


def test_errors_of_all_calls_are_raised_together_each_at_its_line() -> None:
    def build() -> None:
        batch = SpeechData(EN, rate=22050)()
        feats = MelSpectrogram(n_mels=80)(audio=batch.audio, audio_len=batch.audio_len)
        ConvEncoder()(mel=feats.mel, mel_len=batch.audio_len)

    error = gathered(build)
    assert type(error) is PortError
    assert (error.code, error.what) == ("collect", "3 mistakes")
    assert [(each.code, each.data["port"]) for each in error.also] == [
        ("facet", "audio"),
        ("facet", "mel"),
        ("lengths", "mel_len"),
    ]
    lines = [linecache.getline(__file__, each.where.line).strip() for each in error.also]  # type: ignore[union-attr]
    assert lines[0].startswith("feats = MelSpectrogram(")
    assert lines[1] == lines[2] == "ConvEncoder()(mel=feats.mel, mel_len=batch.audio_len)"
    assert all(not each.also for each in error.also)


def test_a_single_error_is_raised_as_it_is() -> None:
    error = gathered(lambda: ConvEncoder()(mel=SpeechData(EN)().audio, mel_len=SpeechData(EN)().audio_len))
    assert error.code == "element"


def test_right_calls_raise_nothing() -> None:
    with neumo.collect() as errors:
        batch = SpeechData(EN)()
        feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    assert errors == []
    assert feats.mel.step.doubt is Doubt.NONE


def test_what_stops_the_block_does_not_hide_what_was_gathered() -> None:
    batch = SpeechData(EN, rate=22050)()

    def misspell() -> None:
        feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
        feats.mell  # noqa: B018

    def divide() -> None:
        MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
        1 / 0  # noqa: B018

    error = gathered(misspell)
    assert type(error) is GraphError
    assert [each.code for each in error.also] == ["facet", "output"]
    with pytest.raises(ZeroDivisionError) as other:
        _gather(divide)
    assert "rate is 22050, not 16000" in "".join(other.value.__notes__)
    assert gathered(lambda: batch.mell).code == "output"


def test_a_block_in_a_block_raises_first_and_the_outer_one_tells_both() -> None:
    batch = SpeechData(EN, rate=22050)()

    def build() -> None:
        MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
        _gather(lambda: MelSpectrogram()(audio=batch.audio, audio_len=batch.text_len))

    assert [each.data["port"] for each in gathered(build).also] == ["audio", "audio", "audio_len"]


def test_five_mistakes_in_one_chain_are_five() -> None:
    def build() -> None:
        batch = SpeechData(EN, rate=22050)()
        feats = MelSpectrogram(n_mels=80)(audio=batch.audio, audio_len=batch.audio_len)
        enc = ConvEncoder(width=512)(mel=feats.mel, mel_len=feats.mel_len)
        lp = LinearHead(EN)(encoded=enc.encoded)
        CTCLoss(EN)(
            log_probs=lp.logits, log_probs_len=feats.mel_len, targets=batch.text, targets_len=batch.text_len
        )

    assert found(build) == [
        ("facet", "audio"),
        ("facet", "mel"),
        ("size", "encoded"),
        ("element", "log_probs"),
        ("lengths", "log_probs_len"),
    ]


def test_another_value_in_the_place_of_the_right_one_is_one_mistake() -> None:
    def build() -> None:
        batch = SpeechData(EN)()
        feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
        enc = ConvEncoder()(mel=feats.mel, mel_len=feats.mel_len)
        lp = CTCHead(EN)(encoded=feats.mel)  # wrong: the lengths below are those of the encoder
        CTCLoss(EN)(
            log_probs=lp.log_probs,
            log_probs_len=enc.encoded_len,
            targets=batch.text,
            targets_len=batch.text_len,
        )

    assert found(build) == [("element", "encoded")]


def test_what_the_way_out_would_give_is_what_the_rest_is_judged_by() -> None:
    def build() -> None:
        batch = SpeechData(EN)()
        feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
        enc = ConvEncoder()(mel=feats.mel, mel_len=feats.mel_len)
        lp = CTCHead(EN)(encoded=feats.mel)  # meant: enc.encoded
        CTCLoss(EN)(
            log_probs=lp.log_probs,
            log_probs_len=feats.mel_len,  # wrong as well
            targets=batch.text,
            targets_len=batch.text_len,
        )
        assert enc

    assert found(build) == [("element", "encoded"), ("lengths", "log_probs_len")]


def test_a_wrong_tensor_does_not_make_its_lengths_wrong() -> None:
    data = inputs(mel=Mel(n_mels=64)[B, F(64), T], mel_len=Lengths(T)[B], other=Acoustic()[B, F(64), T("T9")])

    assert found(lambda: ConvEncoder()(mel=data.other, mel_len=data.mel_len)) == [("element", "mel")]


def test_both_values_of_another_loader_are_wrong() -> None:
    def build() -> None:
        batch, other = SpeechData(EN)(), SpeechData(EN)()
        feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
        enc = ConvEncoder()(mel=feats.mel, mel_len=feats.mel_len)
        lp = CTCHead(EN)(encoded=enc.encoded)
        CTCLoss(EN)(
            log_probs=lp.log_probs,
            log_probs_len=enc.encoded_len,
            targets=other.text,
            targets_len=other.text_len,
        )

    assert found(build) == [("batch", "targets"), ("batch", "targets_len")]


def alone() -> Record:
    """A refused call that no value around it could put right."""
    return Gain()(audio=inputs(n=Lengths(U)[B]).n)


def test_sizes_that_nothing_tells_are_open_and_not_new() -> None:
    with collect(raises=False) as errors:
        batch = SpeechData(EN)()
        feats = MelSpectrogram()(audio_len=batch.text)
        gained = alone()
        quick = SpeedPerturb()(audio=batch.text)
    assert [error.code for error in errors] == ["element", "missing", "element", "element", "missing"]
    assert [axis.size for axis in feats.mel.type.axes][2] is None
    assert feats.mel_len.type.element.of is None
    assert str(feats.mel.type.element) == "Mel(rate=16000, hop=160, power=2.0, scale=ln, n_mels=64)"
    assert gained.audio.type.element.rate is None
    assert quick.audio.type.axes[1].size is not None  # a new size of its own, whatever goes in
    with collect(raises=False) as errors:
        enc = ConvEncoder()(mel=feats.mel, mel_len=feats.mel_len)
        ConvEncoder()(mel=feats.mel, mel_len=SpeechData(EN)().audio_len)
    assert errors == []
    assert enc.encoded.type.axes[2].size is None
    assert enc.encoded.step.doubt is Doubt.SIZES
    assert enc.encoded.step.refusal == ()


def test_a_size_that_an_open_one_would_tell_is_no_mistake() -> None:
    with collect(raises=False):
        up = Up()(x=SpeechData(EN)().text)
    assert found(lambda: Add()(a=up.x, b=Up()(x=up.x).x)) == []
    half = inputs(x=Acoustic()[B, F(8), T]).x
    with collect(raises=False) as errors:
        Halves()(whole=up.x, half=half)
    assert errors == []


def test_transposed_values_go_on_in_the_order_that_was_wanted() -> None:
    def build() -> None:
        data = inputs(mel=Mel(n_mels=80)[B, F(80), T], mel_len=Lengths(T)[B])
        enc = TimeMajorEncoder()(mel=data.mel)
        assert str(enc.encoded.type) == "Acoustic[T, B, F=E]"

    assert found(build) == [("axes", "mel")]


def test_modules_whose_ports_depend_on_a_wrong_value_are_not_judged_by_it() -> None:
    def build() -> None:
        data = inputs(mel=Mel(n_mels=80)[B, T, F(80)], ids=Ids(EN)[B, U])
        turned = Transpose("B F T", "B T F")(value=data.mel)  # wrong
        again = Transpose("B T F", "T B F")(value=turned.value)
        TimeMajorEncoder()(mel=again.value)
        scores = LogSoftmax()(logits=data.ids)  # wrong
        CTCLoss(EN)(log_probs=scores.log_probs, log_probs_len=data.mel, targets=data.ids)  # wrong

    assert [code for code, _ in found(build)] == ["axes", "element", "element", "missing"]


def test_a_call_tells_how_it_is_written_what_does_not_fit_and_what_is_left_out() -> None:
    def build() -> None:
        batch = SpeechData(DE)()
        CTCLoss(EN)(log_prbs=batch.audio, targets=batch.text, targets_len=3)

    with collect(raises=False) as errors:
        build()
    assert [error.code for error in errors] == ["unknown-port", "argument", "vocab", "missing"]
    assert errors[-1].data["ports"] == ["log_probs_len"]


@pytest.mark.parametrize(
    ("arguments", "codes"),
    [
        ({"audoi": "audio", "audio_len": "audio_len"}, ["unknown-port"]),
        ({"wave": "audio", "audio_len": "audio_len"}, ["unknown-port"]),
        ({"audoi": "audio"}, ["unknown-port", "missing"]),
        ({"wave": "audio"}, ["unknown-port", "missing"]),
        ({"wave": "audio", "n": "audio_len"}, ["unknown-port"]),
        ({"audio": "audio", "audio_len": "audio_len", "text": "text"}, ["unknown-port"]),
    ],
)
def test_a_misspelt_port_is_not_left_out_as_well(arguments: dict[str, str], codes: list[str]) -> None:
    batch = SpeechData(EN)()
    values = {port: batch[name] for port, name in arguments.items()}
    assert [code for code, _ in found(lambda: MelSpectrogram()(**values))] == codes


def test_values_without_names_stand_for_the_ports_that_are_free() -> None:
    batch = SpeechData(EN)()
    assert [code for code, _ in found(lambda: MelSpectrogram()(batch.audio, batch.audio_len))] == [
        "positional"
    ]
    assert [code for code, _ in found(lambda: MelSpectrogram()(batch.audio))] == ["positional", "missing"]


def test_a_size_is_not_unsolved_because_what_tells_it_is_missing() -> None:
    data = inputs(x=Acoustic()[B, F(8), T], y=Acoustic()[B, F(8), U])
    assert found(lambda: Halves()(half=data.x)) == [("missing", "")]
    assert found(lambda: Halves()(half=data.x, third=data.y)) == [("missing", "")]
    assert found(lambda: Halves()(whole=inputs(n=Lengths(T)[B]).n, half=data.x)) == [("element", "whole")]


def test_a_refused_graph_cannot_be_run_and_says_why() -> None:
    with collect(raises=False) as errors:
        batch = SpeechData(EN, rate=22050)()
        feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
        graph = Graph("wrong", outputs={"mel": feats.mel, "text": batch.text})
    with pytest.raises(GraphError, match=r"has 1 call that were|has 1 call") as caught:
        compile_plan(graph)
    assert caught.value.code == "refused"
    assert list(caught.value.also) == errors
    assert compile_plan(graph, ["text"]).wanted == {"text": 2}
    again = pickle.loads(pickle.dumps(feats.mel.step))
    assert again.refusal[0].what == errors[0].what


def test_many_losses_are_judged_one_by_one() -> None:
    values = inputs(a=Loss()[()], b=Loss()[B], c=Ids(EN)[B, T])
    with collect(raises=False) as errors:
        total = SumLoss()(losses=[values.a, values.b, values.c])
    assert [str(error.data["value"]) for error in errors] == ["inputs.b", "inputs.c"]
    assert str(total.loss.type) == "Loss[]"


def test_unknown_values_fit_everywhere_and_are_told_apart() -> None:
    value = unknown_value("batch", "audio")
    assert repr(value) == "batch.audio: Any[]"
    assert found(lambda: MelSpectrogram()(audio=value, audio_len=value)) == []
    assert found(lambda: SumLoss()(losses=[value, value])) == []
    assert LogSoftmax()(logits=value).log_probs.step.doubt is Doubt.ALL
    record = unknown_record("a b", ["x"])
    assert isinstance(record.x.type.element, Any_)
    with pytest.raises(GraphError, match="cannot be run"):
        compile_plan(Graph(outputs={"x": record.x}))


def test_optional_ports_and_sizes_stay_what_they_are() -> None:
    x = inputs(x=Acoustic()[B, F(8), T]).x
    with collect(raises=False) as errors:
        same = Fixed(8)(x=x, n=x)
    assert [error.code for error in errors] == ["element"]
    assert str(same.x.type) == "Acoustic[B, F=8, T]"


def test_scores_of_another_order_and_lengths_of_other_frames_are_both_told() -> None:
    def build() -> None:
        labels = EN.with_blank()
        data = inputs(lp=LogProbs(labels)[B, T, V(labels)], n=Lengths(T)[B], m=Lengths(T * 2)[B])
        text = SpeechData(EN_SORTED)()
        CTCLoss(EN)(log_probs=data.lp, log_probs_len=data.m, targets=text.text, targets_len=text.text_len)

    assert ("lengths", "log_probs_len") in found(build)
    assert ("vocab", "targets") in found(build)


@dataclass(frozen=True)
class Failing(NeuralModule):
    """Its own code fails for what it is given."""

    error: str = "TypeError"

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F, T]}, gives={"x": Acoustic()[B, F, T]})

    def signature_for(self, given: Mapping[str, NeuralType]) -> Signature:
        if self.error == "GraphError":
            raise GraphError("not for this", code="module")
        return 1 + given["x"]  # type: ignore[operator, return-value]


@pytest.mark.parametrize("error", ["TypeError", "GraphError"])
def test_a_module_whose_own_code_fails_is_named_and_what_was_gathered_is_told(error: str) -> None:
    x = inputs(x=Acoustic()[B, F(8), T]).x

    def build() -> None:
        Halves()(half=x)
        Failing(error)(x=x)

    found = gathered(build)
    assert [each.code for each in found.also] == ["missing", "module"]
    what = found.also[1].what
    assert what == "not for this" or what.startswith("signature_for() of Failing failed: TypeError: ")


def test_an_adapter_of_the_wrong_rate_gives_the_rate_that_it_says() -> None:
    def build() -> None:
        audio = inputs(a=Audio(rate=8000)[B, T]).a
        slow = Resample(22050, 16000)(audio=audio)  # wrong
        Resample(22050, 8000)(audio=slow.audio)  # wrong as well
        Resample(16000, 8000)(audio=slow.audio)

    assert found(build) == [("facet", "audio"), ("facet", "audio")]
    assert found(lambda: Gain()(audio=Resample(22050, 16000)().audio)) == [("missing", "")]


def test_an_adapter_in_the_wrong_place_goes_on_with_what_was_meant() -> None:
    def build() -> None:
        batch = SpeechData(EN)()
        feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
        enc = ConvEncoder()(mel=feats.mel, mel_len=feats.mel_len)
        scores = LinearHead(EN)(encoded=enc.encoded)
        lp = LogSoftmax()(logits=feats.mel)  # wrong
        assert scores
        CTCLoss(DE)(  # wrong as well
            log_probs=lp.log_probs,
            log_probs_len=enc.encoded_len,
            targets=SpeechData(DE)().text,  # and of another batch
            targets_len=batch.text_len,
        )

    assert found(build) == [("element", "logits"), ("vocab", "log_probs"), ("batch", "targets")]


@dataclass(frozen=True)
class Choosy(NeuralModule):
    """Objects to some of what its ports would take."""

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F, T]}, gives={"x": Acoustic()[B, F, T]})

    def signature_for(self, given: Mapping[str, NeuralType]) -> Signature:
        if "x" in given and given["x"].element == Acoustic("odd"):
            raise PortError("it is odd", code="argument")
        return self.signature()


def test_a_way_out_that_the_module_objects_to_leaves_its_ports_unknown() -> None:
    data = inputs(odd=Acoustic("odd")[B, F(8), T], ids=Ids(EN)[B, U])
    with collect(raises=False) as errors:
        refused = Choosy()(x=data.ids)
        left_out = Choosy()()
    assert [error.code for error in errors] == ["element", "missing"]
    assert [fix.text for fix in errors[0].fixes][:1] == ["x=data.odd"]
    assert refused.x.step.doubt is left_out.x.step.doubt is Doubt.ALL
    assert found(lambda: Choosy()(x=data.odd)) == [("argument", "")]


def test_an_output_that_there_is_not_is_gathered_and_what_follows_is_judged() -> None:
    def build() -> None:
        batch = SpeechData(EN)()
        feats = MelSpectrogram()(audio=batch.audoi, audio_len=batch["text_len"])
        ConvEncoder()(mel=feats.mle, mel_len=batch.audio_len)
        ConvEncoder()(q=feats.mel)

    error = gathered(build)
    assert type(error) is GraphError
    assert [each.code for each in error.also][:2] == ["output", "output"]
    assert {each.code for each in error.also[2:]} <= {"unknown-port", "missing"}
    assert len(error.also) > 2
    assert [fix.text for fix in error.also[0].fixes] == ["did you mean audio?"]
    line = linecache.getline(__file__, error.also[1].where.line).strip()  # type: ignore[union-attr]
    assert line == "ConvEncoder()(mel=feats.mle, mel_len=batch.audio_len)"


def test_to_ask_for_an_output_is_no_mistake_while_errors_are_gathered() -> None:
    with collect(raises=False) as errors:
        batch = SpeechData(EN)()
        assert not hasattr(batch, "sound")
        assert getattr(batch, "sound", None) is None
        with pytest.raises(KeyError):
            {}["sound"]
    assert errors == []
    with collect(raises=False) as errors:
        unknown = batch.sound
    assert [error.code for error in errors] == ["output"]
    assert unknown.step.refusal == tuple(errors)


def test_a_graph_of_refused_calls_is_not_saved(tmp_path: Path) -> None:
    with collect(raises=False):
        batch = SpeechData(EN)()
        feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.text_len)
        graph = Graph("bad", outputs={"mel": feats.mel})
    with pytest.raises(GraphError, match="1 call that was refused: it cannot be saved") as caught:
        graph.save(tmp_path / "bad.yaml")
    assert [each.code for each in caught.value.also] == ["lengths"]
    assert not (tmp_path / "bad.yaml").exists()


def test_another_error_of_the_toolkit_is_raised_as_it_is_where_nothing_was_gathered() -> None:
    with pytest.raises(GraphError) as caught, collect():
        Resample(16000, 8000).named("no name")
    assert caught.value.code == "name"
