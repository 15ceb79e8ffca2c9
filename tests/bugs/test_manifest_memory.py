"""The memory of workers grew until they were killed where a manifest had many lines."""

import json
import multiprocessing

import numpy as np
import pytest

from neumo.data import SpeechSource, read_manifest

LINES = 40_000


def resident():
    """Give the private memory of this process in bytes: what is not shared with its parent."""
    with open("/proc/self/smaps_rollup") as file:
        rows = [row.split() for row in file]
    return sum(int(row[1]) * 1024 for row in rows if row[0] in ("Private_Clean:", "Private_Dirty:"))


def write(path, lines):
    line = {
        "audio_filepath": "",
        "duration": 3.25,
        "text": "a line of the usual length, with some words in it",
    }
    with open(path, "w") as file:
        for n in range(lines):
            line["audio_filepath"] = f"train-clean-100/speaker-{n % 251}/chapter/{n:07d}.flac"
            file.write(json.dumps(line) + "\n")
    return path


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    return write(tmp_path_factory.mktemp("big") / "train.jsonl", LINES)


def test_a_large_manifest_takes_about_what_its_file_weighs(manifest):
    """No Python object per line."""
    size = manifest.stat().st_size
    before = resident()
    loaded = read_manifest(manifest)
    assert resident() - before < 1.2 * size + 64 * LINES
    assert len(loaded) == LINES


def _walk(source, pipe, rank=0):
    grown = []
    for epoch in range(3):
        for batch in source.batches(epoch, rank=rank, world=8):
            for index in batch:
                assert source.manifest[index].duration == 3.25
        grown.append(resident())
    pipe.send(grown)


def test_workers_share_the_index_and_do_not_grow(manifest):
    """Two forked workers, one after the other; the growth after the first epoch is about nothing."""
    source = SpeechSource(read_manifest(manifest), check="off", batch_size=32)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    for _ in range(2):
        worker = context.Process(target=_walk, args=(source, theirs))
        worker.start()
        grown = ours.recv()
        worker.join()
        assert grown[2] - grown[0] < 4 << 20
        assert grown[2] < 48 << 20
    assert np.all(source.seconds == 3.25)


@pytest.mark.proof
def test_eight_workers_of_a_million_lines_do_not_grow_over_three_epochs(tmp_path):
    """All at once, as they are in a training, so that pages that are shared no more would show."""
    source = SpeechSource(
        read_manifest(write(tmp_path / "train.jsonl", 1_000_000)), check="off", batch_size=32
    )
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe() for _ in range(8)]
    workers = [
        context.Process(target=_walk, args=(source, theirs, rank)) for rank, (_, theirs) in enumerate(pipes)
    ]
    for worker in workers:
        worker.start()
    grown = np.array([ours.recv() for ours, _ in pipes])
    for worker in workers:
        worker.join()
    slopes = np.polyfit(range(3), grown.T, 1)[0]  # bytes an epoch
    assert (slopes < 2 << 20).all(), slopes
