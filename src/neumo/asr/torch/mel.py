"""The log-mel front-end, numerically that of the public checkpoints.

Order: dither, pre-emphasis, STFT, power, mel filters, logarithm, normalisation over the valid frames, mask,
padding. Shapes: B utterances, T samples, N frames, K frequencies, F mel bands.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.backends.torch.lengths import at_least_float32, frame_mask
from neumo.backends.torch.registry import implements
from neumo.nn.spectrum import analysis_window, mel_filters, normalise, pad_signal, power_spectrum


class MelFrames(NamedTuple):
    """Frames and how many of them are valid."""

    mel: Tensor  # (B, F, N)
    mel_len: Tensor  # (B,)


@implements(specs.MelSpectrogram)
class MelSpectrogram(nn.Module):
    """Samples to (log-)mel frames; runs in float32 inside autocast, and in float64 when given float64."""

    def __init__(self, spec: specs.MelSpectrogram) -> None:
        super().__init__()
        self.spec = spec
        self.window = analysis_window(spec.window, spec.win, periodic=spec.periodic)
        self.filters = mel_filters(
            spec.rate,
            spec.n_fft,
            spec.n_mels,
            spec.fmin,
            spec.highest,
            scale=spec.mel_scale,
            area_norm=spec.area_norm,
        )
        self._ready: dict[tuple[torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}

    def forward(self, audio: Tensor, audio_len: Tensor) -> MelFrames:
        """(B, T), (B,) -> (B, F, N), (B,)."""
        with torch.autocast(audio.device.type, enabled=False):
            mel = self._log(self._mel_power(at_least_float32(audio), audio_len))
            mel = mel[..., : self.spec.frames(audio.shape[-1])]
            mel_len = self.spec.frames(audio_len)
            return MelFrames(self._pad(self._normalise(mel, mel_len)), mel_len)

    def _mel_power(self, audio: Tensor, audio_len: Tensor) -> Tensor:  # (B, T) -> (B, F, T // hop + 1)
        window, filters = self._tables(audio)
        spec = self.spec
        signal = self._emphasise(self._dither(audio))
        signal = signal.masked_fill(~frame_mask(audio_len, audio.shape[-1]), 0)
        # The STFT centres a window of `win` in `n_fft` samples and its first frame on the first sample.
        left = spec.n_fft // 2 - (spec.n_fft - spec.win) // 2
        padded = pad_signal(signal, audio_len, left, spec.win - left, reflect=spec.pad_mode == "reflect")
        power = power_spectrum(padded, window, hop=spec.hop, n_fft=spec.n_fft)
        if spec.power != 2:
            power = power.pow(spec.power / 2)
        return filters @ power.transpose(1, 2)

    def _tables(self, audio: Tensor) -> tuple[Tensor, Tensor]:
        """Window and filters beside the audio; computed in float64 and never part of the weights."""
        key = (audio.device, audio.dtype)
        if key not in self._ready:
            self._ready[key] = (self.window.to(audio), self.filters.to(audio))
        return self._ready[key]

    def _dither(self, audio: Tensor) -> Tensor:
        if not self.training or self.spec.dither == 0:
            return audio
        return audio + self.spec.dither * torch.randn_like(audio)

    def _emphasise(self, audio: Tensor) -> Tensor:  # y[t] = x[t] - a x[t - 1], the first sample kept
        if self.spec.preemphasis == 0:
            return audio
        return audio - self.spec.preemphasis * F.pad(audio, (1, 0))[:, :-1]

    def _log(self, mel: Tensor) -> Tensor:
        if not self.spec.log:
            return mel
        floor = self.spec.floor
        return (mel + floor if self.spec.floor_mode == "add" else mel.clamp(min=floor)).log()

    def _normalise(self, mel: Tensor, mel_len: Tensor) -> Tensor:
        if self.spec.norm == "none":
            return mel.masked_fill(~frame_mask(mel_len, mel.shape[-1])[:, None, :], 0)
        return normalise(mel, mel_len, over=self.spec.norm)

    def _pad(self, mel: Tensor) -> Tensor:
        if self.spec.pad_to == 0:
            return mel
        return F.pad(mel, (0, -mel.shape[-1] % self.spec.pad_to))
