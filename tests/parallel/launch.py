"""Runs a function in several processes that form one world, and gives back what each of them returns."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # processes import the tests by name

# One server imports torch once; each process is a fork of it, which takes milliseconds instead of seconds.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # DDP warns that all weights are used, as they should
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    ["torch", "torch.distributed", "neumo.engine.loop.prepare", "neumo.backends.torch"]
)


def run(function: Callable[..., Any], processes: int, *given: Any, timeout: float = 120.0) -> list[Any]:
    """Call `function(*given)` in so many processes; gives what they return, which must be fit for JSON.

    Raises `AssertionError` with the traceback of the first one that failed, or that did not end in time.
    """
    with tempfile.TemporaryDirectory() as folder:
        code = Path(function.__code__.co_filename)
        port = _free_port()
        started = [
            _SERVER.Process(
                target=_child, args=(str(code), function.__name__, given, rank, processes, port, folder)
            )
            for rank in range(processes)
        ]
        for process in started:
            process.start()
        for process in started:
            process.join(timeout)
        late = [rank for rank, process in enumerate(started) if process.is_alive()]
        for process in started:
            process.kill()
        results = [_read(Path(folder) / f"{rank}.json") for rank in range(processes)]
    broken = [f"process {n}:\n{result['error']}" for n, result in enumerate(results) if "error" in result]
    if broken or late:
        raise AssertionError("\n".join([*broken, f"not ended in {timeout} s: {late}" if late else ""]))
    return [result["value"] for result in results]


def _child(code: str, name: str, given: Any, rank: int, processes: int, port: int, folder: str) -> None:
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }
    import torch

    torch.set_num_threads(1)
    try:
        function = getattr(_module(code), name)
        result: dict[str, Any] = {"value": function(*given)}
    except BaseException:
        result = {"error": traceback.format_exc()}
    (Path(folder) / f"{rank}.part").write_text(json.dumps(result))
    (Path(folder) / f"{rank}.part").rename(Path(folder) / f"{rank}.json")


def _module(code: str) -> Any:
    """Import a test file under the name by which its siblings import it, so that classes are made once."""
    name = ".".join(Path(code).relative_to(ROOT).with_suffix("").parts)
    return importlib.import_module(name)


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {"error": "it died, or did not end in time, without a result"}
    return json.loads(path.read_text())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
