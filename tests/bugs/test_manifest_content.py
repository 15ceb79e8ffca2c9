import json

import pytest

from neumo.data import read_manifest
from neumo.types.errors import DataError

LINE = {"audio_filepath": "a.wav", "text": "yes", "duration": 2.0}


def cut(**changes):
    recording = {
        "id": "r",
        "sources": [{"type": "file", "channels": [0], "source": "a.flac"}],
        "sampling_rate": 16000,
        "num_samples": 160000,
        "duration": 10.0,
        "channel_ids": [0],
    }
    supervision = {
        "id": "s",
        "recording_id": "r",
        "start": 0.0,
        "duration": 2.0,
        "text": "yes",
        "speaker": "ann",
    }
    base = {
        "id": "c",
        "start": 1.0,
        "duration": 2.0,
        "channel": 0,
        "supervisions": [supervision],
        "recording": recording,
        "type": "MonoCut",
    }
    return {**base, **changes}


@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "x.txt", "x"])
def test_the_content_decides_and_not_the_extension(tmp_path, name):
    """Our lines and lhotse cuts under any name."""
    (tmp_path / name).write_text(json.dumps(LINE) + "\n")
    assert read_manifest(tmp_path / name)[0].duration == 2.0
    (tmp_path / name).write_text(json.dumps(cut()) + "\n")
    (entry,) = read_manifest(tmp_path / name, needs_text=True)
    assert (entry.audio, entry.offset, entry.duration) == (str(tmp_path / "a.flac"), 1.0, 2.0)
    assert (entry.text, entry.speaker, entry.id, entry.channel) == ("yes", "ann", "c", None)


def test_a_cut_of_a_whole_recording_is_not_a_piece(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps([cut(start=0.0, duration=10.0)]))
    (entry,) = read_manifest(tmp_path / "x.json")
    assert (entry.offset, entry.duration) == (None, 10.0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"type": "MixedCut"}, "a lhotse MixedCut"),
        ({"supervisions": cut()["supervisions"] * 2}, "trim_to_supervisions"),
        ({"recording": None}, "without its recording"),
        ({"recording": {"sources": [{"type": "url", "source": "http://x"}]}}, "not one file (they are: url)"),
        ({"recording": {**cut()["recording"], "transforms": [{"name": "Resample"}]}}, "with transforms"),
        ({"supervisions": []}, "no text"),
    ],
)
def test_cuts_that_say_more_than_a_line_can_are_refused(tmp_path, changes, reason):
    (tmp_path / "x.json").write_text(json.dumps(cut(**changes)))
    with pytest.raises(DataError) as caught:
        read_manifest(tmp_path / "x.json", needs_text=True)
    assert reason in caught.value.data["problems"][0]["reason"]


def test_other_tables_are_refused_line_by_line(tmp_path):
    (tmp_path / "x.jsonl").write_text("audio,text\na.wav,yes\n")
    with pytest.raises(DataError, match="2 of 2 lines") as caught:
        read_manifest(tmp_path / "x.jsonl")
    assert "not JSON; a manifest has one JSON object a line" in caught.value.details[0]
