"""Random changes of the samples of training data that keep their number; none changes anything in evaluation.

The random numbers come from torch's global generator, which a training step seeds. Those that choose an
utterance or a setting are drawn on the CPU, whatever the device.
Shapes: B utterances, T samples.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.asr.torch.augment import draw_rows
from neumo.backends.torch.lengths import at_least_float32, frame_mask
from neumo.backends.torch.registry import implements
from neumo.backends.torch.resample import resample
from neumo.nn.companding import g711

_TELEPHONE = 8000  # Hz
_TAPS = 255


@implements(specs.Gain)
class Gain(nn.Module):
    """A factor for each utterance."""

    def __init__(self, spec: specs.Gain) -> None:
        super().__init__()
        self.spec = spec

    def forward(self, audio: Tensor, audio_len: Tensor) -> Tensor:
        """(B, T), (B,) -> (B, T)."""
        if not self.training:
            return audio
        decibels = draw_uniform(len(audio), self.spec.decibels)
        touched = torch.tensor(draw_rows(len(audio), self.spec.probability), dtype=torch.bool)
        factor = torch.where(touched, 10 ** (decibels / 20), 1.0)
        return silent_beyond(audio * factor.to(audio)[:, None], audio_len)


@implements(specs.TimeShift)
class TimeShift(nn.Module):
    """Each utterance begins some samples later or earlier."""

    def __init__(self, spec: specs.TimeShift) -> None:
        super().__init__()
        self.spec = spec

    def forward(self, audio: Tensor, audio_len: Tensor) -> Tensor:
        """(B, T), (B,) -> (B, T)."""
        if not self.training:
            return audio
        milliseconds = draw_uniform(len(audio), self.spec.milliseconds)
        touched = torch.tensor(draw_rows(len(audio), self.spec.probability), dtype=torch.bool)
        shift = torch.where(touched, (milliseconds * self.spec.rate / 1000).round(), 0.0).long()
        size = audio.shape[-1]
        source = torch.arange(size, device=audio.device) - shift.to(audio.device)[:, None]
        moved = audio.gather(1, source.clamp(0, max(size - 1, 0)))
        inside = (source >= 0) & (source < audio_len[:, None])
        return silent_beyond(moved.masked_fill(~inside, 0), audio_len)


@implements(specs.WhiteNoise)
class WhiteNoise(nn.Module):
    """Normal numbers of a level drawn for each utterance."""

    def __init__(self, spec: specs.WhiteNoise) -> None:
        super().__init__()
        self.spec = spec

    def forward(self, audio: Tensor, audio_len: Tensor) -> Tensor:
        """(B, T), (B,) -> (B, T)."""
        if not self.training:
            return audio
        decibels = draw_uniform(len(audio), self.spec.decibels)
        touched = torch.tensor(draw_rows(len(audio), self.spec.probability), dtype=torch.bool)
        level = torch.where(touched, 10 ** (decibels / 20), 0.0).to(audio)
        return silent_beyond(audio + level[:, None] * torch.randn_like(audio), audio_len)


@implements(specs.TelephoneBand)
class TelephoneBand(nn.Module):
    """Down to 8 kHz, through a band-pass and G.711, and up again."""

    def __init__(self, spec: specs.TelephoneBand) -> None:
        super().__init__()
        self.spec = spec
        self._filter = band_pass(spec.low / _TELEPHONE, spec.high / _TELEPHONE, _TAPS)

    def forward(self, audio: Tensor, audio_len: Tensor) -> Tensor:
        """(B, T), (B,) -> (B, T)."""
        if not self.training:
            return audio
        audio = silent_beyond(audio, audio_len)
        touched = draw_rows(len(audio), self.spec.probability)
        rows = [row for row, changes in enumerate(touched) if changes]
        if not rows or audio.shape[-1] == 0:
            return audio
        changed = audio.clone()
        changed[rows] = self.called(audio[rows], audio_len[rows])
        return changed

    def called(self, audio: Tensor, audio_len: Tensor) -> Tensor:
        """What comes out at the other end: (B, T), (B,) -> (B, T)."""
        rate, size = self.spec.rate, audio.shape[-1]
        with torch.autocast(audio.device.type, enabled=False):
            x = resample(at_least_float32(audio), rate, _TELEPHONE)
            x_len = (audio_len * _TELEPHONE + rate - 1) // rate
            x = silent_beyond(x, x_len)  # as if nothing were behind an utterance, filters ring
            x = F.conv1d(x[:, None], self._filter.to(x)[None, None], padding=_TAPS // 2)[:, 0]
            x = silent_beyond(g711(x, self.spec.law), x_len)
            x = resample(x, _TELEPHONE, rate)[:, :size]
            return silent_beyond(x, audio_len).to(audio.dtype)


def band_pass(low: float, high: float, taps: int) -> Tensor:
    """The filter that passes frequencies from `low` to `high` (in shares of the rate), in float64.

    >>> round(float(band_pass(0.0, 0.25, 255).sum()), 2)  # a constant passes
    1.0

    The ideal filter, two sincs, under a Hamming window.
    """
    place = torch.arange(taps, dtype=torch.float64) - taps // 2

    def low_pass(cutoff: float) -> Tensor:
        return 2 * cutoff * torch.sinc(2 * cutoff * place)

    window = 0.54 + 0.46 * torch.cos(2 * math.pi * place / (taps - 1))
    return (low_pass(high) - low_pass(low)) * window


def draw_uniform(count: int, bounds: tuple[float, float]) -> Tensor:
    """A number between two bounds for each utterance, on the CPU."""
    return bounds[0] + (bounds[1] - bounds[0]) * torch.rand(count, dtype=torch.float64)


def silent_beyond(audio: Tensor, audio_len: Tensor) -> Tensor:
    """Zeros where an utterance has ended."""
    return audio.masked_fill(~frame_mask(audio_len, audio.shape[-1]), 0)
