"""Processes that are threads: fast, for what exchanges bytes and numbers and no gradients."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any


class _Board:
    """What the members of a world have written, one exchange after the other."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.barrier = threading.Barrier(size, timeout=30)
        self.written: list[Any] = [None] * size

    def exchange(self, rank: int, what: Any) -> list[Any]:
        self.written[rank] = what
        self.barrier.wait()
        everything = list(self.written)
        self.barrier.wait()
        return everything


class ThreadWorld:
    """The world of one of several threads."""

    def __init__(self, rank: int, board: _Board) -> None:
        self.rank, self.size, self._board = rank, board.size, board
        self.gathered: list[int] = []  # bytes, by exchange

    def sum(self, numbers: Sequence[float], what: str = "") -> list[float]:
        return [sum(column) for column in zip(*self._board.exchange(self.rank, list(numbers)), strict=True)]

    def largest(self, numbers: Sequence[float], what: str = "") -> list[float]:
        return [max(column) for column in zip(*self._board.exchange(self.rank, list(numbers)), strict=True)]

    def gather(self, data: bytes, what: str = "") -> list[bytes]:
        everything = self._board.exchange(self.rank, data)
        self.gathered.append(sum(map(len, everything)))
        return [] if self.rank else everything

    def share(self, data: bytes, what: str = "") -> bytes:
        return self._board.exchange(self.rank, data)[0]

    def wait(self) -> None:
        self._board.exchange(self.rank, None)


def in_threads(size: int, work: Callable[[ThreadWorld], Any]) -> list[Any]:
    """Let every member of a world of threads do its work; returns what each returns or raises, by rank."""
    board = _Board(size)
    found: list[Any] = [None] * size

    def one(rank: int) -> None:
        try:
            found[rank] = work(ThreadWorld(rank, board))
        except Exception as error:
            found[rank] = error

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), "a thread waits for ever"
    return found
