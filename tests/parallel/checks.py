"""Many checks in one launch: functions `check_...`, which all processes run in the order of the file."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

import torch.distributed as dist

from neumo.backends.torch.parallel.world import join


def report_of(found: Mapping[str, Any]) -> dict[str, str]:
    """Run the checks of a module, given its names, in this process of a world; what went wrong by check."""
    join()
    report: dict[str, str] = {}
    for name, check in list(found.items()):
        if name.startswith("check_"):
            try:
                check()
                report[name] = ""
            except BaseException:  # the others wait for this one in vain, so that no check can follow
                report[name] = traceback.format_exc()
                return report
    dist.barrier()  # nobody leaves while others still connect
    return report


def say_report(found: list[dict[str, str]], check: str) -> str:
    """Say what went wrong with a check, in all processes; "" if nothing did."""
    said = [f"process {rank}: {report.get(check, 'not run')}" for rank, report in enumerate(found)]
    return "\n".join(text for text in said if not text.endswith(": "))
