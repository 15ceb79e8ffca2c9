"""Recordings that break, hang or come back while a run goes on, or between two runs."""

import errno
import json
import os
import pickle

import numpy as np
import pytest
import soundfile

from neumo.data import SpeechSource, write_manifest
from neumo.data.multi import zip_sources
from neumo.data.quarantine import join_states, make_state, read_state
from neumo.types import Vocab
from neumo.types.errors import ConfigError, DataError


@pytest.fixture
def manifest(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for n in range(40):
        seconds = float(rng.uniform(0.01, 0.05))
        soundfile.write(tmp_path / f"{n}.wav", 0.1 * np.ones(int(seconds * 16000), np.float32), 16000)
        lines.append(
            {"audio_filepath": f"{n}.wav", "duration": round(seconds, 2), "text": "yes", "id": f"u{n}"}
        )
    write_manifest(tmp_path / "train.jsonl", lines)
    return tmp_path / "train.jsonl"


def open_source(manifest, **settings):
    return SpeechSource(
        manifest, vocab=Vocab.english(), batch_size=4, on_bad="skip", max_bad_share=0.2, **settings
    )


def contents(source, epochs):
    """What a run sees: the items of each batch, without the ones that come out empty."""
    return [
        [item["item"] for index in batch if (item := source.item(index, epoch))]
        for epoch in epochs
        for batch in source.batches(epoch)
    ]


def remove(manifest, *numbers):
    for number in numbers:
        (manifest.parent / f"{number}.wav").unlink()


def test_a_run_that_goes_on_has_the_batches_of_one_that_never_ended(manifest):
    remove(manifest, 3)
    source = open_source(manifest)
    contents(source, [0])
    remove(manifest, 7, 11)
    contents(source, [1])  # here two recordings turn out bad
    state = json.loads(json.dumps(source.state()))
    remove(manifest, 20)  # and here one more breaks that nobody has seen yet
    later = contents(source, [2, 3])

    fresh = open_source(manifest)
    assert contents(fresh, [2, 3]) != later
    fresh.load_state(state)
    assert contents(fresh, [2, 3]) == later
    assert [batch for epoch in (2, 3) for batch in fresh.batches(epoch)] == [
        batch for epoch in (2, 3) for batch in source.batches(epoch)
    ]
    assert [(row.index, row.late) for row in fresh.quarantined] == [
        (3, False),
        (7, True),
        (11, True),
        (20, True),
    ]


def test_a_recording_that_comes_back_stays_where_it_was(manifest):
    kept = (manifest.parent / "3.wav").read_bytes()
    remove(manifest, 3)
    source = open_source(manifest)
    again = (manifest.parent / "7.wav").read_bytes()
    remove(manifest, 7)
    contents(source, [0])
    state = source.state()
    (manifest.parent / "3.wav").write_bytes(kept)
    (manifest.parent / "7.wav").write_bytes(again)
    fresh = open_source(manifest)
    assert len(fresh) == 40
    fresh.load_state(state)
    assert contents(fresh, [1]) == contents(source, [1])
    assert fresh.item(7, 1) == {}
    assert 3 not in fresh.indices


def test_durations_that_were_measured_are_remembered(manifest):
    """The manifest rounds, the header does not: a recording that is gone keeps the place it was sorted to."""
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    for line in lines:
        del line["duration"]
    write_manifest(manifest, lines)
    source = open_source(manifest)
    state = source.state()
    remove(manifest, 7)
    later = contents(source, [1])
    fresh = open_source(manifest)
    assert np.isnan(fresh.seconds[7])
    fresh.load_state(state)
    assert np.array_equal(fresh.seconds, source.seconds)
    assert contents(fresh, [1]) == later


def test_durations_of_bad_recordings_are_remembered_however_many_were_measured(manifest, monkeypatch):
    """Two processes find one each, and their state has room for the durations of three more."""
    monkeypatch.setattr("neumo.data.quarantine._MEASURED", 3)
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    for line in lines:
        del line["duration"]
    write_manifest(manifest, lines)
    ranks = [open_source(manifest) for _ in range(2)]
    whole = np.array(ranks[0].seconds)
    remove(manifest, 17, 31)
    for rank, number in zip(ranks, (17, 31), strict=True):
        assert rank.item(number, 0) == {}
    state = json.loads(json.dumps(join_states([rank.state() for rank in ranks])))
    assert set(state["measured"]["index"]) == {0, 1, 2, 17, 31}
    for source in (*ranks, open_source(manifest)):  # at the end of an epoch, and after a resume
        source.load_state(state)
        assert np.array_equal(source.seconds, whole)
        assert source.batches(1) == ranks[0].batches(1)


def test_the_states_of_several_processes_are_one(manifest):
    ranks = [open_source(manifest) for _ in range(2)]
    ranks[0].quarantine([4], "rank 0 could not read it")
    ranks[1].quarantine(["u9", "u4 (train.jsonl:5)".replace("train.jsonl", str(manifest))], "rank 1 neither")
    state = join_states([rank.state() for rank in ranks])
    assert [(row["index"], row["reason"]) for row in state["bad"]] == [
        (4, "rank 0 could not read it"),
        (9, "rank 1 neither"),
    ]
    fresh = open_source(manifest)
    fresh.load_state(state)
    assert (fresh.item(4, 0), fresh.item(9, 0)) == ({}, {})
    assert fresh.batches(0) == ranks[0].batches(0)
    assert join_states([None, None]) is None


def test_the_sources_of_a_zip_remember_each_their_own(manifest):
    sources = [open_source(manifest, seed=1) for _ in range(2)]
    ports = [[("audio", "audio")], [("audio", "other")]]
    pairs = zip_sources(sources, ports)
    sources[1].quarantine([5], "broken")
    state = json.loads(json.dumps(join_states([pairs.state(), pairs.state()])))
    fresh = zip_sources([open_source(manifest, seed=1) for _ in range(2)], ports)
    assert fresh.item(5, 0)
    fresh.load_state(state)
    assert fresh.item(5, 0) == {}


def test_only_a_source_that_skips_can_go_on_without_recordings(manifest):
    source = open_source(manifest)
    source.quarantine([5], "broken")
    strict = SpeechSource(manifest, vocab=Vocab.english())
    with pytest.raises(ConfigError, match="left out 1 bad recordings, and on_bad is 'raise'"):
        strict.load_state(source.state())
    with pytest.raises(ConfigError, match="quarantine, and on_bad is 'raise'"):
        strict.quarantine([5], "broken")
    strict.load_state(open_source(manifest).state())


def test_too_many_bad_recordings_end_a_run(manifest):
    source = open_source(manifest)
    with pytest.raises(DataError, match="9 of 40 recordings are bad"):
        source.quarantine(range(9), "broken")
    with pytest.raises(DataError, match=r"no\s+entry 'nobody'"):
        source.quarantine(["nobody"], "broken")


def test_a_state_of_another_manifest_is_noted(manifest):
    state = open_source(manifest).state()
    write_manifest(manifest, [json.loads(line) for line in manifest.read_text().splitlines()[:30]])
    source = open_source(manifest)
    source.load_state(state)
    assert "the manifest has 30 entries and had 40" in source.report().text()
    with pytest.raises(ConfigError, match="not the state of a data source"):
        source.load_state({"kept": "no"})


def test_a_state_is_small():
    state = make_state([], np.ones(1_000_000, bool), np.ones(1_000_000), np.ones(1_000_000))
    assert len(json.dumps(state)) < 1000
    assert read_state(state).kept.all()


def test_what_a_worker_finds_its_parent_can_tell(manifest, tmp_path):
    source = open_source(manifest)
    remove(manifest, 7)
    worker = pickle.loads(pickle.dumps(source))
    assert worker.item(7, 0) == {}
    assert [(row.item, row.kind) for row in source.quarantined] == [("u7", "missing")]
    assert "there is no file" in source.quarantined[0].reason
    source.report().save(tmp_path / "run")
    (row,) = map(json.loads, (tmp_path / "run" / "quarantine.jsonl").read_text().splitlines())
    assert (row["index"], row["item"], row["kind"], row["late"]) == (7, "u7", "missing", True)


def failing(monkeypatch, times, number, module="decode"):
    """Let opening recordings fail a few times."""
    calls = []

    def opened(path, mode="r", **more):
        if str(path).endswith(".wav"):
            calls.append(path)
            if len(calls) <= times:
                raise OSError(number, os.strerror(number))
        return open(path, mode, **more)

    monkeypatch.setattr(f"neumo.data.{module}.open", opened, raising=False)
    monkeypatch.setattr("neumo.data.retry.time.sleep", lambda seconds: None)
    return calls


def test_an_error_of_the_system_that_passes_is_tried_again(manifest, monkeypatch):
    source = open_source(manifest)
    calls = failing(monkeypatch, 2, errno.ESTALE)
    assert source.item(0, 0)["item"] == 0
    assert len(calls) == 3
    assert source.quarantined == []


def test_an_error_of_the_system_that_lasts_is_bad(manifest, monkeypatch):
    source = open_source(manifest, retries=1)
    calls = failing(monkeypatch, 9, errno.EIO)
    assert source.item(0, 0) == {}
    assert len(calls) == 2
    assert source.quarantined[0].kind == "unreadable"


def test_a_file_that_is_not_there_is_not_tried_again(manifest, monkeypatch):
    source = open_source(manifest)
    calls = failing(monkeypatch, 9, errno.ENOENT)
    assert source.item(0, 0) == {}
    assert len(calls) == 1


def test_an_error_in_the_middle_of_a_file_is_told_from_its_end(manifest, monkeypatch):
    class Flaky:
        def __init__(self, file):
            self.file, self.left = file, 1
            self.seek, self.tell = file.seek, file.tell

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def read(self, size=-1):
            return self.fail() or self.file.read(size)

        def fail(self):
            if self.file.tell() > 0 and reads.append(1) is None and len(reads) == 3:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    def flaky(path, mode):
        return Flaky(open(path, mode))

    reads = []
    source = open_source(manifest)
    monkeypatch.setattr("neumo.data.decode.open", flaky, raising=False)
    monkeypatch.setattr("neumo.data.retry.time.sleep", lambda seconds: None)
    assert source.item(0, 0)["item"] == 0
    assert len(reads) > 3
    reads.clear()
    source.retries = 0
    assert source.item(0, 0) == {}
    assert "cannot be read: Input/output error" in source.quarantined[0].reason
