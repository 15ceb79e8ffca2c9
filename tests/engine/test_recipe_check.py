"""What a recipe as a whole must keep: names of figures, words that allow something, rules of its graphs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from neumo.engine import NeuralFactory
from neumo.engine.callbacks import EarlyStop
from neumo.engine.recipes import read_actions
from neumo.engine.recipes.check import check_followed, figures, recipe_findings
from neumo.graph.graph import Graph
from neumo.graph.module import Metric
from neumo.graph.signature import Signature
from neumo.graph.yaml import Recipe, load_recipe
from neumo.types import Acoustic, B, ConfigError, F, Score

from .test_recipe import RECIPE
from .toys import Line, MeanError, PointData, SquaredError, refused


@dataclass(frozen=True)
class Secretive(Metric):
    """Says only what it has found."""

    def signature(self) -> Signature:
        return Signature(takes={"given": Acoustic()[B, F(1)]}, gives={"score": Score()[()]})

    def start(self) -> Any:
        raise ValueError("nothing to start with")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "recipe.yaml"
    file.write_text(RECIPE)
    return file


def test_an_evaluation_tells_the_names_of_its_figures() -> None:
    batch = PointData()()
    y = Line()(x=batch.x).y
    one = MeanError()(given=y, wanted=batch.y).score
    loss = SquaredError()(given=y, wanted=batch.y).loss
    assert figures(Graph(outputs={"error": one, "loss": loss})) == ["error", "points", "loss"]
    two = MeanError()(given=batch.y, wanted=batch.y).score
    assert figures(Graph(outputs={"a": one, "b": two})) == ["a.error", "a.points", "b.error", "b.points"]
    secret = Secretive()(given=y).score
    assert figures(Graph(outputs={"loss": loss, "secret": secret})) is None


def test_the_best_figure_is_one_that_there_is(path: Path) -> None:
    with refused(
        ConfigError, "train.evaluate.best is 'eror', and graph 'test' gives no such figure"
    ) as caught:
        read_actions(load_recipe(path, ["train.evaluate.best=eror"]))
    assert caught.value.code == "metric"
    assert [fix.text for fix in caught.value.fixes] == ["did you mean 'error'?"]
    path.write_text(RECIPE.replace("best: error", "best: eror"))
    with refused(ConfigError, "recipe.yaml:30") as caught:
        read_actions(load_recipe(path))
    several = "evaluate: [{graph: test, name: dev}, {graph: test, best: eror}]"
    path.write_text(RECIPE.replace("evaluate: {graph: test, best: error, every_epochs: 2}", several))
    with refused(ConfigError, "recipe.yaml:30:") as caught:
        read_actions(load_recipe(path))
    assert caught.value.where is not None
    assert caught.value.where.text[caught.value.where.start :].startswith("eror")  # type: ignore[union-attr]


def test_a_figure_that_nobody_can_foresee_is_believed(path: Path) -> None:
    text = RECIPE.replace("error: {kind: MeanError}", "error: {kind: Secretive}").replace(
        "error(given=fitted.y, wanted=batch.y)", "error(given=fitted.y)"
    )
    path.write_text(text.replace("best: error", "best: anything"))
    recipe = load_recipe(path)
    actions = read_actions(recipe)
    assert actions.train.evaluations(recipe)[0].best == "anything"
    check_followed(recipe, actions)


def test_an_early_stop_waits_for_a_figure_that_there_is(path: Path) -> None:
    recipe = load_recipe(path, ["train.early_stop.metric=eror"])
    with refused(
        ConfigError, "train.early_stop waits for 'eror', and no evaluation gives that figure"
    ) as caught:
        check_followed(recipe, read_actions(recipe))
    assert "did you mean 'error'?" in str(caught.value)
    recipe = load_recipe(path, ["train.evaluate.name=dev"])
    with refused(ConfigError, "they give dev.error, dev.points"):
        check_followed(recipe, read_actions(recipe))
    recipe = load_recipe(path, ["train.evaluate.name=dev", "train.early_stop.metric=dev.error"])
    check_followed(recipe, read_actions(recipe))
    recipe = load_recipe(path, ["train.early_stop=null"])
    check_followed(recipe, read_actions(recipe))
    recipe = load_recipe(path, ["train.evaluate=[]"])
    with refused(ConfigError, "they give nothing"):
        check_followed(recipe, read_actions(recipe))


def test_a_recipe_whose_validation_loss_hides_that_of_the_training_is_refused(path: Path) -> None:
    with refused(
        ConfigError, "graph 'train' gives 'loss', which would hide.*train.evaluate=.*name: train"
    ) as caught:
        read_actions(load_recipe(path, ["train.evaluate={graph: train}", "train.early_stop=null"]))
    assert caught.value.code == "metric"
    named = load_recipe(
        path, ["train.evaluate={graph: train, name: dev}", "train.early_stop.metric=dev.loss"]
    )
    check_followed(named, read_actions(named))


def test_a_schedule_follows_a_figure_that_there_is(path: Path) -> None:
    recipe = load_recipe(path, ["train.schedule={kind: Plateau, metric: eror}"])
    with refused(ConfigError, "train.schedule follows 'eror', and no evaluation gives that figure") as caught:
        check_followed(recipe, read_actions(recipe))
    assert "did you mean 'error'?" in str(caught.value)
    place: Any = caught.value.where
    assert place.text[place.start : place.end] == "eror"
    recipe = load_recipe(path, ["train.schedule={kind: Plateau, metric: error}"])
    check_followed(recipe, read_actions(recipe))
    phase = "train.phases=[{loss: loss, schedule: {kind: Plateau, metric: wer}}]"
    recipe = load_recipe(path, ["train.loss=null", "train.early_stop=null", phase])
    with refused(ConfigError, "the schedule of phase 'loss' follows 'wer'"):
        check_followed(recipe, read_actions(recipe))


def test_a_recipe_without_a_file_is_refused_without_a_place() -> None:
    batch = PointData()()
    y = Line()(x=batch.x).y
    graphs = {
        "train": Graph("train", "train", {"loss": SquaredError()(given=y, wanted=batch.y).loss}),
        "evaluate": Graph("evaluate", "infer", {"error": MeanError()(given=y, wanted=batch.y).score}),
    }
    asked = {"train": {"epochs": 1, "evaluate": {"best": "eror"}}}
    with refused(ConfigError, "gives no such figure") as caught:
        read_actions(Recipe(graphs=graphs, actions=asked))
    assert caught.value.where is None
    with refused(ConfigError, "gives no such figure") as caught:
        read_actions(Recipe(graphs=graphs, actions=asked, path=Path("recipe.yaml")))
    assert caught.value.where == "recipe.yaml"


def test_patience_and_allowances_are_checked_where_they_are_written(path: Path) -> None:
    with refused(ConfigError, "patience=0 is below 1"):
        read_actions(load_recipe(path, ["train.early_stop.patience=0"]))
    with refused(ConfigError, "patience=0 is below 1"):
        EarlyStop("error", patience=0)
    with refused(ConfigError, "did you mean 'fp16-on-cpu'?"):
        read_actions(load_recipe(path, ["factory.allow=[fp16-on-cpus]"]))
    with refused(ConfigError, "allow has 'fp16', which allows nothing") as caught:
        NeuralFactory(device="cpu", allow=["fp16"])
    assert caught.value.code == "allow"
    with refused(ConfigError, "did you mean 'emulated-bf16'?"):
        NeuralFactory(device="cpu", allow="emulated-bf61")
    NeuralFactory(device="cpu", precision="fp16", allow=["fp16-on-cpu"])


def test_findings_are_told_by_the_names_of_the_graphs(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe_findings(recipe, read_actions(recipe)) == {"train": [], "test": []}
    path.write_text(
        RECIPE.replace(
            "  line: {kind: Line, norm: true}", "  line: {kind: Line}\n  other: {kind: Line}"
        ).replace("      fitted: line(x=batch.x)\n      error", "      fitted: other(x=batch.x)\n      error")
    )
    recipe = load_recipe(path)
    found = recipe_findings(recipe, read_actions(recipe))
    assert [(name, [finding.rule for finding in each]) for name, each in found.items()] == [
        ("train", []),
        ("test", ["never-trained"]),
    ]
    assert recipe_findings(recipe, read_actions(recipe), has_weights=True)["test"] == []
    trained = load_recipe(path, ["train.weights=model.safetensors"])
    assert recipe_findings(trained, read_actions(trained))["test"] == []
    assert [finding.rule for finding in recipe_findings(recipe)["test"]] == ["never-trained"]


def test_the_only_graph_is_the_one_that_is_trained(path: Path) -> None:
    """A graph for both is looked at as a training if the recipe trains it."""
    before, _, _ = RECIPE.partition("  test:\n")
    text = before.replace("    mode: train\n", "").replace("  train:\n", "  fit:\n")
    text = text.replace("line(x=batch.x)", "line(x=batch.x)\n      more: line2(x=batch.x)")
    text = text.replace("{loss: loss.loss}", "{loss: loss.loss, y: more.y}")
    path.write_text(
        text.replace("loss: {kind", "line2: {kind: Line}\n  loss: {kind") + "train: {epochs: 1}\n"
    )
    recipe = load_recipe(path)
    assert [each.rule for each in recipe_findings(recipe, read_actions(recipe))["fit"]] == [
        "untrained-module"
    ]
    assert recipe_findings(recipe)["fit"] == []
