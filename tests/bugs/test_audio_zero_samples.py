import io

import numpy as np
import pytest
import soundfile

from neumo.data import read_audio
from neumo.types.errors import DataError


@pytest.fixture
def mp3():
    file = io.BytesIO()
    soundfile.write(file, 0.1 * np.random.default_rng(0).standard_normal(16000), 16000, format="MP3")
    return file.getvalue()


def deaf(monkeypatch, kinds):
    """Make the decoder give 0 frames for some kinds of numbers."""
    real = soundfile.SoundFile.read

    def read(self, frames=-1, dtype="float64", **options):
        return real(self, 0 if dtype in kinds else frames, dtype=dtype, **options)

    monkeypatch.setattr(soundfile.SoundFile, "read", read)


def test_a_second_decoder_is_tried(mp3, monkeypatch):
    """Nothing as float32, all of it as float64."""
    expected = read_audio(mp3).samples
    deaf(monkeypatch, {"float32"})
    samples = read_audio(mp3).samples
    assert samples.dtype == np.float32
    assert np.abs(samples - expected).max() < 1e-6


def test_zero_samples_from_a_file_that_has_some_is_an_error(mp3, monkeypatch):
    """Both decoders give nothing."""
    deaf(monkeypatch, {"float32", "float64"})
    with pytest.raises(DataError, match=r"no samples could be decoded from .* \(MP3\)"):
        read_audio(mp3)
