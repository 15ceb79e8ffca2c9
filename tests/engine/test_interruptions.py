"""Checkpoints that callbacks ask for, early stops over interruptions, and callbacks that fail to close."""

import json
import os
import signal

import numpy as np
import pytest

from neumo.engine import SGD, Callback, Checkpoint, EarlyStop, Evaluate, NeuralFactory
from neumo.engine.callbacks import on_batch_start, on_step_end, on_step_start
from neumo.engine.checkpoints.store import CheckpointStore
from neumo.engine.loop.run import closing_all
from neumo.engine.updates.schedules import Plateau

from .toys import line_graphs


class Killed(Exception):
    pass


def start(folder, *callbacks, kill=None, steps=9, **changes):
    graph, test = line_graphs()

    @on_step_end
    def die(run):
        if run.step == kill:
            raise Killed

    factory = NeuralFactory(device="cpu", precision="fp64", seed=3, progress=False, folder=folder)
    settings = {"optimizer": SGD(lr=0.01), "checkpoint": Checkpoint(every_steps=1000), **changes}
    if "every" in settings:
        settings["evaluate"] = Evaluate(test, every_steps=settings.pop("every"), best="error")
    result = factory.train(graph, max_steps=steps, callbacks=[*callbacks, die], **settings)
    return result, factory.weights(graph)


@pytest.mark.parametrize("event", [on_step_start, on_batch_start])
def test_a_checkpoint_that_is_asked_for_within_a_step_is_that_of_the_whole_step(event, tmp_path):
    @event
    def keep(run):
        if run.step == 2:
            run.save()

    with pytest.raises(Killed):
        start(tmp_path / "killed", keep, kill=4)
    assert [path.name for path in CheckpointStore(tmp_path / "killed" / "checkpoints").paths()] == [
        "step-00000003"
    ]
    result, weights = start(tmp_path / "killed")
    whole, wanted = start(tmp_path / "whole")
    assert result.losses == whole.losses[3:]
    assert all(np.array_equal(weights[name], value) for name, value in wanted.items())


def test_a_checkpoint_that_is_asked_for_has_what_later_callbacks_make_of_the_step(tmp_path):
    @on_step_end
    def keep(run):
        if run.step == 4:
            run.save()

    with pytest.raises(Killed):
        start(tmp_path, keep, kill=5, every=2, schedule=Plateau(metric="error"))
    saved, _ = CheckpointStore(tmp_path / "checkpoints").newest()
    assert saved.state["step"] == 4
    assert saved.state["callbacks"]["Lowering-0"]["seen"] == 4
    start(tmp_path, every=2, schedule=Plateau(metric="error"))
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "event" not in row] == list(range(1, 10))


def stopping(folder, *callbacks, patience=3, steps=40):
    stop = EarlyStop("error", patience=patience, least=1e9)  # the first is the best
    return start(folder, stop, *callbacks, steps=steps, every=4)[0]


def test_an_interruption_does_not_count_as_an_evaluation(tmp_path):
    @on_step_end
    def interrupt(run):
        if run.step in (6, 7):  # where nobody would evaluate
            os.kill(os.getpid(), signal.SIGUSR1)

    whole = stopping(tmp_path / "whole")
    assert whole.steps == 16
    first = stopping(tmp_path / "parts", interrupt)
    assert (first.steps, first.stopped.partition(":")[0]) == (6, "SIGUSR1")
    assert "error" in first.metrics
    assert first.best.step == 4  # though the weights of step 6 are better
    second = stopping(tmp_path / "parts", interrupt)
    assert second.steps == 7
    last = stopping(tmp_path / "parts")
    assert (last.steps, last.stopped, last.best) == (16, whole.stopped, whole.best)


def test_a_training_that_stopped_early_stays_stopped_until_it_gets_more_patience(tmp_path):
    first = stopping(tmp_path)
    again = stopping(tmp_path)
    assert (again.steps, again.losses, again.over, again.stopped) == (16, [], True, first.stopped)
    assert not any("going on from" in note for note in again.notes)
    assert stopping(tmp_path, patience=5).steps == 24


def test_every_callback_is_closed_and_the_first_error_is_kept(tmp_path):
    closed = []

    class Closing(Callback):
        def __init__(self, name):
            self.name = name

        def close(self):
            closed.append(self.name)
            if self.name != "well":
                raise OSError(f"{self.name} cannot be closed")

    several = [Closing("one"), Closing("other"), Closing("well")]
    with pytest.raises(OSError, match="one cannot be closed") as caught:
        start(tmp_path, *several)
    assert closed == ["one", "other", "well"]
    assert "other cannot be closed" in caught.value.__notes__[0]
    closed.clear()
    with pytest.raises(Killed) as killed:
        start(tmp_path / "killed", *several, kill=1)
    assert closed == ["one", "other", "well"]
    assert len(killed.value.__notes__) == 2


def test_an_interrupt_is_kept_while_things_are_closed():
    closed = []
    with pytest.raises(KeyboardInterrupt), closing_all([lambda: closed.append(1)]):
        raise KeyboardInterrupt
    assert closed == [1]
