"""Faults that are armed happen where and when they are meant to, once, and cost nothing otherwise."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from neumo.engine import faults
from neumo.engine.checkpoints.store import CheckpointStore
from neumo.types import CheckpointError, ConfigError

from .toys import refused


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("kil@step=7", "'kil' in the fault", "did you mean 'kill'?"),
        ("kill@stp=7", "'stp' in the fault", "did you mean 'step'?"),
        ("kill@step=7,rnk=1", "'rnk' in the fault", "did you mean 'rank'?"),
        ("kill@step=seven", "step=seven in the fault", ""),
        ("kill step 7", "is no fault", ""),
        ("kill@step", "is no fault", ""),
        ("nan@write=1", "nan is what becomes of the loss", ""),
        ("enospc@step=1", "enospc happens where files are written", ""),
        ("vanish@step=1", "vanish needs a path", ""),
    ],
)
def test_a_wrong_spelling_is_refused(text, what, fix):
    with refused(ConfigError, what) as caught:
        faults.read_faults(text)
    assert fix in str(caught.value)


def test_several_faults_are_read_with_their_settings():
    first, second = faults.read_faults(" kill@step=7,rank=1 ; slow@step=4,rank=0,seconds=2.5;")
    assert (first.action, first.point, first.number, first.rank) == ("kill", "step", 7, 1)
    assert (second.rank, second.settings) == (0, {"seconds": 2.5})


def test_a_fault_happens_at_its_number_in_its_process_and_once(monkeypatch):
    with faults.armed("error@step=3,rank=1") as plan:
        faults.reach("step", 3)  # rank 0
        monkeypatch.setenv("RANK", "1")
        faults.reach("step", 2)
        with pytest.raises(RuntimeError, match="injected fault"):
            faults.reach("step", 3)
        faults.reach("step", 3)
        assert plan.fired == ["error@step=3,rank=1"]
    faults.reach("step", 3)


def test_it_does_not_happen_again_in_a_process_that_was_started_again(monkeypatch):
    with faults.armed("error@step=3; error@step=4,restart=1"):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
        faults.reach("step", 3)
        with pytest.raises(RuntimeError, match="restart=1"):
            faults.reach("step", 4)


def test_losses_are_spoilt_at_their_step():
    with faults.armed("nan@step=2; inf@step=3"):
        found = []
        for step in range(1, 5):
            faults.reach("step", step)
            found.append(faults.spoil(1.5))
    assert found[0] == found[3] == 1.5
    assert np.isnan(found[1])
    assert np.isinf(found[2])


def test_a_slow_process_and_a_vanished_file(tmp_path):
    path = tmp_path / "a.wav"
    path.touch()
    with faults.armed(f"slow@step=1,seconds=0.1; vanish@item=7,path={path}"):
        before = time.monotonic()
        faults.reach("step", 1)
        assert time.monotonic() - before >= 0.1
        faults.reach("item", 7)
    assert [each.name for each in tmp_path.iterdir()] == ["a.wav.vanished"]


def test_the_environment_arms_faults_and_the_file_remembers_them(tmp_path):
    code = "from neumo.engine import faults; faults.reach('step', 1); print(faults.armed_now())"
    text = "exit@step=1,status=7"
    given = {**os.environ, "NEUMO_FAULTS": text, "NEUMO_FAULTS_FIRED": str(tmp_path / "fired")}
    runs = [
        subprocess.run([sys.executable, "-c", code], env=given, check=False, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert [run.returncode for run in runs] == [7, 0]
    assert runs[1].stdout == f"{text}\n"


def test_points_cost_nothing_while_no_fault_is_armed():
    start = time.perf_counter()
    for step in range(100_000):
        faults.reach("step", step)
    assert time.perf_counter() - start < 0.5  # 0.01 s on a machine that is not busy


def write(folder, step, value):
    """Write a checkpoint with arrays, of which `keep` then removes those before the last two."""
    store = CheckpointStore(folder)
    arrays = {"a": np.full(100, value), "b": np.full(3, value)}
    files = {
        f"{name}.safetensors": lambda path, array=array: save_file({"x": array}, path)
        for name, array in arrays.items()
    }
    store.write(step, {"value": value}, files)
    store.keep(store.paths()[:2])


def values(folder):
    """The value of the newest whole checkpoint, in all its files."""
    saved, passed = CheckpointStore(folder).newest()
    assert not passed
    arrays = [load_file(path)["x"] for path in saved.path.glob("*.safetensors")]
    assert len(arrays) == 2
    return {saved.state["value"], *(float(number) for array in arrays for number in array)}


def in_a_fork(text, folder, step, value):
    """Write a checkpoint in a process of its own; returns how that ended, as a wait status."""
    child = os.fork()
    if not child:
        try:
            with faults.armed(text):
                write(folder, step, value)
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


def points(folder, step):
    """How many writes, flushes and renames the next checkpoint takes."""
    with faults.armed() as plan:
        write(folder, step, 9.0)
    return plan.reached["checkpoint-file"]


@pytest.mark.parametrize("step", [3, 4], ids=["written again", "new"])
def test_a_kill_at_each_write_leaves_the_old_or_the_new_checkpoint(step, tmp_path):
    for before in (1, 2, 3):
        write(tmp_path / "counted", before, float(before))
    count = points(tmp_path / "counted", step)
    assert count == 10
    found = []
    for point in range(1, count + 1):
        folder = tmp_path / str(point)
        for before in (1, 2, 3):
            write(folder, before, float(before))
        assert in_a_fork(f"kill@checkpoint-file={point}", folder, step, 9.0) == 9
        (value,) = values(folder)
        found.append(value)
        assert not [path for path in folder.iterdir() if path.name.startswith(".")]
        write(folder, step, 10.0)  # and the next one can be written
        assert values(folder) == {10.0}
    assert set(found) == {3.0, 9.0}
    assert found == sorted(found)


@pytest.mark.parametrize("kind", ["enospc", "eio"])
def test_a_full_or_broken_disk_leaves_the_old_checkpoint_and_nothing_half_written(kind, tmp_path):
    write(tmp_path / "counted", 1, 1.0)
    count = points(tmp_path / "counted", 1)  # at the last, the new one is in its place already
    for point in range(1, count):
        folder = tmp_path / str(point)
        write(folder, 1, 1.0)
        with faults.armed(f"{kind}@checkpoint-file={point}"), refused(CheckpointError, "cannot write"):
            write(folder, 1, 9.0)
        assert values(folder) == {1.0}
        assert [path.name for path in folder.iterdir()] == ["step-00000001"]


def test_a_disk_without_room_for_another_checkpoint_is_known_before(tmp_path, monkeypatch):
    store = CheckpointStore(tmp_path)
    store.check_room(1)
    write(tmp_path, 1, 1.0)
    store.check_room(2)
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 100})())
    with refused(CheckpointError, "cannot write the checkpoint step-00000002: it takes about"):
        store.check_room(2)
