"""What a manifest of a million lines costs in memory while worker processes read it, epoch after epoch.

    OMP_NUM_THREADS=1 python benchmarks/manifest_memory.py --lines 1000000 --workers 4 --epochs 3

Some hundred short recordings are named again and again by the lines. Printed is, for the main process and its
workers together, the resident memory (RSS), and the part of it that is theirs (PSS without mapped files: a
page that n processes share counts once); `private` is what one worker has for itself. PSS grows a little at
the beginning, while the main process writes to pages that it shared with its workers when they were forked.
Every `--stride`-th batch of each epoch is read. Target: resident memory grows by at most 1 % an epoch.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import soundfile

from neumo.backends.torch.device import choose_place
from neumo.backends.torch.reading.loader import TorchReader
from neumo.data import SpeechSource
from neumo.engine.processes.workers import Workers
from neumo.types import Vocab

TARGET = 0.01
Start = Literal["fork", "spawn"]
MB = 1 << 20
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "zero", "oh")


@dataclass(frozen=True)
class Memory:
    """The memory of a group of processes, in bytes."""

    resident: int
    whole: int
    workers: tuple[int, ...]
    private: tuple[int, ...]


def write_corpus(folder: Path, lines: int, recordings: int) -> Path:
    """Write short recordings and a manifest that names them again and again."""
    rng = np.random.default_rng(0)
    seconds: list[float] = []
    for number in range(recordings):
        samples = (0.1 * rng.standard_normal(int(rng.integers(1600, 4800)))).astype(np.float32)
        soundfile.write(folder / f"{number}.wav", samples, 16000)
        seconds.append(len(samples) / 16000)
    path = folder / "manifest.jsonl"
    with path.open("w") as file:
        for line in range(lines):
            number = line % recordings
            text = " ".join(WORDS[int(word)] for word in rng.integers(0, len(WORDS), 8))
            file.write(
                json.dumps(
                    {
                        "audio_filepath": f"{number}.wav",
                        "duration": seconds[number],
                        "text": text,
                        "id": f"utterance-{line:08d}",
                    }
                )
                + "\n"
            )
    return path


def rollup(process: int) -> dict[str, int]:
    """The sums over all mappings of a process, in bytes, by their names in Linux."""
    rows = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(rest.split()[0]) * 1024 for name, _, rest in (row.partition(":") for row in rows)}


def measure(workers: Sequence[int]) -> Memory:
    """Measure this process and its workers."""
    mine = rollup(os.getpid())
    theirs = [rollup(worker) for worker in workers]
    shares = [each["Pss_Anon"] + each["Pss_Shmem"] for each in (mine, *theirs)]
    private = (each["Private_Clean"] + each["Private_Dirty"] for each in theirs)
    resident = mine["Rss"] + sum(each["Rss"] for each in theirs)
    return Memory(resident, sum(shares), tuple(shares[1:]), tuple(private))


def run_epochs(
    source: SpeechSource, workers: int, epochs: int, stride: int, start: Start
) -> Iterator[Memory]:
    """Read the epochs one after the other and measure at the end of each."""
    reader = TorchReader(
        source,
        ("audio", "audio_len", "text", "text_len", "item"),
        Workers(workers, start=start),
        choose_place("cpu", "fp32"),
    )
    try:
        for epoch in range(epochs):
            began = time.perf_counter()
            batches = source.batches(epoch)
            built = time.perf_counter()
            stream = reader.read(batches[epoch % stride :: stride], epoch)
            next(stream)
            first = time.perf_counter()
            items = sum(len(batch.items) for batch in stream)
            spent = time.perf_counter() - first
            memory = measure(reader.pids)
            print(
                f"epoch {epoch + 1}: {len(batches)} batches built in {built - began:.2f} s, the first came "
                f"after {first - began:.2f} s, {items / spent:.0f} utterances/s; all processes "
                f"{memory.whole / MB:.1f} MB ({memory.resident / MB:.1f} MB resident), "
                f"a worker {max(memory.workers, default=0) / MB:.1f} MB, "
                f"of which private {max(memory.private, default=0) / MB:.1f} MB",
                flush=True,
            )
            yield memory
    finally:
        reader.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--recordings", type=int, default=300)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--start", choices=("fork", "spawn"), default="fork")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="neumo-lines-") as folder:
        path = write_corpus(Path(folder), options.lines, options.recordings)
        before = measure([]).whole
        began = time.perf_counter()
        source = SpeechSource(path, vocab=Vocab.english(), check="off")
        spent = time.perf_counter() - began
        print(
            f"{options.lines} lines of {path.stat().st_size / MB:.0f} MB taken in within {spent:.1f} s, "
            f"{(measure([]).whole - before) / MB:.0f} MB"
        )
        rows = list(run_epochs(source, options.workers, options.epochs, options.stride, options.start))
    slope = float(np.polyfit(range(len(rows)), [row.resident for row in rows], 1)[0])
    print(
        f"growth per epoch: {slope / MB:.2f} MB, {slope / rows[-1].resident:.2%} of what is resident "
        f"(target at most {TARGET:.0%})"
    )


if __name__ == "__main__":
    main()
