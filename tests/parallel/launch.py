"""Runs checks in several processes that are joined, as a launcher would start them: one launch, many checks.

A module of this room holds functions `check_...`, which all processes run in the order in which they are
written, and ends in `run_checks(globals())`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE = 120  # seconds, for one launch


def launch(module: str, size: int, folder: Path, *words: str) -> dict[str, str]:
    """Run the checks of `tests.parallel.<module>` in `size` processes; say what went wrong by check."""
    port = str(_free_port())
    processes = [_start(module, rank, size, port, [str(folder), *words]) for rank in range(size)]
    outputs: list[str] = []
    for process in processes:
        try:
            outputs.append(process.communicate(timeout=PATIENCE)[0])
        except subprocess.TimeoutExpired:
            process.kill()
            outputs.append(process.communicate()[0] + "\nkilled: it took too long")
    found: dict[str, str] = {}
    for rank in range(size):
        report = folder / f"rank{rank}.json"
        assert report.is_file(), f"rank {rank} ended early:\n{outputs[rank]}"
        for name, problem in json.loads(report.read_text()).items():
            found[name] = "\n".join(part for part in (found.get(name, ""), problem) if part)
    return found


def _start(module: str, rank: int, size: int, port: str, words: Sequence[str]) -> subprocess.Popen[str]:
    joined = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1"}
    environment = os.environ | {name: str(value) for name, value in joined.items()}
    environment |= {"MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error::FutureWarning", "-m", f"tests.parallel.{module}", *words]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


def run_checks(found: Mapping[str, Any]) -> None:
    """In a process that was launched: run the checks, and report on each; after a failure none goes on."""
    import torch.distributed as dist

    folder = Path(sys.argv[1])
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    report: dict[str, str] = {}
    broken = ""
    for name, check in list(found.items()):
        if not name.startswith("check_"):
            continue
        report[name] = broken
        if not broken:
            try:
                check(folder)
            except BaseException:
                broken = f"not run: {name} failed"
                report[name] = f"rank {dist.get_rank()}: {traceback.format_exc()}"
    (folder / f"rank{dist.get_rank()}.json").write_text(json.dumps(report))
    dist.destroy_process_group()
