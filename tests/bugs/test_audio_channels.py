import io
import json

import numpy as np
import pytest
import soundfile

from neumo.data import SpeechSource, read_audio
from neumo.types.errors import DataError


def steps(count, frames=400):
    """Give [frames, count] where channel k is constant at k/10."""
    return np.tile(np.arange(count) / 10, (frames, 1)).astype(np.float32)


def write_manifest(folder, lines):
    path = folder / "train.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_one_stereo_file_among_mono_ones_is_named(tmp_path):
    """Path, line, channels, expected."""
    for n in range(10):
        soundfile.write(tmp_path / f"{n}.wav", steps(1), 16000)
    soundfile.write(tmp_path / "stereo.wav", steps(2), 16000)
    names = [f"{n}.wav" for n in range(5)] + ["stereo.wav"] + [f"{n}.wav" for n in range(5, 10)]
    path = write_manifest(tmp_path, [{"audio_filepath": name, "duration": 0.025} for name in names])
    with pytest.raises(DataError) as caught:
        SpeechSource(path)
    assert caught.value.what == f"{tmp_path / 'stereo.wav'} has 2 channels, expected 1"
    assert caught.value.where == f"{path}:6"
    assert 'channels="mix"' in str(caught.value)


def test_the_policy_is_explicit_and_the_line_goes_before_it(tmp_path):
    """8 channels; mix, first, a number, and the field `channel` of a line."""
    soundfile.write(tmp_path / "8.wav", steps(8), 16000, subtype="FLOAT")

    def first_sample(line=None, **policy):
        source = SpeechSource([{"audio_filepath": str(tmp_path / "8.wav"), **(line or {})}], **policy)
        return float(source.item(0, 0)["audio"][0])

    assert first_sample({"channel": 5}) == pytest.approx(0.5)
    assert first_sample({"channel": 5}, channels="mix") == pytest.approx(0.5)
    assert first_sample(channels="mix") == pytest.approx(0.35)
    assert first_sample(channels="first") == 0.0
    assert first_sample(channels=7) == pytest.approx(0.7)
    with pytest.raises(DataError) as caught:
        first_sample()
    assert "has 8 channels, expected 1" in caught.value.what
    with pytest.raises(DataError) as caught:
        first_sample({"channel": 8})
    assert "no channel 8: it has 8 channels, numbers 0 to 7" in caught.value.what


def test_a_channel_that_is_not_there_is_refused_for_mono_too():
    """Never implicit."""
    file = io.BytesIO()
    soundfile.write(file, steps(1), 16000, format="WAV")
    with pytest.raises(DataError, match="no channel 1: it has 1 channel, number 0"):
        read_audio(file, channels=1)
