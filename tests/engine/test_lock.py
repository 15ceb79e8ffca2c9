"""One training in a run folder at a time, and a folder whose training was killed is free again."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from neumo.engine import Callback, NeuralFactory
from neumo.engine.checkpoints import lock
from neumo.engine.checkpoints.lock import LOCK, Lock
from neumo.engine.processes.launch import check_alone
from neumo.types import ConfigError

from .toys import line_graphs, refused

HOLD = """
import sys, time
from pathlib import Path
from neumo.engine.checkpoints.lock import Lock
Lock(Path(sys.argv[1])).take()
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(lock, "_BEAT", 0.05)
    monkeypatch.setattr(lock, "_PATIENCE", 0.5)


@pytest.fixture
def other(tmp_path):
    """Another process that holds the folder."""
    words = [sys.executable, "-c", HOLD, str(tmp_path / LOCK)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def train(folder, *callbacks, **options):
    factory = NeuralFactory(device="cpu", progress=False, folder=folder)
    return factory.train(line_graphs()[0], max_steps=1, callbacks=callbacks, **options)


def elsewhere(path):
    """Let a lock be that of a machine whose processes cannot be looked at."""
    path.write_text(json.dumps({**json.loads(path.read_text()), "place": "there", "host": "node7"}))


def test_a_folder_with_a_training_is_refused_and_left_as_it_is(tmp_path, other):
    said = f"another training is running in .*: process {other.pid} on"
    (tmp_path / "metrics.jsonl").write_text("theirs\n")
    for resume in ("auto", "never"):
        with refused(ConfigError, said):
            train(tmp_path, resume=resume)
    assert sorted(path.name for path in tmp_path.iterdir()) == [LOCK, "metrics.jsonl"]


def test_the_folder_of_a_training_that_was_killed_is_free_at_once(tmp_path, other):
    other.kill()  # nobody has waited for it yet: it is a zombie
    while lock._began(other.pid):
        time.sleep(0.01)
    begun = time.monotonic()
    result = train(tmp_path)
    assert time.monotonic() - begun < 30
    assert any(f"the training of process {other.pid} on" in note for note in result.notes)
    assert not (tmp_path / LOCK).exists()


def test_a_number_that_another_process_has_by_now_is_no_training(tmp_path, other):
    path = tmp_path / LOCK
    path.write_text(json.dumps({**json.loads(path.read_text()), "began": "17"}))
    train(tmp_path)


def test_a_training_on_another_machine_is_alive_while_it_gives_signs(tmp_path, quick):
    path = tmp_path / LOCK
    theirs = Lock(path)
    theirs.take()
    theirs._done.set()
    elsewhere(path)
    done = threading.Event()

    def beat():
        while not done.wait(0.05):
            os.utime(path)

    beats = threading.Thread(target=beat)
    beats.start()
    with refused(ConfigError, "on node7"):
        Lock(path).take()
    done.set()
    beats.join()
    ours = Lock(path)
    ours.take()
    assert ours.notes == [
        f"the training of process {os.getpid()} on node7 did not end its work in this folder"
    ]
    ours.release()


def test_a_lock_is_held_by_signs_of_life_and_its_loss_is_told(tmp_path, quick):
    told = threading.Event()
    mine = Lock(tmp_path / LOCK)
    mine.on_lost = lambda _why: told.set()
    mine.take()
    before = mine._last_beat()
    deadline = time.monotonic() + 20
    while mine._last_beat() == before:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    elsewhere(tmp_path / LOCK)
    assert told.wait(20)
    mine.release()
    assert json.loads((tmp_path / LOCK).read_text())["host"] == "node7"


def test_a_lock_that_was_never_written_is_taken_over(tmp_path, quick):
    (tmp_path / LOCK).write_text("")
    result = train(tmp_path)
    assert any("process unknown on an unknown machine did not end" in note for note in result.notes)


def test_of_two_that_take_over_one_wins(tmp_path):
    """The slower one takes the new lock away for the old one, sees that, and puts it back."""
    path = tmp_path / LOCK
    path.write_text("old")
    slow, fast = Lock(path), Lock(path)
    assert fast._remove("old")
    assert fast._create()
    assert not slow._remove("old")
    assert path.read_text() == fast._text
    assert not slow._create()


def test_a_training_within_a_training_of_the_same_folder_is_refused(tmp_path):
    class Again(Callback):
        def on_step_end(self, run):
            with refused(ConfigError, f"process {os.getpid()} on"):
                train(tmp_path)

    train(tmp_path, Again())
    train(tmp_path)


def test_a_training_that_fails_leaves_no_lock(tmp_path):
    class Fail(Callback):
        def on_step_end(self, run):
            raise RuntimeError("a bug")

    with pytest.raises(RuntimeError):
        train(tmp_path, Fail())
    assert not (tmp_path / LOCK).exists()


@pytest.mark.parametrize("name", ["SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"])
def test_several_that_do_not_know_of_each_other_are_refused(name, tmp_path, monkeypatch):
    monkeypatch.setenv(name, "4")
    with refused(ConfigError, "has started this command 4 times"):
        train(tmp_path)
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv(name, "1")
    train(tmp_path)
    together = {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "1", name: "4"}
    check_alone(together)
