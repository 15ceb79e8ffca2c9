import numpy as np
import pytest
import soundfile

from neumo.data import SpeechSource, read_audio, read_manifest, write_manifest
from neumo.types import Vocab
from neumo.types.errors import DataError

LINE = '{"audio_filepath": "a.wav", "duration": 1.5, "text": "yes"}'


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


def message_of(action, *args, **options):
    with pytest.raises(DataError) as caught:
        action(*args, **options)
    return str(caught.value)


def test_the_message_about_a_manifest(tmp_path):
    lines = [LINE, LINE + ",", "", LINE + LINE, '{"audio_filename": "a.wav", "text": "x", "duration": -1}']
    (tmp_path / "train.jsonl").write_text("\n".join([*lines, "{", '  "audio_filepath": "a.wav"', "}"]))
    assert message_of(read_manifest, "train.jsonl", needs_text=True) == (
        """\
DataError[manifest]: 4 of 5 lines of train.jsonl cannot be read

  train.jsonl:2:60: a comma after the object; objects stand on lines of their own, without commas
    {"audio_filepath": "a.wav", "duration": 1.5, "text": "yes"},
                                                               ^
  train.jsonl:4:60: a second object on the line
    ..."a.wav", "duration": 1.5, "text": "yes"}{"audio_filepath": "...
                                               ^
  train.jsonl:5: no audio_filepath; the key 'audio_filename' is not known, did you mean
    'audio_filepath'?; duration is negative (-1 s)
  train.jsonl:6:2: the object is spread over lines 6 to 8; write one object a line
    {
     ^"""
    )


def test_the_message_about_recordings(monkeypatch):
    soundfile.write("a.wav", np.zeros((16000, 2)), 16000)
    soundfile.write("b.wav", np.zeros(22050), 22050)
    monkeypatch.setattr("os.path.abspath", lambda path: "/data/train.jsonl")
    monkeypatch.setattr("neumo.data.manifest.locate", lambda path, folder: path)
    write_manifest("train.jsonl", [{"audio_filepath": f"{name}.wav"} for name in "abc"])
    assert message_of(SpeechSource, "train.jsonl", on_rate="refuse") == (
        """\
DataError[audio]: 3 of 3 recordings of train.jsonl cannot be used

  train.jsonl:1: a.wav has 2 channels, expected 1
  train.jsonl:2: b.wav has 22050 Hz, expected 16000 Hz
  train.jsonl:3: there is no file c.wav

  fix      channels="mix" (their mean), "first" or a number
  or       a field "channel" in the manifest line
  or       on_rate="resample"
  or       resample the file to 16000 Hz
  or       on_bad="skip" leaves bad recordings out, counts and names them"""
    )


def test_the_message_about_one_recording():
    soundfile.write("a.wav", np.zeros((16000, 2)), 16000)
    assert message_of(read_audio, "a.wav", where="train.jsonl:3") == (
        """\
DataError[audio-channels]: a.wav has 2 channels, expected 1

  train.jsonl:3

  fix      channels="mix" (their mean), "first" or a number
  or       a field "channel" in the manifest line"""
    )


def test_the_message_about_unknown_characters():
    soundfile.write("a.wav", np.zeros(1600), 16000)
    write_manifest("train.jsonl", [{"audio_filepath": "a.wav", "text": text} for text in ("YES", "né")])
    vocab = Vocab(" abcdefghijklmnopqrstuvwxyz")
    assert message_of(SpeechSource, "train.jsonl", vocab=vocab) == (
        f"""\
DataError[unknown-text]: 4 labels are not in the vocabulary {vocab}: 2 of 2 texts use
    them

  train.jsonl
  'E' (U+0045 latin capital letter e)  1 time in 1 of the texts, such as a.wav (train.jsonl:1)
  'S' (U+0053 latin capital letter s)  1 time in 1 of the texts, such as a.wav (train.jsonl:1)
  'Y' (U+0059 latin capital letter y)  1 time in 1 of the texts, such as a.wav (train.jsonl:1)
  'é' (U+00E9 latin small letter e with acute)  1 time in 1 of the texts, such as a.wav
    (train.jsonl:2)

  3 of 4 unknown characters are in the vocabulary in lower case: the texts' case is not the
  vocabulary's

  fix      normalise: {{case: lower}} in the vocabulary
  or       on_unknown="drop_utterance" or "drop_character" counts and leaves them out"""
    )
