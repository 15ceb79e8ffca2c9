"""Random changes of the samples of training data with recordings: noises and rooms.

The random numbers come from torch's global generator, which a training step seeds; they are drawn on the CPU.
Shapes: B utterances, T samples, H samples of an impulse response.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.asr.recordings import Recordings
from neumo.asr.torch.augment import draw_rows
from neumo.asr.torch.waveform import draw_uniform, silent_beyond
from neumo.backends.torch.lengths import at_least_float32
from neumo.backends.torch.registry import implements


@implements(specs.RecordedNoise)
class RecordedNoise(nn.Module):
    """Draws a recording, a place in it and a ratio for each utterance."""

    def __init__(self, spec: specs.RecordedNoise) -> None:
        super().__init__()
        self.spec = spec
        self._recordings: Recordings | None = None

    def forward(self, audio: Tensor, audio_len: Tensor) -> Tensor:
        """(B, T), (B,) -> (B, T)."""
        if not self.training:
            return audio
        self._recordings = self._recordings or _opened(self.spec)
        count = len(audio)
        which = torch.randint(len(self._recordings), (count,)).tolist()
        places = torch.rand(count).tolist()
        ratios = draw_uniform(count, self.spec.snr).tolist()
        touched = draw_rows(count, self.spec.probability)
        changed = silent_beyond(audio, audio_len).clone()
        for row, length in enumerate(audio_len.tolist()):
            if touched[row] and length:
                noise = torch.from_numpy(self._recordings.piece(which[row], length, places[row]))
                changed[row, :length] = self._mix(changed[row, :length], noise, ratios[row])
        return changed

    def _mix(self, signal: Tensor, noise: Tensor, ratio: float) -> Tensor:
        """The sum in which the mean powers have the ratio, in dB."""
        noise = noise.to(signal.device)
        powers = _power(signal), _power(noise)
        audible = (powers[0] > 0) & (powers[1] > 0)
        gain = (powers[0] / powers[1].clamp(min=1e-300)).sqrt() * 10 ** (-ratio / 20)
        gain = torch.where(audible, gain.clamp(max=10 ** (self.spec.max_gain / 20)), 0.0)
        return (signal + gain * noise).to(signal.dtype)


@implements(specs.ImpulseResponse)
class ImpulseResponse(nn.Module):
    """Draws a room for each utterance."""

    def __init__(self, spec: specs.ImpulseResponse) -> None:
        super().__init__()
        self.spec = spec
        self._recordings: Recordings | None = None

    def forward(self, audio: Tensor, audio_len: Tensor) -> Tensor:
        """(B, T), (B,) -> (B, T)."""
        if not self.training:
            return audio
        self._recordings = self._recordings or _opened(self.spec)
        which = torch.randint(len(self._recordings), (len(audio),)).tolist()
        touched = draw_rows(len(audio), self.spec.probability)
        changed = silent_beyond(audio, audio_len).clone()
        with torch.autocast(audio.device.type, enabled=False):
            for row, length in enumerate(audio_len.tolist()):
                if touched[row] and length:
                    response = torch.from_numpy(self._recordings.whole(which[row]))
                    changed[row, :length] = in_room(changed[row, :length], response)
        return changed


def in_room(signal: Tensor, response: Tensor) -> Tensor:
    """A signal as heard in a room, in time with the direct sound and of the same power: (T,), (H,) -> (T,).

    >>> in_room(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 2.0, 0.0]))
    tensor([1., 0., 0.])

    A response of silence changes nothing.
    """
    samples, delay = signal.shape[0], int(response.abs().argmax())
    x = at_least_float32(signal)
    size = 1 << (samples + response.shape[0] - 1).bit_length()
    product = torch.fft.rfft(x, n=size) * torch.fft.rfft(response.to(x), n=size)
    heard = torch.fft.irfft(product, n=size)[delay : delay + samples]
    power = _power(heard)
    gain = (_power(signal) / power.clamp(min=1e-300)).sqrt()
    return torch.where(power > 0, (gain * heard), x.double()).to(signal.dtype)


def _power(x: Tensor) -> Tensor:
    return x.double().square().mean()


def _opened(spec: specs.RecordedNoise | specs.ImpulseResponse) -> Recordings:
    return Recordings(spec.manifest, rate=spec.rate, limit=spec.cache_limit)
