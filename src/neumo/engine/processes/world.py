"""The processes of one training: what the engine asks of them, and the world of a process that is alone.

Rank 0 decides and writes, the others follow. What travels is numbers and text (JSON), never pickled objects.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from neumo.types.errors import BackendError, NeumoError


class World(Protocol):
    """All processes that compute together; every method but the properties is called by all, in one order.

    `what` says in words what an exchange is about. Where processes meet in different exchanges, they raise
    `BackendError`, which names what each of them is about.
    """

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        ...

    @property
    def size(self) -> int:
        """How many processes there are."""
        ...

    def sum(self, numbers: Sequence[float], what: str = "") -> list[float]:
        """Add numbers up over all processes, position by position, in float64; all get the sums."""
        ...

    def largest(self, numbers: Sequence[float], what: str = "") -> list[float]:
        """Take the largest number of all processes, position by position; all get them."""
        ...

    def gather(self, data: bytes, what: str = "") -> list[bytes]:
        """Bring the data of all processes to rank 0, in the order of the ranks; the others get []."""
        ...

    def share(self, data: bytes, what: str = "") -> bytes:
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

    def sum(self, numbers: Sequence[float], what: str = "") -> list[float]:
        """Give the numbers back."""
        return list(numbers)

    def largest(self, numbers: Sequence[float], what: str = "") -> list[float]:
        """Give the numbers back."""
        return list(numbers)

    def gather(self, data: bytes, what: str = "") -> list[bytes]:
        """Give the data back."""
        return [data]

    def share(self, data: bytes, what: str = "") -> bytes:
        """Give the data back."""
        return data

    def wait(self) -> None:
        """Wait for nobody."""


def together(world: World, mine: Any, what: str = "") -> list[Any]:
    """Give every process what each of them has, in the order of the ranks; it must be fit for JSON.

    >>> together(Alone(), {"bad": ["a.wav"]})
    [{'bad': ['a.wav']}]
    """
    if world.size == 1:
        return [mine]
    gathered = world.gather(json.dumps(mine).encode(), what)
    whole = b"[" + b",".join(gathered) + b"]"
    return json.loads(world.share(whole, what))


def first_says(world: World, mine: Any, what: str = "") -> Any:
    """Give every process what the first one has; it must be fit for JSON."""
    return mine if world.size == 1 else json.loads(world.share(json.dumps(mine).encode(), what))


def share_trouble(world: World, trouble: Exception | None, what: str = "") -> None:
    """Raise in every process if there is trouble in one; all call it, at the same point."""
    if not world.largest([float(trouble is not None)], what)[0]:
        return
    told = together(world, _said(trouble) if trouble is not None else "", what)
    if trouble is not None:
        raise trouble
    rank = next(rank for rank, text in enumerate(told) if text)
    raise BackendError(
        f"process {rank} failed: {told[rank]}",
        code="other-process",
        why="What one process cannot compute is missing for all, so they stop together.",
        fixes=[f"look at the error of process {rank}"],
    )


@contextmanager
def sharing_trouble(world: World, what: str = "") -> Generator[None, None, None]:
    """Let what goes wrong within, in any process, end all of them; what only one does belongs into it.

    >>> with sharing_trouble(Alone(), "the report"):
    ...     print("written")
    written

    Each process raises its own error, the others a `BackendError` that names it. There is no exchange within:
    whoever failed before it would be missing.
    """
    trouble: Exception | None = None
    try:
        yield
    except Exception as error:
        trouble = error
    share_trouble(world, trouble, what)


def _said(trouble: Exception) -> str:
    return trouble.what if isinstance(trouble, NeumoError) else f"{type(trouble).__name__}: {trouble}"
