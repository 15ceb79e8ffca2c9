"""What a recipe lets happen beside a training."""

import json

import numpy as np
import pytest
from safetensors.torch import load_file

from neumo.engine.callbacks import Profile, Samples, ScheduleValue, Unfreeze
from neumo.engine.recipes import make_factory, read_actions, run_evaluate, run_train
from neumo.engine.recipes.beside import make_callbacks
from neumo.engine.tracking import MLflow, TensorBoard, WandB
from neumo.graph.yaml import load_recipe
from neumo.types import NeumoError

from . import test_samples, toys
from .toys import refused

KINDS = (toys, test_samples)  # the kinds of the recipe are known once their modules are imported

RECIPE = """\
neumo: 1
modules:
  data: {kind: PointData, points: 24}
  held_out: {kind: PointData, points: 8, shuffle: false}
  sounds: {kind: SampledSounds}
  line: {kind: Line, norm: true, dropout: 0.5}
  loss: {kind: SquaredError}
  error: {kind: MeanError}
graphs:
  train:
    mode: train
    steps:
      batch: data()
      fitted: line(x=batch.x)
      loss: loss(given=fitted.y, wanted=batch.y)
    outputs: {loss: loss.loss}
  test:
    mode: infer
    steps:
      batch: held_out()
      fitted: line(x=batch.x)
      error: error(given=fitted.y, wanted=batch.y)
    outputs: {error: error.score}
  shown:
    mode: infer
    steps:
      batch: sounds()
    outputs: {mel: batch.mel, text: batch.text}
factory: {device: cpu, seed: 4, folder: run}
train:
  epochs: 4
  evaluate: {graph: test, best: error}
  checkpoint: {keep_last: 3, keep_best: 2}
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text(RECIPE)
    return file


def trained(path, *overrides):
    recipe = load_recipe(path, overrides)
    factory = make_factory(recipe, progress=False, folder=path.parent / "run")
    return recipe, factory, run_train(recipe, factory=factory)


def made(path, *overrides):
    recipe = load_recipe(path, overrides)
    return make_callbacks(recipe, read_actions(recipe).train, recipe.graph("train"))


def test_every_callback_can_be_written_in_a_recipe(path):
    unfreeze = "train.unfreeze={at: {line.norm: 1}, unit: steps}"
    pieces = "[{start: 0, end: 0.4, until: 4}, {value: 0.1}]"
    values = f"train.schedule_values={{module: line, number: drop.p, pieces: {pieces}}}"
    samples = "train.samples={graph: shown, every_epochs: 2, count: 1, outputs: [mel]}"
    trained(path, unfreeze, values, samples, "train.profile={start: 1, steps: 2}")
    run = path.parent / "run"
    assert sorted(each.name for each in (run / "samples").iterdir()) == ["step-00000006", "step-00000012"]
    assert sorted(each.suffix for each in (run / "samples" / "step-00000006").iterdir()) == [".json", ".png"]
    assert (run / "profile" / "step-00000003.txt").is_file()
    assert json.loads((run / "run.json").read_text())["starts"][0]["end"]["step"] == 12


def test_settings_arrive_where_they_belong(path):
    wandb, mlflow = "{kind: wandb, project: digits, every_steps: 5}", "{kind: mlflow, uri: 'file:x'}"
    track = f"train.track=[tensorboard, {wandb}, {mlflow}]"
    first, second, third, *rest = made(
        path,
        track,
        "train.samples={graph: shown}",
        "train.profile=true",
        "train.unfreeze={at: {line.norm: 2}}",
        "train.schedule_values=[{module: line, number: drop.p, pieces: [{value: 0.2}]}]",
    )
    assert isinstance(first, TensorBoard)
    assert isinstance(second, WandB)
    assert (second.project, second.mode, second.every_steps) == ("digits", "offline", 5)
    assert isinstance(third, MLflow)
    assert third.uri == "file:x"
    assert [type(each) for each in rest] == [Samples, Profile, Unfreeze, ScheduleValue]
    assert (rest[2].at, rest[2].unit) == ({"line.norm": 2}, "epochs")
    assert rest[3].value_at(3, 10) == 0.2
    assert [type(each) for each in made(path, "train.track=tensorboard")] == [TensorBoard]


def test_the_mean_of_checkpoints_is_left_at_the_end(path):
    recipe, factory, result = trained(path, "train.average={last: 3}")
    steps = ["step-00000006", "step-00000009", "step-00000012"]
    files = [load_file(path.parent / "run" / "checkpoints" / name / "weights.safetensors") for name in steps]
    weights = factory.weights(recipe.graph("train"))
    for name in ("line.linear.weight", "line.norm.running_mean"):
        mean = np.mean([file[name].double().numpy() for file in files], axis=0).astype(np.float32)
        assert np.array_equal(weights[name], mean)
    assert result.notes[-1] == f"the weights are the mean of {', '.join(steps)}"


def test_the_mean_is_what_is_evaluated_later(path):
    recipe, factory, _ = trained(path, "train.average={last: 3}")
    expected = factory.evaluate(recipe.graph("test"))["error"]
    later = make_factory(recipe, progress=False, folder=path.parent / "run")
    assert run_evaluate(recipe, factory=later, graph="test")["error"] == expected
    best = load_recipe(path, ["train.average={last: 3}", "evaluate={checkpoint: best}"])
    with refused(NeumoError, "the mean of checkpoints is left at the end.*checkpoint: last"):
        read_actions(best)


def test_a_short_training_leaves_the_mean_of_what_there_is(path):
    _, _, result = trained(path, "train.average={best: 2}", "train.epochs=1")
    assert result.notes[-1] == "the weights are the mean of step-00000003"


def test_the_mean_of_the_best_is_of_those_that_have_a_figure(path):
    few = ["train.average={best: 2}", "train.epochs=2", "train.evaluate.every_epochs=4"]
    _, _, result = trained(path, *few)
    assert result.notes[-1] == "the weights are the mean of step-00000006"
    _, _, result = trained(path, *few, "train.evaluate.every_epochs=2", "train.epochs=3")
    assert result.notes[-1] == "the weights are the mean of step-00000006, step-00000009"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.average={last: 5}", r"needs 5 checkpoints, and 3 are kept.*checkpoint: \{keep_last: 5\}"),
        ("train.average={best: 3}", "needs 3 checkpoints, and 2 are kept"),
        ("train.average={last: 2, best: 2}", "give last or best"),
        ("train.track=[tensorbord]", "tensorboard"),
        ("train.track={kind: mlflow, project: x}", "mlflow has no setting 'project'"),
        ("train.track={kind: wandb, mode: ofline}", "did you mean 'offline'"),
        ("train.samples={graph: shwn}", "shwn"),
        ("train.samples={graph: shown, outputs: [melt]}", "did you mean 'mel'"),
        ("train.unfreeze={at: {lin: 2}}", "did you mean 'line'"),
        ("train.unfreeze={at: {line: 0}}", "free from the start"),
        ("train.schedule_values={module: lin, number: p, pieces: [{value: 1}]}", "did you mean 'line'"),
        (
            "train.schedule_values={module: line, number: p, pieces: [{start: 1}]}",
            "a value, or a start and an end",
        ),
        ("train.profile={steps: 0}", "steps=0"),
    ],
)
def test_mistakes_are_found_before_anything_is_built(path, override, words):
    with refused(NeumoError, words):
        read_actions(load_recipe(path, [override]))


def test_a_mistake_has_the_place_of_its_setting(path):
    path.write_text(path.read_text() + "  samples: {graph: test}\n  profile: {steps: 0}\n")
    with pytest.raises(NeumoError) as caught:
        read_actions(load_recipe(path))
    text = str(caught.value)
    assert "recipe.yaml:34" in text
    assert "recipe.yaml:35" in text
    assert text.index("has no output that can be shown") < text.index("steps=0")


def test_the_best_needs_a_figure_that_decides(path):
    with refused(NeumoError, "needs to know what is best"):
        read_actions(load_recipe(path, ["train.average={best: 2}", "train.evaluate=[{graph: test}]"]))
