"""How the errors about weights and wrapped modules read: whole messages, compared with tests/messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import neumo
from neumo.backends.torch.graph_module import to_torch
from neumo.engine import NeuralFactory
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.types import Acoustic, B, F, Features, T

from ..graph.snapshots import refused

FRAMES = Features()[B, T, F(8)]
ROW = Acoustic()[B, F(3)]


class Attention(nn.Module):
    def forward(self, query: Tensor, memory: Tensor, scale: float = 1.0) -> Tensor:
        return query + memory * scale


def model() -> tuple[NeuralFactory, Graph]:
    torch.manual_seed(0)
    rows = {"takes": {"x": ROW}, "gives": {"y": ROW}}
    encoder = neumo.wrap(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), **rows, name="encoder")
    head = neumo.wrap(nn.Linear(3, 3), **rows, name="head")
    graph = Graph("train", outputs={"y": head(x=encoder(x=inputs(x=ROW).x).y).y})
    return NeuralFactory(device="cpu", progress=False), graph


def lstm(**gives: Any) -> Any:
    return neumo.wrap(nn.LSTM(8, 8, batch_first=True), takes={"frames": FRAMES}, gives=gives)


def run_lstm(**gives: Any) -> Any:
    record = lstm(**gives)(frames=inputs(frames=FRAMES).frames)
    return to_torch(Graph(outputs={"out": record.out}))(frames=torch.zeros(1, 2, 8))


def other_weights(factory: NeuralFactory, graph: Graph) -> dict[str, Any]:
    weights = factory.weights(graph)
    del weights["encoder.1.running_mean"]
    weights["encoder.0.bias"] = np.zeros(3, np.int64)
    weights["head.weight"] = np.zeros((4, 3), np.float32)
    return {**weights, "head.scale": np.zeros(1)}


CASES = {
    "torch_freeze_module": lambda f, g: f.freeze(g, "encodr.*.weight"),
    "torch_freeze_weight": lambda f, g: f.freeze(g, "encoder.0.wieght"),
    "torch_tie_shapes": lambda f, g: f.tie(g, "head.weight", "encoder.0.bias"),
    "torch_tie_call": lambda f, g: f.tie(g, "head.weight"),
    "torch_untie": lambda f, g: f.untie(g, "head.weight"),
    "torch_weights": lambda f, g: f.load_weights(g, other_weights(f, g)),
    "torch_rename": lambda f, g: f.load_weights(g, f.weights(g), rename={"haed": "head"}),
    "torch_save_modules": lambda f, g: f.save(g, "x.safetensors", modules=["heads"]),
    "torch_wrap_class": lambda f, g: neumo.wrap(nn.LSTM, takes={}, gives={}),  # type: ignore[arg-type]
    "torch_wrap_forward": lambda f, g: neumo.wrap(
        Attention(), takes={"query": FRAMES, "memmory": FRAMES}, gives={"out": FRAMES}
    ),
    "torch_wrap_outputs": lambda f, g: run_lstm(out=FRAMES, state=FRAMES),
    "torch_wrap_recipe": lambda f, g: g.save("never.yaml"),
    "torch_graph_inputs": lambda f, g: to_torch(g)(y=torch.zeros(1, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_message_reads_as_written(name, monkeypatch):
    factory, graph = model()
    refused(name, lambda: CASES[name](factory, graph), monkeypatch)
