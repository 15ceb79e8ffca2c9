"""What memory layouts, packed weights and flushed denormals do for QuartzNet 5x5 on one thread of a CPU.

    OMP_NUM_THREADS=1 python benchmarks/cpu_layouts.py

Variants take turns on the same weights and batch; each figure is the median of the ratios of its CPU time to
that of the encoder as neumo ships it.

    channels first     what `nn.Conv1d` and `nn.BatchNorm1d` do: no layout of our own
    packed weights     pointwise weights reordered by oneDNN beforehand, inference only
    flushed denormals  torch.set_flush_denormal(True)
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
from torch import Tensor, nn

from neumo.asr.modules import ConvEncoder
from neumo.backends.torch.registry import build
from neumo.nn.conv import SameConv1d
from neumo.nn.norm import BatchNorm


@contextmanager
def as_shipped(model: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    yield


@contextmanager
def channels_first(model: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    with (
        patch.object(SameConv1d, "forward", nn.Conv1d.forward),
        patch.object(BatchNorm, "forward", nn.BatchNorm1d.forward),
    ):
        yield


@contextmanager
def flushed_denormals(model: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@contextmanager
def packed_weights(model: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """Give the linear layers of single frames weights in the order that oneDNN computes in."""
    packed = {
        id(conv): torch.ops.mkldnn._reorder_linear_weight(conv.weight.detach().squeeze(2).to(dtype))
        for conv in model.modules()
        if isinstance(conv, SameConv1d) and conv.kernel_size[0] == conv.groups == 1
    }
    plain = SameConv1d.forward

    def forward(self: SameConv1d, input: Tensor) -> Tensor:
        if id(self) not in packed or input.is_contiguous():
            return plain(self, input)
        frames = input[..., :: self.stride[0]].transpose(1, 2).to(dtype)
        weight = packed[id(self)]
        return torch.ops.mkldnn._linear_pointwise(frames, weight, None, "none", [], "").transpose(1, 2)

    with patch.object(SameConv1d, "forward", forward):
        yield


def runs(model: nn.Module, batch: int, dtype: torch.dtype) -> dict[str, Callable[[], None]]:
    """Return an inference and a forward and backward pass."""
    mel, length = torch.randn(batch, 64, 1000), torch.linspace(700, 1000, batch).long()
    lower = dtype != torch.float32

    def infer() -> None:
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=lower):
            model(mel, length)

    def train() -> None:
        model.train()
        with torch.autocast("cpu", torch.bfloat16, enabled=lower):
            encoded, _ = model(mel, length)
        encoded.float().pow(2).mean().backward()
        model.zero_grad()

    return {"inference": infer, "forward and backward": train}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = build(ConvEncoder.preset("quartznet_5x5"))
    variants = {
        "as shipped": as_shipped,
        "channels first": channels_first,
        "packed weights": packed_weights,
        "flushed denormals": flushed_denormals,
    }
    for dtype in (torch.float32, torch.bfloat16):
        for action, run in runs(model, options.batch, dtype).items():
            spent: dict[str, list[float]] = {name: [] for name in variants}
            for number in range(options.rounds + 1):
                for name in list(variants)[:: 1 if number % 2 else -1]:
                    if name == "packed weights" and action != "inference":
                        continue
                    with variants[name](model, dtype):
                        start = time.process_time()
                        run()
                        spent[name].append(time.process_time() - start)
            base = spent["as shipped"][1:]  # without the first, which warms up
            print(f"{str(dtype).removeprefix('torch.')}, {action}: {1000 * statistics.median(base):.0f} ms")
            for name, times in spent.items():
                if times and name != "as shipped":
                    ratio = statistics.median(a / b for a, b in zip(times[1:], base, strict=True))
                    print(f"    {name:<20}{ratio:.3f} of the time")


if __name__ == "__main__":
    main()
