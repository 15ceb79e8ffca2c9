import os
import signal

import numpy as np
import pytest
import torch

from neumo.backends.torch.device import choose_place
from neumo.backends.torch.reading.loader import TorchReader, to_tensor
from neumo.types import BackendError, DataError

from ..engine.toys import PointData

CPU = choose_place("cpu", "fp32")


def read(source, workers=0, epoch=0, ports=("x", "item")):
    reader = TorchReader(source, ports, workers, CPU)
    try:
        return list(reader.read(source.batches(epoch), epoch))
    finally:
        reader.close()


@pytest.mark.parametrize("workers", [1, 3])
def test_batches_are_the_same_with_workers(workers):
    source = PointData(noise=1.0).open(1)
    for epoch in (0, 1):
        alone, helped = read(source, 0, epoch), read(source, workers, epoch)
        assert [batch.items for batch in alone] == [batch.items for batch in helped]
        assert all(torch.equal(a.feeds[0], b.feeds[0]) for a, b in zip(alone, helped, strict=True))


def test_the_same_workers_serve_all_epochs():
    source = PointData(noise=1.0).open(1)
    reader = TorchReader(source, ("x",), 2, CPU)
    first = [batch.feeds[0] for batch in reader.read(source.batches(0), 0)]
    second = [batch.feeds[0] for batch in reader.read(source.batches(0), 1)]
    again = [batch.feeds[0] for batch in reader.read(source.batches(0), 0)]
    reader.close()
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], second[0])


def test_reading_can_stop_in_the_middle_and_start_again():
    source = PointData().open(1)
    reader = TorchReader(source, ("item",), 2, CPU)
    stream = reader.read(source.batches(0), 0)
    next(stream)
    stream.close()
    assert len(list(reader.read(source.batches(0)[1:], 0))) == 4
    reader.close()


def test_reading_does_not_touch_the_random_numbers_of_torch():
    source = PointData().open(1)
    torch.manual_seed(3)
    wanted = torch.rand(4)
    torch.manual_seed(3)
    read(source, 2)
    assert torch.equal(torch.rand(4), wanted)


def test_skipped_items_are_left_out_and_whole_batches_stay_in_place():
    source = PointData(points=6, batch_size=2, shuffle=False, skipped=(0, 2, 3)).open(1)
    assert [batch.items for batch in read(source)] == [(1,), (), (4, 5)]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_of_the_data_keeps_its_data(workers):
    source = PointData(broken=(3,)).open(1)
    with pytest.raises(DataError, match=r"points\.csv:4 cannot be read") as caught:
        read(source, workers)
    assert caught.value.data == {"index": 3}


def test_a_worker_that_is_killed_is_said():
    class Deadly(type(PointData().open(1))):
        def item(self, index, epoch):
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(BackendError, match="worker process that reads data has died"):
        read(Deadly(PointData(), 1), 1)


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.zeros(2, np.float64), torch.float32),
        (np.zeros(2, np.float16), torch.float32),
        (np.zeros(2, np.int16), torch.int64),
        (np.zeros(2, np.uint16), torch.int64),
        (np.zeros(2, bool), torch.bool),
        (np.float32(3), torch.float32),
        ([1, 2], torch.int64),
        (np.zeros((2, 3))[:, ::-1], torch.float32),
    ],
)
def test_numbers_arrive_in_one_kind_of_each_class(array, dtype):
    assert to_tensor(array, torch.float32).dtype == dtype


def test_what_is_no_number_is_refused():
    with pytest.raises(DataError, match="cannot go into a graph"):
        to_tensor(np.array(["a"]), torch.float32)


def test_read_only_arrays_are_copied():
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    to_tensor(array, torch.float32).add_(1)
    assert array.sum() == 0
