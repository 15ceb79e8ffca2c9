"""Several optimizers in one training, each with a loss and weights of its own, such as those of a GAN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, Literal, TypeAlias, cast, get_args

from neumo.engine.checks.arguments import check_fields
from neumo.engine.updates.optimizers import EMA, LARC, Optimizer
from neumo.engine.updates.schedules import ScheduleLike
from neumo.types.errors import ConfigError, did_you_mean

Alternate: TypeAlias = Literal["steps", "batch"]

_LONGEST: Final = 10_000  # steps until a pattern of phases begins anew


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One optimizer of several: a loss of the graph, and the modules whose weights it changes.

    >>> Phase(loss="d_loss", trains=("discriminator",), steps=5).label
    'd_loss'

    `trains` names modules, weights or patterns of either, as `freeze` does; without it a phase trains all
    that its loss depends on and no other phase names. `steps` updates follow one another; the phase takes
    part in every `every`-th round only. `name` is what logs and checkpoints call it, the loss if not given.
    `optimizer`, `schedule`, `clip`, `larc` and `ema` are those of the training where they are not given; a
    schedule counts the updates of its own phase.
    """

    loss: str
    trains: Sequence[str] = ()
    optimizer: Optimizer | None = None
    schedule: ScheduleLike | None = None
    steps: int = 1
    every: int = 1
    clip: float | None = None
    larc: LARC | None = None
    ema: EMA | float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        trains = (self.trains,) if isinstance(self.trains, str) else tuple(self.trains)
        object.__setattr__(self, "trains", trains)
        check_fields(self, code="phases", owner="a phase", without=["trains", "optimizer", "schedule"])
        for name in ("steps", "every"):
            if not getattr(self, name) >= 1:
                raise _refused(f"phase {self.label!r}: {name}={getattr(self, name)} is below 1")
        if self.clip is not None and not self.clip > 0:
            raise _refused(f"phase {self.label!r}: clip={self.clip!r} is not above 0")
        if not all(part.isidentifier() for part in self.label.split("-")):
            raise _refused(
                f"a phase cannot be called {self.label!r}: files and figures have its name",
                "a name of letters, digits, - and _",
            )

    @property
    def label(self) -> str:
        """What messages, logs and files call it."""
        return self.name or self.loss


def check_phases(phases: Sequence[Phase], alternate: str) -> None:
    """Raise `ConfigError` for phases that cannot be meant together."""
    if alternate not in get_args(Alternate):
        raise ConfigError(
            f"train: alternate={alternate!r} is neither 'steps' nor 'batch'",
            code="phases",
            fixes=did_you_mean(str(alternate), get_args(Alternate)),
        )
    for phase in cast("Sequence[object]", phases):
        if not isinstance(phase, Phase):
            raise _refused(f"train: {phase!r} is not a phase", "phases=[Phase(loss='d_loss'), ...]")
    labels = [phase.label for phase in phases]
    for label in labels:
        if labels.count(label) > 1:
            raise _refused(f"two phases are called {label!r}", "Phase(loss=..., name='another')")
    if phases:
        Cycle.of(phases, alternate)


@dataclass(frozen=True)
class Cycle:
    """Which phases update the weights in which step: a pattern that repeats itself.

    >>> phases = [Phase(loss="d", steps=2), Phase(loss="g")]
    >>> cycle = Cycle.of(phases, "steps")  # a step is an update, on a batch of its own
    >>> [cycle.turns(step) for step in range(5)]
    [(0,), (0,), (1,), (0,), (0,)]
    >>> cycle = Cycle.of(phases, "batch")  # a step is all updates on one batch
    >>> cycle.turns(0), cycle.turns(1), cycle.updates(0, before=2)
    ((0, 0, 1), (0, 0, 1), 4)

    `rounds` has, for each step of the pattern, the phases by number, in their order.
    """

    rounds: tuple[tuple[int, ...], ...] = ((0,),)
    _before: dict[int, list[int]] = field(init=False, repr=False, compare=False)  # updates, by phase and step

    def __post_init__(self) -> None:
        numbers = {number for each in self.rounds for number in each}
        sums = {n: list(accumulate((each.count(n) for each in self.rounds), initial=0)) for n in numbers}
        object.__setattr__(self, "_before", sums)

    @classmethod
    def of(cls, phases: Sequence[Phase], alternate: str) -> Cycle:
        """Make the pattern of some phases; raises `ConfigError` for one that is too long or has a gap."""
        length = math.lcm(*(phase.every for phase in phases))
        if length * sum(phase.steps for phase in phases) > _LONGEST:
            raise _refused(
                f"the phases take more than {_LONGEST} updates until they begin anew",
                "smaller numbers for steps and every, or some that divide each other",
            )
        rounds = [
            tuple(n for n, phase in enumerate(phases) if at % phase.every == 0 for _ in range(phase.steps))
            for at in range(length)
        ]
        if alternate == "steps":
            return cls(tuple((number,) for each in rounds for number in each))
        if not all(rounds):
            at = rounds.index(())
            raise _refused(f"no phase takes part in step {at + 1}", "every=1 for one of the phases")
        return cls(tuple(rounds))

    def turns(self, step: int) -> tuple[int, ...]:
        """The phases that update in a step, one after the other."""
        return self.rounds[step % len(self.rounds)]

    def updates(self, phase: int, *, before: int) -> int:
        """How many updates a phase makes before a step."""
        whole, rest = divmod(before, len(self.rounds))
        sums = self._before[phase]
        return whole * sums[-1] + sums[rest]


def _refused(what: str, *fixes: str) -> ConfigError:
    return ConfigError(what, code="phases", fixes=fixes)
