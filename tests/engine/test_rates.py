"""The series of learning rates of whole trainings, which are the same after a resume."""

from types import SimpleNamespace

import pytest
import torch

from neumo.engine import (
    SGD,
    AdamW,
    Callback,
    Checkpoint,
    CosineRestarts,
    Evaluate,
    NeuralFactory,
    Plateau,
    Step,
)
from neumo.engine.updates.schedules import as_factor

from .toys import Line, PointData, line_graphs


class Killed(Exception):
    pass


class Rates(Callback):
    """Writes down the rate of each step, and dies where it is told to."""

    order = 99

    def __init__(self, kill=None):
        self.kill = kill
        self.rates = []

    def on_step_end(self, run):
        self.rates.append((run.step, run.lr))
        if run.step == self.kill:
            raise Killed


class Scored(Callback):
    """Measures a figure that gets better until an evaluation and worse from there on, every two epochs."""

    order = 10

    def on_epoch_end(self, run):
        if run.epoch % 2:
            run.measure({"score": abs(run.epoch - 5.0)})

    def on_action_end(self, run):
        run.measure({"score": 99.0})


SCHEDULES = {
    "step": Step(every_epochs=2, gamma=0.5, warmup_steps=3),
    "restarts": CosineRestarts(first_steps=6, growth=1.5),
    "plateau": Plateau(metric="score", gamma=0.5, patience=2, cooldown=1, warmup_steps=3),
}
STEPS, EPOCHS = 4, 18  # per epoch; in all


def rates(folder, schedule, kill=None, **options):
    train, test = line_graphs(PointData(points=16, batch_size=4), Line(norm=True))
    factory = NeuralFactory(device="cpu", seed=3, progress=False, folder=folder)
    watcher = Rates(kill)
    options = {
        "optimizer": SGD(lr=0.01),
        "evaluate": Evaluate(test, every_epochs=2),
        "checkpoint": Checkpoint(every_steps=3),
        "epochs": EPOCHS,
        **options,
    }
    try:
        factory.train(train, schedule=schedule, callbacks=[watcher, Scored()], **options)
    except Killed:
        assert kill is not None
    return dict(watcher.rates)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return {name: rates(tmp_path_factory.mktemp(name), each) for name, each in SCHEDULES.items()}


@pytest.mark.parametrize("kill", [1, 5, 16, 23, 24, 33, 40])
@pytest.mark.parametrize("name", SCHEDULES)
def test_the_rates_after_a_resume_are_those_of_an_uninterrupted_training(name, kill, tmp_path, uninterrupted):
    before = rates(tmp_path, SCHEDULES[name], kill)
    after = rates(tmp_path, SCHEDULES[name])
    assert min(after) <= kill + 1
    assert {**before, **after} == uninterrupted[name]


def test_a_training_that_was_ended_early_goes_on_with_the_same_rates(tmp_path, uninterrupted):
    """The evaluation at an early end is one that the uninterrupted training does not have."""
    parts = [rates(tmp_path, SCHEDULES["plateau"], max_steps=steps) for steps in (9, 22, 41)]
    parts.append(rates(tmp_path, SCHEDULES["plateau"]))
    assert {step: lr for part in parts for step, lr in part.items()} == uninterrupted["plateau"]


def test_epochs_are_those_of_the_training(uninterrupted):
    wanted = Step(every_steps=2 * STEPS, gamma=0.5, warmup_steps=3).over(STEPS * EPOCHS)
    assert uninterrupted["step"] == {step + 1: 0.01 * wanted(step) for step in range(STEPS * EPOCHS)}


def test_a_plateau_counts_evaluations_not_epochs(uninterrupted):
    """The score of epochs 2, 4, 6 gets better; it is waited for in 8 and 10, not in 12, and in 14 and 16."""
    series = uninterrupted["plateau"]
    assert [step // STEPS for step in range(STEPS, STEPS * EPOCHS) if series[step + 1] < series[step]] == [
        10,
        16,
    ]
    assert [series[step] for step in (1, 2, 3, 4)] == pytest.approx([0.01 / 3, 0.02 / 3, 0.01, 0.01])


def follow(spec, values):
    """The factors after each of some evaluations."""
    factor = as_factor(spec, 100)
    assert isinstance(factor, Callback)
    found = []
    for step, value in enumerate(values, start=1):
        run = SimpleNamespace(step=step, measured={spec.metric: step}, metrics={spec.metric: value})
        factor.on_step_end(run)
        factor.on_epoch_end(run)  # of the same step: it counts once
        found.append(factor(step))
    return found


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(("patience", "cooldown"), [(1, 0), (3, 0), (2, 3)])
def test_a_plateau_is_that_of_torch(patience, cooldown, largest):
    values = torch.randn(60, generator=torch.Generator().manual_seed(4)).cumsum(0).tolist()
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer,
        mode="max" if largest else "min",
        factor=0.5,
        patience=patience - 1,  # torch counts those that it still forgives
        threshold=0.1,
        threshold_mode="abs",
        cooldown=cooldown,
        min_lr=0.01,
        eps=0.0,
    )
    wanted = []
    for value in values:
        theirs.step(value)
        wanted.append(optimizer.param_groups[0]["lr"])
    spec = Plateau(
        metric="x", gamma=0.5, patience=patience, least=0.1, largest=largest, cooldown=cooldown, end=0.01
    )
    assert follow(spec, values) == pytest.approx(wanted)
    assert wanted[-1] < 1.0


def test_a_figure_that_is_not_a_number_is_never_the_best():
    spec = Plateau(metric="x", gamma=0.5, patience=2)
    assert follow(spec, [float("nan"), 3.0, 2.0, float("nan"), 2.0, 1.0]) == [1.0] * 4 + [0.5, 0.5]


def test_a_metric_that_never_came_is_said():
    train, _ = line_graphs(PointData(points=8))
    factory = NeuralFactory(device="cpu", progress=False)

    class Others(Callback):
        """May measure anything, so that nothing is known beforehand."""

    result = factory.train(train, schedule=Plateau(metric="wer"), epochs=1, callbacks=[Others()])
    assert any("Plateau: no evaluation gave 'wer'" in note for note in result.notes)


def test_rates_do_not_depend_on_the_optimizer(tmp_path, uninterrupted):
    assert rates(tmp_path, SCHEDULES["restarts"], optimizer=AdamW(lr=0.01)) == uninterrupted["restarts"]
