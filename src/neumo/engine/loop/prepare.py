"""From a graph and its options to a training that is ready to go, or the reason why it cannot."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neumo.engine import faults
from neumo.engine.backend import TrainingSetup
from neumo.engine.callbacks import Callback, Checkpoint, TimeLimit
from neumo.engine.callbacks.stage import Stage
from neumo.engine.checkpoints.lock import hold_folder
from neumo.engine.checkpoints.store import CheckpointStore
from neumo.engine.checks.preflight import (
    check_trainable,
    data_step,
    exclude_infeasible,
    listed,
    rule_notes,
)
from neumo.engine.checks.verify import make_guards
from neumo.engine.loop.aims import COUNT, Aim, divide_weights, feed_places, find_aims, whole_plan
from neumo.engine.loop.effects import idle_precisions, large_steps, long_warm_ups
from neumo.engine.loop.length import Length, find_length
from neumo.engine.loop.resume import after_restart, find_checkpoint, load_trained, restore
from neumo.engine.loop.run import Run, closing_all
from neumo.engine.loop.saving import Saver, restore_source
from neumo.engine.loop.train import Training, TrainResult, Updater
from neumo.engine.loop.windows import count_windows, settle_batches
from neumo.engine.plan import Plan, needed_steps
from neumo.engine.processes.signals import Signals, ended_early, how_to_go_on, pass_on
from neumo.engine.processes.workers import Workers
from neumo.engine.processes.world import sharing_trouble
from neumo.engine.tracking import CSV, LossLogger, Progress, Provenance
from neumo.engine.updates.schedules import Factor, as_factor
from neumo.graph.learned import check_learned, learn, learned_state, restore_learned
from neumo.graph.train_only import check_trained
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from neumo.data.source import DataSource
    from neumo.engine.backend import Reader, TrainedState, Trainer
    from neumo.engine.checkpoints.store import Saved
    from neumo.engine.factory import NeuralFactory
    from neumo.engine.loop.options import TrainOptions
    from neumo.engine.passes.evaluate import Evaluation, Evaluator
    from neumo.engine.processes.world import World
    from neumo.graph.graph import Graph


@dataclass(frozen=True)
class Subject:
    """What is trained: losses of a graph, the data that feeds them, and the plan that computes them all."""

    aims: Sequence[Aim]
    source: DataSource
    plan: Plan
    notes: list[str]
    excluded: dict[str, str]  # reason -> the sentence that says what was left out for it


def train(factory: NeuralFactory, graph: Graph, options: TrainOptions) -> TrainResult:
    """Check everything, go on from a checkpoint if there is one, train, and leave the result in the
    modules.
    """
    with ExitStack() as held:
        return _train(factory, graph, options, held)


def _train(factory: NeuralFactory, graph: Graph, options: TrainOptions, held: ExitStack) -> TrainResult:
    world = factory.session.world
    factory.check_precisions(graph, *(evaluation.graph for evaluation in options.evaluations()))
    subject = _subject(factory, graph, options)
    trainer, updating = _trainers(factory, subject, options)
    lock = held.enter_context(hold_folder(factory.folder, world))
    resume = after_restart(factory.folder, options.resume)
    saved, passed = find_checkpoint(factory.folder, resume, world)
    with sharing_trouble(world, "the run folder"):
        if factory.folder is not None and world.rank == 0:
            factory.folder.mkdir(parents=True, exist_ok=True)
    _check_folder(factory, options)
    if saved is not None:
        restore_source(subject.source, saved.state.get("data"))
    evaluators = Evaluators(factory, trainer)
    display = None if factory.progress is False or world.rank else Progress(bar=factory.progress)
    run = _run(factory, subject, options, evaluators, display, saved)
    if lock is not None:
        lock.on_lost = run.stop
        passed = [*lock.notes, *passed]
    run.stage = Stage(factory, graph, subject.plan, subject.source, trainer)
    updaters = _updaters(subject, options, run, updating)
    callbacks = _callbacks(factory, options, display, [updater.factor for updater in updaters])
    reader = factory.session.reader(
        subject.source, [feed.port for feed in subject.plan.feeds], factory.workers, run.note
    )
    training = _training(factory, subject, options, trainer, reader, run, updaters)
    run.listen(callbacks)
    steps = [call.step for call in subject.plan.steps]
    modules = subject.plan.modules
    run.saver = Saver(training, callbacks, lambda: learned_state(modules, steps, factory.frozen))
    about_data = _about_data(factory, subject)
    idle = _without_effect(factory, subject, options, run.total_steps, run.batches_per_step)
    armed = [f"faults are armed: {text}"] if (text := faults.armed_now()) else []
    for text in [*subject.notes, *idle, *passed, *about_data, *armed]:
        run.note(text)
    with closing_all([evaluators.close]):
        if saved is not None:
            _go_on(training, callbacks, saved, subject.plan)
        with Signals(run):
            training.go()
        if saved is not None and not run.moved and not ended_early(run.stopped):
            run.note(_over(run, saved.path))
    trainer.finish()
    learn(steps, factory.frozen)
    for text in report_data(subject.source, factory.folder, factory.session.world):
        if text not in about_data:  # found while training: a recording that broke, samples that were clipped
            run.note(text)
    if ended_early(run.stopped):
        run.note(how_to_go_on(run))
        pass_on(run.stopped)
    return _result(training, factory.folder, saved.path if saved is not None else None)


def _go_on(training: Training, callbacks: Sequence[Callback], saved: Saved, plan: Plan) -> None:
    """Put a training and what its modules have learned where a checkpoint was saved."""
    restore(training, callbacks, saved)
    restore_learned(plan.modules, saved.state.get("learned", {}), source=saved.path.name)
    check_learned([call.step for call in plan.steps])
    run = training.run
    where = f"step {run.step}, epoch {run.epoch + 1}, batch {run.batch}"
    training.beginning = f"going on from {saved.path}: {where}"


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
        batches = f"{self.batches_per_step} batch{'es' if self.batches_per_step > 1 else ''} each{spread}"
        return [
            f"{self.steps:,} steps, {self.steps_per_epoch:,} an epoch, {batches}",
            f"{self.parameters:,} weights, of which {self.trained:,} are trained",
            *self.notes,
        ]


def foresee(
    factory: NeuralFactory, graph: Graph, options: TrainOptions, going_on: Path | None = None
) -> Foresight:
    """Check a training as `train` does and tell what it would be; nothing is trained or written.

    `going_on` is the run folder whose newest checkpoint it would go on from.
    """
    subject = _subject(factory, graph, options)
    world = factory.session.world
    saved, passed = None, list[str]()
    if going_on is not None:
        saved, passed = CheckpointStore(going_on / "checkpoints").newest(repair=False)
    batches, length = _length(subject, options, world, saved)
    modules = subject.plan.modules.values()
    parameters = factory.session.count_parameters(*modules)
    trained = factory.session.count_parameters(*modules, trainable_only=True)
    trainer, _ = _trainers(factory, subject, options)  # refuses what does not go with device and weights
    if saved is not None:
        load_trained(trainer, saved, factory.seed, options.cycle, [aim.name for aim in subject.aims])
        passed.append(f"goes on from {saved.path}: step {saved.state['step']}")
    return Foresight(
        steps=length.steps,
        steps_per_epoch=count_windows(subject.source, 0, world, batches),
        batches_per_step=batches,
        processes=world.size,
        parameters=parameters,
        trained=trained,
        notes=[*subject.notes, *_without_effect(factory, subject, options, length.steps, batches), *passed],
    )


def _without_effect(
    factory: NeuralFactory, subject: Subject, options: TrainOptions, steps: int, batches: int
) -> list[str]:
    """What was asked for and changes nothing, in words."""
    updates = [options.cycle.updates(n, before=steps) for n, _ in enumerate(subject.aims)]
    return [
        *long_warm_ups(zip([rules.schedule for rules in options.rules()], updates, strict=True)),
        *large_steps(subject.source, batches, factory.session.world.size),
        *idle_precisions(factory.overrides, subject.plan.modules, factory.session),
    ]


class Evaluators:
    """Evaluates graphs while a training goes on, with the averaged weights; each graph is prepared once."""

    def __init__(self, factory: NeuralFactory, trainer: TrainedState) -> None:
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
    refused: list[str] = []
    with sharing_trouble(world, "the report of the data"):
        if report is not None and folder is not None and hasattr(report, "save") and world.rank == 0:
            refused = _save_report(report, folder / "data")
    if report is None:
        return []
    lines = [*getattr(report, "dropped", ()), *getattr(report, "notes", ()), *refused]
    if clipped := getattr(report, "clipped", ()):
        lines.append(f"{len(clipped)} with samples outside -1 to 1, clipped: {listed(clipped)}")
    return [f"data: {line}" for line in lines]


def _save_report(report: Any, place: Path) -> list[str]:
    """Write a report, or say that the disk refuses it: no training ends for that."""
    try:
        report.save(place)
    except OSError as error:
        return [f"the report cannot be written: {error.strerror or error}"]
    return []


def _about_data(factory: NeuralFactory, subject: Subject) -> list[str]:
    """What must be said about the data, once: most sources report what they were asked to leave out."""
    lines = report_data(subject.source, factory.folder, factory.session.world)
    unsaid = [text for why, text in subject.excluded.items() if not any(why in line for line in lines)]
    return [*unsaid, *lines]


def _subject(factory: NeuralFactory, graph: Graph, options: TrainOptions) -> Subject:
    options.check_followed()
    aims = find_aims(graph, options.loss, options.phases)
    losses = [aim.value for aim in aims]
    steps = needed_steps(graph, losses)
    check_trained(graph, steps)
    factory.settle()
    check_learned(steps)
    data = data_step(graph, steps)
    plan = whole_plan(graph, aims)
    factory.session.build(plan.modules)
    for loss in losses:
        check_trainable(factory.session, graph, loss, frozen=factory.frozen)
    if options.phases:
        aims = divide_weights(factory.session, aims, plan, f"graph {graph.name!r}")
    source = factory.source(data.module)
    modules = plan.modules.values()
    rules = [
        note
        for loss in losses
        for note in rule_notes(factory.session, graph, loss, built=modules, frozen=factory.frozen)
    ]
    for evaluation in options.evaluations():
        factory.check(evaluation.graph)
    notes = [*factory.session.notes, *dict.fromkeys(rules)]
    cores = os.cpu_count() or 1
    if (workers := Workers.of(factory.workers).count) > cores:
        notes.append(f"{workers} worker processes read data on {cores} cores: fewer may be faster")
    return Subject(aims, source, plan, notes, exclude_infeasible(graph, steps, source, data))


def _trainers(
    factory: NeuralFactory, subject: Subject, options: TrainOptions
) -> tuple[TrainedState, list[Trainer]]:
    """Prepare what updates the weights: one optimizer, or those of several phases."""
    session = factory.session
    setups = [
        TrainingSetup(
            loss=aim.loss,
            count=COUNT if aim.counts else None,
            trains=aim.trains,
            loss_scale=options.scaling,
            optimizer=rules.update_rule,
            clip=rules.clip,
            larc=rules.larc,
            ema=rules.average,
        )
        for aim, rules in zip(subject.aims, options.rules(), strict=True)
    ]
    programs = [
        session.program(aim.plan, make_guards(aim.plan, factory.verify, session.to_numpy))
        for aim in subject.aims
    ]
    if not options.phases:
        trainer = session.trainer(programs[0], subject.plan, setups[0])
        return trainer, [trainer]
    names = [aim.name for aim in subject.aims]
    phased = session.phased(
        dict(zip(names, programs, strict=True)), subject.plan, dict(zip(names, setups, strict=True))
    )
    subject.notes.extend(phased.notes)
    return phased, [phased.trainers[name] for name in names]


def _run(
    factory: NeuralFactory,
    subject: Subject,
    options: TrainOptions,
    evaluators: Evaluators,
    display: Progress | None,
    saved: Saved | None,
) -> Run:
    world = factory.session.world
    batches, length = _length(subject, options, world, saved)
    return Run(
        seed=factory.seed,
        epochs=options.epochs,
        length=length,
        folder=factory.folder,
        evaluate=evaluators,
        say=display.say if display is not None else _silent,
        world=world,
        batches_per_step=batches,
    )


def _length(subject: Subject, options: TrainOptions, world: World, saved: Saved | None) -> tuple[int, Length]:
    """How many batches a step has, and how many steps the training, which may go on from a checkpoint."""
    state = saved.state if saved is not None else None
    before = state.get("batches_per_step") if state is not None else None
    batches = settle_batches(options.batches_per_step, before, world.size)
    limits = {"epochs": options.epochs, "max_steps": options.max_steps}
    return batches, find_length(subject.source, world, batches, **limits, state=state)


def _check_folder(factory: NeuralFactory, options: TrainOptions) -> None:
    if factory.folder is None and options.checkpoints(None):
        raise ConfigError(
            "checkpoints need a folder",
            code="folder",
            fixes=["NeuralFactory(folder='runs/first')", "checkpoint=False trains without checkpoints"],
        )


def _updaters(
    subject: Subject, options: TrainOptions, run: Run, updating: Sequence[Trainer]
) -> list[Updater]:
    """What each optimizer does, and when: a schedule counts the updates of its own one."""
    cycle = options.cycle

    def updates_per_epoch(number: int) -> int:
        steps = count_windows(subject.source, 0, run.world, run.batches_per_step)
        return cycle.updates(number, before=steps)

    return [
        Updater(
            trainer=trainer,
            factor=as_factor(
                rules.schedule, cycle.updates(n, before=run.total_steps), partial(updates_per_epoch, n)
            ),
            lr=rules.update_rule.lr,
            feeds=feed_places(subject.plan, aim.plan) if options.phases else None,
            flags=range(1, 1 + aim.flags),
            name=aim.name,
        )
        for n, (aim, rules, trainer) in enumerate(zip(subject.aims, options.rules(), updating, strict=True))
    ]


def _callbacks(
    factory: NeuralFactory, options: TrainOptions, display: Progress | None, factors: Sequence[Factor]
) -> list[Callback]:
    ours: list[Callback] = [Provenance(), *options.evaluations(), LossLogger(), CSV()]
    ours += options.checkpoints(factory.folder)
    if options.max_minutes is not None:
        ours.append(TimeLimit(options.max_minutes))
    if display is not None:
        ours.append(display)
    ours += [factor for factor in factors if isinstance(factor, Callback)]  # they follow a metric
    return sorted([*options.callbacks, *ours], key=lambda callback: callback.order)


def _training(
    factory: NeuralFactory,
    subject: Subject,
    options: TrainOptions,
    trainer: TrainedState,
    reader: Reader,
    run: Run,
    updaters: Sequence[Updater],
) -> Training:
    return Training(
        session=factory.session,
        trainer=trainer,
        source=subject.source,
        reader=reader,
        ports=[feed.port for feed in subject.plan.feeds],
        updaters=updaters,
        cycle=options.cycle,
        run=run,
        nonfinite=options.nonfinite,
        bad_limit=options.bad_limit,
        keeps=bool(options.checkpoints(factory.folder))
        or any(isinstance(callback, Checkpoint) for callback in options.callbacks),
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
        over=resumed_from is not None and not run.moved and not ended_early(run.stopped),
        resumed_from=resumed_from,
        folder=folder,
    )


def _over(run: Run, path: Path) -> str:
    return (
        f"the training of {path} is over, after step {run.step}: {run.stopped}; "
        "with more epochs or steps it goes on, in another folder it starts anew"
    )


def _silent(_text: str) -> None:
    """Say nothing; notes are in the log and the result all the same."""
