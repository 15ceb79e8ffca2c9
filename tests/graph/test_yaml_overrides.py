"""`key=value` words change a recipe before it is built; what they name must be there."""

from __future__ import annotations

from typing import Any

import pytest

from neumo.graph.yaml import load_recipe
from neumo.graph.yaml.overrides import apply_overrides
from neumo.graph.yaml.read import read_yaml
from neumo.types import ConfigError

TEXT = """\
neumo: 1
modules:
  encoder: {kind: ConvEncoder, width: 64, blocks: [{width: 1}, {width: 2}]}
graphs:
  train: {mode: train}
train: {epochs: 10, schedule: {warmup: 1}}
"""


def changed(*words: str) -> Any:
    tree = read_yaml(TEXT, "recipe.yaml")
    apply_overrides(tree, words)
    return tree.plain()


@pytest.mark.parametrize(
    ("word", "path", "value"),
    [
        ("train.epochs=5", ("train", "epochs"), 5),
        ("train.epochs = 5", None, None),
        ("train.lr=1e-3", ("train", "lr"), 0.001),
        ("train.schedule.warmup=2", ("train", "schedule", "warmup"), 2),
        ("train.schedule={a: [1, b]}", ("train", "schedule"), {"a": [1, "b"]}),
        ("factory.seed=3", ("factory", "seed"), 3),
        ("factory.strategy.kind=FSDP", ("factory", "strategy"), {"kind": "FSDP"}),
        ("train.early_stop.metric=wer", ("train", "early_stop"), {"metric": "wer"}),
        ("factory={seed: 4}", ("factory",), {"seed": 4}),
        ("modules.encoder.width=128", ("modules", "encoder", "width"), 128),
        ("modules.encoder.stride=4", ("modules", "encoder", "stride"), 4),
        ("modules.encoder.blocks.1.width=9", ("modules", "encoder", "blocks", 1, "width"), 9),
        ("modules.encoder.blocks.0={width: 7}", ("modules", "encoder", "blocks", 0), {"width": 7}),
        ("graphs.train.mode=infer", ("graphs", "train", "mode"), "infer"),
        ("neumo=1", ("neumo",), 1),
        ("train.name=a=b", ("train", "name"), "a=b"),
        ("train.note=", ("train", "note"), None),
        ("train.text='5'", ("train", "text"), "5"),
    ],
)
def test_a_value_is_set(word: str, path: tuple[str, ...] | None, value: object) -> None:
    found = changed(word)
    if path is None:
        return
    for key in path:
        found = found[key]
    assert found == value


def test_later_words_win() -> None:
    assert changed("train.epochs=5", "train.epochs=6")["train"]["epochs"] == 6


@pytest.mark.parametrize(
    ("word", "what", "fix"),
    [
        ("epochs", "'epochs' overrides nothing", "write key=value, such as train.epochs=5"),
        ("=5", "'=5' overrides nothing", "write key=value, such as train.epochs=5"),
        ("train..epochs=5", "'train..epochs=5' overrides nothing", "write key=value, such as train.epochs=5"),
        ("trian.epochs=5", "a recipe has no section 'trian'", "did you mean 'train'?"),
        ("trian=5", "a recipe has no section 'trian'", "did you mean 'train'?"),
        ("modules.encodr.width=5", "modules has no 'encodr'", "did you mean 'encoder'?"),
        ("modules.encodr=5", "modules has no 'encodr'", "did you mean 'encoder'?"),
        ("encoder.width=5", "a recipe has no section 'encoder'", None),
        ("modules.encoder.width.x=5", "modules.encoder.width is 64: nothing in it can be overridden", None),
        ("modules.encoder.mel.x=5", "modules.encoder has no 'mel'", None),
        ("modules.encoder.blocks.2=5", "modules.encoder.blocks is a list of 2: 2 is not among them", None),
        ("modules.encoder.blocks.x.y=5", "modules.encoder.blocks is a list of 2: x is not among them", None),
        ("train.evaluate.0.graph=dev", "train.evaluate has no '0'", None),
        ("train.epochs.x=1", "train.epochs is 10: nothing in it can be overridden", None),
        ("train.epochs=[1", "cannot read the value of 'train.epochs=[1'", None),
        ("train.epochs=!!python/name:os.system", "cannot read the value of", None),
    ],
)
def test_a_word_that_changes_nothing_is_refused(word: str, what: str, fix: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        changed(word)
    assert caught.value.code == "override"
    assert caught.value.what.startswith(what)
    if fix is not None:
        assert caught.value.fixes[0].text == fix


def test_the_place_of_an_override_is_its_word() -> None:
    tree = read_yaml(TEXT, "recipe.yaml")
    apply_overrides(tree, ["modules.encoder.blocks=[{width: x}]"])
    place = tree.children["modules"].children["encoder"].children["blocks"].items[0].children["width"].place
    assert str(place) == "command line"
    assert place.text[place.start : place.end] == "x"
    assert "    modules.encoder.blocks=[{width: x}]\n" in place.render()


def test_an_override_of_an_empty_recipe_is_refused() -> None:
    with pytest.raises(ConfigError, match="the recipe is nothing"):
        apply_overrides(read_yaml("", "recipe.yaml"), ["a=1"])


def test_a_path_of_an_override_starts_at_the_current_folder(tmp_path, monkeypatch) -> None:
    (tmp_path / "recipes").mkdir()
    file = tmp_path / "recipes" / "one.yaml"
    file.write_text(
        "neumo: 1\n"
        "vocabs: {ab: {labels: ab}}\n"
        "modules: {data: {kind: SpeechData, manifest: train.jsonl, vocab: ab}}\n"
        "graphs: {train: {steps: {batch: data()}}}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert load_recipe(file).modules["data"].manifest == str(file.parent / "train.jsonl")
    changed = load_recipe(file, ["modules.data.manifest=mine.jsonl"])
    assert changed.modules["data"].manifest == str(tmp_path / "mine.jsonl")
    several = load_recipe(file, ["modules.data.manifest=[train.jsonl, mine.jsonl]"])
    assert several.modules["data"].manifest == (str(tmp_path / "train.jsonl"), str(tmp_path / "mine.jsonl"))
