"""Graphs as values in actions: what is trained, in which mode modules run, what is saved, what is nested."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from neumo.backends.torch.registry import implements
from neumo.engine import NeuralFactory
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, F, GraphError

from ..engine.toys import Line, PointData, SquaredError, line_graphs


@dataclass(frozen=True)
class Watched(NeuralModule):
    """Remembers in which mode it ran."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F(3)]}, gives={"y": Acoustic()[B, F(1)]})


@implements(Watched)
class WatchedLayer(nn.Module):
    def __init__(self, spec: Watched) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 1)
        self.modes: list[bool] = []

    def forward(self, x: Tensor) -> Tensor:
        self.modes.append(self.training)
        return self.linear(x)


def factory(**options: Any) -> NeuralFactory:
    return NeuralFactory(**{"device": "cpu", "seed": 3, "progress": False, "verify": "always", **options})


def nested_line(line: Line) -> Graph:
    opened = inputs(x=Acoustic()[B, F(3)])
    return Graph("fit", outputs={"y": line(x=opened.x).y})


def test_a_graph_is_trained() -> None:
    train, _ = line_graphs()
    result = factory().train(train, max_steps=2)
    assert result.steps == 2


def test_a_loss_of_another_graph_is_refused() -> None:
    """There is one way to say what is trained: a graph (and which of its losses), or a loss alone."""
    one, two = line_graphs()[0], line_graphs()[0]
    with pytest.raises(GraphError, match="the loss is no value of graph 'train'"):
        factory().train(one, loss=two.outputs["loss"], max_steps=1)


def test_a_graph_for_inference_is_not_trained() -> None:
    train, _ = line_graphs()
    with pytest.raises(GraphError, match="'train' is for inference") as caught:
        factory().train(Graph("train", "infer", train.outputs), max_steps=1)
    assert caught.value.code == "mode"


def test_modules_run_in_the_mode_of_the_action() -> None:
    """The action decides the mode of the modules, for a graph for both can be trained and used."""
    watched = Watched().named("watched")
    batch = PointData()()
    y = watched(x=batch.x).y
    graph = Graph("both", "both", {"loss": SquaredError()(given=y, wanted=batch.y).loss, "y": y})
    maker = factory()
    maker.train(graph, max_steps=1)
    layer: Any = maker.session.implementation(watched)
    assert layer.modes == [True]
    maker.infer(graph, outputs=["y"])
    assert set(layer.modes[1:]) == {False}


def test_weights_of_a_graph_are_saved_and_loaded(tmp_path: Path) -> None:
    train, _ = line_graphs()
    maker = factory()
    maker.train(train, max_steps=2)
    maker.save(train, tmp_path / "line.safetensors")
    other, _ = line_graphs()
    again = factory(seed=8)
    again.load(other, tmp_path / "line.safetensors")
    before, after = maker.weights(train), again.weights(other)
    assert before.keys() == after.keys() == {"line.linear.weight", "line.linear.bias"}
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_weights_of_a_nested_graph_have_the_names_that_they_have_in_it(tmp_path: Path) -> None:
    inner = nested_line(Line())
    batch = PointData()()
    other = Line()
    both = SquaredError()(given=inner(x=batch.x).y, wanted=other(x=batch.x).y)
    outer = Graph("outer", "train", {"loss": both.loss})
    maker = factory()
    assert outer["Line"] is inner["Line"]
    assert maker.weights(inner).keys() < maker.weights(outer).keys()
    name = "Line.linear.weight"
    assert np.array_equal(maker.weights(inner)[name], maker.weights(outer)[name])


def test_a_nested_graph_trains_the_weights_that_it_shares() -> None:
    inner = nested_line(Line().named("line"))
    batch = PointData()()
    loss = SquaredError()(given=inner(x=batch.x).y, wanted=batch.y)
    maker = factory()
    before = maker.weights(inner)["line.linear.weight"].copy()
    maker.train(Graph("outer", "train", loss.loss), max_steps=2)
    assert not np.array_equal(before, maker.weights(inner)["line.linear.weight"])


def test_a_closed_graph_runs_inside_another_one() -> None:
    train, _ = line_graphs()
    outer = Graph("outer", "train", train())
    assert factory().train(outer, max_steps=2).losses == factory().train(train, max_steps=2).losses


def test_a_summary_counts_weights_without_changing_what_they_start_from() -> None:
    train, _ = line_graphs(line=Line())
    maker = factory()
    summary = train.summary(maker)
    assert (summary.parameters, summary.trained) == (4, 4)
    plain = factory()
    plain.train(train, max_steps=1)
    maker.train(train, max_steps=1)
    assert all(np.array_equal(a, maker.weights(train)[name]) for name, a in plain.weights(train).items())


def test_a_summary_tells_what_is_frozen() -> None:
    train, _ = line_graphs()
    maker = factory()
    maker.train(train, max_steps=1)
    maker.freeze(train["line"])
    assert "4 weights, all frozen" in str(train.summary(maker))


def test_a_graph_is_a_plain_torch_module() -> None:
    """A graph has no forward, backward or parameters of its own: it gives a torch module, which has."""
    inner = nested_line(Line().named("line"))
    maker = factory()
    module = inner.to_torch(factory=maker)
    assert [name for name, _ in module.named_parameters()] == ["line.linear.weight", "line.linear.bias"]
    given = np.ones((2, 3), np.float32)
    answer = module(x=torch.from_numpy(given))["y"].detach().numpy()
    assert np.allclose(answer, maker.infer(inner, {"x": given})[0]["y"])
