"""Recipes are read into graphs; every mistake is found in one go, at its line and column."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.graph.yaml import Recipe, load_graph, load_recipe, raise_all
from neumo.types import Acoustic, B, ConfigError, F, Loss, NeumoError, T

from . import specs


def kind_of(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


MODULES = f"""\
neumo: 1
vocabs:
  en: {{labels: " abcdefghijklmnopqrstuvwxyz'"}}
modules:
  data: {{kind: {kind_of(specs.SpeechData)}, vocab: en}}
  mel: {{kind: {kind_of(specs.MelSpectrogram)}}}
  encoder: {{kind: {kind_of(specs.ConvEncoder)}, width: 128}}
  head: {{kind: {kind_of(specs.CTCHead)}, vocab: en, width: 128}}
  ctc: {{kind: {kind_of(specs.CTCLoss)}, vocab: en}}
  add: {{kind: {kind_of(specs.SumLoss)}}}
graphs:
"""
STEPS = """\
  train:
    mode: train
    steps:
      batch: data()
      feats: mel(audio=batch.audio, audio_len=batch.audio_len)
      enc: encoder(mel=feats.mel, mel_len=feats.mel_len)
      lp: head(encoded=enc.encoded)
      loss: ctc(log_probs=lp.log_probs, log_probs_len=enc.encoded_len, targets=batch.text, targets_len=batch.text_len)
    outputs: {loss: loss.loss}
"""  # noqa: E501
RIGHT = MODULES + STEPS


def mistakes(text: str, *overrides: str) -> list[NeumoError]:
    with pytest.raises(NeumoError) as caught:
        load_recipe(text, overrides)
    return list(caught.value.also) if caught.value.code == "recipe" else [caught.value]


def mistake(text: str, *overrides: str) -> NeumoError:
    (error,) = mistakes(text, *overrides)
    return error


def at(error: NeumoError, text: str) -> str:
    """The word that the caret of an error stands under."""
    where = error.where
    assert where is not None
    assert not isinstance(where, str)
    assert where.line is not None
    assert text.split("\n")[where.line - 1] == where.text
    return where.text[where.start : where.end]


def test_a_right_recipe_gives_its_graphs_and_modules() -> None:
    recipe = load_recipe(RIGHT)
    graph = recipe.graph()
    assert graph is recipe.graphs["train"]
    assert (graph.name, graph.mode, list(graph.outputs)) == ("train", "train", ["loss"])
    assert graph.modules["encoder"] is recipe.modules["encoder"]
    assert recipe.modules["ctc"].vocab is recipe.vocabs["en"]  # type: ignore[attr-defined]
    assert str(recipe.vocabs["en"]).startswith("en[28]#")
    assert recipe.notes == ("no graph uses the module add",)
    assert recipe.folder is None


def test_a_recipe_file_gives_the_folder_that_paths_start_from(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text(" \na\nb\r\nlonger\n", encoding="utf-8")
    path = tmp_path / "recipe.yaml"
    path.write_text(RIGHT.replace('labels: " abcdefghijklmnopqrstuvwxyz\'"', "file: letters.txt"))
    recipe = load_recipe(path)
    assert recipe.folder == tmp_path
    assert recipe.vocabs["en"].labels == (" ", "a", "b", "longer")
    assert load_graph(path) == load_graph(path, "train")


def test_a_vocabulary_file_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neumo.graph.yaml.vocabs.LARGEST_FILE", 3)
    (tmp_path / "letters.txt").write_text("a\nb\nc\n")
    path = tmp_path / "recipe.yaml"
    path.write_text(RIGHT.replace('labels: " abcdefghijklmnopqrstuvwxyz\'"', "file: letters.txt"))
    with pytest.raises(ConfigError, match="cannot read the vocabulary file"):
        load_recipe(path)


def test_graphs_of_a_recipe_share_their_modules() -> None:
    recipe = load_recipe(RIGHT + STEPS.replace("train:", "again:", 1))
    assert recipe.graphs["train"].modules["encoder"] is recipe.graphs["again"].modules["encoder"]


def test_a_module_that_two_steps_call_is_one_module() -> None:
    text = RIGHT.replace(
        "      lp:", "      enc2: encoder(mel=feats.mel, mel_len=feats.mel_len)\n      lp:"
    ).replace("encoded=enc.encoded)", "encoded=enc2.encoded)")
    graph = load_recipe(text).graph()
    assert len(graph.modules) == 5
    assert [note for note in load_recipe(text).notes if "enc2" in note] == []


def test_open_inputs_are_types_in_their_notation() -> None:
    text = MODULES + (
        "  infer:\n    inputs: {audio: 'Audio(rate=16000, peak=1.0)[B, T]', n: 'Lengths(T)[B]', "
        "extra: 'Ids(en)[B, U]'}\n"
        "    steps: {feats: 'mel(audio=audio, audio_len=n)'}\n"
    )
    recipe = load_recipe(text)
    graph = recipe.graph()
    assert {name: str(value.type) for name, value in graph.inputs.items()} == {
        "audio": "Audio(rate=16000, peak=1.0)[B, T]",
        "n": "Lengths(T)[B]",
    }
    assert list(graph.outputs) == ["mel", "mel_len"]
    assert "graph infer: nothing uses the input extra" in recipe.notes


def test_without_outputs_all_last_values_are_outputs() -> None:
    text = RIGHT.replace(
        "    outputs: {loss: loss.loss}\n",
        "      more: mel(audio=batch.audio, audio_len=batch.audio_len)\n"
        "      m2: mel(audio=batch.audio, audio_len=batch.audio_len)\n",
    )
    graph = load_recipe(text).graph()
    assert list(graph.outputs) == ["loss", "mel", "mel_len", "m2_mel", "m2_mel_len"]


@pytest.mark.parametrize(
    "outputs", ["[loss.loss, enc.encoded_len]", "{loss: loss, encoded_len: enc.encoded_len}"]
)
def test_outputs_are_a_list_or_a_mapping(outputs: str) -> None:
    graph = load_recipe(RIGHT.replace("{loss: loss.loss}", outputs)).graph()
    assert list(graph.outputs) == ["loss", "encoded_len"]


def test_a_port_that_takes_many_gets_a_list() -> None:
    text = RIGHT.replace(
        "    outputs: {loss: loss.loss}",
        "      sum: add(losses=[loss.loss, loss.loss])\n    outputs: {loss: sum.loss}",
    )
    graph = load_recipe(text).graph()
    assert len(graph.steps) == 6


def test_a_step_whose_values_nobody_needs_is_noted() -> None:
    text = RIGHT.replace("    outputs:", "      idle: head(encoded=enc.encoded)\n    outputs:")
    assert "graph train: no output needs the step idle" in load_recipe(text).notes


def test_a_graph_is_used_as_a_module_by_a_later_one() -> None:
    text = MODULES + (
        "  front:\n    inputs: {audio: 'Audio(rate=16000, peak=1.0)[B, T]', audio_len: 'Lengths(T)[B]'}\n"
        "    steps: {feats: 'mel(audio=audio, audio_len=audio_len)'}\n"
        "  whole:\n    steps:\n      batch: data()\n"
        "      feats: front(audio=batch.audio, audio_len=batch.audio_len)\n"
        "      enc: encoder(mel=feats.mel, mel_len=feats.mel_len)\n"
    )
    recipe = load_recipe(text)
    assert recipe.graphs["whole"].modules["mel"] is recipe.modules["mel"]
    wrong = text.replace("front(audio=batch.audio", "front(audio=batch.text")
    error = mistake(wrong)
    assert error.code == "element"
    assert str(error.where) == "<text>:18:20"


@dataclass(frozen=True)
class Zoomed(NeuralModule):
    trainable: ClassVar[bool] = True

    factor: int = 1
    word: str = ""

    @classmethod
    def preset(cls, name: str, *, times: int = 1, **fields: str) -> Zoomed:
        if name == "wrong":
            return 3  # type: ignore[return-value]
        if name != "small":
            raise ConfigError(f"no preset {name!r}", code="preset")
        return cls(factor=2 * times, **fields)  # type: ignore[arg-type]

    def signature(self) -> Signature:
        return Signature(gives={"x": Acoustic()[B, F(self.factor), T]})


def scaled(fields: str) -> str:
    return f"neumo: 1\nmodules:\n  s: {{kind: Zoomed, {fields}}}\ngraphs:\n  g:\n    steps: {{x: s()}}\n"


def test_a_preset_takes_settings_of_its_own_and_fields() -> None:
    module = load_recipe(scaled("preset: small, times: 3, word: a")).modules["s"]
    assert (module.factor, module.word) == (6, "a")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fields", "what", "place"),
    [
        ("preset: large", "no preset 'large'", "<text>:3:21"),
        ("preset: small, times: x", "s (Zoomed).times must be an integer, not the text 'x'", "<text>:3:43"),
        ("preset: small, tims: 3", "s (Zoomed) has no field 'tims'", "<text>:3:36"),
        ("preset: 3", "a preset is a name, not 3", "<text>:3:29"),
        ("preset: wrong", "the preset 'wrong' makes no Zoomed", "<text>:3:29"),
    ],
)
def test_a_wrong_preset_is_refused(fields: str, what: str, place: str) -> None:
    error = mistake(scaled(fields))
    assert (error.what, str(error.where)) == (what, place)


def test_a_class_without_presets_says_so() -> None:
    error = mistake(RIGHT.replace("width: 128}\n  head", "preset: small}\n  head"))
    assert error.what == "ConvEncoder has no presets"


@pytest.mark.parametrize(
    ("old", "new", "code", "word"),
    [
        ("neumo: 1\n", "neumo: 2\n", "recipe-value", "2"),
        ("neumo: 1\n", "neumo: true\n", "recipe-value", "true"),
        ("neumo: 1\n", "neumo: '1'\n", "recipe-value", "'1'"),
        ("neumo: 1\n", "", "recipe-key", "vocabs:"),
        ("graphs:\n", "graph:\n", "recipe-key", "graph"),
        ("vocabs:\n", "vocab:\n", "recipe-key", "vocab"),
        ("MelSpectrogram}", "MelSpectrogam}", "kind", None),
        (f"{{kind: {kind_of(specs.MelSpectrogram)}}}", "{n_mels: 64}", "recipe-key", "mel"),
        (f"{{kind: {kind_of(specs.MelSpectrogram)}}}", "64", "recipe-key", "mel"),
        (f"{{kind: {kind_of(specs.MelSpectrogram)}}}", "{kind: [a]}", "recipe-key", "mel"),
        ("width: 128}\n  head", "widht: 128}\n  head", "recipe-key", "widht"),
        ("width: 128}\n  head", "width: wide}\n  head", "recipe-value", "wide"),
        ("vocab: en, width", "vocab: eng, width", "recipe-value", "eng"),
        ("  mel: {", "  mel-64: {", "recipe-name", "mel-64"),
        ("  mel: {", "  class: {", "recipe-name", "class"),
        ("    mode: train", "    mode: training", "recipe-value", "training"),
        ("    steps:\n", "    step:\n", "recipe-key", "step"),
        ("mel(audio=batch.audio", "mell(audio=batch.audio", "recipe-name", "mell"),
        ("mel(audio=batch.audio", "mel(audio=batsch.audio", "recipe-name", "batsch.audio"),
        ("mel(audio=batch.audio", "mel(audio=mel.audio", "recipe-name", "mel.audio"),
        ("mel(audio=batch.audio", "mel(audio=batch.audoi", "output", "batch.audoi"),
        ("mel(audio=batch.audio", "mel(audio=batch", "output", "batch"),
        ("mel(audio=batch.audio", "mel(audoi=batch.audio", "unknown-port", "audoi=batch.audio"),
        ("mel(audio=batch.audio, ", "mel(", "missing", "mel(audio_len=batch.audio_len)"),
        ("mel(audio=batch.audio", "mel(audio=batch.text", "element", "audio=batch.text"),
        ("mel(audio=batch.audio", "mel(audio=[batch.audio]", "argument", "audio=[batch.audio]"),
        ("mel(audio=batch.audio", "mel(audio=loss.loss", "cycle", "loss.loss"),
        ("log_probs_len=enc.encoded", "log_probs_len=feats.mel", "lengths", "log_probs_len=feats.mel_len"),
        ("feats: mel(", "feats-1: mel(", "recipe-name", "feats-1"),
        ("feats: mel(", "class: mel(", "recipe-name", "class"),
        ("{loss: loss.loss}", "{loss: loss.los}", "output", "loss.los"),
        ("{loss: loss.loss}", "{loss: los.loss}", "recipe-name", "los.loss"),
        ("{loss: loss.loss}", "{loss: ctc(x=y)}", "recipe-step", "ctc(x=y)"),
        ("{loss: loss.loss}", "loss.loss", "recipe-value", "loss.loss"),
        ("{loss: loss.loss}", "{}", "output", "train"),
        ("{loss: loss.loss}", "{'a b': loss.loss}", "output", "train"),
        ("labels: ", "lables: ", "recipe-key", None),
        ("\" abcdefghijklmnopqrstuvwxyz'\"", "[a, 1]", "recipe-value", "1"),
        ("\" abcdefghijklmnopqrstuvwxyz'\"", "[a, []]", "recipe-value", "[]"),
        ("\" abcdefghijklmnopqrstuvwxyz'\"", "aba", "vocab", "en"),
        ("\" abcdefghijklmnopqrstuvwxyz'\"", "3", "recipe-value", "3"),
        ("labels: \" abcdefghijklmnopqrstuvwxyz'\"", "file: nowhere.txt", "recipe-file", "nowhere.txt"),
        ("labels: \" abcdefghijklmnopqrstuvwxyz'\"", "file: .", "recipe-file", "."),
        ("labels: \" abcdefghijklmnopqrstuvwxyz'\"", "file: 3", "recipe-value", "3"),
        ("labels: \" abcdefghijklmnopqrstuvwxyz'\"", "file: a, labels: b", "recipe-key", "en"),
        ("{labels: \" abcdefghijklmnopqrstuvwxyz'\"}", "4", "recipe-value", "4"),
        ("labels: \"", "pad: x1, labels: \"", "vocab", "en"),
        ("labels: \"", "pad: [1], labels: \"", "vocab", "en"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_once_and_at_its_word(old: str, new: str, code: str, word: str | None) -> None:
    assert old in RIGHT
    text = RIGHT.replace(old, new, 1)
    found = mistakes(text)
    error = found[0]
    assert error.code == code
    if word is not None:
        assert at(error, text) == word
    assert len(found) == 1 or code in {"recipe-key", "unknown-port", "recipe-name"}, [
        each.what for each in found
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "the recipe is empty"),
        ("\n# nothing\n", "the recipe is empty"),
        ("- a\n- b\n", "a recipe is a mapping of sections, not a list"),
        ("just words\n", "a recipe is a mapping of sections, not the text 'just words'"),
        ("neumo: 1\n", "the recipe has no graphs"),
        ("neumo: 1\ngraphs: [a]\n", "graphs must be a mapping by name, not a list"),
        ("neumo: 1\nmodules: 3\ngraphs: {}\n", "modules must be a mapping by name, not 3"),
        ("neumo: 1\ngraphs: {g: 3}\n", "the graph g must have steps, and is 3"),
        ("neumo: 1\ngraphs: {g: {steps: 3}}\n", "steps of the graph g must be a mapping by name, not 3"),
        (
            "neumo: 1\ngraphs: {g: {inputs: [a], steps: {}}}\n",
            "inputs of the graph g must be a mapping by name",
        ),
        ("neumo: 1\ngraphs: {g: {steps: {}}}\n", "a graph needs at least one output"),
        ("neumo: 1\ngraphs: {g: {steps: }}\n", "a graph needs at least one output"),
        (
            "neumo: 1\ngraphs: {g: {steps: {a: 3}}}\n",
            "a step is a call such as mel(audio=batch.audio), not 3",
        ),
    ],
)
def test_what_is_no_recipe_is_refused(text: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(NeumoError) as caught:
        load_recipe(path)
    first = caught.value.also[0] if caught.value.code == "recipe" else caught.value
    assert first.what.startswith(what)
    assert str(first.where).partition(":")[0].endswith("recipe.yaml")


def test_independent_mistakes_are_all_reported_and_their_consequences_are_not() -> None:
    text = (
        RIGHT.replace("audio_len=batch.audio_len", "audio_len=batch.text_len")
        .replace("widht", "width")
        .replace("vocab: en}", "vocab: en, blank: 3}", 1)
    )
    text = text.replace("targets=batch.text,", "target=batch.text,")
    found = mistakes(text)
    assert [error.code for error in found] == ["recipe-key", "unknown-port"]
    text = RIGHT.replace("audio_len=batch.audio_len", "audio_len=batch.text_len").replace(
        "targets=batch.text,", "target=batch.text,"
    )
    assert [error.code for error in mistakes(text)] == ["lengths", "unknown-port"]


def test_a_spoilt_module_spoils_its_steps_in_silence() -> None:
    found = mistakes(RIGHT.replace("width: 128}\n  head", "width: x}\n  head"))
    assert [error.code for error in found] == ["recipe-value"]


def test_mistakes_of_several_graphs_are_reported_together() -> None:
    wrong = STEPS.replace("audio=batch.audio,", "audio=batch.text,")
    text = MODULES + wrong + wrong.replace("train:", "second:", 1)
    found = mistakes(text)
    assert [str(error.where) for error in found] == ["<text>:16:18", "<text>:25:18"]


def test_the_message_of_several_mistakes_counts_them() -> None:
    wrong = STEPS.replace("audio=batch.audio,", "audio=batch.text,")
    with pytest.raises(ConfigError) as caught:
        load_recipe(MODULES + wrong + wrong.replace("train:", "second:", 1), origin="an4.yaml")
    assert str(caught.value).startswith("ConfigError[recipe]: 2 mistakes in an4.yaml\n\nPortError[element]: ")


def test_steps_in_a_circle_are_shown_as_one() -> None:
    text = RIGHT.replace("mel=feats.mel,", "mel=lp.log_probs,")
    error = mistake(text)
    assert error.code == "cycle"
    assert at(error, text) == "lp.log_probs"
    assert "enc -> lp -> enc" in str(error)
    itself = mistake(RIGHT.replace("mel=feats.mel,", "mel=enc.encoded,"))
    assert "enc -> enc" in str(itself)


def test_an_input_cannot_be_a_step_as_well() -> None:
    text = MODULES + "  g:\n    inputs: {audio: 'Audio[B, T]'}\n    steps: {audio: data()}\n"
    assert mistake(text).what == "audio is an input of the graph g and a step as well"


@pytest.mark.parametrize(
    ("inputs", "what"),
    [
        ("{a: 3}", "the input a must be a type such as Audio(rate=16000)[B, T], not 3"),
        ("{a: 'Audio[B, T'}", "cannot read 'Audio[B, T'"),
        ("{a: 'Ids(letters)[B, U]'}", "cannot read 'Ids(letters)[B, U]': no vocabulary is called 'letters'"),
        ("{a-b: 'Audio[B, T]'}", "a port of `gives` is called 'a-b'"),
    ],
)
def test_a_wrong_input_is_refused(inputs: str, what: str) -> None:
    error, *_ = mistakes(
        MODULES + f"  g:\n    inputs: {inputs}\n    steps: {{b: 'mel(audio=a, audio_len=a)'}}\n"
    )
    assert error.what.startswith(what)
    assert str(error.where).startswith("<text>:1")


def test_an_input_has_no_ports() -> None:
    text = MODULES + "  g:\n    inputs: {a: 'Lengths(T)[B]'}\n    steps: {b: 'mel(audio=a.x, audio_len=a)'}\n"
    found = mistake(text)
    assert found.what == "a is an input, a single value: it has no 'x'"
    assert found.fixes[0].text == "write a"


def test_two_modules_cannot_be_one_output_of_two_names() -> None:
    with pytest.raises(ConfigError, match="has no graph 'trian'") as caught:
        load_recipe(RIGHT).graph("trian")
    assert caught.value.fixes[0].text == "did you mean 'train'?"
    with pytest.raises(ConfigError, match="several graphs"):
        load_recipe(RIGHT + STEPS.replace("train:", "again:", 1)).graph()


@dataclass(frozen=True)
class Training:
    epochs: int = 1
    lr: float = 0.01


def test_a_later_step_cannot_be_used() -> None:
    lines = STEPS.split("\n")
    lines[3], lines[4] = lines[4], lines[3]
    error = mistake(MODULES + "\n".join(lines))
    assert error.what == "the step feats uses batch, which comes later"
    assert error.fixes[0].text == "move the step batch up"


def test_a_step_that_a_comma_cut_says_so() -> None:
    text = MODULES + "  g:\n    steps: {b: mel(audio=a, audio_len=a)}\n"
    assert "put the step in quotes" in mistakes(text)[0].fixes[0].text


def test_a_section_is_read_into_a_dataclass() -> None:
    recipe = load_recipe(RIGHT + "train: {epochs: 3}\nfactory: {seed: 1}\n", ["train.lr=1e-3"])
    assert recipe.section("train", Training) == Training(3, 0.001)
    assert recipe.section("evaluate", Training) == Training()
    assert recipe.actions == {"train": {"epochs": 3, "lr": 0.001}, "factory": {"seed": 1}}


def test_a_wrong_setting_of_a_section_is_refused_at_its_place() -> None:
    recipe = load_recipe(RIGHT + "train: {epoch: 3, lr: x}\n")
    with pytest.raises(ConfigError) as caught:
        recipe.section("train", Training)
    unknown, wrong = caught.value.also
    assert (unknown.what, str(unknown.where)) == ("train has no field 'epoch'", "<text>:21:9")
    assert (wrong.what, str(wrong.where)) == ("train.lr must be a number, not the text 'x'", "<text>:21:23")


def test_a_section_without_a_file_is_checked_as_well() -> None:
    with pytest.raises(ConfigError, match="train has no field 'epoch'"):
        Recipe(graphs={}, actions={"train": {"epoch": 3}}).section("train", Training)
    assert Recipe(graphs={}, actions={"train": None}).section("train", Training) == Training()


def test_no_mistakes_raise_nothing() -> None:
    raise_all([], "recipe.yaml")


@dataclass(frozen=True)
class IllStated(NeuralModule):
    """Its signature fails: a mistake of the class, found when a recipe uses it."""

    def signature(self) -> Signature:
        return Signature(gives={"not a name": Loss()[()]})


def test_a_module_whose_signature_is_wrong_is_reported_at_its_step() -> None:
    text = "neumo: 1\nmodules:\n  b: {kind: IllStated}\ngraphs:\n  g:\n    steps: {x: b()}\n"
    error = mistake(text)
    assert error.code == "signature"
    assert str(error.where) == "<text>:6:16"
