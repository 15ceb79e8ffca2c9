"""The processes of one training: what the engine asks of them, and the world of a process that is alone.

Rank 0 decides and writes, the others follow. What travels is numbers and text (JSON), never pickled objects.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol


class World(Protocol):
    """All processes that compute together; every method but the properties is called by all, in one order."""

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        ...

    @property
    def size(self) -> int:
        """How many processes there are."""
        ...

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """Add numbers up over all processes, position by position, in float64; all get the sums."""
        ...

    def largest(self, numbers: Sequence[float]) -> list[float]:
        """Take the largest number of all processes, position by position; all get them."""
        ...

    def gather(self, data: bytes) -> list[bytes]:
        """Bring the data of all processes to rank 0, in the order of the ranks; the others get []."""
        ...

    def share(self, data: bytes) -> bytes:
        """Give all processes the data of rank 0."""
        ...

    def wait(self) -> None:
        """Wait until all processes are here."""
        ...


class Alone:
    """The world of a process that computes by itself.

    >>> world = Alone()
    >>> world.rank, world.size, world.sum([1.0, 2.0]), world.gather(b"x"), world.share(b"y")
    (0, 1, [1.0, 2.0], [b'x'], b'y')
    """

    rank = 0
    size = 1

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """Give the numbers back."""
        return list(numbers)

    def largest(self, numbers: Sequence[float]) -> list[float]:
        """Give the numbers back."""
        return list(numbers)

    def gather(self, data: bytes) -> list[bytes]:
        """Give the data back."""
        return [data]

    def share(self, data: bytes) -> bytes:
        """Give the data back."""
        return data

    def wait(self) -> None:
        """Wait for nobody."""


def together(world: World, what: Any) -> list[Any]:
    """Give every process what each of them has, in the order of the ranks; it must be fit for JSON.

    >>> together(Alone(), {"bad": ["a.wav"]})
    [{'bad': ['a.wav']}]
    """
    if world.size == 1:
        return [what]
    gathered = world.gather(json.dumps(what).encode())
    whole = b"[" + b",".join(gathered) + b"]"
    return json.loads(world.share(whole))


def first_says(world: World, what: Any) -> Any:
    """Give every process what the first one has; it must be fit for JSON."""
    return what if world.size == 1 else json.loads(world.share(json.dumps(what).encode()))
