"""Transducers in graphs, recipes and trainings, and against checkpoints of the original."""

import json

import numpy as np
import pytest
import torch

from neumo.asr import (
    JointNetwork,
    PredictionNetwork,
    TDTLoss,
    TransducerBeam,
    TransducerGreedy,
    TransducerLoss,
)
from neumo.asr.torch.transducer_loss import Objective, transducer_losses
from neumo.backends.torch.registry import build
from neumo.engine import Adam, NeuralFactory
from neumo.graph import Graph
from neumo.graph.yaml import load_recipe
from neumo.types import PortError, Vocab

from .test_conformer import load as encoder_of
from .transducer_toys import ABC, Voiced, networks, recognising, training

DURATIONS = (0, 1, 2, 3, 4)


# Checkpoints of the original


@pytest.fixture(scope="module", params=["fastconformer_rnnt_small", "fastconformer_hybrid_tdt_ctc_small"])
def original(request, checkpoints, weights_of):
    """The lattice of a checkpoint over its stored encodings, with its arrays and what it decoded."""
    told = json.loads((checkpoints / f"{request.param}.json").read_text())
    arrays = {
        key: torch.tensor(value) for key, value in np.load(checkpoints / f"{request.param}.npz").items()
    }
    vocab, durations = Vocab(told["cfg"]["joint"]["vocabulary"]), DURATIONS if "tdt" in request.param else ()
    prediction = build(PredictionNetwork(vocab, width=48)).eval()
    joint = build(JointNetwork(vocab, 64, 48, 56, durations=durations)).eval()
    weights = weights_of(request.param)
    put(prediction, weights, {"embed": "decoder.prediction.embed", "lstm": "decoder.prediction.dec_rnn.lstm"})
    put(joint, weights, {"enc": "joint.enc", "pred": "joint.pred", "out": "joint.joint_net.2"})
    lattice = joint.requires_grad_(False)(arrays["enc"], prediction.requires_grad_(False)())
    return told, arrays, vocab, durations, lattice


def put(module, weights, names):
    """Load weights by the names of the original: every one of ours has one, and is of its shape."""
    layers = ((name, *name.split(".", 1)) for name in module.state_dict())
    module.load_state_dict({name: weights[f"{names[layer]}.{rest}"] for name, layer, rest in layers})


def close(ours, theirs, tolerance=1e-4):
    assert torch.all((ours - theirs).abs() <= tolerance * (1 + theirs.abs()))


def test_prediction_and_joint_network_are_those_of_the_original(original):
    _, arrays, _, _, lattice = original
    close(lattice.predictor.sequence(arrays["targets"]).transpose(1, 2), arrays["pred"])
    # It stores a log-softmax over labels and durations together.
    close(lattice.scores(arrays["targets"]).log_softmax(-1), arrays["joint"])


def test_the_losses_are_those_of_the_original(original):
    _, arrays, vocab, durations, lattice = original
    given = (arrays["targets"], arrays["enc_len"], arrays["target_len"])
    scores, lengths = lattice.scores(arrays["targets"]), (arrays["enc_len"], *given[::2])
    if not durations:
        close(transducer_losses(scores, *given), arrays["rnnt_pytorch"])
        found = build(TransducerLoss(vocab))(lattice, *lengths)
        close(found.loss, arrays["rnnt_pytorch"].mean())
        close(found.loss * 2 / arrays["target_len"].sum(), arrays["rnnt_loss"])  # it divides by labels
        return
    for sigma in (0.0, 0.02):
        expected = arrays[f"tdt_pytorch_sigma{sigma}"]
        close(transducer_losses(scores, *given, Objective(durations, sigma=sigma)), expected)
        close(build(TDTLoss(vocab, sigma=sigma))(lattice, *lengths).loss, expected.mean())


def test_greedy_decoding_is_that_of_the_original(original):
    told, arrays, vocab, durations, lattice = original
    found = build(TransducerGreedy(vocab, max_symbols=10))(lattice, arrays["enc_len"])
    for stored in (told["decode_greedy"], told["decode_greedy_batch"]):
        for row, count in enumerate(found.ids_len.tolist()):
            assert found.ids[row, :count].tolist() == stored["ids"][row]
            assert found.frames[row, :count].tolist() == stored["timestamp"][row]
        if not durations:  # with durations it scores labels with a softmax over both
            assert found.score.tolist() == pytest.approx(stored["score"], rel=1e-4)


def test_from_frames_to_text_it_is_the_original(original, checkpoints, weights_of):
    told, arrays, vocab, _, lattice = original
    encoder, _ = encoder_of(told["name"], checkpoints, weights_of)
    with torch.no_grad():
        encoded, encoded_len = encoder(arrays["mel"], arrays["mel_len"])
    found = build(TransducerGreedy(vocab))(lattice.module(encoded, lattice.predictor), encoded_len)
    for row, count in enumerate(found.ids_len.tolist()):
        text = "".join(vocab[label] for label in found.ids[row, :count].tolist())
        assert text.replace("\u2581", " ").strip() == told["decode_greedy"]["text"][row]


BEAMS = {
    "decode_beam": "best_first",
    "decode_tsd": "time",
    "decode_alsd": "alignment",
    "decode_maes": "adaptive",
    "decode_malsd_batch": "token",
}


@pytest.mark.parametrize("stored", BEAMS)
def test_beam_searches_are_those_of_the_original(original, stored):
    told, arrays, vocab, _, lattice = original
    if stored not in told:
        pytest.skip("the original has no such search with durations")
    decoder = build(TransducerBeam(vocab, beam=2, search=BEAMS[stored]))
    ids, ids_len, frames, score, *_ = decoder(lattice, arrays["enc_len"])
    assert [row[:count].tolist() for row, count in zip(ids, ids_len, strict=True)] == told[stored]["ids"]
    assert score.tolist() == pytest.approx(told[stored]["score"], rel=1e-4)
    if stored == "decode_malsd_batch":  # the others have other numbers than frames
        read = [row[:count].tolist() for row, count in zip(frames, ids_len, strict=True)]
        assert read == told[stored]["timestamp"]


# Graphs


@pytest.mark.parametrize(
    ("loss", "durations", "kind"),
    [
        (TransducerLoss(ABC), (), "lstm"),
        (TransducerLoss(ABC, fastemit=0.01, memory=0.01), (), "stateless"),
        (TDTLoss(ABC, sigma=0.02, omega=0.1), DURATIONS, "stateless"),
    ],
    ids=["lstm", "stateless", "durations"],
)
def test_a_training_learns_to_spell(loss, durations, kind):
    prediction, joint = networks(durations=durations, network=kind)
    factory = NeuralFactory(device="cpu", seed=1, progress=False, verify="first")
    factory.train(training(prediction, joint, loss), epochs=16, optimizer=Adam(lr=0.03))
    for decoder in (TransducerGreedy(ABC), TransducerBeam(ABC, beam=3)):
        found = factory.evaluate(recognising(prediction, joint, decoder))
        assert found["cer"] < 5.0, decoder


def test_in_bf16_the_networks_learn_and_the_loss_is_in_float32():
    prediction, joint = networks()
    factory = NeuralFactory(device="cpu", seed=1, progress=False, precision="bf16", verify="first")
    graph = training(prediction, joint, TransducerLoss(ABC))
    factory.train(graph, epochs=16, optimizer=Adam(lr=0.03))
    for decoder in (TransducerGreedy(ABC), TransducerBeam(ABC, search="adaptive")):
        assert factory.evaluate(recognising(prediction, joint, decoder))["cer"] < 5.0


def test_a_model_file_has_the_weights_under_their_names(tmp_path):
    prediction, joint = networks()
    graph = recognising(prediction, joint, TransducerGreedy(ABC))
    factory = NeuralFactory(device="cpu", seed=1, progress=False)
    factory.save(graph, tmp_path / "weights.safetensors")
    names = {name.split(".")[0] for name in factory.weights(graph)}
    assert names == {"prediction", "joint"}
    other = NeuralFactory(device="cpu", seed=2, progress=False)
    before = other.infer(graph)[0]["ids"]
    other.load(graph, tmp_path / "weights.safetensors")
    assert not np.array_equal(before, factory.infer(graph)[0]["ids"])
    assert np.array_equal(other.infer(graph)[0]["ids"], factory.infer(graph)[0]["ids"])


def test_what_does_not_fit_is_refused():
    batch = Voiced()()
    prediction, joint = networks()
    with pytest.raises(PortError, match="width"):
        joint(encoded=batch.encoded, predictor=PredictionNetwork(ABC, width=13)().predictor)
    with pytest.raises(PortError):
        joint(encoded=batch.encoded, predictor=PredictionNetwork(Vocab("acb"), width=12)().predictor)
    lattice = joint(encoded=batch.encoded, predictor=prediction().predictor).lattice
    target = {"lattice_len": batch.encoded_len, "targets": batch.text, "targets_len": batch.text_len}
    with pytest.raises(PortError, match="durations"):
        TDTLoss(ABC)(lattice=lattice, **target)
    with pytest.raises(PortError):
        TransducerLoss(ABC)(lattice=lattice, **{**target, "lattice_len": batch.text_len})
    with pytest.raises(PortError):
        TransducerGreedy(Vocab("cab"))(lattice=lattice, lattice_len=batch.encoded_len)
    _, timed = networks(durations=DURATIONS)
    lattice = timed(encoded=batch.encoded, predictor=prediction().predictor).lattice
    TransducerGreedy(ABC)(lattice=lattice, lattice_len=batch.encoded_len)
    with pytest.raises(PortError, match="durations"):
        TransducerBeam(ABC, search="alignment")(lattice=lattice, lattice_len=batch.encoded_len)


RECIPE = """
neumo: 1
vocabs:
  letters: {labels: " abc"}
modules:
  mel: {kind: MelSpectrogram, n_mels: 16}
  encoder: {kind: ConvEncoder, n_mels: 16, blocks: [{width: 8, kernel: 3, stride: 4}]}
  head: {kind: CTCHead, vocab: letters, width: 8}
  prediction: {kind: PredictionNetwork, vocab: letters, width: 12, dropout: 0.1}
  joint:
    kind: JointNetwork
    vocab: letters
    encoder_width: 8
    predictor_width: 12
    width: 16
    durations: [0, 1, 2]
  tdt: {kind: TDTLoss, vocab: letters, durations: [0, 1, 2], sigma: 0.02}
  ctc: {kind: CTCLoss, vocab: letters}
  both: {kind: LossSum, weights: {tdt: 0.7, ctc: 0.3}}
  greedy: {kind: TransducerGreedy, vocab: letters}
  beam: {kind: TransducerBeam, vocab: letters, beam: 2, n_best: 2}
  fast: {kind: GreedyCTC, vocab: letters}
graphs:
  train:
    mode: train
    inputs:
      audio: "Audio(rate=16000, peak=1.0, channels=1)[B, T]"
      audio_len: "Lengths(T)[B]"
      text: "Ids(letters)[B, U]"
      text_len: "Lengths(U)[B]"
    steps:
      frames: mel(audio=audio, audio_len=audio_len)
      states: encoder(mel=frames.mel, mel_len=frames.mel_len)
      labels: prediction()
      scores: joint(encoded=states.encoded, predictor=labels.predictor)
      first: tdt(lattice=scores.lattice, lattice_len=states.encoded_len, targets=text, targets_len=text_len)
      probs: head(encoded=states.encoded)
      second: >-
        ctc(log_probs=probs.log_probs, log_probs_len=states.encoded_len,
        targets=text, targets_len=text_len)
      sum: both(tdt=first.loss, ctc=second.loss, tdt_count=first.count, ctc_count=second.count)
    outputs: {loss: sum.loss}
  infer:
    mode: infer
    inputs: {audio: "Audio(rate=16000, peak=1.0, channels=1)[B, T]", audio_len: "Lengths(T)[B]"}
    steps:
      frames: mel(audio=audio, audio_len=audio_len)
      states: encoder(mel=frames.mel, mel_len=frames.mel_len)
      labels: prediction()
      scores: joint(encoded=states.encoded, predictor=labels.predictor)
      heard: greedy(lattice=scores.lattice, lattice_len=states.encoded_len)
      again: beam(lattice=scores.lattice, lattice_len=states.encoded_len)
      probs: head(encoded=states.encoded)
      quick: fast(log_probs=probs.log_probs, log_probs_len=states.encoded_len)
    outputs:
      {ids: heard.ids, ids_len: heard.ids_len, frames: heard.frames, best: again.best_ids, ctc: quick.ids}
"""


def test_a_recipe_has_a_hybrid_of_transducer_and_ctc_for_training_and_inference(tmp_path):
    from neumo.engine.passes.dry_run import dry_run
    from neumo.graph.yaml import save_recipe

    recipe = load_recipe(RECIPE)
    train, infer = recipe.graphs["train"], recipe.graphs["infer"]
    assert train.modules["joint"] is infer.modules["joint"]
    assert train.modules["prediction"] is infer.modules["prediction"]
    save_recipe(recipe, tmp_path / "again.yaml")
    assert load_recipe(tmp_path / "again.yaml").graphs["train"] == train
    trained = dry_run(train)
    assert trained.gradient > 0
    assert dry_run(infer).calls == 8


def test_the_rules_find_nothing_in_the_graphs_of_a_transducer():
    recipe = load_recipe(RECIPE)
    for graph in recipe.graphs.values():
        assert not graph.findings()


@pytest.mark.parametrize("bias", [0.0, 1000.0], ids=["labels", "silence"])
def test_a_transducer_transcribes_with_times_and_confidences(bias):
    from neumo.asr.transcribe import Transcriber

    recipe = load_recipe(RECIPE)
    factory = NeuralFactory(device="cpu", seed=3, progress=False)
    whole = recipe.graphs["infer"]
    graph = Graph("infer", "infer", {name: whole.outputs[name] for name in ("ids", "ids_len")})
    weights = factory.weights(graph)
    blank = weights["joint.out.bias"].copy()
    blank[4] += bias
    factory.load_weights(graph, {**weights, "joint.out.bias": blank})
    noise = (0.1 * np.random.default_rng(1).standard_normal(16000)).astype(np.float32)
    (found,) = Transcriber(factory, graph, times=True)([noise])
    if bias:
        assert (found.text, found.words) == ("", [])
        return
    assert found.words
    for word in found.words:
        assert 0 <= word.start < word.end <= 1.0
        assert 0 < word.confidence < 1


def test_a_model_file_hears_what_the_model_heard(tmp_path):
    from neumo.hub import load_model, save_model

    recipe = load_recipe(RECIPE)
    factory = NeuralFactory(device="cpu", seed=3, progress=False)
    save_model(tmp_path / "model.neumo", recipe, factory)
    noise = (0.1 * np.random.default_rng(1).standard_normal((2, 8000))).astype(np.float32)
    given = {"audio": noise, "audio_len": np.array([8000, 5000])}
    (heard,) = factory.infer(recipe.graphs["infer"], given)
    again = load_model(tmp_path / "model.neumo", device="cpu", seed=9).infer(given)
    assert heard["ids_len"].sum() > 0
    for name in ("ids", "ids_len", "frames", "best"):
        assert np.array_equal(heard[name], again[name]), name
