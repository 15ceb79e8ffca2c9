"""Long recordings in pieces: with an overlap where labels have times, at pauses where they have none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

__all__ = ["Chunk", "at_pauses", "is_silent", "overlapping", "split"]

SILENCE = 0.0016  # -56 dB of full scale: quieter speech than in any corpus looked at (FSDD has -46 dB)
_FRAME = 0.02  # seconds over which loudness is measured
_CUT_WITHIN = 0.25  # of the longest piece: where, before its end, the quietest place is looked for


@dataclass(frozen=True, eq=False)
class Chunk:
    """A piece of a recording, from its sample `start` on; `whole` if it is all of it."""

    start: int
    samples: np.ndarray
    whole: bool

    @property
    def end(self) -> int:
        """The sample behind the last one, in the recording."""
        return self.start + len(self.samples)


def overlapping(blocks: Iterable[np.ndarray], size: int, overlap: int) -> Iterator[Chunk]:
    """Cut a stream of samples into chunks of `size` samples, each with the last `overlap` of the one before.

    >>> chunks = overlapping([np.zeros(7), np.zeros(20), np.zeros(4)], 30, 5)
    >>> [(chunk.start, chunk.end) for chunk in chunks]
    [(0, 30), (25, 31)]
    """
    start, held = 0, np.zeros(0, np.float32)
    for block in blocks:
        held = np.concatenate([held, block]) if len(held) else block
        while len(held) > size:
            yield Chunk(start, held[:size], False)
            held, start = held[size - overlap :], start + size - overlap
    if len(held):
        yield Chunk(start, held, start == 0)


def at_pauses(blocks: Iterable[np.ndarray], rate: int, longest: float) -> Iterator[Chunk]:
    """Cut a stream of samples into chunks of at most `longest` seconds, each at its quietest place.

    >>> [(chunk.start, chunk.end) for chunk in at_pauses([np.zeros(10), np.zeros(6)], 1, 16.0)]
    [(0, 16)]
    """
    start, held, most = 0, np.zeros(0, np.float32), max(1, int(longest * rate))
    for block in blocks:
        held = np.concatenate([held, block]) if len(held) else block
        while len(held) > most:
            cut = _quietest(held, rate, most)
            yield Chunk(start, held[:cut], False)
            held, start = held[cut:], start + cut
    if len(held):
        yield Chunk(start, held, start == 0)


def split(samples: np.ndarray, rate: int, longest: float) -> list[np.ndarray]:
    """Cut samples `[T]` into pieces of at most `longest` seconds, each at the quietest place before its end.

    >>> noise = np.random.default_rng(1).standard_normal(16000 * 5)
    >>> noise[16000 * 18 // 10 : 16000 * 19 // 10] = 0
    >>> pieces = split(noise, 16000, 2.0)
    >>> max(len(piece) for piece in pieces) <= 32000, np.array_equal(np.concatenate(pieces), noise)
    (True, True)
    >>> 1.8 < len(pieces[0]) / 16000 < 1.9
    True
    """
    return [chunk.samples for chunk in at_pauses([samples], rate, longest)]


def _quietest(samples: np.ndarray, rate: int, most: int) -> int:
    frame = max(1, min(int(_FRAME * rate), int(most * _CUT_WITHIN)))
    start = most - int(most * _CUT_WITHIN) // frame * frame
    loudness = _loudness(samples[start:most], frame)
    # Three frames at once, so that the closure of a plosive is no pause.
    smooth = np.convolve(loudness, np.ones(3), mode="same") if len(loudness) > 3 else loudness
    return start + int(smooth.argmin()) * frame + frame // 2 if len(smooth) else most


def is_silent(samples: np.ndarray, rate: int) -> bool:
    """Say whether no stretch of 20 ms is loud enough to be speech; what is shorter is none either.

    >>> is_silent(np.zeros(16000), 16000), is_silent(np.full(16000, 0.1), 16000)
    (True, False)
    """
    loudness = _loudness(samples, max(1, int(_FRAME * rate)))
    return not loudness.size or float(loudness.max()) < SILENCE


def _loudness(samples: np.ndarray, frame: int) -> np.ndarray:
    """Root mean square of each whole frame."""
    whole = len(samples) // frame * frame
    return np.sqrt(np.square(samples[:whole].reshape(-1, frame), dtype=np.float64).mean(axis=1))
