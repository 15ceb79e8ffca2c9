"""A disk that is really full: what a training writes beside its checkpoints waits, and ends nothing."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from neumo.engine import Callback, Checkpoint, NeuralFactory, read_log, read_starts
from neumo.engine.callbacks import Samples
from neumo.engine.checkpoints.store import CheckpointStore
from neumo.engine.checkpoints.writing import Lines, replace_text
from neumo.engine.tracking import LossLogger
from neumo.types import CheckpointError

from .test_samples import sound_graph
from .toys import ArraySource, line_graphs, refused

FULL = Path("/dev/full")

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")


def train(folder, *callbacks, **options):
    factory = NeuralFactory(device="cpu", seed=3, progress=False, folder=folder)
    settings = {"epochs": 2, "checkpoint": Checkpoint(every_steps=3), **options}
    return factory.train(line_graphs()[0], callbacks=callbacks, **settings)


def rows(folder):
    """What the log says of steps and epochs, and how it ended."""
    return [row for row in read_log(folder / "metrics.jsonl") if row.get("event") != "note"]


class LogFull(Callback):
    """Lets the log be on a full disk after some steps, and before others."""

    def __init__(self, full, free):
        self.full, self.free = full, free

    def on_step_end(self, run):
        lines = next(each for each in run._callbacks if isinstance(each, LossLogger))._lines
        if run.step == self.full:
            self.path, lines.path = lines.path, FULL
        if run.step == self.free:
            lines.path = self.path


def test_a_log_that_cannot_be_written_waits_and_the_next_checkpoint_is_another_try(tmp_path):
    train(tmp_path / "whole")
    result = train(tmp_path / "full", LogFull(2, 5))
    said = "what belongs to a checkpoint cannot be written, full: No space left on device"
    assert any(said in note and "another try" in note for note in result.notes)
    assert rows(tmp_path / "full") == rows(tmp_path / "whole")
    assert not (tmp_path / "full" / "checkpoints" / "step-00000003").exists()
    saved = CheckpointStore(tmp_path / "full" / "checkpoints").newest()[0]
    assert saved is not None
    assert saved.state["step"] == 10


def test_the_length_of_the_log_is_that_of_the_checkpoint(tmp_path):
    """A training that ends on a full disk goes on from the last checkpoint, with the log as it was then."""
    train(tmp_path / "whole")
    with refused(CheckpointError, "3 times in a row"):
        train(tmp_path / "parts", LogFull(4, 100), checkpoint=Checkpoint(every_steps=1))
    train(tmp_path / "parts", checkpoint=Checkpoint(every_steps=1))
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole")


def test_rows_wait_for_the_disk_and_a_refusal_is_noted_once(tmp_path):
    notes = []
    lines = Lines(FULL, notes.append)
    for step in range(3):
        lines.add({"step": step}, now=True)
    assert notes == ["cannot write full: No space left on device; its rows wait, and are tried again"]
    with pytest.raises(OSError, match="No space"):
        lines.flush()
    lines.path = tmp_path / "rows.jsonl"
    assert lines.flush() == lines.path.stat().st_size
    assert [row["step"] for row in read_log(lines.path)] == [0, 1, 2]


def test_rows_that_never_found_room_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("neumo.engine.checkpoints.writing._KEPT", 100)
    notes = []
    lines = Lines(FULL, notes.append)
    for step in range(20):
        lines.add({"step": step}, now=True)
    lines.path = tmp_path / "rows.jsonl"
    lines.try_to_write()
    kept = [row["step"] for row in read_log(lines.path)]
    assert kept[0] == 0
    assert kept[1:] == list(range(kept[1], 20))
    assert notes[1:] == [f"rows.jsonl: {20 - len(kept)} rows are missing, for which the disk had no room"]
    lines.path = FULL
    lines.add({"step": 20})
    lines.close()
    assert notes[-1] == "cannot write full: No space left on device; 1 rows are lost"


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 1 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() or shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can mount a small disk, and not everywhere")
    yield place
    subprocess.run(["umount", str(place)], check=True)


class Fill(Callback):
    """Takes all the room of a disk after one step, and gives it back after another."""

    def __init__(self, disk, full, free):
        self.file, self.full, self.free = disk / "filler", full, free

    def on_step_end(self, run):
        if run.step == self.full:
            with self.file.open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(512))
                except OSError:
                    pass
        if run.step == self.free:
            self.file.unlink()


def test_a_training_gets_over_a_disk_that_is_full_for_a_while(tmp_path, small_disk):
    samples = [Samples(sound_graph(), every_steps=4, count=1) for _ in range(2)]
    whole = train(tmp_path / "whole", samples[0])
    result = train(small_disk / "run", samples[1], Fill(small_disk, 2, 7))
    assert np.array_equal(result.losses, whole.losses)
    assert rows(small_disk / "run") == rows(tmp_path / "whole")
    assert any("cannot write samples: No space left" in note for note in result.notes)
    assert sum("another try" in note for note in result.notes) == 2
    assert (small_disk / "run" / "samples" / "step-00000008" / "text.txt").is_file()
    assert read_starts(small_disk / "run")[0]["end"]["step"] == 10
    assert len((small_disk / "run" / "metrics.csv").read_text().splitlines()) == 14


class Report:
    """A report of data that finds the disk full."""

    dropped, notes = ("one recording",), ()

    def save(self, folder):
        with FULL.open("w") as file:
            file.write(str(folder))


def test_a_report_that_cannot_be_written_is_noted(tmp_path, monkeypatch):
    monkeypatch.setattr(ArraySource, "report", lambda _self: Report())
    result = train(tmp_path)
    assert result.steps == 10
    assert "data: one recording" in result.notes
    assert result.notes.count("data: the report cannot be written: No space left on device") == 1


def test_half_a_text_is_never_left(tmp_path, monkeypatch):
    replace_text(tmp_path / "run.json", "whole\n")

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_text(tmp_path / "run.json", json.dumps([1]))
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    assert (tmp_path / "run.json").read_text() == "whole\n"
