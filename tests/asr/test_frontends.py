"""Linear spectrograms, cepstra and stacked frames against numpy, and the two ways of computing frames."""

import numpy as np
import pytest
import torch

from neumo.asr import LinearSpectrogram, MelCepstrum, MelSpectrogram, StackFrames
from neumo.backends.torch.registry import build
from neumo.graph.inputs import inputs
from neumo.types import MFCC, Audio, B, ConfigError, Lengths, Mel, PortError, Spectrogram, T

SPECS = [
    MelSpectrogram(),
    MelSpectrogram(length="floor", norm="all_features", pad_to=16),
    MelSpectrogram(length="ceil", pad_mode="reflect", power=1.0, norm="none", floor_mode="clamp", floor=1e-5),
    MelSpectrogram(rate=22050, hop=256, win=1024, n_fft=1024, n_mels=80, log=False, preemphasis=0.0),
    LinearSpectrogram(),
    LinearSpectrogram(power=1.0, log=True, norm="per_feature", n_fft=400, pad_mode="constant"),
    MelCepstrum(),
    MelCepstrum(n_mfcc=13, lifter=22, norm="per_feature", length="floor"),
]


def frames_of(audio, *, hop, win, n_fft, count):
    """Powers frame by frame: numpy, a periodic Hann window, mirrored ends."""
    window = np.zeros(n_fft)
    start = (n_fft - win) // 2
    window[start : start + win] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(win) / win)
    y = np.pad(audio, n_fft // 2, mode="reflect")
    return np.stack(
        [np.abs(np.fft.rfft(window * y[i * hop : i * hop + n_fft])) ** 2 for i in range(count)], axis=1
    )


def htk_filters(rate, n_fft, n_mels):
    """Triangles between equal steps of 2595 log10(1 + f / 700), each with the height 1."""
    steps = np.linspace(0, 2595 * np.log10(1 + rate / 2 / 700), n_mels + 2)
    edges = 700 * (10 ** (steps / 2595) - 1)
    hz = np.arange(n_fft // 2 + 1) * rate / n_fft
    rows = [np.interp(hz, edges[m : m + 3], [0, 1, 0], left=0, right=0) for m in range(n_mels)]
    return np.stack(rows)


def test_a_linear_spectrogram_is_the_power_of_the_fft():
    audio = np.random.default_rng(0).normal(size=5000)
    found, found_len = build(LinearSpectrogram())(torch.tensor(audio)[None], torch.tensor([5000]))
    expected = frames_of(audio, hop=160, win=320, n_fft=512, count=32)
    assert found_len.tolist() == [32]
    assert np.abs(found[0].numpy() - expected).max() < 1e-9
    magnitude = build(LinearSpectrogram(power=1.0))(torch.tensor(audio)[None], torch.tensor([5000]))
    assert np.abs(magnitude.spectrogram[0].numpy() - np.sqrt(expected)).max() < 1e-9


@pytest.mark.parametrize("lifter", [0, 22])
def test_a_cepstrum_is_the_cosine_transform_of_the_log_mels(lifter):
    audio = np.random.default_rng(1).normal(size=5000)
    spec = MelCepstrum(n_mels=40, n_mfcc=13, lifter=lifter)
    found, _ = build(spec)(torch.tensor(audio)[None], torch.tensor([5000]))
    powers = frames_of(audio, hop=160, win=400, n_fft=512, count=32)
    logs = np.log(htk_filters(16000, 512, 40) @ powers + 1e-6)
    # The DCT-II from its definition as a sum, orthonormal: sqrt(1 / N) for k = 0, else sqrt(2 / N).
    expected = np.zeros((13, 32))
    for k in range(13):
        for m in range(40):
            expected[k] += logs[m] * np.cos(np.pi * k * (2 * m + 1) / 80)
        expected[k] *= np.sqrt((1 if k == 0 else 2) / 40)
        if lifter:
            expected[k] *= 1 + lifter / 2 * np.sin(np.pi * (k + 1) / lifter)
    assert np.abs(found[0].numpy() - expected).max() < 1e-9


def test_all_coefficients_hold_what_the_mels_hold():
    audio, audio_len = torch.randn(1, 4000, dtype=torch.float64), torch.tensor([4000])
    spec = MelCepstrum()
    same = {
        name: getattr(spec, name) for name in ("win", "periodic", "mel_scale", "area_norm", "floor", "length")
    }
    mel = build(MelSpectrogram(**same, preemphasis=0.0, norm="none", pad_mode="reflect")).eval()
    bands, coefficients = mel(audio, audio_len).mel, build(spec)(audio, audio_len).mfcc
    assert torch.allclose(bands.square().sum(1), coefficients.square().sum(1))


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: type(spec).__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_blocks_and_whole_tensors_give_the_same(spec, dtype, monkeypatch):
    monkeypatch.setattr("neumo.nn.spectrum_blocks._BLOCK_BYTES", 40_000)  # a few frames in a block
    generator = torch.Generator().manual_seed(0)
    audio = torch.randn(4, 16000, generator=generator, dtype=dtype)
    audio_len = torch.tensor([16000, 9000, 57, 0])
    module = build(spec).eval()
    blocks, blocks_len = module(audio, audio_len)
    whole, whole_len = module(audio.clone().requires_grad_(), audio_len)
    assert whole.requires_grad
    assert blocks.shape == whole.shape
    assert blocks.is_contiguous()
    assert torch.equal(blocks_len, whole_len)
    scale = 1 + whole.abs()
    assert ((blocks - whole) / scale).abs().max() < (1e-4 if dtype == torch.float32 else 1e-10)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: type(spec).__name__)
def test_frames_are_the_same_alone_and_in_a_batch(spec):
    module = build(spec).eval()
    audio, audio_len = torch.randn(3, 9000, dtype=torch.float64), torch.tensor([1603, 9000, 57])
    together, lengths = module(audio, audio_len)
    for row, samples in enumerate(audio_len.tolist()):
        alone, _ = module(audio[row : row + 1, :samples], audio_len[row : row + 1])
        size = min(alone.shape[2], together.shape[2])
        assert torch.allclose(alone[0, :, :size], together[row, :, :size], atol=1e-9)
        assert not together[row, :, lengths[row] :].any()


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: type(spec).__name__)
@pytest.mark.parametrize("samples", [0, 1, 159, 160, 400])
def test_short_audio_gives_finite_frames(spec, samples):
    found, found_len = build(spec)(torch.randn(1, samples), torch.tensor([samples]))
    assert torch.isfinite(found).all()
    assert found_len.tolist() == [spec.frames(samples)]


def test_it_compiles_to_the_same():
    module = build(MelSpectrogram(n_mels=8)).eval()
    audio, audio_len = torch.randn(2, 3200), torch.tensor([3200, 2000])
    exported = torch.export.export(module, (audio, audio_len))
    assert torch.allclose(exported.module()(audio, audio_len)[0], module(audio, audio_len).mel, atol=1e-4)


def test_the_input_is_left_as_it_is():
    audio = torch.randn(1, 4000)
    before = audio.clone()
    build(MelSpectrogram(preemphasis=0.0))(audio, torch.tensor([2000]))
    assert torch.equal(audio, before)


def test_frames_are_stacked_with_those_behind_them():
    mel = torch.arange(1.0, 9.0).view(1, 2, 4)
    found = build(StackFrames(n_mels=2, frames=2))(mel, torch.tensor([3]))
    assert found.tolist() == [[[1, 2, 3, 0], [5, 6, 7, 0], [2, 3, 0, 0], [6, 7, 0, 0]]]
    assert torch.equal(build(StackFrames(n_mels=2, frames=1))(mel, torch.tensor([4])), mel)


def test_the_types_say_what_the_frames_are():
    given = inputs(audio=Audio(rate=16000, peak=1.0)[B, T], audio_len=Lengths(T)[B])
    cepstrum = MelCepstrum(n_mfcc=20)(audio=given.audio, audio_len=given.audio_len)
    element = cepstrum.mfcc.type.element
    assert isinstance(element, MFCC)
    assert (element.n_mfcc, element.n_mels, element.scale, element.hop) == (20, 64, "ln", 160)
    spectrogram = LinearSpectrogram(n_fft=400)(audio=given.audio, audio_len=given.audio_len).spectrogram
    assert type(spectrogram.type.element) is Spectrogram
    mel = MelSpectrogram()(audio=given.audio, audio_len=given.audio_len)
    stacked = StackFrames(n_mels=64, frames=3)(mel=mel.mel, mel_len=mel.mel_len)
    assert isinstance(stacked.mel.type.element, Mel)
    assert stacked.mel.type.element.n_mels == 192
    with pytest.raises(PortError):
        StackFrames(n_mels=80)(mel=mel.mel, mel_len=mel.mel_len)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (MelCepstrum, {"n_mfcc": 65}),
        (MelCepstrum, {"log": False}),
        (MelCepstrum, {"lifter": -1}),
        (MelCepstrum, {"fmax": 9000.0}),
        (LinearSpectrogram, {"win": 600}),
        (LinearSpectrogram, {"norm": "per_band"}),
        (StackFrames, {"frames": 0}),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(kind, settings):
    with pytest.raises(ConfigError, match=kind.__name__) as caught:
        kind(**settings)
    assert caught.value.code == "field"
