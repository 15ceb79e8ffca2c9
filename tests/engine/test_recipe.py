import subprocess
import sys

import pytest

from neumo.engine import LAMB, WSD, AdamW, Cosine, Group, Muon, NovoGrad
from neumo.engine.recipes import (
    make_factory,
    read_actions,
    run_evaluate,
    run_evaluations,
    run_train,
    section_mistakes,
)
from neumo.graph.yaml import load_recipe
from neumo.types import CheckpointError, ConfigError, NeumoError

from . import toys
from .toys import refused

RECIPE = """\
neumo: 1
modules:
  data: {kind: PointData, points: 24}
  held_out: {kind: PointData, points: 8, shuffle: false}
  line: {kind: Line, norm: true}
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
factory: {device: cpu, seed: 4, folder: run}
train:
  optimizer: {kind: AdamW, lr: 5e-2}
  schedule: {kind: Cosine, warmup_ratio: 0.1}
  epochs: 6
  clip: 5.0
  ema: 0.9
  evaluate: {graph: test, best: error, every_epochs: 2}
  checkpoint: {keep_last: 1}
  early_stop: {metric: error, patience: 9}
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text(RECIPE)
    return file


def test_a_recipe_is_trained_and_evaluated(path):
    recipe = load_recipe(path)
    factory = make_factory(recipe, progress=False)
    result = run_train(recipe, factory=factory)
    assert result.steps == 18
    assert result.best.metric == "error"
    assert factory.folder == path.parent / "run"
    figures = run_evaluate(load_recipe(path), factory=make_factory(recipe, progress=False))
    assert figures["error"] == pytest.approx(result.metrics["error"])


def test_what_was_run_is_kept_in_the_run_folder(path):
    recipe = load_recipe(path)
    run_train(recipe, factory=make_factory(recipe, progress=False))
    again = load_recipe(path.parent / "run" / "recipe.yaml")
    assert again.graph("train") == recipe.graph("train")
    assert read_actions(again).optimizer == AdamW(lr=0.05)


def test_the_same_recipe_in_python_gives_the_same_losses(path):
    recipe = load_recipe(path, ["train.checkpoint=false"])
    losses = run_train(recipe, factory=make_factory(recipe, progress=False, folder=None)).losses
    train, _ = toys.line_graphs(toys.PointData(points=24), toys.Line(norm=True))
    from neumo.engine import NeuralFactory

    options = {"optimizer": AdamW(lr=0.05), "schedule": Cosine(warmup_ratio=0.1), "clip": 5.0, "ema": 0.9}
    plain = NeuralFactory(device="cpu", seed=4, progress=False).train(train, epochs=6, **options)
    assert plain.losses == losses


def test_the_best_checkpoint_can_be_evaluated(path):
    recipe = load_recipe(path, ["evaluate.checkpoint=best", "evaluate.graph=test"])
    run_train(recipe, factory=make_factory(recipe, progress=False))
    assert "error" in run_evaluate(recipe, factory=make_factory(recipe, progress=False))


def test_several_sets_are_evaluated_with_the_same_weights(path):
    recipe = load_recipe(path, ["evaluate.graphs=[test, train]"])
    run_train(recipe, factory=make_factory(recipe, progress=False))
    factory = make_factory(recipe, progress=False)
    both = run_evaluations(recipe, factory=factory)
    assert list(both) == ["test", "train"]
    assert both["test"] == factory.evaluate(recipe.graph("test"))
    assert both["train"] == factory.evaluate({"any": recipe.graph("train")})["any"]
    assert list(factory.evaluate([recipe.graph("test")], per_utterance=True)["test"].utterances[0]) == [
        "item",
        "error",
        "points",
    ]
    with refused(ConfigError, "two of the graphs to evaluate are called 'test'"):
        factory.evaluate([recipe.graph("test")] * 2)
    one = load_recipe(path, ["evaluate.graph=test"])
    assert run_evaluations(one, factory=factory) == {"test": both["test"]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("evaluate.graphs=[test, tarin]", "did you mean 'train'"),
        ("evaluate={graph: test, graphs: [test]}", "evaluate names a graph, and graphs as well"),
    ],
)
def test_sets_that_cannot_be_meant_are_refused(path, change, words):
    with refused(NeumoError, words):
        read_actions(load_recipe(path, [change]))


def test_a_recipe_is_resumed(path):
    for epochs in (2, 3):
        recipe = load_recipe(path, [f"train.epochs={epochs}"])
        result = run_train(recipe, factory=make_factory(recipe, progress=False))
    assert (len(result.losses), result.steps) == (3, 9)


def test_frozen_modules_and_weights_to_start_from(path, tmp_path):
    recipe = load_recipe(path)
    factory = make_factory(recipe, progress=False, folder=None)
    factory.save(recipe.graph("train"), tmp_path / "start.safetensors")
    weights = f"train.weights={tmp_path / 'start.safetensors'}"
    start = load_recipe(path, [weights, "train.checkpoint=false", "train.epochs=1"])
    assert run_train(start, factory=make_factory(start, progress=False, folder=None)).steps == 3
    frozen = load_recipe(path, ["train.freeze=[line]", "train.checkpoint=false"])
    with refused(NeumoError, "nothing to train"):
        run_train(frozen, factory=make_factory(frozen, progress=False, folder=None))


def test_checkpoints_without_a_folder_are_refused_before_the_training(path):
    recipe = load_recipe(path)
    with refused(ConfigError, "checkpoints need a folder"):
        run_train(recipe, factory=make_factory(recipe, progress=False, folder=None))


def test_evaluating_without_trained_weights_is_refused(path):
    recipe = load_recipe(path)
    with refused(ConfigError, "no trained weights"):
        run_evaluate(recipe, factory=make_factory(recipe, progress=False))
    with refused(CheckpointError, "no such file"):
        run_evaluate(recipe, factory=make_factory(recipe, progress=False), weights="nowhere.safetensors")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.epoch=3", "has no field 'epoch'.*did you mean 'epochs'"),
        ("train.optimizer={kind: AdamV}", "no kind 'AdamV'.*did you mean 'Adam'"),
        ("train.optimizer={kind: adamw}", "no kind 'adamw'.*did you mean 'AdamW'"),
        ("train.optimizer={lr: 3}", "names no kind"),
        ("train.optimizer={kind: SGD, lrate: 1}", "has no field 'lrate'"),
        ("train.optimizer={kind: SGD, lr: fast}", "lr must be a number"),
        ("train.optimizer={kind: SGD, momentum: 2}", "momentum=2.0 is not in"),
        ("train.schedule={kind: Cosine, warmup_steps: 1, warmup_ratio: 0.1}", "given twice"),
        ("train.evaluate={graph: tset}", "no graph 'tset'.*did you mean 'test'"),
        ("train.freeze=[lien]", "no module 'lien'.*did you mean 'line'"),
        ("factory.precision=bf6", "precision must be .*did you mean 'bf16'"),
        ("factory.verify=alway", "did you mean 'always'"),
        ("evaluate.graph=trian", "no graph 'trian'"),
        ("train.checkpoint={keep: 3}", "has no field 'keep'"),
        ("train.optimizer={kind: SGD, groups: [{weights: lien, lr: 0}]}", "no module 'lien'.*mean 'line'"),
        ("train.optimizer={kind: SGD, groups: [{weights: line, rate: 0}]}", "has no field 'rate'"),
        ("train.optimizer={kind: SGD, groups: [{weights: line}]}", "has no setting of its own"),
        ("train.optimizer={kind: SGD, groups: [{lr: 0.1}]}", "needs weights"),
        ("train.optimizer={kind: SGD, groups: {line: 0.1}}", "groups must be a list"),
        ("train.optimizer={kind: Muon, others: {kind: AdamV}}", "train.optimizer.others has no kind 'AdamV'"),
        ("train.optimizer={kind: Muon, others: {kind: Muon}}", "train.optimizer.others has no kind 'Muon'"),
        ("train.optimizer={kind: Muon, others: {lr: 0.1}}", "train.optimizer.others names no kind"),
        ("train.optimizer={kind: Muon, others: {kind: SGD, l: 1}}", "optimizer.others has no field 'l'"),
        ("train.optimizer={kind: Muon, others_for: [lien.out]}", "no module 'lien'.*did you mean 'line"),
        ("train.optimizer={kind: LAMB, trust: [2, 1]}", "LAMB: trust=.* are no bounds"),
        ("train.larc={trust: 0}", "LARC: trust=0.0 is not above 0"),
        ("train.larc={eta: 0.02}", "has no field 'eta'"),
        ("train={larc: {}, optimizer: LAMB, epochs: 1}", "larc does nothing with LAMB"),
        ("train.schedule=Step", "Step needs one of every_steps"),
        ("train.schedule={kind: Plateau}", "needs metric"),
        ("train.schedule=Square Root", "no kind 'Square Root'.*did you mean 'SquareRoot'"),
    ],
)
def test_mistakes_are_found_before_anything_is_built(path, override, words):
    with refused(ConfigError, words):
        read_actions(load_recipe(path, [override]))


def test_a_kind_alone_is_enough(path):
    actions = read_actions(load_recipe(path, ["train.optimizer=NovoGrad", "train.schedule=Linear"]))
    assert actions.optimizer == NovoGrad()
    assert type(actions.schedule).__name__ == "Linear"


def test_optimizers_have_groups_and_optimizers_inside_them(path):
    written = """train.optimizer={kind: Muon, lr: 0.01, others: {kind: AdamW, lr: 2e-3, betas: [0.9, 0.95]},
        others_for: [line.linear.weight], groups: [{weights: line, lr_scale: 0.5},
        {weights: ["*.bias", line.norm], weight_decay: 0.1, decay_all: true}]}"""
    actions = read_actions(load_recipe(path, [written, "train.schedule={kind: WSD, shape: linear}"]))
    assert actions.optimizer == Muon(
        lr=0.01,
        others=AdamW(lr=2e-3, betas=(0.9, 0.95)),
        others_for=("line.linear.weight",),
        groups=(
            Group("line", lr_scale=0.5),
            Group(("*.bias", "line.norm"), weight_decay=0.1, decay_all=True),
        ),
    )
    assert actions.schedule == WSD(shape="linear")
    nested = load_recipe(path, ["train.optimizer={kind: Muon, others: LAMB}"])
    assert read_actions(nested).optimizer.others == LAMB()


def test_groups_larc_and_a_plateau_train_from_a_recipe(path):
    changes = [
        "train.optimizer={kind: SGD, lr: 0.1, groups: [{weights: line.linear.bias, lr: 0}]}",
        "train.schedule={kind: Plateau, metric: error, patience: 1}",
        "train.larc={trust: 0.1}",
        "train.ema=null",
    ]
    recipe = load_recipe(path, changes)
    factory = make_factory(recipe, progress=False)
    start = factory.weights(recipe.graph("train"))
    result = run_train(recipe, factory=factory)
    end = factory.weights(recipe.graph("train"))
    changed = {name for name, value in end.items() if not (start[name] == value).all()}
    assert "line.linear.bias" not in changed
    assert "line.linear.weight" in changed
    assert result.history[-1]["loss"] < result.history[0]["loss"]


def test_reading_actions_needs_no_framework(path):
    code = (
        "import sys; from neumo.engine.recipes import read_actions; from neumo.graph.yaml import Recipe;"
        "read_actions(Recipe(graphs={}, actions={'train': {'epochs': 1, 'optimizer': {'kind': 'SGD'}}}));"
        "print([name for name in ('torch', 'numpy') if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def mistakes(path, *overrides):
    with pytest.raises(NeumoError) as caught:
        load_recipe(path, overrides, sections=section_mistakes) and read_actions(load_recipe(path, overrides))
    return {each.what: str(each.where) for each in (caught.value.also or (caught.value,))}


def test_all_mistakes_of_the_sections_are_told_each_at_its_place(path):
    found = mistakes(path, "train.epochs=-5", "train.ema=2", "train.freeze=[line, lien]", "train.loss=qq")
    assert found == {
        "train.freeze: graph 'train' has no module 'lien'": "command line",
        "train: epochs=-5 is not above 0": "command line",
        "EMA: decay=2.0 is not in [0, 1)": "command line",
        "graph 'train' has no output 'qq'": "command line",
    }


def test_a_mistake_in_a_file_has_its_line_and_its_column(path):
    def found():
        return {what: where.partition(f"{path.name}:")[2] for what, where in mistakes(path).items()}

    text = path.read_text()
    path.write_text(text.replace("AdamW, lr: 5e-2", "AdamW, lr: -1").replace("seed: 4", "seed: -4"))
    assert found() == {"AdamW: lr=-1.0 is below 0": "25:32", "factory: seed=-4 is below 0": "23:30"}
    text = text.replace("clip: 5.0", "clip: -1").replace("every_epochs: 2", "every_epochs: 0")
    path.write_text(text.replace("keep_last: 1", "keep_last: 0"))
    assert found() == {
        "train: clip=-1.0 is not above 0": "28:9",
        "Evaluate: every_epochs=0 is below 1": "30:54",
        "Checkpoint: keep_last is below 1, so there would be nothing to resume": "31:27",
    }
