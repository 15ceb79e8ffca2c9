"""Tiny specifications with torch code: a line to fit, frames with lengths, and modules that misbehave."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from neumo.backends.torch.registry import implements
from neumo.graph.graph import Graph
from neumo.graph.module import DataLayer, Metric, NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    Acoustic,
    B,
    DataError,
    F,
    Flags,
    Ids,
    Item,
    Lengths,
    LogProbs,
    Loss,
    Score,
    T,
    V,
    Vocab,
)

LETTERS = Vocab("abcd", name="four")


class ArraySource:
    """Numbers made from the index, in shuffled batches."""

    def __init__(self, spec: PointData, seed: int) -> None:
        self.spec = spec
        self.seed = seed

    def __len__(self) -> int:
        return self.spec.points

    def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> list[list[int]]:
        order = np.random.default_rng([self.seed, epoch]).permutation(self.spec.points)
        if not self.spec.shuffle:
            order = np.arange(self.spec.points)
        size = self.spec.batch_size
        every = [[int(i) for i in order[at : at + size]] for at in range(0, len(order), size)]
        return every[rank::world]  # not evenly, unlike the sources of neumo

    def item(self, index: int, epoch: int) -> dict[str, Any]:
        if index in self.spec.broken:
            raise DataError(f"{self.name(index)} cannot be read", code="toy", data={"index": index})
        if index in self.spec.skipped:
            return {}
        rng = np.random.default_rng([7, index])
        x = rng.normal(size=self.spec.width).astype(np.float32)
        y = x @ np.arange(1, self.spec.width + 1, dtype=np.float32) + 0.5
        x += self.spec.noise * np.random.default_rng([self.seed, epoch, index]).normal(size=x.shape).astype(
            np.float32
        )
        if index in self.spec.poisoned:
            x[0] = np.nan
        return {"x": x, "y": np.float32(y), "item": index}

    def collate(self, items: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
        x = np.stack([item["x"] for item in items])
        y = np.array([item["y"] for item in items], np.float32)[:, None]
        return {"x": x, "y": y, "item": np.array([item["item"] for item in items])}

    def name(self, index: int) -> str:
        return f"points.csv:{index + 1}"

    def report(self) -> Any:
        return None


@dataclass(frozen=True)
class PointData(DataLayer):
    points: int = 40
    width: int = 3
    batch_size: int = 8
    shuffle: bool = True
    noise: float = 0.0
    broken: tuple[int, ...] = ()
    skipped: tuple[int, ...] = ()
    poisoned: tuple[int, ...] = ()

    def signature(self) -> Signature:
        gives = {"x": Acoustic()[B, F(self.width)], "y": Acoustic()[B, F(1)], "item": Item()[B]}
        return Signature(gives=gives)

    def open(self, seed: int) -> Any:
        return ArraySource(self, seed)


@dataclass(frozen=True)
class Line(NeuralModule):
    trainable: ClassVar[bool] = True
    width: int = 3
    norm: bool = False
    dropout: float = 0.0

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F(self.width)]}, gives={"y": Acoustic()[B, F(1)]})


@implements(Line)
class LineLayer(nn.Module):
    def __init__(self, spec: Line) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(spec.width) if spec.norm else nn.Identity()
        self.drop = nn.Dropout(spec.dropout)
        self.linear = nn.Linear(spec.width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.drop(self.norm(x)))


@dataclass(frozen=True)
class SquaredError(NeuralModule):
    role: ClassVar[Any] = "loss"
    flag_above: float | None = None

    def signature(self) -> Signature:
        gives = {"loss": Loss()[()], "infeasible": Flags()[B]}
        return Signature(takes={"given": Acoustic()[B, F(1)], "wanted": Acoustic()[B, F(1)]}, gives=gives)


@implements(SquaredError)
class SquaredErrorLayer(nn.Module):
    def __init__(self, spec: SquaredError) -> None:
        super().__init__()
        self.flag_above = spec.flag_above

    def forward(self, given: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
        flags = torch.zeros(len(given), dtype=torch.bool)
        if self.flag_above is not None:
            flags = wanted[:, 0] > self.flag_above
        return (given - wanted).pow(2).mean(), flags


class ErrorSum:
    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, given: np.ndarray, wanted: np.ndarray) -> None:
        self.total += float(np.abs(given - wanted).sum())
        self.count += len(given)

    def result(self) -> dict[str, float]:
        return {"error": self.total / max(self.count, 1), "points": self.count}

    def merge(self, other: ErrorSum) -> None:
        self.total, self.count = self.total + other.total, self.count + other.count


@dataclass(frozen=True)
class MeanError(Metric):
    def signature(self) -> Signature:
        takes = {"given": Acoustic()[B, F(1)], "wanted": Acoustic()[B, F(1)]}
        return Signature(takes=takes, gives={"score": Score()[()]})

    def start(self) -> Any:
        return ErrorSum()


@dataclass(frozen=True)
class Liar(NeuralModule):
    """Declares what its torch code does not do: `lie` says how."""

    lie: str = ""

    def signature(self) -> Signature:
        return Signature(
            takes={"x": Acoustic()[B, F(3)]},
            gives={"y": Acoustic()[B, F(3)], "half": Acoustic()[B, F(3)]},
        )


@implements(Liar)
class LiarLayer(nn.Module):
    def __init__(self, spec: Liar) -> None:
        super().__init__()
        self.lie = spec.lie

    def forward(self, x: Tensor) -> Any:
        wrong = {
            "width": x[:, :2],
            "rank": x[:, :, None],
            "rows": x[:1],
            "dtype": x.to(torch.int64),
            "nan": x * float("nan"),
            "none": None,
        }
        if self.lie == "crash":
            return x @ torch.zeros(7, 7), x
        if self.lie == "count":
            return x, x, x
        return wrong.get(self.lie, x), x


@dataclass(frozen=True)
class FrameData(DataLayer):
    """Frames with lengths and ids; `lie` makes the data break its own signature."""

    lie: str = ""

    def signature(self) -> Signature:
        gives = {
            "frames": Acoustic()[B, T],
            "frames_len": Lengths(T)[B],
            "ids": Ids(LETTERS)[B, T],
        }
        return Signature(gives=gives)

    def open(self, seed: int) -> Any:
        return FrameSource(self.lie)


class FrameSource:
    def __init__(self, lie: str) -> None:
        self.lie = lie

    def __len__(self) -> int:
        return 6

    def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> list[list[int]]:
        return [[0, 1, 2], [3, 4, 5]]

    def item(self, index: int, epoch: int) -> dict[str, Any]:
        return {"item": index}

    def collate(self, items: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
        batch = {
            "frames": np.ones((3, 8), np.float32),
            "frames_len": np.array([8, 6, 4]),
            "ids": np.ones((3, 8), np.int64),
        }
        if self.lie == "rows":
            batch["frames_len"] = np.array([8, 6])
        elif self.lie == "long":
            batch["frames_len"] = np.array([8, 9, 4])
        elif self.lie == "zero":
            batch["frames_len"] = np.array([8, 0, 4])
        elif self.lie == "ids":
            batch["ids"][1, 2] = 4
        elif self.lie == "nan":
            batch["frames"][0, 0] = np.nan
        elif self.lie == "missing":
            del batch["ids"]
        return batch

    def name(self, index: int) -> str:
        return f"frames:{index}"

    def report(self) -> Any:
        return None


@dataclass(frozen=True)
class Halve(NeuralModule):
    """Keeps every second frame; `lie` returns all of them, or scores that are no probabilities."""

    trainable: ClassVar[bool] = True
    lie: str = ""

    def signature(self) -> Signature:
        half = T.ceildiv(2)
        return Signature(
            takes={
                "frames": Acoustic()[B, T],
                "frames_len": Lengths(T)[B],
                "extra": Acoustic().optional()[B, T],
            },
            gives={"log_probs": LogProbs(LETTERS)[B, half, V(LETTERS)], "out_len": Lengths(half)[B]},
        )


@implements(Halve)
class HalveLayer(nn.Module):
    def __init__(self, spec: Halve) -> None:
        super().__init__()
        self.lie = spec.lie
        self.project = nn.Linear(1, 4)

    def forward(self, frames: Tensor, frames_len: Tensor, extra: Tensor | None) -> tuple[Tensor, Tensor]:
        kept = frames if self.lie == "frames" else frames[:, ::2]
        scores = self.project(kept[:, :, None])
        log_probs = scores if self.lie == "logits" else scores.log_softmax(dim=-1)
        assert extra is None
        return log_probs, (frames_len + 1) // 2


@dataclass(frozen=True)
class MeanLoss(NeuralModule):
    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        return Signature(takes={"log_probs": LogProbs(LETTERS)[B, T, V(LETTERS)]}, gives={"loss": Loss()[()]})


@implements(MeanLoss)
class MeanLossLayer(nn.Module):
    def __init__(self, spec: MeanLoss) -> None:
        super().__init__()

    def forward(self, log_probs: Tensor) -> Tensor:
        self.seen = log_probs.dtype
        return -log_probs[..., 0].mean()


def line_graphs(
    data: PointData | None = None, line: Line | None = None, loss: SquaredError | None = None
) -> Any:
    """A training and a test graph that share a line."""
    data = data or PointData()
    line = (line or Line(width=data.width)).named("line")
    loss = loss or SquaredError()
    batch = data()
    fitted = line(x=batch.x).y
    train = Graph("train", "train", {"loss": loss(given=fitted, wanted=batch.y).loss})
    held_out = PointData(points=16, width=data.width, shuffle=False)()
    test = Graph("test", "infer", {"error": MeanError()(given=line(x=held_out.x).y, wanted=held_out.y).score})
    return train, test


def frame_graph(data_lie: str = "", lie: str = "") -> Graph:
    """Frames, halved, with a loss."""
    batch = FrameData(data_lie)()
    halved = Halve(lie).named("halve")(frames=batch.frames, frames_len=batch.frames_len)
    outputs = {
        "loss": MeanLoss()(log_probs=halved.log_probs).loss,
        "out_len": halved.out_len,
        "ids": batch.ids,
    }
    return Graph("frames", "both", outputs)


@contextmanager
def refused(kind: type[Exception], words: str) -> Iterator[Any]:
    """Expect an error whose text, without line breaks, has these words."""
    with pytest.raises(kind) as caught:
        yield caught
    text = " ".join(str(caught.value).split())
    assert re.search(words, text), text
