import numpy as np
import pytest
import soundfile

from neumo.data import SpeechSource
from neumo.types.errors import DataError

RATES = (8000, 16000, 44100, 48000)


@pytest.fixture
def lines(tmp_path):
    made = []
    for rate in RATES:
        time = np.arange(rate // 2) / rate
        soundfile.write(
            tmp_path / f"{rate}.wav", 0.5 * np.sin(2 * np.pi * 1000 * time), rate, subtype="FLOAT"
        )
        made.append({"audio_filepath": str(tmp_path / f"{rate}.wav"), "duration": 0.5})
    return made


def test_resampling_is_reported_with_counts_per_rate(lines):
    """8, 16, 44.1 and 48 kHz in one manifest; the report knows before anything is decoded."""
    source = SpeechSource(lines * 2, rate=16000)
    report = source.report()
    assert report.rates == dict.fromkeys(RATES, 2)
    assert report.resampled == {8000: 2, 44100: 2, 48000: 2}
    assert "resampled to 16000 Hz: 2 from 8000 Hz, 2 from 44100 Hz, 2 from 48000 Hz" in report.text()


def test_resampled_audio_is_the_same_tone_with_the_exact_length(lines):
    source = SpeechSource(lines, rate=16000)
    tone = 0.5 * np.sin(2 * np.pi * 1000 * np.arange(8000) / 16000)
    for index in range(4):
        audio = source.item(index, 0)["audio"]
        assert len(audio) == 8000
        assert np.abs(audio - tone)[500:-500].max() < 2e-3


def test_strict_mode_lists_every_file_of_another_rate(lines):
    """With on_rate="refuse"."""
    with pytest.raises(DataError) as caught:
        SpeechSource(lines, rate=16000, on_rate="refuse")
    assert "3 of 4 recordings" in caught.value.what
    problems = caught.value.data["problems"]
    assert [problem["where"] for problem in problems] == ["entries:1", "entries:3", "entries:4"]
    assert problems[0]["reason"].endswith("8000.wav has 8000 Hz, expected 16000 Hz")
