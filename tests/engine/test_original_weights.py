"""What users of the original toolkit rely on with weights: copies, ties, one free weight in a frozen one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import neumo
from neumo.backends.torch.graph_module import to_torch
from neumo.engine import SGD, NeuralFactory
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import DataLayer
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, F, Features, Ids, Logits, Loss, T, V, Vocab

from .test_original_actions import COLUMN, SineData, Taylor
from .toys import SquaredError

WORDS = Vocab("abcdef", name="words")


@dataclass
class Embedding(neumo.TorchModule):
    """Ids to vectors."""

    vocab: Vocab = WORDS
    width: int = 5

    def signature(self) -> Signature:
        return Signature(
            takes={"ids": Ids(self.vocab)[B, T]}, gives={"states": Features()[B, T, F(self.width)]}
        )

    def setup(self) -> None:
        self.table = nn.Embedding(len(self.vocab), self.width)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids)


@dataclass
class Projection(neumo.TorchModule):
    """Vectors back to scores of ids."""

    vocab: Vocab = WORDS
    width: int = 5

    def signature(self) -> Signature:
        return Signature(
            takes={"states": Features()[B, T, F(self.width)]},
            gives={"logits": Logits(self.vocab)[B, T, V(self.vocab)]},
        )

    def setup(self) -> None:
        self.linear = nn.Linear(self.width, len(self.vocab), bias=False)

    def forward(self, states: Tensor) -> Tensor:
        return self.linear(states)


@dataclass
class CrossEntropy(neumo.TorchModule):
    """The mean cross entropy of the right ids."""

    vocab: Vocab = WORDS
    role = "loss"

    def signature(self) -> Signature:
        takes = {"logits": Logits(self.vocab)[B, T, V(self.vocab)], "ids": Ids(self.vocab)[B, T]}
        return Signature(takes=takes, gives={"loss": Loss()[()]})

    def forward(self, logits: Tensor, ids: Tensor) -> Tensor:
        return nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())


class IdSource:
    def __len__(self) -> int:
        return 8

    def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> list[list[int]]:
        return [[0, 1, 2, 3], [4, 5, 6, 7]]

    def item(self, index: int, epoch: int) -> dict[str, Any]:
        return {"ids": np.random.default_rng(index).integers(0, len(WORDS), 7)}

    def collate(self, items: Any) -> dict[str, Any]:
        return {"ids": np.stack([item["ids"] for item in items])}

    def name(self, index: int) -> str:
        return f"sentence {index}"

    def report(self) -> None:
        return None


@dataclass(frozen=True)
class IdData(DataLayer):
    """Sentences of random words."""

    def signature(self) -> Signature:
        return Signature(gives={"ids": Ids(WORDS)[B, T]})

    def open(self, seed: int) -> Any:
        return IdSource()


def factory(**options: Any) -> NeuralFactory:
    return NeuralFactory(**{"device": "cpu", "seed": 1, "progress": False, **options})


def copying_graph() -> Graph:
    """Words to vectors and back."""
    batch = IdData()()
    states = Embedding().named("embedding")(ids=batch.ids).states
    logits = Projection().named("projection")(states=states).logits
    return Graph("train", "train", {"loss": CrossEntropy()(logits=logits, ids=batch.ids).loss})


def test_weights_that_were_read_do_not_change_with_later_training():
    batch = SineData()()
    first, second = Taylor().named("first"), Taylor().named("second")
    graph = Graph(outputs={"loss": SquaredError()(given=first(x=batch.x).y, wanted=batch.y).loss})
    maker = factory()
    read = maker.weights(first)
    kept = {name: array.copy() for name, array in read.items()}
    maker.load_weights(second, read)
    maker.train(graph, optimizer=SGD(lr=0.1), epochs=1)
    assert all(np.array_equal(read[name], kept[name]) for name in kept)
    assert all(np.array_equal(maker.weights(second)[name], kept[name]) for name in kept)
    assert not np.array_equal(maker.weights(first)["coefficients.weight"], kept["coefficients.weight"])


def embedding_and_projection(maker: NeuralFactory, graph: Graph) -> tuple[Any, Any]:
    weights = maker.weights(graph)
    return weights["embedding.table.weight"], weights["projection.linear.weight"]


def test_an_embedding_and_a_projection_that_are_tied_train_together():
    graph, maker = copying_graph(), factory()
    maker.tie(graph, "projection.linear.weight", "embedding.table.weight")
    before, _ = embedding_and_projection(maker, graph)
    result = maker.train(graph, optimizer=SGD(lr=0.5), epochs=20)
    embedding, projection = embedding_and_projection(maker, graph)
    assert np.array_equal(embedding, projection)
    assert not np.array_equal(embedding, before)
    assert result.history[-1]["loss"] < 0.5 * result.history[0]["loss"]
    assert maker.count_parameters(graph) == len(WORDS) * 5


def test_an_embedding_and_a_projection_that_start_equal_part_unless_they_are_tied():
    graph, maker = copying_graph(), factory()
    start, _ = embedding_and_projection(maker, graph)
    weights = maker.weights(graph)
    maker.load_weights(graph, {**weights, "projection.linear.weight": start})
    maker.train(graph, optimizer=SGD(lr=0.5), epochs=2)
    embedding, projection = embedding_and_projection(maker, graph)
    assert not np.array_equal(embedding, projection)
    assert maker.count_parameters(graph) == 2 * len(WORDS) * 5


def test_one_named_weight_of_a_frozen_encoder_is_all_that_changes_in_five_steps():
    torch.manual_seed(2)
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2, enable_nested_tensor=False
    )
    states, batch = Features()[B, T, F(4)], inputs(frames=Features()[B, T, F(4)])
    wrapped = neumo.wrap(encoder, takes={"frames": states}, gives={"states": states}, name="encoder")
    graph = Graph(outputs={"states": wrapped(frames=batch.frames).states})
    maker = factory()
    maker.freeze(graph, "encoder")
    maker.unfreeze(graph, "encoder.layers.1.linear2.bias")
    before = maker.weights(graph)
    model = to_torch(graph, factory=maker).train()
    optimizer = torch.optim.SGD([weight for weight in model.parameters() if weight.requires_grad], lr=0.1)
    for _ in range(5):
        model(frames=torch.randn(2, 3, 4))["states"].pow(3).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    after = maker.weights(graph)
    changed = {name for name in after if not np.array_equal(before[name], after[name])}
    assert changed == {"encoder.layers.1.linear2.bias"}


def test_one_named_weight_of_a_frozen_module_is_all_that_a_training_of_five_steps_changes():
    batch = SineData(points=80)()
    first, second = Taylor().named("first"), Taylor().named("second")
    loss = SquaredError()(given=second(x=first(x=batch.x).y).y, wanted=batch.y).loss
    graph, maker = Graph(outputs={"loss": loss}), factory()
    maker.freeze(first, second)
    maker.unfreeze(graph, "first.coefficients.bias")
    before = maker.weights(graph)
    assert maker.train(graph, optimizer=SGD(lr=0.1), max_steps=5).steps == 5
    after = maker.weights(graph)
    changed = {name for name in after if not np.array_equal(before[name], after[name])}
    assert changed == {"first.coefficients.bias"}


def test_a_saved_module_gives_its_weights_back(tmp_path):
    maker, other = factory(), factory(seed=6)
    taylor = Taylor().named("taylor")
    graph = Graph(outputs={"y": taylor(x=inputs(x=COLUMN).x).y})
    assert Acoustic()[B, F(1)] == COLUMN
    maker.save(graph, tmp_path / "taylor.safetensors")
    other.load(graph, tmp_path / "taylor.safetensors")
    wanted = maker.weights(graph)
    assert all(np.array_equal(array, wanted[name]) for name, array in other.weights(graph).items())
