"""The training loop: read, step, look at what came of it, tell the callbacks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from neumo.engine.backend import Batch, Reader, Session, Trainer, Update
from neumo.engine.preflight import listed
from neumo.engine.run import Best, Run
from neumo.engine.schedules import Factor
from neumo.engine.seeds import derive_seed
from neumo.types.errors import BackendError, DataError

if TYPE_CHECKING:
    from neumo.data.source import DataSource
    from neumo.engine.options import NonFinite

_ROWS_KEPT: Final = 1000  # of skipped steps, in the state; the file in the run folder has all

_WHAT = {"loss": "the loss", "gradient": "the gradient", "overflow": "the scaled fp16 gradient"}


@dataclass
class TrainResult:
    """What came of a training.

    `history` has one row per epoch (epoch, step, loss, lr, metrics); `steps` counts all updates, those
    before a resume as well; `losses` are those of this process, step by step; `skipped` lists the steps
    that were left out because something was not finite; `infeasible` counts the utterances that the loss
    had to leave out.
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
        return f"trained for {self.steps} steps in {self.seconds:.1f} s{loss}{best}"


@dataclass(kw_only=True)
class Training:
    """Everything that one training runs on."""

    session: Session
    trainer: Trainer
    source: DataSource
    reader: Reader
    factor: Factor
    lr: float
    run: Run
    flags: Sequence[int] = ()  # where, among the wanted values, losses flag the utterances that they left out
    nonfinite: NonFinite = "skip"
    bad_limit: int = 10
    max_steps: int | None = None
    losses: list[float] = field(default_factory=list[float])
    _flagged: list[tuple[Any, tuple[int, ...]]] = field(default_factory=list[tuple[Any, tuple[int, ...]]])

    def go(self) -> None:
        """Train until the epochs or steps are done, or a callback says stop."""
        run = self.run
        try:
            run.tell("on_action_start")
            while not self._is_done():
                self._epoch()
            if run.moved and not run.epoch_is_over and run.batch:
                self.count_infeasible()
                run.close_row()
            run.tell("on_action_end")
        finally:
            self.reader.close()
            run.close()

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
            run.tally.loss_sum, run.tally.loss_count = 0.0, 0
        batches = self.source.batches(run.epoch)
        run.batches = len(batches)
        if not batches:
            raise DataError("the data has no batch, so there is nothing to train on", code="no-data")
        run.tell("on_epoch_start")
        for batch in self._read(batches[run.batch :]):
            self._step(batch)
            if run.stopped or (self.max_steps is not None and run.step >= self.max_steps):
                break
        if run.batch >= run.batches:
            self.count_infeasible(whole_epoch=len(self._flagged) == run.batches * len(self.flags))
            run.epoch_is_over = run.moved = True
            run.close_row()
            run.tell("on_epoch_end")

    def _read(self, batches: Sequence[Sequence[int]]) -> Iterator[Batch]:
        """Read batches, and count the ones of which every utterance was left out as used."""
        stream = self.reader.read(batches, self.run.epoch)
        try:
            for batch in stream:
                if batch.items:
                    yield batch
                else:
                    self.run.batch += 1
        finally:
            close: Callable[[], None] | None = getattr(stream, "close", None)
            if close is not None:
                close()

    def _step(self, batch: Batch) -> None:
        run = self.run
        run.lr = self.lr * self.factor(run.step)
        run.tell("on_step_start")
        run.tell("on_batch_start")
        try:
            update = self.trainer.step(batch.feeds, seed=derive_seed(run.seed, "step", run.step), lr=run.lr)
        except Exception as error:
            explained = self.trainer.program.explain(error)
            if explained is error:
                raise
            raise explained from error
        run.step += 1
        run.batch += 1
        run.moved = True
        run.loss, run.norm, run.skipped = update.loss, update.norm, update.skipped
        self.losses.append(update.loss)
        self._flagged += [(update.values[position], batch.items) for position in self.flags]
        if update.skipped:
            self._bad_step(update, batch)
        else:
            run.tally.bad_in_a_row = 0
            run.tally.add_loss(update.loss)
        run.tell("on_batch_end")
        run.tell("on_step_end")

    def _bad_step(self, update: Update, batch: Batch) -> None:
        """Count, name and write down a step that was left out, and give up when there are too many."""
        if update.skipped == "overflow":  # the loss scale backs off: part of fp16
            return
        run = self.run
        run.tally.bad_in_a_row += 1
        names = [self.source.name(item) for item in batch.items]
        row = {"step": run.step, "epoch": run.epoch, "what": update.skipped, "loss": str(update.loss)}
        row |= {"norm": str(update.norm), "items": names}
        if len(run.tally.skipped) < _ROWS_KEPT:
            run.tally.skipped.append(row)
        if run.folder is not None:
            with (run.folder / "nonfinite.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        figures = f"loss {update.loss}, norm {update.norm}"
        what = f"{_WHAT[update.skipped]} of step {run.step} is not finite ({figures})"
        if self.nonfinite == "raise" or run.tally.bad_in_a_row >= self.bad_limit:
            raise _gave_up(what, names, run, self.nonfinite)
        run.note(f"{what}: the step is left out, weights untouched; its utterances: {listed(names)}")

    def count_infeasible(self, *, whole_epoch: bool = False) -> None:
        """Count and name the utterances that losses had to leave out since this was last asked.

        Raises `DataError` where that is every utterance of a whole epoch: a loss of 0 would look learned.
        """
        found: list[str] = []
        seen = 0
        for flags, items in self._flagged:
            seen += len(items)
            array = self.session.to_numpy(flags).reshape(-1)
            found += [self.source.name(item) for item, flag in zip(items, array, strict=True) if flag]
        self._flagged.clear()
        if not found:
            return
        new = [name for name in dict.fromkeys(found) if name not in self.run.tally.infeasible]
        self.run.tally.add_infeasible(found)
        if new:
            self.run.note(
                f"the loss had to leave out {len(new)} utterances, too short for their text: {listed(new)}"
            )
        if whole_epoch and len(found) == seen:
            raise DataError(
                "the loss had to leave out every utterance of the epoch: each is too short for its text",
                code="no-data",
                details=[listed(dict.fromkeys(found), 8)],
                why="Such a loss needs at least a frame for each label.",
                fixes=["look at the texts and the durations of the manifest", "an encoder of smaller stride"],
            )


def _gave_up(what: str, names: list[str], run: Run, policy: NonFinite) -> BackendError:
    many = f"; that is {run.tally.bad_in_a_row} such steps in a row" if policy == "skip" else ""
    written = [f"written down in {run.folder / 'nonfinite.jsonl'}"] if run.folder is not None else []
    return BackendError(
        what + many,
        code="non-finite",
        details=[
            "the weights are those of the last good step",
            f"its utterances: {listed(names, 8)}",
            *written,
        ],
        fixes=[
            "clip=1.0, a smaller learning rate or a longer warm-up",
            "verify='values' names the first value that is not finite",
            *(["nonfinite='skip' leaves such steps out, counts and names them"] if policy == "raise" else []),
        ],
        data={"items": names, "step": run.step},
    )
