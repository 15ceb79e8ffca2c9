"""What whole models of the 2019 toolkit did: made from a configuration, saved to one file and loaded."""

from pathlib import Path

import numpy as np
import pytest

import neumo
from neumo import NeuralFactory
from neumo.graph.yaml import load_recipe
from neumo.hub import load_model, save_model

CONFIGURATION = """
neumo: 1
vocabs: {letters: {labels: " abcdefghijklmnopqrstuvwxyz'"}}
modules:
  mel: {kind: MelSpectrogram, n_mels: 16, dither: 0.0}
  encoder: {kind: ConvEncoder, n_mels: 16, blocks: [{width: 8, kernel: 5, stride: 2}, {width: 8, kernel: 1}]}
  head: {kind: CTCHead, vocab: letters, width: 8}
  loss: {kind: CTCLoss, vocab: letters}
graphs:
  train:
    mode: train
    inputs:
      audio: "Audio(rate=16000, peak=1.0)[B, T]"
      audio_len: "Lengths(T)[B]"
      text: "Ids(letters)[B, U]"
      text_len: "Lengths(U)[B]"
    steps: &steps
      feats: mel(audio=audio, audio_len=audio_len)
      enc: encoder(mel=feats.mel, mel_len=feats.mel_len)
      scores: head(encoded=enc.encoded)
      cost: >-
        loss(log_probs=scores.log_probs, log_probs_len=enc.encoded_len, targets=text, targets_len=text_len)
    outputs: {loss: cost.loss}
  infer:
    mode: infer
    inputs: {audio: "Audio(rate=16000, peak=1.0)[B, T]", audio_len: "Lengths(T)[B]"}
    steps:
      feats: mel(audio=audio, audio_len=audio_len)
      enc: encoder(mel=feats.mel, mel_len=feats.mel_len)
      scores: head(encoded=enc.encoded)
    outputs: {log_probs: scores.log_probs, log_probs_len: enc.encoded_len}
"""


@pytest.fixture
def recipe():
    return load_recipe(CONFIGURATION)


@pytest.fixture
def sound():
    generator = np.random.default_rng(5)
    audio = generator.uniform(-0.5, 0.5, (2, 4000)).astype(np.float32)
    return {"audio": audio, "audio_len": np.array([4000, 2500])}


def test_a_model_is_made_from_a_configuration(recipe):
    """A front-end, an encoder and a decoder, with weights in the last two, shared by both graphs."""
    infer, train = recipe.graphs["infer"], recipe.graphs["train"]
    assert list(infer.modules) == ["mel", "encoder", "head"]
    assert all(infer[name] is train[name] for name in infer)
    factory = NeuralFactory(device="cpu", progress=False)
    counts = {name: factory.count_parameters(module) for name, module in infer.modules.items()}
    assert counts["mel"] == 0
    assert counts["head"] == 8 * 29 + 29
    assert factory.count_parameters(infer) == sum(counts.values()) > counts["head"]


def test_a_saved_model_is_loaded_with_the_same_weights(recipe, sound, tmp_path: Path):
    factory = NeuralFactory(device="cpu", progress=False, seed=3)
    before = factory.infer(recipe.graphs["infer"], sound)[0]
    path = save_model(tmp_path / "small.neumo", recipe, factory)
    model = load_model(path, device="cpu")
    assert model.factory.count_parameters(model.graph) == factory.count_parameters(recipe.graphs["infer"])
    saved, loaded = factory.weights(recipe.graphs["infer"]), model.factory.weights(model.graph)
    assert saved.keys() == loaded.keys()
    assert all(np.array_equal(saved[name], loaded[name]) for name in saved)
    after = model.infer(sound)
    assert np.array_equal(before["log_probs"], after["log_probs"])


def test_a_new_vocabulary_keeps_the_encoder_and_makes_a_new_decoder(recipe, sound, tmp_path: Path):
    """Where the original took `new_vocab`, the encoder of the loaded model is composed with a new head."""
    factory = NeuralFactory(device="cpu", progress=False, seed=3)
    model = load_model(save_model(tmp_path / "small.neumo", recipe, factory), device="cpu")
    german = neumo.Vocab(" abcdefghijklmnopqrstuvwxyzäöüß", name="de")
    speech = neumo.inputs(
        audio=neumo.Audio(rate=16000, peak=1.0)[neumo.B, neumo.T], audio_len=neumo.Lengths(neumo.T)[neumo.B]
    )
    feats = model.graph["mel"](audio=speech.audio, audio_len=speech.audio_len)
    encoded = model.graph["encoder"](mel=feats.mel, mel_len=feats.mel_len)
    head = neumo.asr.CTCHead(german, width=8).named("head_de")
    graph = neumo.Graph("infer", "infer", {"log_probs": head(encoded=encoded.encoded).log_probs})
    found = model.factory.infer(graph, sound)[0]["log_probs"]
    assert found.shape[2] == len(german) + 1
    kept = model.factory.weights(model.graph)
    new = model.factory.weights(graph)
    encoder = [name for name in new if name.startswith("encoder.")]
    assert encoder
    assert all(np.array_equal(kept[name], new[name]) for name in encoder)


def test_a_training_graph_with_open_inputs_makes_one_step_by_hand(recipe, sound):
    """One update of the whole model, as the original's integration tests made."""
    torch = pytest.importorskip("torch")
    net = recipe.graphs["train"].to_torch(seed=1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    batch = {name: torch.from_numpy(array) for name, array in sound.items()}
    text = {"text": torch.tensor([[1, 2, 3], [4, 5, 0]]), "text_len": torch.tensor([3, 2])}
    before = {name: weight.detach().clone() for name, weight in net.named_parameters()}
    loss = net(**batch, **text)["loss"]
    loss.backward()
    optimizer.step()
    assert torch.isfinite(loss)
    changed = [name for name, weight in net.named_parameters() if not torch.equal(weight, before[name])]
    assert any(name.startswith("encoder.") for name in changed)
    assert any(name.startswith("head.") for name in changed)
