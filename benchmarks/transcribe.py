"""What folded batch norms and bf16 save when a trained QuartzNet hears recordings on a CPU.

    OMP_NUM_THREADS=1 python benchmarks/transcribe.py
    OMP_NUM_THREADS=1 python benchmarks/transcribe.py --preset quartznet_5x5 --seconds 10

The plain network, one with its norms folded, and both in bf16 take turns, so that a busy machine slows all
alike. Figures are medians of the CPU time of the process, and ratios of medians to that of the plain network.
The weights are random with settled statistics, so labels are close to one another: transcripts that stay the
same are harder to get here than with a trained model. Target: 1.5 times as fast as the plain network.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from neumo.asr import ConvEncoder, CTCHead
from neumo.backends.torch.fold import fold_norms, native_precision
from neumo.backends.torch.registry import build
from neumo.types import Vocab


def main() -> None:
    """Time the three networks in turns, and compare the best label of each frame."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--preset", default="quartznet_15x5")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.manual_seed(1)
    encoder, head = build(ConvEncoder.preset(options.preset)), build(CTCHead(Vocab.english()))
    frames = int(options.seconds * 100)
    mel, mel_len = torch.randn(2, 64, frames), torch.tensor([frames, frames * 3 // 4])
    with torch.no_grad():
        for _ in range(2):
            encoder.train()(mel[..., :300], mel_len.clamp(max=300))
        encoder.eval()
        folded = copy.deepcopy(encoder)
        count = fold_norms(folded)
        ways = {
            "plain, fp32": lambda: labels(encoder, head, mel, mel_len, None),
            "folded, fp32": lambda: labels(folded, head, mel, mel_len, None),
            "plain, bf16": lambda: labels(encoder, head, mel, mel_len, torch.bfloat16),
            "folded, bf16": lambda: labels(folded, head, mel, mel_len, torch.bfloat16),
        }
        found, seconds = take_turns(ways, options.rounds)
    print(f"{options.preset}, {count} norms, 2 x {options.seconds:g} s")
    print(f"auto chooses {native_precision('cpu')[1]}")
    first = next(iter(ways))
    for name, taken in seconds.items():
        ratio = seconds[first] / taken
        same = (found[name] == found[first]).float().mean().item()
        print(f"{name:<14}{taken:8.2f} s   {ratio:5.2f} times as fast   {same:8.2%} of best labels equal")


def labels(
    encoder: nn.Module, head: nn.Module, mel: Tensor, mel_len: Tensor, low: torch.dtype | None
) -> Tensor:
    """The best label of each frame."""
    with torch.autocast("cpu", low) if low is not None else nullcontext():
        encoded = encoder(mel, mel_len).encoded
        scores = head(encoded)
    return (scores if isinstance(scores, Tensor) else scores[0]).argmax(-1)


def take_turns(
    ways: dict[str, Callable[[], Tensor]], rounds: int
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Run all ways in turns, once to warm up; return what they gave and their median CPU seconds."""
    found = {name: way() for name, way in ways.items()}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            begun = time.process_time()
            way()
            taken[name].append(time.process_time() - begun)
    return found, {name: statistics.median(each) for name, each in taken.items()}


if __name__ == "__main__":
    main()
