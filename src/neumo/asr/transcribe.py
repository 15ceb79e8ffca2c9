"""From recordings to text with a trained graph: reading, batches by length, long recordings, silence."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from neumo.data.audio import ChannelPolicy, Waveform, audio_from_array, read_audio
from neumo.data.manifest import Entry
from neumo.types.element import Audio, Ids
from neumo.types.errors import ConfigError, DataError
from neumo.types.vocab import Vocab

if TYPE_CHECKING:
    from neumo.engine.factory import NeuralFactory
    from neumo.graph.graph import Graph

__all__ = ["Recording", "Transcriber", "Transcript"]

Recording = str | os.PathLike[str] | Entry | np.ndarray
"""A path, an entry of a manifest (perhaps a piece of a file), or samples `[T]` at the rate of the model."""

SILENCE = 0.0016  # -56 dB of full scale: quieter speech than in any corpus looked at (FSDD has -46 dB)
_FRAME = 0.02  # seconds over which loudness is measured
_CUT_WITHIN = 0.25  # of the longest piece: where, before its end, the quietest place is looked for
_WINDOW = 256  # recordings that are held at once to sort them by length


@dataclass(frozen=True)
class Transcript:
    """What was heard in one recording.

    `seconds` of audio were covered, all that there are. `silent`: nothing was loud enough to be speech, so
    the text is empty. `error` says why a recording could not be read; the text is empty then too.
    """

    name: str
    text: str
    seconds: float = 0.0
    silent: bool = False
    error: DataError | None = None

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dictionary."""
        row: dict[str, Any] = {
            "audio_filepath": self.name,
            "text": self.text,
            "duration": round(self.seconds, 4),
        }
        if self.silent:
            row["silent"] = True
        if self.error is not None:
            row["error"] = self.error.what
        return row


class Transcriber:
    """Runs the `infer` graph of a recogniser over recordings of any number, length and rate.

    The graph takes `audio` and `audio_len` and gives `ids` and `ids_len`. Recordings are resampled to its
    rate; they go through it in batches of similar length. One longer than `longest` seconds goes through in
    pieces, cut at the quietest place near that length, and comes back whole. `channels` says what to do
    with several: see `read_audio`.

    A recording that cannot be read gives a `Transcript` with an `error`; the others are not touched by it.
    """

    def __init__(
        self,
        factory: NeuralFactory,
        graph: Graph,
        *,
        channels: ChannelPolicy = "refuse",
        batch_size: int = 16,
        batch_seconds: float = 240.0,
        longest: float = 60.0,
    ) -> None:
        self.factory = factory
        self.graph = graph
        self.channels: ChannelPolicy = channels
        self.batch_size = batch_size
        self.batch_seconds = batch_seconds
        self.longest = longest
        self.rate, self.vocab = _ends(graph)

    def __call__(self, recordings: Iterable[Recording]) -> Iterator[Transcript]:
        """Yield a transcript for each recording, in the order given."""
        rest = iter(recordings)
        while window := [self._read(recording) for recording in islice(rest, _WINDOW)]:
            yield from self._window(window)

    def _read(self, recording: Recording) -> tuple[str, Waveform | DataError]:
        name, options = _name(recording), {"rate": self.rate, "channels": self.channels}
        try:
            if isinstance(recording, np.ndarray):
                return name, audio_from_array(recording, source_rate=self.rate, **options)
            if isinstance(recording, Entry):
                return name, read_audio(
                    recording.audio,
                    **options,
                    channel=recording.channel,
                    offset=recording.offset or 0.0,
                    duration=None if recording.offset is None else recording.duration,
                    where=recording.where,
                )
            return name, read_audio(recording, **options)
        except DataError as error:
            return name, error

    def _window(self, window: list[tuple[str, Waveform | DataError]]) -> Iterator[Transcript]:
        pieces: list[tuple[int, np.ndarray]] = []  # (which recording, samples), in the order of time
        for index, (_, wave) in enumerate(window):
            if isinstance(wave, Waveform) and not _silent(wave.samples, self.rate):
                pieces += [(index, piece) for piece in split(wave.samples, self.rate, self.longest)]
        heard: dict[int, str] = {}
        for batch in self._batches(pieces):
            heard.update(zip(batch, self._infer([pieces[i][1] for i in batch]), strict=True))
        texts: list[list[str]] = [[] for _ in window]
        for position, (index, _) in enumerate(pieces):
            texts[index].append(heard[position].strip())
        spoken = {index for index, _ in pieces}
        for index, (name, wave) in enumerate(window):
            if isinstance(wave, DataError):
                yield Transcript(name, "", error=wave)
            else:
                text = " ".join(filter(None, texts[index]))
                yield Transcript(name, text, wave.seconds, silent=index not in spoken)

    def _batches(self, pieces: list[tuple[int, np.ndarray]]) -> Iterator[list[int]]:
        """Group pieces of similar length, within the limits of a batch."""
        batch: list[int] = []
        for position in sorted(range(len(pieces)), key=lambda i: len(pieces[i][1])):
            padded = (len(batch) + 1) * len(pieces[position][1]) / self.rate
            if batch and (len(batch) == self.batch_size or padded > self.batch_seconds):
                yield batch
                batch = []
            batch.append(position)
        if batch:
            yield batch

    def _infer(self, pieces: list[np.ndarray]) -> list[str]:
        lengths = np.array([len(piece) for piece in pieces], dtype=np.int64)
        audio = np.zeros((len(pieces), int(lengths.max())), dtype=np.float32)
        for row, piece in zip(audio, pieces, strict=True):
            row[: len(piece)] = piece
        inputs = {"audio": audio, "audio_len": lengths}
        (found,) = self.factory.infer(self.graph, inputs, outputs=["ids", "ids_len"])
        rows = zip(found["ids"].tolist(), found["ids_len"].tolist(), strict=True)
        return [self.vocab.decode(row[:length]) for row, length in rows]


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
    most = max(1, int(longest * rate))
    frame = max(1, min(int(_FRAME * rate), int(most * _CUT_WITHIN)))
    pieces: list[np.ndarray] = []
    while len(samples) > most:
        start = most - int(most * _CUT_WITHIN) // frame * frame
        loudness = _loudness(samples[start:most], frame)
        # Three frames at once, so that the closure of a plosive is no pause.
        smooth = np.convolve(loudness, np.ones(3), mode="same") if len(loudness) > 3 else loudness
        cut = start + int(smooth.argmin()) * frame + frame // 2 if len(smooth) else most
        pieces.append(samples[:cut])
        samples = samples[cut:]
    return [*pieces, samples]


def _silent(samples: np.ndarray, rate: int) -> bool:
    """Say whether no stretch of 20 ms is loud enough to be speech; what is shorter is none either."""
    loudness = _loudness(samples, max(1, int(_FRAME * rate)))
    return not loudness.size or float(loudness.max()) < SILENCE


def _loudness(samples: np.ndarray, frame: int) -> np.ndarray:
    """Root mean square of each whole frame."""
    whole = len(samples) // frame * frame
    return np.sqrt(np.square(samples[:whole].reshape(-1, frame), dtype=np.float64).mean(axis=1))


def _name(recording: Recording) -> str:
    if isinstance(recording, np.ndarray):
        return f"array of {len(recording)} samples"
    return recording.audio_filepath if isinstance(recording, Entry) else os.fspath(recording)


def _ends(graph: Graph) -> tuple[int, Vocab]:
    """Return the rate that a graph takes and the vocabulary that it gives; or say why it does not fit."""
    problems: list[str] = []
    for port in ("audio", "audio_len"):
        if port not in graph.inputs:
            problems.append(f"it has no input {port!r}")
    problems += [f"it has no output {port!r}" for port in ("ids", "ids_len") if port not in graph.outputs]
    problems += [f"it asks for {port!r} too" for port in graph.inputs if port not in ("audio", "audio_len")]
    if not problems:
        given, ids = graph.inputs["audio"].type.element, graph.outputs["ids"].type.element
        if isinstance(given, Audio) and isinstance(given.rate, int):
            if isinstance(ids, Ids) and isinstance(ids.vocab, Vocab):
                return given.rate, ids.vocab
            problems.append(f"ids are {ids}, without a vocabulary")
        else:
            problems.append(f"audio is {given}, without a rate")
    raise ConfigError(
        f"graph {graph.name!r} cannot transcribe",
        code="transcribe",
        details=problems,
        fixes=(
            "inputs audio: Audio(rate=16000)[B, T] and audio_len: Lengths(T)[B]; outputs ids and ids_len",
        ),
    )
