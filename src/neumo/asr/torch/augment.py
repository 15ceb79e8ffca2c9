"""Random changes of the training data; each changes nothing in evaluation.

The random numbers come from torch's global generator, which a training step seeds.
Shapes: B utterances, T samples or frames, F mel bands, M masks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.asr.modules.waveform import new_length, ratio
from neumo.backends.torch.lengths import frame_mask
from neumo.backends.torch.registry import implements
from neumo.backends.torch.resample import resample
from neumo.nn.phase_vocoder import stretch


class Perturbed(NamedTuple):
    """Audio at another speed."""

    audio: Tensor  # (B, T')
    audio_len: Tensor  # (B,)


@implements(specs.SpeedPerturb)
class SpeedPerturb(nn.Module):
    """Draws a speed for each utterance and resamples the utterances of each speed together."""

    def __init__(self, spec: specs.SpeedPerturb) -> None:
        super().__init__()
        self.spec = spec

    def forward(self, audio: Tensor, audio_len: Tensor) -> Perturbed:
        """(B, T), (B,) -> (B, T'), (B,)."""
        if not self.training:
            return Perturbed(audio, audio_len)
        return at_factors(audio, audio_len, self.spec, resample)


@implements(specs.TimeStretch)
class TimeStretch(nn.Module):
    """Draws a factor for each utterance and stretches the utterances of each factor together."""

    def __init__(self, spec: specs.TimeStretch) -> None:
        super().__init__()
        self.spec = spec

    def forward(self, audio: Tensor, audio_len: Tensor) -> Perturbed:
        """(B, T), (B,) -> (B, T'), (B,)."""
        if not self.training:
            return Perturbed(audio, audio_len)
        return at_factors(audio, audio_len, self.spec, partial(stretch, n_fft=self.spec.n_fft))


def at_factors(
    audio: Tensor,
    audio_len: Tensor,
    spec: specs.SpeedPerturb | specs.TimeStretch,
    change: Callable[[Tensor, int, int], Tensor],
) -> Perturbed:
    """Changes each utterance by a factor that is drawn for it: (B, T) -> (B, T')."""
    # On the CPU, because they decide sizes.
    drawn = torch.randint(len(spec.factors), (len(audio),)).tolist()
    touched = draw_rows(len(audio), spec.probability)
    factors = [spec.factors[which] if touched[row] else 1.0 for row, which in enumerate(drawn)]
    audio = audio.masked_fill(~frame_mask(audio_len, audio.shape[-1]), 0)
    widest = max((new_length(audio.shape[-1], factor) for factor in factors), default=0)
    changed, changed_len = audio.new_zeros(len(audio), widest), audio_len.clone()
    for factor in set(factors):
        rows = [row for row, each in enumerate(factors) if each == factor]
        found = change(audio[rows], *ratio(factor))
        changed[rows] = F.pad(found, (0, widest - found.shape[-1]))
        changed_len[rows] = new_length(audio_len[rows], factor)
    # What is computed of a signal may ring beyond its last sample: what is padding stays silent.
    return Perturbed(changed.masked_fill(~frame_mask(changed_len, widest), 0), changed_len)


def draw_rows(count: int, probability: float) -> list[bool]:
    """Which utterances are to be changed; nothing is drawn where all are.

    >>> draw_rows(2, 1.0), draw_rows(2, 0.0)
    ([True, True], [False, False])
    """
    if probability >= 1:
        return [True] * count
    return (torch.rand(count) < probability).tolist()


@implements(specs.SpecAugment)
class SpecAugment(nn.Module):
    """Bands over all time and stretches over all frequencies become 0."""

    def __init__(self, spec: specs.SpecAugment) -> None:
        super().__init__()
        self.spec = spec

    def forward(self, mel: Tensor, mel_len: Tensor) -> Tensor:
        """(B, F, T), (B,) -> (B, F, T)."""
        if not self.training:
            return mel
        spec, bands = self.spec, torch.full_like(mel_len, mel.shape[1])
        in_band = random_stretches(bands, spec.freq_masks, spec.freq_width, mel.shape[1]).any(1)
        in_time = random_stretches(
            mel_len, spec.time_masks, spec.time_width, mel.shape[2], share=spec.time_share
        ).any(1)
        return mel.masked_fill(in_band[:, :, None] | in_time[:, None, :], 0)


@implements(specs.SpecCutout)
class SpecCutout(nn.Module):
    """Rectangles of time and frequency become 0."""

    def __init__(self, spec: specs.SpecCutout) -> None:
        super().__init__()
        self.spec = spec

    def forward(self, mel: Tensor, mel_len: Tensor) -> Tensor:
        """(B, F, T), (B,) -> (B, F, T)."""
        if not self.training:
            return mel
        spec, bands = self.spec, torch.full_like(mel_len, mel.shape[1])
        in_band = random_stretches(bands, spec.masks, spec.freq_width, mel.shape[1])  # (B, M, F)
        in_time = random_stretches(mel_len, spec.masks, spec.time_width, mel.shape[2])  # (B, M, T)
        return mel.masked_fill((in_band[..., None] & in_time[:, :, None, :]).any(1), 0)


def random_stretches(lengths: Tensor, count: int, width: int, size: int, *, share: float = 1.0) -> Tensor:
    """Stretches of 0 to `width` positions (at most a `share` of the length), anywhere: (B,) -> (B, M, size).

    >>> random_stretches(torch.tensor([4, 8]), count=3, width=2, size=8).shape
    torch.Size([2, 3, 8])
    """
    length = lengths[:, None].expand(-1, count)
    widest = torch.minimum((length * share).long(), torch.full_like(length, width))
    stretch = _up_to(widest)
    start = _up_to(length - stretch)
    position = torch.arange(size, device=lengths.device)
    return (position >= start[..., None]) & (position < (start + stretch)[..., None])


def _up_to(largest: Tensor) -> Tensor:
    """A whole number from 0 to `largest`, both included."""
    return (torch.rand(largest.shape, device=largest.device) * (largest + 1)).long().minimum(largest)
