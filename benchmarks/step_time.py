"""What a step of `factory.train` costs over a training loop written by hand in PyTorch.

    OMP_NUM_THREADS=1 python benchmarks/step_time.py
    OMP_NUM_THREADS=1 python benchmarks/step_time.py --quick
    OMP_NUM_THREADS=1 python benchmarks/step_time.py --precision bf16

Both train the same layers on the same arrays with the same loss, AdamW (fused) and a gradient norm clipped to
1.0, and read the loss of each step. The engine also checks that it is finite, computes the schedule, draws a
seed for the step, counts, keeps the running statistics to put them back where a step is left out, and tells
its callbacks: 0.2 ms of Python whatever the model, which is what the small one is there to show. Both loops
stay alive side by side and take turns in blocks of steps, first one and then the other in front, so that a
busy machine slows both alike. The figure is the median of the ratios of neighbouring blocks, in CPU time of
the process and on the clock. Target: at most 1.02 for the mid-size model.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from neumo.backends.torch.registry import implements
from neumo.engine import AdamW, Callback, Cosine, NeuralFactory, Run
from neumo.graph.graph import Graph
from neumo.graph.module import DataLayer, NeuralModule
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, F, Loss, T

FEATURES = 64
TARGET = 1.02
SIZES = {  # layers, their width, utterances, frames
    "small: 2 convolutions, 64 wide": (2, 64, 8, 100),
    "mid-size: 6 convolutions, 256 wide": (6, 256, 16, 200),
}


@dataclass(frozen=True)
class Frames(DataLayer):
    """The same batch of noise again and again, made once."""

    batch: int
    frames: int
    steps: int

    def signature(self) -> Signature:
        return Signature(gives={"x": Acoustic()[B, F(FEATURES), T], "y": Acoustic()[B, F(FEATURES), T]})

    def open(self, seed: int) -> Any:
        return FrameSource(self)


class FrameSource:
    """Gives one stored batch without a copy, as a cache in memory would."""

    def __init__(self, spec: Frames) -> None:
        self.spec = spec
        rng = np.random.default_rng(0)
        shape = (spec.batch, FEATURES, spec.frames)
        self.arrays = {name: rng.normal(size=shape).astype(np.float32) for name in ("x", "y")}

    def __len__(self) -> int:
        return self.spec.batch * self.spec.steps

    def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> list[list[int]]:
        return [list(range(self.spec.batch))] * self.spec.steps

    def item(self, index: int, epoch: int) -> dict[str, Any]:
        return {"index": index}

    def collate(self, items: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
        return self.arrays

    def name(self, index: int) -> str:
        return str(index)

    def report(self) -> None:
        return None


@dataclass(frozen=True)
class Stack(NeuralModule):
    """Convolutions with normalisation and ReLU, and one of one frame at the end."""

    trainable: ClassVar[bool] = True
    layers: int
    width: int

    def signature(self) -> Signature:
        return Signature(
            takes={"x": Acoustic()[B, F(FEATURES), T]}, gives={"y": Acoustic()[B, F(FEATURES), T]}
        )


@implements(Stack)
class StackLayer(nn.Sequential):
    def __init__(self, spec: Stack) -> None:
        widths = [FEATURES, *[spec.width] * spec.layers]
        parts: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            parts += [nn.Conv1d(before, after, 5, padding=2, bias=False), nn.BatchNorm1d(after), nn.ReLU()]
        super().__init__(*parts, nn.Conv1d(spec.width, FEATURES, 1))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)


@dataclass(frozen=True)
class FrameError(NeuralModule):
    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        kind = Acoustic()[B, F(FEATURES), T]
        return Signature(takes={"given": kind, "wanted": kind}, gives={"loss": Loss()[()]})


@implements(FrameError)
class FrameErrorLayer(nn.Module):
    def __init__(self, spec: FrameError) -> None:
        super().__init__()

    def forward(self, given: Tensor, wanted: Tensor) -> Tensor:
        return (given - wanted).pow(2).mean()


class Turns(Callback):
    """Lets a training go on for a block of steps whenever it is asked to."""

    order = 100

    def __init__(self, block: int) -> None:
        self.block = block
        self.go, self.done = threading.Semaphore(0), threading.Semaphore(0)

    def on_step_start(self, run: Run) -> None:
        if run.step % self.block == 0:
            if run.step:
                self.done.release()
            self.go.acquire()

    def __call__(self) -> None:
        self.go.release()
        self.done.acquire()


def engine_loop(
    name: str, precision: Any, block: int, blocks: int
) -> tuple[Turns, threading.Thread, list[Any]]:
    """Start a training of the engine in a thread, which waits for its turns."""
    layers, width, batch, frames = SIZES[name]
    data = Frames(batch, frames, block * blocks)()
    stack = Stack(layers, width).named("stack")
    loss = FrameError().named("loss")(given=stack(x=data.x).y, wanted=data.y).loss
    factory = NeuralFactory(device="cpu", precision=precision, seed=1, progress=False)
    turns, result = Turns(block), []

    def train() -> None:
        torch.set_num_threads(1)
        try:
            result.extend(trained())
        finally:
            turns.done.release()

    def trained() -> list[float]:
        return factory.train(
            Graph("step", "train", {"loss": loss}),
            optimizer=AdamW(lr=1e-3, weight_decay=0.01),
            schedule=Cosine(warmup_steps=10),
            max_steps=block * blocks,
            clip=1.0,
            callbacks=[turns],
        ).losses

    thread = threading.Thread(target=train, daemon=True)
    thread.start()
    return turns, thread, result


def hand_loop(name: str, precision: str, block: int) -> Callable[[], None]:
    """The same training as one would write it."""
    layers, width, batch, frames = SIZES[name]
    arrays = FrameSource(Frames(batch, frames, 1)).arrays
    model = StackLayer(Stack(layers, width)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10_000)
    losses: list[float] = []

    def run() -> None:
        for _ in range(block):
            x, y = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"])
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                given = model(x)
            loss = (given.float() - y).pow(2).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())

    return run


def in_thread(run: Callable[[], None]) -> Callable[[], None]:
    """Run every turn in one other thread, as the engine does: memory is managed for each thread."""
    go, done = threading.Semaphore(0), threading.Semaphore(0)

    def serve() -> None:
        torch.set_num_threads(1)
        while True:
            go.acquire()
            try:
                run()
            finally:
                done.release()

    threading.Thread(target=serve, daemon=True).start()

    def turn() -> None:
        go.release()
        done.acquire()

    return turn


def measure(run: Callable[[], None]) -> tuple[float, float]:
    """Seconds of CPU time of this process, and on the clock."""
    cpu, clock = time.process_time(), time.perf_counter()
    run()
    return time.process_time() - cpu, time.perf_counter() - clock


def compare(name: str, precision: str, block: int, pairs: int) -> tuple[float, ...]:
    """The median ratios in CPU time and on the clock, the half width of the middle half, and milliseconds of
    CPU time a step, by hand and how many more for the engine.
    """
    engine, thread, losses = engine_loop(name, precision, block, pairs + 1)
    hand = in_thread(hand_loop(name, precision, block))
    engine()
    hand()
    cpu: list[float] = []
    clock: list[float] = []
    steps: list[float] = []
    more: list[float] = []
    for number in range(pairs):
        order = [engine, hand] if number % 2 else [hand, engine]
        spent = {id(run): measure(run) for run in order}
        (ours, ours_clock), (theirs, theirs_clock) = spent[id(engine)], spent[id(hand)]
        cpu.append(ours / theirs)
        clock.append(ours_clock / theirs_clock)
        steps.append(1000 * theirs / block)
        more.append(1000 * (ours - theirs) / block)
    thread.join(timeout=60)
    if len(losses) != block * (pairs + 1) or not losses[-1] < losses[0]:
        raise SystemExit(f"the engine has not trained: {len(losses)} losses")
    low, _, high = statistics.quantiles(cpu, n=4)
    medians = (statistics.median(each) for each in (cpu, clock, steps, more))
    return (*medians, (high - low) / 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="fewer pairs: less exact")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name, block in zip(SIZES, (40, 1), strict=True):
        pairs = 8 if options.quick else options.pairs
        ratio, clock, step, more, spread = compare(name, options.precision, block, pairs)
        print(
            f"{name:<38}{options.precision}: {ratio:.3f} of a loop by hand (target {TARGET}), middle half "
            f"+-{spread:.3f}; {clock:.3f} on the clock; {step:.1f} ms a step by hand, {more:+.2f} ms"
        )


if __name__ == "__main__":
    main()
