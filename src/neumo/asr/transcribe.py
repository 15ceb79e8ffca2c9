"""From recordings to text with a trained graph: reading, batches by length, long recordings, silence."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from neumo.asr.budget import budget_for, read_memory
from neumo.asr.chunks import Chunk, at_pauses, is_silent, overlapping
from neumo.asr.join import Heard, Joiner
from neumo.asr.word_times import Span, Spelling, Word, find_clock, label_spans, words_of
from neumo.data.audio import ChannelPolicy, audio_from_array
from neumo.data.manifest import Entry
from neumo.data.stream import stream_audio
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

_WINDOW = 256  # recordings that are held at once to sort them by length
_NEAR = 0.1  # seconds between two readings of one label, in chunks that overlap


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

    The graph takes `audio` and `audio_len` and gives `ids` and `ids_len`. Recordings are read block by block
    and resampled to its rate; they go through it in batches of similar length. One longer than `chunk`
    seconds goes through in chunks, each of which begins `overlap` seconds before the one before ends, and
    comes back whole: labels that both have heard are joined by their times (see `neumo.asr.join`). Where a
    decoder tells no times, chunks are cut at the quietest place near their end instead, without an overlap.
    Chunks without any sound do not go through the network.

    `memory` is what all this may take beside the weights and the program, in bytes or as "1GB": it bounds
    the batches, the chunks unless `chunk` is given, and the samples that wait (see `neumo.asr.budget`). What
    a transcript says depends on neither the size of batches nor the other recordings. `channels` says what
    to do with several: see `read_audio`.

    A transcript has `words` with times, out of the frames in which the decoder read its labels and the clock
    of those frames. Where the graph has none, `words` says why; `times=True` says it at once, and
    `times=False` saves the little work that words are. The text is the same. The graph need not give the
    frames, only compute them.

    A recording that cannot be read gives a `Transcript` with an `error`; the others are not touched by it.
    """

    def __init__(
        self,
        factory: NeuralFactory,
        graph: Graph,
        *,
        channels: ChannelPolicy = "refuse",
        batch_size: int = 16,
        batch_seconds: float | None = None,
        chunk: float | None = None,
        overlap: float = 4.0,
        memory: int | str = "1GB",
        times: bool | None = None,
    ) -> None:
        self.factory = factory
        self.graph = graph
        self.channels: ChannelPolicy = channels
        self.batch_size = batch_size
        self.rate, self.vocab = _ends(graph)
        budget = budget_for(graph, read_memory(memory), rate=self.rate, chunk=chunk)
        self.chunk = budget.chunk
        self.batch_seconds = batch_seconds or budget.batch
        self._held = int(budget.held * self.rate)
        self._spelling = Spelling.of(self.vocab)
        self._clock = _clock(graph, times)
        self._untimed = _not_asked() if times is False else None
        self._graph = graph if isinstance(self._clock, ConfigError) else _timed(graph, self._clock)
        self._grid, self._size, self._overlap = self._steps(overlap)

    def __call__(self, recordings: Iterable[Recording]) -> Iterator[Transcript]:
        """Yield a transcript for each recording, in the order given."""
        queue: deque[_Listened] = deque()
        waiting: list[tuple[_Listened, Chunk]] = []
        for recording in recordings:
            queue.append(listened := _Listened(_name(recording), Joiner(self._tolerance())))
            try:
                for chunk in self._chunks(recording):
                    listened.samples = chunk.end
                    if is_silent(chunk.samples, self.rate):
                        continue
                    listened.silent = False
                    waiting.append((listened, chunk))
                    if sum(len(each.samples) for _, each in waiting) >= self._held:
                        self._hear(waiting)
                        waiting = []
            except DataError as error:
                listened.error = error
                waiting = [each for each in waiting if each[0] is not listened]
            if len(queue) == _WINDOW or not waiting:
                self._hear(waiting)
                waiting = []
                yield from map(self._transcript, queue)
                queue.clear()
        self._hear(waiting)
        yield from map(self._transcript, queue)

    def _steps(self, overlap: float) -> tuple[int, int, int]:
        """Samples in a frame, or 1; in a chunk, and in its overlap, both of whole frames."""
        if isinstance(self._clock, ConfigError):
            return 1, max(1, int(self.chunk * self.rate)), 0
        grid = (self.rate / self._clock.rate).numerator
        size = max(2, int(self.chunk * self.rate / grid)) * grid
        shared = round(min(overlap, self.chunk / 2) * self.rate / grid) * grid
        if overlap < 0:
            raise ConfigError(f"overlap={overlap:g} s is below 0", code="option", fixes=["overlap=4"])
        return grid, size, min(shared, size - grid)

    def _tolerance(self) -> int:
        """Frames between two readings of one label that chunks share."""
        return 0 if isinstance(self._clock, ConfigError) else max(1, round(_NEAR * self._clock.rate))

    def _chunks(self, recording: Recording) -> Iterator[Chunk]:
        blocks = self._blocks(recording)
        if isinstance(self._clock, ConfigError):
            return at_pauses(blocks, self.rate, self.chunk)
        return overlapping(blocks, self._size, self._overlap)

    def _blocks(self, recording: Recording) -> Iterator[np.ndarray]:
        if isinstance(recording, np.ndarray):
            yield audio_from_array(recording, source_rate=self.rate, channels=self.channels).samples
        elif isinstance(recording, Entry):
            yield from stream_audio(
                recording.audio,
                rate=self.rate,
                channels=self.channels,
                channel=recording.channel,
                offset=recording.offset or 0.0,
                duration=None if recording.offset is None else recording.duration,
                where=recording.where,
            )
        else:
            yield from stream_audio(recording, rate=self.rate, channels=self.channels)

    def _hear(self, waiting: list[tuple[_Listened, Chunk]]) -> None:
        """Send chunks through the network, and give each recording what was heard, in order of time."""
        heard: dict[int, Heard] = {}
        for batch in self._batches([chunk for _, chunk in waiting]):
            heard.update(zip(batch, self._infer([waiting[i][1] for i in batch]), strict=True))
        for place, (listened, chunk) in enumerate(waiting):
            start, end = chunk.start // self._frame(), -(-chunk.end // self._frame())
            if isinstance(self._clock, ConfigError):
                listened.texts.append(self.vocab.decode(heard[place].ids).strip())
            else:
                listened.joiner.add(heard[place], start, end)

    def _frame(self) -> Fraction:
        """Samples between two frames."""
        return Fraction(1) if isinstance(self._clock, ConfigError) else self.rate / self._clock.rate

    def _transcript(self, listened: _Listened) -> Transcript:
        if listened.error is not None:
            return Transcript(listened.name, "", error=listened.error, timed=self._untimed or self._nothing())
        seconds = listened.samples / self.rate
        for section in listened.joiner.sections:
            listened.texts.append(self.vocab.decode(section.ids).strip())
        text, timed = " ".join(filter(None, listened.texts)), self._untimed or self._nothing()
        if not isinstance(timed, ConfigError):
            timed = tuple(self._words(listened.joiner.sections, seconds))
        return Transcript(listened.name, text, seconds, silent=listened.silent, timed=timed)

    def _nothing(self) -> tuple[Word, ...] | ConfigError:
        return self._clock if isinstance(self._clock, ConfigError) else ()

    def _words(self, sections: list[Heard], seconds: float) -> Iterator[Word]:
        for section in sections:
            clock = cast("FrameClock", self._clock)
            yield from words_of(self._spelling, section.ids, section.spans, clock, between=(0.0, seconds))

    def _batches(self, chunks: list[Chunk]) -> Iterator[list[int]]:
        """Group chunks of similar length, within the limits of a batch."""
        batch: list[int] = []
        for position in sorted(range(len(chunks)), key=lambda i: len(chunks[i].samples)):
            padded = (len(batch) + 1) * len(chunks[position].samples) / self.rate
            if batch and (len(batch) == self.batch_size or padded > self.batch_seconds):
                yield batch
                batch = []
            batch.append(position)
        if batch:
            yield batch

    def _infer(self, chunks: list[Chunk]) -> list[Heard]:
        lengths = np.array([len(chunk.samples) for chunk in chunks], dtype=np.int64)
        audio = np.zeros((len(chunks), int(lengths.max())), dtype=np.float32)
        for row, chunk in zip(audio, chunks, strict=True):
            row[: len(chunk.samples)] = chunk.samples
        inputs = {"audio": audio, "audio_len": lengths}
        (found,) = self.factory.infer(self._graph, inputs, outputs=self._outputs(chunks))
        rows = zip(found["ids"].tolist(), found["ids_len"].tolist(), strict=True)
        labels = [row[:length] for row, length in rows]
        starts = [int(chunk.start / self._frame()) for chunk in chunks]
        spans = self._spans(labels, found)
        return [
            Heard(ids, [Span(each.first + start, each.last + start, each.log_prob) for each in row])
            for ids, row, start in zip(labels, spans, starts, strict=True)
        ]

    def _outputs(self, chunks: list[Chunk]) -> list[str]:
        """What to ask for: frames, where words have times or chunks are joined; scores for the former."""
        if isinstance(self._clock, ConfigError):
            return ["ids", "ids_len"]
        if self._untimed is None:
            return ["ids", "ids_len", *self._clock.outputs()]
        return ["ids", "ids_len"] if all(chunk.whole for chunk in chunks) else ["ids", "ids_len", "frames"]

    def _spans(self, labels: list[list[int]], found: dict[str, Any]) -> Iterable[list[Span]]:
        if isinstance(self._clock, ConfigError):
            return [[] for _ in labels]
        if self._untimed is None:
            return label_spans(self._clock, found)
        frames = found["frames"].tolist() if "frames" in found else [[0] * len(ids) for ids in labels]
        return [
            [Span(frame, frame, 0.0) for frame in row[: len(ids)]]
            for ids, row in zip(labels, frames, strict=True)
        ]


@dataclass
class _Listened:
    """What is known of a recording so far."""

    name: str
    joiner: Joiner
    texts: list[str] = field(default_factory=list[str])
    samples: int = 0
    silent: bool = True
    error: DataError | None = None


def _name(recording: Recording) -> str:
    if isinstance(recording, np.ndarray):
        return f"array of {len(recording)} samples"
    return recording.audio_filepath if isinstance(recording, Entry) else os.fspath(recording)


def _clock(graph: Graph, times: bool | None) -> FrameClock | ConfigError:
    """The clock of a graph's labels, or why there is none."""
    try:
        return find_clock(graph)
    except ConfigError as error:
        if times:
            raise
        return error


def _not_asked() -> ConfigError:
    return ConfigError(
        "the words have no times, because they were not asked for", code="word-times", fixes=["times=True"]
    )


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
