"""Kaldi folders are manifests; commands in them are never executed."""

import json

import numpy as np
import pytest
import soundfile

from neumo.cli.main import run
from neumo.data import SpeechSource, read_manifest
from neumo.types import Vocab
from neumo.types.errors import DataError


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "data" / "train"
    (place / "audio").mkdir(parents=True)
    for n in range(2):
        soundfile.write(place / "audio" / f"{n}.flac", np.linspace(0, 0.5, 32000), 16000)
    (place / "wav.scp").write_text(f"rec0 {place}/audio/0.flac\nrec1\taudio/1.flac\n")
    (place / "text").write_text("rec0 yes\nrec1 no no\n")
    (place / "utt2spk").write_text("rec0 ann\nrec1 bob\n")
    return place


def neumo(capsys, *words):
    with pytest.raises(SystemExit) as done:
        run([str(word) for word in words])
    said = capsys.readouterr()
    return int(done.value.code or 0), said.out, said.err


def test_a_folder_of_whole_recordings(folder):
    manifest = read_manifest(folder, needs_text=True)
    assert [(e.id, e.text, e.speaker) for e in manifest] == [("rec0", "yes", "ann"), ("rec1", "no no", "bob")]
    assert manifest[1].audio == str(folder / "audio" / "1.flac")
    assert manifest.where(1) == f"{folder}/wav.scp:2"
    source = SpeechSource(folder, vocab=Vocab.english())
    assert source.seconds.tolist() == [2.0, 2.0]


def test_segments_are_pieces_of_recordings(folder):
    (folder / "segments").write_text("u1 rec0 0.5 1.25\n\nu2 rec1 1.0 -1\n")
    (folder / "text").write_text("u1 yes\nu2 no\nu3 lost\n")
    (folder / "utt2spk").write_text("u1 ann\nu2 bob\n")
    source = SpeechSource(folder, vocab=Vocab.english(), shuffle=False)
    assert source.seconds.tolist() == [0.75, 1.0]
    assert source.manifest.where(1) == f"{folder}/segments:3"
    whole, _ = soundfile.read(folder / "audio" / "0.flac", dtype="float32")
    assert np.array_equal(source.item(0, 0)["audio"], whole[8000:20000])
    assert len(source.item(1, 0)["audio"]) == 16000
    assert "1 utterances" in source.report().text()
    assert "u3" in source.report().text()


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("touch {mark} |", "not executed"),
        ("flac -c -d -s /data/a.flac |", "read as it is: /data/a.flac"),
        ("sph2pipe -f wav a.sph | sox - -t wav - |", "run it yourself"),
        ("raw.ark:1234", "archive is not opened"),
        ("-", "no file"),
    ],
)
def test_commands_and_archives_are_refused_with_the_way_out(folder, tmp_path, entry, said):
    mark = tmp_path / "executed"
    (folder / "wav.scp").write_text(f"rec0 audio/0.flac\nrec1 {entry.format(mark=mark)}\n")
    with pytest.raises(DataError) as caught:
        read_manifest(folder)
    assert not mark.exists()
    assert said in " ".join(str(caught.value).split())
    assert f"{folder}/wav.scp:2" in str(caught.value)


def test_what_does_not_fit_together_is_named_by_line(folder):
    lines = ["u1 rec9 0 1", "u2 rec0 2 1", "u3 rec0 a b", "u4 rec0 0", "u5 rec0 0 1"]
    (folder / "segments").write_text("\n".join(lines))
    with pytest.raises(DataError) as caught:
        read_manifest(folder)
    assert [row["where"].rpartition(":")[2] for row in caught.value.data["problems"]] == ["1", "2", "3", "4"]


def test_a_folder_without_wav_scp_is_no_manifest(tmp_path):
    with pytest.raises(DataError) as caught:
        read_manifest(tmp_path)
    assert caught.value.code == "kaldi"


def test_the_command_writes_a_manifest_that_says_the_same(folder, tmp_path, capsys):
    (folder / "segments").write_text("u1 rec0 0.5 1.25\nu2 rec1 0 1\n")
    (folder / "text").write_text("u1 yes\nu2 no\n")
    code, out, err = neumo(capsys, "data", "kaldi", folder, "-o", tmp_path / "m.jsonl")
    assert (code, err) == (0, "")
    assert "2 entries" in out
    first = json.loads((tmp_path / "m.jsonl").read_text().splitlines()[0])
    assert first["audio_filepath"] == "data/train/audio/0.flac"
    assert [e.offset for e in read_manifest(tmp_path / "m.jsonl")] == [0.5, 0.0]
    code, out, _ = neumo(capsys, "data", "validate", folder)
    assert code == 0
    assert "nothing is broken" in out
