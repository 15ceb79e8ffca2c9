"""How many threads a computation gets on a machine that may have other work."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

_CHOICES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def settle_threads(most: int) -> int | None:
    """Choose the number of threads before a framework is imported; return it, or None where the user chose.

    Threads that wait for one another at every small operation become five to fifteen times slower beside a
    busy process, so no more are taken than cores are idle now. `OMP_NUM_THREADS` is respected.
    """
    if any(os.environ.get(name) for name in _CHOICES):
        return None
    cores = _cores()
    threads = max(1, min(most, cores - math.ceil(busy_cores() - 0.3)))
    os.environ["OMP_NUM_THREADS"] = str(threads)
    # A thread that waits sleeps: a little slower alone, and not a catastrophe beside others.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    return threads


def busy_cores(seconds: float = 0.5) -> float:
    """Measure how many cores other processes keep busy; the load average where the system does not say.

    >>> 0 <= busy_cores(0.05) <= 10_000
    True
    """
    before = _ticks()
    if before is None:
        return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    time.sleep(seconds)
    after = _ticks() or before
    total, idle = after[0] - before[0], after[1] - before[1]
    return (os.cpu_count() or 1) * (1 - idle / total) if total > 0 else 0.0


def _ticks() -> tuple[int, int] | None:
    """All and idle clock ticks of this machine since it started (Linux: proc(5), /proc/stat)."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
        ticks = [int(word) for word in first[1:9]]
    except (OSError, ValueError):
        return None
    return (sum(ticks), ticks[3] + ticks[4]) if len(ticks) >= 5 else None


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
