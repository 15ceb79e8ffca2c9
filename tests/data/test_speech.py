import json

import numpy as np
import pytest
import soundfile

from neumo.data import DataSource, Entry, Manifest, SpeechSource, item_rng, write_manifest
from neumo.types import Vocab
from neumo.types.errors import ConfigError, DataError

WORDS = ("yes", "no", "stop", "go on", "")


@pytest.fixture
def lines(tmp_path):
    made = []
    for n, text in enumerate(WORDS):
        samples = np.full(1600 * (n + 1), (n + 1) / 10, np.float32)
        soundfile.write(tmp_path / f"{n}.wav", samples, 16000, subtype="FLOAT")
        line = {"audio_filepath": str(tmp_path / f"{n}.wav"), "duration": 0.1 * (n + 1), "text": text}
        made.append({**line, "speaker": f"s{n}", "id": f"u{n}"})
    return made


@pytest.fixture
def source(lines):
    return SpeechSource(lines, vocab=Vocab.english(), batch_size=3, shuffle=False)


def test_it_is_a_data_source(source):
    assert isinstance(source, DataSource)


def test_batches_are_padded_arrays_by_port_name(source):
    items = [source.item(index, 0) for index in source.batches(0)[0]]
    batch = source.collate(items)
    assert {port: (a.shape, a.dtype.name) for port, a in batch.items()} == {
        "audio": ((3, 4800), "float32"),
        "audio_len": ((3,), "int64"),
        "text": ((3, 4), "int64"),
        "text_len": ((3,), "int64"),
        "item": ((3,), "int64"),
    }
    assert batch["audio_len"].tolist() == [1600, 3200, 4800]
    assert batch["text_len"].tolist() == [3, 2, 4]
    assert not batch["audio"][0, 1600:].any()
    assert batch["audio"][0, 1599] == pytest.approx(0.1)
    assert batch["text"][1].tolist() == [14, 15, 0, 0]
    assert Vocab.english().decode(batch["text"][2]) == "stop"


def test_without_a_vocabulary_there_is_no_text(lines):
    for line in lines:
        del line["text"]
    source = SpeechSource(lines)
    assert set(source.collate([source.item(0, 0)])) == {"audio", "audio_len", "item"}
    with pytest.raises(ConfigError, match="no vocabulary"):
        source.text_ids(0)


def test_an_empty_text_keeps_a_column(source):
    batch = source.collate([source.item(4, 0)])
    assert (batch["text"].shape, batch["text_len"].tolist()) == ((1, 1), [0])


def test_items_that_were_skipped_leave_nothing_behind(source):
    assert source.collate([{}, {}]) == {}
    assert source.collate([{}, source.item(1, 0)])["item"].tolist() == [1]


def test_names_texts_and_lengths_are_at_hand(source):
    assert source.name(1) == "u1 (entries:2)"
    assert source.text(3) == "go on"
    assert source.frames.tolist() == [1600, 3200, 4800, 6400, 8000]
    assert source.text_lengths.tolist() == [3, 2, 4, 5, 0]
    assert repr(source) == "<SpeechSource of 5 recordings, 0.00 h, from entries>"


def test_manifests_come_as_paths_entries_or_objects(tmp_path, lines):
    write_manifest(tmp_path / "a.jsonl", lines[:2])
    write_manifest(tmp_path / "b.jsonl", lines[2:])
    paths = [tmp_path / "a.jsonl", str(tmp_path / "b.jsonl")]
    assert len(SpeechSource(paths)) == 5
    assert len(SpeechSource(paths[0])) == 2
    assert len(SpeechSource(Manifest.of(lines))) == 5
    entry = Entry(audio=lines[0]["audio_filepath"], text="yes", extra={"gender": "F"})
    assert SpeechSource([entry]).manifest[0].extra == {"gender": "F"}
    with pytest.raises(ConfigError, match="not both"):
        SpeechSource([paths[0], lines[0]])


def test_the_random_numbers_of_an_item_depend_on_seed_epoch_and_index_only(lines):
    def noisy(samples, rate, rng):
        assert rate == 16000
        return samples + rng.standard_normal(len(samples))

    one, other = (SpeechSource(lines, perturb=noisy, seed=4) for _ in range(2))
    first = one.item(2, 1)["audio"]
    other.item(0, 0)
    assert np.array_equal(other.item(2, 1)["audio"], first)
    assert first.dtype == np.float32
    assert not np.array_equal(one.item(2, 2)["audio"], first)
    assert not np.array_equal(SpeechSource(lines, perturb=noisy, seed=5).item(2, 1)["audio"], first)
    expected = one.item(2, 0)["audio"] - item_rng(4, 0, 2).standard_normal(4800)
    assert np.abs(expected - 0.3).max() < 1e-6


def test_the_cache_saves_reading_and_stays_within_its_limit(lines, monkeypatch):
    source = SpeechSource(lines, cache="memory")
    first = source.item(1, 0)["audio"]
    monkeypatch.setattr("neumo.data.speech.read_audio", None)
    assert np.array_equal(source.item(1, 1)["audio"], first)
    small = SpeechSource(lines, cache="memory", cache_limit=1000)
    assert "samples are not cached" in small.report().text()


def test_durations_are_read_from_the_files_where_the_manifest_has_none(lines):
    for line in lines:
        del line["duration"]
    source = SpeechSource(lines, check="off", max_duration=0.35)
    assert len(source) == 3
    assert source.seconds == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert "5 lines have no duration" in source.report().text()


def test_samples_outside_of_one_are_clipped_and_counted(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.array([0.5, 1.5, -2.0], np.float32), 16000, subtype="FLOAT")
    source = SpeechSource([{"audio_filepath": str(tmp_path / "a.wav")}])
    assert source.item(0, 0)["audio"].tolist() == [0.5, 1.0, -1.0]
    assert "1 with samples outside -1 to 1, clipped" in source.report().text()


def test_excluding_is_reported_and_cannot_empty_a_source(source):
    source.exclude([1, 2], "too fast for the model")
    source.exclude(np.array([2, 3]), "another reason")
    assert source.indices.tolist() == [0, 4]
    assert [(d.reason, d.count) for d in source.report().dropped] == [
        ("too fast for the model", 2),
        ("another reason", 1),
    ]
    with pytest.raises(DataError, match="are left"):
        source.exclude([0, 4], "everything")


def test_a_report_is_plain_data(source):
    report = source.report()
    data = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert (data["entries"], data["kept"], data["rates"]) == (5, 5, {"16000": 5})
    assert data["unknown"]["empty"] == 1
    assert "1 texts are empty" in report.text()


def test_scanning_reads_every_header(lines):
    source = SpeechSource(lines, check="files")
    assert source.report().checked == 0
    assert source.scan().checked == 5


def test_bad_recordings_and_unknown_characters_are_raised_together(lines):
    lines[0]["audio_filepath"] += ".gone"
    lines[1]["text"] = "ja!"
    with pytest.raises(DataError, match="there is no file") as caught:
        SpeechSource(lines, vocab=Vocab.english())
    assert [error.code for error in caught.value.also] == ["unknown-text"]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("on_bad", "ignore", "'raise', 'skip'"),
        ("on_rate", "resampel", "did you mean 'resample'"),
        ("on_unknown", "skip", "'drop_utterance'"),
        ("channels", "left", "'mix'"),
        ("channels", -1, "number from 0"),
        ("channels", True, "number from 0"),
        ("cache", "disk", "'memory'"),
        ("check", "all", "'headers'"),
        ("batch_size", 0, "1 or more"),
        ("max_batch_seconds", -1.0, "more than 0"),
        ("bucket_window", -1, "0 or more"),
    ],
)
def test_policies_that_there_are_not_are_refused(lines, field, value, words):
    with pytest.raises(ConfigError, match=words):
        SpeechSource(lines, **{field: value})
