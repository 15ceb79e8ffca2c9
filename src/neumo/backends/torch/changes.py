"""Which weights have changed since they were drawn or loaded, whoever trained them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from weakref import ref

import torch
from torch import Tensor, nn

_PROBES = 16  # numbers of each weight that are looked at; a step of training changes them all, or nearly


@dataclass(frozen=True, eq=False)
class _Seen:
    """A weight as it was: how often torch had written to it, and some of its numbers."""

    weight: ref[nn.Parameter]
    count: int
    numbers: Tensor


class Changes:
    """Remembers weights as they are, and says later whether any of them was written to.

    >>> layer, changes = nn.Linear(2, 2), Changes()
    >>> changes.watch(layer.parameters())
    >>> changes.any(layer.parameters())
    False
    >>> layer(torch.ones(1, 2)).sum().backward()
    >>> torch.optim.SGD(layer.parameters(), lr=0.1).step()
    >>> changes.any(layer.parameters())
    True

    Torch counts how often it writes to a tensor, but for fused optimizers, whose work some of the numbers
    show. Moving weights to another device or precision is no change. Weights that were never watched have not
    changed.
    """

    def __init__(self) -> None:
        self._seen: dict[int, _Seen] = {}

    def watch(self, weights: Iterable[nn.Parameter], *, again: bool = True) -> None:
        """Remember weights as they are now; with `again=False` only those that are not known yet."""
        for weight in weights:
            if again or self._known(weight) is None:
                self._seen[id(weight)] = _Seen(ref(weight), weight._version, _probe(weight).clone())

    def any(self, weights: Iterable[nn.Parameter]) -> bool:
        """Say whether one of the weights was written to since it was remembered."""
        pairs = [(weight, known) for weight in weights if (known := self._known(weight)) is not None]
        return any(weight._version != known.count for weight, known in pairs) or any(
            _differ(known.numbers, _probe(weight)) for weight, known in pairs
        )

    def _known(self, weight: nn.Parameter) -> _Seen | None:
        known = self._seen.get(id(weight))
        return known if known is not None and known.weight() is weight else None


def _probe(weight: nn.Parameter) -> Tensor:
    """Some numbers of a weight, from all over it; none where a weight has no numbers."""
    flat = weight.detach().reshape(-1)
    if flat.device.type == "meta":
        return torch.empty(0)
    return flat[:: max(1, flat.numel() // _PROBES)]


def _differ(before: Tensor, now: Tensor) -> bool:
    if before.shape != now.shape:
        return before.numel() > 0 and now.numel() > 0  # else it is on device "meta", or was
    return not torch.allclose(before.to(now), now, rtol=0.0, atol=0.0, equal_nan=True)
