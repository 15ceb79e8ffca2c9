"""Changing a number of a module over the steps of a training, such as the rate of its dropout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from neumo.engine.callback import Callback
from neumo.engine.checks.arguments import check_fields
from neumo.types.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from neumo.engine.loop.run import Run
    from neumo.graph.module import NeuralModule


class Piece(Protocol):
    """A part of a schedule: it goes on until a step, or a fraction of all steps, or to the end."""

    @property
    def until(self) -> int | float | None:
        """The step behind the last one of this piece; None is the end of the training."""
        ...

    def at(self, part: float) -> float:
        """The value after a part of this piece, from 0 to 1."""
        ...


@dataclass(frozen=True)
class Keep:
    """A piece of a schedule in which a value stays the same.

    >>> Keep(0.3).at(0.5)
    0.3
    """

    value: float
    until: int | float | None = None

    def __post_init__(self) -> None:
        _check_piece(self)

    def at(self, part: float) -> float:
        """The value."""
        return self.value


@dataclass(frozen=True)
class Ramp:
    """A piece of a schedule in which a value goes in a straight line from `start` to `end`.

    >>> Ramp(0.0, 0.3, until=1000).at(0.5)
    0.15
    """

    start: float
    end: float
    until: int | float | None = None

    def __post_init__(self) -> None:
        _check_piece(self)

    def at(self, part: float) -> float:
        """The value on the way."""
        return self.start + (self.end - self.start) * part


class ScheduleValue(Callback):
    """Changes a number of a module over the steps of a training.

    `ScheduleValue(encoder, "*.dropout", Ramp(0.0, 0.3, until=1000), Keep(0.3))` raises the rate of all
    dropouts from 0 to 0.3 in 1,000 steps. The number is an attribute of the built module or of a layer in
    it, by its path; with a `*` in the path there may be several. Sizes by which torch makes its own
    layers, such as channels, are no such numbers. The first piece begins at step 0; each one says until which
    step (or with a number like 0.5, which part of all steps) it goes on, the last one goes on to the end.

    >>> ScheduleValue("encoder", "drop.p", Ramp(0.0, 0.3, until=1000), Keep(0.3)).value_at(500, 4000)
    0.15

    The value depends on the step only, so a resumed run has the right one. When the training is over, or
    has failed, the module has its own number again: what it computes is what its settings say, in this
    process and wherever its weights are loaded. Raises `ConfigError` for pieces that do not follow each
    other, and for what is no number of the module.
    """

    order: ClassVar[int] = 5

    def __init__(self, module: NeuralModule | str, path: str, *pieces: Piece) -> None:
        self.module = module
        self.path = path
        self.pieces = pieces
        if not pieces:
            raise ConfigError("ScheduleValue has no pieces", code="schedule", fixes=["Ramp(0.0, 0.3)"])
        if pieces[-1].until is not None:
            raise ConfigError(
                f"ScheduleValue: the last piece ends at {pieces[-1].until}, and nothing says what comes then",
                code="schedule",
                fixes=["leave out its until: it goes on to the end", "put Keep(value) behind it"],
            )
        if any(piece.until is None for piece in pieces[:-1]):
            raise ConfigError(
                "ScheduleValue: only the last piece may go on to the end",
                code="schedule",
                fixes=["until=1000"],
            )
        self._target: NeuralModule | None = None
        self._before: Mapping[str, float] = {}
        self._run: Run | None = None

    def on_action_start(self, run: Run) -> None:
        """Find the numbers, and remember what they were."""
        if run.stage is None:
            return
        self._ends(run.total_steps)
        modules = run.stage.graph.modules
        if isinstance(self.module, str) and self.module not in modules:
            raise ConfigError(
                f"ScheduleValue: graph {run.stage.graph.name!r} has no module {self.module!r}",
                code="schedule",
                fixes=did_you_mean(self.module, modules),
            )
        self._target = modules[self.module] if isinstance(self.module, str) else self.module
        session = run.stage.factory.session
        self._before = dict(session.numbers(self._target, self.path))
        self._run = run
        if not self._before:
            found = session.numbers(self._target, "*")
            rates = [name for name, number in found.items() if isinstance(number, float)]
            every = rates or list(found)  # whole numbers are mostly sizes
            patterns = list(dict.fromkeys(f"*.{name.rpartition('.')[2]}" for name in every if "." in name))
            raise ConfigError(
                f"ScheduleValue: {self._name} has no number {self.path!r}",
                code="schedule",
                details=[f"its numbers are {', '.join(every[:8]) or 'none'}"],
                fixes=did_you_mean(self.path, [*every, *patterns]),
            )
        self.on_step_start(run)

    def on_step_start(self, run: Run) -> None:
        """Give the numbers the value of this step."""
        if self._target is not None and run.stage is not None:
            value = self.value_at(run.step, run.total_steps)
            run.stage.factory.session.set_numbers(self._target, dict.fromkeys(self._before, value))

    def close(self) -> None:
        """Give the module its own numbers again."""
        if self._target is not None and self._run is not None and self._run.stage is not None:
            self._run.stage.factory.session.set_numbers(self._target, self._before)
        self._target = self._run = None

    def value_at(self, step: int, total: int) -> float:
        """Give the value at a step of a training of so many steps in all."""
        start = 0
        for piece, end in zip(self.pieces, self._ends(total), strict=True):
            if step < end or piece is self.pieces[-1]:
                return piece.at(min(1.0, (step - start) / max(1, end - start)))
            start = end
        raise AssertionError("the last piece goes on to the end")

    def _ends(self, total: int) -> list[int]:
        """The steps at which pieces end; those behind the end of the training never come."""
        ends: list[int] = []
        for piece in self.pieces[:-1]:
            end, before = _step(piece.until, total), ends[-1] if ends else 0
            if end <= before:
                raise ConfigError(
                    f"ScheduleValue: {piece} ends at step {end}, and begins at step {before}", code="schedule"
                )
            ends.append(end)
        return [*ends, max([total, *ends])]

    @property
    def _name(self) -> str:
        return self.module if isinstance(self.module, str) else type(self.module).__name__


def _check_piece(piece: Keep | Ramp) -> None:
    check_fields(piece, code="schedule")
    if piece.until is not None and not piece.until > 0:
        raise ConfigError(
            f"{type(piece).__name__}: until={piece.until!r} is not above 0",
            code="schedule",
            fixes=["until=1000 is a step, until=0.5 the half of all steps"],
        )


def _step(until: int | float | None, total: int) -> int:
    if until is None:
        return total
    return round(until * total) if isinstance(until, float) else until
