"""When each word was said: labels that were read in frames, and the clock of those frames."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from neumo.graph.module import label_of
from neumo.graph.order import order_steps
from neumo.types import (
    Kind,
    Lengths,
    LogProbs,
    NeuralType,
    Positions,
    Probs,
    Scores,
    Size,
    Spectrogram,
    Values,
)
from neumo.types import clock_of as clock_of_axis
from neumo.types.errors import ConfigError
from neumo.types.vocab import Vocab

if TYPE_CHECKING:
    from neumo.graph.graph import Graph
    from neumo.graph.value import Value

__all__ = ["FrameClock", "Span", "Spelling", "Word", "find_clock", "label_spans", "words_of"]

_WORD = re.compile(r"[^\s\u2581]+")  # U+2581 is the space of sentencepiece vocabularies


@dataclass(frozen=True)
class Word:
    """A word with its `start` and `end` in seconds and a `confidence` from 0 to 1.

    >>> Word("seven", 0.31, 0.55, 0.9).to_json()
    {'word': 'seven', 'start': 0.31, 'end': 0.55, 'confidence': 0.9}

    The confidence is the geometric mean of the probabilities of its labels, `exp(mean(log p))`, each in the
    frame in which the label was read. Networks trained with CTC are sure of themselves: it ranks words, and
    is no probability that a word is right.
    """

    text: str
    start: float
    end: float
    confidence: float

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dictionary."""
        return {
            "word": self.text,
            "start": round(self.start, 4),
            "end": round(self.end, 4),
            "confidence": round(self.confidence, 4),
        }


@dataclass(frozen=True)
class FrameClock:
    """Which values of a graph say when a label was read, and how their frames become seconds.

    `frames` are the positions of the labels, `scores` those of each frame and label, `lengths` the number of
    frames of each utterance, if the decoder takes it. Frame n stands for the sound around
    `first + n / rate` seconds: half a frame to either side. A transducer's scores are no numbers of each
    frame and label; its decoder says itself how probable each label was, as `log_probs`.
    """

    frames: Value
    scores: Value
    lengths: Value | None
    rate: Fraction
    first: float = 0.0
    log_probs: Value | None = None

    def outputs(self) -> dict[str, Value]:
        """The values to read, by name, beside the ids."""
        if self.log_probs is not None:
            return {"frames": self.frames, "log_probs": self.log_probs}
        found = {"frames": self.frames, "scores": self.scores}
        return found if self.lengths is None else {**found, "scores_len": self.lengths}

    def interval(self, first: int, last: int) -> tuple[float, float]:
        """Where the frames from `first` to `last` begin and end, in seconds; may reach over the edges."""
        step = self.rate.denominator / self.rate.numerator
        return self.first + (first - 0.5) * step, self.first + (last + 0.5) * step


@dataclass(frozen=True)
class Span:
    """A label that was read: from its first to its last frame, with its log-probability in the first."""

    first: int
    last: int
    log_prob: float


def find_clock(graph: Graph) -> FrameClock:
    """Find out from the types of a graph how the labels of its output `ids` get their times.

    Nothing is looked up by name: the positions that go with the ids are those that have their axes, the
    scores those whose time axis the positions count. So a model file that was written before its decoder
    gave positions, and a decoder or an adapter of your own, work alike. Raises `ConfigError`.
    """
    frames = _positions(graph)
    of: Size = frames.type.element.of  # pyright: ignore[reportAttributeAccessIssue]
    read = [value for _, value in frames.step.edges()]
    said = _log_probs(frames)
    along = _time_axis if said is None else _axis
    scores = next((value for value in read if along(value.type, of) is not None), None)
    if scores is None:
        raise _no_times(
            graph,
            f"{label_of(frames.step.module)} gives positions, and takes no scores along what they count.",
            [f"{frames.name}: {frames.type}"],
            f"let {label_of(frames.step.module)} take scores of the size {of}",
        )
    rate = clock_of_axis(scores.type, along(scores.type, of) or 0)
    if rate is None:
        raise _no_clock(graph, scores)
    lengths = next((value for value in read if _counts(value.type, of)), None)
    return FrameClock(frames, scores, lengths, rate, _first_instant(scores), said)


def _log_probs(frames: Value) -> Value | None:
    """What the decoder gives along with the frames: how probable each label was."""
    sizes = [axis.size for axis in frames.type.axes]
    given = (v for v in frames.step.outputs.values() if v.type.element == Values("log-probability"))
    return next((value for value in given if [axis.size for axis in value.type.axes] == sizes), None)


def _positions(graph: Graph) -> Value:
    ids = graph.outputs["ids"]
    sizes = [axis.size for axis in ids.type.axes]
    found = [
        value
        for value in graph.values()
        if isinstance(value.type.element, Positions)
        and isinstance(value.type.element.of, Size)
        and None not in sizes
        and [axis.size for axis in value.type.axes] == sizes
    ]
    if not found:
        raise _no_times(
            graph,
            f"Nothing says in which frames {ids.name} were read.",
            [f"{ids.name}: {ids.type}"],
            "let what reads them give their frames too, as GreedyCTC does: "
            f"Positions(T)[{', '.join(axis.text() for axis in ids.type.axes)}]",
        )
    return min(found, key=lambda value: value.step is not ids.step)


def _time_axis(kind: NeuralType, of: Size) -> int | None:
    """The axis of scores that positions count."""
    if not isinstance(kind.element, Scores):
        return None
    return next((n for n, axis in enumerate(kind.axes) if axis.size == of and n != _label_axis(kind)), None)


def _axis(kind: NeuralType, of: Size) -> int | None:
    """The axis that positions count, whatever lies along it."""
    return next((n for n, axis in enumerate(kind.axes) if axis.size == of and axis.kind is Kind.TIME), None)


def _label_axis(kind: NeuralType) -> int:
    return next((n for n, axis in enumerate(kind.axes) if axis.kind is Kind.VOCAB), len(kind.axes) - 1)


def _counts(kind: NeuralType, of: Size) -> bool:
    return isinstance(kind.element, Lengths) and kind.element.of == of and kind.element.unit == "count"


def _first_instant(scores: Value) -> float:
    """The middle of the first frame in seconds: 0 where the front-end centres its frames, else half a window.

    Convolutions with as much padding on either side, as those of `ConvEncoder`, keep it where it is.
    """
    for step in reversed(order_steps([scores.step])):
        for value in step.outputs.values():
            element = value.type.element
            if isinstance(element, Spectrogram) and isinstance(element.center, bool):
                width = element.n_fft if isinstance(element.n_fft, int) else element.win
                if element.center or not isinstance(width, int) or not isinstance(element.rate, int):
                    return 0.0
                return width / 2 / element.rate
    return 0.0


def _no_times(graph: Graph, why: str, details: Sequence[str], *fixes: str) -> ConfigError:
    return ConfigError(
        f"graph {graph.name!r} cannot tell when a word was said",
        code="word-times",
        why=why,
        details=details,
        fixes=fixes,
    )


def _no_clock(graph: Graph, scores: Value) -> ConfigError:
    lost = label_of(scores.step.module)
    for step in order_steps([scores.step]):
        clocks = [clock for value in step.outputs.values() for clock in value.type.clocks]
        given = [clock for _, value in step.edges() for clock in value.type.clocks]
        if any(given) and not any(clocks):
            lost = label_of(step.module)
            break
    return _no_times(
        graph,
        "This model's frames have no clock.",
        [f"{scores.name}: {scores.type}"],
        f"say in the signature of {lost} how long its frames are: T.at(50), or a size of what it takes",
        'claim it when composing: assume(value, type, reason="...") with T.at(50) in the type',
    )


def label_spans(clock: FrameClock, found: dict[str, np.ndarray]) -> Iterator[list[Span]]:
    """Yield the spans of the labels of each utterance, out of the arrays of `ids_len` and `clock.outputs()`.

    A span goes on while its label stays the best one; of a transducer it is the one frame.
    """
    if clock.log_probs is not None:
        rows = zip(found["frames"], found["log_probs"], found["ids_len"], strict=True)
        for frames, log_probs, count in rows:
            read = zip(frames[:count].tolist(), log_probs[:count].tolist(), strict=True)
            yield [Span(frame, frame, log_prob) for frame, log_prob in read]
        return
    kind, of = clock.scores.type, clock.frames.type.element.of  # pyright: ignore[reportAttributeAccessIssue]
    time, labels = _time_axis(kind, of) or 0, _label_axis(kind)
    scores = np.moveaxis(found["scores"], (time, labels), (-2, -1))
    valid = found.get("scores_len", [scores.shape[1]] * len(scores))
    for row, count, frames, frames_len in zip(scores, valid, found["frames"], found["ids_len"], strict=True):
        yield _spans(row[: int(count)], frames[: int(frames_len)], kind)


def _spans(scores: np.ndarray, frames: np.ndarray, kind: NeuralType) -> list[Span]:  # (T, V), (U,)
    if not len(frames):
        return []
    best = scores.argmax(axis=-1)
    ends = np.append(np.flatnonzero(best[1:] != best[:-1]), len(best) - 1)  # the last frame of each run
    lasts = ends[np.searchsorted(ends, frames)]
    log_probs = _log_prob(scores[frames].astype(np.float64), kind)
    return [Span(*each) for each in zip(frames.tolist(), lasts.tolist(), log_probs.tolist(), strict=True)]


def _log_prob(scores: np.ndarray, kind: NeuralType) -> np.ndarray:  # (U, V) -> (U,)
    best = scores.max(axis=-1)
    if isinstance(kind.element, Probs):
        return np.log(np.maximum(best, np.finfo(np.float64).tiny))
    if isinstance(kind.element, LogProbs):
        return np.minimum(best, 0.0)
    return -np.log(np.exp(scores - best[:, None]).sum(axis=-1))


@dataclass(frozen=True)
class Spelling:
    """What the labels of a vocabulary are in a text, and whether spaces part its words.

    >>> Spelling.of(Vocab("ab ")), Spelling.of(Vocab(["yes", "no"], unit="word"))
    (Spelling(labels=('a', 'b', ' '), spaced=True), Spelling(labels=('yes', 'no'), spaced=False))
    """

    labels: tuple[str, ...]
    spaced: bool

    @classmethod
    def of(cls, vocab: Vocab) -> Spelling:
        """Look a vocabulary through; labels that are in no text, such as padding, are empty."""
        labels = tuple("" if label in vocab.silent else vocab[label] for label in range(len(vocab)))
        return cls(labels, vocab.unit != "word" and any(_WORD.sub("", label) for label in labels))

    def words(self, ids: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
        """The words that ids spell, each with the places of its ids; a label may hold a space (" the")."""
        texts = [self.labels[label] for label in ids]
        if not self.spaced:
            yield from ((text, [place]) for place, text in enumerate(texts) if text.strip())
            return
        owners = [place for place, text in enumerate(texts) for _ in text]
        for match in _WORD.finditer("".join(texts)):
            yield match.group(), sorted(set(owners[match.start() : match.end()]))


def words_of(
    spelling: Spelling,
    ids: Sequence[int],
    spans: Sequence[Span],
    clock: FrameClock,
    *,
    between: tuple[float, float] = (0.0, math.inf),
) -> list[Word]:
    """Join labels to words with times; `between` is where the frames begin and end in the recording.

    A vocabulary with spaces parts words by them; one without, or of words, has a word in each label. A word
    begins with the frame in which its first label was read, half a frame before its middle, and ends with the
    last frame of its last label; no time is outside of the sound that the frames were made of, and no word
    begins before the one before it ends.
    """
    begin, stop = between
    words: list[Word] = []
    for text, places in spelling.words(ids):
        start, end = clock.interval(spans[places[0]].first, spans[places[-1]].last)
        mean = sum(spans[place].log_prob for place in places) / len(places)
        start, end = (min(max(begin, begin + time), stop) for time in (start, end))
        if words and start < words[-1].end:  # a transducer may read two words in one frame: they share it
            start = (max(words[-1].start, start) + min(words[-1].end, end)) / 2
            words[-1] = replace(words[-1], end=start)
        words.append(Word(text, start, end, math.exp(mean)))
    return words
