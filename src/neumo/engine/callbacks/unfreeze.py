"""Letting weights free one after the other, as gradual unfreezing does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from neumo.engine.callback import Callback
from neumo.engine.checks.arguments import check_kind
from neumo.engine.updates.weight_names import select
from neumo.types.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from neumo.engine.loop.run import Run

UNITS = ("epochs", "steps")


class Unfreeze(Callback):
    """Keeps weights as they are at first, and lets them free after so many epochs or steps.

    `Unfreeze({"encoder": 2, "encoder.blocks.11.*": 1})` trains what is left of the graph for one epoch,
    then block 11 as well, and from the third epoch on the whole encoder (Howard and Ruder 2018, section
    3.3). Names are those of `NeuralFactory.freeze`; a weight with several of them is let free at the
    earliest.

    >>> Unfreeze({"encoder": 500}, unit="steps")
    Unfreeze(encoder after 500 steps)

    Until then a weight has no update: no decay, no moments, no part in the norm of the gradient, and layers
    that wait as a whole compute as in evaluation, statistics and all. The optimizer knows them from the
    start, so a run can be resumed at any step. In one process the backward pass leaves them out; with
    several it does not, since each waits for the gradients of all.

    Raises `ConfigError` if nothing would be trained at first, `GraphError` for names that mean nothing.
    """

    order: ClassVar[int] = 5

    def __init__(self, at: Mapping[str, int], *, unit: Literal["epochs", "steps"] = "epochs") -> None:
        if unit not in UNITS:
            raise ConfigError(
                f"Unfreeze: unit={unit!r} is neither 'epochs' nor 'steps'",
                code="unfreeze",
                fixes=did_you_mean(str(unit), UNITS),
            )
        check_kind("Unfreeze", "at", at, Mapping, code="unfreeze", fixes=["Unfreeze({'encoder': 3})"])
        if not at:
            raise ConfigError(
                "Unfreeze names no weights", code="unfreeze", fixes=["Unfreeze({'encoder': 3})"]
            )
        for pattern, when in at.items():
            check_kind("Unfreeze", f"at[{pattern!r}]", when, int, code="unfreeze")
            if when < 1:
                raise ConfigError(f"Unfreeze: {pattern!r} is free from the start", code="unfreeze")
        self.at = dict(at)
        self.unit = unit
        self._free_at: dict[str, int] = {}  # weight or statistic as `module.name` -> when it is let free
        self._held: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"Unfreeze({', '.join(f'{name} after {when} {self.unit}' for name, when in self.at.items())})"

    def on_action_start(self, run: Run) -> None:
        """Find the weights, and hold those whose time has not come."""
        self._free_at = self._times(run)
        self._held = frozenset()
        self._hold(run)

    def on_epoch_start(self, run: Run) -> None:
        """Let weights free whose epoch has come."""
        if self.unit == "epochs":
            self._hold(run)

    def on_step_start(self, run: Run) -> None:
        """Let weights free whose step has come."""
        if self.unit == "steps":
            self._hold(run)

    def _hold(self, run: Run) -> None:
        now = run.step if self.unit == "steps" else run.epoch
        held = frozenset(name for name, when in self._free_at.items() if now < when)
        if held != self._held:
            run.hold(self, held)
            self._held = held

    def _times(self, run: Run) -> dict[str, int]:
        if run.stage is None:
            return {}
        session, modules = run.stage.factory.session, run.stage.plan.modules
        names = {
            name: session.weight_names(module)
            for name, module in modules.items()
            if module.role not in ("data", "metric")
        }
        found: dict[str, int] = {}
        for pattern, when in self.at.items():
            chosen = select(names, [pattern], f"graph {run.stage.graph.name!r}")
            for module, weights in chosen.items():
                for weight in names[module] if weights is None else weights:
                    key = f"{module}.{weight}"
                    found[key] = min(when, found.get(key, when))
        return found
