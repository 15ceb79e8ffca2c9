"""What a training knows about itself while it runs: its position, its figures, and what callbacks may ask
of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from neumo.engine.checkpoint import CheckpointStore
from neumo.types.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from neumo.engine.callbacks import Callback
    from neumo.engine.evaluate import Evaluation
    from neumo.graph.graph import Graph

EVENTS: Final = tuple(
    f"on_{what}_{when}" for what in ("action", "epoch", "step", "batch") for when in ("start", "end")
)
_NAMES_KEPT: Final = 1000  # utterances named in a state; the counts go on


@dataclass(frozen=True, slots=True)
class Position:
    """Where a training is in its data: the epoch, and how many of its batches have been used."""

    epoch: int
    batch: int


@dataclass(slots=True)
class Best:
    """The best value of a metric so far, and when it was measured."""

    metric: str
    value: float
    step: int
    epoch: int
    largest: bool = False
    is_new: bool = True


@dataclass
class Tally:
    """What is counted over a training and must survive a resume."""

    loss_sum: float = 0.0
    loss_count: int = 0
    bad_in_a_row: int = 0
    skipped: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    infeasible: dict[str, int] = field(default_factory=dict[str, int])

    def add_loss(self, loss: float) -> None:
        """Count the loss of one good step."""
        self.loss_sum += loss
        self.loss_count += 1

    def add_infeasible(self, names: Iterable[str]) -> None:
        """Count utterances that a loss left out."""
        for name in names:
            if name in self.infeasible or len(self.infeasible) < _NAMES_KEPT:
                self.infeasible[name] = self.infeasible.get(name, 0) + 1

    @property
    def mean_loss(self) -> float:
        """The mean loss of the good steps of this epoch; NaN if there was none."""
        return self.loss_sum / self.loss_count if self.loss_count else float("nan")


class Run:
    """One training, as its callbacks see it.

    `step` counts updates, `epoch` epochs from 0, `batch` the batches of this epoch that were used. `loss`,
    `norm` (of the gradient, before clipping) and `lr` are of the last step; `metrics` of the last
    evaluation, `measured` the step of each. `history` has one row per epoch.
    """

    def __init__(
        self,
        *,
        seed: int,
        epochs: int | None,
        total_steps: int,
        folder: Path | None,
        evaluate: Callable[[Graph], Evaluation],
        say: Callable[[str], None],
    ) -> None:
        self.seed = seed
        self.epochs = epochs
        self.total_steps = total_steps
        self.folder = folder
        self.step = 0
        self.epoch = 0
        self.batch = 0
        self.batches = 0  # in this epoch
        self.moved = False  # whether this process did anything: a step, or the end of an epoch
        self.loss = float("nan")
        self.norm = float("nan")
        self.lr = 0.0
        self.skipped = ""  # why the last step did not update the weights
        self.metrics: dict[str, float] = {}
        self.measured: dict[str, int] = {}
        self.best: Best | None = None
        self.history: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.tally = Tally()
        self.stopped = ""
        self.epoch_is_over = False
        self.saver: Callable[[], None] | None = None
        self._evaluate = evaluate
        self._say = say
        self._started = time.monotonic()
        self._callbacks: list[Callback] = []
        self._listeners: dict[str, list[Callable[[Run], None]]] = {}

    @property
    def position(self) -> Position:
        """Where a training that goes on from here reads next."""
        return Position(self.epoch + 1, 0) if self.epoch_is_over else Position(self.epoch, self.batch)

    @property
    def epoch_loss(self) -> float:
        """The mean loss of this epoch so far."""
        return self.tally.mean_loss

    @property
    def seconds(self) -> float:
        """How long this process has been training."""
        return time.monotonic() - self._started

    @property
    def checkpoints(self) -> CheckpointStore:
        """The checkpoints of this training; raises `ConfigError` if it has no folder."""
        if self.folder is None:
            raise ConfigError(
                "checkpoints need a folder",
                code="folder",
                fixes=["NeuralFactory(folder='runs/first')"],
            )
        return CheckpointStore(self.folder / "checkpoints")

    def listen(self, callbacks: Iterable[Callback]) -> None:
        """Tell these callbacks of all that happens; only the methods that they override are ever called."""
        from neumo.engine.callbacks import Callback

        self._callbacks = list(callbacks)
        for event in EVENTS:
            silent = getattr(Callback, event)
            told = [
                getattr(callback, event)
                for callback in self._callbacks
                if getattr(type(callback), event) is not silent
            ]
            self._listeners[event] = told

    def tell(self, event: str) -> None:
        """Tell the callbacks that something starts or ends."""
        for listener in self._listeners[event]:
            listener(self)

    def close(self) -> None:
        """Let the callbacks close what they hold open, whether the training ended well or not."""
        for callback in self._callbacks:
            callback.close()

    def stop(self, reason: str) -> None:
        """End the training after this step."""
        self.stopped = self.stopped or reason

    def note(self, text: str) -> None:
        """Say something once that must not be lost: on the terminal, in the log and in the result."""
        self.notes.append(text)
        self._say(text)

    def evaluate(self, graph: Graph) -> Evaluation:
        """Evaluate a graph now, with the averaged weights if there are any."""
        return self._evaluate(graph)

    def measure(self, metrics: Mapping[str, float]) -> None:
        """Record figures that were measured at this step."""
        self.metrics.update(metrics)
        self.measured.update(dict.fromkeys(metrics, self.step))
        if self.epoch_is_over:
            self.history[-1].update(metrics)

    def judge(self, metric: str, *, largest: bool = False) -> None:
        """Compare a metric that was just measured with the best one so far."""
        if metric not in self.metrics:
            raise ConfigError(
                f"the evaluation gives no metric {metric!r}",
                code="metric",
                details=[f"it gives {', '.join(self.metrics)}"],
                fixes=did_you_mean(metric, self.metrics),
            )
        value = self.metrics[metric]
        known = float("nan") if self.best is None or self.best.metric != metric else self.best.value
        if known != known or (value > known if largest else value < known):
            self.best = Best(metric, value, self.step, self.epoch, largest)

    def close_row(self) -> None:
        """Write down what this epoch came to so far, as its row of the history."""
        row: dict[str, Any] = {"epoch": self.epoch, "step": self.step, "loss": self.epoch_loss, "lr": self.lr}
        row.update({name: self.metrics[name] for name, step in self.measured.items() if step == self.step})
        if self.history and self.history[-1]["epoch"] == self.epoch:
            self.history.pop()
        self.history.append(row)

    def save(self) -> None:
        """Save a checkpoint now."""
        if self.saver is not None:
            self.saver()

    def state(self) -> dict[str, Any]:
        """Return all of this that a resumed training needs, ready for JSON."""
        return {
            "step": self.step,
            "epoch": self.position.epoch,
            "batch": self.position.batch,
            "seed": self.seed,
            "total_steps": self.total_steps,
            "last": {"loss": self.loss, "norm": self.norm, "lr": self.lr},
            "tally": asdict(
                replace(self.tally, loss_sum=0.0, loss_count=0) if self.epoch_is_over else self.tally
            ),
            "metrics": self.metrics,
            "measured": self.measured,
            "best": asdict(self.best) if self.best is not None else None,
            "history": self.history,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from the state of a checkpoint."""
        self.step, self.epoch, self.batch = state["step"], state["epoch"], state["batch"]
        self.loss, self.norm, self.lr = (state["last"][name] for name in ("loss", "norm", "lr"))
        self.tally = Tally(**state["tally"])
        self.metrics, self.measured = dict(state["metrics"]), dict(state["measured"])
        self.best = Best(**state["best"]) if state["best"] is not None else None
        self.history = list(state["history"])
