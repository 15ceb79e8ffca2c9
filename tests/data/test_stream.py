"""Blocks of a recording, put one behind the other, are the recording."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from neumo.data.audio import read_audio
from neumo.data.stream import stream_audio
from neumo.types.errors import DataError


def write(path, seconds, rate, **settings):
    noise = 0.2 * np.random.default_rng(1).standard_normal((int(seconds * rate), 2))
    smooth = np.apply_along_axis(lambda x: np.convolve(x, np.ones(8) / 8, "same"), 0, noise)
    soundfile.write(path, smooth, rate, **settings)
    return path


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg"])
@pytest.mark.parametrize("rate", [8000, 16000, 44100])
@pytest.mark.parametrize(("offset", "duration"), [(0.0, None), (0.513, 1.7), (1.0, None)])
def test_blocks_are_the_whole(tmp_path, suffix, rate, offset, duration):
    path = write(tmp_path / f"a.{suffix}", 3.217, rate)
    options = {"rate": 16000, "channels": "mix", "offset": offset, "duration": duration}
    whole = read_audio(path, **options).samples
    for block in (0.1, 1.0, 60.0):
        pieces = list(stream_audio(path, **options, block=block))
        joined = np.concatenate(pieces)
        assert joined.dtype == np.float32
        assert len(joined) == len(whole)
        assert np.abs(joined - whole).max() < 2e-5


def test_blocks_are_small(tmp_path):
    path = write(tmp_path / "a.wav", 10, 44100)
    assert max(map(len, stream_audio(path, rate=16000, channels=0, block=0.5))) < 16000


@pytest.mark.parametrize("samples", [1, 2, 100])
def test_very_short_recordings(tmp_path, samples):
    soundfile.write(tmp_path / "a.wav", np.full(samples, 0.5), 44100)
    whole = read_audio(tmp_path / "a.wav", rate=16000).samples
    assert np.allclose(np.concatenate(list(stream_audio(tmp_path / "a.wav", rate=16000))), whole, atol=1e-6)


def test_the_same_is_refused(tmp_path):
    path = write(tmp_path / "a.wav", 1, 16000)
    for options in ({}, {"channels": 5}, {"channels": 0, "offset": 2.0}):
        codes = []
        for read in (read_audio, lambda *a, **o: list(stream_audio(*a, **o))):
            with pytest.raises(DataError) as caught:
                read(path, rate=16000, **options)
            codes.append((caught.value.code, caught.value.what))
        assert codes[0] == codes[1]
    soundfile.write(tmp_path / "empty.wav", np.zeros(0), 16000)
    (tmp_path / "text.wav").write_text("no sound")
    for name in ("empty.wav", "text.wav", "none.wav"):
        with pytest.raises(DataError) as first:
            read_audio(tmp_path / name, rate=16000)
        with pytest.raises(DataError) as second:
            list(stream_audio(tmp_path / name, rate=16000))
        assert first.value.code == second.value.code


def test_what_is_cut_off_is_refused_at_its_end(tmp_path):
    path = write(tmp_path / "a.flac", 10, 16000)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError):
        list(stream_audio(path, rate=16000, channels=0, block=1.0))
