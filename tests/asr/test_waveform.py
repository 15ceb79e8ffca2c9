"""Changes of samples: what each does, measured; what none of them may do."""

import io
import json

import numpy as np
import pytest
import soundfile
import torch

from neumo.asr import (
    Gain,
    ImpulseResponse,
    RecordedNoise,
    SpeedPerturb,
    TelephoneBand,
    TimeShift,
    TimeStretch,
    WhiteNoise,
)
from neumo.asr.recordings import Recordings
from neumo.asr.torch.recorded import in_room
from neumo.asr.torch.waveform import band_pass
from neumo.backends.torch.registry import build
from neumo.graph.inputs import inputs
from neumo.nn.companding import g711
from neumo.nn.phase_vocoder import stretch
from neumo.types import Audio, B, ConfigError, DataError, Lengths, PortError, T


@pytest.fixture
def noises(tmp_path):
    """A manifest of a short noise, a long one at another rate in two channels, and a piece of that."""
    rng = np.random.default_rng(0)
    soundfile.write(tmp_path / "short.wav", 0.1 * rng.normal(size=700).astype(np.float32), 16000)
    long = np.clip(0.2 * rng.normal(size=(24000, 2)), -1, 1).astype(np.float32)
    soundfile.write(tmp_path / "long.wav", long, 8000)
    lines = [
        {"audio_filepath": "short.wav"},
        {"audio_filepath": "long.wav"},
        {"audio_filepath": "long.wav", "offset": 1.0, "duration": 0.5},
    ]
    path = tmp_path / "noises.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def every(noises):
    return [
        SpeedPerturb(),
        TimeStretch(),
        Gain(),
        TimeShift(milliseconds=(-20.0, 20.0)),
        WhiteNoise(),
        TelephoneBand(),
        RecordedNoise(noises),
        ImpulseResponse(noises),
    ]


def outputs(found):
    return found if isinstance(found, tuple) else (found,)


def test_nothing_changes_in_evaluation_and_nothing_is_read(tmp_path):
    audio, audio_len = torch.randn(2, 300), torch.tensor([300, 200])
    for spec in every(tmp_path / "missing.jsonl"):
        assert outputs(build(spec).eval()(audio, audio_len))[0] is audio


def test_the_seed_of_a_step_decides_and_the_input_stays(noises):
    audio, audio_len = 0.1 * torch.randn(6, 3000), torch.tensor([3000, 2500, 1, 0, 3000, 777])
    before = audio.clone()
    for spec in every(noises):
        first, second = build(spec).train(), build(spec).train()
        torch.manual_seed(11)
        one = outputs(first(audio, audio_len))
        first(audio, audio_len)  # what was drawn and kept before must not matter
        torch.manual_seed(11)
        assert all(map(torch.equal, one, outputs(first(audio, audio_len)))), spec
        torch.manual_seed(11)
        assert all(map(torch.equal, one, outputs(second(audio, audio_len)))), spec
        lengths = one[1] if len(one) > 1 else audio_len
        for row, length in enumerate(lengths.tolist()):
            assert not one[0][row, length:].any(), spec
        assert torch.isfinite(one[0]).all()
        assert torch.equal(audio, before)


def test_an_utterance_that_is_not_drawn_is_left_alone(noises):
    audio, audio_len = torch.randn(3, 500), torch.full((3,), 500)
    for spec in every(noises):
        settings = {
            name: getattr(spec, name) for name in vars(spec) if name in type(spec).__dataclass_fields__
        }
        never = type(spec)(**settings | {"probability": 0.0})
        assert torch.equal(outputs(build(never).train()(audio, audio_len))[0], audio), spec


def test_a_share_of_the_utterances_is_changed():
    torch.manual_seed(0)
    audio, audio_len = torch.ones(2000, 4), torch.full((2000,), 4)
    changed = build(Gain(decibels=(6.0, 6.0), probability=0.3)).train()(audio, audio_len)
    assert 0.25 < (changed[:, 0] != 1).float().mean() < 0.35


# --- stretching ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [(9, 10), (11, 10), (1, 2), (3, 2)])
def test_a_stretched_tone_keeps_its_pitch_and_level(factor):
    time = np.arange(32000) / 16000
    tone = torch.tensor(0.5 * np.sin(2 * np.pi * 1234.5 * time), dtype=torch.float32)[None]
    changed = stretch(tone, *factor)[0].numpy()
    assert len(changed) == -(-32000 * factor[1] // factor[0])
    inner = changed[2000:-2000]
    spectrum = np.abs(np.fft.rfft(inner * np.hanning(len(inner)), 1 << 18))
    assert abs(spectrum.argmax() * 16000 / (1 << 18) - 1234.5) < 0.5  # Hz
    assert inner.std() == pytest.approx(0.5 / np.sqrt(2), rel=0.02)


def test_a_stretched_click_train_has_the_new_speed():
    clicks = torch.zeros(1, 32000)
    clicks[0, 1600::3200] = 1.0
    changed = stretch(clicks, 4, 5)[0].square()  # 0.8 of the speed: a click each 4000 samples
    for number in range(1, 9):
        place = 2000 + 4000 * number
        near = changed[place - 1000 : place + 1000]
        assert abs(int(near.argmax()) - 1000) <= 256


@pytest.mark.parametrize("samples", [0, 1, 5, 127, 513, 4000])
@pytest.mark.parametrize("factor", [0.5, 0.9, 1.0, 1.1])
def test_the_stretched_length_is_exact(samples, factor):
    audio, audio_len = torch.randn(2, samples), torch.tensor([samples, samples // 2])
    changed, changed_len = build(TimeStretch(factors=(factor,))).train()(audio, audio_len)
    assert changed_len.tolist() == [SpeedPerturb.new_length(n, factor) for n in (samples, samples // 2)]
    assert changed.shape == (2, changed_len[0])
    assert torch.isfinite(changed).all()


@pytest.mark.parametrize(
    "spec", [TimeStretch(factors=(0.9,)), TelephoneBand(probability=1.0)], ids=["stretch", "telephone"]
)
def test_a_changed_utterance_does_not_depend_on_its_batch(spec):
    layer = build(spec).train()
    audio = 0.3 * torch.randn(2, 5000)
    together = outputs(layer(audio, torch.tensor([1234, 5000])))
    alone = outputs(layer(audio[:1, :1234], torch.tensor([1234])))
    size = alone[0].shape[1]
    if isinstance(spec, TimeStretch):
        assert torch.allclose(together[0][0, :size], alone[0][0], atol=1e-5)
    else:  # a sample at the border of two levels of the code may fall to either side
        assert (together[0][0, :size] - alone[0][0]).abs().mean() < 1e-4


def test_a_stretch_of_one_changes_nothing():
    audio, audio_len = torch.randn(2, 800), torch.tensor([800, 800])
    assert torch.equal(build(TimeStretch(factors=(1.0,))).train()(audio, audio_len).audio, audio)


# --- level, shift, white noise ------------------------------------------------------------------------


def test_the_gain_is_in_decibels():
    audio, audio_len = torch.randn(4, 100, dtype=torch.float64), torch.full((4,), 100)
    louder = build(Gain(decibels=(20.0, 20.0))).train()(audio, audio_len)
    assert torch.allclose(louder, 10 * audio)
    torch.manual_seed(1)
    ratios = 20 * torch.log10((build(Gain()).train()(audio, audio_len) / audio)[:, 0])
    assert ((ratios >= -10) & (ratios <= 10)).all()
    assert len(set(ratios.tolist())) == 4


@pytest.mark.parametrize(("milliseconds", "expected"), [(2.0, [0, 0, 1, 2]), (-1.0, [2, 3, 4, 0])])
def test_a_shift_moves_the_samples(milliseconds, expected):
    audio = torch.tensor([[1.0, 2.0, 3.0, 4.0, 9.0]])
    spec = TimeShift(rate=1000, milliseconds=(milliseconds, milliseconds))
    assert build(spec).train()(audio, torch.tensor([4])).tolist() == [[*expected, 0]]


def test_white_noise_has_its_level():
    torch.manual_seed(0)
    found = build(WhiteNoise(decibels=(-20.0, -20.0))).train()(
        torch.zeros(2, 200000), torch.full((2,), 200000)
    )
    assert found.std(1).tolist() == pytest.approx([0.1, 0.1], rel=0.01)


# --- telephone ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("law", "subtype"), [("mu", "ULAW"), ("a", "ALAW")])
def test_g711_is_what_libsndfile_decodes(law, subtype):
    samples = np.arange(-32768, 32768).astype(np.int16)
    file = io.BytesIO()
    soundfile.write(file, samples, 8000, format="WAV", subtype=subtype)
    file.seek(0)
    expected, _ = soundfile.read(file, dtype="float64")
    found = g711(torch.tensor(samples / 32768), law).numpy()
    assert len(set(found.tolist())) == {"mu": 255, "a": 256}[law]
    wrong = np.abs(found - expected) > 1e-9
    assert not wrong.any(), (wrong.sum(), samples[wrong][:5], found[wrong][:5], expected[wrong][:5])


def test_the_telephone_passes_its_band_only():
    time = np.arange(16000) / 16000
    heard = {}
    for hz in (100, 1000, 3000, 3900, 6000):
        tone = torch.tensor(0.5 * np.sin(2 * np.pi * hz * time), dtype=torch.float32)[None]
        out = build(TelephoneBand(probability=1.0)).train()(tone, torch.tensor([16000]))
        heard[hz] = float(out[0, 2000:-2000].std() / tone.std())
        if hz == 1000:  # in time: no delay, and the noise of 8 bits only
            assert float((out - tone)[0, 2000:-2000].std()) < 0.01
    assert max(heard[100], heard[3900], heard[6000]) < 0.05
    assert heard[1000] == pytest.approx(1, abs=0.02)
    assert heard[3000] == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 48000])
def test_the_telephone_keeps_the_length_at_any_rate(rate):
    for samples in (0, 1, 999):
        found = build(TelephoneBand(rate=rate, probability=1.0)).train()(
            torch.randn(1, samples).clamp(-1, 1), torch.tensor([samples])
        )
        assert found.shape == (1, samples)
        assert torch.isfinite(found).all()


def test_a_band_pass_of_everything_passes_everything():
    assert torch.allclose(band_pass(0.0, 0.5, 255), torch.eye(255, dtype=torch.float64)[127], atol=1e-12)


# --- recorded noise -----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1 << 28, 20_000, 0])
def test_the_ratio_of_signal_and_noise_is_the_drawn_one(noises, limit):
    torch.manual_seed(2)
    audio = 0.2 * torch.randn(40, 6000) * torch.linspace(0.01, 1, 40)[:, None]
    audio_len = torch.randint(100, 6001, (40,))
    snr = (5.0, 25.0)
    spec = RecordedNoise(noises, snr=snr, cache_limit=limit)
    found = build(spec).train()
    torch.manual_seed(3)
    mixed = found(audio, audio_len)
    torch.manual_seed(3)
    torch.randint(3, (40,)), torch.rand(40)
    drawn = snr[0] + (snr[1] - snr[0]) * torch.rand(40, dtype=torch.float64)
    for row, length in enumerate(audio_len.tolist()):
        signal, noise = audio[row, :length].double(), (mixed - audio)[row, :length].double()
        measured = 10 * torch.log10(signal.square().mean() / noise.square().mean())
        assert abs(measured - drawn[row]) < 0.01


def test_noise_is_a_piece_of_the_recording(noises):
    held = Recordings(noises, rate=16000, limit=1 << 20)
    whole = held.whole(1)
    assert len(whole) == 48000
    assert len(held.whole(2)) == 8000
    piece = held.piece(1, 1000, 0.5)
    assert np.array_equal(piece, whole[23500:24500])
    short = held.whole(0)
    assert np.array_equal(held.piece(0, 1500, 0.5), np.resize(np.roll(short, -350), 1500))
    assert np.array_equal(held.piece(0, 700, 1.0), np.roll(short, 1))


def test_a_long_recording_is_read_piece_by_piece(noises):
    sparing = Recordings(noises, rate=8000, limit=4 * 16000)
    whole = Recordings(noises, rate=8000, limit=1 << 20).whole(1)
    for place in (0.0, 0.3, 1.0):
        piece = sparing.piece(1, 2000, place)
        assert len(piece) == 2000
        starts = np.flatnonzero(whole[: len(whole) - 1999] == piece[0])
        assert any(np.array_equal(whole[start : start + 2000], piece) for start in starts)
    assert not sparing._kept
    sparing.piece(0, 100, 0.0)
    assert list(sparing._kept) == [0]


def test_memory_stays_within_its_limit(noises):
    held = Recordings(noises, rate=16000, limit=4 * 8500)
    for index in (0, 2, 0, 2, 0):
        held.whole(index)
        assert held._bytes <= 4 * 8500
    assert list(held._kept) == [0]


def test_silence_stays_as_it_is(noises, tmp_path):
    soundfile.write(tmp_path / "silence.wav", np.zeros(100, np.float32), 16000)
    (tmp_path / "silence.jsonl").write_text('{"audio_filepath": "silence.wav"}')
    audio, audio_len = torch.randn(2, 400), torch.tensor([400, 400])
    for spec in (RecordedNoise(tmp_path / "silence.jsonl"), ImpulseResponse(tmp_path / "silence.jsonl")):
        assert torch.equal(build(spec).train()(audio, audio_len), audio)
    for spec in (RecordedNoise(noises), ImpulseResponse(noises)):
        assert not build(spec).train()(audio * 0, audio_len).any()


def test_noise_is_not_amplified_beyond_the_limit(noises):
    audio, audio_len = torch.full((1, 700), 0.5), torch.tensor([700])
    spec = RecordedNoise(noises, snr=(-60.0, -60.0), max_gain=0.0)
    torch.manual_seed(0)
    noise = build(spec).train()(audio, audio_len) - audio
    assert noise.abs().max() < 1


@pytest.mark.parametrize("kind", [RecordedNoise, ImpulseResponse])
def test_a_recording_that_cannot_be_read_is_named(kind, tmp_path):
    audio, audio_len = torch.randn(1, 400), torch.tensor([400])
    with pytest.raises(DataError) as caught:
        build(kind(tmp_path / "no.jsonl")).train()(audio, audio_len)
    assert caught.value.code == "manifest-missing"
    (tmp_path / "gone.jsonl").write_text('{"audio_filepath": "gone.wav"}')
    with pytest.raises(DataError, match=r"gone\.wav") as caught:
        build(kind(tmp_path / "gone.jsonl")).train()(audio, audio_len)
    assert caught.value.code == "audio-missing"
    assert "gone.jsonl:1" in str(caught.value.where)


# --- rooms --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("samples", "taps"), [(1, 1), (5, 50), (4000, 300), (300, 4000)])
def test_a_room_is_a_convolution(samples, taps):
    rng = np.random.default_rng(samples)
    signal, response = rng.normal(size=samples), 0.1 * rng.normal(size=taps)
    response[taps // 3] = 2.0
    full = np.convolve(signal, response)[taps // 3 : taps // 3 + samples]
    expected = full * np.sqrt(np.mean(signal**2) / np.mean(full**2))
    found = in_room(torch.tensor(signal), torch.tensor(response)).numpy()
    assert np.abs(found - expected).max() < 1e-9
    single = in_room(torch.tensor(signal, dtype=torch.float32), torch.tensor(response)).numpy()
    assert np.abs(single - expected).max() < 1e-4


def test_rooms_work_under_autocast(noises):
    audio, audio_len = 0.1 * torch.randn(2, 900), torch.tensor([900, 500])
    for spec in every(noises):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = outputs(build(spec).train()(audio.bfloat16(), audio_len))[0]
        assert found.dtype == torch.bfloat16, spec
        assert torch.isfinite(found).all()


# --- types and settings -------------------------------------------------------------------------------


def test_the_rate_has_to_be_that_of_the_audio(noises):
    given = inputs(audio=Audio(rate=8000, peak=1.0)[B, T], audio_len=Lengths(T)[B])
    for spec in (RecordedNoise(noises), ImpulseResponse(noises), TelephoneBand(), TimeShift()):
        with pytest.raises(PortError, match="8000"):
            spec(audio=given.audio, audio_len=given.audio_len)
    for spec in (Gain(), WhiteNoise(), TelephoneBand(rate=8000)):
        assert spec(audio=given.audio, audio_len=given.audio_len).audio.type.element.rate == 8000


def test_a_stretch_makes_a_new_length():
    given = inputs(audio=Audio(rate=8000, peak=1.0)[B, T], audio_len=Lengths(T)[B])
    found = TimeStretch()(audio=given.audio, audio_len=given.audio_len)
    assert found.audio.type.axes[1].size != given.audio.type.axes[1].size


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (TimeStretch, {"factors": ()}),
        (TimeStretch, {"factors": (1.005,)}),
        (TimeStretch, {"n_fft": 510}),
        (TimeStretch, {"probability": 1.5}),
        (SpeedPerturb, {"probability": -0.1}),
        (Gain, {"decibels": (3.0, -3.0)}),
        (TimeShift, {"milliseconds": (1.0,)}),
        (WhiteNoise, {"decibels": (float("-inf"), 0.0)}),
        (TelephoneBand, {"rate": 4000}),
        (TelephoneBand, {"low": 3400.0, "high": 300.0}),
        (TelephoneBand, {"law": "u"}),
        (RecordedNoise, {"manifest": "x", "snr": (30.0, 10.0)}),
        (ImpulseResponse, {"manifest": "x", "cache_limit": -1}),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(kind, settings):
    with pytest.raises(ConfigError, match=kind.__name__) as caught:
        kind(**settings)
    assert caught.value.code == "field"
