"""`neumo transcribe`: words in, text out, and an exit code that tells."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from neumo.asr.transcribe import Transcript, Word
from neumo.cli.transcribe import gather
from neumo.engine import NeuralFactory
from neumo.graph.yaml import load_recipe
from neumo.hub import save_model
from neumo.types.errors import ConfigError, DataError

from .runner import neumo, process
from .toy_speech import RECIPE, speak


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A model that has learned nothing, and recordings of many kinds."""
    folder = tmp_path_factory.mktemp("place")
    recipe = load_recipe(RECIPE)
    save_model(folder / "model.neumo", recipe, NeuralFactory(device="cpu", seed=1, progress=False))
    for name, text in (("one", "a"), ("two", "b c")):
        soundfile.write(folder / f"{name}.wav", speak(text), 16000)
    soundfile.write(folder / "silent.flac", np.zeros(8000), 16000)
    soundfile.write(folder / "sample.wav", np.full(1, 0.5), 16000)
    soundfile.write(folder / "stereo.wav", np.stack([speak("a")] * 2, 1), 16000)
    soundfile.write(folder / "empty.wav", np.zeros(0), 16000)
    (folder / "broken.wav").write_bytes(b"not audio at all")
    (folder / "notes.txt").write_text("no recording")
    return folder


def test_one_recording_gives_its_text_and_nothing_else(place, capsys):
    result = neumo(capsys, "transcribe", str(place / "model.neumo"), str(place / "one.wav"))
    assert (result.code, result.err) == (0, "")
    assert result.out.count("\n") == 1
    assert "\t" not in result.out


def test_several_give_a_line_each_in_the_order_given(place, capsys):
    files = [str(place / name) for name in ("two.wav", "silent.flac", "one.wav")]
    result = neumo(capsys, "transcribe", str(place / "model.neumo"), *files)
    assert result.code == 0
    assert [line.split("\t")[0] for line in result.out.splitlines()] == files


def test_json_is_one_object_a_recording(place, capsys):
    files = [str(place / name) for name in ("one.wav", "silent.flac", "broken.wav")]
    result = neumo(capsys, "transcribe", str(place / "model.neumo"), *files, "--json")
    assert result.code == 1
    one, silent, broken = [json.loads(line) for line in result.out.splitlines()]
    assert isinstance(one["words"], list)
    assert (silent["words"], "words" in broken) == ([], False)
    assert one["duration"] == pytest.approx(len(speak("a")) / 16000, abs=1e-4)
    assert (silent["text"], silent["silent"]) == ("", True)
    assert "broken.wav" in broken["error"]


@pytest.mark.parametrize("name", ["silent.flac", "sample.wav"])
def test_silence_and_a_single_sample_give_empty_text_and_exit_0(place, capsys, name):
    result = neumo(capsys, "transcribe", str(place / "model.neumo"), str(place / name))
    assert (result.code, result.out.strip()) == (0, "")


def test_what_cannot_be_read_is_named_and_the_rest_is_transcribed(place, capsys):
    names = ("broken.wav", "one.wav", "missing.wav", "stereo.wav", "empty.wav", "two.wav")
    result = neumo(capsys, "transcribe", str(place / "model.neumo"), *(str(place / name) for name in names))
    assert result.code == 1
    assert [Path(line.split("\t")[0]).name for line in result.out.splitlines()] == ["one.wav", "two.wav"]
    for name in ("broken.wav", "missing.wav", "stereo.wav", "empty.wav"):
        assert name in result.err
    assert "4 of 6 recordings could not be read" in result.err


def test_channels_are_chosen_by_an_option(place, capsys):
    words = ["transcribe", str(place / "model.neumo"), str(place / "stereo.wav"), "--channels"]
    assert neumo(capsys, *words, "mix").code == 0
    assert neumo(capsys, *words, "1").code == 0
    assert neumo(capsys, *words, "7").code == 1
    result = neumo(capsys, *words, "both")
    assert result.code == 1
    assert "refuse, mix, first" in result.err


def test_a_manifest_gives_its_recordings(place, capsys, tmp_path):
    lines = [{"audio_filepath": str(place / "two.wav"), "offset": 0.1, "duration": 0.4, "text": "b"}]
    (tmp_path / "m.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    result = neumo(
        capsys, "transcribe", str(place / "model.neumo"), "--manifest", str(tmp_path / "m.jsonl"), "--json"
    )
    assert json.loads(result.out)["duration"] == 0.4


def test_a_list_comes_by_the_input_stream(place):
    listed = f"{place / 'one.wav'}\n\n{place / 'two.wav'}\n"
    result = process("transcribe", str(place / "model.neumo"), "-", text=listed)
    assert result.code == 0, result.err
    assert len(result.out.splitlines()) == 2


def test_folders_and_patterns_are_expanded_in_sorted_order(place):
    found = list(gather([str(place)], []))
    assert found == sorted(found)
    assert {Path(path).suffix for path in found} == {".wav", ".flac"}
    assert [Path(path).name for path in gather([f"{place}/*o.wav"], [])] == ["stereo.wav", "two.wav"]


def test_a_file_whose_name_looks_like_a_pattern_is_taken_as_it_is(tmp_path):
    path = tmp_path / "take[1].wav"
    path.write_bytes(b"")
    assert list(gather([str(path)], [])) == [str(path)]


def test_a_folder_or_a_pattern_without_recordings_is_an_error(tmp_path):
    for word in (str(tmp_path), f"{tmp_path}/*.wav"):
        with pytest.raises(DataError, match="no recording"):
            list(gather([word], []))


def test_nothing_to_do_is_an_error_with_the_way_out(place, capsys):
    result = neumo(capsys, "transcribe", str(place / "model.neumo"))
    assert result.code == 1
    assert "--manifest" in result.err


@pytest.mark.parametrize(("name", "words"), [("notes.txt", "a text file"), ("none.neumo", "no model file")])
def test_what_is_no_model_is_refused(place, capsys, name, words):
    result = neumo(capsys, "transcribe", str(place / name), str(place / "one.wav"))
    assert result.code == 1
    assert words in result.err
    assert result.out == ""


WORDS = (Word("one", 0.12, 0.4, 0.9), Word("two", 0.52, 0.9, 0.805))


@pytest.fixture
def said(monkeypatch):
    """Lets every recording say two words; returns with which settings it was asked."""
    settings = {}

    def transcriber(self, **given):
        settings.update(given)
        return lambda recordings: [
            Transcript(str(name), "one two", 1.5, timed=WORDS if given["times"] is not False else NOT_ASKED)
            for name in recordings
        ]

    monkeypatch.setattr("neumo.hub.bundle.Model.transcriber", transcriber)
    return settings


NOT_ASKED = ConfigError("not asked for", code="word-times")


def test_times_are_printed_a_word_a_line(place, capsys, said):
    result = neumo(capsys, "transcribe", str(place / "model.neumo"), "x.wav", "--times")
    assert result.out == "0.12\t0.40\t0.90\tone\n0.52\t0.90\t0.81\ttwo\n"
    result = neumo(capsys, "transcribe", str(place / "model.neumo"), "x.wav", "y.wav", "--times")
    assert [line.split("\t")[0] for line in result.out.splitlines()] == ["x.wav", "x.wav", "y.wav", "y.wav"]


@pytest.mark.parametrize(
    ("options", "times"),
    [([], False), (["--times"], True), (["--json"], None), (["--json", "--times"], True)]
    + [(["--format", form], True) for form in ("ctm", "srt", "vtt")]
    + [(["--format", "json"], None), (["--format", "txt"], False)],
)
def test_times_are_computed_where_they_are_printed(place, capsys, said, options, times):
    assert neumo(capsys, "transcribe", str(place / "model.neumo"), "x.wav", *options).code == 0
    assert said["times"] is times


def test_captions_and_ctm_go_to_the_output(place, capsys, said):
    words = ["transcribe", str(place / "model.neumo"), "x.wav", "--format"]
    assert neumo(capsys, *words, "srt").out == "1\n00:00:00,120 --> 00:00:01,120\none two\n"
    assert neumo(capsys, *words, "vtt").out == "WEBVTT\n\n00:00:00.120 --> 00:00:01.120\none two\n"
    assert neumo(capsys, *words, "ctm").out == "x 1 0.120 0.280 one 0.900\nx 1 0.520 0.380 two 0.805\n"


def test_captions_of_several_recordings_in_one_output_are_refused(place, capsys):
    words = ["transcribe", str(place / "model.neumo"), "x.wav", "y.wav", "--format"]
    result = neumo(capsys, *words, "srt")
    assert (result.code, result.out) == (2, "")
    assert "srt holds the captions of one recording, and there are 2" in result.err
    assert "--format ctm" in result.err


def test_two_forms_at_once_are_refused(place, capsys):
    result = neumo(capsys, "transcribe", str(place / "model.neumo"), "x.wav", "--json", "--format", "srt")
    assert result.code == 2
    assert "--json and --format srt are two forms" in result.out + result.err


def test_a_model_file_that_gives_ids_only_has_times(place, capsys):
    result = neumo(
        capsys, "transcribe", str(place / "model.neumo"), str(place / "two.wav"), "--times", "--json"
    )
    found = json.loads(result.out)
    times = [time for word in found["words"] for time in (word["start"], word["end"])]
    assert " ".join(word["word"] for word in found["words"]) == " ".join(found["text"].split())
    assert times == sorted(times)
    assert all(0 <= time <= found["duration"] for time in times)


def test_a_folder_gets_a_file_a_recording_and_those_there_are_left_alone(place, capsys, tmp_path):
    words = ["transcribe", str(place / "model.neumo"), str(place / "one.wav"), str(place / "two.wav")]
    words += ["--output", str(tmp_path / "out"), "--format", "vtt"]
    assert neumo(capsys, *words).code == 0
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == ["one.vtt", "two.vtt"]
    (tmp_path / "out" / "one.vtt").write_text("mine")
    (tmp_path / "out" / "two.vtt").unlink()
    assert neumo(capsys, *words, "--skip-existing").code == 0
    assert (tmp_path / "out" / "one.vtt").read_text() == "mine"
    assert (tmp_path / "out" / "two.vtt").read_text().startswith("WEBVTT")


def test_one_file_gets_all_transcripts(place, capsys, tmp_path):
    files = [str(place / name) for name in ("one.wav", "broken.wav", "two.wav")]
    words = [
        "transcribe",
        str(place / "model.neumo"),
        *files,
        "--output",
        str(tmp_path / "a.jsonl"),
        "--json",
    ]
    result = neumo(capsys, *words)
    assert (result.code, result.out) == (1, "")
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert ["error" in row for row in rows] == [False, True, False]


def test_recordings_of_one_name_are_not_written_over_one_another(place, capsys, tmp_path):
    (tmp_path / "one.wav").write_bytes((place / "one.wav").read_bytes())
    files = [str(place / "one.wav"), str(tmp_path / "one.wav")]
    result = neumo(capsys, "transcribe", str(place / "model.neumo"), *files, "--output", str(tmp_path))
    assert result.code == 1
    assert "two recordings would be written to" in result.err


def test_a_beam_search_and_chunks_and_precisions_are_options(place, capsys):
    words = ["transcribe", str(place / "model.neumo"), str(place / "two.wav")]
    assert neumo(capsys, *words, "--beam", "4", "--times").code == 0
    assert neumo(capsys, *words, "--chunk", "0.5", "--overlap", "0.1", "--memory", "200MB").code == 0
    assert "--precision auto chose" in neumo(capsys, *words, "--precision", "auto").err
    result = neumo(capsys, *words, "--alpha", "0.5")
    assert result.code == 2
    assert "there is none" in result.err


def test_an_evaluation_takes_a_beam_and_a_precision(place, capsys, tmp_path):
    line = {"audio_filepath": str(place / "two.wav"), "text": "b c"}
    (tmp_path / "m.jsonl").write_text(json.dumps(line))
    words = ["evaluate", str(place / "model.neumo"), "--manifest", str(tmp_path / "m.jsonl"), "--json"]
    result = neumo(capsys, *words, "--beam", "4", "--precision", "bf16")
    assert result.code == 0
    assert json.loads(result.out)["words"]["rate"] >= 0
    assert neumo(capsys, *words, "--beta", "1").code == 2
