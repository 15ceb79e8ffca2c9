"""Two hours of sound go through a model in constant memory, and every second is covered.

    OMP_NUM_THREADS=1 python proofs/long_audio.py                 # 2 h, 1 GB
    OMP_NUM_THREADS=1 python proofs/long_audio.py --minutes 10 --memory 200MB

Writes a FLAC file of noise at 44.1 kHz, transcribes it with a small model of random weights, and prints how
many seconds were covered and the peak of the process's memory after a first minute and after all of it.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile

from neumo.asr import ConvEncoder, CTCHead, GreedyCTC, MelSpectrogram
from neumo.asr.transcribe import Transcriber
from neumo.engine import NeuralFactory
from neumo.graph import Graph, inputs
from neumo.types import Audio, B, Lengths, T, Vocab

RATE = 44100


def main() -> None:
    """Transcribe a long file, and fail if a second is missing or memory grew by more than the budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=int, default=120)
    parser.add_argument("--memory", default="1GB")
    options = parser.parse_args()
    factory = NeuralFactory(device="cpu", seed=1, progress=False)
    transcriber = Transcriber(factory, recogniser(), memory=options.memory, times=True)
    with tempfile.TemporaryDirectory() as folder:
        list(transcriber([write(Path(folder) / "short.flac", 1)]))
        before, begun = peak(), time.monotonic()
        (found,) = transcriber([write(Path(folder) / "long.flac", options.minutes)])
        grown = peak() - before
    print(f"{found.seconds:g} of {60 * options.minutes} s covered in {time.monotonic() - begun:.0f} s")
    print(f"peak memory {before:.0f} MB after a minute, {before + grown:.0f} MB after {options.minutes}")
    if found.error is not None or found.seconds != 60 * options.minutes:
        raise SystemExit("not every second was covered")


def recogniser() -> Graph:
    """A small CTC recogniser."""
    spoken = inputs(audio=Audio(rate=16000)[B, T], audio_len=Lengths(T)[B])
    mel = MelSpectrogram()(audio=spoken.audio, audio_len=spoken.audio_len)
    states = ConvEncoder.preset("digits")(mel=mel.mel, mel_len=mel.mel_len)
    scores = CTCHead(Vocab.english(), width=256)(encoded=states.encoded)
    heard = GreedyCTC(Vocab.english())(log_probs=scores.log_probs, log_probs_len=states.encoded_len)
    return Graph("infer", "infer", {"ids": heard.ids, "ids_len": heard.ids_len})


def write(path: Path, minutes: int) -> Path:
    """Write noise, a minute at a time."""
    draw = np.random.default_rng(1)
    with soundfile.SoundFile(path, "w", RATE, 1) as file:
        for _ in range(minutes):
            file.write(0.1 * draw.standard_normal(60 * RATE).astype(np.float32))
    return path


def peak() -> float:
    """The most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


if __name__ == "__main__":
    main()
