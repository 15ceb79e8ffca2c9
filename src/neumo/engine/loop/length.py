"""How many steps a training has, also one that goes on with other batches than it began with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from neumo.engine.loop.windows import count_windows, steps_left
from neumo.engine.processes.world import World

if TYPE_CHECKING:
    from neumo.data.source import DataSource


@dataclass(frozen=True, slots=True)
class Length:
    """The length of a training: `steps` in all; its epochs alone would be `of_epochs`, without `max_steps`.

    `steps_per_epoch` is that of the data of now: where it differs from the one before a resume, the steps
    that were done before were of other epochs.
    """

    steps: int
    epochs: int | None = None
    steps_per_epoch: int = 0
    of_epochs: int | None = None

    def state(self) -> dict[str, Any]:
        """What a checkpoint remembers of it."""
        return asdict(self)


def find_length(
    source: DataSource,
    world: World,
    batches: int,
    *,
    epochs: int | None,
    max_steps: int | None,
    state: Mapping[str, Any] | None = None,
) -> Length:
    """Find how many steps of so many batches a training has, given the state that it goes on from.

    Steps that were done count as they are. All processes call it.
    """
    done = state["step"] if state is not None else 0
    if epochs is None:
        assert max_steps is not None  # the options ask for one of them
        return Length(max(max_steps, done))
    each = count_windows(source, 0, world, batches)
    whole = epochs * each
    if state is not None and not _is_as_before(state, whole, each, max_steps):
        whole = _gone_on(state, source, world, batches, epochs, each)
    limit = whole if max_steps is None else min(whole, max_steps)
    return Length(max(limit, done), epochs, each, whole)


def _is_as_before(state: Mapping[str, Any], whole: int, each: int, max_steps: int | None) -> bool:
    """Whether a checkpoint that remembers no length was of a training as long as this one."""
    return "length" not in state and state["total_steps"] == min(whole, max_steps or whole)


def _gone_on(
    state: Mapping[str, Any], source: DataSource, world: World, batches: int, epochs: int, each: int
) -> int:
    """Count the steps of all epochs where some were done before: those that were planned, if an epoch has
    as many now, so that an interruption changes nothing; else those that were done and those that are left.
    """
    before = Length(**state["length"]) if state.get("length") else None
    if before is not None and before.of_epochs is not None and before.steps_per_epoch == each:
        return before.of_epochs + (epochs - (before.epochs or 0)) * each
    if state["epoch"] >= epochs:
        return state["step"]
    layout = state.get("layout", 1) if state["batch"] else batches
    rest = steps_left(source, state["epoch"], world, batches, layout=layout, used=state["batch"])
    return state["step"] + rest + (epochs - state["epoch"] - 1) * each
