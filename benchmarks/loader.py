"""How fast recordings are read, decoded and put into batches, against what training a small model consumes.

    OMP_NUM_THREADS=1 python benchmarks/loader.py

Reads a synthetic corpus of WAV files through `SpeechSource` with 0, 1, 2 and 4 workers, and trains the models
of the quickstart ("digits") and of AN4 on batches of it that are in memory already. Loader and model take
turns, so that both feel what else the machine does; figures are the medians of the rounds. Target: without
workers, the loader gives at least 3 times what either model consumes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import soundfile
import torch

from neumo.asr.modules import ConvEncoder, CTCHead, CTCLoss, MelSpectrogram
from neumo.backends.torch.device import choose_place
from neumo.backends.torch.reading.loader import TorchReader
from neumo.backends.torch.session import TorchSession
from neumo.data import SpeechSource, write_manifest
from neumo.engine.backend import Batch, Setup
from neumo.types import Vocab

TARGET = 3.0
PORTS = ("audio", "audio_len", "text", "text_len")
PRESETS = ("digits", "an4")
VOCAB = Vocab.english()


def write_corpus(folder: Path, count: int, seconds: float, rate: int) -> Path:
    """Write noise of about the given length, with texts of 12 letters a second."""
    rng = np.random.default_rng(0)
    lines: list[dict[str, object]] = []
    for number in range(count):
        samples = rng.standard_normal(int(rate * seconds * rng.uniform(0.5, 1.5)))
        soundfile.write(folder / f"{number}.wav", (0.1 * samples).astype(np.float32), rate)
        lasts = len(samples) / rate
        text = "".join(rng.choice(list("abcdefgh "), int(12 * lasts)))
        lines.append({"audio_filepath": f"{number}.wav", "duration": lasts, "text": text})
    write_manifest(folder / "train.jsonl", lines)
    return folder / "train.jsonl"


def training_step(preset: str) -> Callable[[Batch], float]:
    """One step of a model with AdamW, as a function of a batch."""
    session = TorchSession(Setup(device="cpu", seed=1))
    encoder = ConvEncoder.preset(preset).named("encoder")
    specs = (
        MelSpectrogram(n_mels=64).named("mel"),
        encoder,
        CTCHead(VOCAB, width=encoder.blocks[-1].width).named("head"),
        CTCLoss(VOCAB).named("loss"),
    )
    mel, encode, head, loss = (session.implementation(spec) for spec in specs)
    weights = [weight for spec in specs for weight in session.implementation(spec).parameters()]
    optimizer = torch.optim.AdamW(weights, lr=1e-4, fused=True)

    def step(batch: Batch) -> float:
        audio, audio_len, text, text_len = batch.feeds
        spectra, frames = mel(audio, audio_len)
        encoded, length = encode(spectra, frames)
        value = loss(head(encoded), length, text, text_len)[0]
        value.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return value.item()

    return step


def timed(use: Callable[[Batch], object], batches: Sequence[Batch]) -> float:
    """Use batches one after the other; returns utterances per second."""
    start = time.perf_counter()
    for batch in batches:
        use(batch)
    return sum(len(batch.items) for batch in batches) / (time.perf_counter() - start)


def read_epoch(reader: TorchReader, source: SpeechSource, epoch: int) -> float:
    """Read an epoch, and count the utterances per second from its first batch on."""
    stream = reader.read(source.batches(epoch), epoch)
    next(stream)
    start = time.perf_counter()
    items = sum(len(batch.items) for batch in stream)
    return items / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--utterances", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=3.0, help="mean length of a recording")
    parser.add_argument("--rate", type=int, default=16000, help="of the files; they are read at 16000 Hz")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2, 4])
    options = parser.parse_args()
    place = choose_place("cpu", "fp32")
    with tempfile.TemporaryDirectory(prefix="neumo-loader-") as folder:
        path = write_corpus(Path(folder), options.utterances, options.seconds, options.rate)
        source = SpeechSource(path, vocab=VOCAB, batch_size=options.batch)
        hours = float(source.seconds.mean()) / 3600
        readers = {count: TorchReader(source, PORTS, count, place) for count in options.workers}
        ready = list(readers[options.workers[0]].read(source.batches(0)[:4], 0))
        steps = {preset: training_step(preset) for preset in PRESETS}
        read: dict[int, list[float]] = {count: [] for count in readers}
        used: dict[str, list[float]] = {preset: [] for preset in steps}
        for number in range(options.rounds):
            for count, reader in readers.items():
                read[count].append(read_epoch(reader, source, number))
            for preset, step in steps.items():
                used[preset].append(timed(step, ready))
        for reader in readers.values():
            reader.close()
    print(
        f"recordings of {3600 * hours:.1f} s at {options.rate} Hz, batches of {options.batch}, "
        f"{os.cpu_count()} cores, {torch.get_num_threads()} threads"
    )
    consumed = {preset: statistics.median(rates) for preset, rates in used.items()}
    for preset, speed in consumed.items():
        print(f"training {preset:<12}{speed:9.0f} utterances/s{3600 * hours * speed:10.0f} x real time")
    for count, rates in read.items():
        speed = statistics.median(rates)
        ratios = ", ".join(f"{speed / rate:.1f} x {preset}" for preset, rate in consumed.items())
        print(
            f"loader, {count} workers  {speed:9.0f} utterances/s"
            f"{3600 * hours * speed:10.0f} x real time: {ratios}"
        )
    slowest = min(statistics.median(read[count]) for count in read if count <= 1) / max(consumed.values())
    print(
        f"the loader gives {slowest:.1f} times what the faster model consumes (target at least {TARGET:.0f})"
    )


if __name__ == "__main__":
    main()
