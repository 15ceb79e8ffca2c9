"""Augmentation: what changes, what must not, and exact sizes."""

import numpy as np
import pytest
import torch

from neumo.asr import CropOrPad, SpecAugment, SpecCutout, SpeedPerturb
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


@pytest.mark.parametrize(("share", "frames", "expected"), [(0.04, 250, 10), (0.04, 24, 0), (0.5, 1000, 20)])
def test_time_masks_adapt_their_number_to_the_utterance(share, frames, expected):
    torch.manual_seed(6)
    layer = build(SpecAugment(freq_masks=0, time_masks=share, time_width=1))
    most = 0
    for _ in range(60):
        masked = layer(torch.ones(8, 2, frames), torch.full((8,), frames)) == 0
        most = max(most, int(masked[:, 0].sum(1).max()))
    assert most <= expected
    assert most >= 0.6 * expected  # masks of 0 frames and masks that fall together leave fewer


def test_time_masks_adapt_their_width_to_the_utterance():
    torch.manual_seed(7)
    layer = build(SpecAugment(freq_masks=0, time_masks=1, time_width=0.05))
    masked = layer(torch.ones(600, 2, 400), torch.tensor([400, 100] * 300)) == 0
    widths = masked[:, 0].sum(1)
    assert widths[0::2].max() == 20
    assert widths[1::2].max() == 5
    assert set(widths[1::2].tolist()) == set(range(6))


def test_masks_of_an_utterance_without_frames_are_none():
    layer = build(SpecAugment(freq_masks=0, time_masks=0.1, time_width=0.1))
    assert layer(torch.ones(1, 2, 5), torch.tensor([0])).all()


@pytest.mark.parametrize(
    ("place", "expected", "lengths"),
    [
        ("centre", [[2, 3, 4], [0, 1, 0], [1, 2, 0]], [3, 3, 3]),
        ("start", [[1, 2, 3], [1, 0, 0], [1, 2, 0]], [3, 1, 2]),
        ("random", [[2, 3, 4], [0, 1, 0], [1, 2, 0]], [3, 3, 3]),
    ],
)
def test_utterances_become_as_long_as_wanted(place, expected, lengths):
    mel = torch.tensor([[1.0, 2, 3, 4, 5], [1, 9, 9, 9, 9], [1, 2, 9, 9, 9]])[:, None]
    found, found_len = build(CropOrPad(frames=3, place=place)).eval()(mel, torch.tensor([5, 1, 2]))
    if place != "start":  # (2 - 3) // 2 = -1: the odd zero stands before
        expected[2] = [0, 1, 2]
    assert found[:, 0].tolist() == expected
    assert found_len.tolist() == lengths


def test_a_random_place_is_anywhere_the_utterance_fits():
    torch.manual_seed(8)
    layer = build(CropOrPad(frames=3, place="random")).train()
    mel = torch.arange(1.0, 6.0).expand(300, 1, 5)
    longer = layer(mel, torch.full((300,), 5)).mel[:, 0]
    assert set(map(tuple, longer.tolist())) == {(1, 2, 3), (2, 3, 4), (3, 4, 5)}
    shorter = layer(mel, torch.full((300,), 2)).mel[:, 0]
    assert set(map(tuple, shorter.tolist())) == {(1, 2, 0), (0, 1, 2)}


@pytest.mark.parametrize("wrong", [{"time_masks": 2.5}, {"time_width": 40.0}])
def test_shares_above_one_are_refused(wrong):
    with pytest.raises(ConfigError, match="share"):
        SpecAugment(**wrong)
