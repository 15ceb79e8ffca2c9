"""What befalls one of several processes: kills, signals, bad numbers, slowness, silence."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from neumo.engine import DDP, AdamW, Checkpoint, Cosine, Evaluate, NeuralFactory, faults, read_log
from neumo.engine.checkpoints.lock import LOCK, Lock

from ..engine.toys import Line, PointData, line_graphs
from .launch import ROOT, run

STEPS = 15  # three epochs of five


def train(folder: str, text: str = "", **changes: Any) -> dict[str, Any]:
    """Two processes, accumulation, augmentation, workers, dropout, batch norm, averaging."""
    data = PointData(points=72, batch_size=4, noise=0.1)
    graph, test = line_graphs(data, Line(norm=True, dropout=0.3))
    factory = NeuralFactory(
        device="cpu",
        seed=5,
        progress=False,
        folder=folder,
        workers=changes.pop("workers", 1),
        strategy=changes.pop("strategy", None),
    )
    settings: dict[str, Any] = {
        "optimizer": AdamW(lr=0.02),
        "schedule": Cosine(warmup_steps=4),
        "clip": 2.0,
        "ema": 0.9,
        "epochs": 3,
        "batches_per_step": 4,
        "evaluate": Evaluate(test, every_steps=4, best="error"),
        "checkpoint": Checkpoint(every_steps=2, keep_last=2),
        **changes,
    }
    with faults.armed(text) if text else nullcontext():  # else those of the environment
        result = factory.train(graph, **settings)
    return {"losses": result.losses, "notes": result.notes, "stopped": result.stopped, "steps": result.steps}


def trace(folder: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """All that a training came to: its log without notes, and its last checkpoint, file by file."""
    rows = [row for row in read_log(folder / "metrics.jsonl") if row.get("event") != "note"]
    newest = max((folder / "checkpoints").glob("step-*"))
    files = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in newest.glob("*.safetensors")
    }
    return rows, {"checkpoint": newest.name, **files}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("whole")
    run(train, 2, str(folder))
    return trace(folder)


def test_kills_and_resumes_change_nothing(tmp_path: Path, uninterrupted: Any) -> None:
    kills = [
        "kill@step=4,rank=1",
        "kill@epoch-end=2,rank=0",
        "kill@checkpoint-file=14,rank=0",
    ]
    for text in kills:
        with pytest.raises(AssertionError, match="it died"):
            run(train, 2, str(tmp_path), text)
    run(train, 2, str(tmp_path))
    assert trace(tmp_path) == uninterrupted


def test_a_worker_that_dies_changes_nothing(tmp_path: Path, uninterrupted: Any) -> None:
    first, second = run(train, 2, str(tmp_path), "kill@item=3; kill@item=40,rank=1")
    assert trace(tmp_path) == uninterrupted
    assert [note for note in first["notes"] + second["notes"] if "started again" in note]


def test_a_signal_to_one_process_stops_all_behind_the_same_step(tmp_path: Path, uninterrupted: Any) -> None:
    first, second = run(train, 2, str(tmp_path), "usr1@step=7,rank=1")
    assert first["stopped"] == second["stopped"]
    assert first["stopped"].startswith("SIGUSR1")
    assert first["steps"] == second["steps"] in (7, 8)
    run(train, 2, str(tmp_path))
    assert trace(tmp_path) == uninterrupted


def test_a_loss_that_is_not_finite_is_skipped_by_all_and_named_by_the_first(tmp_path: Path) -> None:
    first, second = run(train, 2, str(tmp_path), "nan@step=3,rank=1")
    assert str(first["losses"]) == str(second["losses"])
    (row,) = [json.loads(line) for line in (tmp_path / "nonfinite.jsonl").read_text().splitlines()]
    broken = [batch for batch in row["batches"] if batch["loss"] == "nan"]
    assert [batch["process"] for batch in broken] == [1]
    assert row["items"] == broken[0]["items"]
    assert {batch["process"] for batch in row["batches"]} == {0, 1}


def raising(folder: str) -> dict[str, Any]:
    return train(folder, "nan@step=8,rank=1", nonfinite="raise", checkpoint=Checkpoint(every_steps=5))


def test_the_last_good_step_is_kept_by_all_before_they_raise(tmp_path: Path, uninterrupted: Any) -> None:
    with pytest.raises(AssertionError, match="checkpoint step-00000007 has"):
        run(raising, 2, str(tmp_path))
    run(train, 2, str(tmp_path))
    assert trace(tmp_path)[1] == uninterrupted[1]


def test_a_full_disk_is_known_to_all(tmp_path: Path) -> None:
    full = "; ".join(f"enospc@write={n},rank=0" for n in (1, 2, 3))
    with pytest.raises(AssertionError, match="3 times in a row") as caught:
        run(train, 2, str(tmp_path), full)
    assert str(caught.value).count("CheckpointError[checkpoint-disk]") >= 2


def test_a_folder_that_another_training_has_is_refused_in_all(tmp_path: Path) -> None:
    lock = Lock(tmp_path / LOCK)
    lock.take()
    try:
        with pytest.raises(AssertionError) as caught:
            run(train, 2, str(tmp_path), "")
    finally:
        lock.release()
    assert "ConfigError[run-folder]: another training is running in" in str(caught.value)
    assert "process 0 failed: another training is running in" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_slow_process_is_named(tmp_path: Path) -> None:
    slow = "; ".join(f"slow@step={n},rank=1,seconds=0.1" for n in range(1, STEPS + 1))
    first, _ = run(train, 2, str(tmp_path), slow)
    (note,) = [note for note in first["notes"] if "all of them wait for it" in note]
    assert note.startswith("process 1 on ")


def silent(folder: str) -> str:
    text = "slow@step=3,rank=1,seconds=20"
    try:
        train(folder, text, strategy=DDP(timeout_minutes=0.05), workers=0)
    except Exception as error:
        return str(error)
    return "no error"


def test_a_process_that_does_not_answer_is_named(tmp_path: Path) -> None:
    first, _ = run(silent, 2, str(tmp_path))
    assert "BackendError[peer-lost]" in first
    assert "no answer from process 1" in first  # wherever the time limit strikes
    assert "behind step 2, in epoch 1" in first


def test_torchrun_starts_again_what_was_killed_and_it_goes_on_exactly(
    tmp_path: Path, uninterrupted: Any
) -> None:
    """Even if the first start was told never to resume."""
    code = tmp_path / "training.py"
    code.write_text(
        "import sys\nfrom tests.parallel.test_faults import train\ntrain(sys.argv[1], resume='never')\n"
    )
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    given = {
        **os.environ,
        "NEUMO_FAULTS": "kill@step=8,rank=1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }
    ended = subprocess.run(
        [sys.executable, *words, str(code), str(tmp_path / "run")],
        env=given,
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert trace(tmp_path / "run") == uninterrupted
    notes = [
        row["text"] for row in read_log(tmp_path / "run" / "metrics.jsonl") if row.get("event") == "note"
    ]
    assert [note for note in notes if note.startswith("going on from")]


@pytest.mark.skipif(sys.platform != "linux", reason="prctl")
def test_processes_end_with_torchrun(tmp_path: Path) -> None:
    """Else they would go on, and write checkpoints beside those that come after them."""
    code = tmp_path / "training.py"
    code.write_text(
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from neumo.backends.torch.parallel.world import join\n"
        "world = join()\n"
        "path = Path(sys.argv[1]) / f'{world.rank}'\n"
        "path.with_suffix('.part').write_text(str(os.getpid()))\n"
        "path.with_suffix('.part').rename(path.with_suffix('.pid'))\n"
        "time.sleep(300)\n"
    )
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(code), str(tmp_path)]
    agent = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pids: list[int] = []
    try:
        until = time.monotonic() + 90
        while len(list(tmp_path.glob("*.pid"))) < 2 and time.monotonic() < until:
            time.sleep(0.1)
        pids = [int(path.read_text()) for path in tmp_path.glob("*.pid")]
        assert len(pids) == 2
    finally:
        agent.kill()
        agent.wait()
    until = time.monotonic() + 10
    while any(is_alive(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [pid for pid in pids if is_alive(pid)]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
