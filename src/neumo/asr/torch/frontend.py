"""What all front-ends do: dither, pre-emphasis, STFT, power, filters, logarithm, normalisation, padding.

Shapes: B utterances, T samples, N frames, K frequencies, F features.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neumo.asr.modules.frontend import LinearSpectrogram, MelSpectrogram
from neumo.backends.torch.lengths import at_least_float32, frame_mask
from neumo.nn.spectrum import analysis_window, mirror_ends, normalise, pad_signal, power_spectrum
from neumo.nn.spectrum_blocks import fits_blocks, normalise_in_place, padded_emphasis, spectrum_in_blocks


class FrontEnd(nn.Module):
    """Samples to frames of features; runs in float32 inside autocast, and in float64 when given float64.

    `filters` (F, K) turn the powers into bands, before the logarithm; `transform` (F', F) turns the bands
    into other features, behind it. Neither is trained or part of the weights; both are made in float64.
    """

    def __init__(
        self,
        spec: LinearSpectrogram | MelSpectrogram,
        filters: Tensor | None = None,
        transform: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.window = analysis_window(spec.window, spec.win, periodic=spec.periodic)
        self.filters = filters
        self.transform = transform
        self._ready: dict[tuple[torch.device, torch.dtype], tuple[Tensor | None, ...]] = {}
        # The STFT centres a window of `win` in `n_fft` samples and its first frame on the first sample.
        self._left = spec.n_fft // 2 - (spec.n_fft - spec.win) // 2

    def features(self, audio: Tensor, audio_len: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T), (B,) -> (B, F, N), (B,)."""
        with torch.autocast(audio.device.type, enabled=False):
            audio = self._dither(at_least_float32(audio))
            frames_len = self.spec.frames(audio_len)
            if fits_blocks(audio, audio_len):
                features = self._in_blocks(audio, audio_len, frames_len)
            else:
                features = self._at_once(audio, audio_len, frames_len)
            return self._pad(features), frames_len

    def _dither(self, audio: Tensor) -> Tensor:
        if not self.training or self.spec.dither == 0:
            return audio
        return audio + self.spec.dither * torch.randn_like(audio)

    def _in_blocks(self, audio: Tensor, audio_len: Tensor, frames_len: Tensor) -> Tensor:
        """The same numbers as `_at_once`, in a half to a third of the time on a CPU."""
        spec, (window, filters, transform) = self.spec, self._tables(audio)
        left, right = self._left, spec.win - self._left
        padded = padded_emphasis(audio, audio_len.tolist(), factor=spec.preemphasis, left=left, right=right)
        if spec.pad_mode == "reflect":
            padded = mirror_ends(padded, audio_len, left, right)
        assert window is not None
        features = spectrum_in_blocks(
            padded,
            window,
            filters,
            frames=spec.frames(audio.shape[-1]),
            hop=spec.hop,
            n_fft=spec.n_fft,
            power=spec.power,
        )
        if spec.log:
            features = features.add_(spec.floor) if spec.floor_mode == "add" else features.clamp_(spec.floor)
            features = features.log_()
        if transform is not None:
            features = transform @ features
        return normalise_in_place(features, frames_len.tolist(), over=spec.norm)

    def _at_once(self, audio: Tensor, audio_len: Tensor, frames_len: Tensor) -> Tensor:
        spec, (window, filters, transform) = self.spec, self._tables(audio)
        signal = self._emphasise(audio).masked_fill(~frame_mask(audio_len, audio.shape[-1]), 0)
        reflect = spec.pad_mode == "reflect"
        padded = pad_signal(signal, audio_len, self._left, spec.win - self._left, reflect=reflect)
        assert window is not None
        power = power_spectrum(padded, window, hop=spec.hop, n_fft=spec.n_fft)
        if spec.power != 2:
            power = power.pow(spec.power / 2)
        features = power.transpose(1, 2) if filters is None else filters @ power.transpose(1, 2)
        features = self._log(features)
        if transform is not None:
            features = transform @ features
        return self._normalise(features[..., : spec.frames(audio.shape[-1])], frames_len)

    def _tables(self, audio: Tensor) -> tuple[Tensor | None, ...]:
        """Window, filters and transform beside the audio."""
        key = (audio.device, audio.dtype)
        if key not in self._ready:
            tables = (self.window, self.filters, self.transform)
            self._ready[key] = tuple(None if table is None else table.to(audio) for table in tables)
        return self._ready[key]

    def _emphasise(self, audio: Tensor) -> Tensor:  # y[t] = x[t] - a x[t - 1], the first sample kept
        if self.spec.preemphasis == 0:
            return audio
        return audio - self.spec.preemphasis * F.pad(audio, (1, 0))[:, :-1]

    def _log(self, features: Tensor) -> Tensor:
        if not self.spec.log:
            return features
        floor = self.spec.floor
        return (features + floor if self.spec.floor_mode == "add" else features.clamp(min=floor)).log()

    def _normalise(self, features: Tensor, frames_len: Tensor) -> Tensor:
        if self.spec.norm == "none":
            return features.masked_fill(~frame_mask(frames_len, features.shape[-1])[:, None, :], 0)
        return normalise(features, frames_len, over=self.spec.norm)

    def _pad(self, features: Tensor) -> Tensor:
        if self.spec.pad_to == 0:
            return features
        return F.pad(features, (0, -features.shape[-1] % self.spec.pad_to))
