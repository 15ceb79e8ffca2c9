"""Recipes with many mistakes: each is told once, at its place, and nothing that only follows from another."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.graph.yaml import load_recipe, recipe_text
from neumo.graph.yaml.fields import keyword_hints
from neumo.graph.yaml.scope import Scope
from neumo.graph.yaml.values import describe_hint
from neumo.types import Acoustic, B, ConfigError, F, NeumoError, T

from ..cli.runner import neumo
from . import specs


def kind(cls: type[NeuralModule]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


MODULES = f"""neumo: 1
vocabs:
  en: {{labels: " abcdefghijklmnopqrstuvwxyz'"}}
  de: {{labels: " abcdefghijklmnopqrstuvwxyä"}}
modules:
  data: {{kind: {kind(specs.SpeechData)}, vocab: en}}
  german: {{kind: {kind(specs.SpeechData)}, vocab: de}}
  slow: {{kind: {kind(specs.SpeechData)}, vocab: en, rate: 22050}}
  mel: {{kind: {kind(specs.MelSpectrogram)}}}
  encoder: {{kind: {kind(specs.ConvEncoder)}}}
  small: {{kind: {kind(specs.ConvEncoder)}, width: 512}}
  head: {{kind: {kind(specs.CTCHead)}, vocab: en}}
  loss: {{kind: {kind(specs.CTCLoss)}, vocab: en}}
"""
RIGHT = """graphs:
  train:
    steps:
      batch: data()
      feats: mel(audio=batch.audio, audio_len=batch.audio_len)
      enc: encoder(mel=feats.mel, mel_len=feats.mel_len)
      lp: head(encoded=enc.encoded)
      ctc: >-
        loss(log_probs=lp.log_probs, log_probs_len=enc.encoded_len,
        targets=batch.text, targets_len=batch.text_len)
    outputs: {loss: ctc.loss}
"""
MANY = (
    MODULES
    + """graphs:
  train:
    steps:
      batch: slow()
      feats: mel(audio=batch.audio, audio_len=batch.audio_len)
      enc: small(mel=feats.mel, mel_len=batch.audio_len)
      lp: head(encoded=enc.encoded)
      ctc: >-
        loss(log_probs=lp.log_probs, log_probs_len=feats.mel_len,
        target=batch.text, targets_len=batch.text_len)
    outputs: {loss: ctc.loss}
  test:
    steps:
      batch: german()
      feats: mel(audio=batch.audio, audio_len=batch.text_len)
      enc: encoder(mel=feats.mel, mel_len=feats.mel_len)
      lp: head(encoded=feats.mel)
      ctc: >-
        loss(log_probs=lp.log_probs, log_probs_len=enc.encoded_len,
        targets=batch.text, targets_len=batch.text_len)
    outputs: {loss: ctc.los}
"""
)


def mistakes(text: str) -> list[NeumoError]:
    with pytest.raises(NeumoError) as caught:
        load_recipe(text)
    return list(caught.value.also) if caught.value.code == "recipe" else [caught.value]


def told(text: str) -> list[tuple[str, str]]:
    """The mistakes of a recipe as (code, the text at the place)."""
    return [(error.code, marked(error)) for error in mistakes(text)]


def marked(error: NeumoError) -> str:
    where = error.where
    assert where is not None
    return where.text[where.start : where.end]  # type: ignore[union-attr]


def test_eight_mistakes_in_two_graphs_are_eight() -> None:
    assert told(MANY) == [
        ("facet", "audio=batch.audio"),
        ("lengths", "mel_len=batch.audio_len"),
        ("size", "encoded=enc.encoded"),
        ("unknown-port", "target=batch.text"),
        ("lengths", "log_probs_len=feats.mel_len"),
        ("lengths", "audio_len=batch.text_len"),
        ("element", "encoded=feats.mel"),
        ("vocab", "targets=batch.text"),
        ("output", "ctc.los"),
    ]


def test_each_mistake_has_file_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(MANY)
    with pytest.raises(ConfigError, match=r"9 mistakes in\s+.*wrong\.yaml") as caught:
        load_recipe(path)
    places = [str(error.where).rpartition("/")[2] for error in caught.value.also]
    assert places[:3] == ["wrong.yaml:18:18", "wrong.yaml:19:33", "wrong.yaml:20:16"]
    assert all(not error.also for error in caught.value.also)


def test_wrong_fields_and_settings_are_told_with_wrong_connections(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = MANY.replace("width: 512", "widht: 512, stride: two").replace("vocab: de}", "vocab: dee}")
    path = tmp_path / "wrong.yaml"
    path.write_text(wrong + "train: {epoch: 3, optimizer: {kind: Adamw}}\nfactory: {seed: -1}\n")
    result = neumo(capsys, "check", str(path))
    assert result.code == 1
    heads = re.findall(r"^\w+Error\[([\w-]+)\]", result.err, re.MULTILINE)
    assert heads == [
        "recipe",
        "recipe-value",  # dee
        "recipe-key",  # widht
        "recipe-value",  # two
        "facet",
        "unknown-port",
        "element",
        "output",
        "recipe-key",  # epoch
        "recipe-key",  # Adamw
        "seed",
    ]
    assert len(re.findall(rf"^  {re.escape(str(path))}:\d+:\d+$", result.err, re.MULTILINE)) == len(heads) - 1


def test_a_step_of_an_unknown_module_does_not_hide_what_else_is_wrong() -> None:
    text = MODULES + RIGHT.replace("lp: head(", "lp: haed(").replace(
        "targets=batch.text,", "targets=batch.audio,"
    )
    assert told(text) == [("recipe-name", "haed"), ("element", "targets=batch.audio")]
    text = MODULES.replace("kind: " + kind(specs.ConvEncoder) + "}", "kind: Nothing}")
    text += RIGHT.replace("audio_len=batch.audio_len", "audio_len=batch.text_len")
    assert [code for code, _ in told(text)] == ["kind", "lengths"]


def test_what_is_unknown_is_asked_for_once() -> None:
    text = MODULES + RIGHT.replace("batch: data()", "batsh: data()")
    assert told(text) == [("recipe-name", "batch.audio")]


def test_a_spoilt_graph_spoils_those_that_call_it_in_silence() -> None:
    text = (
        MODULES
        + RIGHT.replace("encoded=enc.encoded", "encoded=feats.mel")
        + ("  more:\n    steps:\n      one: train()\n      two: mel(audio=one.loss, audio_len=one.loss)\n")
    )
    assert told(text) == [("element", "encoded=feats.mel")]


def test_a_wrong_call_of_a_graph_is_told_once() -> None:
    front = (
        "  front:\n    inputs: {audio: 'Audio(rate=16000, peak=1.0)[B, T]', audio_len: 'Lengths(T)[B]'}\n"
        "    steps:\n      feats: mel(audio=audio, audio_len=audio_len)\n"
        "      enc: encoder(mel=feats.mel, mel_len=feats.mel_len)\n"
        "    outputs: {encoded: enc.encoded}\n"
        "  whole:\n    steps:\n      batch: slow()\n"
        "      enc: front(audio=batch.audio, audio_len=batch.audio_len)\n"
        "      lp: head(encoded=enc.encoded)\n"
        "      more: small(mel=lp.log_probs, mel_len=batch.text)\n"
    )
    assert told(MODULES + "graphs:\n" + front) == [
        ("facet", "audio=batch.audio"),
        ("element", "mel=lp.log_probs"),
        ("element", "mel_len=batch.text"),
    ]


def test_a_misspelt_section_hides_graphs_only_if_they_need_it() -> None:
    text = MODULES + RIGHT.replace("encoded=enc.encoded", "encoded=feats.mel")
    assert [code for code, _ in told(text + "trian: {}\n")] == ["recipe-key", "element"]
    assert [code for code, _ in told(text.replace("vocabs:", "vocab:"))] == ["recipe-key"]


def test_fields_that_are_wrong_and_fields_that_are_missing_are_told_together() -> None:
    text = MODULES + RIGHT
    text = text.replace(f"{kind(specs.CTCHead)}, vocab: en", f"{kind(specs.CTCHead)}, width: x")
    assert [error.what for error in mistakes(text)] == [
        "head (CTCHead).width must be an integer, not the text 'x'",
        "head (CTCHead) needs vocab",
    ]
    text = (MODULES + RIGHT).replace(f"{kind(specs.CTCHead)}, vocab: en", f"{kind(specs.CTCHead)}, vocap: en")
    assert [error.code for error in mistakes(text)] == ["recipe-key"]


def relaxed(entry: str, steps: str = RIGHT) -> str:
    return MODULES + steps.replace("batch: data()", "batch: slow()").replace(
        "    steps:", f"    {entry}\n    steps:", 1
    )


def test_a_graph_may_relax_facets_and_says_why() -> None:
    text = relaxed("relax: {facets: [rate], reason: the header lies}")
    recipe = load_recipe(text)
    (port, reason), *rest = recipe.graph().warnings()
    assert port == "mel.audio"
    assert str(reason) == "rate is 22050, not 16000 (relaxed: the header lies)"
    assert rest == []
    several = relaxed(
        "relax: [{facets: floor, reason: low}, {facets: [rate, peak], reason: the header lies}]"
    )
    assert len(load_recipe(several).graph().warnings()) == 1


def test_a_relaxed_graph_is_saved_with_the_reason_and_loads_again() -> None:
    recipe = load_recipe(relaxed("relax: {facets: [rate, hop], reason: the header lies}"))
    text = recipe_text(recipe)
    assert "relax: {facets: [rate], reason: the header lies}" in text
    again = load_recipe(text)
    assert again.graph() == recipe.graph()
    assert [str(reason) for _, reason in again.graph().warnings()] == [
        "rate is 22050, not 16000 (relaxed: the header lies)"
    ]


@pytest.mark.parametrize(
    ("entry", "code", "word"),
    [
        ("relax: {facets: [rte], reason: a}", "relax", "rte"),
        ("relax: {facets: rte, reason: a}", "relax", "rte"),
        ("relax: {facets: [rate, flor], reason: a}", "relax", "flor"),
        ("relax: {facets: [], reason: a}", "relax", "[]"),
        ("relax: {facets: [rate], reason: ' '}", "relax", "' '"),
        ("relax: {facets: [rate]}", "recipe-key", "relax"),
        ("relax: {facets: 3, reason: a}", "recipe-value", "3"),
        ("silence: {loss: }", "silence", ""),
        ("silence: 3", "recipe-value", "3"),
    ],
)
def test_what_is_relaxed_or_silenced_in_vain_is_refused_at_its_word(entry: str, code: str, word: str) -> None:
    found = told((MODULES + RIGHT).replace("    steps:", f"    {entry}\n    steps:", 1))
    assert [each[0] for each in found] == [code]
    assert not word or found[0][1] == word


def test_a_graph_silences_rules_with_reasons_and_keeps_them() -> None:
    text = (MODULES + RIGHT).replace("    steps:", "    silence: {unused-output: for a look}\n    steps:", 1)
    recipe = load_recipe(text)
    assert dict(recipe.graph().silence) == {"unused-output": "for a look"}
    assert "silence: {unused-output: for a look}" in recipe_text(recipe)
    assert load_recipe(recipe_text(recipe)).graph() == recipe.graph()


@pytest.mark.parametrize(
    "text", ["graphs: {g: {steps: {a: x()}}}", "[a, b]", "- a", " {a: 1}", "a: " + "b" * 90]
)
def test_yaml_of_a_single_line_is_no_path(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is YAML,\s+not the path of a file") as caught:
        load_recipe(text) if not text.lstrip().startswith("{") else load_recipe("x" + text)
    assert caught.value.code == "recipe-file"
    assert caught.value.fixes[0].text == "end the text with a line break"
    assert len(caught.value.what) < 100


@dataclass(frozen=True)
class Unstated(NeuralModule):
    """Forgets to state its ports."""


def test_a_module_that_is_wrong_itself_is_told_once_for_all_its_steps() -> None:
    modules = f"neumo: 1\nmodules:\n  b: {{kind: {kind(Unstated)}}}\n"
    text = f"{modules}graphs:\n  g:\n    steps:\n      x: b()\n      y: b()\n"
    assert [error.code for error in mistakes(text)] == ["module"]


def test_paths_above_the_folder_of_a_recipe_are_made_short() -> None:
    assert Scope(Path("runs/one")).path("../words.txt") == Path("runs/words.txt")
    assert describe_hint(Literal["a", "b"] | None) == "'a' or 'b' or null"


def test_settings_whose_annotations_exist_for_type_checkers_only_take_anything() -> None:
    def preset(name: str, *, depth: Nowhere = 1) -> None:  # type: ignore[name-defined]  # noqa: F821
        """Make one."""

    assert keyword_hints(preset) == {"depth": Any}


@dataclass(frozen=True)
class Taught(NeuralModule):
    """Looks at its target while it is trained."""

    def signature(self) -> Signature:
        x = Acoustic()[B, F(3), T]
        return Signature(takes={"x": x, "target": x.only("train")}, gives={"y": x})


@pytest.mark.parametrize(
    ("mode", "arguments", "place"),
    [("infer", "x=x, target=x", "<text>:8:26"), ("train", "x=x", "<text>:8:16")],
)
def test_ports_of_training_are_checked_by_the_mode_of_the_graph(
    mode: str, arguments: str, place: str
) -> None:
    text = (
        f"neumo: 1\nmodules:\n  net: {{kind: {kind(Taught)}}}\ngraphs:\n  g:\n"
        f"    inputs: {{x: 'Acoustic[B, F=3, T]'}}\n    mode: {mode}\n    steps: {{y: 'net({arguments})'}}\n"
    )
    (error,) = mistakes(text)
    assert error.code == "when"
    assert str(error.where) == place
    assert load_recipe(text.replace(f"mode: {mode}", "mode: both")).graph().mode == "both"


def test_two_classes_of_one_name_are_written_with_their_modules() -> None:
    twins = []
    for home in ("first_home", "second_home"):
        fields = {"__module__": home, "__annotations__": {}}
        twins.append(dataclass(frozen=True)(type("TwinOfTwo", (Taught,), fields)))
    x = inputs(x=Acoustic()[B, F(3), T]).x
    for twin in twins:
        graph = Graph("g", outputs=twin()(x=x))
        assert f"kind: {twin.__module__}.TwinOfTwo" in recipe_text(graph)
        assert load_recipe(recipe_text(graph)).graph() == graph


def refused_recipe(text: str, tmp_path: Path) -> NeumoError:
    file = tmp_path / "recipe.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(NeumoError) as caught:
        load_recipe(file)
    return caught.value


def test_a_module_that_a_step_has_called_is_no_value_and_its_step_is_offered(tmp_path: Path) -> None:
    wrong = RIGHT.replace("log_probs_len=enc.encoded_len", "log_probs_len=encoder.encoded_len")
    error = refused_recipe(MODULES + wrong, tmp_path)
    assert [fix.text for fix in error.fixes][:1] == ["write enc.encoded_len: enc is what encoder gives"]
    assert "must call it first" not in error.render()
    other = refused_recipe(MODULES + wrong.replace("encoder.encoded_len", "encoder.nothing"), tmp_path)
    assert "must call it first" in other.render()


def test_the_way_out_of_a_recipe_is_not_written_in_python(tmp_path: Path) -> None:
    error = refused_recipe(MODULES + RIGHT.replace("batch: data()", "batch: slow()"), tmp_path)
    assert "insert Resample(22050 -> 16000) before it" in error.render()
    assert [fix.code for fix in error.fixes if fix.code] == []
