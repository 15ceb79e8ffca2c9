"""Schedules: how the learning rate changes from step to step, as a factor of the optimizer's own rate.

Steps count from 0: `factor(0)` scales the first update. All take `warmup_steps` or `warmup_ratio` (of all
steps), never both; during warm-up the factor of step s is `(s + 1) / warmup`, so that it is above 0 from the
first step on and reaches 1 with the last step of the warm-up. Those that fall take `hold_steps` or
`hold_ratio` in the same way: for so long the factor stays 1 before it falls. What is said in ratios or in
epochs is turned into steps when a training starts, from the steps of all of it and of its first epoch.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias, cast, get_args, runtime_checkable

from neumo.engine.callback import Callback
from neumo.engine.updates.plateau import Lowering
from neumo.types.errors import ConfigError, did_you_mean

Factor: TypeAlias = Callable[[int], float]
DecayShape = Literal["sqrt", "linear", "cosine"]


@runtime_checkable
class Schedule(Protocol):
    """Gives the factor of each step, once the number of steps of the whole training is known."""

    def over(self, total_steps: int) -> Factor:
        """Return the function from a step, counted from 0, to its factor.

        A function that is a `Callback` as well is told what happens, and its state is part of checkpoints.
        """
        ...


@runtime_checkable
class CountsEpochs(Protocol):
    """A schedule that may be told in epochs, and is turned into one of steps when they are known."""

    def in_steps(self, steps_per_epoch: int) -> Schedule:
        """Return the same schedule in steps."""
        ...


@dataclass(frozen=True, kw_only=True)
class _Warm:
    """What the schedules share: a linear warm-up in steps or as a ratio of all steps."""

    warmup_steps: int | None = None
    warmup_ratio: float | None = None

    def __post_init__(self) -> None:
        _check_length(self, "warm-up", "warmup_steps", "warmup_ratio")

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
class _Hold(_Warm):
    """What falls, after warm-up and perhaps after having held the full rate for a while."""

    hold_steps: int | None = None
    hold_ratio: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_length(self, "hold", "hold_steps", "hold_ratio")

    def _start(self, total_steps: int, warm: int) -> int:
        return warm + _length(self.hold_steps, self.hold_ratio, total_steps)


@dataclass(frozen=True, kw_only=True)
class _Fall(_Hold):
    """What falls from 1 to `end` right behind the last step: `end + (1 - end) * shape(progress)`."""

    end: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_least(self, "end")

    def _decay(self, total_steps: int, warm: int) -> Factor:
        start = self._start(total_steps, warm)
        return lambda step: self.end + (1 - self.end) * self._shape(_progress(step, start, total_steps))

    def _shape(self, progress: float) -> float:
        return 1 - progress


@dataclass(frozen=True, kw_only=True)
class Constant(_Warm):
    """Keeps the rate once warm-up is over.

    >>> rate = Constant(warmup_steps=4).over(100)
    >>> [rate(step) for step in (0, 1, 3, 50)]
    [0.25, 0.5, 1.0, 1.0]
    """


@dataclass(frozen=True, kw_only=True)
class Linear(_Fall):
    """Lowers the rate from 1 to `end` in a straight line.

    >>> rate = Linear(end=0.5).over(10)
    >>> rate(0), rate(5), rate(10)
    (1.0, 0.75, 0.5)
    """


@dataclass(frozen=True, kw_only=True)
class Polynomial(_Fall):
    """Lowers the rate from 1 to `end` along `(1 - progress) ** power`.

    >>> rate = Polynomial(power=2.0).over(10)
    >>> rate(0), rate(5), rate(10)
    (1.0, 0.25, 0.0)
    """

    power: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_least(self, "power")

    def _shape(self, progress: float) -> float:
        return (1 - progress) ** self.power


@dataclass(frozen=True, kw_only=True)
class WarmupHold(Polynomial):
    """Warms up, holds the full rate for a while, then lowers it to `end` along `(1 - progress) ** power`.

    >>> rate = WarmupHold(warmup_steps=2, hold_steps=3).over(15)
    >>> [rate(step) for step in (0, 1, 4, 5, 10, 15)]
    [0.5, 1.0, 1.0, 1.0, 0.5, 0.0]
    """


@dataclass(frozen=True, kw_only=True)
class Square(_Fall):
    """Lowers the rate from 1 to `end` along `(1 - progress) ** 2`, fast at first.

    >>> rate = Square(hold_steps=2).over(12)
    >>> [rate(step) for step in (0, 2, 7, 12)]
    [1.0, 1.0, 0.25, 0.0]
    """

    def _shape(self, progress: float) -> float:
        return (1 - progress) ** 2


@dataclass(frozen=True, kw_only=True)
class SquareRoot(_Fall):
    """Lowers the rate from 1 to `end` along `sqrt(1 - progress)`, fast at last.

    >>> rate = SquareRoot().over(100)
    >>> rate(0), rate(75), rate(100)
    (1.0, 0.5, 0.0)
    """

    def _shape(self, progress: float) -> float:
        return math.sqrt(1 - progress)


@dataclass(frozen=True, kw_only=True)
class Cosine(_Fall):
    """Lowers the rate from 1 to `end` along half a cosine (Loshchilov & Hutter 2017, without restarts).

    >>> rate = Cosine(warmup_ratio=0.5).over(8)
    >>> [round(rate(step), 3) for step in (0, 3, 4, 6, 8)]
    [0.25, 1.0, 1.0, 0.5, 0.0]
    """

    def _shape(self, progress: float) -> float:
        return 0.5 * (1 + math.cos(math.pi * progress))


@dataclass(frozen=True, kw_only=True)
class InverseSquareRoot(_Hold):
    """Lowers the rate as one over the square root of the step; the longer the warm-up, the later.

    >>> rate = InverseSquareRoot(warmup_steps=100).over(1000)
    >>> rate(99), rate(399)
    (1.0, 0.5)

    The factor of the n-th step, from 1, is `sqrt(full / n)`, where `full` counts the steps of warm-up and
    hold.
    """

    def _decay(self, total_steps: int, warm: int) -> Factor:
        full = max(self._start(total_steps, warm), 1)
        return lambda step: min(math.sqrt(full / (step + 1)), 1.0)


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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width < 1:
            raise ConfigError(f"Noam: width={self.width} is below 1", code="schedule")

    def over(self, total_steps: int) -> Factor:
        """Return the function from a step, counted from 0, to its factor."""
        warm = _length(self.warmup_steps, self.warmup_ratio, total_steps) or 1

        def factor(step: int) -> float:
            n = step + 1
            return self.width**-0.5 * min(n**-0.5, n * warm**-1.5)

        return factor


@dataclass(frozen=True, kw_only=True)
class WSD(_Warm):
    """Warms up, stays, and falls at the end: a training can go on from its stable part (Hu et al. 2024).

    >>> rate = WSD(warmup_steps=2, decay_steps=4, shape="linear").over(10)
    >>> [rate(step) for step in (0, 1, 6, 8, 10)]
    [0.5, 1.0, 1.0, 0.5, 0.0]

    The last `decay_steps`, or `decay_ratio` of all steps (a tenth if neither is given), lower the rate to
    `end`, along `1 - sqrt(progress)` (Hägele et al. 2024, arXiv:2405.18392), a line or half a cosine. The
    decay starts behind the warm-up at the earliest.
    """

    decay_steps: int | None = None
    decay_ratio: float | None = None
    shape: DecayShape = "sqrt"
    end: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_length(self, "decay", "decay_steps", "decay_ratio")
        _check_least(self, "end")
        if self.shape not in get_args(DecayShape):
            raise ConfigError(
                f"WSD: shape={self.shape!r} is none of {', '.join(get_args(DecayShape))}",
                code="schedule",
                fixes=did_you_mean(str(self.shape), get_args(DecayShape)),
            )

    def _decay(self, total_steps: int, warm: int) -> Factor:
        ratio = 0.1 if self.decay_steps is self.decay_ratio is None else self.decay_ratio
        start = max(total_steps - _length(self.decay_steps, ratio, total_steps), warm)
        return lambda step: self.end + (1 - self.end) * self._fall(_progress(step, start, total_steps))

    def _fall(self, progress: float) -> float:
        if self.shape == "cosine":
            return 0.5 * (1 + math.cos(math.pi * progress))
        return 1 - (math.sqrt(progress) if self.shape == "sqrt" else progress)


@dataclass(frozen=True, kw_only=True)
class Step(_Warm):
    """Multiplies the rate by `gamma` every so many steps or epochs, or at those that are listed.

    >>> rate = Step(every_steps=10, gamma=0.5).over(100)
    >>> rate(9), rate(10), rate(29)
    (1.0, 0.5, 0.25)
    >>> rate = Step(at_epochs=(30, 60), gamma=0.1).in_steps(2).over(200)
    >>> rate(59), rate(60)
    (1.0, 0.1)

    Steps and epochs count from the start of the training, its warm-up included.
    """

    gamma: float = 0.1
    every_steps: int | None = None
    every_epochs: int | None = None
    at_steps: tuple[int, ...] = ()
    at_epochs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_least(self, "gamma")
        _check_one(self, "every_steps", "every_epochs", "at_steps", "at_epochs")
        for name in ("at_steps", "at_epochs"):
            places = tuple(getattr(self, name))
            object.__setattr__(self, name, places)
            if any(place < 1 for place in places) or list(places) != sorted(set(places)):
                raise ConfigError(f"Step: {name}={places} does not rise from 1 on", code="schedule")

    def in_steps(self, steps_per_epoch: int) -> Step:
        """Return the same schedule in steps."""
        if self.every_epochs is not None:
            return replace(self, every_steps=self.every_epochs * steps_per_epoch, every_epochs=None)
        if self.at_epochs:
            return replace(self, at_steps=tuple(n * steps_per_epoch for n in self.at_epochs), at_epochs=())
        return self

    def _decay(self, total_steps: int, warm: int) -> Factor:
        _check_in_steps(self, "every_epochs", "at_epochs")
        every, places = self.every_steps, self.at_steps
        if every is not None:
            return lambda step: self.gamma ** (step // every)
        return lambda step: self.gamma ** bisect_right(places, step)


@dataclass(frozen=True, kw_only=True)
class CosineRestarts(_Warm):
    """Half cosines one after the other, each from the full rate down to `end` (SGDR, arXiv:1608.03983).

    >>> rate = CosineRestarts(first_steps=4, growth=2.0).over(12)
    >>> [round(rate(step), 3) for step in (0, 2, 4, 8, 11)]
    [1.0, 0.5, 1.0, 0.5, 0.038]

    The first cycle, behind the warm-up, takes `first_steps` or `first_epochs`; each one is `growth` times as
    long as the one before it, and starts at `gamma` times its rate.
    """

    first_steps: int | None = None
    first_epochs: int | None = None
    growth: float = 1.0
    gamma: float = 1.0
    end: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_one(self, "first_steps", "first_epochs")
        _check_least(self, "gamma")
        _check_least(self, "end")
        if not self.growth >= 1:
            raise ConfigError(f"CosineRestarts: growth={self.growth} is below 1", code="schedule")

    def in_steps(self, steps_per_epoch: int) -> CosineRestarts:
        """Return the same schedule in steps."""
        if self.first_epochs is None:
            return self
        return replace(self, first_steps=self.first_epochs * steps_per_epoch, first_epochs=None)

    def _decay(self, total_steps: int, warm: int) -> Factor:
        _check_in_steps(self, "first_epochs")
        first = self.first_steps or 1

        def factor(step: int) -> float:
            cycle, at, length = _cycle(step - warm, first, self.growth)
            top = max(self.gamma**cycle, self.end)
            return self.end + (top - self.end) * 0.5 * (1 + math.cos(math.pi * at / length))

        return factor


@dataclass(frozen=True, kw_only=True)
class Plateau(_Warm):
    """Multiplies the rate by `gamma` where a metric has not become better for `patience` evaluations.

    >>> Plateau(metric="wer", patience=2, gamma=0.5).metric
    'wer'

    What counts are evaluations, however often they are: `Evaluate(every_epochs=2)` with `patience=3` waits
    for 6 epochs. Better is smaller by more than `least`, or larger with `largest`. `cooldown` evaluations
    behind a change are not waited for, and the factor stays at `end` at least. How far it is, is part of
    checkpoints.
    """

    metric: str
    gamma: float = 0.1
    patience: int = 5
    least: float = 0.0
    largest: bool = False
    cooldown: int = 0
    end: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.gamma < 1:
            raise ConfigError(f"Plateau: gamma={self.gamma} is not in [0, 1)", code="schedule")
        if self.patience < 1:
            raise ConfigError(f"Plateau: patience={self.patience} is below 1", code="schedule")
        for name in ("least", "cooldown", "end"):
            _check_least(self, name)

    def over(self, total_steps: int) -> Lowering:
        """Return the function from a step to its factor, which follows the metric as a callback."""
        return Lowering(self, _length(self.warmup_steps, self.warmup_ratio, total_steps))


ScheduleLike: TypeAlias = Schedule | Factor
SCHEDULES: dict[str, type[Schedule]] = {
    "Constant": Constant,
    "Cosine": Cosine,
    "CosineRestarts": CosineRestarts,
    "InverseSquareRoot": InverseSquareRoot,
    "Linear": Linear,
    "Noam": Noam,
    "Plateau": Plateau,
    "Polynomial": Polynomial,
    "Square": Square,
    "SquareRoot": SquareRoot,
    "Step": Step,
    "WSD": WSD,
    "WarmupHold": WarmupHold,
}


def as_factor(
    schedule: ScheduleLike | None, total_steps: int, steps_per_epoch: Callable[[], int] | None = None
) -> Factor:
    """Turn what a user gave as a schedule into a function of the step; `None` keeps the rate.

    >>> as_factor(lambda step: 0.9**step, 10)(2)
    0.81

    A function that is a `Callback` as well, such as that of `Plateau`, must be told what happens: it is
    returned as it is. Raises `ConfigError` for what is no schedule, and the returned function does so where
    one gives no factor.
    """
    if schedule is None:
        return lambda step: 1.0
    if isinstance(schedule, CountsEpochs) and steps_per_epoch is not None:
        schedule = schedule.in_steps(steps_per_epoch())
    given: Any = schedule.over(total_steps) if isinstance(schedule, Schedule) else schedule
    if not callable(given):
        raise ConfigError(
            f"a schedule must be a schedule or a function of the step, not {schedule!r}",
            code="schedule",
            fixes=["use Cosine(warmup_ratio=0.1), or `lambda step: ...`"],
        )
    factor = cast(Factor, given)
    return factor if isinstance(given, Callback) else _checked(factor)


def _checked(schedule: Factor) -> Factor:
    def factor(step: int) -> float:
        value = schedule(step)
        if not 0 <= value < math.inf:
            raise ConfigError(
                f"the schedule gives {value!r} as the factor of step {step}, which is no rate",
                code="schedule",
                fixes=["a factor is a number from 0 on, such as 0.5: it scales the rate of the optimizer"],
            )
        return value

    return factor


def _length(steps: int | None, ratio: float | None, total_steps: int) -> int:
    return steps if steps is not None else round((ratio or 0.0) * total_steps)


def _progress(step: int, start: int, total_steps: int) -> float:
    return min(max(step - start, 0) / max(total_steps - start, 1), 1.0)


def _cycle(step: int, first: int, growth: float) -> tuple[int, int, int]:
    """Find the cycle of a step, its place in it, and the length of the cycle."""
    if growth == 1.0:
        return step // first, step % first, first
    cycle, length = 0, first
    while step >= length:
        step -= length
        cycle += 1
        length = round(first * growth**cycle)
    return cycle, step, length


def _check_length(schedule: object, what: str, steps: str, ratio: str) -> None:
    """Refuse a length that is given twice, or that is none."""
    kind, count, share = type(schedule).__name__, getattr(schedule, steps), getattr(schedule, ratio)
    if count is not None and share is not None:
        how = "" if what == "warm-up" else "the "
        raise ConfigError(
            f"{kind}: {how}{what} is given twice, as {steps}={count} and {ratio}={share}",
            code="schedule",
            fixes=["keep one of the two"],
        )
    _check_least(schedule, steps)
    if share is not None and not 0 <= share <= 1:
        raise ConfigError(f"{kind}: {ratio}={share} is not a ratio between 0 and 1", code="schedule")


def _check_least(schedule: object, name: str) -> None:
    value = getattr(schedule, name)
    if value is not None and not value >= 0:
        raise ConfigError(f"{type(schedule).__name__}: {name}={value} is below 0", code="schedule")


def _check_one(schedule: object, *names: str) -> None:
    """Refuse a schedule that is not told one of these, or that is told several."""
    kind = type(schedule).__name__
    given = {name: value for name in names if (value := getattr(schedule, name)) not in (None, ())}
    if len(given) != 1:
        told = " and ".join(f"{name}={value}" for name, value in given.items()) or "none of them"
        raise ConfigError(
            f"{kind} needs one of {', '.join(names)}, and has {told}",
            code="schedule",
            fixes=[f"{kind}({names[0]}=...)"],
        )
    for name, value in given.items():
        if isinstance(value, int) and value < 1:
            raise ConfigError(f"{kind}: {name}={value} is below 1", code="schedule")


def _check_in_steps(schedule: object, *names: str) -> None:
    """Refuse to count epochs of unknown length."""
    for name in names:
        value = getattr(schedule, name)
        if value not in (None, ()):
            raise ConfigError(
                f"{type(schedule).__name__}: {name}={value} needs to know how many steps an epoch has",
                code="schedule",
                fixes=["in_steps(steps_per_epoch) of the schedule, which a training does itself"],
            )
