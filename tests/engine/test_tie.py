"""Tied weights: two names for one parameter, in training, averages, files and resumed runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import neumo
from neumo.engine import EMA, SGD, AdamW, Evaluate, NeuralFactory
from neumo.engine.recipes import make_factory, read_actions, run_train
from neumo.graph.graph import Graph
from neumo.graph.signature import Signature
from neumo.graph.yaml import Recipe, load_recipe, save_recipe
from neumo.types import Acoustic, B, BackendError, CheckpointError, ConfigError, F, GraphError

from .toys import PointData, SquaredError, refused


@dataclass
class Widen(neumo.TorchModule):
    """A matrix in front of a line."""

    into: int = 4

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F(3)]}, gives={"y": Acoustic()[B, F(self.into)]})

    def setup(self) -> None:
        self.matrix = nn.Linear(3, self.into)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.matrix(x)


@dataclass
class Narrow(neumo.TorchModule):
    """The same matrix, the other way round, and the sum of what comes out."""

    into: int = 4

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F(self.into)]}, gives={"y": Acoustic()[B, F(1)]})

    def setup(self) -> None:
        self.matrix = nn.Linear(self.into, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.matrix(x).sum(dim=1, keepdim=True)


def factory(**options: Any) -> NeuralFactory:
    return NeuralFactory(**{"device": "cpu", "seed": 3, "progress": False, **options})


def autoencoder() -> Graph:
    batch = PointData()()
    encoder, decoder = Widen().named("encoder"), Narrow().named("decoder")
    fitted = decoder(x=encoder(x=batch.x).y).y
    return Graph("train", "train", {"loss": SquaredError()(given=fitted, wanted=batch.y).loss})


def same(weights: dict[str, Any]) -> bool:
    return np.array_equal(weights["decoder.matrix.weight"], weights["encoder.matrix.weight"].T)


def tied(**options: Any) -> tuple[NeuralFactory, Graph]:
    graph, maker = autoencoder(), factory(**options)
    maker.tie(graph, "decoder.matrix.weight", "encoder.matrix.weight", transpose=True)
    return maker, graph


@pytest.mark.parametrize("optimizer", [SGD(lr=0.003, momentum=0.9), AdamW(lr=0.05)])
def test_transposed_weights_train_as_one(optimizer):
    maker, graph = tied()
    before = maker.weights(graph)
    assert same(before)
    result = maker.train(graph, optimizer=optimizer, epochs=15)
    after = maker.weights(graph)
    assert same(after)
    assert not np.array_equal(before["decoder.matrix.weight"], after["decoder.matrix.weight"])
    assert result.history[-1]["loss"] < 0.2 * result.history[0]["loss"]


def test_a_tied_weight_is_counted_once():
    maker, graph = tied()
    assert maker.count_parameters(graph) == 3 * 4 + 4 + 3
    assert maker.count_parameters(graph.modules["decoder"]) == 3 * 4 + 3
    maker.freeze(graph, "encoder.matrix.weight")
    assert maker.count_parameters(graph, trainable_only=True) == 4 + 3


def test_the_gradient_of_a_tied_weight_is_that_of_both_places():
    """One step of SGD on a tied weight is the sum of the steps of the two, untied, from the same start."""
    maker, graph = tied()
    start = maker.weights(graph)
    apart_graph, apart = autoencoder(), factory()
    apart.load_weights(apart_graph, start)
    for each, subject in ((maker, graph), (apart, apart_graph)):
        each.train(subject, optimizer=SGD(lr=0.1), max_steps=1)
    moved = apart.weights(apart_graph)
    first = moved["encoder.matrix.weight"] - start["encoder.matrix.weight"]
    second = moved["decoder.matrix.weight"] - start["decoder.matrix.weight"]
    wanted = start["encoder.matrix.weight"] + first + second.T
    assert np.allclose(maker.weights(graph)["encoder.matrix.weight"], wanted, atol=1e-6)


def test_untied_weights_start_equal_and_part():
    maker, graph = tied()
    maker.train(graph, max_steps=2)
    maker.untie(graph, "decoder.matrix.weight")
    assert same(maker.weights(graph))
    assert maker.count_parameters(graph) == 2 * 3 * 4 + 4 + 3
    maker.train(graph, optimizer=AdamW(lr=0.05), epochs=2)
    assert not same(maker.weights(graph))


def test_the_average_of_a_tied_weight_is_kept_once_and_put_back_once():
    maker, graph = tied()
    plain, plain_graph = tied()
    averaged = maker.train(
        graph, optimizer=SGD(lr=0.05), epochs=3, ema=EMA(decay=0.9, warmup=False), evaluate=()
    )
    assert averaged.losses == plain.train(plain_graph, optimizer=SGD(lr=0.05), epochs=3).losses
    weights, last = maker.weights(graph), plain.weights(plain_graph)
    assert same(weights)
    assert not np.allclose(weights["encoder.matrix.weight"], last["encoder.matrix.weight"])


def test_evaluations_between_steps_do_not_disturb_a_tied_training():
    def losses(evaluate):
        maker, graph = tied()
        test = Graph("test", "infer", {"loss": graph.outputs["loss"]})
        return maker.train(
            graph, epochs=3, ema=0.9, evaluate=[Evaluate(test, name="test")] if evaluate else ()
        ).losses

    assert losses(True) == losses(False)


def test_bf16_and_tied_weights_go_together():
    maker, graph = tied(precision="bf16")
    maker.train(graph, optimizer=SGD(lr=0.01), epochs=2)
    assert same(maker.weights(graph))


def test_a_file_holds_both_names_and_one_is_enough_to_load(tmp_path):
    maker, graph = tied()
    maker.train(graph, max_steps=3)
    maker.save(graph, tmp_path / "tied.safetensors")
    weights = maker.weights(graph)
    again, other = tied(seed=9)
    again.load(other, tmp_path / "tied.safetensors")
    assert all(np.array_equal(value, again.weights(other)[name]) for name, value in weights.items())
    untied_graph, untied = autoencoder(), factory(seed=8)
    untied.load(untied_graph, tmp_path / "tied.safetensors")
    assert same(untied.weights(untied_graph))
    for left_out in ("decoder.matrix.weight", "encoder.matrix.weight"):
        third, subject = tied(seed=7)
        third.load_weights(subject, {name: w for name, w in weights.items() if name != left_out})
        assert np.array_equal(
            third.weights(subject)["encoder.matrix.weight"], weights["encoder.matrix.weight"]
        )


def test_weights_that_differ_cannot_be_loaded_into_one():
    untied_graph, untied = autoencoder(), factory()
    maker, graph = tied()
    with refused(
        CheckpointError, r"tied +decoder\.matrix\.weight and encoder\.matrix\.weight are one weight"
    ):
        maker.load_weights(graph, untied.weights(untied_graph))


def test_a_tied_run_goes_on_tied_and_is_refused_otherwise(tmp_path):
    whole, whole_graph = tied()
    wanted = whole.train(whole_graph, epochs=4, ema=0.9).losses
    first, graph = tied(folder=tmp_path)
    begun = first.train(graph, epochs=2, ema=0.9).losses
    with refused(BackendError, "other weights frozen or tied: 1 differ"):
        factory(folder=tmp_path).train(autoencoder(), epochs=4, ema=0.9)
    second, graph = tied(folder=tmp_path)
    assert begun + second.train(graph, epochs=4, ema=0.9).losses == wanted
    assert same(second.weights(graph))


def test_a_weight_tied_to_a_frozen_one_is_frozen():
    maker, graph = tied()
    maker.freeze(graph, "encoder")
    before = maker.weights(graph)
    maker.train(graph, optimizer=AdamW(lr=0.05), epochs=1)
    after = maker.weights(graph)
    changed = {name for name in after if not np.array_equal(before[name], after[name])}
    assert changed == {"decoder.matrix.bias"}


def test_a_weight_can_be_tied_to_a_frozen_one():
    graph, maker = autoencoder(), factory()
    maker.freeze(graph, "encoder")
    maker.tie(graph, "decoder.matrix.weight", "encoder.matrix.weight", transpose=True)
    maker.train(graph, epochs=1)
    assert same(maker.weights(graph))


def test_pairs_of_modules_and_names_are_tied_without_a_graph():
    encoder, other, third = Widen(), Widen().named("other"), Narrow()
    maker = factory()
    maker.tie((other, "matrix.weight"), (encoder, "matrix.weight"))
    assert np.array_equal(maker.weights(other)["matrix.weight"], maker.weights(encoder)["matrix.weight"])
    maker.tie((third, "matrix.weight"), (other, "matrix.weight"), transpose=True)
    maker.load_weights(encoder, {"matrix.weight": np.ones((4, 3)), "matrix.bias": np.zeros(4)})
    assert maker.weights(third)["matrix.weight"].tolist() == np.ones((3, 4)).tolist()


def test_what_is_tied_to_a_weight_goes_where_that_weight_goes():
    one, two, three = (Widen().named(name) for name in ("one", "two", "three"))
    turned = Narrow().named("turned")
    maker = factory()
    maker.tie((one, "matrix.weight"), (two, "matrix.weight"))
    maker.tie((turned, "matrix.weight"), (two, "matrix.weight"), transpose=True)
    maker.tie((two, "matrix.weight"), (three, "matrix.weight"))
    wanted = maker.weights(three)["matrix.weight"]
    for module in (one, two):
        assert np.array_equal(maker.weights(module)["matrix.weight"], wanted)
    assert np.array_equal(maker.weights(turned)["matrix.weight"], wanted.T)
    maker.untie((two, "matrix.weight"))
    maker.load_weights(two, {"matrix.weight": np.ones((4, 3)), "matrix.bias": np.zeros(4)})
    assert maker.weights(one)["matrix.weight"].sum() == 12
    assert maker.weights(turned)["matrix.weight"].sum() == 12
    assert np.array_equal(maker.weights(three)["matrix.weight"], wanted)
    maker.untie((two, "matrix.weight"))  # what others are tied to: they part from it
    maker.load_weights(two, {"matrix.weight": np.zeros((4, 3)), "matrix.bias": np.zeros(4)})
    assert maker.weights(turned)["matrix.weight"].sum() == 12


def test_a_weight_is_tied_to_one_other_at_a_time():
    one, two, three = (Widen().named(name) for name in ("one", "two", "three"))
    turned = Narrow()
    maker = factory()
    maker.tie((one, "matrix.weight"), (two, "matrix.weight"))
    maker.tie((one, "matrix.weight"), (turned, "matrix.weight"), transpose=True)
    assert np.array_equal(maker.weights(one)["matrix.weight"], maker.weights(turned)["matrix.weight"].T)
    maker.tie((one, "matrix.weight"), (three, "matrix.weight"))
    assert np.array_equal(maker.weights(one)["matrix.weight"], maker.weights(three)["matrix.weight"])
    assert maker.weights(two)["matrix.weight"].shape == (4, 3)
    assert maker.weights(turned)["matrix.weight"].shape == (3, 4)


@pytest.mark.parametrize(
    ("names", "transpose", "words"),
    [
        (
            ("decoder.matrix.weight", "encoder.matrix.weight"),
            False,
            "shapes differ.*3x4.*4x3.*transpose=True fits",
        ),
        (("decoder.matrix.bias", "encoder.matrix.bias"), False, "shapes differ.*bias: 3 .*bias: 4"),
        (("decoder.matrix.bias", "encoder.matrix.bias"), True, "has 1 axes, and only a weight of 2 axes"),
        (("decoder.matrix.wait", "encoder.matrix.bias"), False, "no weight 'matrix.wait'.*did you mean"),
        (("decoder.matrix.weight", "encodr.matrix.bias"), False, "no module 'encodr'.*'encoder'"),
        (
            ("decoder.x.weight", "encoder.matrix.bias"),
            False,
            "no weight 'x.weight' its weights are matrix.weight",
        ),
        (("SquaredError.x", "encoder.matrix.bias"), False, "no weight 'x' it has none"),
        (("encoder.matrix.bias", "encoder.matrix.bias"), False, "are one weight already"),
    ],
)
def test_weights_that_cannot_be_one_are_refused(names, transpose, words):
    with refused(GraphError, words):
        factory().tie(autoencoder(), *names, transpose=transpose)


def test_precision_must_agree():
    half = neumo.wrap(
        nn.Linear(3, 4).half(),
        takes={"x": Acoustic()[B, F(3)]},
        gives={"y": Acoustic()[B, F(4)]},
        name="half",
    )
    with refused(GraphError, "their precisions differ"):
        factory().tie((half, "weight"), (Widen(), "matrix.weight"))


def test_tie_and_untie_say_how_they_are_called():
    graph, maker = autoencoder(), factory()
    for given in (
        (graph, "decoder.matrix.weight"),
        ((graph.modules["decoder"], "matrix.weight"),),
        ("a", "b"),
    ):
        with refused(ConfigError, "2 weights are needed"):
            maker.tie(*given)
    with refused(GraphError, "decoder.matrix.weight is not tied no weight of this factory is tied"):
        maker.untie(graph, "decoder.matrix.weight")
    maker.tie(graph, "decoder.matrix.weight", "encoder.matrix.weight", transpose=True)
    with refused(GraphError, "tied to encoder.matrix.weight, transposed"):
        maker.untie(graph, "decoder.matrix.bias")


def test_a_recipe_ties_weights(tmp_path):
    whole = Recipe(graphs={"train": autoencoder()}, actions={"train": {"epochs": 1, "checkpoint": False}})
    save_recipe(whole, tmp_path / "recipe.yaml")
    tie = "{weight: decoder.matrix.weight, to: encoder.matrix.weight, transpose: true}"
    for written in (tie, f"[{tie}]"):
        recipe = load_recipe(tmp_path / "recipe.yaml", [f"train.tie={written}"])
        maker = make_factory(recipe, progress=False)
        run_train(recipe, factory=maker)
        assert same(maker.weights(recipe.graph("train")))
    wrong = load_recipe(tmp_path / "recipe.yaml", [f"train.tie={tie.replace('to: encoder', 'to: encodr')}"])
    with refused(ConfigError, "train.tie: graph 'train' has no module 'encodr'.*did you mean 'encoder'"):
        read_actions(wrong)
