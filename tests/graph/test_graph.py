"""Graphs: steps, names, inputs, pruning, equality, cycles, sizes, nesting."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from neumo.graph.graph import Graph, cycle_error, find_cycle
from neumo.graph.inputs import GraphInputs, inputs
from neumo.graph.module import DataLayer, NeuralModule, label_of
from neumo.graph.same import same_settings
from neumo.graph.signature import Signature
from neumo.graph.value import Step, Value
from neumo.types import Acoustic, Audio, B, F, GraphError, Ids, Lengths, Loss, Mask, Mel, PortError, T

from .snapshots import expect
from .specs import (
    EN,
    TAGS,
    WORDS,
    Add,
    BertEncoder,
    ConvEncoder,
    CTCHead,
    CTCLoss,
    Down,
    Gain,
    MelSpectrogram,
    SpeechData,
    SpeedPerturb,
    SumLoss,
    TextData,
)


def recogniser(width: int = 1024, named: bool = False, stride: int = 2) -> Graph:
    encoder = ConvEncoder(width=width, stride=stride)
    if named:
        encoder.named("encoder")
    batch = SpeechData(EN)()
    feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    enc = encoder(mel=feats.mel, mel_len=feats.mel_len)
    lp = CTCHead(EN, width=width)(encoded=enc.encoded)
    loss = CTCLoss(EN)(
        log_probs=lp.log_probs, log_probs_len=enc.encoded_len, targets=batch.text, targets_len=batch.text_len
    )
    return Graph("train", "train", {"loss": loss.loss, "log_probs": lp.log_probs, "length": enc.encoded_len})


def test_steps_stand_in_the_order_of_composition() -> None:
    labels = [type(step.module).__name__ for step in recogniser().steps]
    assert labels == ["SpeechData", "MelSpectrogram", "ConvEncoder", "CTCHead", "CTCLoss"]


def test_steps_that_no_output_needs_are_left_out() -> None:
    batch = SpeechData(EN)()
    feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    ConvEncoder()(mel=feats.mel, mel_len=feats.mel_len)
    assert len(Graph(outputs={"mel": feats.mel}).steps) == 2


def test_pruning_keeps_what_is_asked_for_and_the_names() -> None:
    graph = recogniser()
    pruned = graph.prune("log_probs")
    assert list(pruned.outputs) == ["log_probs"]
    assert [type(step.module).__name__ for step in pruned.steps] == [
        "SpeechData",
        "MelSpectrogram",
        "ConvEncoder",
        "CTCHead",
    ]
    assert pruned.name == "train"
    assert all(pruned.modules[name] is graph.modules[name] for name in pruned.modules)


def test_pruning_keeps_numbers_of_modules_that_lost_their_first() -> None:
    frames = inputs(x=Acoustic()[B, F(8), T])
    one, two = Down(), Down()
    graph = Graph(outputs={"one": one(x=frames.x).x, "two": two(x=frames.x).x})
    assert graph.modules == {"Down": one, "Down_2": two}
    assert graph.prune("two").modules == {"Down_2": two}


def test_pruning_to_an_unknown_output_gets_the_nearest_match() -> None:
    with pytest.raises(GraphError, match="did you mean 'log_probs'") as caught:
        recogniser().prune("logprobs")
    assert caught.value.code == "output"


def test_names_that_were_given_are_used() -> None:
    assert list(recogniser(named=True).modules) == [
        "SpeechData",
        "MelSpectrogram",
        "encoder",
        "CTCHead",
        "CTCLoss",
    ]


def test_two_modules_of_one_name_are_refused() -> None:
    frames = inputs(x=Acoustic()[B, F(8), T])
    one = Down(2).named("down")(x=frames.x)
    two = Down(3).named("down")(x=one.x)
    with pytest.raises(GraphError, match="two modules are named 'down'"):
        Graph(outputs={"x": two.x})


def test_a_name_that_looks_like_a_class_is_kept_apart() -> None:
    frames = inputs(x=Acoustic()[B, F(8), T])
    one = Down(2)(x=frames.x)
    two = Gain().named("Down")
    audio = two(audio=inputs(a=Audio()[B, T]).a)
    assert list(Graph(outputs={"x": one.x, "audio": audio.audio}).modules) == ["Down_2", "Down"]


def test_a_module_that_is_called_twice_is_one_module() -> None:
    frames = inputs(x=Acoustic()[B, F(8), T])
    down = Down()
    graph = Graph(outputs={"x": down(x=down(x=frames.x).x).x})
    assert (len(graph.steps), list(graph.modules)) == (3, ["Down"])
    assert str(graph.outputs["x"].type.axes[2]) == "ceil(T/4)"


def test_open_inputs_are_those_that_are_used() -> None:
    speech = inputs(audio=Audio(rate=16000, peak=1.0)[B, T], audio_len=Lengths(T)[B], spare=Loss()[()])
    feats = MelSpectrogram()(audio=speech.audio, audio_len=speech.audio_len)
    graph = Graph(outputs={"mel": feats.mel})
    assert list(graph.inputs) == ["audio", "audio_len"]
    assert list(Graph(outputs={"same": speech.audio}).inputs) == ["audio"]


def test_two_open_inputs_of_one_name_are_refused() -> None:
    one, two = (inputs(x=Acoustic()[B(1), F(8), T(9)]) for _ in range(2))
    with pytest.raises(GraphError, match="two open inputs are called 'x'"):
        Graph(outputs={"x": Add()(a=one.x, b=two.x).x})


def test_graphs_of_equal_modules_and_wiring_are_equal() -> None:
    assert recogniser() == recogniser()
    assert hash(recogniser()) == hash(recogniser())
    assert recogniser() == recogniser(named=True)


def test_graphs_of_other_settings_outputs_or_modes_differ() -> None:
    graph = recogniser()
    assert graph != recogniser(width=512)
    assert graph != graph.prune("loss")
    assert graph != Graph("train", "infer", graph.outputs)
    assert graph != "graph"
    swapped = {"loss": graph.outputs["log_probs"], "log_probs": graph.outputs["loss"]}
    assert Graph("train", "train", swapped) != graph.prune("loss", "log_probs")


def test_shared_weights_are_a_difference() -> None:
    frames = inputs(x=Acoustic()[B, F(8), T])
    one, two = Down(), Down()
    shared = Graph(outputs={"x": one(x=one(x=frames.x).x).x})
    apart = Graph(outputs={"x": two(x=one(x=frames.x).x).x})
    assert shared != apart
    assert apart != shared


def test_shared_steps_are_a_difference() -> None:
    frames = inputs(x=Acoustic()[B, F(8), T])
    down, add = Down(), Add()
    once = down(x=frames.x)
    twice = down(x=frames.x)
    assert Graph(outputs={"x": add(a=once.x, b=once.x).x}) != Graph(outputs={"x": add(a=once.x, b=twice.x).x})


def test_wiring_is_a_difference() -> None:
    two = inputs(p=Acoustic()[B, F(8), T], q=Acoustic()[B, F(8), T])
    straight = Graph(outputs={"x": Add()(a=two.p, b=two.q).x})
    crossed = Graph(outputs={"x": Add()(a=two.q, b=two.p).x})
    assert straight != crossed


def test_types_of_open_inputs_are_a_difference() -> None:
    one, two = (Graph(outputs={"x": inputs(x=Acoustic()[B, F(n), T]).x}) for n in (8, 9))
    assert one != two


def test_a_cycle_is_refused_with_its_path() -> None:
    frames = inputs(x=Acoustic()[B, F(8), T])
    first = Down(1).named("first")(x=frames.x).x.step
    second = Step(Down(1).named("second"), {"x": first.outputs["x"]})
    second.outputs = {"x": Value(second, "x", first.outputs["x"].type)}
    first.inputs["x"] = second.outputs["x"]
    with pytest.raises(GraphError) as caught:
        Graph(outputs={"x": second.outputs["x"]})
    assert caught.value.code == "cycle"
    expect("graph_cycle", caught.value.render())


def test_cycles_among_names_are_found() -> None:
    assert find_cycle({"a": ["b", "c"], "b": ["c"], "c": []}) is None
    assert find_cycle({"a": ["b"], "b": ["c"], "c": ["a"]}) == ["a", "b", "c", "a"]
    assert find_cycle({"a": ["a"]}) == ["a", "a"]
    assert find_cycle({"a": ["b"], "b": ["elsewhere"], "c": ["d", "b"], "d": ["c"]}) == ["c", "d", "c"]
    assert "a -> b -> a" in cycle_error(["a", "b", "a"]).render()


def test_hand_made_steps_in_any_order_are_sorted() -> None:
    frames = inputs(x=Acoustic()[B, F(8), T])
    late = Step(Down(1), {})
    early = Down(1)(x=frames.x)
    late.inputs["x"] = early.x
    late.outputs = {"x": Value(late, "x", early.x.type)}
    assert [step is late for step in Graph(outputs={"x": late.outputs["x"]}).steps] == [False, False, True]


def test_a_graph_of_a_thousand_steps_needs_no_stack() -> None:
    value = inputs(x=Acoustic()[B, F(8), T]).x
    down = Down(1)
    for _ in range(1500):
        value = down(x=value).x
    graph = Graph(outputs={"x": value})
    assert len(graph.steps) == 1501
    assert graph == Graph(outputs={"x": value})


def test_outputs_have_to_be_values_with_names() -> None:
    batch = SpeechData(EN)()
    for wrong in (
        None,
        {},
        {"batch": batch},
        {"x": 3},
        {"a b": batch.audio},
        {"class": batch.audio},
        {"_x": batch.audio},
        [3],
        [],
    ):
        with pytest.raises(GraphError) as caught:
            Graph(outputs=wrong)
        assert caught.value.code == "output"
    assert list(Graph(outputs=batch).outputs) == ["audio", "audio_len", "text", "text_len"]
    only = MelSpectrogram()
    assert only
    assert Graph(outputs={"text": batch.text}).outputs == {"text": batch.text}
    with pytest.raises(GraphError, match="no mode 'trian'") as caught:
        Graph(mode="trian", outputs={"text": batch.text})  # type: ignore[arg-type]
    assert caught.value.fixes[0].text == "did you mean 'train'?"
    with pytest.raises(GraphError, match="no mode of type Record") as caught:
        Graph("text", batch)  # type: ignore[arg-type]
    assert caught.value.fixes[1].text == "write outputs=... if these are the outputs"


def test_sizes_are_told_in_the_symbols_of_the_data() -> None:
    graph = recogniser()
    symbols = {str(symbol): origin for symbol, origin in graph.symbols.items()}
    assert list(symbols) == ["B", "T", "U"]
    assert symbols["T"].value.port == "audio"
    assert symbols["T"].axis == 1
    assert symbols["T"].lengths is not None
    assert symbols["T"].lengths.port == "audio_len"
    assert symbols["B"].lengths is None
    time = next(symbol for symbol in graph.symbols if symbol.name == "T")
    size = graph.size("log_probs", 1)
    assert size is not None
    assert [size.evaluate({time: samples}) for samples in (1, 320, 16000)] == [1, 2, 51]
    assert graph.size(graph.outputs["log_probs"], -1) == 29
    with pytest.raises(GraphError, match="has 3 axes"):
        graph.size("log_probs", 3)
    with pytest.raises(GraphError, match="no output 'lengths'"):
        graph.size("lengths", 0)


def test_values_that_fit_a_type_are_listed() -> None:
    graph = recogniser()
    assert [value.name for value in graph.fits(Audio(rate=16000)[B, T])] == ["SpeechData.audio"]
    assert [value.port for value in graph.fits(Lengths(T)[B])] == [
        "audio_len",
        "text_len",
        "mel_len",
        "encoded_len",
    ]


def test_what_is_taken_on_trust_is_listed_with_its_place() -> None:
    outside = inputs(audio=Audio()[B, T], audio_len=Lengths(T)[B])
    feats = MelSpectrogram().named("mel")(audio=outside.audio, audio_len=outside.audio_len)
    rate, peak = Graph(outputs=feats).assumptions()
    port, obligation = rate
    assert (port, obligation.facet, obligation.value) == ("mel.audio", "rate", 16000)
    assert str(peak) == "mel.audio: peak = 1.0"
    assert rate.value is outside.audio
    assert "test_graph.py" in rate.place
    assert rate.reason == ""


def test_no_inputs_are_no_ports() -> None:
    assert GraphInputs().signature() == Signature()


def test_values_that_fit_a_port_are_listed() -> None:
    graph = recogniser()
    assert graph.fits("CTCLoss.log_probs_len") == [graph.outputs["length"]]
    assert [value.port for value in graph.fits("CTCLoss.targets_len")] == ["text_len"]
    with pytest.raises(GraphError, match="has no module 'CTCLos'"):
        graph.fits("CTCLos.targets")


def front_end() -> Graph:
    speech = inputs(audio=Audio(rate=16000, peak=1.0)[B, T], audio_len=Lengths(T)[B])
    feats = MelSpectrogram()(audio=speech.audio, audio_len=speech.audio_len)
    enc = ConvEncoder()(mel=feats.mel, mel_len=feats.mel_len)
    return Graph("front_end", outputs={"encoded": enc.encoded, "encoded_len": enc.encoded_len})


def test_a_graph_is_a_module_of_another_and_shares_its_weights() -> None:
    encode = front_end()
    batch = SpeechData(EN)()
    found = encode(audio=batch.audio, audio_len=batch.audio_len)
    assert str(found.encoded.type.axes) == "(B, F=1024, T//320 + 1 at 50 Hz)"
    graph = Graph(outputs={"x": CTCHead(EN)(encoded=found.encoded).log_probs})
    assert graph.modules["ConvEncoder"] is encode.modules["ConvEncoder"]
    assert graph.inputs == {}
    assert repr(found).startswith("front_end gives\n  encoded: ")


def test_a_nested_graph_checks_what_it_is_given() -> None:
    encode = front_end()
    batch = SpeechData(EN, rate=8000)()
    with pytest.raises(
        PortError, match=r"SpeechData.audio cannot feed front_end.audio: rate is 8000, not 16000"
    ):
        encode(audio=batch.audio, audio_len=batch.audio_len)
    with pytest.raises(PortError, match="front_end needs audio_len"):
        encode(audio=SpeechData(EN)().audio)


def test_a_nested_graph_has_data_layers_of_its_own() -> None:
    batch = SpeechData(EN)()
    outside = inputs(audio=Audio(rate=16000, peak=1.0)[B, T])
    louder = Gain()(audio=outside.audio)
    graph = Graph(outputs={"louder": louder.audio, "text": batch.text})
    again = graph(audio=batch.audio)
    assert again.text.step.module is batch.text.step.module
    assert again.text is not batch.text
    assert again.louder.type == batch.audio.type


def test_a_graph_prints_what_it_takes_and_gives() -> None:
    assert repr(front_end()).splitlines() == [
        "Graph 'front_end' (both): 3 steps from audio, audio_len",
        "  encoded: Acoustic[B, F=1024, T//320 + 1 at 50 Hz]",
        "  encoded_len: Lengths(T//320 + 1)[B]",
    ]


def test_differences_that_are_let_pass_are_listed() -> None:
    @dataclass(frozen=True)
    class Vocoder(NeuralModule):
        def signature(self) -> Signature:
            return Signature(takes={"mel": Mel(window="hann")[B, F, T]}, gives={"audio": Audio()[B, T * 256]})

    spoken = inputs(mel=Mel(window="hamming")[B, F(80), T])
    speech = Vocoder()(mel=spoken.mel)
    (warning,) = Graph(outputs={"audio": speech.audio}).warnings()
    assert (warning[0], str(warning[1])) == ("Vocoder.mel", "window is hamming, not hann")


def test_a_nested_graph_takes_its_inputs_by_name() -> None:
    encode = front_end()
    batch = SpeechData(EN)()
    with pytest.raises(PortError, match="front_end takes its inputs by name"):
        encode(batch.audio, batch.audio_len)


def test_an_open_input_that_may_be_absent_can_be_left_out_of_a_nested_graph() -> None:
    data = inputs(
        ids=Ids(WORDS, frame="bos..eos")[B, T],
        mask=Mask(T, true="keep")[B, T],
        segments=Ids().optional()[B, T],
    )
    hidden = BertEncoder(WORDS)(ids=data.ids, mask=data.mask, segments=data.segments)
    bert = Graph("bert", outputs={"hidden": hidden.hidden})
    assert "segments" in hidden.hidden.step.inputs
    batch = TextData(WORDS, TAGS)()
    again = bert(ids=batch.ids, mask=batch.mask)
    assert "segments" not in again.hidden.step.inputs
    assert "segments" in bert(ids=batch.ids, mask=batch.mask, segments=batch.ids).hidden.step.inputs


def test_a_graph_that_nests_many_losses_renews_each() -> None:
    outside = inputs(a=Loss()[()], b=Loss()[()])
    total = Graph("total", outputs={"loss": SumLoss()(losses=[outside.a, outside.b]).loss})
    fresh = inputs(p=Loss()[()], q=Loss()[()])
    found = total(a=fresh.p, b=fresh.q)
    assert found.loss.step.inputs["losses"] == (fresh.p, fresh.q)


def test_a_composed_value_crosses_process_borders() -> None:
    batch = SpeechData(EN)()
    again = pickle.loads(pickle.dumps(MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len).mel))
    assert (
        str(again)
        == "MelSpectrogram.mel: Mel(rate=16000, hop=160, power=2.0, scale=ln, n_mels=64)[B, F=64, T//160 + 1]"
    )
    copied = copy.deepcopy(ConvEncoder(width=3).named("encoder"))
    assert (copied.width, label_of(copied)) == (3, "encoder")


def test_a_graph_draws_saves_and_loads_itself(tmp_path: Path) -> None:
    graph = recogniser()
    for drawing in (graph.text(), graph.mermaid(), graph.svg(), graph._repr_html_()):
        assert "ConvEncoder" in drawing
    graph.save(tmp_path / "recogniser.yaml")
    assert Graph.load(tmp_path / "recogniser.yaml") == graph


def test_modules_are_named_by_the_graph_they_are_in() -> None:
    graph = recogniser()
    assert graph.name_of(graph.modules["CTCHead"]) == "CTCHead"
    with pytest.raises(GraphError, match="ConvEncoder is not part of graph 'train'"):
        graph.name_of(ConvEncoder())


def test_open_inputs_and_data_layers_are_not_the_same_graph() -> None:
    batch = SpeechData(EN)()
    outside = inputs(audio=batch.audio.type)
    assert Graph(outputs={"audio": batch.audio}) != Graph(outputs={"audio": outside.audio})
    assert Graph(outputs={"audio": outside.audio}) != Graph(outputs={"audio": batch.audio})


def test_a_value_used_in_two_places_has_to_be_one_value_there_too() -> None:
    one, two = SpeechData(EN)(), SpeechData(EN)()
    fast = SpeedPerturb()
    once = fast(audio=one.audio, audio_len=one.audio_len)
    same = Graph(outputs={"a": once.audio, "b": once.audio_len})
    again = fast(audio=one.audio, audio_len=one.audio_len)
    assert same != Graph(outputs={"a": once.audio, "b": again.audio_len})
    other = fast(audio=two.audio, audio_len=two.audio_len)
    assert same == Graph(outputs={"a": other.audio, "b": other.audio_len})


def test_lengths_alone_can_mention_a_symbol() -> None:
    count = inputs(n=Lengths(T)[B])
    (origin,) = [o for symbol, o in Graph(outputs={"n": count.n}).symbols.items() if symbol.name == "T"]
    assert (origin.axis, origin.lengths) == (None, count.n)


def test_an_optional_port_that_is_used_in_one_graph_only_is_a_difference() -> None:
    data = TextData(WORDS, TAGS)()
    bert = BertEncoder(WORDS)
    without = Graph(outputs={"hidden": bert(ids=data.ids, mask=data.mask).hidden})
    segments = Graph(outputs={"hidden": bert(ids=data.ids, mask=data.mask, segments=data.ids).hidden})
    assert without != segments


def test_a_record_of_one_value_may_stand_for_it() -> None:
    frames = inputs(x=Acoustic()[B, F(8), T])
    down, up, again = Down(), Down(), Down()
    graph = Graph(outputs={"x": again(x=up(x=down(x=frames.x).x).x)})
    assert list(graph.modules) == ["Down", "Down_2", "Down_3"]
    assert graph.outputs["x"].type.axes[2].size is not None


def test_a_record_can_be_copied_and_pickled() -> None:
    data = inputs(x=Acoustic()[B, F(64), T], n=Lengths(T)[B])
    for other in (copy.copy(data), copy.deepcopy(data), pickle.loads(pickle.dumps(data))):
        assert [str(value) for value in other] == [str(value) for value in data]


@dataclass(frozen=True)
class Files(DataLayer):
    """Holds whatever a field can hold."""

    manifest: str | Path = "train.jsonl"
    more: tuple[str | Path, ...] = ()
    label: str = ""
    table: Mapping[Any, Any] = field(default_factory=dict[Any, Any])
    part: DataLayer | None = None

    def signature(self) -> Signature:
        return Signature(gives={"x": Acoustic()[B, F(8), T]})


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"manifest": "train.jsonl"}, {"manifest": Path("train.jsonl")}),
        ({"manifest": "train.jsonl"}, {"manifest": Path.cwd() / "train.jsonl"}),
        ({"manifest": "train.jsonl"}, {"manifest": "elsewhere/../train.jsonl"}),
        ({"more": ("a", "b")}, {"more": ["a", Path("./b")]}),
        ({"table": {1: [2]}}, {"table": {"1": (2,)}}),
        ({"part": Files("a.jsonl")}, {"part": Files(Path("a.jsonl"))}),
    ],
)
def test_settings_that_mean_the_same_are_equal(one: Any, two: Any) -> None:
    assert same_settings(Files(**one), Files(**two))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"manifest": "train.jsonl"}, {"manifest": "tests/train.jsonl"}),
        ({"label": "a"}, {"label": "./a"}),  # no path, whatever it looks like
        ({"more": ("a", "b")}, {"more": ("a",)}),
        ({"more": ("a", "b")}, {"more": ("b", "a")}),
        ({"table": {1: 2}}, {"table": {2: 2}}),
        ({"table": {1: 2}}, {"table": {1: 3}}),
        ({"part": Files("a.jsonl")}, {"part": Files("b.jsonl")}),
        ({"part": Files("a.jsonl")}, {"part": None}),
        ({"part": Files("a.jsonl")}, {"part": SpeechData(EN)}),
    ],
)
def test_settings_that_mean_another_thing_are_not(one: Any, two: Any) -> None:
    assert not same_settings(Files(**one), Files(**two))


def test_a_graph_that_is_saved_elsewhere_is_loaded_equal(tmp_path: Path) -> None:
    graph = Graph("g", outputs=Files("data/train.jsonl", more=("dev.jsonl",)).named("data")())
    graph.save(tmp_path / "graph.yaml")
    assert Graph.load(tmp_path / "graph.yaml") == graph
