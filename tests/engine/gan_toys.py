"""The smallest adversarial pair: a line that makes points, and a curve that tells them from real ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

import neumo
from neumo.graph.graph import Graph
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, F, Loss

from .toys import PointData

COLUMN = Acoustic()[B, F(1)]


@dataclass
class Maker(neumo.TorchModule):
    """Makes points out of features, with a batch norm and noise."""

    noise: float = 0.0
    norm: bool = True

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F(3)]}, gives={"y": COLUMN})

    def setup(self) -> None:
        self.bn = nn.BatchNorm1d(3) if self.norm else nn.Identity()
        self.linear = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.noise:
            x = x + self.noise * torch.randn_like(x)
        return self.linear(self.bn(x))


@dataclass
class Judge(neumo.TorchModule):
    """Says how real points look."""

    norm: bool = False

    def signature(self) -> Signature:
        return Signature(takes={"y": COLUMN}, gives={"score": COLUMN})

    def setup(self) -> None:
        self.bn = nn.BatchNorm1d(1) if self.norm else nn.Identity()
        self.first, self.second = nn.Linear(1, 4), nn.Linear(4, 1)

    def forward(self, y: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(self.bn(y))))


@dataclass
class JudgeLoss(neumo.TorchModule):
    """Least squares (Mao et al. 2017): real points are 1, made ones 0."""

    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        return Signature(takes={"real": COLUMN, "made": COLUMN}, gives={"loss": Loss()[()]})

    def forward(self, real: Tensor, made: Tensor) -> Tensor:
        return (real - 1).pow(2).mean() + made.pow(2).mean()


@dataclass
class MakerLoss(neumo.TorchModule):
    """Least squares: made points shall be taken for real ones."""

    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        return Signature(takes={"made": COLUMN}, gives={"loss": Loss()[()]})

    def forward(self, made: Tensor) -> Tensor:
        return (made - 1).pow(2).mean()


def gan(data: PointData | None = None, maker: Maker | None = None, judge: Judge | None = None) -> Graph:
    """A graph with the losses d_loss and g_loss, of modules "maker" and "judge"."""
    batch = (data or PointData())()
    judging = (judge or Judge()).named("judge")
    made = (maker or Maker()).named("maker")(x=batch.x).y
    scores = judging(y=made).score
    outputs = {
        "d_loss": JudgeLoss().named("d")(real=judging(y=batch.y).score, made=scores).loss,
        "g_loss": MakerLoss().named("g")(made=scores).loss,
        "made": made,
    }
    return Graph("gan", "train", outputs)
