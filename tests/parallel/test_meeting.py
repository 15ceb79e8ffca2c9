"""Processes of one start find each other in a store in which earlier ones have left their traces."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch")
dist = torch.distributed

from neumo.backends.torch.parallel.meeting import own_room  # noqa: E402

WAIT = timedelta(seconds=20)


def meet(port_store: dist.Store, clone: dist.Store, late: int) -> list[bytes]:
    """Let three processes meet, of which one comes late; what each of them reads from the first."""
    found: list[bytes] = [b""] * 3

    def come(rank: int) -> None:
        if rank == late:
            time.sleep(0.2)
        room = own_room(clone if rank else port_store, rank, 3, WAIT)
        if rank == 0:
            room.set("address", str(time.monotonic()))
        room.wait(["address"], WAIT)
        found[rank] = room.get("address")

    threads = [threading.Thread(target=come, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return found


def test_each_start_has_a_room_of_its_own_whoever_comes_last() -> None:
    store = dist.HashStore()
    rooms = [meet(store, store, late) for late in (1, 0, 2)]
    for room in rooms:
        assert len(set(room)) == 1
        assert room[0]
    assert len({room[0] for room in rooms}) == 3


def test_one_that_does_not_come_is_named() -> None:
    with pytest.raises(RuntimeError, match="process 1 did not come"):
        own_room(dist.HashStore(), 0, 2, timedelta(seconds=0.1))
