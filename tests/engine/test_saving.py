"""A disk that is full for a while does not end a training, and never costs an earlier checkpoint."""

import shutil

import numpy as np
import pytest

from neumo.backends.torch.training.trainer import TorchTrainer
from neumo.engine import Checkpoint, NeuralFactory, faults
from neumo.engine.checkpoints.store import CheckpointStore
from neumo.types import CheckpointError

from .toys import Line, PointData, line_graphs, refused


def train(folder, **changes):
    graph, _ = line_graphs(PointData(points=32, batch_size=4), Line())
    factory = NeuralFactory(device="cpu", seed=2, progress=False, folder=folder)
    settings = {"max_steps": 8, "checkpoint": Checkpoint(every_steps=2), **changes}
    return factory.weights(graph) if not changes else None, factory.train(graph, **settings)


def names(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


@pytest.mark.parametrize("point", ["write=1", "write=3", "flush=2", "rename=1"])
def test_a_full_disk_is_noted_and_the_next_checkpoint_is_another_try(point, tmp_path):
    with faults.armed(f"enospc@{point}"):
        _, result = train(tmp_path)
    assert [note for note in result.notes if "step-00000002" in note and "another try" in note]
    assert names(tmp_path) == ["step-00000006", "step-00000008"]


def test_after_three_failures_in_a_row_it_ends_and_the_earlier_checkpoint_is_there(tmp_path):
    full = "; ".join(f"enospc@write={n}" for n in (4, 5, 6))  # a checkpoint without average is three files
    with faults.armed(full), refused(CheckpointError, "3 times in a row") as caught:
        train(tmp_path)
    assert "make room on the disk" in str(caught.value)
    assert names(tmp_path) == ["step-00000002"]
    saved, passed = CheckpointStore(tmp_path / "checkpoints").newest()
    assert (saved.state["step"], passed) == (2, [])


def test_a_last_checkpoint_that_cannot_be_written_is_an_error(tmp_path):
    with faults.armed("enospc@write=1"), refused(CheckpointError, "at the end of the training"):
        train(tmp_path, checkpoint=Checkpoint(every_steps=100))


def test_a_last_checkpoint_that_failed_in_its_step_is_tried_again_at_the_end(tmp_path):
    with faults.armed("enospc@write=10"):
        _, result = train(tmp_path)
    assert [note for note in result.notes if "step-00000008" in note]
    assert names(tmp_path) == ["step-00000006", "step-00000008"]


def test_a_training_that_had_a_full_disk_is_the_same_training(tmp_path):
    _, plain = train(tmp_path / "plain")
    with faults.armed("enospc@write=2; eio@write=5"):
        _, troubled = train(tmp_path / "troubled")
    assert np.array_equal(plain.losses, troubled.losses)


class Parts:
    """Writes a part of a checkpoint beside the others, as sharded trainings do, and finds the disk full."""

    def __init__(self, monkeypatch):
        self.asked = 0
        self.left = []
        monkeypatch.setattr(TorchTrainer, "writers", self.writers)

    def writers(self, folder):
        self.asked += 1
        self.left += [path.name for path in folder.glob(".parts/*")]
        (folder / ".parts").mkdir(parents=True)
        (folder / ".parts" / "weights").write_bytes(bytes(1000))
        raise CheckpointError("cannot write the parts of a checkpoint: full", code="checkpoint-disk")


def test_parts_of_a_checkpoint_that_failed_do_not_stay_on_the_full_disk(tmp_path, monkeypatch):
    parts = Parts(monkeypatch)
    with refused(CheckpointError, "3 times in a row"):
        train(tmp_path)
    assert (parts.asked, parts.left) == (3, [])
    assert names(tmp_path) == []


def test_parts_of_a_killed_training_make_room_for_the_next_checkpoint(tmp_path):
    (tmp_path / "checkpoints" / ".parts" / "weights.shards").mkdir(parents=True)
    train(tmp_path, max_steps=2)
    assert names(tmp_path) == ["step-00000002"]


def test_nothing_is_written_where_there_is_no_room(tmp_path, monkeypatch):
    train(tmp_path, max_steps=4)
    usage = shutil.disk_usage(tmp_path)
    parts = Parts(monkeypatch)
    monkeypatch.setattr(shutil, "disk_usage", lambda _place: usage._replace(free=10))
    with refused(CheckpointError, "MB are free.*at the end of the training"):
        train(tmp_path)
    assert parts.asked == 0
