"""What fits a port of a graph: by name, in the environment of that very call, the likeliest first."""

from __future__ import annotations

import pytest

from neumo.graph.adapters import Concat, Resample, Rescale, Transpose
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.types import Acoustic, Audio, B, F, GraphError, Ids, Lengths, LogProbs, Loss, Mel, Score, T, U, V

from .more_specs import Sum
from .specs import EN, Add, ConvEncoder, CTCHead, CTCLoss, Down, MelSpectrogram, SpeechData, SumLoss
from .test_fixes_apply import Port


@pytest.fixture(scope="module")
def recogniser() -> Graph:
    batch = SpeechData(EN).named("data")()
    mel = MelSpectrogram().named("mel")(audio=batch.audio, audio_len=batch.audio_len)
    enc = ConvEncoder().named("encoder")(mel=mel.mel, mel_len=mel.mel_len)
    scores = CTCHead(EN).named("head")(encoded=enc.encoded)
    loss = CTCLoss(EN).named("ctc")(
        log_probs=scores.log_probs,
        log_probs_len=enc.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )
    return Graph("train", outputs={"loss": loss.loss})


def names(graph: Graph, port: str) -> list[str]:
    return [f"{graph.name_of(value.step.module)}.{value.port}" for value in graph.fits(port)]


@pytest.mark.parametrize(
    ("port", "fitting"),
    [
        ("ctc.targets_len", ["data.text_len"]),
        ("ctc.log_probs_len", ["encoder.encoded_len"]),
        ("ctc.targets", ["data.text"]),
        ("encoder.mel_len", ["mel.mel_len"]),
        ("mel.audio_len", ["data.audio_len"]),
        ("head.encoded", ["encoder.encoded"]),
    ],
)
def test_only_one_value_fits_beside_what_else_is_connected(
    recogniser: Graph, port: str, fitting: list[str]
) -> None:
    assert names(recogniser, port) == fitting


def test_a_type_is_looked_for_alone(recogniser: Graph) -> None:
    assert {value.port for value in recogniser.fits(Lengths(T)[B])} == {
        "audio_len",
        "text_len",
        "mel_len",
        "encoded_len",
    }
    assert recogniser.fits(Loss()[()]) == [recogniser.outputs["loss"]]


def test_what_depends_on_a_call_cannot_feed_it() -> None:
    data = inputs(x=Acoustic()[B, F(4), T])
    first, second = Down().named("first"), Down().named("second")
    graph = Graph(outputs={"x": second(x=first(x=data.x).x).x})
    assert graph.fits("first.x") == [data.x]
    assert graph.fits("second.x") == [graph.steps[1].outputs["x"], data.x]


def test_the_second_call_of_a_module_has_a_number() -> None:
    data = inputs(x=Acoustic()[B, F(4), T])
    down = Down().named("down")
    graph = Graph(outputs={"x": down(x=down(x=data.x).x).x})
    assert graph.fits("down[0].x") == graph.fits("down.x") == [data.x]
    assert len(graph.fits("down[1].x")) == 2
    with pytest.raises(GraphError, match="down is called 2 times, so there is no call 2"):
        graph.fits("down[2].x")


def test_values_of_the_same_name_come_first_and_those_used_elsewhere_last() -> None:
    data = inputs(b=Acoustic()[B, F, T], a=Acoustic()[B, F, T], c=Acoustic()[B, F, T])
    graph = Graph(outputs={"x": Add()(a=data.a, b=data.b).x, "c": data.c})
    assert [value.port for value in graph.fits("Add.a")] == ["a", "c", "b"]


def test_one_of_many_values_is_looked_for() -> None:
    data = inputs(a=Loss()[()], b=Loss()[()], c=Loss()[B], n=Lengths(T)[B])
    graph = Graph(outputs={"loss": SumLoss()(losses=[data.a, data.b]).loss, "c": data.c, "n": data.n})
    assert {value.port for value in graph.fits("SumLoss.losses")} == {"a", "b"}


def test_many_values_agree_with_what_else_is_connected() -> None:
    data = inputs(a=Acoustic()[B, F(4), T], b=Acoustic()[B, F(4), T], late=Acoustic()[B, F(4), U])
    graph = Graph(outputs={"x": Sum()(xs=[data.a, data.b]).x, "late": data.late})
    assert {value.port for value in graph.fits("Sum.xs")} == {"a", "b", "late"}


def test_an_optional_port_and_one_that_is_left_out_are_looked_at() -> None:
    data = inputs(audio=Audio(rate=8000)[B, T], n=Lengths(T)[B], m=Lengths(U)[B], maybe=N_MAYBE)
    wide = Resample(8000, 16000)(audio=data.audio)
    graph = Graph(outputs={"audio": wide.audio, "n": data.n, "m": data.m, "maybe": data.maybe})
    assert {value.port for value in graph.fits("Resample.audio_len")} == {"n", "maybe"}


N_MAYBE = Lengths(T).optional()[B]


def test_a_value_that_may_be_absent_does_not_fit_a_port_that_needs_one() -> None:
    data = inputs(n=Lengths(T)[B], maybe=N_MAYBE)
    graph = Graph(outputs={"out": Port({"x": Lengths(T)[B]})(x=data.n).out, "maybe": data.maybe})
    assert graph.fits("Port.x") == [data.n]


def test_what_would_be_assumed_does_not_fit() -> None:
    data = inputs(a=Audio(rate=16000)[B, T], b=Audio()[B, T])
    graph = Graph(outputs={"out": Port({"x": Audio(rate=16000)[B, T]})(x=data.a).out, "b": data.b})
    assert graph.fits("Port.x") == [data.a]
    assert graph.fits(Audio(rate=16000)[B, T]) == [data.a]


def test_a_port_that_takes_anything_takes_anything_of_that_shape() -> None:
    data = inputs(a=Mel()[B, F(4), T], b=LogProbs(EN)[B, T, V(EN)], c=Score()[()], d=Acoustic()[B, F(2), U])
    turned = Transpose("B F T", "B T F")(value=data.a)
    graph = Graph(outputs={"x": turned.value, "b": data.b, "c": data.c, "d": data.d})
    assert [value.port for value in graph.fits("Transpose.value")] == ["a", "d"]


def test_what_an_adapter_objects_to_does_not_fit() -> None:
    data = inputs(a=Mel(scale="ln")[B, F(4), T], b=Mel(scale="ln", norm="per_feature")[B, F(4), T])
    graph = Graph(outputs={"mel": Rescale("ln", "log10")(mel=data.a).mel, "b": data.b})
    assert graph.fits("Rescale.mel") == [data.a]


def test_clocks_are_minded() -> None:
    data = inputs(a=Acoustic()[B, F(4), T.at(50)], b=Acoustic()[B, F(4), T.at(100)], n=Ids(EN)[B, U])
    port = Port({"x": Acoustic()[B, F, T.at(50)]})
    graph = Graph(outputs={"out": port(x=data.a).out, "b": data.b, "n": data.n})
    assert graph.fits("Port.x") == [data.a]


def test_lists_are_told_from_tensors() -> None:
    data = inputs(a=Mel()[B.list(), F(4), T], b=Mel()[B, F(4), T])
    graph = Graph(outputs={"out": Port({"x": Mel()[B.list(), F, T]})(x=data.a).out, "b": data.b})
    assert graph.fits("Port.x") == [data.a]


def test_values_to_be_put_side_by_side_agree_in_the_other_axes() -> None:
    data = inputs(a=Acoustic()[B, F(4), T], b=Acoustic()[B, F(8), T], late=Acoustic()[B, F(8), U])
    graph = Graph(outputs={"x": Concat(1)(first=data.a, second=data.b).value, "late": data.late})
    assert [value.port for value in graph.fits("Concat.second")] == ["b", "a"]


@pytest.mark.parametrize(
    ("port", "what", "fix"),
    [
        ("targets", "'targets' is not the name of a port", "write module.port, such as ctc.targets"),
        ("ctcc.targets", "graph 'train' has no module 'ctcc'", "did you mean 'ctc'?"),
        ("ctc.target", "ctc takes no 'target'", "did you mean 'targets'?"),
        ("ctc[1].targets", "ctc is called once, so there is no call 1", ""),
        ("data.audio", "data takes no 'audio'", ""),
    ],
)
def test_an_unknown_port_is_refused(recogniser: Graph, port: str, what: str, fix: str) -> None:
    with pytest.raises(GraphError) as caught:
        recogniser.fits(port)
    assert (caught.value.what, caught.value.code) == (what, "unknown-port")
    assert [each.text for each in caught.value.fixes] == ([fix] if fix else [])
