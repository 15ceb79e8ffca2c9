import json

import numpy as np
import pytest
import soundfile

from neumo.data import SpeechSource
from neumo.types import Vocab
from neumo.types.errors import DataError


@pytest.fixture
def manifest(tmp_path):
    lines = []
    for n in range(20):
        seconds = 3.0 if n % 10 == 0 else 0.5
        soundfile.write(tmp_path / f"{n}.wav", np.zeros(int(16000 * seconds), np.int16), 16000)
        lines.append({"audio_filepath": f"{n}.wav", "duration": seconds, "text": "yes"})
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_a_filter_reports_count_hours_reason_and_the_list(manifest, tmp_path):
    """A manifest of which 10 % exceed the maximal length."""
    source = SpeechSource(manifest, max_duration=2.0)
    report = source.report()
    (dropped,) = report.dropped
    assert (dropped.reason, dropped.count) == ("longer than 2 s", 2)
    assert dropped.hours == pytest.approx(6 / 3600)
    assert dropped.names == (f"0.wav ({manifest}:1)", f"10.wav ({manifest}:11)")
    assert (report.kept, report.entries) == (18, 20)
    assert "dropped 2 (0.00 h): longer than 2 s: 0.wav" in report.text()
    report.save(tmp_path / "out")
    assert (tmp_path / "out" / "dropped.tsv").read_text().splitlines() == [
        f"longer than 2 s\t{name}" for name in dropped.names
    ]
    assert json.loads((tmp_path / "out" / "report.json").read_text())["dropped"][0]["count"] == 2


def test_dropped_items_are_in_no_batch_and_the_others_keep_their_index(manifest):
    source = SpeechSource(manifest, max_duration=2.0)
    read = sorted(index for batch in source.batches(0) for index in batch)
    assert read == [n for n in range(20) if n % 10]
    assert source.name(1).startswith("1.wav")


def test_a_model_may_leave_out_what_it_cannot_use(manifest):
    """The filter asks the model for its output length, here one frame every 320 samples."""
    source = SpeechSource(manifest, vocab=Vocab.english())
    frames = source.frames // 320
    too_short = [i for i in source.indices if frames[i] < 30 * source.text_lengths[i]]
    source.exclude(too_short, "fewer frames than its text needs")
    (dropped,) = source.report().dropped
    assert (dropped.reason, dropped.count) == ("fewer frames than its text needs", 18)
    assert len(source) == 2


@pytest.mark.parametrize("samples", range(800, 4801, 160))
def test_the_frames_that_a_model_is_asked_about_are_those_it_will_get(tmp_path, samples):
    """Durations from 0.05 to 0.30 s in steps of 10 ms."""
    soundfile.write(tmp_path / "a.wav", np.zeros(samples, np.int16), 16000)
    source = SpeechSource([{"audio_filepath": str(tmp_path / "a.wav"), "duration": samples / 16000}])
    assert source.frames[0] == len(source.item(0, 0)["audio"]) == samples


def test_nothing_left_is_an_error_that_says_why(manifest):
    with pytest.raises(DataError) as caught:
        SpeechSource(manifest, min_duration=1.0, max_duration=2.0)
    assert caught.value.what == f"no recordings of {manifest} are left"
    assert "shorter than 1 s" in caught.value.details[0]
    assert "longer than 2 s" in caught.value.details[1]


def test_every_filter_says_what_it_left_out_and_they_add_up(manifest, tmp_path):
    """40,000 of 359,000 utterances went without a word; here duration, text, model and bad files."""
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    lines[1]["text"], lines[2]["audio_filepath"], lines[3]["duration"] = "été", "gone.wav", 0.5
    manifest.write_text("\n".join(map(json.dumps, lines)))
    source = SpeechSource(
        manifest, vocab=Vocab.english(), max_duration=2.0, on_bad="skip", on_unknown="drop_utterance"
    )
    source.exclude([5, 6], "too short for its text at loss")
    report = source.report()
    assert {dropped.reason: dropped.count for dropped in report.dropped} == {
        "longer than 2 s": 2,
        "characters that are not in the vocabulary": 1,
        "bad recording (missing)": 1,
        "too short for its text at loss": 2,
    }
    assert report.kept + sum(dropped.count for dropped in report.dropped) == report.entries == 20
    known = report.hours_kept + sum(dropped.hours for dropped in report.dropped)
    assert known == pytest.approx(report.hours)
    report.save(tmp_path / "out")
    assert len((tmp_path / "out" / "dropped.tsv").read_text().splitlines()) == 6
