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


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    path = tmp_path_factory.mktemp("big") / "train.jsonl"
    line = {
        "audio_filepath": "",
        "duration": 3.25,
        "text": "a line of the usual length, with some words in it",
    }
    with open(path, "w") as file:
        for n in range(LINES):
            line["audio_filepath"] = f"train-clean-100/speaker-{n % 251}/chapter/{n:07d}.flac"
            file.write(json.dumps(line) + "\n")
    return path


def test_a_large_manifest_takes_about_what_its_file_weighs(manifest):
    """C15: no Python object per line."""
    size = manifest.stat().st_size
    before = resident()
    loaded = read_manifest(manifest)
    assert resident() - before < 1.2 * size + 64 * LINES
    assert len(loaded) == LINES


def _walk(source, pipe):
    grown = []
    for epoch in range(3):
        for batch in source.batches(epoch, rank=0, world=8):
            for index in batch:
                assert source.manifest[index].duration == 3.25
        grown.append(resident())
    pipe.send(grown)


def test_workers_share_the_index_and_do_not_grow(manifest):
    """C15: eight forked workers over three epochs; the growth after the first is about nothing."""
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
