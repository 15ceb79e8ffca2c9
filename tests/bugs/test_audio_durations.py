import io

import numpy as np
import pytest
import soundfile

from neumo.data import DURATION_TOLERANCE, SpeechSource, read_audio


@pytest.fixture
def mp3(tmp_path):
    noise = 0.1 * np.random.default_rng(0).standard_normal(32000)
    soundfile.write(tmp_path / "a.mp3", noise, 16000, format="MP3")
    return tmp_path / "a.mp3"


def test_decoded_truth_wins_and_mismatches_are_summarised(mp3):
    """A manifest that is off by 60 ms, 600 ms and a factor of two."""
    true = read_audio(mp3).seconds
    lines = [{"audio_filepath": str(mp3), "duration": d} for d in (true + 0.06, true + 0.6, 2 * true)]
    source = SpeechSource(lines, check="files")
    assert source.report().mismatches == ()
    items = [source.item(index, 0) for index in range(3)]
    assert {len(item["audio"]) for item in items} == {round(true * 16000)}
    report = source.report()
    assert [round(m.said - m.decoded, 2) for m in report.mismatches] == [round(true, 2), 0.6]
    assert f"2 durations are off by more than {DURATION_TOLERANCE} s" in report.text()
    assert "(entries:3) says" in report.text()


@pytest.mark.parametrize(("kind", "subtype"), [("MP3", "MPEG_LAYER_III"), ("OGG", "VORBIS"), ("OGG", "OPUS")])
@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100])
def test_lossy_formats_stay_within_the_one_tolerance(kind, subtype, rate):
    """Encoder delay is covered, so sound recordings are never called damaged."""
    if subtype == "OPUS" and rate % 8000:
        pytest.skip("Opus has rates of 8, 12, 16, 24 and 48 kHz only")
    file = io.BytesIO()
    soundfile.write(
        file, 0.1 * np.random.default_rng(0).standard_normal(rate), rate, format=kind, subtype=subtype
    )
    assert abs(read_audio(file, rate=16000).seconds - 1.0) < DURATION_TOLERANCE
