"""bf16 against fp32, and compiled against as it is: QuartzNet 5x5 and an encoder of the size of BERT base.

    OMP_NUM_THREADS=1 python benchmarks/precision_and_compile.py
    OMP_NUM_THREADS=1 python benchmarks/precision_and_compile.py --quick --models bert
    python benchmarks/precision_and_compile.py --device cuda

All variants of a model share one set of weights and one batch and take turns, so that a busy machine slows
all alike. The figures are medians of the ratios within a turn: on a CPU of its time in this process, on a GPU
of the time until it has finished. A training step is forward, backward, clipping at 1.0 and a fused AdamW.
Compiling takes minutes, and is not in the figures.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from neumo.asr.modules import ConvEncoder
from neumo.backends.torch.registry import build, implements
from neumo.backends.torch.session import TorchSession
from neumo.backends.torch.wrap import Wrapped, wrap
from neumo.engine import AdamW, Compile, compile_plan
from neumo.engine.backend import Setup, TrainingSetup
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, F, Lengths, Loss, T, U

Run = Callable[[], object]


@dataclass(frozen=True)
class Power(NeuralModule):
    """The mean square of what an encoder gives, as a loss that costs nothing."""

    role: ClassVar[Any] = "loss"
    width: int
    last: bool

    def signature(self) -> Signature:
        axes = (B, U, F(self.width)) if self.last else (B, F(self.width), U)
        return Signature(takes={"encoded": Acoustic()[axes]}, gives={"loss": Loss()[()]})


@implements(Power)
class PowerLayer(nn.Module):
    def __init__(self, spec: Power) -> None:
        super().__init__()

    def forward(self, encoded: Tensor) -> Tensor:
        return encoded.pow(2).mean()


class Encoder(nn.Module):
    """Twelve layers, 768 wide, twelve heads: the encoder of BERT base without its embeddings."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, 768) -> (B, T, 768)."""
        return self.layers(x)


def quartznet(batch: int) -> tuple[Wrapped, Mapping[str, Tensor], Power]:
    """QuartzNet 5x5 on 10 seconds of mel frames."""
    mel, mel_len = torch.randn(batch, 64, 1000), torch.linspace(700, 1000, batch).long()
    module = wrap(
        build(ConvEncoder.preset("quartznet_5x5")),
        takes={"mel": Acoustic()[B, F(64), T], "mel_len": Lengths(T)[B]},
        gives={"encoded": Acoustic()[B, F(1024), U], "encoded_len": None},
        name="model",
    )
    return module, {"mel": mel, "mel_len": mel_len}, Power(1024, last=False)


def bert(batch: int) -> tuple[Wrapped, Mapping[str, Tensor], Power]:
    """An encoder of the size of BERT base on 128 positions."""
    kind = Acoustic()[B, U, F(768)]
    module = wrap(Encoder(), takes={"x": kind}, gives={"encoded": kind}, name="model")
    return module, {"x": torch.randn(batch, 128, 768)}, Power(768, last=True)


MODELS: dict[str, Callable[[int], tuple[Wrapped, Mapping[str, Tensor], Power]]] = {
    "quartznet": quartznet,
    "bert": bert,
}


def runs(
    made: tuple[Wrapped, Mapping[str, Tensor], Power], precision: str, compiled: bool, device: str
) -> tuple[Run, Run]:
    """Return what infers once, and what trains one step, in one precision, compiled or as it is."""
    module, arrays, power = made
    opened = inputs(**module.signature().takes)
    encoded = module(**{name: getattr(opened, name) for name in arrays}).encoded
    loss = power.named("loss")(encoded=encoded).loss
    how = Compile(modules="model") if compiled else None
    session = TorchSession(Setup(device=device, precision=precision, seed=1, compile=how))
    inference, training = (
        compile_plan(Graph("speed", "train", {"value": value})) for value in (encoded, loss)
    )
    infer, learn = session.program(inference), session.program(training)
    setup = TrainingSetup(loss="value", optimizer=AdamW(lr=1e-6), clip=1.0)
    trainer = session.trainer(learn, training, setup)
    feeds = [arrays[feed.port].to(session.place.device) for feed in training.feeds]

    def infer_once() -> None:
        with session.inference(inference, 0):
            infer(feeds)

    def train_once() -> None:
        trainer.accumulate(feeds, seed=1, weight=1.0, reference=1.0, last=True)
        trainer.apply(1.0)

    return infer_once, train_once


def measure(run: Run, device: str) -> float:
    """Milliseconds: of CPU time on a CPU, until all is done on a GPU."""
    if device == "cpu":
        start = time.process_time()
        run()
        return 1000 * (time.process_time() - start)
    torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - start)


def compare(
    variants: Mapping[str, Run], pairs: Mapping[str, tuple[str, str]], rounds: int, device: str
) -> None:
    """Let the variants take turns and print the ratios of some pairs of them."""
    for name, run in variants.items():
        start = time.perf_counter()
        run()
        run()
        if "compiled" in name:
            print(f"    {name}: ready after {time.perf_counter() - start:.0f} s")
    spent: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds):
        order = list(variants)[:: 1 if number % 2 else -1]
        for name in order:
            spent[name].append(measure(variants[name], device))
    for name, times in spent.items():
        print(f"    {name:<16}{statistics.median(times):9.1f} ms")
    for label, (one, other) in pairs.items():
        ratio = statistics.median(a / b for a, b in zip(spent[one], spent[other], strict=True))
        print(f"    {label:<36}{ratio:.3f} of the time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument(
        "--quick", action="store_true", help="one utterance, fewer rounds, compiled in fp32 only"
    )
    parser.add_argument("--no-compile", action="store_true", help="precisions only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    precisions = ["fp32", "bf16"]
    for model in options.models:
        torch.manual_seed(0)
        made = MODELS[model](2 if options.quick else options.batch)
        variants: dict[str, tuple[Run, Run]] = {}
        for precision, compiled in itertools.product(precisions, [False, True]):
            if compiled and (options.no_compile or (options.quick and precision == "bf16")):
                continue
            name = f"{precision} compiled" if compiled else precision
            variants[name] = runs(made, precision, compiled, options.device)
        pairs = {"bf16 against fp32": ("bf16", "fp32")}
        for precision in precisions:
            if f"{precision} compiled" in variants:
                label = f"compiled against as it is, {precision}"
                pairs[label] = (f"{precision} compiled", precision)
        for at, action in enumerate(("inference", "training step")):
            print(f"{model}, {action}", flush=True)
            rounds = 3 if options.quick else options.rounds
            compare({name: both[at] for name, both in variants.items()}, pairs, rounds, options.device)


if __name__ == "__main__":
    main()
