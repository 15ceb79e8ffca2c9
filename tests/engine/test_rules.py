"""Rules of graphs stop an action before anything is computed; warnings are said once."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import nn

from neumo.backends.torch.registry import implements
from neumo.engine import NeuralFactory
from neumo.engine.callbacks import Evaluate
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, F, GraphError, Ids, Lengths, T

from .toys import LETTERS, FrameData, Line, MeanError, PointData, SquaredError, refused


@dataclass(frozen=True)
class Pool(NeuralModule):
    """The mean of the frames, of those that are real if it is told which."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        takes = {"frames": Acoustic()[B, T], "frames_len": Lengths(T).optional()[B]}
        return Signature(takes=takes, gives={"y": Acoustic()[B, F(1)]})


@implements(Pool)
class PoolLayer(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, frames, frames_len):
        return self.scale * frames.mean(dim=1, keepdim=True)


@dataclass(frozen=True)
class Choose(NeuralModule):
    """An id for each point: no gradient flows back through it."""

    def signature(self) -> Signature:
        return Signature(takes={"y": Acoustic()[B, F(1)]}, gives={"ids": Ids(LETTERS)[B]})


@implements(Choose)
class ChooseLayer(nn.Module):
    def __init__(self, spec):
        super().__init__()

    def forward(self, y):
        return (y[:, 0] > 0).long()


@dataclass(frozen=True)
class Look(NeuralModule):
    """Features of an id."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(takes={"ids": Ids(LETTERS)[B]}, gives={"y": Acoustic()[B, F(1)]})


@implements(Look)
class LookLayer(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.table = nn.Embedding(4, 1)

    def forward(self, ids):
        return self.table(ids)


def factory() -> NeuralFactory:
    return NeuralFactory(device="cpu", progress=False)


def pooled(told: bool, silence: dict[str, str] | None = None) -> dict[str, Graph]:
    batch = FrameData()()
    y = Pool()(frames=batch.frames, frames_len=batch.frames_len if told else None).y
    wanted = Pool().named("other")(frames=batch.frames, frames_len=batch.frames_len).y
    loss = SquaredError()(given=y, wanted=wanted)
    error = MeanError()(given=y, wanted=wanted)
    return {
        "train": Graph("train", "train", {"loss": loss.loss}, silence=silence),
        "test": Graph("test", "infer", {"error": error.score}, silence=silence),
        "infer": Graph("infer", "infer", {"y": y}, silence=silence),
    }


def test_an_error_stops_every_action() -> None:
    graphs = pooled(told=False)
    for act in (
        lambda: factory().train(graphs["train"], epochs=1),
        lambda: factory().evaluate(graphs["test"]),
        lambda: factory().infer(graphs["infer"]),
    ):
        with refused(GraphError, "Pool is not told where the padding of frames begins") as caught:
            act()
        assert caught.value.code == "padding"


def test_graphs_that_are_told_of_padding_run() -> None:
    graphs = pooled(told=True)
    maker = factory()
    assert maker.train(graphs["train"], epochs=1).notes == list(maker.session.notes)
    assert set(maker.evaluate(graphs["test"])) == {"error", "points"}
    assert len(maker.infer(graphs["infer"])) == 2


def test_what_is_silenced_runs() -> None:
    graphs = pooled(told=False, silence={"padding": "frames are equally long"})
    assert factory().train(graphs["train"], epochs=1).steps == 2


def test_the_graphs_of_evaluations_are_checked_before_the_first_step() -> None:
    test = pooled(told=False)["test"]
    with refused(GraphError, "Pool is not told"):
        factory().train(pooled(told=True)["train"], epochs=1, evaluate=Evaluate(test))


def line_and(name: str) -> tuple[Graph, Line]:
    batch = PointData()()
    line, other = Line(width=3).named("line"), Line(width=3).named("other")
    loss = SquaredError()(given=line(x=batch.x).y, wanted=batch.y).loss
    return Graph(name, "train", {"loss": loss, "y": other(x=batch.x).y}), other


def test_a_warning_of_a_training_is_one_of_its_notes() -> None:
    graph, other = line_and("train")
    notes = factory().train(graph, epochs=1).notes
    (note,) = [note for note in notes if "warning" in note]
    assert note.startswith("warning: the loss does not reach other: its weights stay as they are")
    assert "[untrained-module], " in note
    maker = factory()
    maker.freeze(other)
    assert not [note for note in maker.train(graph, epochs=1).notes if "warning" in note]


def test_a_warning_of_an_inference_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    given = inputs(frames=Acoustic()[B, T], frames_len=Lengths(T)[B], x=Acoustic()[B, F(3)])
    graph = Graph("echo", "infer", {"frames": given.frames, "y": Line(width=3)(x=given.x).y})
    maker = factory()
    arrays = {"frames": torch.ones(2, 4).numpy(), "x": torch.ones(2, 3).numpy()}
    with caplog.at_level(logging.WARNING, logger="neumo"):
        for _ in range(2):
            maker.infer(graph, arrays)
    (record,) = caplog.records
    assert record.getMessage().startswith("graph 'echo': warning: inputs.frames_len is used by nothing")


def test_weights_before_indices_are_not_trained() -> None:
    batch = PointData()()
    line, look = Line(width=3).named("line"), Look().named("look")
    ids = Choose()(y=line(x=batch.x).y).ids
    trained = SquaredError()(given=look(ids=ids).y, wanted=batch.y).loss
    notes = factory().train(Graph("train", "train", {"loss": trained}), epochs=1).notes
    assert [note for note in notes if "the loss does not reach line" in note]
    maker = factory()
    graph = Graph("train", "train", {"loss": trained})
    maker.freeze(look)
    with refused(GraphError, "no weight can change SquaredError.loss") as caught:
        maker.train(graph, epochs=1)
    assert caught.value.code == "loss-reaches-weights"


def test_a_graph_for_training_that_is_only_looked_at_needs_no_weights() -> None:
    batch = PointData(width=1)()
    loss = SquaredError()(given=batch.x, wanted=batch.y).loss
    graph = Graph("fixed", "train", {"loss": loss})
    assert factory().evaluate(graph)["loss"] > 0.0


def test_weights_count_although_the_class_says_nothing_of_them() -> None:
    @dataclass(frozen=True)
    class Quiet(NeuralModule):
        def signature(self) -> Signature:
            return Signature(takes={"x": Acoustic()[B, F(3)]}, gives={"y": Acoustic()[B, F(1)]})

    @implements(Quiet)
    class QuietLayer(nn.Module):
        def __init__(self, spec):
            super().__init__()
            self.linear = nn.Linear(3, 1)

        def forward(self, x):
            return self.linear(x)

    batch = PointData()()
    loss = SquaredError()(given=Quiet()(x=batch.x).y, wanted=batch.y).loss
    assert factory().train(Graph("train", "train", {"loss": loss}), epochs=1).steps == 5
