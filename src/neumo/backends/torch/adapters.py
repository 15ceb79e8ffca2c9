"""The torch code of the adapters in `neumo.graph.adapters`: one small module each, without weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from neumo.backends.torch.lengths import at_least_float32, frame_mask
from neumo.backends.torch.registry import implements
from neumo.backends.torch.resample import resample
from neumo.graph import adapters as specs
from neumo.graph.adapters_join import PARTS
from neumo.graph.assume import Assume as Assumed


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
        scaled = (mel.log() if self.spec.source == "linear" else mel) * self.spec.multiplier
        return scaled.exp() if self.spec.target == "linear" else scaled


@implements(specs.Repower)
class Repower(_Adapter):
    """A square or a root; in the logarithm a factor; decibels are the same of both."""

    def forward(self, spectrogram: Tensor) -> Tensor:
        """Any shape."""
        if self.spec.scale == "db":
            return spectrogram
        if self.spec.scale == "linear":
            return spectrogram.square() if self.spec.target == 2 else spectrogram.sqrt()
        return spectrogram * (2.0 if self.spec.target == 2 else 0.5)


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


@implements(specs.Reduce)
class Reduce(_Adapter):
    """The mean or the sum over the rows, in at least float32."""

    def forward(self, loss: Tensor) -> Tensor:
        """(B,) -> ()."""
        loss = at_least_float32(loss)
        return loss.mean() if self.spec.how == "mean" else loss.sum()


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


@implements(specs.Reframe)
class Reframe(_Adapter):
    """Takes marks off and puts marks on; what is behind the new end becomes the pad."""

    def forward(self, ids: Tensor, ids_len: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(B, U), (B,) -> (B, U + longer), (B,)."""
        spec, vocab = self.spec, self.spec.vocab
        rows, size = ids.shape
        if ids_len is None:
            ids_len = torch.full((rows,), size, device=ids.device)
        if spec.adds("bos") < 0:
            ids = ids[:, 1:]
        elif spec.adds("bos") > 0:
            ids = torch.cat([ids.new_full((rows, 1), vocab.bos), ids], dim=1)
        if spec.adds("eos") < 0:
            ids = ids[:, :-1]
        elif spec.adds("eos") > 0:
            ids = torch.cat([ids, ids.new_full((rows, 1), spec.pad)], dim=1)
        length = (ids_len + spec.longer).clamp(min=0)
        if spec.adds("eos") > 0:
            ids = ids.scatter(1, (length - 1)[:, None], vocab.eos)
        if spec.adds("eos"):
            ids = ids.masked_fill(~frame_mask(length, ids.shape[1]), spec.pad)
        return ids, length


@implements(specs.Shift)
class Shift(_Adapter):
    """The next id at each position, and the pad at the last one."""

    def forward(self, ids: Tensor) -> Tensor:
        """(..., U) -> (..., U)."""
        return torch.cat([ids[..., 1:], torch.full_like(ids[..., :1], self.spec.pad)], dim=-1)


@implements(specs.Invert)
class Invert(_Adapter):
    """True becomes False."""

    def forward(self, mask: Tensor) -> Tensor:
        """Any shape."""
        return ~mask


@implements(specs.MaskToLengths)
class MaskToLengths(_Adapter):
    """The number of positions of each row that are kept."""

    def forward(self, mask: Tensor) -> Tensor:
        """(..., T) -> (...)."""
        return (mask if self.spec.true == "keep" else ~mask).sum(dim=-1)


@implements(specs.LengthsToMask)
class LengthsToMask(_Adapter):
    """As many True positions as the length says, or the opposite."""

    def forward(self, lengths: Tensor, like: Tensor) -> Tensor:
        """(B,), (B, ..., T, ...) -> (B, T)."""
        inside = frame_mask(lengths, like.shape[self.spec.axis])
        return inside if self.spec.true == "keep" else ~inside


@implements(specs.FractionToCount)
class FractionToCount(_Adapter):
    """A share of the axis as a whole number, rounded to the nearest."""

    def forward(self, lengths: Tensor, like: Tensor) -> Tensor:
        """(B,), (B, ..., T, ...) -> (B,)."""
        return (at_least_float32(lengths) * like.shape[self.spec.axis]).round().long()


@implements(specs.CountToFraction)
class CountToFraction(_Adapter):
    """A number of frames as a share of the axis; nothing of nothing is 0."""

    def forward(self, lengths: Tensor, like: Tensor) -> Tensor:
        """(B,), (B, ..., T, ...) -> (B,)."""
        return lengths.to(torch.float32) / max(1, like.shape[self.spec.axis])


@implements(specs.FullLengths)
class FullLengths(_Adapter):
    """The size of the axis for every row where no lengths are given."""

    def forward(self, lengths: Tensor | None, like: Tensor) -> Tensor:
        """(B,), (B, ..., T, ...) -> (B,)."""
        if lengths is not None:
            return lengths
        return torch.full((like.shape[0],), like.shape[self.spec.axis], device=like.device)


@implements(specs.Subsample)
class Subsample(_Adapter):
    """Lengths after a stride."""

    def forward(self, lengths: Tensor) -> Tensor:
        """Any shape."""
        extra = self.spec.by - 1 if self.spec.rounding == "ceil" else 0
        return (lengths + extra) // self.spec.by


@implements(specs.Upsample)
class Upsample(_Adapter):
    """Lengths after an up-sampling."""

    def forward(self, lengths: Tensor) -> Tensor:
        """Any shape."""
        return lengths * self.spec.by


@implements(specs.Offset)
class Offset(_Adapter):
    """Lengths that are longer or shorter by a constant, but never below 0."""

    def forward(self, lengths: Tensor) -> Tensor:
        """Any shape."""
        return (lengths + self.spec.by).clamp(min=0)


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


@implements(specs.Stack)
class Stack(_Adapter):
    """The innermost list as the first axis of a tensor."""

    def forward(self, value: Any) -> Any:
        """A list of N tensors (...) -> (N, ...)."""
        if all(isinstance(item, Tensor) for item in value):
            return torch.stack(tuple(value))
        return [self.forward(item) for item in value]


@implements(specs.Unstack)
class Unstack(_Adapter):
    """The first axis of a tensor, or of each tensor of a list, as a list."""

    def forward(self, value: Any) -> Any:
        """(N, ...) -> a list of N tensors (...)."""
        if isinstance(value, Tensor):
            return list(value.unbind(0))
        return [self.forward(item) for item in value]


@implements(specs.Pick)
class Pick(_Adapter):
    """One entry of a mapping, or of each mapping in a list."""

    def forward(self, value: Any) -> Any:
        """A mapping -> what it holds under the name of the field."""
        if isinstance(value, Mapping):
            return value[self.spec.field]
        return [self.forward(item) for item in value]


@implements(specs.ScalePixels)
class ScalePixels(_Adapter):
    """Bytes become floats on the way."""

    def forward(self, image: Tensor) -> Tensor:
        """Any shape."""
        return image * (self.spec.target / self.spec.source)


@implements(specs.FlipChannels)
class FlipChannels(_Adapter):
    """The colours in the opposite order."""

    def forward(self, image: Tensor) -> Tensor:
        """Any shape with three channels along `axis`."""
        return image.flip(self.spec.axis)


@implements(specs.Concat)
class Concat(_Adapter):
    """The parts side by side along one axis."""

    def forward(self, **parts: Tensor) -> Tensor:
        """(..., F1, ...), (..., F2, ...) -> (..., F1 + F2, ...)."""
        return torch.cat([parts[name] for name in PARTS[: self.spec.parts]], dim=self.spec.axis)


@implements(specs.Append)
class Append(_Adapter):
    """Each row of the second sequence goes to where the real part of the first one ends."""

    def forward(
        self,
        first: Tensor,
        second: Tensor,
        first_len: Tensor | None = None,
        second_len: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """(B, ..., T1, ...), (B, ..., T2, ...), (B,), (B,) -> (B, ..., T1 + T2, ...), (B,)."""
        one, two = first.movedim(self.spec.axis, 1), second.movedim(self.spec.axis, 1)
        if first_len is None:
            first_len = torch.full((one.shape[0],), one.shape[1], device=one.device)
        if second_len is None:
            second_len = torch.full((two.shape[0],), two.shape[1], device=two.device)
        both = torch.cat([one, two], dim=1)
        length = first_len + second_len
        place = torch.arange(both.shape[1], device=both.device)[None]
        behind = place - first_len[:, None] + one.shape[1]  # where the second sequence stands in `both`
        source = torch.where(place < first_len[:, None], place, behind.clamp(max=both.shape[1] - 1))
        index = source.reshape(source.shape + (1,) * (both.dim() - 2)).expand(both.shape)
        inside = frame_mask(length, both.shape[1]).reshape(index.shape[:2] + (1,) * (both.dim() - 2))
        value = both.gather(1, index).masked_fill(~inside, self.spec.fill)
        return value.movedim(1, self.spec.axis), length


@implements(specs.Default)
class Default(_Adapter):
    """A constant with the shape of `like` where the value is absent."""

    _KINDS: ClassVar = {"float": torch.float32, "int": torch.int64, "bool": torch.bool, None: None}

    def forward(self, value: Tensor | None, like: Tensor) -> Tensor:
        """The shape of `like`."""
        if value is not None:
            return value
        return torch.full_like(like, self.spec.fill, dtype=self._KINDS[self.spec.numbers])


@implements(specs.Fallback)
class Fallback(_Adapter):
    """The other value where the first is absent."""

    def forward(self, value: Tensor | None, otherwise: Tensor) -> Tensor:
        """Any shape."""
        return otherwise if value is None else value


@implements(Assumed)
class Assume(_Adapter):
    """The value as it is: what is claimed of it is checked at the boundary."""

    def forward(self, value: Tensor) -> Tensor:
        """Any shape."""
        return value
