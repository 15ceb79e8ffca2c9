import json
import os
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import soundfile

from neumo.data import SpeechSource, read_manifest


def manifest_in(folder, name):
    path = folder / "train.jsonl"
    path.write_text(json.dumps({"audio_filepath": name}) + "\n", encoding="utf-8")
    return path


def write_sound(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.zeros(160, np.float32), 16000)


@pytest.mark.parametrize(
    "written",
    [
        "clips/a b.wav",
        "clips\\a b.wav",
        "./clips/../clips/a b.wav",
        ".\\clips\\a b.wav",
    ],
)
def test_relative_paths_belong_to_the_manifest(tmp_path, monkeypatch, written):
    """In another working directory; both separators; spaces."""
    write_sound(tmp_path / "clips" / "a b.wav")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for manifest in (manifest_in(tmp_path, written), Path("..") / "train.jsonl", "../train.jsonl"):
        source = SpeechSource(manifest)
        assert os.path.samefile(source.manifest[0].audio, tmp_path / "clips" / "a b.wav")
        assert len(source.item(0, 0)["audio"]) == 160


def test_tilde_is_the_home_folder(tmp_path, monkeypatch):
    """In the manifest, and for the manifest itself."""
    monkeypatch.setenv("HOME", str(tmp_path))
    write_sound(tmp_path / "clips" / "a.wav")
    manifest_in(tmp_path, "~/clips/a.wav")
    assert read_manifest("~/train.jsonl")[0].audio == str(tmp_path / "clips" / "a.wav")


@pytest.mark.parametrize("on_disk", ["NFC", "NFD"])
@pytest.mark.parametrize("written", ["NFC", "NFD"])
def test_unicode_names_are_found_in_either_form(tmp_path, on_disk, written):
    """Accents as one character or as two."""
    name = "ä/Şarkı é.wav"
    write_sound(tmp_path / unicodedata.normalize(on_disk, name))
    source = SpeechSource(manifest_in(tmp_path, unicodedata.normalize(written, name)))
    assert len(source.item(0, 0)["audio"]) == 160


def test_a_file_whose_name_holds_a_backslash_is_still_found(tmp_path):
    write_sound(tmp_path / "a\\b.wav")
    assert read_manifest(manifest_in(tmp_path, "a\\b.wav"))[0].audio == str(tmp_path / "a\\b.wav")


def test_absolute_paths_stay(tmp_path):
    assert read_manifest(manifest_in(tmp_path, "/data/a.wav"))[0].audio == "/data/a.wav"
