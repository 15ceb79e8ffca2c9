"""Resampling by a windowed sinc: band-limited interpolation at a rational ratio.

Smith, Digital Audio Resampling, https://ccrma.stanford.edu/~jos/resample/. Shapes: B utterances, T samples.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from neumo.backends.torch.lengths import at_least_float32


def resample(audio: Tensor, source: int, target: int, *, zeros: int = 32, rolloff: float = 0.95) -> Tensor:
    """Changes the rate of (B, T) from `source` to `target`: (B, ceil(T * target / source)).

    >>> resample(torch.zeros(2, 100), 22050, 16000).shape
    torch.Size([2, 73])

    Only the ratio of the rates matters. The low-pass has `zeros` zero crossings on each side and cuts at
    `rolloff` of the lower of the two Nyquist frequencies. Sample 0 stays at time 0; beyond its ends the
    signal is silence.
    """
    common = math.gcd(source, target)
    source, target = source // common, target // common
    samples = (audio.shape[-1] * target + source - 1) // source
    if source == target or samples == 0:
        return audio[..., :samples]
    with torch.autocast(audio.device.type, enabled=False):
        filters, half = sinc_filters(source, target, zeros, rolloff)
        x = at_least_float32(audio)
        steps = (samples + target - 1) // target  # each step reads `source` samples and writes `target`
        right = (steps - 1) * source + filters.shape[-1] - half - x.shape[-1]
        padded = F.pad(x, (half, right))  # right may be negative: the last samples are not needed
        y = F.conv1d(padded[:, None, :], filters.to(x)[:, None, :], stride=source)  # (B, target, steps)
        return y.transpose(1, 2).flatten(1)[:, :samples].to(audio.dtype)


@lru_cache(maxsize=32)
def sinc_filters(source: int, target: int, zeros: int, rolloff: float) -> tuple[Tensor, int]:
    """One filter for each of the `target` output samples of a step, and how far they reach before its start.

    Output sample p of a step lies at p * source / target input samples; its filter is the sinc of the
    low-pass around that time, under a Kaiser window whose side lobes are 90 dB down.
    """
    cutoff = rolloff * min(1.0, target / source)  # as a share of the input's Nyquist frequency
    half = math.ceil(zeros / cutoff)
    reach = torch.arange(-half, half + source, dtype=torch.float64)
    centres = torch.arange(target, dtype=torch.float64)[:, None] * source / target
    distance = (reach - centres) * cutoff  # in zero crossings
    window = _kaiser(distance / zeros, beta=9.0)
    return cutoff * torch.sinc(distance) * window, half


def _kaiser(position: Tensor, beta: float) -> Tensor:
    """The Kaiser window at positions -1 ... 1, zero outside."""
    inside = (1 - position.square()).clamp(min=0)
    largest = torch.special.i0(torch.tensor(beta, dtype=position.dtype))
    window = torch.special.i0(beta * inside.sqrt()) / largest
    return torch.where(position.abs() < 1, window, 0.0)
