"""Measure how far word times are from the truth: espeak-ng says where each word begins in what it speaks.

python examples/word_times/measure.py runs/quickstart/run-3/model.neumo      # of `neumo quickstart --seed 3`
"""

from __future__ import annotations

import argparse
import ctypes
import random

import numpy as np

from neumo.asr.corpus import DIGITS
from neumo.asr.espeak import ACCENTS, VARIANTS, Espeak
from neumo.data.audio import audio_from_array
from neumo.hub import Model, load_model

RATE = 16_000
WORD, SPEED, UTF8 = 1, 1, 1  # espeakEVENT_WORD, espeakRATE, espeakCHARS_UTF8


class Event(ctypes.Structure):
    """`espeak_EVENT` of espeak-ng 1.52, `speak_lib.h`."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),  # milliseconds
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    )


class MarkedEspeak(Espeak):
    """The engine, which also tells where words begin."""

    def say_words(self, words: list[str], voice: str, speed: int) -> tuple[np.ndarray, list[float]]:
        """Speak words; return samples at `RATE`, and where each word begins in seconds."""
        chunks: list[bytes] = []
        starts: list[float] = []

        @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
        def collect(samples: int | None, count: int, events: int | None) -> int:
            if samples and count > 0:
                chunks.append(ctypes.string_at(samples, 2 * count))
            while events and (event := Event.from_address(events)).type:
                if event.type == WORD:
                    starts.append(event.audio_position / 1000)
                events += ctypes.sizeof(Event)
            return 0  # go on

        text = " ".join(words).encode() + b"\0"
        self._library.espeak_SetSynthCallback(collect)
        self._choose(voice)
        self._library.espeak_SetParameter(SPEED, speed, 0)
        self._library.espeak_Synth(text, len(text), 0, 0, 0, UTF8, None, None)
        samples = np.frombuffer(b"".join(chunks), dtype=np.int16).astype(np.float32) / 32768
        return audio_from_array(samples, source_rate=Espeak.rate, rate=RATE).samples, starts


def speak(engine: MarkedEspeak, draw: random.Random) -> tuple[np.ndarray, list[str], list[float]]:
    """Say a few digits in one voice; return samples, words and where each begins."""
    words = [draw.choice(DIGITS) for _ in range(draw.randint(3, 7))]
    voice = f"{draw.choice(list(ACCENTS))}+{draw.choice(VARIANTS)}"
    samples, starts = engine.say_words(words, voice, draw.randint(120, 200))
    return samples, words, starts


def errors(model: Model, count: int, seed: int) -> tuple[np.ndarray, int]:
    """Return the error of each start in seconds, over the recordings that were heard without a mistake, and
    how many these were.
    """
    engine, draw = MarkedEspeak(seed), random.Random(seed)
    spoken = [speak(engine, draw) for _ in range(count)]
    found: list[float] = []
    right = 0
    transcripts = model.transcribe([samples for samples, _, _ in spoken], times=True)
    for transcript, (_, words, starts) in zip(transcripts, spoken, strict=True):
        if [word.text for word in transcript.words] == words and len(starts) == len(words):
            right += 1
            found += [word.start - start for word, start in zip(transcript.words, starts, strict=True)]
    return np.array(found), right


def main() -> None:
    """Print the median of the errors and where 90 % of them are."""
    arguments = argparse.ArgumentParser(description="Measure the times of words that espeak-ng speaks.")
    arguments.add_argument("model")
    arguments.add_argument("--count", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    found, right = errors(load_model(given.model, device="cpu"), given.count, given.seed)
    print(f"{len(found)} words in {right} recordings heard without a mistake, of {given.count}")
    low, middle, high = 1000 * np.quantile(found, (0.05, 0.5, 0.95))
    print(f"found minus true start: median {middle:+.0f} ms, 90 % from {low:+.0f} to {high:+.0f} ms")


if __name__ == "__main__":
    main()
