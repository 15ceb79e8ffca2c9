"""Weights in and out: some modules, other names, every kind of file, and what must not be loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import neumo
from neumo.engine import AdamW, NeuralFactory
from neumo.engine.recipes import make_factory, read_actions, run_train
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.signature import Signature
from neumo.graph.yaml import Recipe, load_recipe, save_recipe
from neumo.hub import load_model, save_model
from neumo.types import Acoustic, B, BackendError, CheckpointError, ConfigError, F, GraphError

from .toys import Line, PointData, SquaredError, line_graphs, refused

ROW = Acoustic()[B, F(3)]


@dataclass
class Wide(neumo.TorchModule):
    """A matrix of any width, which a file may claim."""

    width: int = 8

    def signature(self) -> Signature:
        return Signature(takes={"x": ROW}, gives={"y": Acoustic()[B, F(self.width)]})

    def setup(self) -> None:
        self.matrix = nn.Linear(3, self.width)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        return self.matrix(x)


def factory(**options: Any) -> NeuralFactory:
    return NeuralFactory(**{"device": "cpu", "seed": 3, "progress": False, **options})


def two_lines() -> Graph:
    first, second = Line(width=3).named("first"), Line(width=1).named("second")
    opened = inputs(x=ROW)
    return Graph("two", outputs={"y": second(x=first(x=opened.x).y).y})


def equal(one: dict[str, Any], two: dict[str, Any]) -> bool:
    return one.keys() == two.keys() and all(np.array_equal(one[name], two[name]) for name in one)


def test_some_modules_are_saved_and_restored(tmp_path):
    graph, maker = two_lines(), factory()
    maker.save(graph, tmp_path / "first.safetensors", modules=["first"])
    maker.save(graph, tmp_path / "both.safetensors")
    wanted = maker.weights(graph)
    for path in ("first.safetensors", "both.safetensors"):
        other, again = two_lines(), factory(seed=5)
        before = again.weights(other)
        assert again.load(other, tmp_path / path, modules=["first"]) == []
        after = again.weights(other)
        assert {name for name in after if np.array_equal(after[name], wanted[name])} == {
            "first.linear.weight", "first.linear.bias",
        }  # fmt: skip
        assert np.array_equal(after["second.linear.weight"], before["second.linear.weight"])
    with refused(CheckpointError, "missing +second.linear.weight"):
        again.load(other, tmp_path / "first.safetensors", modules=["first", "second"])


@pytest.mark.parametrize("verb", ["save", "load"])
def test_a_module_that_is_not_there_is_refused(tmp_path, verb):
    graph, maker = two_lines(), factory()
    maker.save(graph, tmp_path / "x.safetensors", modules="first")
    with refused(GraphError, "graph 'two' has no module 'frist'.*did you mean 'first'") as caught:
        getattr(maker, verb)(graph, tmp_path / "x.safetensors", modules=["frist"])
    assert caught.value.code == "weight-name"


def test_weights_of_a_module_have_plain_names_and_go_into_another(tmp_path):
    maker = factory()
    one, two = Line(), Line().named("two")
    weights = maker.weights(one)
    assert sorted(weights) == ["linear.bias", "linear.weight"]
    maker.load_weights(two, weights)
    assert equal(maker.weights(two), weights)
    maker.save(one, tmp_path / "one.safetensors")
    maker.load(
        Graph(outputs={"y": two(x=inputs(x=ROW).x).y}),
        tmp_path / "one.safetensors",
        rename=lambda n: f"two.{n}",
    )
    maker.load(two, tmp_path / "one.safetensors")


def test_arrays_of_another_toolkit_are_renamed_and_turned():
    graph, maker = two_lines(), factory()
    other = {
        "model.enc.kernel": np.arange(3, dtype=np.float64)[:, None],
        "model.enc.b": np.ones(1, np.float16),
        "model.dec.linear.weight": np.full((1, 1), 2.0),
        "model.dec.linear.bias": np.zeros(1),
        "optimizer.step": np.array(3),
    }

    def rename(old: str) -> str | None:
        names = {"model.enc.kernel": "first.linear.weight", "model.enc.b": "first.linear.bias"}
        return names.get(old, old.replace("model.dec", "second") if old.startswith("model.") else None)

    maker.load_weights(graph, other, rename=rename, transform={"first.linear.weight": "transpose"})
    found = maker.weights(graph)
    assert found["first.linear.weight"].tolist() == [[0.0, 1.0, 2.0]]
    assert found["first.linear.bias"].dtype == np.float32
    left_out = {name: array for name, array in other.items() if name != "optimizer.step"}
    with refused(CheckpointError, r"left over +second\.kernel"):
        maker.load_weights(graph, left_out, rename={"model.enc": "second", "model.dec": "third"})


def test_whole_numbers_are_no_weights_and_precision_may_differ():
    module, maker = Wide(), factory()
    good = maker.weights(module)
    maker.load_weights(
        module, {**good, "steps": np.array(4, np.int32), "matrix.bias": np.ones(8, np.float64)}
    )
    assert maker.weights(module)["steps"] == 4
    words = r"numbers +matrix\.bias is int64 in the file, float32 in the model.*astype\('float32'\)"
    with refused(CheckpointError, words):
        maker.load_weights(module, {**good, "matrix.bias": np.zeros(8, np.int64)})
    with refused(CheckpointError, r"numbers +steps is float32 in the file, int64 in the model"):
        maker.load_weights(module, {**good, "steps": np.array(4.0, np.float32)})
    with refused(CheckpointError, r"numbers +matrix\.bias is bool"):
        maker.load_weights(module, {**good, "matrix.bias": np.zeros(8, bool)})
    with refused(CheckpointError, r"numbers +matrix\.bias is complex64"):
        maker.load_weights(module, {**good, "matrix.bias": np.zeros(8, np.complex64)})
    before = maker.weights(module)["matrix.bias"]
    assert len(maker.load_weights(module, {**good, "matrix.bias": np.zeros(8, np.int64)}, partial=True)) == 1
    assert np.array_equal(maker.weights(module)["matrix.bias"], before)


def test_weights_are_copies_both_ways():
    train, _ = line_graphs()
    maker = factory()
    before = maker.weights(train)
    kept = {name: array.copy() for name, array in before.items()}
    maker.train(train, optimizer=AdamW(lr=0.1), max_steps=2)
    assert equal(before, kept)
    maker.load_weights(train, before)
    for array in before.values():
        array += 1
    assert equal(maker.weights(train), kept)


def open_model(width: int = 8) -> Graph:
    return Graph("infer", "infer", {"y": Wide(width).named("wide")(x=inputs(x=ROW).x).y})


def test_a_model_file_gives_its_weights(tmp_path):
    graph, maker = open_model(), factory()
    save_model(tmp_path / "wide.neumo", graph, maker)
    again, other = open_model(), factory(seed=7)
    other.load(again, tmp_path / "wide.neumo")
    assert equal(other.weights(again), maker.weights(graph))
    with refused(CheckpointError, "there is no model file"):
        other.load(again, tmp_path / "none.neumo")
    (tmp_path / "broken.neumo").write_bytes(b"PK\x03\x04 and nothing")
    with refused(CheckpointError, "not a model file that can be read"):
        other.load(again, tmp_path / "broken.neumo")


def test_a_training_starts_from_some_modules_of_a_file(tmp_path):
    def recipe(*changes: str) -> Recipe:
        first, second, batch = Line().named("first"), Line(width=1).named("second"), PointData()()
        loss = SquaredError().named("error")(given=second(x=first(x=batch.x).y).y, wanted=batch.y)
        train = {"epochs": 1, "optimizer": {"kind": "SGD", "lr": 0.0}, "checkpoint": False}
        whole = Recipe(
            graphs={"train": Graph("train", "train", {"loss": loss.loss})}, actions={"train": train}
        )
        save_recipe(whole, tmp_path / "recipe.yaml")
        return load_recipe(tmp_path / "recipe.yaml", changes)

    maker = factory()
    one = Line()
    maker.load_weights(one, {"linear.weight": np.full((1, 3), 7.0), "linear.bias": np.ones(1)})
    maker.save(Graph(outputs={"y": one.named("enc")(x=inputs(x=ROW).x).y}), tmp_path / "enc.safetensors")
    written = (
        f"train.weights={{file: {tmp_path / 'enc.safetensors'}, modules: [first], rename: {{enc: first}}}}"
    )
    second = recipe(written)
    other = make_factory(second, progress=False)
    run_train(second, factory=other)
    assert other.weights(second.graph("train"))["first.linear.weight"].tolist() == [[7.0] * 3]
    with refused(ConfigError, "train.weights: graph 'train' has no module 'frist'.*did you mean 'first'"):
        read_actions(recipe(written.replace("[first]", "[frist]")))


def test_a_training_starts_from_the_weights_of_a_model_file(tmp_path):
    def recipe(weights: str = "") -> Recipe:
        batch, line = PointData()(), Line().named("line")
        loss = SquaredError().named("loss")(given=line(x=batch.x).y, wanted=batch.y)
        graphs = {
            "train": Graph("train", "train", {"loss": loss.loss}),
            "infer": Graph("infer", "infer", {"y": line(x=inputs(x=ROW).x).y}),
        }
        train = {"epochs": 1, "optimizer": {"kind": "SGD", "lr": 0.0}, "checkpoint": False}
        return Recipe(
            graphs=graphs, actions={"train": {**train, **({"weights": weights} if weights else {})}}
        )

    first = recipe()
    maker = make_factory(first, progress=False)
    maker.load_weights(
        first.graph("train"), {"line.linear.weight": np.ones((1, 3)), "line.linear.bias": np.ones(1)}
    )
    save_model(tmp_path / "line.neumo", first, maker)
    second = recipe(str(tmp_path / "line.neumo"))
    other = make_factory(second, progress=False, seed=9)
    run_train(second, factory=other)
    assert other.weights(second.graph("train"))["line.linear.weight"].tolist() == [[1.0] * 3]


@pytest.mark.parametrize("width", [10**6, 10**12, 10**18, 10**25])
def test_a_file_that_claims_an_absurd_size_is_refused_before_memory_is_asked_for(tmp_path, width):
    graph, maker = open_model(), factory()
    save_model(tmp_path / "wide.neumo", graph, maker)
    again = open_model(width)
    other = factory()
    with pytest.raises((CheckpointError, BackendError)) as caught:
        other.load(again, tmp_path / "wide.neumo")
    assert caught.value.code in ("weights", "memory")
    if width < 10**18:
        assert f"matrix.weight is 8x3 in the file, {width}x3 in the model" in str(caught.value)


def test_a_model_file_with_an_absurd_width_says_what_is_wrong(tmp_path, monkeypatch):
    save_model(tmp_path / "wide.neumo", open_model(), factory())
    from neumo.hub import archive

    text = archive.Archive(tmp_path / "wide.neumo").text("recipe.yaml")
    monkeypatch.setattr(
        archive.Archive, "text", lambda self, name: text.replace("width: 8", "width: 900000000000")
    )
    with refused(CheckpointError, "do not fit its graphs.*matrix.weight is 8x3 in the file, 900000000000x3"):
        load_model(tmp_path / "wide.neumo")


def test_a_file_that_lacks_what_a_huge_module_needs_is_refused_too():
    graph, maker = open_model(10**12), factory()
    with refused(CheckpointError, "missing +wide.matrix.weight 1000000000000x3"):
        maker.load_weights(graph, {"wide.steps": np.array(0)})


def test_a_module_that_does_not_fit_the_memory_is_named():
    with refused(
        BackendError, r"wide cannot be built: it is larger than the memory Wide\(width=10{18}\)"
    ) as caught:
        factory().infer(open_model(10**18), {"x": np.zeros((1, 3))})
    assert caught.value.code == "memory"


def test_other_errors_of_a_constructor_stay_as_they_are():
    @dataclass
    class Broken(neumo.TorchModule):
        def signature(self) -> Signature:
            return Signature(takes={"x": ROW}, gives={"y": ROW})

        def setup(self) -> None:
            raise RuntimeError("a mistake of mine")

    with pytest.raises(RuntimeError, match="a mistake of mine"):
        factory().weights(Broken())


@pytest.mark.parametrize(
    ("freeze", "words"),
    [
        ("[lien.linear]", "no module 'lien'.*did you mean 'line'"),
        ("['*.norm.*']", ""),
        ("[line.linear.bias]", ""),
    ],
)
def test_a_recipe_freezes_by_pattern(tmp_path, freeze, words):
    batch, line = PointData()(), Line(norm=True).named("line")
    loss = SquaredError().named("loss")(given=line(x=batch.x).y, wanted=batch.y)
    whole = Recipe(
        graphs={"train": Graph("train", "train", {"loss": loss.loss})},
        actions={"train": {"epochs": 1, "checkpoint": False}},
    )
    save_recipe(whole, tmp_path / "recipe.yaml")
    recipe = load_recipe(tmp_path / "recipe.yaml", [f"train.freeze={freeze}"])
    if words:
        with refused(ConfigError, words):
            read_actions(recipe)
        return
    maker = make_factory(recipe, progress=False)
    before = maker.weights(recipe.graph("train"))
    run_train(recipe, factory=maker)
    after = maker.weights(recipe.graph("train"))
    changed = {name for name in after if not np.array_equal(before[name], after[name])}
    norm = {
        f"line.norm.{name}"
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    }
    everything = norm | {"line.linear.weight", "line.linear.bias"}
    assert changed == (everything - norm if "norm" in freeze else everything - {"line.linear.bias"})


def test_a_device_without_numbers_counts_and_has_nothing_to_read():
    maker = factory(device="meta")
    assert maker.count_parameters(open_model(10**12)) == 4 * 10**12
    small = open_model()
    assert maker.count_parameters(small) == 3 * 8 + 8
    for action in (
        lambda: maker.weights(small),
        lambda: maker.infer(small, {"x": np.zeros((1, 3), np.float32)}),
    ):
        with refused(BackendError, "shapes and no numbers"):
            action()
