"""What each process holds under DDP and FSDP, what a step costs, and how far the losses are apart.

    OMP_NUM_THREADS=1 torchrun --nproc-per-node 2 benchmarks/sharding.py

Each strategy trains the same net of blocks from the same weights on the same arrays with AdamW. Memory is
that of the weights and of the state of the optimizer that lie in this process between two steps. On CPUs the
times are those of gloo over the loopback device: they say nothing of GPUs with NVLink.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import neumo
from neumo.backends.torch.parallel.shards import own_shard
from neumo.backends.torch.training.optimizers import optimizer_tensors
from neumo.engine import AdamW, Callback, NeuralFactory, Run
from neumo.engine.processes.strategies import DDP, FSDP, Strategy
from neumo.graph.graph import Graph
from neumo.graph.module import DataLayer
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, F, Loss

STRATEGIES: dict[str, Strategy] = {
    "DDP()": DDP(),
    "FSDP()": FSDP(),
    'FSDP(shard=("net.blocks.*",))': FSDP(shard=("net.blocks.*",)),
    'FSDP(shard=("net.blocks.*",), reshard=False)': FSDP(shard=("net.blocks.*",), reshard=False),
}


@dataclass(frozen=True)
class Noise(DataLayer):
    """Batches of noise, drawn from the index."""

    width: int
    batch: int = 16
    steps: int = 20

    def signature(self) -> Signature:
        return Signature(gives={"x": Acoustic()[B, F(self.width)]})

    def open(self, seed: int) -> Any:
        return NoiseSource(self)


class NoiseSource:
    """Makes the items of `Noise`."""

    def __init__(self, spec: Noise) -> None:
        self.spec = spec

    def __len__(self) -> int:
        return self.spec.batch * self.spec.steps

    def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> list[list[int]]:
        size = self.spec.batch
        return [list(range(at, at + size)) for at in range(rank * size, len(self), world * size)]

    def item(self, index: int, epoch: int) -> dict[str, Any]:
        return {"x": np.random.default_rng(index).normal(size=self.spec.width).astype(np.float32)}

    def collate(self, items: list[dict[str, Any]]) -> dict[str, np.ndarray]:
        return {"x": np.stack([item["x"] for item in items])}

    def name(self, index: int) -> str:
        return str(index)

    def report(self) -> None:
        return None


@dataclass
class Blocks(neumo.TorchModule):
    """Residual blocks of two layers, and the mean square of what comes out."""

    width: int
    depth: int

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F(self.width)]}, gives={"loss": Loss()[()]})

    def setup(self) -> None:
        wide = 4 * self.width
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(self.width), nn.Linear(self.width, wide), nn.GELU(), nn.Linear(wide, self.width)
            )
            for _ in range(self.depth)
        )

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x.square().mean()


class Weigh(Callback):
    """Measures what this process holds, and the time of each step."""

    def __init__(self) -> None:
        self.bytes = 0
        self.seconds: list[float] = []
        self._last = time.perf_counter()

    def on_step_end(self, run: Run) -> None:
        now = time.perf_counter()
        self.seconds.append(now - self._last)
        self._last = now
        trainer: Any = run.stage.trainer if run.stage is not None else None
        moments = optimizer_tensors(trainer.optimizer, trainer.parameters)
        held = [own_shard(value) for value in (*trainer.parameters.values(), *moments.values())]
        self.bytes = sum(value.numel() * value.element_size() for value in held)


def main() -> None:
    """Train with each strategy, and print a table in the first process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=6)
    given = parser.parse_args()
    rows, first = [], list[float]()
    for name, strategy in STRATEGIES.items():
        factory = NeuralFactory(device="cpu", seed=1, progress=False, strategy=strategy)
        net = Blocks(given.width, given.depth).named("net")
        graph = Graph("train", "train", {"loss": net(x=Noise(given.width)().x).loss})
        weigh = Weigh()
        result = factory.train(graph, optimizer=AdamW(lr=1e-3), epochs=2, callbacks=[weigh])
        first = first or result.losses
        apart = max(abs(one / two - 1) for one, two in zip(result.losses, first, strict=True))
        rows.append((name, weigh.bytes / 2**20, 1e3 * float(np.median(weigh.seconds)), apart))
    if int(os.environ.get("RANK", "0")) == 0:
        print(
            f"torch {torch.__version__}, {os.environ.get('WORLD_SIZE', '1')} processes, {Path(__file__).name}"
        )
        for name, size, step, apart in rows:
            print(f"{name:48} {size:7.1f} MiB {step:7.1f} ms/step   losses apart {apart:.1e}")


if __name__ == "__main__":
    main()
