"""Words with times in the forms that other programs read: CTM for scoring, SRT and WebVTT for players."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from neumo.asr.word_times import Word

__all__ = ["Cue", "cues", "to_ctm", "to_srt", "to_vtt"]

_PAUSE = 0.8  # seconds of silence that end a caption
_LETTERS = 42  # in a line, as broadcasters have it
_LONGEST, _SHORTEST = 6.0, 1.0  # seconds on the screen, where there is room


@dataclass(frozen=True)
class Cue:
    """A caption: a text, and when it is shown in seconds."""

    text: str
    start: float
    end: float


def cues(words: Sequence[Word], seconds: float) -> list[Cue]:
    """Gather words to captions of a line, a new one after a pause; none is beyond the recording.

    >>> words = [Word("one", 0.1, 0.3, 1.0), Word("two", 0.5, 0.7, 1.0), Word("three", 2.5, 2.8, 1.0)]
    >>> cues(words, 3.0)
    [Cue(text='one two', start=0.1, end=1.1), Cue(text='three', start=2.5, end=3.0)]

    A caption lasts at least a second, if the next one and the end of the recording leave it.
    """
    lines: list[list[Word]] = []
    for word in words:
        if lines and _goes_on(lines[-1], word):
            lines[-1].append(word)
        else:
            lines.append([word])
    following = [*(line[0].start for line in lines), seconds][1:]
    return [
        Cue(
            " ".join(word.text for word in line),
            line[0].start,
            max(line[-1].end, min(line[0].start + _SHORTEST, limit)),
        )
        for line, limit in zip(lines, following, strict=True)
    ]


def _goes_on(line: Sequence[Word], word: Word) -> bool:
    letters = sum(len(each.text) + 1 for each in line) + len(word.text)
    short = word.end - line[0].start <= _LONGEST
    return letters <= _LETTERS and short and word.start - line[-1].end < _PAUSE


def to_srt(words: Sequence[Word], seconds: float) -> str:
    """Write captions as SubRip.

    >>> print(to_srt([Word("one", 0.1, 1.3, 1.0)], 2.0), end="")
    1
    00:00:00,100 --> 00:00:01,300
    one
    """
    return "\n".join(
        f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n{cue.text}\n"
        for number, cue in enumerate(cues(words, seconds), 1)
    )


def to_vtt(words: Sequence[Word], seconds: float) -> str:
    """Write captions as WebVTT (https://www.w3.org/TR/webvtt1/).

    >>> print(to_vtt([Word("one", 0.1, 1.3, 1.0)], 2.0), end="")
    WEBVTT
    <BLANKLINE>
    00:00:00.100 --> 00:00:01.300
    one
    """
    return "WEBVTT\n" + "".join(
        f"\n{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}\n{_escaped(cue.text)}\n"
        for cue in cues(words, seconds)
    )


def to_ctm(name: str, words: Sequence[Word]) -> Iterator[str]:
    """Yield a line of time-marked conversation for each word: recording, channel, start, length, word, score.

    >>> list(to_ctm("calls/one two.wav", [Word("yes", 0.1, 0.35, 0.9)]))
    ['one_two 1 0.100 0.250 yes 0.900']

    The recording is named by its file without folder and suffix, as scoring programs (sclite) expect.
    """
    stem = "_".join(PurePath(name).stem.split())
    for word in words:
        start, end = round(word.start, 3), round(word.end, 3)
        yield f"{stem} 1 {start:.3f} {end - start:.3f} {word.text} {word.confidence:.3f}"


def _clock(seconds: float, point: str) -> str:
    whole, thousandths = divmod(int(seconds * 1000 + 0.5), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{point}{thousandths:03}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
