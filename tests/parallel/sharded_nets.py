"""A net of several blocks, deep enough to shard, and trainings of it that processes run."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import neumo
from neumo.engine import FSDP, AdamW, Checkpoint, NeuralFactory
from neumo.graph.graph import Graph
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, F

from ..engine.toys import Line, MeanError, PointData, SquaredError

BLOCKS = FSDP(shard=("trunk.blocks.*",))


@dataclass
class Trunk(neumo.TorchModule):
    """Blocks of layers, of which the last gives a view, as many layers do."""

    width: int = 5
    norm: bool = False
    tied: bool = False
    bare: bool = False  # no weights but those of the blocks

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F(3)]}, gives={"y": Acoustic()[B, F(3)]})

    def setup(self) -> None:
        layers = [nn.Linear(self.width, self.width) for _ in range(3)]
        self.blocks = nn.ModuleList([nn.Sequential(layer, nn.Tanh()) for layer in layers])
        if self.tied:
            layers[2].weight = layers[0].weight
        if self.bare:
            return
        self.enter = nn.Linear(3, self.width)
        self.norm_layer = nn.BatchNorm1d(self.width) if self.norm else nn.Identity()
        self.leave = nn.Linear(self.width, 3)
        self.spread = nn.Parameter(torch.full((1,), 1.5))

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.bare else self.norm_layer(self.enter(x)) * self.spread
        for block in self.blocks:
            x = block(x)
        return x if self.bare else self.leave(x).view(-1, 3)


class Net:
    """A trunk with a line on top: a graph to train, one to evaluate, and the factory of this process."""

    def __init__(self, strategy: Any = None, *, points: int = 30, poisoned: Any = (), **given: Any) -> None:
        settings = {"device": "cpu", "seed": 3, "progress": False, **given}
        shape = {name: settings.pop(name, False) for name in ("norm", "tied", "bare")}
        self.trunk = Trunk(width=3 if shape["bare"] else 5, **shape).named("trunk")
        self.line = Line().named("line")
        data = PointData(points=points, batch_size=settings.pop("batch_size", 2), poisoned=poisoned)()
        held = PointData(points=settings.pop("held", 11), batch_size=2, shuffle=False)()
        self.factory = NeuralFactory(strategy=strategy, **settings)
        y = self.line(x=self.trunk(x=data.x).y).y
        loss = SquaredError()(given=y, wanted=data.y).loss
        self.graph = Graph("train", "train", {"loss": loss})
        fitted = self.line(x=self.trunk(x=held.x).y).y
        score = MeanError()(given=fitted, wanted=held.y).score
        self.test = Graph("test", "infer", {"error": score})
        self.use = Graph("use", "infer", {"y": fitted})

    def train(self, **given: Any) -> Any:
        settings = {"max_steps": 6, "batches_per_step": 4, "clip": 0.5, "optimizer": AdamW(lr=0.05), **given}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return self.factory.train(self.graph, **settings)

    @property
    def weights(self) -> dict[str, Any]:
        return {
            f"{name}.{key}": value.tolist()
            for name, module in (("trunk", self.trunk), ("line", self.line))
            for key, value in self.factory.weights(module).items()
        }

    @classmethod
    def going_on(cls, folder: str, strategy: Any = None, **given: Any) -> list[float]:
        """Train six steps in all, and keep a checkpoint of each third; returns the losses of this time."""
        net = cls(strategy, folder=Path(folder), **given)
        return net.train(checkpoint=Checkpoint(every_steps=3, keep_last=9), ema=0.9).losses
