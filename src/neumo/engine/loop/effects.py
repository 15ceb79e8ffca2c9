"""Options that change nothing in the training they are given to: they are not wrong, and they are noted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from neumo.engine.loop.windows import count_batches

if TYPE_CHECKING:
    from neumo.data.source import DataSource
    from neumo.engine.backend import Session
    from neumo.engine.updates.precision import Override
    from neumo.graph.module import NeuralModule


def long_warm_ups(schedules: Iterable[tuple[Any, int]]) -> list[str]:
    """Note each schedule whose warm-up is longer than its training; pairs of it and the number of updates.

    >>> from neumo.engine.updates.schedules import Cosine
    >>> long_warm_ups([(Cosine(warmup_steps=1000), 12)])
    ['Cosine: the warm-up takes 1000 steps, and the training has 12: the full rate is never reached']
    """
    return [
        f"{type(schedule).__name__}: the warm-up takes {warm} steps, and the training has {steps}: "
        "the full rate is never reached"
        for schedule, steps in schedules
        if (warm := getattr(schedule, "warmup_steps", None) or 0) > steps
    ]


def large_steps(source: DataSource, batches_per_step: int, processes: int) -> list[str]:
    """Note that a step asks for more batches than an epoch has; the first epoch is looked at."""
    if batches_per_step <= processes:  # else a process would have none, which is refused
        return []
    there = count_batches(source, 0, batches_per_step)
    if there >= batches_per_step:
        return []
    return [f"batches_per_step={batches_per_step}: an epoch has {there}, so each is one step of {there}"]


def idle_precisions(
    overrides: Iterable[Override], modules: Mapping[str, NeuralModule], session: Session
) -> list[str]:
    """Note precisions of modules that have no weights to compute with."""
    return [
        f"precisions: {name} has no weights, so only products of what it is given are in {override.precision}"
        for override in overrides
        for name, module in modules.items()
        if override.precision in ("bf16", "fp16")
        and override.is_of(module, name)
        and module.role not in ("data", "metric")
        and not session.count_parameters(module)
    ]
