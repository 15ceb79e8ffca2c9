"""`neumo train` and `neumo evaluate`: from a recipe and its data to a model file and its error rates."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from neumo.hub import load_model

from .runner import neumo, process
from .toy_speech import make_toy, speak


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    return make_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def run(toy) -> Path:
    """A finished training of the toy, made by the command as a user calls it."""
    folder = toy.parent / "run"
    result = process("train", str(toy), "--folder", str(folder))
    assert result.code == 0, result.err
    (folder / "out.txt").write_text(result.out)
    (folder / "err.txt").write_text(result.err)
    return folder


@pytest.fixture
def seen(monkeypatch, toy) -> None:
    monkeypatch.chdir(toy.parent)


def test_the_data_report_comes_first_and_the_model_last(run):
    lines = (run / "out.txt").read_text().splitlines()
    assert "train.jsonl: 32 entries" in lines[0]
    assert lines[-1].startswith(f"saved {run}/model.neumo (0.")
    assert "epoch 8/8" in (run / "err.txt").read_text()
    assert "epoch" not in (run / "out.txt").read_text()


def test_the_run_folder_holds_recipe_log_checkpoints_and_model(run):
    assert {"recipe.yaml", "metrics.jsonl", "checkpoints", "model.neumo"} <= set(os.listdir(run))


def test_it_learned_what_it_was_told(run, toy, capsys):
    result = neumo(
        capsys, "evaluate", str(run / "model.neumo"), "--manifest", str(toy.parent / "dev.jsonl"), "--json"
    )
    found = json.loads(result.out)
    assert found["words"]["rate"] < 0.6
    counts = found["words"]
    assert counts["hits"] + counts["substitutions"] + counts["deletions"] == counts["reference"] > 8


def test_the_card_tells_data_and_metrics(run):
    card = load_model(run / "model.neumo").card
    assert card.name == "run"
    assert "32 utterances" in card.data["data"]
    assert 0 <= card.metrics["wer"] <= 1
    assert card.parameters > 1000


def test_a_second_training_in_the_folder_is_refused(run, toy, capsys):
    result = neumo(capsys, "train", str(toy), "--folder", str(run))
    assert result.code == 1
    assert "holds a training already" in result.err
    assert "--resume" in result.err


def test_resume_goes_on_where_the_training_ended(toy, tmp_path, capsys):
    folder = str(tmp_path / "run")
    assert neumo(capsys, "train", str(toy), "train.epochs=1", "--folder", folder, "--json").code == 0
    found = json.loads(
        neumo(capsys, "train", str(toy), "train.epochs=2", "--folder", folder, "--resume", "--json").out
    )
    assert found["steps"] == 32
    assert [row["epoch"] for row in found["history"]] in ([0, 1], [1, 2])


def test_json_is_all_that_is_printed(toy, tmp_path, capsys):
    result = neumo(capsys, "train", str(toy), "train.epochs=1", "--folder", str(tmp_path / "run"), "--json")
    found = json.loads(result.out)
    assert result.err == ""
    assert (found["steps"], found["stopped"]) == (16, "all epochs are done")
    assert found["data"]["data"]["kept"] == 32
    assert Path(found["model"]).is_file()
    assert isinstance(found["metrics"]["wer"], float)


def test_overrides_reach_the_training(toy, tmp_path, capsys):
    words = ["train.epochs=1", "train.max_steps=3", "modules.encoder.width=32", "modules.head.width=32"]
    result = neumo(capsys, "train", str(toy), *words, "--folder", str(tmp_path / "run"), "--json")
    assert json.loads(result.out)["steps"] == 3
    assert "width: 32" in (tmp_path / "run" / "recipe.yaml").read_text()


def test_an_unknown_override_is_refused_with_the_nearest_match(toy, tmp_path, capsys):
    result = neumo(capsys, "train", str(toy), "train.epoch=1", "--folder", str(tmp_path / "run"))
    assert result.code == 1
    assert "epochs" in result.err
    assert not (tmp_path / "run").exists()


def test_bad_data_stops_it_before_the_training_with_every_bad_line(toy, tmp_path, capsys):
    manifest = tmp_path / "train.jsonl"
    manifest.write_text('{"audio_filepath": "none.wav", "text": "a"}\n\n{"wav": "x"}\n{broken\n')
    result = neumo(
        capsys, "train", str(toy), f"modules.data.manifest={manifest}", "--folder", str(tmp_path / "run")
    )
    assert result.code == 1
    assert "train.jsonl:3" in result.err
    assert "train.jsonl:4" in result.err
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_wrong_graph_never_reaches_the_data(toy, tmp_path, capsys):
    text = toy.read_text().replace(
        "log_probs_len=states.encoded_len,\n        targets", "log_probs_len=frames.mel_len,\n        targets"
    )
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(text)
    result = neumo(capsys, "train", str(wrong), "--folder", str(tmp_path / "run"))
    assert result.code == 1
    assert "PortError[lengths]" in result.err
    assert not (tmp_path / "run").exists()


def test_a_recipe_without_a_graph_to_use_trains_and_says_that_there_is_no_model(toy, tmp_path, capsys):
    text = toy.read_text()
    start, end = text.index("  infer:\n"), text.index("factory:")
    recipe = toy.parent / "no_infer.yaml"
    recipe.write_text(text[:start] + text[end:])
    result = neumo(capsys, "train", str(recipe), "train.epochs=1", "--folder", str(tmp_path / "run"))
    assert result.code == 0
    assert "no model file" in result.out
    assert not (tmp_path / "run" / "model.neumo").exists()


def test_the_default_folder_is_named_by_the_recipe(toy, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert neumo(capsys, "train", str(toy), "train.max_steps=1", "train.evaluate=[]").code == 0
    assert (tmp_path / "runs" / "toy" / "model.neumo").is_file()


def test_evaluate_prints_counts_and_the_worst_utterances(run, toy, capsys):
    manifest = str(toy.parent / "dev.jsonl")
    result = neumo(capsys, "evaluate", str(run / "model.neumo"), "--manifest", manifest, "--show", "1")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].startswith("WER ")
    assert "substitutions" in lines[0]
    assert "normaliser none-1" in lines[0]
    assert lines[1].startswith("CER ")


def test_evaluate_takes_a_recipe_with_the_weights_of_its_run(run, toy, capsys):
    manifest = str(toy.parent / "dev.jsonl")
    from_recipe = neumo(capsys, "evaluate", str(run / "recipe.yaml"), "--folder", str(run), "--json")
    from_model = neumo(capsys, "evaluate", str(run / "model.neumo"), "--manifest", manifest, "--json")
    assert json.loads(from_recipe.out)["words"] == json.loads(from_model.out)["words"]


def test_evaluate_measures_each_manifest_in_a_table(run, toy, tmp_path, capsys):
    model, folder = str(run / "model.neumo"), toy.parent
    words = ["--manifest", str(folder / "dev.jsonl"), "--manifest", str(folder / "train.jsonl"), "--each"]
    out = neumo(capsys, "evaluate", model, *words, "--utterances", str(tmp_path / "u.jsonl")).out
    head, dev, train, *rest = out.splitlines()
    assert head.split() == ["set", "WER", "CER", "words", "sub", "ins", "del", "utterances"]
    assert (dev.split()[0], train.split()[0], rest[0]) == ("dev", "train", "normaliser none-1")
    alone = json.loads(neumo(capsys, "evaluate", model, *words[:2], "--json").out)
    both = json.loads(neumo(capsys, "evaluate", model, *words, "--json").out)["sets"]
    assert list(both) == ["dev", "train"]
    assert both["dev"] == alone
    assert dev.split()[1] == f"{alone['words']['rate']:.2%}"
    rows = [json.loads(line) for line in (tmp_path / "u.jsonl").read_text().splitlines()]
    assert [row["set"] for row in rows[:9]] == ["dev"] * 8 + ["train"]


def test_evaluate_measures_the_sets_that_a_recipe_names(run, toy, tmp_path, capsys):
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    recipe["evaluate"] = {"graphs": ["evaluate", "train"]}
    (run / "sets.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    out = neumo(capsys, "evaluate", str(run / "sets.yaml"), "--folder", str(run)).out
    assert [line.split()[0] for line in out.splitlines()[:3]] == ["set", "evaluate", "train"]


def test_evaluate_writes_a_line_for_each_utterance(run, toy, tmp_path, capsys):
    words = ["--manifest", str(toy.parent / "dev.jsonl"), "--utterances", str(tmp_path / "u.jsonl")]
    assert neumo(capsys, "evaluate", str(run / "model.neumo"), *words).code == 0
    rows = [json.loads(line) for line in (tmp_path / "u.jsonl").read_text().splitlines()]
    assert len(rows) == 8
    assert set(rows[0]) >= {"item", "reference", "hypothesis", "wer", "cer", "substitutions"}


def test_evaluate_without_a_manifest_says_what_to_add(run, capsys):
    result = neumo(capsys, "evaluate", str(run / "model.neumo"))
    assert result.code == 1
    assert "--manifest" in result.err


def test_evaluate_of_a_recipe_that_was_never_trained_says_so(toy, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    result = neumo(capsys, "evaluate", str(toy))
    assert result.code == 1
    assert f"neumo train {toy}" in result.err


def test_evaluate_fails_where_a_recording_cannot_be_read(run, toy, tmp_path, capsys):
    import soundfile

    soundfile.write(tmp_path / "a.wav", speak("a"), 16000)
    (tmp_path / "m.jsonl").write_text(
        '{"audio_filepath": "a.wav", "text": "a"}\n{"audio_filepath": "gone.wav", "text": "b"}\n'
    )
    result = neumo(capsys, "evaluate", str(run / "model.neumo"), "--manifest", str(tmp_path / "m.jsonl"))
    assert result.code == 1
    assert "1 of 2 recordings could not be read" in result.err
    assert "gone.wav" in result.err
