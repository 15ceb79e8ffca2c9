"""A training that was resumed in the middle of an epoch repeated data, or skipped some."""

import contextlib

import numpy as np
import pytest

from neumo.engine import AdamW, Callback, Checkpoint, Cosine, NeuralFactory, read_log

from ..engine.toys import Line, PointData, line_graphs

EPOCHS, STEPS = 6, 8  # steps of an epoch: 7 of two batches, and a last one
EVENTS = ("on_batch_start", "on_batch_end", "on_step_start", "on_step_end", "on_epoch_start", "on_epoch_end")


class Struck(BaseException):
    """Nothing on its way is an error that somebody catches."""


class Recorder(Callback):
    """Writes down what each batch and each step is made of, and dies at a step, at one of its events."""

    order = 99  # behind the checkpoint

    def __init__(self, step=-1, event=""):
        self.step = step
        self.event = event
        self.batches = {}
        self.steps = {}

    def _strike(self, event, run):
        if event == self.event and run.step >= self.step >= 0:
            raise Struck

    def on_epoch_start(self, run):
        self._strike("on_epoch_start", run)

    def on_step_start(self, run):
        self._strike("on_step_start", run)

    def on_batch_start(self, run):
        x = run.values("line.y")[0]  # has noise of the data, dropout and the weights in it
        self.batches.setdefault((run.step, run.current.seed), (run.current.items, x.tolist()))
        self._strike("on_batch_start", run)

    def on_batch_end(self, run):
        self._strike("on_batch_end", run)

    def on_step_end(self, run):
        self.steps[run.step] = (run.epoch, run.batch, run.loss, run.lr, run.norm)
        self._strike("on_step_end", run)

    def on_epoch_end(self, run):
        self._strike("on_epoch_end", run)


def train(folder, recorder, workers=0):
    data = PointData(points=60, batch_size=4, noise=0.1)  # 15 batches: the last step of an epoch has one
    graph, _ = line_graphs(data, Line(norm=True, dropout=0.3))
    maker = NeuralFactory(device="cpu", seed=5, progress=False, folder=folder, workers=workers)
    maker.train(
        graph,
        optimizer=AdamW(lr=0.02),
        schedule=Cosine(warmup_steps=4),
        epochs=EPOCHS,
        batches_per_step=2,
        ema=0.9,
        checkpoint=Checkpoint(every_steps=3, keep_last=2),
        callbacks=[recorder],
    )
    return maker.weights(graph)


def log(folder):
    return [row for row in read_log(folder / "metrics.jsonl") if row.get("event") != "note"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder, recorder = tmp_path_factory.mktemp("whole"), Recorder()
    return train(folder, recorder), recorder, log(folder)


def test_twenty_kills_at_random_steps_change_nothing(tmp_path, whole):
    draw = np.random.default_rng(41)
    kills = sorted(draw.integers(0, (EPOCHS - 1) * STEPS, size=20).tolist())
    batches, steps, struck = {}, {}, 0
    for step in [*kills, -1]:
        recorder = Recorder(step, str(draw.choice(EVENTS)))
        try:
            weights = train(tmp_path, recorder)
        except Struck:
            struck += 1
        batches |= recorder.batches  # of a step that is done anew, the later one
        steps |= recorder.steps
    alone, record, rows = whole
    assert struck == 20
    assert steps == record.steps
    assert batches == record.batches
    assert log(tmp_path) == rows
    assert all(np.array_equal(weights[name], value) for name, value in alone.items())


def test_each_epoch_uses_every_item_once_whatever_is_killed(tmp_path):
    used = {}
    for step in (3, 7, 8, 9, 15, 16, -1):
        recorder = Recorder(step, "on_batch_end")
        with contextlib.suppress(Struck):
            train(tmp_path, recorder)
        used |= {key: items for key, (items, _) in recorder.batches.items()}
    for epoch in range(EPOCHS):
        mine = [item for (step, _), items in used.items() if step // STEPS == epoch for item in items]
        assert sorted(mine) == list(range(60))
