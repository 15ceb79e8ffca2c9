import io
import json
import multiprocessing
import pickle
import re

import numpy as np
import pytest
import soundfile

from neumo.data import SpeechSource, read_audio
from neumo.types.errors import DataError

NOISE = (0.1 * np.random.default_rng(0).standard_normal(32000)).astype(np.float32)


def encoded(kind, subtype):
    file = io.BytesIO()
    soundfile.write(file, NOISE, 16000, format=kind, subtype=subtype)
    return file.getvalue()


def damaged(kind, subtype):
    blob = bytearray(encoded(kind, subtype))
    middle = len(blob) // 2
    blob[middle : middle + 300] = bytes(300)
    return bytes(blob)


WAV, FLAC, OGG = encoded("WAV", "PCM_16"), encoded("FLAC", "PCM_16"), encoded("OGG", "VORBIS")
BAD = {
    "missing": None,
    "cut.wav": WAV[: len(WAV) // 2],
    "cut_header.wav": WAV[:30],
    "cut.flac": FLAC[: len(FLAC) // 2],
    "cut.ogg": OGG[: len(OGG) // 2],
    "cut_opus.ogg": encoded("OGG", "OPUS")[:7001],
    "cut.mp3": encoded("MP3", "MPEG_LAYER_III")[:4000],
    "packet.ogg": damaged("OGG", "VORBIS"),
    "frame.flac": damaged("FLAC", "PCM_16"),
    "empty.wav": b"",
    "no_samples.wav": WAV[:40] + bytes(4),
    "text.wav": b"this is not sound, it is a sentence that somebody saved under the wrong name.",
    "page.wav": b"<!DOCTYPE html><html><body>404 not found</body></html>",
    "pointer.flac": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    "video.wav": b"\x00\x00\x00\x20ftypM4A \x00\x00\x00\x00" + bytes(100),
    "zeros.wav": bytes(1000),
    "nan.wav": None,
    "scale.wav": None,
    "folder": None,
}


def place(folder, name):
    path = folder / name
    if name == "folder":
        path.mkdir()
    elif name == "nan.wav":
        soundfile.write(path, np.where(np.arange(800) == 5, np.nan, 0.0), 16000, subtype="FLOAT")
    elif name == "scale.wav":
        soundfile.write(path, NOISE * 32768, 16000, subtype="FLOAT")
    elif BAD[name] is not None:
        path.write_bytes(BAD[name])
    return path


@pytest.mark.parametrize("name", BAD)
def test_every_kind_of_failure_is_one_kind_of_error(tmp_path, name):
    """One exception family that names path, line and reason."""
    path = place(tmp_path, name)
    with pytest.raises(DataError) as caught:
        read_audio(path, where="train.jsonl:7")
    assert caught.value.code.startswith("audio-")
    assert caught.value.where == "train.jsonl:7"
    assert str(path) in caught.value.what


def test_a_file_that_may_not_be_read_is_the_same_kind_of_error(tmp_path, monkeypatch):
    """Permission (root may read everything, so the system's answer is imitated)."""
    path = tmp_path / "a.wav"
    path.write_bytes(WAV)

    def refuse(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(DataError, match=r"cannot\s+be\s+opened:\s+Permission\s+denied"):
        read_audio(path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("page.wav", "is an HTML page"),
        ("pointer.flac", "git lfs pull"),
        ("video.wav", "MPEG-4 audio or video"),
        ("cut.wav", r"promises 2\.00 s of data, the file has 1\.00 s"),
        ("text.wav", "not audio of a known format"),
        ("zeros.wav", "nothing but zero bytes"),
        ("nan.wav", "1 samples that are not finite"),
        ("scale.wav", "expected -1 to 1"),
    ],
)
def test_the_reason_is_said(tmp_path, name, words):
    with pytest.raises(DataError) as caught:
        read_audio(place(tmp_path, name))
    assert re.search(words, caught.value.what)


@pytest.fixture
def manifest(tmp_path):
    lines = []
    for n in range(30):
        (tmp_path / f"{n}.wav").write_bytes(WAV)
        lines.append({"audio_filepath": f"{n}.wav", "duration": 2.0})
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def read_epoch(source, epoch):
    return [source.item(index, epoch) for batch in source.batches(epoch) for index in batch]


def test_bad_recordings_are_remembered_across_epochs(tmp_path, manifest, monkeypatch):
    """A file that is deleted after epoch 1 is tried once more, then never again."""
    source = SpeechSource(manifest, on_bad="skip")
    assert all(read_epoch(source, 0))
    order = source.batches(2)
    (tmp_path / "3.wav").unlink()
    (tmp_path / "9.wav").write_bytes(BAD["cut.wav"])
    opened = []
    real = read_audio

    def counting(path, **options):
        opened.append(path)
        return real(path, **options)

    monkeypatch.setattr("neumo.data.speech.read_audio", counting)
    assert sum(not item for item in read_epoch(source, 1)) == 2
    assert len(opened) == 30
    assert sum(not item for item in read_epoch(source, 2)) == 2
    assert len(opened) == 58
    assert (
        source.batches(2) == order
    )  # a resume in a process that has not met the bad files has the same batches
    report = source.report()
    assert report.kept == 28
    assert {d.reason: d.count for d in report.dropped} == {
        "bad recording (missing)": 1,
        "bad recording (truncated)": 1,
    }
    assert "3.wav (" in report.text()


def test_a_run_ends_only_above_the_set_share(tmp_path, manifest):
    """A budget for bad files, 10 % by default."""
    for n in range(3):
        (tmp_path / f"{n}.wav").write_bytes(BAD["cut.wav"])
    source = SpeechSource(manifest, on_bad="skip")
    assert len(source) == 27
    (tmp_path / "20.wav").unlink()
    with pytest.raises(DataError, match="4 of 30 recordings are bad, more than the 10%") as caught:
        read_epoch(source, 0)
    assert caught.value.code == "bad-share"
    assert "there is no file" in " ".join(str(caught.value).split())
    with pytest.raises(DataError, match="4 of 30"):
        SpeechSource(manifest, on_bad="skip")
    assert len(SpeechSource(manifest, on_bad="skip", max_bad_share=0.2)) == 26


def test_by_default_the_first_bad_file_in_a_run_is_raised_with_its_line(tmp_path, manifest):
    source = SpeechSource(manifest)
    (tmp_path / "3.wav").unlink()
    with pytest.raises(DataError) as caught:
        read_epoch(source, 0)
    assert caught.value.what == f"there is no file {tmp_path / '3.wav'}"
    assert caught.value.where == f"{manifest}:4"


def test_all_bad_files_are_listed_before_the_first_batch(tmp_path, manifest):
    for n in (1, 5, 6):
        (tmp_path / f"{n}.wav").write_bytes(BAD["cut.wav"])
    (tmp_path / "8.wav").unlink()
    with pytest.raises(DataError, match="4 of 30 recordings") as caught:
        SpeechSource(manifest)
    places = [problem["where"] for problem in caught.value.data["problems"]]
    assert places == [f"{manifest}:{line}" for line in (2, 6, 7, 9)]


def _read_in_worker(source, index):
    assert source.item(index, 0) == {}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_what_a_worker_finds_is_known_to_all(tmp_path, manifest, method):
    """The quarantine list crosses process borders."""
    source = SpeechSource(manifest, on_bad="skip")
    (tmp_path / "3.wav").unlink()
    worker = multiprocessing.get_context(method).Process(target=_read_in_worker, args=(source, 3))
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    assert source.item(3, 1) == {}
    assert source.report().kept == 29


def test_a_source_can_be_pickled(manifest):
    copy = pickle.loads(pickle.dumps(SpeechSource(manifest)))
    assert copy.batches(3) == SpeechSource(manifest).batches(3)
