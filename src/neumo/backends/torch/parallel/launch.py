"""Launches processes with torchrun's agent, which begins them anew when one dies."""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any
from uuid import uuid4

from neumo.engine.processes.launch import Failure, Launch, deaf, failures, listening
from neumo.types.errors import BackendError

_JOIN_SECONDS = 600  # how long machines wait for one another, as torchrun does
_LAST_STEP_SECONDS = 300  # for the last step and a checkpoint, after a signal to end
_DEAF_SECONDS = (
    20.0  # for the first of the processes to hear such a signal; none does that waits in an exchange
)
_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"  # SLURM can send the last one ahead of a time limit
_DEFAULTS = {
    "OMP_NUM_THREADS": "1",  # processes that share the cores of a machine slow one another down with more
    "TORCH_CPP_LOG_LEVEL": "ERROR",  # else DDP warns that all weights are used, as they should be
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # else a machine that comes back finds a store that is gone
}


def launch(command: Sequence[str], how: Launch) -> tuple[int, list[Failure]]:
    """Run `python -m neumo` with some words in several processes; returns the exit code and what failed.

    When a process dies, all are ended and begun anew, up to `how.restarts` times; they find the last
    checkpoint by themselves. After an error that would come again nothing is begun anew. The code is that of
    the first process that failed, or 128 and the number of the signal that ended it.

    Raises `BackendError` if the other machines do not come.
    """
    with tempfile.TemporaryDirectory(prefix="neumo-") as place:
        folder = Path(place)
        # Those of one machine of several may wait for one that saves on another.
        watching = _ending_the_deaf(folder) if how.nodes_range[1] == 1 else nullcontext()
        with listening(folder, **_DEFAULTS), watching:
            code = _run(command, how)
        told = failures(folder)
    return (told[0].code if told else code), told


@contextmanager
def _ending_the_deaf(folder: Path) -> Generator[None, None, None]:
    """Kill the processes if none of them hears a signal to end: all wait for one another, for ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard, wake = os.pipe()
    os.set_blocking(wake, False)
    before = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    watching = threading.Thread(target=_watch, args=(heard, folder), daemon=True)
    watching.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.write(wake, bytes(1))
        watching.join()
        for end in (heard, wake):
            os.close(end)


def _watch(signals: int, folder: Path) -> None:
    """Wait for a signal, and for what the processes do about it; a zero says that all is over."""
    number = os.read(signals, 1)[0]
    until = time.monotonic() + _DEAF_SECONDS
    said = number
    while said:
        left = until - time.monotonic()
        if left <= 0:
            break
        if select.select([signals], [], [], left)[0]:
            said = os.read(signals, 1)[0]
    if not said:
        return
    name = signal.Signals(number).name
    if found := deaf(folder):
        _say(f"{name}: no process has heard it for {_DEAF_SECONDS:g} s: all wait for each other, and end")
        for process in found:
            os.kill(process, signal.SIGKILL)
    else:
        _say(f"{name}: waiting for the last step and a checkpoint, for {_LAST_STEP_SECONDS} s at most")


def _say(text: str) -> None:
    print(f"neumo: {text}", file=sys.stderr, flush=True)


def _run(command: Sequence[str], how: Launch) -> int:
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous.api import RendezvousError
    from torch.distributed.launcher.api import launch_agent

    for name in [name for name in logging.root.manager.loggerDict if name.startswith("torch.distributed")]:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        launch_agent(_config(how), sys.executable, ["-u", "-m", "neumo", *command])
    except ChildFailedError as error:
        code = error.get_first_failure()[1].exitcode
        return 128 - code if code < 0 else code
    except SignalException as error:
        return 128 + signal.Signals(error.sigval).value
    except (RendezvousError, TimeoutError) as error:
        raise _nobody_came(how, error) from error
    return 0


def _config(how: Launch) -> Any:
    from torch.distributed.launcher.api import LaunchConfig

    least, most = how.nodes_range
    settings: dict[str, Any] = {"timeout": _JOIN_SECONDS, "last_call_timeout": 5}
    here = True if how.rendezvous is None else how.here
    if here is not None:
        settings["is_host"] = here
    known = {field.name for field in fields(LaunchConfig)}
    newer = {"signals_to_handle": _SIGNALS, "shutdown_timeout": _LAST_STEP_SECONDS}
    return LaunchConfig(
        min_nodes=least,
        max_nodes=most,
        nproc_per_node=how.processes,
        run_id="neumo" if how.rendezvous else str(uuid4()),
        rdzv_backend="c10d",
        rdzv_endpoint=how.rendezvous or "localhost:0",
        rdzv_configs=settings,
        max_restarts=how.restarts,
        monitor_interval=0.1,
        local_addr=how.address,
        **{name: value for name, value in newer.items() if name in known},
    )


def _nobody_came(how: Launch, error: Exception) -> BackendError:
    return BackendError(
        f"{how.nodes} machines did not meet at {how.rendezvous}: {error}",
        code="rendezvous",
        fixes=[
            "start the same command on every machine, with the same --rendezvous",
            "see that HOST can be reached at PORT from all of them",
            "--rendezvous-here on the machine that HOST names, if its name does not tell",
        ],
    )
