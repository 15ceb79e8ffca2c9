import gc
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from neumo.data import SpeechSource, read_manifest, write_manifest
from neumo.data.cache import SampleCache
from neumo.data.folders import make_folder
from neumo.data.share import SharedArrays
from neumo.types import Vocab
from neumo.types.errors import DataError


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """A manifest of 20,000 lines that name the same two recordings."""
    folder = tmp_path_factory.mktemp("big")
    for n in range(2):
        soundfile.write(folder / f"{n}.wav", np.full(160 * (n + 1), 0.1, np.float32), 16000)
    lines = [
        {"audio_filepath": f"{n % 2}.wav", "duration": 0.01 * (1 + n % 2), "text": "yes " * 9, "id": f"u{n}"}
        for n in range(20_000)
    ]
    write_manifest(folder / "big.jsonl", lines)
    return folder / "big.jsonl"


def test_a_manifest_is_not_copied_into_another_process(big):
    source = SpeechSource(big, vocab=Vocab.english(), check="off")
    sent = pickle.dumps(source)
    assert len(sent) < 16 * len(source) < big.stat().st_size / 4  # the lengths alone are below a megabyte
    other = pickle.loads(sent)
    assert other.manifest[19_999] == source.manifest[19_999]
    assert other.batches(3) == source.batches(3)
    assert np.array_equal(other.item(7, 0)["audio"], source.item(7, 0)["audio"])


def test_a_small_manifest_travels_as_it_is(tmp_path):
    write_manifest(tmp_path / "a.jsonl", [{"audio_filepath": "a.wav", "text": "ä"}])
    manifest = read_manifest(tmp_path / "a.jsonl")
    sent = pickle.dumps(manifest)
    del manifest
    assert pickle.loads(sent)[0].text == "ä"


def test_the_files_of_shared_arrays_go_with_their_maker():
    shared = SharedArrays({"a": np.arange(300_000), "none": np.zeros((0, 3))})
    sent = pickle.dumps(shared)
    assert pickle.dumps(shared) == sent
    other = pickle.loads(sent)
    assert other["a"][-1] == shared["a"][-1] == 299_999
    assert other["none"].shape == (0, 3)
    del shared
    gc.collect()
    assert other["a"][-1] == 299_999
    with pytest.raises(DataError, match="live as long as the process"):
        pickle.loads(sent)


def test_samples_are_cached_once_for_all_processes():
    cache = SampleCache(np.array([100, 0, 50]))
    other = pickle.loads(pickle.dumps(cache))
    other.put(0, np.arange(100, dtype=np.float32))
    found = cache.get(0)
    assert found is not None
    assert found.tolist() == list(range(100))
    assert not found.flags.writeable
    assert cache.get(2) is None


def test_samples_that_are_longer_than_their_place_are_not_cached():
    cache = SampleCache(np.array([100, 100]))
    cache.put(0, np.ones(100 + 1600, np.float32))
    cache.put(1, np.ones(100 + 1601, np.float32))
    assert cache.get(0) is not None
    assert cache.get(1) is None


def test_a_cache_that_has_no_room_on_the_disk_is_noted(big, monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "posix_fallocate", full)
    source = SpeechSource(big, check="off", cache="memory")
    assert "samples are not cached: No space left on device" in source.report().text()
    assert len(source.item(0, 0)["audio"]) == 160


def test_perturbing_does_not_change_what_is_cached(big):
    def louder(samples, rate, rng):
        samples *= 2
        return samples

    source = SpeechSource(big, check="off", cache="memory", perturb=louder)
    first = source.item(0, 0)["audio"].copy()
    assert np.array_equal(source.item(0, 1)["audio"], first)


def test_what_a_killed_process_left_behind_is_removed():
    code = """
import os
from neumo.data.folders import make_folder
class Owner: ...
owner = Owner()
print(make_folder("test-killed", owner), flush=True)
os.kill(os.getpid(), 9)
"""
    left = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
    assert os.path.isdir(left)
    owners = [SharedArrays({}), SharedArrays({})]
    mine = make_folder("test-killed", owners[0])
    assert not os.path.exists(left)
    make_folder("test-killed", owners[1])
    assert os.path.isdir(mine)
