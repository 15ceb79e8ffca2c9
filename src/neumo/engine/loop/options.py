"""What a training is told: how the weights change, for how long, and what happens beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from neumo.engine.callbacks import Callback, Checkpoint, Evaluate, FunctionCallback
from neumo.engine.callbacks.evaluate import check_figures, check_followed
from neumo.engine.callbacks.stopping import EarlyStop
from neumo.engine.checks.arguments import check_kind
from neumo.engine.loop.phases import Alternate, Cycle, Phase, check_phases
from neumo.engine.updates.optimizers import EMA, LARC, OPTIMIZERS, AdamW, Optimizer
from neumo.engine.updates.precision import LossScale, read_loss_scale
from neumo.engine.updates.schedules import Plateau, ScheduleLike
from neumo.types.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from neumo.graph.graph import Graph
    from neumo.graph.value import Value

_OWN: Final = ("optimizer", "schedule", "clip", "larc", "ema")  # what each phase may say for itself

_KINDS: Final[Mapping[str, Any]] = {
    "epochs": int | None,
    "max_steps": int | None,
    "max_minutes": float | None,
    "batches_per_step": int | None,
    "clip": float | None,
    "bad_limit": int,
    "larc": LARC | None,
    "ema": EMA | float | None,
    "checkpoint": Checkpoint | bool | None,
    "resume": str | Path,
    "callbacks": Sequence,
    "phases": Sequence,
}

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


def check_graph(what: str, given: object) -> Graph:
    """Give back a graph; raises `ConfigError` for anything else."""
    from neumo.graph.graph import Graph

    if not isinstance(given, Graph):
        raise ConfigError(
            f"{what} has {given!r}, which is no graph",
            code="evaluate",
            fixes=["give the graph itself, such as recipe.graphs['dev']"],
        )
    return given


def _is_own(callback: Callback) -> bool:
    """Say whether a callback is of a user's own."""
    return isinstance(callback, FunctionCallback) or not type(callback).__module__.startswith("neumo.")


def _check_callback(given: Any) -> None:
    """Refuse what is no callback, such as its class, or a function that does not say when it is called."""
    if isinstance(given, Callback):
        return
    called = getattr(given, "__name__", str(given))
    fixes = ["callbacks=[EarlyStop('wer')]"]
    if isinstance(given, type):
        fixes = [f"{called}(...), an object of it"]
    elif callable(given):
        fixes = [f"put @on_step_end, or another event, above the function {called}"]
    raise ConfigError(f"train: callbacks has {given!r}, which is no callback", code="train", fixes=fixes)


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
                fixes=[
                    "epochs=10",
                    "max_steps=1000",
                    "epochs=10, max_steps=1000: what is reached first",
                ],
            )
        for name, kind in _KINDS.items():
            check_kind("train", name, getattr(self, name), kind, code="train")
        for callback in self.callbacks:
            _check_callback(callback)
        for name in ("epochs", "max_steps", "max_minutes", "batches_per_step", "clip", "bad_limit"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"train: {name}={value!r} is not above 0", code="train")
        _ = self.scaling
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
        check_figures(self._every_evaluation(), [phase.label for phase in self.phases])
        for rules in self.rules() if self.phases else [self]:
            if rules.larc is not None:
                rules.larc.check(rules.update_rule)

    def check_followed(self) -> None:
        """Raise `ConfigError` for an early stop or a schedule that follows a figure which nothing gives.

        With a callback of one's own nothing is known: it may measure what it likes.
        """
        if not any(_is_own(callback) for callback in self.callbacks):
            check_followed(self._followed(), self._every_evaluation())

    def _every_evaluation(self) -> list[Evaluate]:
        return [*self.evaluations(), *(each for each in self.callbacks if isinstance(each, Evaluate))]

    def _followed(self) -> Iterator[tuple[str, str]]:
        for callback in self.callbacks:
            if isinstance(callback, EarlyStop):
                yield "EarlyStop", callback.metric
        for rules in [self, *self.phases]:
            if isinstance(rules.schedule, Plateau):
                yield "Plateau", rules.schedule.metric

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
        alone = isinstance(given, Evaluate | str) or hasattr(given, "outputs")
        several: list[Any] = [given] if alone or not isinstance(given, Iterable) else [*given]
        for each in several:
            if not isinstance(each, Evaluate):
                check_graph("train: evaluate", each)
        return [each if isinstance(each, Evaluate) else Evaluate(each) for each in several]

    def checkpoints(self, folder: Path | None) -> list[Checkpoint]:
        """The checkpoints that are kept: after each epoch if there is a folder and nothing else was said."""
        if any(isinstance(callback, Checkpoint) for callback in self.callbacks) or self.checkpoint is False:
            return []
        if isinstance(self.checkpoint, Checkpoint):
            return [self.checkpoint]
        return [Checkpoint()] if folder is not None or self.checkpoint else []
