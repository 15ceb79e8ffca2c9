"""The front-ends in torch: linear spectrogram, (log-)mel spectrogram, mel cepstrum, and stacked frames.

Shapes: B utterances, T samples, N frames, K frequencies, F features.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.asr.torch.frontend import FrontEnd
from neumo.backends.torch.lengths import frame_mask
from neumo.backends.torch.registry import implements
from neumo.nn.spectrum import cosine_transform, mel_filters


class SpectrogramFrames(NamedTuple):
    """Frames and how many of them are valid."""

    spectrogram: Tensor  # (B, K, N)
    spectrogram_len: Tensor  # (B,)


class MelFrames(NamedTuple):
    """Frames and how many of them are valid."""

    mel: Tensor  # (B, F, N)
    mel_len: Tensor  # (B,)


class CepstrumFrames(NamedTuple):
    """Frames and how many of them are valid."""

    mfcc: Tensor  # (B, F, N)
    mfcc_len: Tensor  # (B,)


@implements(specs.LinearSpectrogram)
class LinearSpectrogram(FrontEnd):
    """Samples to the powers (or magnitudes) of all frequencies."""

    def __init__(self, spec: specs.LinearSpectrogram) -> None:
        super().__init__(spec)

    def forward(self, audio: Tensor, audio_len: Tensor) -> SpectrogramFrames:
        """(B, T), (B,) -> (B, K, N), (B,)."""
        return SpectrogramFrames(*self.features(audio, audio_len))


@implements(specs.MelSpectrogram)
class MelSpectrogram(FrontEnd):
    """Samples to (log-)mel frames."""

    def __init__(self, spec: specs.MelSpectrogram) -> None:
        super().__init__(spec, _filters(spec))

    def forward(self, audio: Tensor, audio_len: Tensor) -> MelFrames:
        """(B, T), (B,) -> (B, F, N), (B,)."""
        return MelFrames(*self.features(audio, audio_len))


@implements(specs.MelCepstrum)
class MelCepstrum(FrontEnd):
    """Samples to the cosine transform of log-mel frames."""

    def __init__(self, spec: specs.MelCepstrum) -> None:
        transform = cosine_transform(spec.n_mfcc, spec.n_mels)
        if spec.lifter:
            order = torch.arange(1, spec.n_mfcc + 1, dtype=torch.float64)
            transform *= 1 + spec.lifter / 2 * torch.sin(math.pi * order / spec.lifter)[:, None]
        super().__init__(spec, _filters(spec), transform)

    def forward(self, audio: Tensor, audio_len: Tensor) -> CepstrumFrames:
        """(B, T), (B,) -> (B, F, N), (B,)."""
        return CepstrumFrames(*self.features(audio, audio_len))


@implements(specs.StackFrames)
class StackFrames(nn.Module):
    """Each frame with those behind it, zeros behind the last."""

    def __init__(self, spec: specs.StackFrames) -> None:
        super().__init__()
        self.spec = spec

    def forward(self, mel: Tensor, mel_len: Tensor) -> Tensor:
        """(B, F, N), (B,) -> (B, n F, N)."""
        mel = mel.masked_fill(~frame_mask(mel_len, mel.shape[-1])[:, None, :], 0)
        ahead = F.pad(mel, (0, self.spec.frames - 1))
        stacked = torch.cat([ahead[..., n : n + mel.shape[-1]] for n in range(self.spec.frames)], dim=1)
        return stacked.masked_fill(~frame_mask(mel_len, mel.shape[-1])[:, None, :], 0)


def _filters(spec: specs.MelSpectrogram) -> Tensor:
    return mel_filters(
        spec.rate,
        spec.n_fft,
        spec.n_mels,
        spec.fmin,
        spec.highest,
        scale=spec.mel_scale,
        area_norm=spec.area_norm,
    )
