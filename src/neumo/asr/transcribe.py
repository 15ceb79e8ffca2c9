"""From recordings to text with a trained graph: reading, batches by length, long recordings, silence."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from neumo.asr.word_times import Spelling, Word, find_clock, label_spans, words_of
from neumo.data.audio import ChannelPolicy, Waveform, audio_from_array, read_audio
from neumo.data.manifest import Entry
from neumo.graph.graph import Graph
from neumo.types.element import Audio, Ids
from neumo.types.errors import ConfigError, DataError
from neumo.types.vocab import Vocab

if TYPE_CHECKING:
    from neumo.asr.word_times import FrameClock
    from neumo.engine.factory import NeuralFactory

__all__ = ["Recording", "Transcriber", "Transcript", "Word"]

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
    timed: tuple[Word, ...] | ConfigError = field(default=(), repr=False)

    @property
    def words(self) -> list[Word]:
        """The words with their times in seconds, from the start of what was given, and how sure they are.

        Times never go back and never beyond `seconds`. They are as exact as the peaks of CTC: near the word,
        often late in its first sound, and the last sound may go on. Raises `ConfigError` if the graph cannot
        tell them, or was told not to.
        """
        if isinstance(self.timed, ConfigError):
            raise self.timed.with_traceback(None)
        return list(self.timed)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dictionary; it has `words` where their times are known."""
        row: dict[str, Any] = {
            "audio_filepath": self.name,
            "text": self.text,
            "duration": round(self.seconds, 4),
        }
        if self.silent:
            row["silent"] = True
        if self.error is not None:
            row["error"] = self.error.what
        elif not isinstance(self.timed, ConfigError):
            row["words"] = [word.to_json() for word in self.timed]
        return row


class Transcriber:
    """Runs the `infer` graph of a recogniser over recordings of any number, length and rate.

    The graph takes `audio` and `audio_len` and gives `ids` and `ids_len`. Recordings are resampled to its
    rate; they go through it in batches of similar length. One longer than `longest` seconds goes through in
    pieces, cut at the quietest place near that length, and comes back whole. `channels` says what to do
    with several: see `read_audio`.

    A transcript has `words` with times, out of the frames in which the decoder read its labels and the clock
    of those frames. Where the graph has none, `words` says why; `times=True` says it at once, and
    `times=False` saves the little work that words are. The graph need not give the frames, only compute them.

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
        times: bool | None = None,
    ) -> None:
        self.factory = factory
        self.graph = graph
        self.channels: ChannelPolicy = channels
        self.batch_size = batch_size
        self.batch_seconds = batch_seconds
        self.longest = longest
        self.rate, self.vocab = _ends(graph)
        self._spelling = Spelling.of(self.vocab)
        self._clock = _clock(graph, times)
        self._graph = graph if isinstance(self._clock, ConfigError) else _timed(graph, self._clock)

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
        pieces: list[_Piece] = []  # in the order of time
        for index, (_, wave) in enumerate(window):
            if isinstance(wave, Waveform) and not _silent(wave.samples, self.rate):
                pieces += self._pieces(index, wave.samples)
        heard: dict[int, _Heard] = {}
        for batch in self._batches(pieces):
            heard.update(zip(batch, self._infer([pieces[i] for i in batch]), strict=True))
        parts: list[list[_Heard]] = [[] for _ in window]
        for position, piece in enumerate(pieces):
            parts[piece.owner].append(heard[position])
        for (name, wave), found in zip(window, parts, strict=True):
            if isinstance(wave, DataError):
                yield Transcript(name, "", error=wave, timed=self._timed(found))
            else:
                text = " ".join(filter(None, (part.text for part in found)))
                yield Transcript(name, text, wave.seconds, silent=not found, timed=self._timed(found))

    def _pieces(self, owner: int, samples: np.ndarray) -> Iterator[_Piece]:
        start = 0
        for piece in split(samples, self.rate, self.longest):
            yield _Piece(owner, start, piece)
            start += len(piece)

    def _timed(self, found: list[_Heard]) -> tuple[Word, ...] | ConfigError:
        if isinstance(self._clock, ConfigError):
            return self._clock
        return tuple(word for part in found for word in part.words)

    def _batches(self, pieces: list[_Piece]) -> Iterator[list[int]]:
        """Group pieces of similar length, within the limits of a batch."""
        batch: list[int] = []
        for position in sorted(range(len(pieces)), key=lambda i: len(pieces[i].samples)):
            padded = (len(batch) + 1) * len(pieces[position].samples) / self.rate
            if batch and (len(batch) == self.batch_size or padded > self.batch_seconds):
                yield batch
                batch = []
            batch.append(position)
        if batch:
            yield batch

    def _infer(self, pieces: list[_Piece]) -> list[_Heard]:
        lengths = np.array([len(piece.samples) for piece in pieces], dtype=np.int64)
        audio = np.zeros((len(pieces), int(lengths.max())), dtype=np.float32)
        for row, piece in zip(audio, pieces, strict=True):
            row[: len(piece.samples)] = piece.samples
        inputs, outputs = {"audio": audio, "audio_len": lengths}, ["ids", "ids_len"]
        if not isinstance(self._clock, ConfigError):
            outputs += self._clock.outputs()
        (found,) = self.factory.infer(self._graph, inputs, outputs=outputs)
        rows = zip(found["ids"].tolist(), found["ids_len"].tolist(), strict=True)
        labels = [row[:length] for row, length in rows]
        texts = [self.vocab.decode(row).strip() for row in labels]
        words = self._words(pieces, labels, found)
        return [_Heard(*each) for each in zip(texts, words, strict=True)]

    def _words(
        self, pieces: list[_Piece], labels: list[list[int]], found: dict[str, Any]
    ) -> list[list[Word]]:
        clock = self._clock
        if isinstance(clock, ConfigError):
            return [[] for _ in pieces]
        return [
            words_of(self._spelling, row, spans, clock, between=piece.between(self.rate))
            for piece, row, spans in zip(pieces, labels, label_spans(clock, found), strict=True)
        ]


@dataclass(frozen=True)
class _Piece:
    """A piece of the recording number `owner`, from its sample `start` on."""

    owner: int
    start: int
    samples: np.ndarray

    def between(self, rate: int) -> tuple[float, float]:
        """Where it begins and ends in the recording, in seconds."""
        return self.start / rate, (self.start + len(self.samples)) / rate


@dataclass(frozen=True)
class _Heard:
    """What was heard in one piece."""

    text: str
    words: list[Word]


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


def _clock(graph: Graph, times: bool | None) -> FrameClock | ConfigError:
    """The clock of a graph's words, or why there is none."""
    if times is False:
        return ConfigError(
            "the words have no times, because they were not asked for",
            code="word-times",
            fixes=["times=True"],
        )
    try:
        return find_clock(graph)
    except ConfigError as error:
        if times:
            raise
        return error


def _timed(graph: Graph, clock: FrameClock) -> Graph:
    """The same steps and modules, which give the frames and the scores as well."""
    outputs = {name: graph.outputs[name] for name in ("ids", "ids_len")}
    return Graph(
        graph.name, graph.mode, outputs | clock.outputs(), silence=graph.silence, names=graph.modules
    )


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
