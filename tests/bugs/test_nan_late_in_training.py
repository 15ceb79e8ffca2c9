"""NaN came late in a training, and every resume ran into it again."""

import numpy as np
import pytest

from neumo.engine import SGD, Checkpoint, NeuralFactory
from neumo.engine.checkpoints.store import CheckpointStore
from neumo.engine.tracking import read_log
from neumo.types import BackendError

from ..engine.toys import Line, PointData, line_graphs

POISONED = PointData(shuffle=False, poisoned=tuple(range(24, 40)))


def train(folder, **options):
    graph, _ = line_graphs(POISONED, line=Line(norm=True))
    factory = NeuralFactory(folder=folder, seed=3, verify="off", progress=False, device="cpu")
    settings = {
        "optimizer": SGD(lr=0.05),
        "epochs": 3,
        "bad_limit": 2,
        "checkpoint": Checkpoint(every_steps=1),
    }
    factory.train(graph, **{**settings, **options})


def newest(folder) -> CheckpointStore:
    saved, passed = CheckpointStore(folder / "checkpoints").newest()
    assert saved is not None
    assert not passed
    return saved


def finite(folder) -> bool:
    from safetensors.numpy import load_file

    arrays = [
        array for path in newest(folder).path.glob("*.safetensors") for array in load_file(path).values()
    ]
    return bool(arrays) and all(np.isfinite(array).all() for array in arrays)


def test_it_stops_after_some_bad_steps_and_the_checkpoint_is_finite(tmp_path):
    with pytest.raises(BackendError, match="that is 2 such"):
        train(tmp_path)
    assert finite(tmp_path)
    rows = read_log(tmp_path / "nonfinite.jsonl")
    assert len(rows) == 2
    assert all(name >= "points.csv:25" for row in rows for name in row["items"])
    good = [row for row in read_log(tmp_path / "metrics.jsonl") if row.get("loss") is not None]
    assert good
    assert all(np.isfinite(row["loss"]) for row in good)


def test_a_resume_that_runs_into_it_again_stops_again_and_keeps_the_last_good_weights(tmp_path):
    with pytest.raises(BackendError):
        train(tmp_path)
    before = newest(tmp_path).state["step"]
    with pytest.raises(BackendError, match="the weights are those of the last good step"):
        train(tmp_path)
    assert newest(tmp_path).state["step"] >= before
    assert finite(tmp_path)


def test_a_limit_that_is_high_enough_goes_round_the_bad_part(tmp_path):
    train(tmp_path, bad_limit=1000)
    assert finite(tmp_path)


def test_the_checkpoint_before_the_bad_step_is_finite_and_each_resume_stops_there_with_names(tmp_path):
    """The features of the fourth batch are not numbers; each batch is a step."""
    for _ in range(3):
        with pytest.raises(BackendError, match="of step 4 is not finite") as caught:
            train(tmp_path, bad_limit=1)
        assert newest(tmp_path).state["step"] == 3
        assert finite(tmp_path)
        assert caught.value.data["items"] == [f"points.csv:{n}" for n in range(25, 33)]
        rows = read_log(tmp_path / "nonfinite.jsonl")
        assert [row["step"] for row in rows] == [4]
        assert rows[0]["batches"][0]["items"] == caught.value.data["items"]
