import io

import numpy as np
import pytest
import soundfile

from neumo.data import audio_from_array, audio_info, read_audio
from neumo.types.errors import DataError


def encoded(samples, rate=16000, **options):
    file = io.BytesIO()
    soundfile.write(file, samples, rate, **{"format": "WAV", "subtype": "FLOAT", **options})
    return file.getvalue()


def test_what_was_done_is_on_the_waveform():
    wave = read_audio(encoded(np.zeros((800, 2)), 8000), rate=16000, channels="mix")
    assert (wave.rate, wave.source_rate, wave.channels, wave.format) == (16000, 8000, 2, "WAV")
    assert wave.resampled
    assert wave.seconds == pytest.approx(0.1)


@pytest.mark.parametrize("source_rate", [8000, 11025, 22050, 44100, 48000, 96000])
@pytest.mark.parametrize("count", [1, 7, 999, 44101])
def test_resampled_lengths_are_rounded(source_rate, count):
    wave = audio_from_array(np.zeros(count, np.float32), source_rate=source_rate, rate=16000)
    assert len(wave.samples) == max(1, round(count * 16000 / source_rate))


def test_a_loud_square_wave_stays_within_one_after_resampling():
    square = np.sign(np.sin(np.arange(4410) / 20)).astype(np.float32)
    wave = audio_from_array(square, source_rate=44100, rate=16000)
    assert np.abs(wave.samples).max() <= 1.0
    assert wave.clipped > 0


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([0, 128, 255], np.uint8), [-1.0, 0.0, 127 / 128]),
        (np.array([-32768, 16384], np.int16), [-1.0, 0.5]),
        (np.array([-(2**31), 2**30], np.int32), [-1.0, 0.5]),
        (np.array([[0.5, 0.1], [0.25, 0.1]]), [0.5, 0.25]),
    ],
)
def test_arrays_of_integers_are_scaled(array, expected):
    assert audio_from_array(array, source_rate=16000, channels="first").samples.tolist() == expected


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(0, np.float32), "holds no sound"),
        (np.zeros((2, 0), np.float32), "holds no sound"),
        (np.zeros((2, 2, 2), np.float32), "holds no sound"),
        (np.zeros((1, 16000), np.float32), "would have 16000 channels"),
        (np.zeros(4, np.int64), "an array of int64 is not sound"),
        (np.full(4, np.inf, np.float32), "4 samples that are not finite"),
        (np.full(4, 20000.0), "float samples up to 20000"),
    ],
)
def test_arrays_that_are_no_sound_are_refused(array, words):
    with pytest.raises(DataError, match=words):
        audio_from_array(array, source_rate=16000)


def test_a_header_is_read_without_decoding():
    info = audio_info(encoded(np.zeros((800, 2)), 8000))
    assert (info.rate, info.channels, info.frames, info.seconds) == (8000, 2, 800, 0.1)


def test_samples_are_writable_and_contiguous():
    samples = read_audio(encoded(np.zeros((800, 3))), channels=1).samples
    samples[0] = 0.5
    assert samples.flags.c_contiguous
