"""Texts that were heard right and wrong, points, and modules that count or fail: to be evaluated together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

import neumo
from neumo.graph.graph import Graph
from neumo.graph.module import DataLayer
from neumo.graph.signature import Signature
from neumo.metrics import WordErrorRate
from neumo.types import Acoustic, B, F, Hypotheses, Ids, Lengths, Loss, Score, T, U, Vocab

SAID = ["ab ba", "b", "a a a", "", "ba", "a b a b", "bb aa"]
HEARD = ["ab ab", "b", "a a", "b", "ba b", "", "bb aa"]
WORDS = Vocab("ab ", name="words")


class HeardSource:
    def __init__(self, spec: HeardData) -> None:
        self.spec = spec

    def __len__(self) -> int:
        return self.spec.utterances

    def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> list[list[int]]:
        assert (epoch, rank, world) == (0, 0, 1)
        order, size = list(range(self.spec.utterances)), self.spec.batch_size
        return [order[at : at + size] for at in range(0, len(order), size)]

    def item(self, index: int, epoch: int) -> dict[str, Any]:
        return {} if index in self.spec.skipped else {"index": index}

    def collate(self, items: Sequence[dict[str, Any]]) -> dict[str, Any]:
        numbers = [item["index"] for item in items]
        heard, heard_len = _ids([HEARD[n] for n in numbers])
        said, said_len = _ids([SAID[n] for n in numbers])
        x = np.array([[np.sin(n + 1.0)] for n in numbers], np.float32)
        return {"heard": heard, "heard_len": heard_len, "said": said, "said_len": said_len, "x": x}

    def name(self, index: int) -> str:
        return f"utterance {index}"

    def report(self) -> Any:
        return None


def _ids(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    rows = [WORDS.encode(text).ids for text in texts]
    ids = np.zeros((len(rows), max(1, *map(len, rows))), np.int64)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
    return ids, np.array([len(row) for row in rows])


@dataclass(frozen=True)
class HeardData(DataLayer):
    utterances: int = 7
    batch_size: int = 1
    skipped: tuple[int, ...] = ()

    def signature(self) -> Signature:
        return Signature(
            gives={
                "heard": Hypotheses(WORDS)[B, T],
                "heard_len": Lengths(T)[B],
                "said": Ids(WORDS)[B, U],
                "said_len": Lengths(U)[B],
                "x": Acoustic()[B, F(1)],
            }
        )

    def open(self, seed: int) -> Any:
        return HeardSource(self)


@dataclass
class Noisy(neumo.TorchModule):
    """Adds noise in evaluation, too: the seed of each batch shows."""

    fails_at: float | None = None

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F(1)]}, gives={"y": Acoustic()[B, F(1)]})

    def forward(self, x: Tensor) -> Tensor:
        if self.fails_at is not None and bool((x == self.fails_at).any()):
            raise ValueError("this one cannot be computed")
        return x + torch.randn_like(x)


@dataclass
class CountedSquares(neumo.TorchModule):
    """The mean square of the values above a bound, and how many those are."""

    role: ClassVar[Any] = "loss"
    above: float = 0.0

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F(1)]}, gives={"loss": Loss()[()], "count": Score()[()]})

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept = x[x > self.above]
        return (kept**2).sum() / max(len(kept), 1), torch.tensor(float(len(kept)))


def heard_graph(data: HeardData | None = None, *, fails_at: float | None = None) -> Graph:
    batch = (data or HeardData())()
    wer = WordErrorRate(WORDS)(
        hypothesis=batch.heard,
        hypothesis_len=batch.heard_len,
        reference=batch.said,
        reference_len=batch.said_len,
    )
    y = Noisy(fails_at).named("noisy")(x=batch.x).y
    outputs = {"wer": wer.score, "loss": CountedSquares().named("squares")(x=y).loss, "y": y}
    return Graph("heard", "both", outputs)
