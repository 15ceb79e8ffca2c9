"""The front-end against the public checkpoints, against the formula in numpy, and on awkward audio."""

import warnings

import numpy as np
import pytest
import torch

from neumo.asr import MelSpectrogram
from neumo.backends.torch.registry import build
from neumo.types import ConfigError, T

GENERATIONS = {
    "3.0": {"length": "floor", "pad_mode": "constant"},
    "1.0": {"length": "floor+1", "pad_mode": "reflect"},
    "0.11": {"length": "ceil", "pad_mode": "reflect"},
}


def front_end(**settings):
    return build(MelSpectrogram(**settings)).eval()


def reference_signal(checkpoints):
    arrays = np.load(checkpoints / "input_16000.npz")
    return torch.tensor(arrays["signal"]), torch.tensor(arrays["length"])


@pytest.mark.parametrize(
    ("archive", "array", "settings"),
    [
        ("quartznet_small", "mel", GENERATIONS["3.0"]),
        ("quartznet_small", "mel_pad16", GENERATIONS["3.0"] | {"pad_to": 16}),
        ("jasper_dense_small", "mel", GENERATIONS["3.0"]),
        ("quartznet_small_011", "mel_pad16", GENERATIONS["0.11"] | {"pad_to": 16}),
        ("quartznet_small_011", "mel_conv_pad16", GENERATIONS["0.11"] | {"pad_to": 16, "periodic": True}),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_features_are_those_of_the_original(checkpoints, archive, array, settings, dtype):
    arrays = np.load(checkpoints / f"{archive}.npz")
    audio, audio_len = reference_signal(checkpoints)
    mel, mel_len = front_end(**settings)(audio.to(dtype), audio_len)
    expected = arrays[array][:, :, : mel.shape[2]]  # 3.0 keeps one frame more, which is never valid
    assert mel.dtype == dtype
    assert mel_len.tolist() == arrays[array.replace("mel", "mel_len")].tolist()
    assert np.abs(mel.numpy() - expected).max() < 1e-4
    assert not arrays[array][:, :, mel.shape[2] :].any()


def test_filters_and_window_are_those_stored_in_the_checkpoint(weights_of):
    weights = weights_of("quartznet_small")
    ours = front_end()
    assert (ours.filters - weights["preprocessor.featurizer.fb"][0]).abs().max() < 1e-8
    assert (ours.window - weights["preprocessor.featurizer.window"]).abs().max() < 1e-6


def formula(audio, *, length, pad_mode, preemphasis=0.97, hop=160, win=320, n_fft=512, n_mels=64, rate=16000):
    """The front-end for one utterance, written from the definitions, frame by frame."""
    y = np.concatenate([audio[:1], audio[1:] - preemphasis * audio[:-1]])
    y = np.pad(y, n_fft // 2, mode=pad_mode)
    window = np.zeros(n_fft)
    window[(n_fft - win) // 2 : (n_fft + win) // 2] = 0.5 - 0.5 * np.cos(
        2 * np.pi * np.arange(win) / (win - 1)
    )
    samples = len(audio)
    count = {"ceil": -(-samples // hop), "floor+1": samples // hop + 1, "floor": samples // hop}[length]
    spectra = [
        np.abs(np.fft.fft(window * y[i * hop : i * hop + n_fft])[: n_fft // 2 + 1]) ** 2 for i in range(count)
    ]

    def to_hz(mel):
        return mel * 200 / 3 if mel < 15 else 1000 * 6.4 ** ((mel - 15) / 27)

    edges = [to_hz(mel) for mel in np.linspace(0, 15 + 27 * np.log(rate / 2000) / np.log(6.4), n_mels + 2)]
    hz = np.arange(n_fft // 2 + 1) * rate / n_fft
    filters = np.zeros((n_mels, len(hz)))
    for m in range(n_mels):
        low, centre, high = edges[m : m + 3]
        for k, f in enumerate(hz):
            height = max(0, min((f - low) / (centre - low), (high - f) / (high - centre)))
            filters[m, k] = height * 2 / (high - low)
    logs = np.log(filters @ np.array(spectra).T + 2.0**-24)
    return (logs - logs.mean(1, keepdims=True)) / (logs.std(1, ddof=1, keepdims=True) + 1e-5)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("samples", [4000, 4079, 4161])
def test_features_follow_the_formula(generation, samples):
    settings = GENERATIONS[generation]
    audio = np.random.default_rng(samples).normal(size=samples)
    mel, mel_len = front_end(**settings)(torch.tensor(audio)[None], torch.tensor([samples]))
    expected = formula(audio, **settings)
    assert mel.shape[2] == mel_len[0] == expected.shape[1]
    assert np.abs(mel[0].numpy() - expected).max() < 1e-9


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("norm", ["per_feature", "all_features", "none"])
@pytest.mark.parametrize("samples", [0, 1, 2, 10, 100, 159, 160, 161, 255, 256, 257, 399, 400])
def test_short_audio_gives_finite_features(generation, norm, samples):
    spec = MelSpectrogram(norm=norm, **GENERATIONS[generation])
    audio = torch.randn(1, samples, generator=torch.Generator().manual_seed(samples))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mel, mel_len = build(spec).train()(audio, torch.tensor([samples]))
    assert mel.shape == (1, 64, spec.frames(samples))
    assert mel_len.tolist() == [spec.frames(samples)]
    assert torch.isfinite(mel).all()


def test_an_utterance_of_one_frame_has_features_of_zero():
    mel, mel_len = front_end()(torch.randn(1, 100), torch.tensor([100]))
    assert mel_len.tolist() == [1]
    assert not mel.any()


def test_short_audio_is_mirrored_as_numpy_does():
    from neumo.nn.spectrum import pad_signal

    for samples in range(1, 12):
        audio = np.random.default_rng(samples).normal(size=samples)
        ours = pad_signal(torch.tensor(audio)[None], torch.tensor([samples]), 20, 20, reflect=True)
        assert np.array_equal(ours[0].numpy(), np.pad(audio, 20, mode="reflect"))


@pytest.mark.parametrize("generation", GENERATIONS)
def test_features_are_the_same_alone_and_in_a_batch(generation):
    mel = front_end(**GENERATIONS[generation]).double()
    audio = torch.randn(3, 16000, dtype=torch.float64)
    audio_len = torch.tensor([1603, 16000, 57])
    together, lengths = mel(audio, audio_len)  # what lies beyond a length is noise here
    for row, samples in enumerate(audio_len.tolist()):
        alone, alone_len = mel(audio[row : row + 1, :samples], audio_len[row : row + 1])
        assert alone_len[0] == lengths[row]
        assert torch.allclose(alone[0], together[row, :, : alone.shape[2]], atol=1e-10)
        assert not together[row, :, lengths[row] :].any()


@pytest.mark.parametrize("length", ["ceil", "floor+1", "floor"])
@pytest.mark.parametrize("pad_to", [0, 16])
def test_the_signature_states_the_real_sizes(length, pad_to):
    spec = MelSpectrogram(length=length, pad_to=pad_to)
    axis = spec.signature().gives["mel"].axes[2]
    assert spec.signature().gives["mel_len"].element.of == axis.size
    mel = build(spec).eval()
    for samples in [*range(1, 12), *range(150, 330, 7), 1600, 4799, 4800, 4801]:
        out, _ = mel(torch.zeros(1, samples), torch.tensor([samples]))
        assert out.shape[2] == axis.size.evaluate({T.symbol: samples})


def test_it_computes_in_float32_inside_autocast():
    audio, audio_len = torch.randn(2, 8000), torch.tensor([8000, 5000])
    mel = front_end()
    plain, _ = mel(audio, audio_len)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside, _ = mel(audio, audio_len)
        from_half, _ = mel(audio.bfloat16(), audio_len)
    assert torch.equal(plain, inside)
    assert from_half.dtype == torch.float32


def test_dither_acts_in_training_only():
    audio, audio_len = torch.randn(1, 8000), torch.tensor([8000])
    mel = build(MelSpectrogram(dither=0.1))
    assert torch.equal(mel.eval()(audio, audio_len).mel, mel(audio, audio_len).mel)
    assert not torch.equal(mel.train()(audio, audio_len).mel, mel(audio, audio_len).mel)


def test_the_front_end_has_no_weights():
    assert not front_end().state_dict()


def test_other_settings_do_what_they_say():
    audio, audio_len = torch.randn(1, 4000, dtype=torch.float64), torch.tensor([4000])
    plain = {"norm": "none", "log": False, "preemphasis": 0.0}
    power = front_end(**plain)(audio, audio_len).mel
    magnitude = front_end(power=1.0, **plain)(audio, audio_len).mel
    assert (magnitude > 0).all()
    assert not torch.allclose(power, magnitude)
    clamped = front_end(norm="none", preemphasis=0.0, floor=1e-5, floor_mode="clamp")(
        audio * 0, audio_len
    ).mel
    assert torch.allclose(clamped, torch.full_like(clamped, np.log(1e-5)))
    everything = front_end(norm="all_features")(audio, audio_len).mel
    assert abs(everything.mean()) < 1e-9
    assert abs(everything.std() - 1) < 1e-4
    slaney, htk = front_end(**plain), front_end(mel_scale="htk", area_norm=False, **plain)
    assert not torch.allclose(slaney.filters, htk.filters)
    assert htk.filters.max() <= 1


@pytest.mark.parametrize("scale", ["slaney", "htk"])
def test_mels_turn_back_into_hertz(scale):
    from neumo.nn.spectrum import to_hz, to_mel

    for hz in (0.0, 200.0, 999.9, 1000.0, 4000.0, 8000.0):
        assert to_hz(to_mel(hz, scale), scale) == pytest.approx(hz)


@pytest.mark.parametrize(
    "settings",
    [
        {"length": "round"},
        {"win": 600},
        {"fmax": 9000.0},
        {"hop": 0},
        {"window": "han"},
        {"pad_mode": "mirror"},
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings):
    with pytest.raises(ConfigError):
        MelSpectrogram(**settings)
