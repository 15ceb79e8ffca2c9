"""Specifications for tests of precision: a stack of layers, a recurrent layer, a front-end that scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from neumo.backends.torch.registry import implements
from neumo.engine import NeuralFactory
from neumo.graph.graph import Graph
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, F

from ..engine.toys import PointData, SquaredError


def factory(**options: Any) -> NeuralFactory:
    """Make a factory on the CPU that checks every value."""
    return NeuralFactory(**{"device": "cpu", "seed": 3, "progress": False, "verify": "always", **options})


@dataclass(frozen=True)
class BlockStack(NeuralModule):
    """Two blocks, each a product and a normalisation; they remember what they were given and returned."""

    trainable: ClassVar[bool] = True
    width: int = 3
    hidden: int = 8
    norm: str = "layer"

    def signature(self) -> Signature:
        return Signature(
            takes={"x": Acoustic()[B, F(self.width)]}, gives={"y": Acoustic()[B, F(self.hidden)]}
        )


class Block(nn.Module):
    def __init__(self, width: int, hidden: int, norm: str) -> None:
        super().__init__()
        self.linear = nn.Linear(width, hidden)
        self.norm = nn.BatchNorm1d(hidden) if norm == "batch" else nn.LayerNorm(hidden)

    def forward(self, x: Tensor) -> Tensor:
        made = self.linear(x)
        self.given, self.made = x.dtype, made.dtype
        return self.norm(made).relu()


@implements(BlockStack)
class BlockStackLayer(nn.Module):
    def __init__(self, spec: BlockStack) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            [Block(spec.width, spec.hidden, spec.norm), Block(spec.hidden, spec.hidden, spec.norm)]
        )
        self.register_buffer("shift", torch.zeros(spec.hidden))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x + self.shift


@dataclass(frozen=True)
class BlockReadout(NeuralModule):
    """One number of many, with an operation that takes no bf16 if `strict`."""

    trainable: ClassVar[bool] = True
    hidden: int = 8
    strict: bool = False

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F(self.hidden)]}, gives={"y": Acoustic()[B, F(1)]})


@implements(BlockReadout)
class BlockReadoutLayer(nn.Module):
    def __init__(self, spec: BlockReadout) -> None:
        super().__init__()
        self.linear = nn.Linear(spec.hidden, 1)
        self.strict = spec.strict

    def forward(self, x: Tensor) -> Tensor:
        self.given = x.dtype
        made = self.linear(x)
        self.made = made.dtype
        if self.strict:
            torch.complex(made, made)  # torch has it for all floats but bf16
        return made


@dataclass(frozen=True)
class BlockRecurrence(NeuralModule):
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F(8)]}, gives={"y": Acoustic()[B, F(8)]})


@implements(BlockRecurrence)
class BlockRecurrenceLayer(nn.Module):
    def __init__(self, spec: BlockRecurrence) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x[:, None])[0][:, 0]


@dataclass(frozen=True)
class LoudFeatures(NeuralModule):
    """A front-end without weights whose features are large."""

    gain: float = 1e4

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F(3)]}, gives={"y": Acoustic()[B, F(3)]})


@implements(LoudFeatures)
class LoudFeaturesLayer(nn.Module):
    def __init__(self, spec: LoudFeatures) -> None:
        super().__init__()
        self.gain = spec.gain

    def forward(self, x: Tensor) -> Tensor:
        self.given = x.dtype
        return x * self.gain


def stack_graph(
    *, norm: str = "layer", strict: bool = False, recurrent: bool = False, gain: float | None = None
) -> Graph:
    """Points through a stack (and a recurrent layer) to a number, and the squared error of it."""
    batch = PointData()()
    x = batch.x if gain is None else LoudFeatures(gain).named("louder")(x=batch.x).y
    hidden = BlockStack(norm=norm).named("encoder")(x=x).y
    if recurrent:
        hidden = BlockRecurrence().named("recurrence")(x=hidden).y
    y = BlockReadout(strict=strict).named("decoder")(x=hidden).y
    return Graph("train", "train", {"loss": SquaredError()(given=y, wanted=batch.y).loss})


def layers_of(maker: NeuralFactory, graph: Graph) -> tuple[Any, Any]:
    """The torch modules of the encoder and the decoder."""
    session: Any = maker.session
    return session.implementation(graph.modules["encoder"]), session.implementation(graph.modules["decoder"])
