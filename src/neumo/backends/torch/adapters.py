"""The torch code of the adapters in `neumo.graph.adapters`: one small module each, without weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from neumo.backends.torch.lengths import at_least_float32, frame_mask
from neumo.backends.torch.registry import implements
from neumo.backends.torch.resample import resample
from neumo.graph import adapters as specs


class _Adapter(nn.Module):
    """Keeps the specification, which holds all that an adapter needs to know."""

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.spec = spec


@implements(specs.Resample)
class Resample(_Adapter):
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
class Repeak(_Adapter):
    """16-bit integers become floats on the way."""

    def forward(self, audio: Tensor) -> Tensor:
        """Any shape."""
        return audio * (self.spec.target / self.spec.source)


@implements(specs.Mono)
class Mono(_Adapter):
    """The mean of the channels: (B, C, T) -> (B, T)."""

    def forward(self, audio: Tensor) -> Tensor:
        """(B, C, T) -> (B, T)."""
        return audio.mean(dim=1)


@implements(specs.Rescale)
class Rescale(_Adapter):
    """Another logarithm is a factor; no logarithm is the exponential of natural ones."""

    def forward(self, mel: Tensor) -> Tensor:
        """Any shape."""
        scaled = mel * self.spec.multiplier
        return scaled.exp() if self.spec.target == "linear" else scaled


@implements(specs.LogSoftmax)
class LogSoftmax(_Adapter):
    """Over the last axis, in at least float32."""

    def forward(self, logits: Tensor) -> Tensor:
        """(..., V) -> (..., V)."""
        return at_least_float32(logits).log_softmax(dim=-1)


@implements(specs.Softmax)
class Softmax(_Adapter):
    """Over the last axis, in at least float32."""

    def forward(self, logits: Tensor) -> Tensor:
        """(..., V) -> (..., V)."""
        return at_least_float32(logits).softmax(dim=-1)


@implements(specs.Exp)
class Exp(_Adapter):
    """Log-probabilities to probabilities."""

    def forward(self, log_probs: Tensor) -> Tensor:
        """Any shape."""
        return log_probs.exp()


@implements(specs.Log)
class Log(_Adapter):
    """Probabilities to log-probabilities; a probability of 0 is held at the smallest positive number."""

    def forward(self, probs: Tensor) -> Tensor:
        """Any shape."""
        return probs.clamp(min=torch.finfo(probs.dtype).tiny).log()


@implements(specs.Reorder)
class Reorder(_Adapter):
    """Picks the columns of the last axis in the order of the target vocabulary."""

    def forward(self, scores: Tensor) -> Tensor:
        """(..., V) -> (..., V)."""
        order = [self.spec.source.index(label) for label in self.spec.target]
        return scores[..., torch.tensor(order, device=scores.device)]


@implements(specs.RemapIds)
class RemapIds(_Adapter):
    """Looks each id up in a table; negative ids are no labels and stay."""

    def forward(self, ids: Tensor) -> Tensor:
        """Any shape."""
        table = torch.tensor(self.spec.table, dtype=ids.dtype, device=ids.device)
        return torch.where(ids < 0, ids, table[ids.clamp(min=0)])


@implements(specs.Repad)
class Repad(_Adapter):
    """Writes the new pad behind each end, or in place of the old one."""

    def forward(self, ids: Tensor, ids_len: Tensor | None = None) -> Tensor:
        """(B, U), (B,) -> (B, U)."""
        if ids_len is None:
            return ids.masked_fill(ids == self.spec.source, self.spec.target)
        return ids.masked_fill(~frame_mask(ids_len, ids.shape[-1]), self.spec.target)


@implements(specs.Invert)
class Invert(_Adapter):
    """True becomes False."""

    def forward(self, mask: Tensor) -> Tensor:
        """Any shape."""
        return ~mask


@implements(specs.MaskToLengths)
class MaskToLengths(_Adapter):
    """The number of True positions of each row."""

    def forward(self, mask: Tensor) -> Tensor:
        """(..., T) -> (...)."""
        return mask.sum(dim=-1)


@implements(specs.LengthsToMask)
class LengthsToMask(_Adapter):
    """As many True positions as the length says, or the opposite."""

    def forward(self, lengths: Tensor, like: Tensor) -> Tensor:
        """(B,), (B, T, ...) -> (B, T)."""
        inside = frame_mask(lengths, like.shape[1])
        return inside if self.spec.true == "keep" else ~inside


@implements(specs.Subsample)
class Subsample(_Adapter):
    """Lengths after a stride."""

    def forward(self, lengths: Tensor) -> Tensor:
        """Any shape."""
        extra = self.spec.by - 1 if self.spec.rounding == "ceil" else 0
        return (lengths + extra) // self.spec.by


@implements(specs.Transpose)
class Transpose(_Adapter):
    """Another order of the axes; a view."""

    def forward(self, value: Tensor) -> Tensor:
        """The axes in the order of the target."""
        return value.permute(self.spec.order)


@implements(specs.Unsqueeze)
class Unsqueeze(_Adapter):
    """An axis of size one more."""

    def forward(self, value: Tensor) -> Tensor:
        """One axis more."""
        return value.unsqueeze(self.spec.at)


@implements(specs.Squeeze)
class Squeeze(_Adapter):
    """An axis of size one less."""

    def forward(self, value: Tensor) -> Tensor:
        """One axis less."""
        return value.squeeze(self.spec.at)


@implements(specs.Default)
class Default(_Adapter):
    """A constant with the shape and kind of `like` where the value is absent."""

    def forward(self, value: Tensor | None, like: Tensor) -> Tensor:
        """The shape of `like`."""
        return torch.full_like(like, self.spec.fill) if value is None else value
