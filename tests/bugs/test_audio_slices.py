import io

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from neumo.data import SpeechSource, read_audio
from neumo.types.errors import DataError

RATE = 16000
FORMATS = [
    ("WAV", "PCM_16"),
    ("FLAC", "PCM_16"),
    ("OGG", "VORBIS"),
    ("OGG", "OPUS"),
    ("MP3", "MPEG_LAYER_III"),
]


def encoded(kind, subtype, seconds):
    """Encode a loud tone in faint noise, on which libsndfile's Ogg seeks are off by 128 samples."""
    n = int(seconds * RATE)
    sound = 0.5 * np.sin(2 * np.pi * 440 * np.arange(n) / RATE)
    sound = sound + 0.01 * np.random.default_rng(0).standard_normal(n)
    file = io.BytesIO()
    soundfile.write(file, sound.astype(np.float32), RATE, format=kind, subtype=subtype)
    return file.getvalue()


FILES = {pair: encoded(*pair, 3.0) for pair in FORMATS}
WHOLE = {pair: read_audio(blob).samples for pair, blob in FILES.items()}


@pytest.mark.parametrize("pair", FORMATS, ids=lambda pair: pair[1])
@settings(max_examples=25, deadline=None)
@given(start=st.integers(0, 3 * RATE - 1), count=st.integers(1, 2 * RATE))
def test_a_slice_is_exactly_that_part_of_the_whole(pair, start, count):
    """The requested duration is always honoured, sample by sample."""
    wave = read_audio(FILES[pair], offset=start / RATE, duration=count / RATE)
    expected = WHOLE[pair][start : start + count]
    assert len(wave.samples) == len(expected)
    assert np.abs(wave.samples - expected).max() < 1e-6


def test_a_slice_of_a_long_recording_is_read_with_its_length(tmp_path):
    """0 to 4.948 s of 48.9 s, also when a transform is applied and the rate changes."""
    soundfile.write(tmp_path / "long.wav", np.zeros(int(48.9 * 22050), np.float32), 22050)
    line = {"audio_filepath": str(tmp_path / "long.wav"), "offset": 0, "duration": 4.948}
    source = SpeechSource([line], perturb=lambda samples, rate, rng: samples + 0.1)
    assert len(source.item(0, 0)["audio"]) == round(4.948 * 16000)
    assert source.seconds[0] == pytest.approx(4.948)
    assert source.report().mismatches == ()


def test_a_slice_that_begins_behind_the_end_is_refused():
    with pytest.raises(DataError, match=r"lasts 3\.000 s: nothing is left from 3 s on"):
        read_audio(FILES["WAV", "PCM_16"], offset=3.0, duration=1.0)
