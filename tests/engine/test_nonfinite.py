"""Of a step that is not finite all is written down that helps to find out why."""

import json
import math

import pytest

from neumo.engine import SGD, Checkpoint, NeuralFactory, faults
from neumo.engine.checkpoints.store import CheckpointStore
from neumo.types import BackendError

from .toys import Line, PointData, line_graphs, refused


def train(folder, data=None, **changes):
    graph, _ = line_graphs(data or PointData(points=24, batch_size=8, shuffle=False), Line())
    factory = NeuralFactory(device="cpu", seed=2, progress=False, folder=folder, verify="off")
    settings = {"epochs": 2, "optimizer": SGD(lr=0.01), "checkpoint": Checkpoint(every_steps=1), **changes}
    return factory.train(graph, **settings)


def rows(folder):
    return [json.loads(line) for line in (folder / "nonfinite.jsonl").read_text().splitlines()]


def test_an_utterance_whose_input_is_not_finite_is_named_and_its_batch_described(tmp_path):
    result = train(tmp_path, PointData(points=24, batch_size=8, shuffle=False, poisoned=(9,)), epochs=1)
    (row,) = rows(tmp_path)
    assert (row["step"], row["what"], row["items"]) == (2, "loss", ["points.csv:10"])
    (batch,) = row["batches"]
    assert batch["items"] == [f"points.csv:{n}" for n in range(9, 17)]
    assert batch["not_finite"] == {"points.csv:10": ["x"]}
    x = batch["feeds"]["x"]
    assert (x["shape"], x["not_finite"]) == ([8, 3], pytest.approx(1 / 24))
    assert x["min"] < x["mean"] < x["max"]
    assert batch["loss"] == "nan"
    assert row["gradients"] == {"line": "nan"}
    assert "batches" not in result.skipped[0]  # it is kept in checkpoints, and must stay small


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_loss_that_is_not_finite_names_all_of_its_batch(value, tmp_path):
    with faults.armed(f"{value}@step=3"):
        result = train(tmp_path)
    (row,) = rows(tmp_path)
    assert row["items"] == [f"points.csv:{n}" for n in range(17, 25)]
    assert row["batches"][0]["not_finite"] == {}
    assert all(math.isfinite(loss) for n, loss in enumerate(result.losses) if n != 2)


def test_all_is_written_down_before_it_raises(tmp_path):
    with faults.armed("nan@step=2"), refused(BackendError, "the loss of step 2 is not finite"):
        train(tmp_path, nonfinite="raise")
    assert rows(tmp_path)[0]["gradients"] == {"line": "nan"}


@pytest.mark.parametrize("given", [{}, {"nonfinite": "skip", "bad_limit": 1}])
@pytest.mark.parametrize("step", [3, 4])
def test_the_last_good_step_is_kept_before_it_raises_and_gone_on_from(given, step, tmp_path):
    """In the middle of an epoch, and where one begins."""
    settings = {"epochs": 3, "checkpoint": Checkpoint(every_steps=100), "nonfinite": "raise", **given}
    whole = train(tmp_path / "whole", **settings)
    with faults.armed(f"nan@step={step + 1}"), refused(BackendError, f"checkpoint step-{step:08d} has"):
        train(tmp_path / "kept", **settings)
    saved = CheckpointStore(tmp_path / "kept" / "checkpoints")
    assert [path.name for path in saved.paths()] == [f"step-{step:08d}"]
    assert train(tmp_path / "kept", **settings).losses == whole.losses[step:]
    final = [CheckpointStore(tmp_path / name / "checkpoints").newest()[0].state for name in ("whole", "kept")]
    for key in ("history", "last", "tally"):
        assert final[1][key] == final[0][key]


def test_a_checkpoint_of_the_last_good_step_is_not_written_again(tmp_path):
    with faults.armed("nan@step=3; enospc@write=3"), refused(BackendError, "checkpoint step-00000002 has"):
        train(tmp_path, nonfinite="raise")


def test_without_checkpoints_none_is_written(tmp_path):
    with faults.armed("nan@step=3"), refused(BackendError, "the weights are those of the last good step"):
        train(tmp_path, nonfinite="raise", checkpoint=False)
    assert not (tmp_path / "checkpoints").exists()


def test_a_full_disk_does_not_hide_why_a_training_ends(tmp_path):
    words = "loss of step 3 is not finite.*they are not saved: .*No space left"
    with faults.armed("nan@step=3; enospc@write=1"), refused(BackendError, words):
        train(tmp_path, nonfinite="raise", checkpoint=Checkpoint(every_steps=100))


def test_a_resumed_training_does_not_write_its_steps_twice(tmp_path):
    data = PointData(points=24, batch_size=8, shuffle=False, poisoned=(9,))
    whole = tmp_path / "whole"
    train(whole, data, checkpoint=Checkpoint(every_steps=2))
    with faults.armed("error@step=6"), pytest.raises(RuntimeError, match="injected"):
        train(tmp_path / "killed", data, checkpoint=Checkpoint(every_steps=4))
    assert [row["step"] for row in rows(tmp_path / "killed")] == [2, 5]
    train(tmp_path / "killed", data, checkpoint=Checkpoint(every_steps=4))
    assert rows(tmp_path / "killed") == rows(whole)
