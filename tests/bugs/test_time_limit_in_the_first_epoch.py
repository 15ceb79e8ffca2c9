"""A stop by the time limit counted the epoch as complete, so the resumed training skipped the rest of it."""

import json

import numpy as np

from neumo.engine import AdamW, Callback, Checkpoint, NeuralFactory

from ..engine.toys import Line, PointData, line_graphs


class Consumed(Callback):
    """Writes down the items of each batch."""

    def __init__(self):
        self.items = []

    def on_batch_end(self, run):
        self.items.append(run.current.items)


def train(folder, minutes=None):
    graph, _ = line_graphs(PointData(points=40, batch_size=8, noise=0.1), Line(norm=True, dropout=0.2))
    maker = NeuralFactory(device="cpu", seed=5, progress=False, folder=folder)
    consumed = Consumed()
    result = maker.train(
        graph,
        optimizer=AdamW(lr=0.02),
        epochs=1,
        max_minutes=minutes,
        checkpoint=Checkpoint(every_epochs=1),
        callbacks=[consumed],
    )
    return maker.weights(graph), result, consumed.items


def counters(folder):
    newest = max((folder / "checkpoints").glob("step-*"))
    state = json.loads((newest / "state.json").read_text())
    return state["step"], state["epoch"], state["batch"]


def test_the_counters_are_what_was_consumed_and_the_rest_is_done(tmp_path):
    weights, whole, every = train(tmp_path / "whole")
    assert (whole.steps, len(every)) == (5, 5)
    seen = []
    for steps in (1, 2, 3, 4):
        _, result, items = train(tmp_path / "limited", minutes=1e-9)  # over behind the first step
        seen += items
        assert "minutes is over" in result.stopped
        assert result.steps == steps
        assert counters(tmp_path / "limited") == (steps, 0, steps)
        assert len(result.history) == 1
    found, result, items = train(tmp_path / "limited")
    assert seen + items == every
    assert (result.steps, result.stopped) == (5, "all epochs are done")
    assert counters(tmp_path / "limited") == (5, 1, 0)
    assert result.history == whole.history
    assert all(np.array_equal(found[name], value) for name, value in weights.items())
    assert train(tmp_path / "limited")[2] == []
