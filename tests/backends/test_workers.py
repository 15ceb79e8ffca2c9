"""Worker processes that die, hang or cannot be started, and what becomes of their batches."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from neumo.backends.torch.device import choose_place
from neumo.backends.torch.reading.loader import TorchReader
from neumo.engine.processes.workers import Workers
from neumo.types import BackendError, ConfigError, DataError

from ..engine.toys import ArraySource, PointData

CPU = choose_place("cpu", "fp32")


class Accidents(ArraySource):
    """Has an accident at one item; a file in `folder` for each time counts them."""

    def __init__(self, folder, at, what, times=1, skips=False):
        super().__init__(PointData(noise=1.0), 1)
        self.folder, self.at, self.what, self.times, self.skips = folder, at, what, times, skips
        self.left_out = folder / "left-out"

    def item(self, index, epoch):
        if self.left_out.exists() and index == self.at:
            return {}
        before = len(list(self.folder.glob("accident-*")))
        if index == self.at and before < self.times:
            (self.folder / f"accident-{before}").touch()
            if self.what == "hang":
                time.sleep(60)
            os.kill(os.getpid(), self.what)
        return super().item(index, epoch)

    def quarantine(self, items, reason):
        if not self.skips:
            raise ConfigError("on_bad is 'raise'")
        assert items == [self.at]
        self.left_out.write_text(reason)


def read(source, workers, epochs=(0,), ports=("x", "item")):
    reader = TorchReader(source, ports, workers, CPU)
    try:
        batches = [batch for epoch in epochs for batch in reader.read(source.batches(epoch), epoch)]
    finally:
        reader.close()
    return batches, reader.notes


def assert_same(batches, others):
    assert [batch.items for batch in batches] == [batch.items for batch in others]
    assert all(torch.equal(a.feeds[0], b.feeds[0]) for a, b in zip(batches, others, strict=True))


@pytest.mark.parametrize("what", [signal.SIGKILL, "hang"])
def test_a_lost_worker_is_replaced_and_the_batches_stay_the_same(tmp_path, what):
    alone, _ = read(PointData(noise=1.0).open(1), 0, epochs=(0, 1))
    workers = Workers(2, timeout=4 if what == "hang" else None)
    found, notes = read(Accidents(tmp_path, 17, what), workers, epochs=(0, 1))
    assert_same(found, alone)
    assert len(notes) == 1
    why = "has not finished a batch within 4 s" if what == "hang" else "was ended by SIGKILL"
    assert why in notes[0]
    assert "while reading points.csv:18; it was started again" in notes[0]


def test_workers_that_are_killed_while_they_wait_are_replaced():
    source = PointData(points=80, noise=1.0).open(1)
    reader = TorchReader(source, ("x",), Workers(2, prefetch=1), CPU)
    stream = reader.read(source.batches(0), 0)
    batches = [next(stream), next(stream)]
    for pid in reader.pids:
        os.kill(pid, signal.SIGKILL)
    batches += list(stream)
    reader.close()
    assert_same(batches, read(source, 0)[0])
    assert len(reader.notes) == 2


def test_a_worker_that_dies_again_and_again_ends_the_run_and_names_the_item(tmp_path):
    with pytest.raises(BackendError, match=r"has died: worker \d was ended by SIGKILL") as caught:
        read(Accidents(tmp_path, 17, signal.SIGKILL, times=9), Workers(2, restarts=2))
    assert "while reading points.csv:18" in " ".join(str(caught.value).split())
    assert len(caught.value.details) == 2
    assert len(list(tmp_path.glob("accident-*"))) == 3


def test_an_item_that_costs_two_workers_is_left_out_where_bad_ones_are_skipped(tmp_path):
    source = Accidents(tmp_path, 17, signal.SIGKILL, times=9, skips=True)
    found, notes = read(source, Workers(2, restarts=1))
    kept = [tuple(item for item in batch if item != 17) for batch in source.batches(0)]
    assert [batch.items for batch in found] == kept
    assert "the second time; the item is left out" in notes[-1]
    assert "was ended by SIGKILL" in source.left_out.read_text()


def test_restarts_are_counted_by_epoch(tmp_path):
    source = Accidents(tmp_path, 17, signal.SIGKILL, times=1)
    reader = TorchReader(source, ("x",), Workers(1, restarts=1), CPU)
    for epoch in (0, 1):
        for file in tmp_path.glob("accident-*"):
            file.unlink()
        assert len(list(reader.read(source.batches(epoch), epoch))) == 5
    reader.close()
    assert len(reader.notes) == 2


def test_spawned_workers_read_the_same():
    source = PointData(noise=1.0).open(1)
    assert_same(read(source, Workers(1, start="spawn"))[0], read(source, 0)[0])


def test_what_cannot_be_sent_to_a_spawned_worker_is_said():
    source = PointData().open(1)
    source.filter = lambda index: True
    with pytest.raises(BackendError, match="cannot be sent to a process that is started with 'spawn'"):
        read(source, Workers(1, start="spawn"))


def test_batches_that_are_kept_are_not_overwritten():
    source = PointData(points=400, noise=1.0).open(1)
    assert_same(read(source, Workers(1, prefetch=1))[0], read(source, 0)[0])


def test_batches_may_grow():
    class Growing(ArraySource):
        def collate(self, items):
            size = int(items[0]["item"]) * 1000
            return {"x": np.full((len(items), size), size, np.float32), "none": np.zeros(0, np.float32)}

    source = Growing(PointData(shuffle=False), 1)
    for batch in read(source, Workers(1), ports=("x", "none"))[0]:
        assert batch.feeds[0].shape == (8, batch.items[0] * 1000)
        assert (batch.feeds[0] == batch.items[0] * 1000).all()
        assert batch.feeds[1].shape == (0,)


def test_a_second_stream_leaves_the_first_as_it_was():
    source = PointData(noise=1.0).open(1)
    reader = TorchReader(source, ("x",), 2, CPU)
    first = reader.read(source.batches(0), 0)
    batches = [next(first)]
    again = list(reader.read(source.batches(1), 1))
    batches += list(first)
    reader.close()
    assert_same(batches, read(source, 0)[0])
    assert_same(again, read(source, 0, epochs=(1,))[0])


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_the_code_names_the_item_and_the_line(workers):
    class Wrong(ArraySource):
        def item(self, index, epoch):
            return {}["x"] if index == 5 else super().item(index, epoch)

        def collate(self, items):
            return {"x": np.stack([item["x"] for item in items])}

    with pytest.raises(DataError, match=r"reading points.csv:6 failed: KeyError: 'x'") as caught:
        read(Wrong(PointData(), 1), workers, ports=("x",))
    assert "test_workers.py:" in str(caught.value.where)
    Wrong.item = ArraySource.item
    Wrong.collate = lambda self, items: {"x": np.stack([items[0]["x"], np.zeros(1)])}
    with pytest.raises(DataError, match=r"reading points.csv:\d+, .* and 5 more failed:\s+ValueError"):
        read(Wrong(PointData(), 1), workers, ports=("x",))


def test_workers_end_with_the_process_that_started_them():
    code = """
import os, sys
sys.path.insert(0, {root!r})
from tests.backends.test_workers import CPU, PointData, TorchReader
source = PointData(points=4000).open(1)
reader = TorchReader(source, ("x",), 2, CPU)
stream = reader.read(source.batches(0), 0)
next(stream)
print(*reader.pids, flush=True)
{end}
"""
    root = str(Path(__file__).parents[2])
    for end in ("sys.exit()", "os.kill(os.getpid(), 9)"):
        started = subprocess.run(
            [sys.executable, "-c", code.format(root=root, end=end)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        pids = [int(pid) for pid in started.stdout.split()]
        assert len(pids) == 2, started.stderr
        until = time.monotonic() + 10
        while time.monotonic() < until and any(map(lives, pids)):
            time.sleep(0.1)
        assert not any(map(lives, pids))


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    "fields", [{"count": -1}, {"prefetch": 0}, {"timeout": 0.0}, {"restarts": -1}, {"start": "thread"}]
)
def test_settings_that_cannot_be_are_refused(fields):
    with pytest.raises(ConfigError, match="of the workers is"):
        Workers(**fields)
