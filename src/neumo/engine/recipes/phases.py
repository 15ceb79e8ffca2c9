"""Several optimizers in recipes: the list `train.phases`.

train:
  alternate: batch
  phases:
    - {loss: d_loss, trains: [discriminator], optimizer: {kind: AdamW, lr: 2e-4}}
    - {loss: g_loss, trains: [generator], steps: 2, clip: 1.0}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neumo.engine.loop.phases import Phase
from neumo.engine.recipes.kinds import read_kind
from neumo.engine.updates.optimizers import EMA, LARC, OPTIMIZERS
from neumo.engine.updates.schedules import SCHEDULES
from neumo.graph.yaml import Recipe

if TYPE_CHECKING:
    from neumo.engine.recipes.settings import Actions


@dataclass(frozen=True, kw_only=True)
class PhaseSettings:
    """One optimizer of several: see `neumo.engine.Phase`; `optimizer` and `schedule` name their `kind`."""

    loss: str
    trains: tuple[str, ...] = ()
    optimizer: Any = None
    schedule: Any = None
    steps: int = 1
    every: int = 1
    clip: float | None = None
    larc: LARC | None = None
    ema: float | EMA | None = None
    name: str = ""

    def __post_init__(self) -> None:
        self.phase()

    def phase(self, optimizer: Any = None, schedule: Any = None) -> Phase:
        """Make the phase; raises `ConfigError` for settings that cannot be meant."""
        return Phase(
            loss=self.loss,
            trains=self.trains,
            optimizer=optimizer,
            schedule=schedule,
            steps=self.steps,
            every=self.every,
            clip=self.clip,
            larc=self.larc,
            ema=self.ema,
            name=self.name,
        )


def read_phases(recipe: Recipe, settings: Sequence[PhaseSettings]) -> tuple[Phase, ...]:
    """Read the optimizers and schedules of phases, whose other settings are read already."""
    return tuple(
        each.phase(
            read_kind(recipe, f"phases.{number}.optimizer", OPTIMIZERS),
            read_kind(recipe, f"phases.{number}.schedule", SCHEDULES),
        )
        for number, each in enumerate(settings)
    )


def losses_of(actions: Actions) -> list[str | None]:
    """The losses that a recipe trains on: those of its phases, or the one that it names, None if it does
    not.
    """
    return [phase.loss for phase in actions.phases] or [actions.train.loss]
