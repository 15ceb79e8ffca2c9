import pytest

from neumo.data import Manifest, read_manifest
from neumo.types.errors import DataError


def reason_for(line, **options):
    with pytest.raises(DataError) as caught:
        Manifest.of([line], **options)
    (problem,) = caught.value.data["problems"]
    return problem["reason"]


def test_a_misspelt_key_gets_the_nearest_accepted_one():
    """Audio_filename."""
    reason = reason_for({"audio_filename": "a.wav", "text": "yes"})
    assert reason == (
        "no audio_filepath; the key 'audio_filename' is not known, did you mean 'audio_filepath'?"
    )
    reason = reason_for({"audio_filepath": "a.wav", "txet": "yes"}, needs_text=True)
    assert reason == "no text; the key 'txet' is not known, did you mean 'text'?"


@pytest.mark.parametrize("audio", ["audio_filepath", "audio", "audio_path", "wav", "path"])
@pytest.mark.parametrize("text", ["text", "transcript", "transcription", "sentence"])
def test_common_aliases_are_read(audio, text):
    """Wav, path, transcript."""
    (entry,) = Manifest.of([{audio: "a.wav", text: "yes"}], needs_text=True)
    assert (entry.audio_filepath, entry.text, entry.extra) == ("a.wav", "yes", {})


def test_two_keys_for_one_field_are_refused_unless_one_is_the_proper_name():
    assert "'wav' and 'path' both mean audio_filepath" in reason_for({"wav": "a.wav", "path": "b.wav"})
    (entry,) = Manifest.of([{"audio_filepath": "a.wav", "path": "b.wav"}])
    assert (entry.audio_filepath, entry.extra) == ("a.wav", {"path": "b.wav"})


def test_a_key_close_to_an_optional_field_is_noted_and_kept():
    manifest = Manifest.of([{"audio_filepath": "a.wav", "ofset": 3.0, "speakers": 2}])
    assert manifest.notes == ("the key 'ofset' is not known and was kept as it is; did you mean 'offset'?",)
    assert manifest[0].extra == {"ofset": 3.0, "speakers": 2}


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("duration", float("nan"), "duration is nan"),
        ("duration", float("inf"), "duration is inf"),
        ("duration", -1.5, "duration is negative (-1.5 s)"),
        ("duration", 0, "duration is 0"),
        ("duration", "3.2", "duration is '3.2', not a number of seconds"),
        ("duration", True, "duration is True, not a number of seconds"),
        ("offset", -0.5, "offset is negative (-0.5 s)"),
        ("text", 7, "text is 7, not a string"),
        ("text", ["yes"], "text is ['yes'], not a string"),
        ("audio_filepath", "  ", "audio_filepath is empty"),
        ("audio_filepath", {"bytes": "x"}, "audio_filepath is {'bytes': 'x'}, not the path of a file"),
        ("channel", -1, "channel is -1, not the number of one channel (the first is 0)"),
        ("channel", [0, 1], "channel is [0, 1], not the number of one channel (the first is 0)"),
        ("speaker", 1.5, "speaker is 1.5, not a string"),
    ],
)
def test_values_that_cannot_be_are_refused_with_a_reason(field, value, reason):
    assert reason_for({"audio_filepath": "a.wav", "text": "yes", field: value}) == reason


def test_every_reason_of_a_line_is_given():
    assert reason_for({"wva": "a.wav", "duration": 0}, needs_text=True) == (
        "no audio_filepath; the key 'wva' is not known, did you mean 'wav'?; "
        "no text (the line has 'wva', 'duration'); duration is 0"
    )


def test_text_is_needed_only_where_it_is_used():
    assert Manifest.of([{"audio_filepath": "a.wav"}])[0].text is None
    assert reason_for({"audio_filepath": "a.wav", "text": None}, needs_text=True) == "text is null"
    assert Manifest.of([{"audio_filepath": "a.wav", "text": ""}], needs_text=True)[0].text == ""


def test_another_field_may_hold_the_text():
    line = {"audio_filepath": "a.wav", "text": "12", "normalized_text": "twelve"}
    (entry,) = Manifest.of([line], text_field="normalized_text", needs_text=True)
    assert (entry.text, entry.extra) == ("twelve", {"text": "12"})
    assert "no raw" in reason_for(line, text_field="raw", needs_text=True)


def test_text_may_stand_in_a_file_beside_the_manifest(tmp_path):
    (tmp_path / "a.txt").write_text("\ufeffyes\n", encoding="utf-8")
    (entry,) = Manifest.of([{"audio_filepath": "a.wav", "text_filepath": "a.txt"}], folder=tmp_path)
    assert entry.text == "yes"
    with pytest.raises(DataError, match="cannot be read") as caught:
        _ = Manifest.of([{"audio_filepath": "a.wav", "text_filepath": "b.txt"}], folder=tmp_path)[0]
    assert caught.value.where == "entries:1"


def test_start_and_end_mean_a_piece():
    (entry,) = Manifest.of([{"audio_filepath": "a.wav", "start": 1.5, "end": 4.0}])
    assert (entry.offset, entry.duration) == (1.5, 2.5)
    assert reason_for({"audio_filepath": "a.wav", "start": 4, "end": 4}) == "end 4 is not after offset 4"


def test_further_fields_are_kept(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"audio_filepath": "a.wav", "speaker": 7, "gender": "F", "id": "u1", "tags": [1, {"a": 2}]}'
    )
    (entry,) = read_manifest(path)
    assert (entry.speaker, entry.name, entry.extra) == ("7", "u1", {"gender": "F", "tags": [1, {"a": 2}]})
