"""Summaries of graphs: what is told of each module, as text and as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.types import Acoustic, B, F, Loss, T

from .specs import EN, Add, ConvEncoder, CTCHead, Down, MelSpectrogram, SpeechData, SumLoss


@dataclass
class Scales:
    """Counts ten weights for each module that is trained, of which it freezes some."""

    frozen: int = 0
    built: list[str] = field(default_factory=list[str])

    @property
    def session(self) -> Scales:
        return self

    def build(self, modules: Mapping[str, NeuralModule]) -> None:
        self.built += modules

    def count_parameters(self, what: NeuralModule, *, trainable_only: bool = False) -> int:
        return (1000 - self.frozen * trainable_only) * what.trainable


def encoder() -> Graph:
    batch = SpeechData(EN)()
    feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    enc = ConvEncoder().named("encoder")(mel=feats.mel, mel_len=feats.mel_len)
    return Graph("speech", outputs={"encoded": enc.encoded})


def test_each_module_is_told_with_its_kind_role_and_ports() -> None:
    summary = encoder().summary()
    assert [(m.name, m.kind, m.role, m.trainable) for m in summary.modules] == [
        ("SpeechData", "SpeechData", "data", False),
        ("MelSpectrogram", "MelSpectrogram", "module", False),
        ("encoder", "ConvEncoder", "module", True),
    ]
    last = summary.modules[-1]
    assert last.gives["encoded_len"] == "Lengths(T//320 + 1)[B]"
    assert last.takes["mel_len"] == "Lengths(T//160 + 1)[B]"
    assert (last.calls, last.within, last.parameters, last.trained) == (1, None, None, None)
    assert (summary.steps, summary.connections, summary.parameters, summary.trained) == (3, 4, None, None)
    assert summary.inputs == {}


def test_a_summary_prints_as_a_table() -> None:
    opened = inputs(x=Acoustic()[B, F(8), T])
    down = Down().named("down")
    graph = Graph("halves", outputs={"y": down(x=down(x=opened.x).x).x})
    assert str(graph.summary()) == (
        "graph halves (both): 1 module, 2 steps, 2 connections\n"
        "\n"
        "down  Down  module    called 2 times\n"
        "    <- x  Acoustic[B, F=8, T]\n"
        "    -> x  Acoustic[B, F=8, ceil(T/2)]\n"
        "\n"
        "takes\n"
        "    <- x  Acoustic[B, F=8, T]\n"
        "\n"
        "gives\n"
        "    -> y  Acoustic[B, F=8, ceil(T/4)]"
    )


def test_the_table_is_as_wide_as_a_page() -> None:
    graph = encoder()
    outer = Graph("scores", outputs=CTCHead(EN)(encoded=graph().encoded))
    text = str(outer.summary())
    assert max(map(len, text.splitlines())) <= 100
    assert "encoder         ConvEncoder     module  has weights  part of speech" in text


def test_weights_are_counted_by_a_factory() -> None:
    scales = Scales()
    summary = encoder().summary(scales)
    assert scales.built == ["MelSpectrogram", "encoder"]  # by the names in this graph, data left out
    assert [m.parameters for m in summary.modules] == [0, 0, 1000]
    assert (summary.parameters, summary.trained) == (1000, 1000)
    assert "4 connections, 1,000 weights\n" in str(summary)
    assert "no weights" in str(summary)


def test_frozen_weights_are_told() -> None:
    assert "1,000 weights, all frozen" in str(encoder().summary(Scales(frozen=1000)))
    assert "1,000 weights, 1 trained" in str(encoder().summary(Scales(frozen=999)))


def test_one_weight_is_not_several() -> None:
    assert "encoder         ConvEncoder     module  1,000 weights" in str(encoder().summary(Scales()))

    @dataclass
    class One(Scales):
        def count_parameters(self, what: NeuralModule, *, trainable_only: bool = False) -> int:
            return int(what.trainable)

    assert "1 weight\n" in str(encoder().summary(One()))


def test_a_port_that_takes_many_tells_the_types_of_all() -> None:
    losses = inputs(a=Loss()[()], b=Loss()[()])
    total = SumLoss()(losses=[losses.a, losses.b])
    (module,) = Graph(outputs=total).summary().modules
    assert module.takes == {"losses": "Loss[], Loss[]"}


def test_a_summary_is_plain_data() -> None:
    opened = inputs(x=Acoustic()[B, F(8), T])
    graph = Graph("sum", outputs={"y": Add()(a=opened.x, b=opened.x).x})
    data = json.loads(json.dumps(graph.summary().to_json()))
    assert (data["name"], data["mode"], data["inputs"]) == ("sum", "both", {"x": "Acoustic[B, F=8, T]"})
    assert data["modules"][0]["kind"] == "Add"
    assert data["parameters"] is None


def test_a_graph_without_modules_has_a_summary() -> None:
    graph = Graph("echo", outputs=inputs(x=Acoustic()[B, F(8), T]))
    assert str(graph.summary()).startswith(
        "graph echo (both): 0 modules, 0 steps, 0 connections, no weights\n\ntakes"
    )
