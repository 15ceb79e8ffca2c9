"""The mean of checkpoints."""

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from neumo.backends.torch.session import TorchSession
from neumo.engine import EMA, AdamW, Checkpoint, CheckpointStore, Evaluate, NeuralFactory
from neumo.engine.checkpoints.average import (
    AVERAGED,
    average_checkpoints,
    averaged_weights,
    choose_checkpoints,
)
from neumo.graph.graph import Graph
from neumo.types import CheckpointError, ConfigError

from .toys import Line, PointData, SquaredError, line_graphs, refused


def factory(**options):
    return NeuralFactory(**{"device": "cpu", "seed": 3, "progress": False, "verify": "always", **options})


def trained(folder, **options):
    train, test = line_graphs(line=Line(norm=True))
    maker = factory(folder=folder)
    checkpoint = Checkpoint(every_epochs=1, keep_last=10, keep_best=2)
    settings = {"epochs": 4, "checkpoint": checkpoint, "evaluate": Evaluate(test, best="error")}
    maker.train(train, optimizer=AdamW(lr=0.05), **{**settings, **options})
    return maker, train


def test_the_mean_of_the_newest_is_what_a_sum_by_hand_says(tmp_path):
    maker, train = trained(tmp_path)
    path = average_checkpoints(tmp_path, last=3)
    steps = ["step-00000010", "step-00000015", "step-00000020"]
    files = [load_file(tmp_path / "checkpoints" / step / "weights.safetensors") for step in steps]
    mean = load_file(path)
    assert mean.keys() == files[0].keys()
    for name, value in mean.items():
        each = torch.stack([file[name].double() for file in files])
        if name.endswith("num_batches_tracked"):
            assert value == each[-1]
        else:
            assert torch.equal(value, each.mean(dim=0).to(value.dtype)), name
            assert value.dtype == torch.float32
    maker.load(train, path)
    assert np.array_equal(maker.weights(train)["line.linear.weight"], mean["line.linear.weight"].numpy())
    with safe_open(path, "pt") as file:
        assert file.metadata()["neumo.averaged"] == ", ".join(steps)


def test_the_best_are_those_with_the_smallest_figures(tmp_path):
    trained(tmp_path)
    store = CheckpointStore(tmp_path / "checkpoints")
    scores = store.read(store.paths()[0]).state["callbacks"]["Checkpoint-0"]["scores"]
    expected = sorted(sorted(scores, key=scores.__getitem__)[:2])
    assert [path.name for path in choose_checkpoints(tmp_path, best=2)] == expected


def test_named_checkpoints_and_another_file(tmp_path):
    trained(tmp_path / "run")
    first, second = (tmp_path / "run" / "checkpoints" / f"step-000000{n}" for n in ("05", "20"))
    out = average_checkpoints(tmp_path / "run", paths=[second, first], out=tmp_path / "mean.safetensors")
    assert out == tmp_path / "mean.safetensors"
    mean = load_file(out)["line.linear.bias"]
    each = [load_file(path / "weights.safetensors")["line.linear.bias"] for path in (first, second)]
    assert torch.equal(mean, ((each[0].double() + each[1].double()) / 2).float())


def test_averaged_weights_are_taken_where_there_are_any(tmp_path):
    trained(tmp_path, ema=EMA(decay=0.5))
    mean = load_file(average_checkpoints(tmp_path, last=1))
    newest = tmp_path / "checkpoints" / "step-00000020"
    average, live = (load_file(newest / f"{name}.safetensors") for name in ("average", "weights"))
    assert torch.equal(mean["line.linear.weight"], average["line.linear.weight"])
    assert not torch.equal(mean["line.linear.weight"], live["line.linear.weight"])


def test_the_mean_of_older_checkpoints_is_not_taken_for_the_newest_weights(tmp_path):
    assert averaged_weights(tmp_path) is None
    trained(tmp_path)
    mean = average_checkpoints(tmp_path, last=2)
    assert averaged_weights(tmp_path) == mean
    trained(tmp_path, epochs=5)
    with refused(ConfigError, "is the mean of older checkpoints: the newest is step-00000025") as caught:
        averaged_weights(tmp_path)
    assert "it is the mean of step-00000015, step-00000020" in str(caught.value)
    average_checkpoints(tmp_path, last=1)
    assert averaged_weights(tmp_path) == mean
    trained(tmp_path, resume="never")
    assert averaged_weights(tmp_path) is None
    assert (tmp_path / "earlier-1" / AVERAGED).is_file()


def test_a_mean_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    trained(tmp_path)
    mean = average_checkpoints(tmp_path, last=2)
    before = mean.read_bytes()

    def half(session, files, path, *, notes):
        path.write_bytes(before[:100])
        raise OSError("no room")

    monkeypatch.setattr(TorchSession, "average", half)
    with pytest.raises(OSError, match="no room"):
        average_checkpoints(tmp_path, last=1)
    assert mean.read_bytes() == before
    assert not list(tmp_path.glob(".writing-*"))


def test_tied_weights_stay_tied(tmp_path):
    batch = PointData()()
    one, two = Line().named("one"), Line().named("two")
    fitted = SquaredError()(given=two(x=batch.x).y, wanted=one(x=batch.x).y).loss
    graph = Graph("tied", "train", {"loss": fitted})
    maker = factory(folder=tmp_path)
    maker.tie((two, "linear.weight"), (one, "linear.weight"))
    maker.train(graph, max_steps=6, checkpoint=Checkpoint(every_steps=1, keep_last=3))
    path = average_checkpoints(tmp_path, last=3)
    mean = load_file(path)
    assert torch.equal(mean["one.linear.weight"], mean["two.linear.weight"])
    assert maker.load(graph, path) == []


def test_fewer_checkpoints_than_asked_for_are_refused(tmp_path):
    trained(tmp_path)
    with refused(ConfigError, r"the average of 9 checkpoints.*has 4.*last=4.*Checkpoint\(keep_last=9\)"):
        average_checkpoints(tmp_path, last=9)
    with refused(ConfigError, "one of last, best and paths"):
        average_checkpoints(tmp_path, last=2, best=2)
    with refused(ConfigError, "the average of 0 checkpoints"):
        average_checkpoints(tmp_path, last=0)
    with refused(CheckpointError, "has no checkpoint"):
        average_checkpoints(tmp_path / "nothing", last=2)


def test_a_damaged_checkpoint_is_refused(tmp_path):
    trained(tmp_path)
    path = tmp_path / "checkpoints" / "step-00000020" / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    with refused(CheckpointError, "is damaged"):
        average_checkpoints(tmp_path, last=2)
    assert not (tmp_path / "averaged.safetensors").exists()


def test_checkpoints_of_different_models_are_refused(tmp_path):
    trained(tmp_path / "one")
    other, _ = line_graphs(PointData(width=4), Line(width=4, norm=True))
    factory(folder=tmp_path / "two").train(other, max_steps=1)
    paths = [
        *(tmp_path / "one" / "checkpoints").glob("step-*"),
        *(tmp_path / "two" / "checkpoints").glob("step-*"),
    ]
    with refused(CheckpointError, "is of another model.*has another shape"):
        average_checkpoints(tmp_path, paths=paths)
