"""Padding changed the accuracy: one batch size gave another word error rate than the next.

What an utterance is turned into must not depend on what else is in its batch.
"""

import pytest
import torch

from neumo.asr import ConvEncoder, CTCHead, GreedyCTC, MelSpectrogram
from neumo.asr.presets import PRESETS
from neumo.backends.torch.registry import build
from neumo.types import Vocab

LETTERS = Vocab.english()
# The large nets with a part of their width here: the same layers, and seconds instead of minutes.
NARROW = {"jasper": 128, "citrinet": 40}
QUICK = [(name, NARROW.get(name.split("_")[0])) for name in PRESETS]
FULL = [pytest.param(name, None, marks=pytest.mark.slow) for name in PRESETS if name.startswith("jasper")]


def recogniser(preset, width=None, **mel):
    torch.manual_seed(7)
    spec = ConvEncoder.preset(preset, width=width)
    modules = [
        build(MelSpectrogram(n_mels=spec.n_mels, **mel)),
        build(spec),
        build(CTCHead(LETTERS, spec.width)),
    ]
    for layer in modules[1].modules():
        if isinstance(layer, torch.nn.BatchNorm1d):  # as after training: normalised padding is not zero
            torch.nn.init.uniform_(layer.running_mean, -0.1, 0.1)
            torch.nn.init.uniform_(layer.bias, -0.1, 0.1)
    return [module.eval() for module in modules]


@torch.no_grad()
def logits(modules, audio, audio_len):
    mel, encoder, head = modules
    encoded, encoded_len = encoder(*mel(audio, audio_len))
    return head(encoded), encoded_len


@pytest.mark.parametrize(("preset", "width"), QUICK + FULL)
def test_an_utterance_is_the_same_alone_and_beside_one_ten_times_longer(preset, width):
    modules = recogniser(preset, width)
    audio, audio_len = torch.randn(2, 32000), torch.tensor([3200, 32000])
    together, lengths = logits(modules, audio, audio_len)
    alone, alone_len = logits(modules, audio[:1, :3200], audio_len[:1])
    assert lengths[0] == alone_len[0] == alone.shape[1]
    assert (together[0, : lengths[0]] - alone[0]).abs().max() < 1e-5
    first, second = (logits(modules, audio[rows], audio_len[rows])[0] for rows in ([0, 1], [1, 0]))
    assert (first[0, : lengths[0]] - second[1, : lengths[0]]).abs().max() < 1e-5


@pytest.mark.parametrize("length", ["ceil", "floor+1", "floor"])
@pytest.mark.parametrize("pad_mode", ["reflect", "constant"])
@pytest.mark.parametrize("pad_to", [0, 16])
def test_no_setting_of_the_front_end_lets_padding_in(length, pad_mode, pad_to):
    modules = recogniser("digits", length=length, pad_mode=pad_mode, pad_to=pad_to)
    audio, audio_len = torch.randn(2, 32000), torch.tensor([3333, 32000])
    together, lengths = logits(modules, audio, audio_len)
    alone, _ = logits(modules, audio[:1, :3333], audio_len[:1])
    assert (together[0, : lengths[0]] - alone[0, : lengths[0]]).abs().max() < 1e-5


def test_batches_of_1_and_of_16_give_the_same_texts_in_any_order():
    modules = recogniser("digits")
    greedy = build(GreedyCTC(LETTERS))
    audio, audio_len = torch.randn(16, 16000), torch.randint(400, 16001, (16,))

    def texts(rows):
        longest = int(audio_len[rows].max())
        ids, ids_len, _ = greedy(*logits(modules, audio[rows, :longest], audio_len[rows]))
        return {row: ids[n, : ids_len[n]].tolist() for n, row in enumerate(rows)}

    one_by_one = {row: text for row in range(16) for row, text in texts([row]).items()}
    assert one_by_one == texts(list(range(16)))
    assert one_by_one == texts(audio_len.argsort().tolist())
