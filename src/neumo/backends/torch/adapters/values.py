"""The torch code of adapters that change what numbers mean: sound, spectra, scores, losses, images."""

from __future__ import annotations

import torch
from torch import Tensor

from neumo.backends.torch.adapters.adapter import AdapterModule
from neumo.backends.torch.lengths import at_least_float32, frame_mask
from neumo.backends.torch.registry import implements
from neumo.backends.torch.resample import resample
from neumo.graph import adapters as specs


@implements(specs.Resample)
class Resample(AdapterModule):
    """Band-limited interpolation; the samples beyond an utterance's end stay silent."""

    def forward(self, audio: Tensor, audio_len: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(B, T), (B,) -> (B, ceil(T * target / source)), (B,)."""
        if audio_len is None:
            audio_len = torch.full((audio.shape[0],), audio.shape[-1], device=audio.device)
        audio = audio * frame_mask(audio_len, audio.shape[-1])
        changed = resample(audio, self.spec.source, self.spec.target)
        changed_len = -(-audio_len * self.spec.target // self.spec.source)
        return changed * frame_mask(changed_len, changed.shape[-1]), changed_len


@implements(specs.Repeak)
class Repeak(AdapterModule):
    """16-bit integers become floats on the way."""

    def forward(self, audio: Tensor) -> Tensor:
        """Any shape."""
        return audio * (self.spec.target / self.spec.source)


@implements(specs.Mono)
class Mono(AdapterModule):
    """The mean of the channels: (B, C, T) -> (B, T)."""

    def forward(self, audio: Tensor) -> Tensor:
        """(B, C, T) -> (B, T)."""
        return audio.mean(dim=1)


@implements(specs.Rescale)
class Rescale(AdapterModule):
    """Another logarithm is a factor; no logarithm is the exponential of natural ones."""

    def forward(self, mel: Tensor) -> Tensor:
        """Any shape."""
        scaled = (mel.log() if self.spec.source == "linear" else mel) * self.spec.multiplier
        return scaled.exp() if self.spec.target == "linear" else scaled


@implements(specs.Repower)
class Repower(AdapterModule):
    """A square or a root; in the logarithm a factor; decibels are the same of both."""

    def forward(self, spectrogram: Tensor) -> Tensor:
        """Any shape."""
        if self.spec.scale == "db":
            return spectrogram
        if self.spec.scale == "linear":
            return spectrogram.square() if self.spec.target == 2 else spectrogram.sqrt()
        return spectrogram * (2.0 if self.spec.target == 2 else 0.5)


@implements(specs.LogSoftmax)
class LogSoftmax(AdapterModule):
    """Over the last axis, in at least float32."""

    def forward(self, logits: Tensor) -> Tensor:
        """(..., V) -> (..., V)."""
        return at_least_float32(logits).log_softmax(dim=-1)


@implements(specs.Softmax)
class Softmax(AdapterModule):
    """Over the last axis, in at least float32."""

    def forward(self, logits: Tensor) -> Tensor:
        """(..., V) -> (..., V)."""
        return at_least_float32(logits).softmax(dim=-1)


@implements(specs.Exp)
class Exp(AdapterModule):
    """Log-probabilities to probabilities."""

    def forward(self, log_probs: Tensor) -> Tensor:
        """Any shape."""
        return log_probs.exp()


@implements(specs.Log)
class Log(AdapterModule):
    """Probabilities to log-probabilities; a probability of 0 is held at the smallest positive number."""

    def forward(self, probs: Tensor) -> Tensor:
        """Any shape."""
        return probs.clamp(min=torch.finfo(probs.dtype).tiny).log()


@implements(specs.Reorder)
class Reorder(AdapterModule):
    """Picks the columns of the last axis in the order of the target vocabulary."""

    def forward(self, scores: Tensor) -> Tensor:
        """(..., V) -> (..., V)."""
        order = [self.spec.source.index(label) for label in self.spec.target]
        return scores[..., torch.tensor(order, device=scores.device)]


@implements(specs.Reduce)
class Reduce(AdapterModule):
    """The mean or the sum over the rows, in at least float32."""

    def forward(self, loss: Tensor) -> Tensor:
        """(B,) -> ()."""
        loss = at_least_float32(loss)
        return loss.mean() if self.spec.how == "mean" else loss.sum()


@implements(specs.ScalePixels)
class ScalePixels(AdapterModule):
    """Bytes become floats on the way."""

    def forward(self, image: Tensor) -> Tensor:
        """Any shape."""
        return image * (self.spec.target / self.spec.source)


@implements(specs.FlipChannels)
class FlipChannels(AdapterModule):
    """The colours in the opposite order."""

    def forward(self, image: Tensor) -> Tensor:
        """Any shape with three channels along `axis`."""
        return image.flip(self.spec.axis)


@implements(specs.Spread)
class Spread(AdapterModule):
    """log variance = 2 log std; in at least float32."""

    def forward(self, spread: Tensor) -> Tensor:
        """Any shape."""
        spread = at_least_float32(spread)
        return (0.5 * spread).exp() if self.spec.target == "std" else 2 * spread.log()


@implements(specs.UnitNorm)
class UnitNorm(AdapterModule):
    """Over the last axis; an embedding of zeros stays as it is."""

    def forward(self, speaker: Tensor) -> Tensor:
        """(..., F) -> (..., F)."""
        return torch.nn.functional.normalize(speaker, dim=-1)
