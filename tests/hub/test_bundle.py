"""Models in one file: saved, loaded elsewhere, refused where they are not what they say."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from neumo.engine import NeuralFactory
from neumo.graph.inputs import inputs
from neumo.graph.yaml import load_recipe
from neumo.hub import Archive, Card, load_model, save_model
from neumo.hub.archive import write_archive
from neumo.types import B, F, Lengths, Mel, T
from neumo.types.errors import CheckpointError, ConfigError, PortError

RECIPE = """
neumo: 1
vocabs:
  letters: {labels: " abc"}
modules:
  data: {kind: SpeechData, manifest: /nowhere/train.jsonl, vocab: letters}
  mel: {kind: MelSpectrogram, n_mels: 32}
  encoder: {kind: ConvEncoder, preset: digits, width: 32, n_mels: 32}
  head: {kind: CTCHead, vocab: letters, width: 32}
  loss: {kind: CTCLoss, vocab: letters}
  decoder: {kind: GreedyCTC, vocab: letters}
graphs:
  train:
    mode: train
    steps:
      batch: data()
      frames: mel(audio=batch.audio, audio_len=batch.audio_len)
      states: encoder(mel=frames.mel, mel_len=frames.mel_len)
      scores: head(encoded=states.encoded)
      ctc: >-
        loss(log_probs=scores.log_probs, log_probs_len=states.encoded_len,
        targets=batch.text, targets_len=batch.text_len)
    outputs: {loss: ctc.loss}
  infer:
    mode: infer
    inputs: {audio: "Audio(rate=16000)[B, T]", audio_len: "Lengths(T)[B]"}
    steps:
      frames: mel(audio=audio, audio_len=audio_len)
      states: encoder(mel=frames.mel, mel_len=frames.mel_len)
      scores: head(encoded=states.encoded)
      heard: decoder(log_probs=scores.log_probs, log_probs_len=states.encoded_len)
    outputs: {ids: heard.ids, ids_len: heard.ids_len, scores: scores.log_probs}
"""
USED = "graphs: {infer: {steps: {a: x()}}}\n"
FRONT_END = {"rate": 16000, "hop": 160, "scale": "ln", "n_mels": 32}
AUDIO = {
    "audio": np.random.default_rng(1).normal(0, 0.1, (2, 16000)).astype(np.float32),
    "audio_len": np.array([16000, 9000]),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    recipe = load_recipe(RECIPE)
    factory = NeuralFactory(device="cpu", seed=5, progress=False)
    path = tmp_path_factory.mktemp("made") / "toy.neumo"
    save_model(path, recipe, factory, card=Card(name="toy", licence="CC0-1.0", metrics={"wer": 0.5}))
    return path, recipe, factory


def changed(path: Path, to: Path, **members: bytes) -> Path:
    archive = Archive(path)
    old = {name: archive.read(name) for name in archive.names if name != "checksums.json"}
    write_archive(to, {**old, **{name.replace("__", "."): content for name, content in members.items()}})
    return to


def test_a_loaded_model_computes_what_the_saved_one_did(made):
    path, recipe, factory = made
    expected = factory.infer(recipe.graphs["infer"], AUDIO)[0]
    found = load_model(path, device="cpu", seed=5).infer(AUDIO)
    assert set(found) == {"ids", "ids_len", "scores"}
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_the_training_data_need_not_be_there(made):
    model = load_model(made[0])
    assert list(model.graphs) == ["infer"]
    assert "data" not in model.graph.modules
    assert "/nowhere" not in Archive(made[0]).text("recipe.yaml")


def test_the_whole_recipe_is_kept_for_the_record(made):
    text = Archive(made[0]).text("assets/training.yaml")
    assert set(load_recipe(text).graphs) == {"train", "infer"}


def test_the_card_comes_back(made):
    card = load_model(made[0]).card
    assert (card.name, card.licence, card.metrics) == ("toy", "CC0-1.0", {"wer": 0.5})
    assert card.parameters == made[2].count_parameters(made[1].graphs["infer"])
    assert {"neumo", "python", "torch"} <= set(card.versions)
    assert card.created.endswith("+00:00")
    assert "CC0-1.0" in card.text()


def test_every_setting_is_written_so_that_later_defaults_change_nothing(made):
    assert "preemphasis: 0.97" in Archive(made[0]).text("recipe.yaml")


def test_saving_again_replaces_the_file_whole(made, tmp_path):
    path = tmp_path / "m.neumo"
    path.write_bytes(b"old")
    save_model(path, made[1], made[2])
    assert load_model(path).card.name == "m"
    assert list(tmp_path.iterdir()) == [path]


def test_a_graph_alone_can_be_saved(made, tmp_path):
    save_model(tmp_path / "g.neumo", made[1].graphs["infer"], made[2])
    assert list(load_model(tmp_path / "g.neumo").graphs) == ["infer"]


def test_a_recipe_that_could_not_be_used_is_refused(made, tmp_path):
    with pytest.raises(ConfigError, match="no graph of the recipe has open inputs"):
        save_model(tmp_path / "m.neumo", made[1].graphs["train"], made[2])


def test_transcribe_takes_paths_and_arrays(made, tmp_path):
    import soundfile

    path = tmp_path / "a.wav"
    soundfile.write(path, AUDIO["audio"][0], 16000, subtype="FLOAT")
    model = load_model(made[0], seed=5)
    by_path, by_array = model.transcribe([path, AUDIO["audio"][0]])
    assert by_path.text == by_array.text
    assert model.transcribe(str(path))[0].text == by_path.text
    assert model.transcribe(AUDIO["audio"][0])[0].text == by_path.text


def test_weights_of_another_model_are_refused(made, tmp_path):
    from safetensors.numpy import save

    weights = save({"encoder.weight": np.zeros(3, np.float32)})
    with pytest.raises(CheckpointError) as caught:
        load_model(changed(made[0], tmp_path / "m.neumo", weights__safetensors=weights))
    assert "do not fit its graphs" in caught.value.what
    assert "missing" in str(caught.value)


def test_weights_that_are_no_safetensors_are_refused(made, tmp_path):
    import pickle

    bad = changed(made[0], tmp_path / "m.neumo", weights__safetensors=pickle.dumps({"a": 1}))
    with pytest.raises(CheckpointError, match="do not fit"):
        load_model(bad)


@pytest.mark.parametrize(
    "recipe",
    [
        "",
        "[]",
        "neumo: 1\ngraphs: {}\n",
        "neumo: 1\nmodules: {x: {kind: os.system, command: 'touch CANARY'}}\n" + USED,
        "neumo: 1\nmodules: {x: {kind: subprocess.Popen, args: ['touch', CANARY]}}\n" + USED,
        "neumo: 1\nmodules: !!python/object/apply:os.system ['touch CANARY']\n",
        "neumo: 1\na: &a [x]\n" + "".join(f"b{i}: &b{i} [*a, *a]\n" for i in range(5)),
        "neumo: 1\ngraphs: {infer: {steps: {a: \"__import__('os').system('touch CANARY')\"}}}\n",
    ],
)
def test_a_recipe_in_the_file_runs_nothing_and_gives_one_kind_of_error(made, tmp_path, monkeypatch, recipe):
    monkeypatch.chdir(tmp_path)
    bad = changed(
        made[0], tmp_path / "m.neumo", recipe__yaml=recipe.replace("CANARY", str(tmp_path / "c")).encode()
    )
    with pytest.raises(CheckpointError) as caught:
        load_model(bad)
    assert "m.neumo" in caught.value.what
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("change", [{"name": 3}, {"metrics": []}, {"parameters": "many"}])
def test_a_card_with_wrong_values_is_refused(made, tmp_path, change):
    card = {**Archive(made[0]).card(), **change}
    with pytest.raises(CheckpointError, match="card"):
        load_model(changed(made[0], tmp_path / "m.neumo", card__json=json.dumps(card).encode()))


def test_a_card_with_unknown_keys_is_read(made, tmp_path):
    card = {**Archive(made[0]).card(), "colour": "blue"}
    assert (
        load_model(changed(made[0], tmp_path / "m.neumo", card__json=json.dumps(card).encode())).card.name
        == "toy"
    )


def test_no_member_is_a_pickle(made):
    with zipfile.ZipFile(made[0]) as archive:
        for name in archive.namelist():
            assert not archive.read(name).startswith(b"\x80"), name


def test_looking_at_a_file_needs_no_framework(made):
    code = (
        "import sys; from neumo.hub.archive import Archive; Archive(sys.argv[1]).card();"
        "print('torch' in sys.modules)"
    )
    environment = {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code, str(made[0])],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.stdout.strip() == "False", done.stderr


def test_a_loaded_model_refuses_what_it_was_not_trained_on(made):
    path, _, _ = made
    card = load_model(path, device="cpu").card
    assert card.learned["encoder"]["mel"]["scale"] == "ln"
    assert "learned  encoder.mel" in card.text()
    encoder = load_model(path, device="cpu").graph.modules["encoder"]
    mel = Mel(**{**FRONT_END, "scale": "log10"})
    values = inputs(mel=mel[B, F(32), T], mel_len=Lengths(T)[B])
    with pytest.raises(PortError) as caught:
        encoder(mel=values.mel, mel_len=values.mel_len)
    text = " ".join(str(caught.value).split())
    assert "scale is log10, not ln" in text
    assert "learned in training (toy.neumo)" in text
    right = inputs(mel=Mel(**FRONT_END)[B, F(32), T], mel_len=Lengths(T)[B])
    assert encoder(mel=right.mel, mel_len=right.mel_len)
    fresh = load_recipe(RECIPE).modules["encoder"]
    assert fresh(mel=values.mel, mel_len=values.mel_len)


def test_what_was_frozen_has_learned_nothing_when_it_is_saved(tmp_path):
    recipe = load_recipe(RECIPE)
    factory = NeuralFactory(device="cpu", progress=False)
    factory.session.build({"encoder": recipe.modules["encoder"]})
    factory.freeze(recipe.modules["encoder"])
    learned = Archive(save_model(tmp_path / "model.neumo", recipe, factory)).card()["learned"]
    assert "encoder" not in learned


def test_weights_of_a_model_file_bring_along_what_they_learned(made):
    path, _, _ = made
    other = RECIPE.replace("n_mels: 32}\n  encoder", "n_mels: 32, hop: 320}\n  encoder")
    recipe = load_recipe(other)
    with pytest.raises(PortError, match="hop is 320, not 160"):
        NeuralFactory(device="cpu", progress=False).load(recipe.graphs["infer"], path)
    NeuralFactory(device="cpu", progress=False).load(load_recipe(RECIPE).graphs["infer"], path)


def test_a_card_that_says_nonsense_about_what_was_learned_is_refused(made, tmp_path):
    path, _, _ = made
    card = {**Archive(path).card(), "learned": {"encoder": 3}}
    wrong = changed(path, tmp_path / "wrong.neumo", card__json=json.dumps(card).encode())
    with pytest.raises(CheckpointError, match=r"what the modules of wrong\.neumo learned"):
        load_model(wrong, device="cpu")
