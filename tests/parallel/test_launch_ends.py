"""A signal to the launcher ends its processes, whatever they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .launch import ROOT

# Two processes that listen to signals; then each does something.
CHILD = """
import os, sys, time
from pathlib import Path
from types import SimpleNamespace
import torch, torch.distributed as dist
from neumo.backends.torch.parallel.world import join
from neumo.engine.processes.signals import Signals

world = join()
asked = []
with Signals(SimpleNamespace(first=False, stop=asked.append)):
    world.wait()
    (Path(sys.argv[1]) / f"ready-{world.rank}").touch()
    if sys.argv[2] == "hang" or world.rank:
        dist.recv(torch.zeros(1), 1 - world.rank)
    while not asked:
        time.sleep(0.05)
    time.sleep(3)
    (Path(sys.argv[1]) / "saved").touch()
    dist.send(torch.zeros(1), 1)
sys.exit(143)
"""
LAUNCHER = """
import sys
from neumo.backends.torch.parallel import launch
from neumo.engine.processes.launch import Launch

launch._DEAF_SECONDS = 1.0
sys.executable = sys.argv[1]
sys.exit(launch.launch(["train"], Launch(processes=2))[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("what", ["hang", "save"])
def test_processes_that_hang_are_killed_and_those_that_save_are_waited_for(what: str, tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(CHILD)
    start = tmp_path / "start"
    start.write_text(f"#!/bin/sh\nexec {sys.executable} {tmp_path / 'child.py'} {tmp_path} {what}\n")
    start.chmod(0o755)
    began = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(start)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + 90
        while len(list(tmp_path.glob("ready-*"))) < 2 and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(0.5)
        began.send_signal(signal.SIGTERM)
        _, said = began.communicate(timeout=30)
    finally:
        began.kill()
    assert began.returncode == 143, said
    assert (tmp_path / "saved").exists() == (what == "save")
    words = {"hang": "no process has heard it", "save": "waiting for the last step and a checkpoint"}
    assert f"neumo: SIGTERM: {words[what]}" in said
