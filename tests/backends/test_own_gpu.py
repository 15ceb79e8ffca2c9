"""Which GPU of several is meant: by the streams of a reader, by seeds, and by the processes of a machine."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch

from neumo.backends.torch import session
from neumo.backends.torch.device import Place
from neumo.backends.torch.parallel.world import own_device
from neumo.backends.torch.reading import loader
from neumo.backends.torch.reading.collate import Packed
from neumo.backends.torch.training.trainer import reseed
from neumo.engine.backend import Setup
from neumo.types import DataError

SECOND = torch.device("cuda:1")


class Stream:
    """A stream that notes what it is asked to wait for."""

    def __init__(self, device: Any) -> None:
        self.device, self.waited = device, list[Any]()

    def wait_stream(self, other: Any) -> None:
        self.waited.append(other)


class Pinned:
    """A tensor that would go to a GPU."""

    recorded: Any = None

    def is_pinned(self) -> bool:
        return True

    def to(self, device: torch.device, non_blocking: bool = False) -> Pinned:
        assert non_blocking
        return self

    def record_stream(self, stream: Any) -> None:
        self.recorded = stream


class Pair:
    """Two processes, and this is the second."""

    rank, size = 1, 2


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Stream]:
    """The streams of computation, by device; None is what torch takes where none is named."""
    found: dict[Any, Stream] = {each: Stream(each) for each in (None, SECOND)}
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: found[device])
    return found


def packed(*numbers: int, error: Exception | None = None) -> Any:
    for number in numbers:
        tensors: Any = (Pinned(),)
        yield Packed(tensors, (number,))
    if error is not None:
        raise error


def test_the_stream_of_the_own_gpu_waits_for_the_copy(streams: dict[Any, Stream]) -> None:
    batches = list(loader._over_stream(packed(0, 1, 2), SECOND))
    assert [batch.items for batch in batches] == [(0,), (1,), (2,)]
    assert [each.device for each in streams[SECOND].waited] == [SECOND] * 3
    assert not streams[None].waited
    assert all(batch.feeds[0].recorded is streams[SECOND] for batch in batches)


def test_a_batch_that_was_read_is_computed_before_the_next_one_fails(streams: dict[Any, Stream]) -> None:
    batches = loader._over_stream(packed(0, 1, error=DataError("broken", code="toy")), SECOND)
    assert [next(batches).items, next(batches).items] == [(0,), (1,)]
    with pytest.raises(DataError, match="broken"):
        next(batches)


def test_the_random_numbers_of_the_own_gpu_are_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    generators = [torch.Generator().manual_seed(1) for _ in range(3)]
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 2)
    monkeypatch.setattr(torch.cuda, "default_generators", tuple(generators))
    reseed(SECOND, 7)
    reseed(torch.device("cuda"), 8)
    assert [each.initial_seed() for each in generators] == [1, 7, 8]


def test_a_process_of_several_makes_its_gpu_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Any] = []
    monkeypatch.setattr(session, "join", lambda _: Pair())
    monkeypatch.setattr(session, "choose_place", lambda *_: Place(SECOND, "fp32"))
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    session.TorchSession(Setup())
    assert taken == [SECOND]


@pytest.mark.parametrize(
    ("count", "shown", "wanted"),
    [(4, "", "cuda:1"), (1, "3", "cuda:0"), (2, "4,5", "cuda:1"), (1, "", "cuda:1")],
)
def test_a_launcher_may_show_each_process_its_own_gpu_only(
    monkeypatch: pytest.MonkeyPatch, count: int, shown: str, wanted: str
) -> None:
    world: Any = Pair()
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert own_device("auto", world) == wanted
    assert own_device("cuda:3", world) == "cuda:3"
