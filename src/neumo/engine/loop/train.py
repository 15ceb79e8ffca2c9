"""The training loop: read, step, look at what came of it, tell the callbacks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from neumo.engine import faults
from neumo.engine.backend import Batch, Reader, Session, TrainedState, Trainer, Update
from neumo.engine.checkpoints.store import step_of
from neumo.engine.checkpoints.writing import Lines
from neumo.engine.checks.preflight import listed
from neumo.engine.loop.nonfinite import FILE, describe_batch, plain
from neumo.engine.loop.phases import Cycle
from neumo.engine.loop.run import Best, Current, Run, closing_all
from neumo.engine.loop.saving import restore_source, shared_state
from neumo.engine.loop.windows import Share, share_of
from neumo.engine.processes.watch import Watch
from neumo.engine.processes.world import first_says, together
from neumo.engine.seeds import derive_seed
from neumo.engine.updates.schedules import Factor
from neumo.types.errors import BackendError, CheckpointError, DataError

if TYPE_CHECKING:
    from neumo.data.source import DataSource
    from neumo.engine.loop.options import NonFinite

_FLAGS_KEPT: Final = 100  # batches whose flags wait in the memory of the device
_ROWS_KEPT: Final = 1000  # of skipped steps, in the state; the file in the run folder has all

_BAD: Final = ("loss", "gradient")  # why an update is left out, where it is for what is not finite
_NO_TRACE: Final = (*_BAD, "empty")
_WHAT = {"loss": "the loss", "gradient": "the gradient", "overflow": "the scaled fp16 gradient"}


@dataclass
class TrainResult:
    """What came of a training.

    `history` has one row per epoch (epoch, step, loss, lr, metrics); `steps` counts all updates, those
    before a resume as well; `losses` are those of this process, step by step; `skipped` lists the steps
    that were left out because something was not finite; `infeasible` counts the utterances that the loss
    had to leave out. `over` says that there was nothing left to train.
    """

    history: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    steps: int = 0
    best: Best | None = None
    seconds: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    losses: list[float] = field(default_factory=list[float])
    skipped: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    infeasible: dict[str, int] = field(default_factory=dict[str, int])
    notes: list[str] = field(default_factory=list[str])
    stopped: str = ""
    over: bool = False
    resumed_from: Path | None = None
    folder: Path | None = None

    @property
    def best_checkpoint(self) -> Path | None:
        """The checkpoint of the best step, if it was kept."""
        if self.folder is None or self.best is None:
            return None
        path = self.folder / "checkpoints" / f"step-{self.best.step:08d}"
        return path if path.is_dir() else None

    def __str__(self) -> str:
        loss = f", loss {self.history[-1]['loss']:.4g}" if self.history else ""
        best = (
            f", best {self.best.metric} {self.best.value:.4g} at step {self.best.step}" if self.best else ""
        )
        if self.over:
            return f"nothing left to train: {self.steps} steps were done before{loss}{best}"
        return f"trained for {self.steps} steps in {self.seconds:.1f} s{loss}{best}"


@dataclass(frozen=True, kw_only=True)
class Updater:
    """One optimizer of a training: what it updates with, at which rate, and what it needs of a batch.

    `feeds` says which of the values that are read it takes, `flags` where its loss, among the wanted values,
    flags the utterances that it left out. `name` is that of a phase, "" if there are none.
    """

    trainer: Trainer
    factor: Factor
    lr: float
    feeds: Sequence[int] | None = None  # None: all of them
    flags: Sequence[int] = ()
    name: str = ""

    def taken(self, feeds: Sequence[Any]) -> Sequence[Any]:
        """What it takes of a batch."""
        return feeds if self.feeds is None else [feeds[place] for place in self.feeds]


@dataclass(frozen=True, slots=True)
class _Turn:
    """An update within a step: by whom, at which factor of its rates, and its place in the step."""

    updater: Updater
    factor: float
    place: int

    @property
    def rate(self) -> float:
        """The learning rate."""
        return self.updater.lr * self.factor


@dataclass(kw_only=True)
class Training:
    """Everything that one training runs on."""

    session: Session
    trainer: TrainedState
    updaters: Sequence[Updater]
    cycle: Cycle
    source: DataSource
    reader: Reader
    run: Run
    ports: Sequence[str] = ()  # of the feeds of a batch
    nonfinite: NonFinite = "skip"
    bad_limit: int = 10
    keeps: bool = False  # whether there are checkpoints
    max_steps: int | None = None
    beginning: str = ""  # what is said where there is something left to train
    losses: list[float] = field(default_factory=list[float])
    _flagged: list[tuple[Any, tuple[int, ...]]] = field(default_factory=list[tuple[Any, tuple[int, ...]]])
    _infeasible: list[str] = field(default_factory=list[str])  # of the flags that were read
    _flags_read: int = 0
    _spare: Batch | None = None  # what to compute, for the sake of the others, in an empty turn
    _watch: Watch = field(init=False)
    _rows: Lines | None = None  # of steps that are not finite
    _kept: bool = False  # whether it was tried to save the weights of the last good step
    _not_kept: str = ""  # why they could not be saved
    _noted: int = 0  # notes that the others know
    _looked: int = 0  # utterances of this epoch of which is known whether the loss left them out
    _left_out: int = 0  # those that it did

    def __post_init__(self) -> None:
        run = self.run
        self._watch = Watch(run.world, run.note)
        if run.folder is not None and run.first:
            self._rows = Lines(run.folder / FILE, run.note)

    def go(self) -> None:
        """Train until the epochs or steps are done, or a callback says stop."""
        run = self.run
        rows = [self._rows.close] if self._rows is not None else []
        with closing_all([self.reader.close, *rows, run.close]):
            try:
                self._go()
            except BackendError as error:
                if error.code == "peer-lost":
                    error.details = (*error.details, f"behind step {run.step}, in epoch {run.epoch + 1}")
                raise

    def _go(self) -> None:
        run = self.run
        run.tell("on_action_start")
        run.agree()
        if not self._is_done() and self.beginning:
            run.note(self.beginning)
        while not self._is_done():
            self._epoch()
        if run.moved and not run.epoch_is_over and run.batch:
            self.count_infeasible()
            run.close_row()
        run.tell("on_action_end")

    def _is_done(self) -> bool:
        run = self.run
        if run.stopped:
            return True
        if self.max_steps is not None and run.step >= self.max_steps:
            run.stopped = "all steps are done"
        elif run.epochs is not None and run.position.epoch >= run.epochs:
            run.stopped = "all epochs are done"
        return bool(run.stopped)

    def _epoch(self) -> None:
        run = self.run
        if run.epoch_is_over:
            run.epoch, run.batch, run.epoch_is_over = run.epoch + 1, 0, False
            run.layout = run.batches_per_step
            run.tally = run.tally.without_losses()
        share = share_of(
            self.source, run.epoch, run.world, run.batches_per_step, layout=run.layout, used=run.batch
        )
        run.batches = share.batches
        whole, self._looked, self._left_out = not run.batch, 0, 0
        run.tell("on_epoch_start")
        with closing(self._read(share)) as steps:
            for window in steps:
                self._step(window, share.reference)
                if run.stopped or (self.max_steps is not None and run.step >= self.max_steps):
                    break
        if run.batch >= run.batches:
            self.count_infeasible(whole_epoch=whole)
            self._tell_of_others()
            self._share_bad_items()
            run.epoch_is_over = run.moved = True
            run.close_row()
            run.tell("on_epoch_end")
            faults.reach("epoch-end", run.epoch + 1)
            run.agree()

    def _read(self, share: Share) -> Generator[list[Batch], None, None]:
        """Read the batches of one step after the other."""
        flat = [batch for window in share.windows for batch in window]
        stream = self.reader.read(flat, self.run.epoch)
        try:
            for window in share.windows:
                self._watch.begin()
                batches = [next(stream) for _ in window]
                for _ in batches:
                    faults.reach("batch")
                if self._spare is None and self.run.world.size > 1:
                    self._spare = self._first_batch(batches, share)
                yield batches
        finally:
            close: Callable[[], None] | None = getattr(stream, "close", None)
            if close is not None:
                close()

    def _first_batch(self, batches: Sequence[Batch], share: Share) -> Batch | None:
        """Find something to compute in turns without a batch, should they come."""
        if all(batch.items for batch in batches):
            return None
        # Not with the workers of `reader`, which is in the middle of the epoch.
        aside = self.session.reader(self.source, self.ports, 0)
        with closing(aside):
            return next((batch for batch in aside.read(share.spares, self.run.epoch) if batch.items), None)

    def _step(self, window: Sequence[Batch], reference: float) -> None:
        run = self.run
        if run.world.size == 1:
            window = [batch for batch in window if batch.items]
            if not window:  # every utterance of it was left out, or there was none
                self._advance()
                return
        faults.reach("step", run.step + 1)
        turns, rate = self._turns(), run.lr
        run.lr = turns[0].rate
        run.tell("on_step_start")
        updates: list[Update] = []
        for turn in turns:
            updates.append(self._update(turn, window, reference))
            if not updates[-1].signals[1]:  # no process had a batch
                self._advance()
                return
        if self._gives_up(turns, updates) and all(update.skipped in _NO_TRACE for update in updates):
            self._keep(rate)  # before anything is counted: the state is that behind the step before
        self._advance()
        run.step += 1
        run.moved = True
        self._take_down(turns, updates, window)
        run.tell("on_batch_end")
        run.tell("on_step_end")
        faults.reach("step-end", run.step)
        run.agree(any(update.signals[0] for update in updates))
        run.current = None

    def _advance(self) -> None:
        """Count the batches of a step as used: a checkpoint goes on behind them."""
        run = self.run
        run.batch = min(run.batch + run.batches_per_step, run.batches)

    def _turns(self) -> list[_Turn]:
        """The updates of the coming step."""
        numbers, step = self.cycle.turns(self.run.step), self.run.step
        turns: list[_Turn] = []
        for place, n in enumerate(numbers):
            updates = self.cycle.updates(n, before=step) + numbers[:place].count(n)
            turns.append(_Turn(self.updaters[n], self.updaters[n].factor(updates), place))
        return turns

    def _update(self, turn: _Turn, window: Sequence[Batch], reference: float) -> Update:
        trainer = turn.updater.trainer
        signals = [float(bool(self.run.asked)), float(sum(bool(batch.items) for batch in window))]
        self._accumulate(turn, window, reference)
        times = self._watch.ready(trainer.ready) if not turn.place else []
        with _explaining(trainer):
            update = trainer.apply(turn.factor, [*signals, *times])
        if not turn.place:
            self._watch.hear(self.run.step + 1, update.signals[len(signals) :])
        return update

    def _gives_up(self, turns: Sequence[_Turn], updates: Sequence[Update]) -> bool:
        """Whether the training ends for what is not finite in a step."""
        pairs = zip(turns, updates, strict=True)
        bad = [turn.updater.name for turn, update in pairs if update.skipped in _BAD]
        if self.nonfinite == "raise":
            return bool(bad)
        return any(self.run.tally.bad_so_far(name) + bad.count(name) >= self.bad_limit for name in bad)

    def _keep(self, rate: float) -> None:
        """Save the weights before the training gives up, unless there is a checkpoint of them; all do.

        A disk that refuses is told beside it: why the training ends is more important.
        """
        run = self.run
        run.lr, self._kept = rate, True
        if not self.keeps or run.folder is None or run.saver is None or not run.step:
            return
        name = f"step-{run.step:08d}"
        there = [path.name for path in run.checkpoints.paths()] if run.first else []
        if first_says(run.world, name in there, "whether there is a checkpoint"):
            return
        self._flagged.clear()  # of a step that a training which goes on does anew
        try:
            run.save_now(must=True)
        except CheckpointError as error:
            self._not_kept = error.what

    def _take_down(self, turns: Sequence[_Turn], updates: Sequence[Update], window: Sequence[Batch]) -> None:
        """Record what the updates of a step came to."""
        run = self.run
        last = {turn.updater.name: update for turn, update in zip(turns, updates, strict=True)}
        run.loss = sum(update.loss for update in last.values())
        run.norm = max(update.norm for update in updates)
        run.skipped = next((update.skipped for update in updates if update.skipped), "")
        run.figures = {
            f"{what}.{turn.updater.name}": value
            for turn in turns
            if turn.updater.name
            for what, value in (
                ("loss", last[turn.updater.name].loss),
                ("lr", turn.rate),
                ("norm", last[turn.updater.name].norm),
            )
        }
        self.losses.append(run.loss)
        for turn, update in zip(turns, updates, strict=True):
            if update.skipped not in ("", "empty"):
                self._bad_step(update, window, turn.updater.name)
            elif not update.skipped:
                run.tally.add_good(update.loss, turn.updater.name)
                self._spare = next((batch for batch in window if batch.items), self._spare)

    def _accumulate(self, turn: _Turn, window: Sequence[Batch], reference: float) -> None:
        """Compute the batches of a step; where there is none, another one that counts nothing."""
        run = self.run
        for number, batch in enumerate(window):
            if number and not turn.place:
                run.tell("on_batch_end")
            computed = batch if batch.items else self._spare_batch()
            seed = self._seed(number, turn.place)
            run.current = Current(computed.feeds, computed.items, seed)
            if not turn.place:
                run.tell("on_batch_start")
            with _explaining(turn.updater.trainer):
                values = turn.updater.trainer.accumulate(
                    turn.updater.taken(computed.feeds),
                    seed=seed,
                    weight=float(len(batch.items)),
                    reference=reference,
                    last=number == len(window) - 1,
                )
            if batch.items:
                self._flagged += [(values[position], batch.items) for position in turn.updater.flags]
                if len(self._flagged) >= _FLAGS_KEPT:
                    self._read_flags()

    def _seed(self, number: int, turn: int) -> int:
        """The seed of a batch: its place among all batches of the step counts, not the process."""
        place = self.run.world.rank + number * self.run.world.size
        parts = ("batch", place) if place else ()
        return derive_seed(self.run.seed, "step", self.run.step, *parts, *(("turn", turn) if turn else ()))

    def _spare_batch(self) -> Batch:
        if self._spare is None:
            raise DataError(
                f"process {self.run.world.rank} has no batch that it could read",
                code="no-data",
                why="Every utterance so far was left out, so it cannot take part in a step of the others.",
                fixes=["look at the report of the data, and leave the broken recordings out"],
            )
        return self._spare

    def _share_bad_items(self) -> None:
        """Let every process leave out what any of them has found bad."""
        if self.run.world.size > 1:
            restore_source(self.source, shared_state(self.source, self.run.world))

    def _tell_of_others(self) -> None:
        """Bring notes of other processes to the first one, each text once."""
        run = self.run
        if run.world.size == 1:
            return
        fresh, self._noted = run.notes[self._noted :], len(run.notes)
        for rank, texts in enumerate(together(run.world, fresh, "notes")):
            if rank and run.first:
                for text in texts:
                    if text not in run.notes:
                        run.note(f"process {rank}: {text}")
        self._noted = len(run.notes)

    def _bad_step(self, update: Update, window: Sequence[Batch], phase: str) -> None:
        """Count, name and write down a step that was left out, and give up when there are too many."""
        if update.skipped == "overflow":  # the loss scale backs off: part of fp16
            return
        run = self.run
        in_a_row = run.tally.add_bad(phase)
        names, batches = self._suspects(update, window)
        row = {"step": run.step, "epoch": run.epoch, "what": update.skipped, "loss": str(update.loss)}
        row |= {"norm": str(update.norm), "items": names, **({"phase": phase} if phase else {})}
        if len(run.tally.skipped) < _ROWS_KEPT:
            run.tally.skipped.append(row)
        if self._rows is not None:
            gradients = {name: plain(norm) for name, norm in update.gradients.items()}
            self._rows.add(
                {**row, "batches": batches, "gradients": gradients, "broke_at": update.broke_at}, now=True
            )
        figures = f"loss {update.loss}, norm {update.norm}"
        of = f"step {run.step}, phase {phase!r}," if phase else f"step {run.step}"
        what = f"{_WHAT[update.skipped]} of {of} is not finite ({figures})"
        if self.nonfinite == "raise" or in_a_row >= self.bad_limit:
            if not self._kept:  # other phases of the step have moved their weights
                self._keep(run.lr)
            count = in_a_row if self.nonfinite == "skip" else 0
            broke = [f"the backward pass broke at {update.broke_at}"] if update.skipped == "gradient" else []
            raise _gave_up(what, names, run, count, broke, self.session.advice, self._not_kept)
        run.note(f"{what}: the step is left out, weights untouched; its utterances: {listed(names)}")

    def _suspects(self, update: Update, window: Sequence[Batch]) -> tuple[list[str], list[dict[str, Any]]]:
        """Describe the batches of a step, of all processes, and name the utterances that it may be due to.

        They are those whose input is not finite, else those of batches whose loss is not, else all.
        """
        mine: list[dict[str, Any]] = []
        for batch, loss in zip(window, update.losses, strict=True):
            if not batch.items:
                continue
            names = [self.source.name(item) for item in batch.items]
            arrays = (self.session.to_numpy(feed) for feed in batch.feeds)
            feeds = dict(zip(self.ports, arrays, strict=False))
            mine.append({"process": self.run.world.rank, **describe_batch(feeds, names, loss)})
        every: list[dict[str, Any]] = [
            row for rows in together(self.run.world, mine, "a step that is not finite") for row in rows
        ]
        broken = [name for row in every for name in row["not_finite"]]
        lost = [name for row in every if isinstance(row["loss"], str) for name in row["items"]]
        return broken or lost or [name for row in every for name in row["items"]], every

    def _read_flags(self) -> None:
        """Name the utterances that a loss has left out, and let go of the memory of the device."""
        for flags, items in self._flagged:
            array = self.session.to_numpy(flags).reshape(-1)
            self._infeasible += [self.source.name(n) for n, flag in zip(items, array, strict=True) if flag]
            self._flags_read += len(items)
        self._flagged.clear()

    def count_infeasible(self, *, whole_epoch: bool = False) -> None:
        """Count and name the utterances that losses had to leave out since this was last asked.

        Raises `DataError` where that is every utterance of a whole epoch: a loss of 0 would look learned.
        """
        if not any(each.flags for each in self.updaters):
            return
        self._read_flags()
        everyone = together(self.run.world, [self._infeasible, self._flags_read])
        self._infeasible, self._flags_read = [], 0
        found = [name for names, _ in everyone for name in names]
        self._looked += sum(count for _, count in everyone)
        self._left_out += len(found)
        if not found:
            return
        new = [name for name in dict.fromkeys(found) if name not in self.run.tally.infeasible]
        self.run.tally.add_infeasible(found)
        if new:
            self.run.note(
                f"the loss had to leave out {len(new)} utterances, too short for their text: {listed(new)}"
            )
        if whole_epoch and self._left_out == self._looked:
            raise DataError(
                "the loss had to leave out every utterance of the epoch: each is too short for its text",
                code="no-data",
                details=[listed(dict.fromkeys(found), 8)],
                why="Such a loss needs at least a frame for each label.",
                fixes=["look at the texts and the durations of the manifest", "an encoder of smaller stride"],
            )


@contextmanager
def _explaining(trainer: Trainer) -> Generator[None, None, None]:
    """Let errors of a computation say which module it was; those of callbacks beside it are their own."""
    try:
        yield
    except Exception as error:
        explained = trainer.explain(error)
        if explained is error:
            raise
        raise explained from error


def _gave_up(
    what: str,
    names: list[str],
    run: Run,
    in_a_row: int,
    broke: list[str],
    advice: Sequence[str],
    not_kept: str,
) -> BackendError:
    """Say why a training ends; `in_a_row` is 0 where the first such step is one too many."""
    many = f"; that is {in_a_row} such steps in a row" if in_a_row else ""
    written = [f"written down in {run.folder / FILE}"] if run.folder is not None else []
    saved = run.checkpoints.paths() if run.folder is not None else []
    here = bool(saved) and step_of(saved[0]) >= run.step - 1
    kept = f", which checkpoint {saved[0].name} has" if here else ""
    return BackendError(
        what + many,
        code="non-finite",
        details=[
            f"the weights are those of the last good step{kept}",
            *([f"they are not saved: {not_kept}"] if not_kept else []),
            f"its utterances: {listed(names, 8)}",
            *broke,
            *written,
        ],
        fixes=[
            *advice,
            "clip=1.0, a smaller learning rate or a longer warm-up",
            "verify='values' names the first value that is not finite",
            *(["nonfinite='skip' leaves such steps out, counts and names them"] if not in_a_row else []),
        ],
        data={"items": names, "step": run.step},
    )
