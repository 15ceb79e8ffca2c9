"""What a training knows about itself while it runs: its position, its figures, and what callbacks may ask
of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from neumo.engine.callback import EVENTS, Callback
from neumo.engine.checkpoints.store import CheckpointStore
from neumo.engine.checks.figures import check_measured, own_figures
from neumo.engine.loop.length import Length
from neumo.engine.processes.world import Alone, World, together
from neumo.types.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from neumo.engine.callbacks.samples import Sample
    from neumo.engine.callbacks.stage import Asked, Stage
    from neumo.engine.loop.saving import Saver
    from neumo.engine.passes.evaluate import Evaluation
    from neumo.graph.graph import Graph

_SAVING: Final = ("on_action_start", "on_action_end", "on_epoch_start", "on_epoch_end", "on_step_end")
_AS_WELL: Final = "after it, closing failed as well: "
_NAMES_KEPT: Final = 1000  # utterances named in a state; the counts go on


@dataclass(frozen=True, slots=True)
class Position:
    """Where a training is in its data: the epoch, and how many of its batches have been used."""

    epoch: int
    batch: int


@dataclass(frozen=True, slots=True)
class Current:
    """The batch that is being computed: its feeds, on the device, its items, and the seed of its numbers."""

    feeds: tuple[Any, ...]
    items: tuple[int, ...]
    seed: int


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
    phases: dict[str, list[float]] = field(default_factory=dict[str, list[float]])  # sum, count, bad in a row

    def add_good(self, loss: float, phase: str = "") -> None:
        """Count the loss of one good update, of a phase if there are any."""
        if phase:
            row = self.phases.setdefault(phase, [0.0, 0, 0])
            self.phases[phase] = [row[0] + loss, row[1] + 1, 0]
            return
        self.bad_in_a_row = 0
        self.loss_sum += loss
        self.loss_count += 1

    def add_bad(self, phase: str = "") -> int:
        """Count an update that was left out; returns how many came one after the other."""
        if not phase:
            self.bad_in_a_row += 1
            return self.bad_in_a_row
        row = self.phases.setdefault(phase, [0.0, 0, 0])
        row[2] += 1
        return int(row[2])

    def bad_so_far(self, phase: str = "") -> int:
        """How many updates, the last ones, were left out one after the other."""
        return int(self.phases.get(phase, (0.0, 0, 0))[2]) if phase else self.bad_in_a_row

    def without_losses(self) -> Tally:
        """What goes on into the next epoch."""
        phases = {name: [0.0, 0, row[2]] for name, row in self.phases.items()}
        return replace(self, loss_sum=0.0, loss_count=0, phases=phases)

    def add_infeasible(self, names: Iterable[str]) -> None:
        """Count utterances that a loss left out."""
        for name in names:
            if name in self.infeasible or len(self.infeasible) < _NAMES_KEPT:
                self.infeasible[name] = self.infeasible.get(name, 0) + 1

    @property
    def mean_loss(self) -> float:
        """The mean loss of the good steps of this epoch, with phases the sum of theirs; NaN if there was
        none.
        """
        if self.phases:
            return sum(self.mean_losses.values()) if self.mean_losses else float("nan")
        return self.loss_sum / self.loss_count if self.loss_count else float("nan")

    @property
    def mean_losses(self) -> dict[str, float]:
        """The mean losses of phases in this epoch, as figures: `{"loss.d_loss": 0.4}`."""
        return {f"loss.{name}": total / n for name, (total, n, _) in self.phases.items() if n}


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
        length: Length,
        folder: Path | None,
        evaluate: Callable[[Graph], Evaluation],
        say: Callable[[str], None],
        world: World | None = None,
        batches_per_step: int = 1,
    ) -> None:
        self.seed = seed
        self.epochs = epochs
        self.length = length
        self.total_steps = length.steps
        self.folder = folder
        self.world: World = world if world is not None else Alone()
        self.batches_per_step = batches_per_step
        self.layout = batches_per_step  # that of the epoch: how many batches a step had when it began
        self.current: Current | None = None
        self.step = 0
        self.epoch = 0
        self.batch = 0
        self.batches = 0  # in this epoch, over all processes
        self.moved = False  # whether this process did anything: a step, or the end of an epoch
        self.loss = float("nan")
        self.norm = float("nan")
        self.lr = 0.0
        self.skipped = ""  # why the last step did not update the weights
        self.figures: dict[str, float] = {}  # of the phases of the last step: "loss.d_loss", "lr.d_loss", ...
        self.metrics: dict[str, float] = {}
        self.measured: dict[str, int] = {}
        self.best: Best | None = None
        self.judged = -1  # the last step whose figure was compared with the best one
        self.history: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.tally = Tally()
        self.stopped = ""
        self.asked = ""  # why this process wants to stop; agreed upon with the others
        self.epoch_is_over = False
        self.saver: Saver | None = None
        self.stage: Stage | None = None
        self._evaluate = evaluate
        self._say = say
        self._started = time.monotonic()
        self._callbacks: list[Callback] = []
        self._listeners: dict[str, list[tuple[Callback, Callable[[Run], None]]]] = {}
        self._listening: Callback | None = None
        self._to_save: Literal["", "try", "must"] = ""  # a checkpoint that callbacks have asked for
        self._measurers: dict[str, Graph] = {}  # metric -> the graph that gives it
        self._held: dict[int, frozenset[str]] = {}  # by what holds them

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and shows: rank 0, or the only one."""
        return self.world.rank == 0

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
        self._callbacks = [each for each in callbacks if self.first or not each.only_first]
        for event in EVENTS:
            silent = getattr(Callback, event)
            told = [
                (callback, getattr(callback, event))
                for callback in self._callbacks
                if getattr(type(callback), event) is not silent
            ]
            self._listeners[event] = told

    def tell(self, event: str) -> None:
        """Tell the callbacks that something starts or ends, and then save what they asked for."""
        for callback, listener in self._listeners[event]:
            self._listening = callback
            listener(self)
        self._listening = None
        if self._to_save and event in _SAVING:
            must, self._to_save = self._to_save == "must", ""
            self.save_now(must=must)

    def close(self) -> None:
        """Let all callbacks close what they hold open, whether the training ended well or not.

        Raises the first error of those that fail, behind the last one.
        """
        with closing_all(callback.close for callback in self._callbacks):
            self._listening = None

    def stop(self, reason: str) -> None:
        """End the training after this step; with several processes, after the one in which all know of it."""
        self.asked = self.asked or reason
        if self.world.size == 1:
            self.stopped = self.stopped or reason

    def agree(self, asked: bool | None = None) -> None:
        """Stop in all processes if any wants to; `asked` says so where it is known already.

        Every process calls it, at the same point.
        """
        if self.world.size == 1 or self.stopped:
            return
        if asked is None:
            asked = self.world.largest([float(bool(self.asked))], "whether to stop")[0] > 0
        if asked:
            self.stopped = next(
                reason for reason in together(self.world, self.asked, "why to stop") if reason
            )

    def note(self, text: str) -> None:
        """Say something once that must not be lost: on the terminal, in the log and in the result."""
        self.notes.append(text)
        self._say(text)

    def value(self, asked: Asked) -> Any:
        """Compute a value of the training graph for the batch of now, as a numpy array; see `values`."""
        return self.values(asked)[0]

    def values(self, *asked: Asked) -> list[Any]:
        """Compute values of the training graph for the batch of now, as numpy arrays, when asked for.

        Values are named by outputs, by a step and a port such as "encoder.features", or are given themselves.
        They are there from the start of a batch to the end of its step, with the weights of now, in the modes
        and with the random numbers of the step; the training goes on as if they had not been computed. Values
        that are asked for together are computed together.

        Raises `ConfigError` outside of a batch, and `GraphError` for what is no value of the graph.
        """
        if self.stage is None or self.current is None:
            raise ConfigError(
                "values are those of a batch, and there is no batch now",
                code="values",
                fixes=["ask in on_batch_start, on_batch_end or on_step_end"],
            )
        self._need_all("values are computed", code="values")
        return self.stage.values(asked, self.current, self.epoch)

    def _need_all(self, what: str, code: str) -> None:
        """Raise `ConfigError` where the other processes are not told of what is to be done by all."""
        if self.world.size > 1 and self._listening is not None and self._listening.only_first:
            raise ConfigError(
                f"{type(self._listening).__name__} runs in the first process only, and {what} by all of them",
                code=code,
                fixes=["only_first = False, and write only where run.first"],
            )

    def hold(self, owner: object, names: Collection[str]) -> None:
        """Keep weights and statistics, as `module.name`, as they are until the same owner says otherwise."""
        self._need_all("weights are held", code="together")
        if self.stage is None:
            return
        self._held[id(owner)] = frozenset(names)
        every = frozenset[str]().union(*self._held.values())
        self.stage.factory.session.set_modes(self.stage.plan, every)
        self.stage.trainer.hold(every)

    def show(self, sample: Sample) -> None:
        """Tell the trackers of a sample that was written into the run folder."""
        for callback in self._callbacks:
            callback.on_sample(self, sample)

    def evaluate(self, graph: Graph) -> Evaluation:
        """Evaluate a graph now, with the averaged weights if there are any; all processes call it."""
        self._need_all("a graph is evaluated", code="together")
        return self._evaluate(graph)

    def measure(self, metrics: Mapping[str, float], *, by: Graph | None = None) -> None:
        """Record figures that were measured at this step.

        Raises `ConfigError` if another graph gives one, if one has the name of a figure of the training
        itself, such as `loss`, and for what is no number.
        """
        check_measured(metrics, own_figures(self.tally.phases))
        if by is not None:
            self._check_measurer(metrics, by)
        self.metrics.update(metrics)
        self.measured.update(dict.fromkeys(metrics, self.step))
        if self.epoch_is_over:
            self.history[-1].update(metrics)

    def _check_measurer(self, metrics: Iterable[str], graph: Graph) -> None:
        for name in metrics:
            other = self._measurers.setdefault(name, graph)
            if other is not graph:
                raise ConfigError(
                    f"graphs {other.name!r} and {graph.name!r} both give {name!r}",
                    code="metric",
                    fixes=[f"Evaluate(graph, name={graph.name!r}) puts a name in front of its figures"],
                )

    def judge(self, metric: str, *, largest: bool = False) -> None:
        """Compare a metric that was just measured with the best one so far."""
        if metric not in self.metrics:
            raise ConfigError(
                f"the evaluation gives no metric {metric!r}",
                code="metric",
                details=[f"it gives {', '.join(self.metrics)}"],
                fixes=did_you_mean(metric, self.metrics),
            )
        self.judged = self.step
        value = self.metrics[metric]
        known = float("nan") if self.best is None or self.best.metric != metric else self.best.value
        better = known != known or (value > known if largest else value < known)
        if better and value == value:  # a figure that is not a number is never the best
            self.best = Best(metric, value, self.step, self.epoch, largest)

    def close_row(self) -> None:
        """Write down what this epoch came to so far, as its row of the history."""
        row: dict[str, Any] = {"epoch": self.epoch, "step": self.step, "loss": self.epoch_loss, "lr": self.lr}
        row.update(self.tally.mean_losses)
        row.update({name: self.metrics[name] for name, step in self.measured.items() if step == self.step})
        if self.history and self.history[-1]["epoch"] == self.epoch:
            self.history.pop()
        self.history.append(row)

    def save(self, *, must: bool = False) -> None:
        """Ask for a checkpoint; all processes call it.

        It is written as soon as all callbacks have been told of what happens now, within a step at its end:
        its state is that of a whole step, which all callbacks have seen. They are told by `on_saved`. A disk
        that refuses is noted; `CheckpointError` ends the training if it refuses again and again, or if the
        checkpoint `must` be saved because there is no later one.
        """
        self._need_all("checkpoints are saved", code="together")
        self._to_save = "must" if must else self._to_save or "try"

    def save_now(self, *, must: bool) -> None:
        """Write a checkpoint, and tell the callbacks; called where the state is a whole one."""
        if self.saver is not None and self.saver(must=must):
            for callback in self._callbacks:
                callback.on_saved(self)

    def state(self) -> dict[str, Any]:
        """Return all of this that a resumed training needs, ready for JSON."""
        return {
            "step": self.step,
            "epoch": self.position.epoch,
            "batch": self.position.batch,
            "seed": self.seed,
            "total_steps": self.total_steps,
            "length": self.length.state(),
            "processes": self.world.size,
            "batches_per_step": self.batches_per_step,
            "layout": self.batches_per_step if self.epoch_is_over else self.layout,
            "last": {"loss": self.loss, "norm": self.norm, "lr": self.lr},
            "tally": asdict(self.tally.without_losses() if self.epoch_is_over else self.tally),
            "metrics": self.metrics,
            "measured": self.measured,
            "best": asdict(self.best) if self.best is not None else None,
            "history": self.history,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from the state of a checkpoint."""
        self.step, self.epoch, self.batch = state["step"], state["epoch"], state["batch"]
        self.layout = state.get("layout", 1) if self.batch else self.batches_per_step
        self.loss, self.norm, self.lr = (state["last"][name] for name in ("loss", "norm", "lr"))
        self.tally = Tally(**state["tally"])
        self.metrics, self.measured = dict(state["metrics"]), dict(state["measured"])
        self.best = Best(**state["best"]) if state["best"] is not None else None
        self.history = list(state["history"])


@contextmanager
def closing_all(closers: Iterable[Callable[[], None]]) -> Generator[None, None, None]:
    """Close everything at the end, whatever fails; raises the first error, that of what is within before all.

    >>> with closing_all([lambda: print("one"), lambda: print("two")]):
    ...     print("work")
    work
    one
    two
    """
    trouble: BaseException | None = None
    try:
        yield
    except BaseException as error:
        trouble = error
    for close in closers:
        try:
            close()
        except Exception as error:
            if trouble is None:
                trouble = error
            else:
                for text in (f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())):
                    trouble.add_note(text if text.startswith(_AS_WELL) else _AS_WELL + text)
    if trouble is not None:
        raise trouble
