"""From a graph and its options to a training that is ready to go, or the reason why it cannot."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from neumo.engine.backend import TrainingSetup
from neumo.engine.callbacks import Callback, TimeLimit
from neumo.engine.plan import Plan, compile_plan, needed_steps
from neumo.engine.preflight import (
    check_trainable,
    data_step,
    exclude_infeasible,
    find_loss,
    infeasible_flags,
    listed,
    loss_count,
    rule_notes,
)
from neumo.engine.resume import find_checkpoint, restore
from neumo.engine.run import Run
from neumo.engine.saving import Saver, restore_source
from neumo.engine.schedules import Factor, as_factor
from neumo.engine.stage import Stage
from neumo.engine.tracking import CSV, LossLogger, Progress, Provenance
from neumo.engine.train import Training, TrainResult
from neumo.engine.verify import make_guards
from neumo.engine.windows import count_windows, settle_batches
from neumo.graph.learned import check_learned, learn, learned_state, restore_learned
from neumo.graph.train_only import check_trained
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from neumo.data.source import DataSource
    from neumo.engine.backend import Reader, Trainer
    from neumo.engine.checkpoint import Saved
    from neumo.engine.evaluate import Evaluation, Evaluator
    from neumo.engine.factory import NeuralFactory
    from neumo.engine.options import TrainOptions
    from neumo.engine.world import World
    from neumo.graph.graph import Graph

COUNT: Final = "count"  # among the wanted values: how many things the loss is the mean over


@dataclass(frozen=True)
class Subject:
    """What is trained: the loss of a graph, the data that feeds it, and the plan that computes it."""

    loss: str
    source: DataSource
    plan: Plan
    flags: int  # how many of the wanted values, behind the loss, flag utterances that a loss left out
    counts: bool  # whether the loss says how many things it is the mean over
    notes: list[str]
    excluded: dict[str, str]  # reason -> the sentence that says what was left out for it


def train(factory: NeuralFactory, graph: Graph, options: TrainOptions) -> TrainResult:
    """Check everything, go on from a checkpoint if there is one, train, and leave the result in the
    modules.
    """
    world = factory.session.world
    factory.check_precisions(graph, *(evaluation.graph for evaluation in options.evaluations()))
    subject = _subject(factory, graph, options)
    trainer = _trainer(factory, subject, options)
    saved, passed = find_checkpoint(factory.folder, options.resume, world)
    if factory.folder is not None and world.rank == 0:
        factory.folder.mkdir(parents=True, exist_ok=True)
    _check_folder(factory, options)
    if saved is not None:
        restore_source(subject.source, saved.state.get("data"))
    evaluators = Evaluators(factory, trainer)
    display = None if factory.progress is False or world.rank else Progress(bar=factory.progress)
    run = _run(factory, subject, options, evaluators, display, saved)
    run.stage = Stage(factory, graph, subject.plan, subject.source, trainer)
    factor = _factor(subject, options, run)
    callbacks = _callbacks(factory, options, display, factor)
    reader = factory.session.reader(
        subject.source, [feed.port for feed in subject.plan.feeds], factory.workers
    )
    training = _training(factory, subject, options, trainer, reader, run, factor)
    run.listen(callbacks)
    steps = [call.step for call in subject.plan.steps]
    modules = subject.plan.modules
    run.saver = Saver(training, callbacks, lambda: learned_state(modules, steps, factory.frozen))
    about_data = _about_data(factory, subject)
    for text in [*subject.notes, *passed, *about_data]:
        run.note(text)
    try:
        if saved is not None:
            restore(training, callbacks, saved)
            restore_learned(modules, saved.state.get("learned", {}), source=saved.path.name)
            check_learned(steps)
            run.note(f"going on from {saved.path}: step {run.step}, epoch {run.epoch + 1}, batch {run.batch}")
        training.go()
        if saved is not None and not run.moved:
            run.note(f"the training in {factory.folder} was over already; resume='never' starts anew")
    finally:
        evaluators.close()
    trainer.finish()
    learn(steps, factory.frozen)
    for text in report_data(subject.source, factory.folder, factory.session.world):
        if text not in about_data:  # found while training: a recording that broke, samples that were clipped
            run.note(text)
    return _result(training, factory.folder, saved.path if saved is not None else None)


@dataclass(frozen=True)
class Foresight:
    """What a training would be: its length, its weights, and on what it would compute."""

    steps: int
    steps_per_epoch: int
    batches_per_step: int
    processes: int
    parameters: int
    trained: int
    notes: list[str]

    def lines(self) -> list[str]:
        """Say it in words."""
        spread = f", over {self.processes} processes" if self.processes > 1 else ""
        return [
            f"{self.steps:,} steps, {self.steps_per_epoch:,} an epoch, {self.batches_per_step} batches each"
            + spread,
            f"{self.parameters:,} weights, of which {self.trained:,} are trained",
            *self.notes,
        ]


def foresee(factory: NeuralFactory, graph: Graph, options: TrainOptions) -> Foresight:
    """Check a training as `train` does and tell what it would be; nothing is trained or written."""
    subject = _subject(factory, graph, options)
    world = factory.session.world
    batches = settle_batches(options.batches_per_step, None, world.size)
    an_epoch = count_windows(subject.source, 0, world, batches)
    limits = [options.max_steps, options.epochs * an_epoch if options.epochs is not None else None]
    modules = subject.plan.modules.values()
    return Foresight(
        steps=min(limit for limit in limits if limit is not None),
        steps_per_epoch=an_epoch,
        batches_per_step=batches,
        processes=world.size,
        parameters=factory.session.count_parameters(*modules),
        trained=factory.session.count_parameters(*modules, trainable_only=True),
        notes=subject.notes,
    )


class Evaluators:
    """Evaluates graphs while a training goes on, with the averaged weights; each graph is prepared once."""

    def __init__(self, factory: NeuralFactory, trainer: Trainer) -> None:
        self._factory = factory
        self._trainer = trainer
        self._known: dict[int, tuple[Graph, Evaluator]] = {}

    def __call__(self, graph: Graph) -> Evaluation:
        """Evaluate a graph with the weights of now."""
        if id(graph) not in self._known:
            self._known[id(graph)] = (graph, self._factory.evaluator(graph))
        with self._trainer.averaged():
            return self._known[id(graph)][1].run()

    def close(self) -> None:
        """End the workers of all evaluations."""
        for _, evaluator in self._known.values():
            evaluator.close()


def report_data(source: DataSource, folder: Path | None, world: World) -> list[str]:
    """Write the report of a data source into the run folder, and return what must be said about it."""
    report: Any = source.report()
    if report is None:
        return []
    if folder is not None and hasattr(report, "save") and world.rank == 0:
        report.save(folder / "data")
    lines = [*getattr(report, "dropped", ()), *getattr(report, "notes", ())]
    if clipped := getattr(report, "clipped", ()):
        lines.append(f"{len(clipped)} with samples outside -1 to 1, clipped: {listed(clipped)}")
    return [f"data: {line}" for line in lines]


def _about_data(factory: NeuralFactory, subject: Subject) -> list[str]:
    """What must be said about the data, once: most sources report what they were asked to leave out."""
    lines = report_data(subject.source, factory.folder, factory.session.world)
    unsaid = [text for why, text in subject.excluded.items() if not any(why in line for line in lines)]
    return [*unsaid, *lines]


def _subject(factory: NeuralFactory, graph: Graph, options: TrainOptions) -> Subject:
    name, loss = find_loss(graph, options.loss)
    steps = needed_steps(graph, [loss])
    check_trained(graph, steps)
    factory.settle()
    check_learned(steps)
    data = data_step(graph, steps)
    flags = infeasible_flags(steps)
    count = loss_count(loss)
    wanted = {name: loss, **{f"infeasible-{n}": flag for n, flag in enumerate(flags)}}
    plan = compile_plan(graph, wanted if count is None else {**wanted, COUNT: count})
    factory.session.build(plan.modules)
    check_trainable(factory.session, graph, loss, frozen=factory.frozen)
    source = factory.source(data.module)
    modules = plan.modules.values()
    rules = rule_notes(factory.session, graph, loss, built=modules, frozen=factory.frozen)
    for evaluation in options.evaluations():
        factory.check(evaluation.graph)
    notes = [*factory.session.notes, *rules]
    cores = os.cpu_count() or 1
    if factory.workers > cores:
        notes.append(f"{factory.workers} worker processes read data on {cores} cores: fewer may be faster")
    return Subject(
        name,
        source,
        plan,
        len(flags),
        count is not None,
        notes,
        exclude_infeasible(graph, steps, source, data),
    )


def _trainer(factory: NeuralFactory, subject: Subject, options: TrainOptions) -> Trainer:
    session = factory.session
    program = session.program(subject.plan, make_guards(subject.plan, factory.verify, session.to_numpy))
    setup = TrainingSetup(
        loss=subject.loss,
        count=COUNT if subject.counts else None,
        optimizer=options.update_rule,
        clip=options.clip,
        larc=options.larc,
        ema=options.average,
        loss_scale=options.scaling,
    )
    return session.trainer(program, subject.plan, setup)


def _run(
    factory: NeuralFactory,
    subject: Subject,
    options: TrainOptions,
    evaluators: Evaluators,
    display: Progress | None,
    saved: Saved | None,
) -> Run:
    world = factory.session.world
    before = saved.state.get("batches_per_step") if saved is not None else None
    batches = settle_batches(options.batches_per_step, before, world.size)
    limits = [options.max_steps] if options.max_steps is not None else []
    if options.epochs is not None:
        limits.append(options.epochs * count_windows(subject.source, 0, world, batches))
    return Run(
        seed=factory.seed,
        epochs=options.epochs,
        total_steps=min(limits),
        folder=factory.folder,
        evaluate=evaluators,
        say=display.say if display is not None else _silent,
        world=world,
        batches_per_step=batches,
    )


def _check_folder(factory: NeuralFactory, options: TrainOptions) -> None:
    if factory.folder is None and options.checkpoints(None):
        raise ConfigError(
            "checkpoints need a folder",
            code="folder",
            fixes=["NeuralFactory(folder='runs/first')", "checkpoint=False trains without checkpoints"],
        )


def _factor(subject: Subject, options: TrainOptions, run: Run) -> Factor:
    def steps_per_epoch() -> int:
        return count_windows(subject.source, 0, run.world, run.batches_per_step)

    return as_factor(options.schedule, run.total_steps, steps_per_epoch)


def _callbacks(
    factory: NeuralFactory, options: TrainOptions, display: Progress | None, factor: Factor
) -> list[Callback]:
    ours: list[Callback] = [Provenance(), *options.evaluations(), LossLogger(), CSV()]
    ours += options.checkpoints(factory.folder)
    if options.max_minutes is not None:
        ours.append(TimeLimit(options.max_minutes))
    if display is not None:
        ours.append(display)
    if isinstance(factor, Callback):  # a schedule that follows a metric
        ours.append(factor)
    return sorted([*options.callbacks, *ours], key=lambda callback: callback.order)


def _training(
    factory: NeuralFactory,
    subject: Subject,
    options: TrainOptions,
    trainer: Trainer,
    reader: Reader,
    run: Run,
    factor: Factor,
) -> Training:
    return Training(
        session=factory.session,
        trainer=trainer,
        source=subject.source,
        reader=reader,
        factor=factor,
        lr=options.update_rule.lr,
        run=run,
        flags=range(1, 1 + subject.flags),
        nonfinite=options.nonfinite,
        bad_limit=options.bad_limit,
        max_steps=options.max_steps,
    )


def _result(training: Training, folder: Path | None, resumed_from: Path | None) -> TrainResult:
    run = training.run
    return TrainResult(
        history=run.history,
        steps=run.step,
        best=run.best,
        seconds=run.seconds,
        metrics=run.metrics,
        losses=training.losses,
        skipped=run.tally.skipped,
        infeasible=run.tally.infeasible,
        notes=run.notes,
        stopped=run.stopped,
        resumed_from=resumed_from,
        folder=folder,
    )


def _silent(_text: str) -> None:
    """Say nothing; notes are in the log and the result all the same."""
