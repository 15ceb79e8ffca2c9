"""The torch code of adapters of rows: ids, masks and lengths."""

from __future__ import annotations

import torch
from torch import Tensor

from neumo.backends.torch.adapters.adapter import AdapterModule
from neumo.backends.torch.lengths import at_least_float32, frame_mask
from neumo.backends.torch.registry import implements
from neumo.graph import adapters as specs


@implements(specs.RemapIds)
class RemapIds(AdapterModule):
    """Looks each id up in a table; negative ids are no labels and stay."""

    def forward(self, ids: Tensor) -> Tensor:
        """Any shape."""
        table = torch.tensor(self.spec.table, dtype=ids.dtype, device=ids.device)
        return torch.where(ids < 0, ids, table[ids.clamp(min=0)])


@implements(specs.Repad)
class Repad(AdapterModule):
    """Writes the new pad behind each end, or in place of the old one."""

    def forward(self, ids: Tensor, ids_len: Tensor | None = None) -> Tensor:
        """(B, U), (B,) -> (B, U)."""
        if ids_len is None:
            return ids.masked_fill(ids == self.spec.source, self.spec.target)
        return ids.masked_fill(~frame_mask(ids_len, ids.shape[-1]), self.spec.target)


@implements(specs.Reframe)
class Reframe(AdapterModule):
    """Takes marks off and puts marks on; what is behind the new end becomes the pad."""

    def forward(self, ids: Tensor, ids_len: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(B, U), (B,) -> (B, U + longer), (B,)."""
        spec, vocab = self.spec, self.spec.vocab
        rows, size = ids.shape
        is_told = ids_len is not None
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
        if is_told:
            ids = ids.masked_fill(~frame_mask(length, ids.shape[1]), spec.pad)
        return ids, length


@implements(specs.Shift)
class Shift(AdapterModule):
    """The next id at each position, and the pad at the last one."""

    def forward(self, ids: Tensor) -> Tensor:
        """(..., U) -> (..., U)."""
        return torch.cat([ids[..., 1:], torch.full_like(ids[..., :1], self.spec.pad)], dim=-1)


@implements(specs.Invert)
class Invert(AdapterModule):
    """True becomes False."""

    def forward(self, mask: Tensor) -> Tensor:
        """Any shape."""
        return ~mask


@implements(specs.MaskToLengths)
class MaskToLengths(AdapterModule):
    """The number of positions of each row that are kept."""

    def forward(self, mask: Tensor) -> Tensor:
        """(..., T) -> (...)."""
        return (mask if self.spec.true == "keep" else ~mask).sum(dim=-1)


@implements(specs.LengthsToMask)
class LengthsToMask(AdapterModule):
    """As many True positions as the length says, or the opposite."""

    def forward(self, lengths: Tensor, like: Tensor) -> Tensor:
        """(B,), (B, ..., T, ...) -> (B, T)."""
        inside = frame_mask(lengths, like.shape[self.spec.axis])
        return inside if self.spec.true == "keep" else ~inside


@implements(specs.FractionToCount)
class FractionToCount(AdapterModule):
    """A share of the axis as a whole number, rounded to the nearest."""

    def forward(self, lengths: Tensor, like: Tensor) -> Tensor:
        """(B,), (B, ..., T, ...) -> (B,)."""
        return (at_least_float32(lengths) * like.shape[self.spec.axis]).round().long()


@implements(specs.CountToFraction)
class CountToFraction(AdapterModule):
    """A number of frames as a share of the axis; nothing of nothing is 0."""

    def forward(self, lengths: Tensor, like: Tensor) -> Tensor:
        """(B,), (B, ..., T, ...) -> (B,)."""
        return lengths.to(torch.float32) / max(1, like.shape[self.spec.axis])


@implements(specs.FullLengths)
class FullLengths(AdapterModule):
    """The size of the axis for every row where no lengths are given."""

    def forward(self, lengths: Tensor | None, like: Tensor) -> Tensor:
        """(B,), (B, ..., T, ...) -> (B,)."""
        if lengths is not None:
            return lengths
        return torch.full((like.shape[0],), like.shape[self.spec.axis], device=like.device)


@implements(specs.Subsample)
class Subsample(AdapterModule):
    """Lengths after a stride."""

    def forward(self, lengths: Tensor) -> Tensor:
        """Any shape."""
        extra = self.spec.by - 1 if self.spec.rounding == "ceil" else 0
        return (lengths + extra) // self.spec.by


@implements(specs.Upsample)
class Upsample(AdapterModule):
    """Lengths after an up-sampling."""

    def forward(self, lengths: Tensor) -> Tensor:
        """Any shape."""
        return lengths * self.spec.by


@implements(specs.Offset)
class Offset(AdapterModule):
    """Lengths that are longer or shorter by a constant, but never below 0."""

    def forward(self, lengths: Tensor) -> Tensor:
        """Any shape."""
        return (lengths + self.spec.by).clamp(min=0)
