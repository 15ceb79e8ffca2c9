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

_MOST_MASKS = 20  # of those that adapt to the utterance: Park et al. 2020, section 2


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
        return mel.masked_fill(in_band[:, :, None] | self._in_time(mel_len, mel.shape[2])[:, None, :], 0)

    def _in_time(self, mel_len: Tensor, size: int) -> Tensor:  # (B,) -> (B, T)
        spec, width = self.spec, self.spec.time_width
        adapts = isinstance(spec.time_masks, float)
        count = _MOST_MASKS if adapts else int(spec.time_masks)
        widest = (mel_len * width).long() if isinstance(width, float) else width
        stretches = random_stretches(mel_len, count, widest, size, share=spec.time_share)  # (B, M, T)
        if adapts:
            number = torch.arange(count, device=mel_len.device)
            stretches = stretches & (number < (mel_len * spec.time_masks).long()[:, None])[..., None]
        return stretches.any(1)


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


class Fixed(NamedTuple):
    """Frames of a fixed number, and how many of them are valid."""

    mel: Tensor  # (B, F, frames)
    mel_len: Tensor  # (B,)


@implements(specs.CropOrPad)
class CropOrPad(nn.Module):
    """Reads as many frames from a place within the utterance, or before it."""

    def __init__(self, spec: specs.CropOrPad) -> None:
        super().__init__()
        self.spec = spec

    def forward(self, mel: Tensor, mel_len: Tensor) -> Fixed:
        """(B, F, T), (B,) -> (B, F, frames), (B,)."""
        frames = self.spec.frames
        missing = mel_len - frames  # below 0 where the utterance is shorter
        if self.spec.place == "start":
            start, length = torch.zeros_like(mel_len), mel_len.clamp(max=frames)
        else:
            start, length = missing // 2, torch.full_like(mel_len, frames)
        if self.spec.place == "random" and self.training:
            start = _up_to(missing.abs()) * missing.sign()
        source = torch.arange(frames, device=mel.device) + start[:, None]  # (B, frames)
        outside = (source < 0) | (source >= mel_len[:, None])
        found = F.pad(mel, (0, 1))  # one frame to read from where there is none
        source = torch.where(outside, mel.shape[-1], source)[:, None].expand(-1, mel.shape[1], -1)
        return Fixed(found.gather(2, source).masked_fill(outside[:, None], 0), length)


def random_stretches(
    lengths: Tensor, count: int, width: int | Tensor, size: int, *, share: float = 1.0
) -> Tensor:
    """Stretches of 0 to `width` positions (at most a `share` of the length), anywhere: (B,) -> (B, M, size).

    >>> random_stretches(torch.tensor([4, 8]), count=3, width=2, size=8).shape
    torch.Size([2, 3, 8])
    """
    length = lengths[:, None].expand(-1, count)
    width = torch.full_like(lengths, width) if isinstance(width, int) else width
    widest = torch.minimum((length * share).long(), width[:, None])
    stretch = _up_to(widest)
    start = _up_to(length - stretch)
    position = torch.arange(size, device=lengths.device)
    return (position >= start[..., None]) & (position < (start + stretch)[..., None])


def _up_to(largest: Tensor) -> Tensor:
    """A whole number from 0 to `largest`, both included."""
    return (torch.rand(largest.shape, device=largest.device) * (largest + 1)).long().minimum(largest)
