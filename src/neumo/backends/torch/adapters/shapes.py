"""The torch code of adapters that take anything: axes, lists, structs, several values, absent ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from neumo.backends.torch.adapters.adapter import AdapterModule
from neumo.backends.torch.lengths import frame_mask
from neumo.backends.torch.registry import implements
from neumo.graph import adapters as specs
from neumo.graph.adapters.join import PARTS
from neumo.graph.assume import Assume as Assumed


@implements(specs.Transpose)
class Transpose(AdapterModule):
    """Another order of the axes; a view."""

    def forward(self, value: Tensor) -> Tensor:
        """The axes in the order of the target."""
        return value.permute(self.spec.order)


@implements(specs.Unsqueeze)
class Unsqueeze(AdapterModule):
    """An axis of size one more."""

    def forward(self, value: Tensor) -> Tensor:
        """One axis more."""
        return value.unsqueeze(self.spec.at)


@implements(specs.Squeeze)
class Squeeze(AdapterModule):
    """An axis of size one less."""

    def forward(self, value: Tensor) -> Tensor:
        """One axis less."""
        return value.squeeze(self.spec.at)


@implements(specs.Repeat)
class Repeat(AdapterModule):
    """The value once for each step; a view."""

    def forward(self, value: Tensor, like: Tensor) -> Tensor:
        """(B, ...), (B, ..., T, ...) -> (B, ..., T, ...)."""
        at = self.spec.axis
        return value.unsqueeze(at).expand(*value.shape[:at], like.shape[at], *value.shape[at:])


@implements(specs.Stack)
class Stack(AdapterModule):
    """The innermost list as the first axis of a tensor."""

    def forward(self, value: Any) -> Any:
        """A list of N tensors (...) -> (N, ...)."""
        if all(isinstance(item, Tensor) for item in value):
            return torch.stack(tuple(value))
        return [self.forward(item) for item in value]


@implements(specs.Unstack)
class Unstack(AdapterModule):
    """The first axis of a tensor, or of each tensor of a list, as a list."""

    def forward(self, value: Any) -> Any:
        """(N, ...) -> a list of N tensors (...)."""
        if isinstance(value, Tensor):
            return list(value.unbind(0))
        return [self.forward(item) for item in value]


@implements(specs.Pick)
class Pick(AdapterModule):
    """One entry of a mapping, or of each mapping in a list."""

    def forward(self, value: Any) -> Any:
        """A mapping -> what it holds under the name of the field."""
        if isinstance(value, Mapping):
            return value[self.spec.field]
        return [self.forward(item) for item in value]


@implements(specs.Concat)
class Concat(AdapterModule):
    """The parts side by side along one axis."""

    def forward(self, **parts: Tensor) -> Tensor:
        """(..., F1, ...), (..., F2, ...) -> (..., F1 + F2, ...)."""
        return torch.cat([parts[name] for name in PARTS[: self.spec.parts]], dim=self.spec.axis)


@implements(specs.Append)
class Append(AdapterModule):
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
class Default(AdapterModule):
    """A constant with the shape of `like` where the value is absent."""

    _KINDS: ClassVar = {"float": torch.float32, "int": torch.int64, "bool": torch.bool, None: None}

    def forward(self, value: Tensor | None, like: Tensor) -> Tensor:
        """The shape of `like`."""
        if value is not None:
            return value
        return torch.full_like(like, self.spec.fill, dtype=self._KINDS[self.spec.numbers])


@implements(specs.Fallback)
class Fallback(AdapterModule):
    """The other value where the first is absent."""

    def forward(self, value: Tensor | None, otherwise: Tensor) -> Tensor:
        """Any shape."""
        return otherwise if value is None else value


@implements(Assumed)
class Assume(AdapterModule):
    """The value as it is: what is claimed of it is checked at the boundary."""

    def forward(self, value: Tensor) -> Tensor:
        """Any shape."""
        return value
