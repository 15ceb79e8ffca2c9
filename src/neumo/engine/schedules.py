"""Schedules: how the learning rate changes from step to step, as a factor of the optimizer's own rate.

Steps count from 0: `factor(0)` scales the first update. All take `warmup_steps` or `warmup_ratio` (of all
steps), never both; during warm-up the factor rises linearly and reaches 1 with its last step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from neumo.types.errors import ConfigError

Factor: TypeAlias = Callable[[int], float]


@runtime_checkable
class Schedule(Protocol):
    """Gives the factor of each step, once the number of steps of the whole training is known."""

    def over(self, total_steps: int) -> Factor:
        """Return the function from a step, counted from 0, to its factor."""
        ...


@dataclass(frozen=True, kw_only=True)
class _Warm:
    """What the schedules share: a linear warm-up in steps or as a ratio of all steps."""

    warmup_steps: int | None = None
    warmup_ratio: float | None = None

    def __post_init__(self) -> None:
        if self.warmup_steps is not None and self.warmup_ratio is not None:
            raise ConfigError(
                f"{type(self).__name__}: warm-up is given twice, "
                f"as warmup_steps={self.warmup_steps} and warmup_ratio={self.warmup_ratio}",
                code="schedule",
                fixes=["keep one of the two"],
            )
        _check_count(self, "warmup_steps")
        _check_ratio(self, "warmup_ratio")

    def over(self, total_steps: int) -> Factor:
        """Return the function from a step, counted from 0, to its factor."""
        warm = _length(self.warmup_steps, self.warmup_ratio, total_steps)
        decay = self._decay(total_steps, warm)

        def factor(step: int) -> float:
            return (step + 1) / warm if step < warm else decay(step)

        return factor

    def _decay(self, total_steps: int, warm: int) -> Factor:
        return lambda step: 1.0


@dataclass(frozen=True, kw_only=True)
class Constant(_Warm):
    """Keeps the rate once warm-up is over.

    >>> rate = Constant(warmup_steps=4).over(100)
    >>> [rate(step) for step in (0, 1, 3, 50)]
    [0.25, 0.5, 1.0, 1.0]
    """


@dataclass(frozen=True, kw_only=True)
class Polynomial(_Warm):
    """Lowers the rate from 1 to `end` along `(1 - progress) ** power`.

    >>> rate = Polynomial(power=2.0).over(10)
    >>> rate(0), rate(5), rate(10)
    (1.0, 0.25, 0.0)
    """

    power: float = 1.0
    end: float = 0.0

    def _decay(self, total_steps: int, warm: int) -> Factor:
        return lambda step: self.end + (1 - self.end) * (1 - _progress(step, warm, total_steps)) ** self.power


@dataclass(frozen=True, kw_only=True)
class Linear(_Warm):
    """Lowers the rate from 1 to `end` in a straight line.

    >>> rate = Linear(end=0.5).over(10)
    >>> rate(0), rate(5), rate(10)
    (1.0, 0.75, 0.5)
    """

    end: float = 0.0

    def _decay(self, total_steps: int, warm: int) -> Factor:
        return lambda step: 1 - (1 - self.end) * _progress(step, warm, total_steps)


@dataclass(frozen=True, kw_only=True)
class Cosine(_Warm):
    """Lowers the rate from 1 to `end` along half a cosine (Loshchilov & Hutter 2017, without restarts).

    >>> rate = Cosine(warmup_ratio=0.5).over(8)
    >>> [round(rate(step), 3) for step in (0, 3, 4, 6, 8)]
    [0.25, 1.0, 1.0, 0.5, 0.0]
    """

    end: float = 0.0

    def _decay(self, total_steps: int, warm: int) -> Factor:
        def factor(step: int) -> float:
            wave = 0.5 * (1 + math.cos(math.pi * _progress(step, warm, total_steps)))
            return self.end + (1 - self.end) * wave

        return factor


@dataclass(frozen=True, kw_only=True)
class InverseSquareRoot(_Warm):
    """Lowers the rate as one over the square root of the step; the longer the warm-up, the later.

    >>> rate = InverseSquareRoot(warmup_steps=100).over(1000)
    >>> rate(99), rate(399)
    (1.0, 0.5)
    """

    def _decay(self, total_steps: int, warm: int) -> Factor:
        return lambda step: math.sqrt(max(warm, 1) / (step + 1))


@dataclass(frozen=True, kw_only=True)
class Noam(_Warm):
    """Rises and falls as in "Attention is all you need" (Vaswani et al. 2017, equation 3).

    The factor is `width**-0.5 * min(n**-0.5, n * warmup**-1.5)` for the n-th step, so the rate of the
    optimizer is a plain multiplier, often 1 or 2.

    >>> rate = Noam(width=512, warmup_steps=4000).over(100_000)
    >>> f"{rate(3999):.6f}", f"{rate(15999):.6f}"
    ('0.000699', '0.000349')
    """

    width: int = 512

    def over(self, total_steps: int) -> Factor:
        """Return the function from a step, counted from 0, to its factor."""
        warm = _length(self.warmup_steps, self.warmup_ratio, total_steps) or 1

        def factor(step: int) -> float:
            n = step + 1
            return self.width**-0.5 * min(n**-0.5, n * warm**-1.5)

        return factor


@dataclass(frozen=True, kw_only=True)
class WarmupHold(_Warm):
    """Warms up, holds the full rate for a while, then lowers it to `end` along `(1 - progress) ** power`.

    >>> rate = WarmupHold(warmup_steps=2, hold_steps=3).over(15)
    >>> [rate(step) for step in (0, 1, 4, 5, 10, 15)]
    [0.5, 1.0, 1.0, 1.0, 0.5, 0.0]
    """

    hold_steps: int | None = None
    hold_ratio: float | None = None
    power: float = 1.0
    end: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hold_steps is not None and self.hold_ratio is not None:
            raise ConfigError(
                f"WarmupHold: the hold is given twice, "
                f"as hold_steps={self.hold_steps} and hold_ratio={self.hold_ratio}",
                code="schedule",
                fixes=["keep one of the two"],
            )
        _check_count(self, "hold_steps")
        _check_ratio(self, "hold_ratio")

    def _decay(self, total_steps: int, warm: int) -> Factor:
        held = warm + _length(self.hold_steps, self.hold_ratio, total_steps)
        return lambda step: self.end + (1 - self.end) * (1 - _progress(step, held, total_steps)) ** self.power


ScheduleLike: TypeAlias = Schedule | Factor
SCHEDULES: dict[str, type[Schedule]] = {
    "Constant": Constant,
    "Cosine": Cosine,
    "InverseSquareRoot": InverseSquareRoot,
    "Linear": Linear,
    "Noam": Noam,
    "Polynomial": Polynomial,
    "WarmupHold": WarmupHold,
}


def as_factor(schedule: ScheduleLike | None, total_steps: int) -> Factor:
    """Turn what a user gave as a schedule into a function of the step; `None` keeps the rate.

    >>> as_factor(lambda step: 0.9**step, 10)(2)
    0.81
    """
    if schedule is None:
        return lambda step: 1.0
    if isinstance(schedule, Schedule):
        return schedule.over(total_steps)
    if callable(cast(Any, schedule)):
        return schedule
    raise ConfigError(
        f"a schedule must be a schedule or a function of the step, not {schedule!r}",
        code="schedule",
        fixes=["use Cosine(warmup_ratio=0.1), or `lambda step: ...`"],
    )


def _length(steps: int | None, ratio: float | None, total_steps: int) -> int:
    return steps if steps is not None else round((ratio or 0.0) * total_steps)


def _progress(step: int, start: int, total_steps: int) -> float:
    return min(max(step - start, 0) / max(total_steps - start, 1), 1.0)


def _check_count(schedule: object, name: str) -> None:
    value = getattr(schedule, name)
    if value is not None and value < 0:
        raise ConfigError(f"{type(schedule).__name__}: {name}={value} is below 0", code="schedule")


def _check_ratio(schedule: object, name: str) -> None:
    value = getattr(schedule, name)
    if value is not None and not 0 <= value <= 1:
        raise ConfigError(
            f"{type(schedule).__name__}: {name}={value} is not a ratio between 0 and 1", code="schedule"
        )
