"""How often each of several manifests is seen in an epoch, as a pure function of seed and epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from neumo.types.errors import ConfigError

_STREAM = 0x77656967  # random numbers of their own, apart from those of the batches and of the items


def weigh(
    indices: np.ndarray, groups: np.ndarray, weights: Sequence[float], *, seed: int, epoch: int
) -> np.ndarray:
    """Repeat or leave out items so that those of each group are seen as often as its weight says.

    `groups` holds the group of every index. A weight of 2.5 gives every item twice, and half of them a third
    time. The fractions of one epoch after the other go round: after as many epochs as the weight has parts
    every item was seen equally often. The result depends on the arguments only, so that a run that goes on
    has the batches that it would have had.

    >>> groups = np.array([0, 0, 1, 1])
    >>> weigh(np.arange(4), groups, [1, 2], seed=0, epoch=0).tolist()
    [0, 1, 2, 2, 3, 3]
    >>> halves = [weigh(np.arange(4), groups, [1, 0.5], seed=0, epoch=n)[2] for n in range(2)]
    >>> sorted(int(index) for index in halves)
    [2, 3]
    """
    times = np.zeros(len(indices), np.int64)
    for group, weight in enumerate(weights):
        members = np.flatnonzero(groups[indices] == group)
        whole = math.floor(weight)
        times[members] = whole
        share = weight - whole
        if share and len(members):
            order = np.random.default_rng([seed, group, _STREAM]).permutation(members)
            start, stop = (round(share * len(members) * n) for n in (epoch, epoch + 1))
            times[order[np.arange(start, stop) % len(members)]] += 1
    return np.repeat(indices, times)


def check_weights(weights: Sequence[float] | None, manifests: Sequence[str]) -> tuple[float, ...] | None:
    """Take one weight for each manifest, all from 0 and finite; raise `ConfigError` otherwise.

    >>> check_weights([1, 0.5], ["a.jsonl", "b.jsonl"])
    (1.0, 0.5)
    """
    if weights is None:
        return None
    if len(weights) != len(manifests):
        raise ConfigError(
            f"{len(weights)} weights are given for {len(manifests)} manifests",
            code="policy",
            details=list(manifests),
            fixes=["give one weight for each manifest, such as weights: [1, 0.5]"],
        )
    for weight, name in zip(weights, manifests, strict=True):
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
            raise ConfigError(f"the weight of {name} is {weight!r}, expected a number from 0", code="policy")
    if not any(weights):
        raise ConfigError("all weights are 0, so no recording would be seen", code="policy")
    return tuple(float(weight) for weight in weights)
