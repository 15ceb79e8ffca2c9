"""Augmentation: what changes, what must not, and exact sizes."""

import numpy as np
import pytest
import torch

from neumo.asr import SpecAugment, SpecCutout, SpeedPerturb
from neumo.asr.torch.augment import random_stretches
from neumo.backends.torch.registry import build
from neumo.types import ConfigError


@pytest.mark.parametrize("spec", [SpecAugment(), SpecCutout()])
def test_masks_act_in_training_only(spec):
    torch.manual_seed(1)
    mel, mel_len = torch.ones(4, 64, 300), torch.tensor([300, 200, 100, 1])
    layer = build(spec)
    assert layer.eval()(mel, mel_len) is mel
    masked = layer.train()(mel, mel_len)
    assert masked.shape == mel.shape
    assert set(masked.unique().tolist()) == {0.0, 1.0}
    assert mel.all()


def test_no_masks_change_nothing():
    mel, mel_len = torch.randn(2, 8, 9), torch.tensor([9, 5])
    assert torch.equal(build(SpecAugment(freq_masks=0, time_masks=0))(mel, mel_len), mel)
    assert torch.equal(build(SpecCutout(masks=0))(mel, mel_len), mel)


def test_masks_differ_between_utterances_and_stay_within_their_widths():
    torch.manual_seed(2)
    layer = build(SpecAugment(freq_masks=1, freq_width=5, time_masks=1, time_width=7))
    masked = layer(torch.ones(200, 20, 50), torch.full((200,), 50)) == 0
    bands, frames = masked.all(2).sum(1), masked.all(1).sum(1)
    assert set(bands.tolist()) == set(range(6))
    assert set(frames.tolist()) == set(range(8))


def test_stretches_stay_inside_the_utterance_and_within_its_share():
    torch.manual_seed(3)
    lengths = torch.tensor([0, 1, 10, 40])
    stretches = random_stretches(lengths.repeat(100), 3, 20, 40, share=0.5)
    widths = stretches.sum(-1).view(100, 4, 3).amax((0, 2))
    assert widths.tolist() == [0, 0, 5, 20]
    for row, length in enumerate(lengths.tolist() * 100):
        assert not stretches[row, :, length:].any()


def test_every_width_is_equally_likely():
    torch.manual_seed(4)
    widths = random_stretches(torch.full((6000,), 100), 1, 5, 100).sum(-1).flatten()
    counts = torch.bincount(widths, minlength=6)
    assert counts.numel() == 6
    assert (counts - 1000).abs().max() < 120


@pytest.mark.parametrize("factor", [0.5, 0.9, 0.95, 1.0, 1.07, 1.1, 2.0])
@pytest.mark.parametrize("samples", [0, 1, 2, 9, 10, 11, 1000])
def test_the_new_length_is_exact(factor, samples):
    from fractions import Fraction

    audio, audio_len = torch.randn(2, samples), torch.tensor([samples, samples // 2])
    changed, changed_len = build(SpeedPerturb(factors=(factor,)))(audio, audio_len)
    exact = [-(-Fraction(n) // Fraction(str(factor))) for n in audio_len.tolist()]
    assert changed_len.tolist() == exact
    assert changed.shape == (2, exact[0])
    assert not changed[1, exact[1] :].any()


def test_speed_changes_nothing_in_evaluation():
    audio, audio_len = torch.randn(2, 100), torch.tensor([100, 50])
    changed = build(SpeedPerturb()).eval()(audio, audio_len)
    assert changed.audio is audio
    assert changed.audio_len is audio_len


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_tone_is_played_at_the_new_speed(factor):
    time = np.arange(16000) / 16000
    tone = torch.tensor(np.sin(2 * np.pi * 1000 * time), dtype=torch.float32)[None]
    changed, changed_len = build(SpeedPerturb(factors=(factor,)))(tone, torch.tensor([16000]))
    expected = np.sin(2 * np.pi * 1000 * factor * np.arange(int(changed_len[0])) / 16000)
    assert np.abs(changed[0].numpy() - expected)[200:-200].max() < 1e-3


def test_each_utterance_draws_its_own_speed_from_the_seed():
    audio, audio_len = torch.randn(30, 400), torch.full((30,), 400)
    layer = build(SpeedPerturb(factors=(0.8, 1.0, 1.25)))
    torch.manual_seed(5)
    first, first_len = layer(audio, audio_len)
    torch.manual_seed(5)
    second, second_len = layer(audio, audio_len)
    assert set(first_len.tolist()) == {500, 400, 320}
    assert torch.equal(first, second)
    assert torch.equal(first_len, second_len)
    unchanged = (first_len == 400).nonzero().squeeze(1)
    assert torch.equal(first[unchanged, :400], audio[unchanged])


def test_a_perturbed_utterance_does_not_depend_on_its_batch():
    layer = build(SpeedPerturb(factors=(0.9,)))
    audio = torch.randn(2, 3000)
    together, lengths = layer(audio, torch.tensor([1234, 3000]))
    alone, _ = layer(audio[:1, :1234], torch.tensor([1234]))
    assert torch.allclose(together[0, : lengths[0]], alone[0], atol=1e-6)


@pytest.mark.parametrize("factors", [(), (0.0,), (1.005,), (20.0,)])
def test_speeds_that_cannot_be_meant_are_refused(factors):
    with pytest.raises(ConfigError):
        SpeedPerturb(factors=factors)


def test_masks_that_cannot_be_meant_are_refused():
    for wrong in [{"freq_masks": -1}, {"time_share": 2.0}]:
        with pytest.raises(ConfigError):
            SpecAugment(**wrong)
    with pytest.raises(ConfigError):
        SpecCutout(masks=-1)
