"""Memory stays flat: what workers and their parent hold does not grow from epoch to epoch."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from neumo.backends.torch.device import choose_place
from neumo.backends.torch.reading.loader import TorchReader
from neumo.data import SpeechSource, write_manifest
from neumo.engine.processes.workers import Workers
from neumo.types import Vocab

LINES = 50_000
PORTS = ("audio", "audio_len", "text", "text_len", "item")


class Silence(SpeechSource):
    """Reads all of an entry but its recording."""

    leaks = False
    kept: list = []

    def _samples(self, index, entry):
        if self.leaks:
            self.kept.append(str(entry))
        return np.zeros(160, np.float32)


def held(pids):
    """The memory of this process and others, in bytes; what they share is counted once."""
    rows = [line for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return 1024 * sum(int(row.split()[1]) for row in rows if row.startswith(("Pss_Anon:", "Pss_Shmem:")))


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    path = tmp_path_factory.mktemp("lines") / "train.jsonl"
    lines = (
        {"audio_filepath": f"{n}.wav", "duration": 0.01, "text": "yes no", "id": f"u{n}"}
        for n in range(LINES)
    )
    write_manifest(path, lines)
    return path


def slope(source, epochs):
    """The growth from one epoch to the next, in bytes a line."""
    reader = TorchReader(source, PORTS, Workers(2), choose_place("cpu", "fp32"))
    sizes = []
    for epoch in range(epochs):
        items = sum(len(batch.items) for batch in reader.read(source.batches(epoch), epoch))
        assert items == LINES
        sizes.append(held([os.getpid(), *reader.pids]))
    reader.close()
    return float(np.polyfit(range(epochs - 1), sizes[1:], 1)[0]) / LINES


@pytest.mark.proof
@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_memory_is_flat_from_epoch_to_epoch(manifest):
    source = Silence(manifest, vocab=Vocab.english(), check="off", batch_size=64)
    assert slope(source, 4) < 15
    source.leaks = True  # a leak of a few words for each line is seen
    assert slope(source, 3) > 60
