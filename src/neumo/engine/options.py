"""What a training is told: how the weights change, for how long, and what happens beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from neumo.engine.callbacks import Callback, Checkpoint, Evaluate
from neumo.engine.callbacks.evaluate import check_figures
from neumo.engine.optimizers import EMA, LARC, OPTIMIZERS, AdamW, Optimizer
from neumo.engine.phases import Alternate, Cycle, Phase, check_phases
from neumo.engine.precision import LossScale, read_loss_scale
from neumo.engine.schedules import ScheduleLike
from neumo.types.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from neumo.graph.graph import Graph
    from neumo.graph.value import Value

_OWN: Final = ("optimizer", "schedule", "clip", "larc", "ema")  # what each phase may say for itself

NonFinite = Literal["raise", "skip"]
Allowance = Literal["emulated-bf16", "fp16-on-cpu", "graph-breaks"]


def check_allowances(allow: Iterable[str]) -> frozenset[str]:
    """Give back what a factory is allowed to do although it is slow; raises `ConfigError` for unknown words.

    >>> sorted(check_allowances(["fp16-on-cpu"]))
    ['fp16-on-cpu']
    """
    known = get_args(Allowance)
    if isinstance(allow, str):
        allow = (allow,)
    for word in allow:
        if word not in known:
            raise ConfigError(
                f"allow has {word!r}, which allows nothing",
                code="allow",
                details=[f"it may have {', '.join(known)}"],
                fixes=did_you_mean(str(word), known),
            )
    return frozenset(allow)


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """The arguments of `NeuralFactory.train`, which explains them; a recipe's `train` section gives the
    same ones.

    >>> TrainOptions(epochs=3, ema=0.999).average
    EMA(decay=0.999, warmup=True)
    """

    loss: str | Value | None = None
    optimizer: Optimizer | None = None
    schedule: ScheduleLike | None = None
    epochs: int | None = None
    max_steps: int | None = None
    max_minutes: float | None = None
    batches_per_step: int | None = None
    clip: float | None = None
    larc: LARC | None = None
    ema: EMA | float | None = None
    loss_scale: LossScale | float | None = None
    evaluate: Iterable[Graph | Evaluate] | Graph | Evaluate = ()
    checkpoint: Checkpoint | bool | None = None
    resume: str | Path = "auto"
    nonfinite: NonFinite = "skip"
    bad_limit: int = 10
    callbacks: Sequence[Callback] = ()
    phases: Sequence[Phase] = ()
    alternate: Alternate = "steps"

    def __post_init__(self) -> None:
        if self.epochs is None and self.max_steps is None:
            raise ConfigError(
                "train was not told for how long",
                code="train",
                fixes=["epochs=10", "max_steps=1000", "or both"],
            )
        for name in ("epochs", "max_steps", "max_minutes", "batches_per_step", "clip", "bad_limit"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"train: {name}={value!r} is not above 0", code="train")
        _ = self.scaling
        check_figures(self.evaluations())
        if self.nonfinite not in get_args(NonFinite):
            raise ConfigError(
                f"train: nonfinite={self.nonfinite!r} is neither 'raise' nor 'skip'",
                code="train",
                fixes=did_you_mean(str(self.nonfinite), get_args(NonFinite)),
            )
        if self.optimizer is not None and not isinstance(
            cast(Any, self.optimizer), tuple(OPTIMIZERS.values())
        ):
            raise ConfigError(
                f"train: {self.optimizer!r} is not an optimizer",
                code="optimizer",
                fixes=[
                    f"use {', '.join(OPTIMIZERS)} of neumo.engine: they name no weights, the factory does"
                ],
            )
        check_phases(self.phases, self.alternate)
        for rules in self.rules() if self.phases else [self]:
            if rules.larc is not None:
                rules.larc.check(rules.update_rule)

    @property
    def update_rule(self) -> Optimizer:
        """The optimizer, AdamW if none is given."""
        return self.optimizer if self.optimizer is not None else AdamW()

    @property
    def cycle(self) -> Cycle:
        """Which phases update in which step."""
        return Cycle.of(self.phases, self.alternate) if self.phases else Cycle()

    def rules(self) -> list[TrainOptions]:
        """How weights are updated: as it is said here, or for each phase with what it says itself."""
        if not self.phases:
            return [self]
        return [
            replace(
                self,
                phases=(),
                **{name: own for name in _OWN if (own := getattr(phase, name)) is not None},
            )
            for phase in self.phases
        ]

    @property
    def scaling(self) -> LossScale | None:
        """How an fp16 loss is scaled, if anything was said; a number is a scale that stays as it is."""
        return read_loss_scale(self.loss_scale)

    @property
    def average(self) -> EMA | None:
        """How weights are averaged, if at all; a number is the decay."""
        return EMA(decay=self.ema) if isinstance(self.ema, int | float) else self.ema

    def evaluations(self) -> list[Evaluate]:
        """The evaluations that were asked for; a graph alone is evaluated after each epoch."""
        given: Any = self.evaluate
        several = [given] if isinstance(given, Evaluate) or hasattr(given, "outputs") else list(given)
        return [each if isinstance(each, Evaluate) else Evaluate(each) for each in several]

    def checkpoints(self, folder: Path | None) -> list[Checkpoint]:
        """The checkpoints that are kept: after each epoch if there is a folder and nothing else was said."""
        if any(isinstance(callback, Checkpoint) for callback in self.callbacks) or self.checkpoint is False:
            return []
        if isinstance(self.checkpoint, Checkpoint):
            return [self.checkpoint]
        return [Checkpoint()] if folder is not None or self.checkpoint else []
