"""Proves that every encoder preset gives what its type says, for every input length from 1 to 2000 frames.

    OMP_NUM_THREADS=1 python proofs/lengths.py

Each whole encoder (its kernels, strides, dilations and branches; thin channels, on which no length depends)
is run on a real tensor of every length: the frames that come out, the computed length and the size in the
signature must be the same number.
"""

from __future__ import annotations

import dataclasses
import time

import torch

from neumo.asr import ConvEncoder
from neumo.backends.torch.registry import build
from neumo.types import T

LENGTHS = range(1, 2001)


def prove(preset: str) -> int:
    """Run one preset on all lengths; stop at the first that is wrong."""
    spec = ConvEncoder.preset(preset)
    blocks = tuple(dataclasses.replace(block, width=2, groups=1) for block in spec.blocks)
    encoder = build(ConvEncoder(n_mels=2, blocks=blocks)).eval()
    size = spec.signature().gives["encoded"].axes[2].size
    for frames in LENGTHS:
        encoded, encoded_len = encoder(torch.zeros(1, 2, frames), torch.tensor([frames]))
        found = encoded.shape[2], int(encoded_len[0]), size.evaluate({T.symbol: frames})
        if len(set(found)) > 1:
            raise SystemExit(f"{preset}, {frames} frames: real, computed and declared are {found}")
    return len(LENGTHS)


if __name__ == "__main__":
    with torch.inference_mode():
        for name in ConvEncoder.presets:
            start = time.perf_counter()
            count = prove(name)
            seconds = time.perf_counter() - start
            print(f"{name:<16} {count} lengths: real = computed = declared  ({seconds:.0f} s)", flush=True)
