"""A signal to end lets the step finish, saves it, and ends the program as the signal would have."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from neumo.engine import Callback, Checkpoint, NeuralFactory, faults
from neumo.engine.checkpoints.store import CheckpointStore
from neumo.engine.processes.launch import listening, seconds_since_launch
from neumo.engine.processes.signals import REASONS, ended_by

from .toys import Line, PointData, line_graphs


def train(folder, **changes):
    graph, _ = line_graphs(PointData(points=36, batch_size=8, noise=0.1), Line(dropout=0.3))
    factory = NeuralFactory(device="cpu", seed=2, progress=None, folder=folder)
    settings = {"epochs": 2, "checkpoint": Checkpoint(every_steps=100), **changes}
    result = factory.train(graph, **settings)
    return result, factory.weights(graph)


def steps(folder):
    return [path.name for path in CheckpointStore(folder / "checkpoints").paths()]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return train(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize(
    ("action", "ends", "code"), [("term", SystemExit, 143), ("int", KeyboardInterrupt, None)]
)
def test_it_saves_the_step_and_ends_the_program(action, ends, code, tmp_path, uninterrupted, capfd):
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)}
    with faults.armed(f"{action}@step=3"), pytest.raises(ends) as caught:
        train(tmp_path)
    assert getattr(caught.value, "code", None) == code
    assert steps(tmp_path) == ["step-00000003"]
    assert {number: signal.getsignal(number) for number in before} == before
    shown = "".join(capfd.readouterr())
    assert "behind step 3; the same training goes on when it is resumed" in shown
    assert ("Ctrl-C again" in shown) == (action == "int")
    result, weights = train(tmp_path)
    whole, expected = uninterrupted
    assert result.losses == whole.losses[3:]
    assert all(np.array_equal(weights[name], value) for name, value in expected.items())


def test_the_signal_ahead_of_a_time_limit_is_no_failure(tmp_path):
    with faults.armed("usr1@step=5"):  # the last of the epoch
        result, _ = train(tmp_path)
    assert ended_by(result.stopped) == "SIGUSR1"
    assert steps(tmp_path) == ["step-00000005"]
    state = CheckpointStore(tmp_path / "checkpoints").newest()[0].state
    assert (state["epoch"], state["batch"]) == (1, 0)
    assert result.notes[-1].endswith("goes on when it is resumed")


def test_a_second_interrupt_ends_it_at_once(tmp_path):
    class Twice(Callback):
        def on_step_start(self, run):
            if run.step == 3:
                for _ in range(2):
                    os.kill(os.getpid(), signal.SIGINT)
                pytest.fail("the step went on")

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, callbacks=[Twice()])
    assert steps(tmp_path) == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_a_checkpoint_it_says_that_nothing_was_saved(tmp_path):
    with faults.armed("usr1@step=2"):
        result, _ = train(tmp_path, checkpoint=False)
    assert "no checkpoint to go on from" in result.notes[-1]


def test_a_signal_that_is_ignored_stays_ignored(tmp_path):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with faults.armed("int@step=2"):
            result, _ = train(tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.stopped == "all epochs are done"


def test_a_training_beside_the_main_thread_leaves_signals_alone(tmp_path):
    found = []

    def work():
        found.append(train(tmp_path, max_steps=2)[0].steps)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [2]


def test_a_time_limit_says_how_to_go_on(tmp_path):
    with faults.armed("slow@step=2,seconds=0.2"):
        result, _ = train(tmp_path, max_minutes=0.1 / 60)
    assert result.stopped.startswith("the time limit")
    assert result.notes[-1].endswith("the same training goes on when it is resumed")
    again, _ = train(tmp_path)
    assert (again.steps, len(again.losses)) == (10, 10 - result.steps)


def test_a_time_limit_counts_from_the_start_of_the_launcher(tmp_path, monkeypatch):
    clock = time.monotonic
    (tmp_path / "launcher").mkdir()
    with listening(tmp_path / "launcher"):
        with monkeypatch.context() as later:
            later.setattr("time.monotonic", lambda: clock() + 3000.0)  # in a process that it has begun anew
            assert 3000 <= seconds_since_launch() < 3030
            result, _ = train(tmp_path / "again", max_minutes=49)
        assert (result.steps, result.stopped) == (1, "the time limit of 49 minutes is over")
        assert train(tmp_path / "first", max_minutes=49)[0].steps == 10
    assert seconds_since_launch() == 0.0


def test_reasons_are_told_from_others():
    assert [ended_by(reason) for reason in REASONS.values()] == list(REASONS)
    assert ended_by("error has not become better for 5 evaluations") == ""
