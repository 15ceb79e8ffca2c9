"""Ports that are there in training only: needed by a training, refused by an inference, left out by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from torch import Tensor, nn

from neumo.backends.torch.registry import implements
from neumo.engine import NeuralFactory, compile_plan
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.graph.train_only import check_trained
from neumo.types import Acoustic, B, F, GraphError, T


@dataclass(frozen=True)
class Forced(NeuralModule):
    """A decoder that looks at its target while it is trained."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        x = Acoustic()[B, F(3), T]
        return Signature(
            takes={"x": x, "target": x.only("train"), "hint": x.as_optional().only("train")}, gives={"y": x}
        )


@implements(Forced)
class ForcedLayer(nn.Module):
    def __init__(self, spec: Forced) -> None:
        super().__init__()

    def forward(self, x: Tensor, target: Tensor | None, hint: Tensor | None) -> Tensor:
        return x if target is None else target


@dataclass(frozen=True)
class Twice(NeuralModule):
    def signature(self) -> Signature:
        x = Acoustic()[B, F(3), T]
        return Signature(takes={"x": x}, gives={"x": x})


@implements(Twice)
class TwiceLayer(nn.Module):
    def __init__(self, spec: Twice) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


def opened() -> Any:
    x = Acoustic()[B, F(3), T]
    return inputs(x=x, wanted=x)


def test_a_graph_for_training_needs_them() -> None:
    data, forced = opened(), Forced()
    assert Graph("t", "train", {"y": forced(x=data.x, target=data.wanted).y})
    with pytest.raises(GraphError, match=r"is trained, and leaves out Forced\.target") as caught:
        Graph("t", "train", {"y": forced(x=data.x).y})
    assert caught.value.code == "when"
    assert "test_train_only.py" in str(caught.value.where)
    assert caught.value.details[0].text == "target: Acoustic[B, F=3, T] when train"  # type: ignore[union-attr]


def test_a_graph_for_inference_must_not_connect_them() -> None:
    data, forced = opened(), Forced()
    assert Graph("i", "infer", {"y": forced(x=data.x).y})
    with pytest.raises(GraphError, match=r"is for inference, and Forced.hint is for training only") as caught:
        Graph("i", "infer", {"y": forced(x=data.x, target=data.wanted, hint=data.x).y})
    assert [error.code for error in caught.value.also] == ["when"]
    assert "^" in str(caught.value)


def test_a_graph_for_both_may_and_may_not() -> None:
    data, forced = opened(), Forced()
    both = Graph("b", "both", {"y": forced(x=data.x, target=Twice()(x=data.wanted).x).y})
    without = Graph("b", "both", {"y": forced(x=data.x).y})
    assert set(both.inputs) == {"x", "wanted"}
    check_trained(both, both.steps)
    with pytest.raises(GraphError, match=r"leaves out Forced\.target"):
        check_trained(without, without.steps)


def test_an_inference_leaves_them_and_what_feeds_them_out() -> None:
    data, forced = opened(), Forced()
    graph = Graph("b", "both", {"y": forced(x=data.x, target=Twice()(x=data.wanted).x).y})
    plan = compile_plan(graph, training=False)
    assert [step.name for step in plan.steps] == ["Forced"]
    assert [feed.port for feed in plan.feeds] == ["x"]
    assert list(plan.steps[0].sources) == ["x"]
    assert [step.name for step in compile_plan(graph).steps] == ["Twice", "Forced"]
    trained = Graph("t", "train", {"y": forced(x=data.x, target=data.wanted).y})
    assert list(compile_plan(trained, training=False).steps[0].sources) == ["x", "target"]


def test_the_code_of_a_module_gets_none_in_an_inference() -> None:
    data, forced = opened(), Forced()
    graph = Graph("b", "both", {"y": forced(x=data.x, target=Twice()(x=data.wanted).x).y})
    x = np.ones((2, 3, 4), np.float32)
    factory = NeuralFactory(device="cpu", progress=False)
    assert (factory.infer(graph, {"x": x})[0]["y"] == x).all()


def test_a_step_without_a_place_is_refused_as_well() -> None:
    data = opened()
    value = Forced()(x=data.x).y
    value.step.location = None
    with pytest.raises(GraphError, match="leaves out") as caught:
        Graph("t", "train", {"y": value})
    assert caught.value.where is None
