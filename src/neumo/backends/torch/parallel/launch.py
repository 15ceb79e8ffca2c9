"""Launches processes with torchrun's agent, which begins them anew when one dies."""

from __future__ import annotations

import logging
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any
from uuid import uuid4

from neumo.engine.processes.launch import Failure, Launch, failures, listening
from neumo.types.errors import BackendError

_JOIN_SECONDS = 600  # how long machines wait for one another, as torchrun does
_LAST_STEP_SECONDS = 300  # for the last step and a checkpoint, after a signal to end
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
        with listening(folder, **_DEFAULTS):
            code = _run(command, how)
        told = failures(folder)
    return (told[0].code if told else code), told


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
