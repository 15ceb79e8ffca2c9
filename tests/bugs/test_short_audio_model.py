"""Clips shorter than a window ended the process; filters counted other lengths than the model."""

import dataclasses

import pytest
import torch

from neumo.asr import ConvEncoder, CTCHead, CTCLoss, GreedyCTC, MelSpectrogram
from neumo.asr.presets import PRESETS
from neumo.backends.torch.registry import build
from neumo.types import T, Vocab

LETTERS = Vocab.english()
RULES = {"ceil": "reflect", "floor+1": "reflect", "floor": "constant"}


def thin(preset):
    """A preset of the same depth, kernels and strides with a few channels."""
    spec = ConvEncoder.preset(preset)
    return dataclasses.replace(
        spec, blocks=tuple(dataclasses.replace(block, width=4) for block in spec.blocks)
    )


# Presets that differ in their width only are one here.
DISTINCT = list({thin(preset).blocks: preset for preset in PRESETS}.values())


@pytest.mark.parametrize("preset", DISTINCT)
@pytest.mark.parametrize("length", RULES)
@pytest.mark.parametrize("samples", [1, 10, 100, 399])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_short_audio_goes_through_the_whole_model(preset, length, samples, mode):
    spec = thin(preset)
    mel = MelSpectrogram(n_mels=spec.n_mels, length=length, pad_mode=RULES[length])
    modules = [build(mel), build(spec), build(CTCHead(LETTERS, 4))]
    for module in modules:
        module.train(mode == "train")
    encoded, encoded_len = modules[1](*modules[0](torch.randn(1, samples), torch.tensor([samples])))
    log_probs = modules[2](encoded)
    assert torch.isfinite(log_probs).all()
    ids, ids_len, _ = build(GreedyCTC(LETTERS))(log_probs, encoded_len)
    assert ids.shape[0] == len(ids_len) == 1
    loss, infeasible, _ = build(CTCLoss(LETTERS))(
        log_probs, encoded_len, torch.tensor([[1, 2, 3]]), torch.tensor([3])
    )
    loss.backward()
    assert torch.isfinite(loss)
    assert infeasible.tolist() == [int(encoded_len[0]) < 3]
    assert all(
        torch.isfinite(weight.grad).all() for weight in modules[1].parameters() if weight.grad is not None
    )


@pytest.mark.parametrize("samples", [1, 10, 100, 399])
def test_short_audio_beside_long_audio_leaves_the_long_one_alone(samples):
    modules = [build(MelSpectrogram()).eval(), build(ConvEncoder.preset("digits")).eval()]
    audio = torch.randn(2, 8000)
    with torch.no_grad():
        together, lengths = modules[1](*modules[0](audio, torch.tensor([samples, 8000])))
        alone, _ = modules[1](*modules[0](audio[1:], torch.tensor([8000])))
    assert torch.isfinite(together).all()
    assert lengths.tolist() == [-(-(samples // 160 + 1) // 2), 26]
    assert (together[1] - alone[0]).abs().max() < 1e-5


@pytest.mark.parametrize("preset", DISTINCT)
@pytest.mark.parametrize("length", RULES)
def test_the_type_states_the_real_length_of_short_audio(preset, length):
    """A filter asks the signatures, so it cannot differ from the model: 0.05 to 0.30 s in steps of 10 ms."""
    spec = thin(preset)
    mel = MelSpectrogram(n_mels=spec.n_mels, length=length, pad_mode=RULES[length])
    front_end, encoder = build(mel).eval(), build(spec).eval()
    frames = mel.signature().gives["mel_len"].element.of
    encoded = spec.signature().gives["encoded_len"].element.of
    for milliseconds in range(50, 301, 10):
        samples = 16 * milliseconds
        stated = encoded.evaluate({T.symbol: frames.evaluate({T.symbol: samples})})
        with torch.no_grad():
            real, real_len = encoder(*front_end(torch.randn(1, samples), torch.tensor([samples])))
        assert real.shape[2] == real_len[0] == stated


def test_a_composed_graph_states_the_same_length():
    from neumo.graph.inputs import inputs
    from neumo.types import Audio, B, Lengths

    given = inputs(audio=Audio(rate=16000)[B, T], audio_len=Lengths(T)[B])
    features = MelSpectrogram()(audio=given.audio, audio_len=given.audio_len)
    encoded = ConvEncoder.preset("quartznet_15x5")(mel=features.mel, mel_len=features.mel_len)
    size = encoded.encoded_len.type.element.of
    (samples,) = size.symbols()
    for milliseconds in range(50, 301, 10):
        assert size.evaluate({samples: 16 * milliseconds}) == -(-(16 * milliseconds // 160 + 1) // 2)
