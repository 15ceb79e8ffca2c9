"""Whether all processes begin a training with the same weights."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from neumo.backends.torch.weights import fingerprint
from neumo.engine.processes.world import World, together
from neumo.types.errors import BackendError


def check_same_weights(modules: Mapping[str, nn.Module], world: World) -> None:
    """Raise `BackendError`, in all processes, where one has other weights than the first: a training would
    mix them. What travels is a fingerprint of each module.
    """
    if world.size == 1:
        return
    marks = together(world, {name: fingerprint(module, statistics=False) for name, module in modules.items()})
    other = {
        rank: [name for name, mark in marks[0].items() if found.get(name) != mark]
        for rank, found in enumerate(marks)
    }
    rows = [f"process {rank}: {', '.join(names)}" for rank, names in other.items() if names]
    if rows:
        raise BackendError(
            f"{len(rows)} of {world.size} processes begin with other weights than process 0",
            code="other-weights",
            details=rows[:6],
            why="All of them train one model, so what is loaded or changed in one must be so in all.",
            fixes=[
                "factory.load(graph, path) in every process, not only where rank is 0",
                "weights drawn on different kinds of processors may differ: save them once, and load them",
            ],
        )
