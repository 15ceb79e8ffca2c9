import io

import numpy as np
import pytest
import soundfile

from neumo.data import SpeechSource, read_audio

COUNTS = (1, 10, 100, 399)


def encoded(count, rate, kind):
    file = io.BytesIO()
    soundfile.write(file, np.full(count, 0.25, np.float32), rate, format=kind)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3"])
@pytest.mark.parametrize("rate", [8000, 16000, 44100, 48000])
@pytest.mark.parametrize("count", COUNTS)
def test_very_short_clips_are_read_and_never_become_nothing(count, rate, kind):
    """1, 10, 100, 399 samples, also through resampling."""
    wave = read_audio(encoded(count, rate, kind), rate=16000)
    assert len(wave.samples) >= 1
    if kind in ("WAV", "FLAC"):
        assert len(wave.samples) == max(1, round(count * 16000 / rate))
    assert np.isfinite(wave.samples).all()


def test_short_clips_make_batches_and_are_dropped_by_name(tmp_path):
    """No crash without a filter; with one, they are counted."""
    lines = []
    for count in COUNTS:
        (tmp_path / f"{count}.wav").write_bytes(encoded(count, 16000, "WAV"))
        lines.append({"audio_filepath": str(tmp_path / f"{count}.wav")})
    source = SpeechSource(lines, shuffle=False)
    batch = source.collate([source.item(index, 0) for index in source.batches(0)[0]])
    assert batch["audio_len"].tolist() == list(COUNTS)
    assert batch["audio"].shape == (4, 399)
    (dropped,) = SpeechSource(lines, min_duration=0.02).report().dropped
    assert (dropped.reason, dropped.count) == ("shorter than 0.02 s", 3)
