"""Which weights have changed since they were drawn or loaded, whoever trained them."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import ref

from torch import nn


class Changes:
    """Remembers weights as they are, and says later whether any of them was written to.

    >>> import torch
    >>> layer, changes = nn.Linear(2, 2), Changes()
    >>> changes.watch(layer.parameters())
    >>> changes.any(layer.parameters())
    False
    >>> layer(torch.ones(1, 2)).sum().backward()
    >>> torch.optim.SGD(layer.parameters(), lr=0.1).step()
    >>> changes.any(layer.parameters())
    True

    Torch counts how often it has written to a tensor; nothing is copied or compared. Weights that were never
    watched have not changed.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[ref[nn.Parameter], int]] = {}

    def watch(self, weights: Iterable[nn.Parameter], *, again: bool = True) -> None:
        """Remember weights as they are now; with `again=False` only those that are not known yet."""
        for weight in weights:
            if again or self._count(weight) is None:
                self._seen[id(weight)] = ref(weight), weight._version

    def any(self, weights: Iterable[nn.Parameter]) -> bool:
        """Say whether one of the weights was written to since it was remembered."""
        return any(self._count(weight) not in (None, weight._version) for weight in weights)

    def _count(self, weight: nn.Parameter) -> int | None:
        known, count = self._seen.get(id(weight), (None, 0))
        return count if known is not None and known() is weight else None
