"""Captions and CTM: where a caption ends, what is escaped, and times that others can read."""

from __future__ import annotations

import pytest

from neumo.asr.captions import cues, to_ctm, to_srt, to_vtt
from neumo.asr.word_times import Word


def words(*times, text="word"):
    return [Word(text, start, end, 0.5) for start, end in times]


def test_a_pause_begins_a_caption():
    found = cues(words((0.0, 0.5), (0.7, 1.1), (2.0, 2.5)), 10.0)
    assert [(cue.text, cue.start, cue.end) for cue in found] == [("word word", 0.0, 1.1), ("word", 2.0, 3.0)]


def test_a_line_has_at_most_42_letters():
    found = cues([Word("syllables", n * 0.3, n * 0.3 + 0.2, 1.0) for n in range(9)], 10.0)
    assert [len(cue.text) for cue in found] == [39, 39, 9]


def test_a_word_longer_than_a_line_stays_whole():
    (first, second) = cues([Word("a" * 60, 0.0, 0.5, 1.0), Word("b", 0.5, 0.6, 1.0)], 10.0)
    assert (len(first.text), second.text) == (60, "b")


def test_a_caption_lasts_at_most_six_seconds():
    found = cues([Word("um", n * 1.0, n * 1.0 + 0.9, 1.0) for n in range(9)], 10.0)
    assert [cue.text.count("um") for cue in found] == [6, 3]


def test_captions_never_overlap_nor_leave_the_recording():
    found = cues(words((0.0, 0.1), (0.9, 1.0), (1.95, 2.0)), 2.0)
    assert [(cue.start, cue.end) for cue in found] == [(0.0, 0.9), (0.9, 1.9), (1.95, 2.0)]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0, "00:00:00,000"), (59.9996, "00:01:00,000"), (3661.5, "01:01:01,500"), (36000.25, "10:00:00,250")],
)
def test_times_are_hours_minutes_seconds_and_thousandths(seconds, shown):
    assert to_srt(words((seconds, seconds + 1)), seconds + 1).splitlines()[1].startswith(shown)


def test_captions_are_numbered_and_parted_by_an_empty_line():
    found = to_srt(words((0.0, 1.0), (3.0, 4.0)), 4.0)
    assert found.split("\n\n")[1].startswith("2\n00:00:03,000 --> 00:00:04,000\nword")


def test_webvtt_escapes_what_would_be_a_tag():
    assert "r&amp;d &lt;b&gt;" in to_vtt(words((0.0, 1.0), text="r&d <b>"), 1.0)


def test_nothing_said_gives_no_captions():
    assert (to_srt([], 1.0), to_vtt([], 1.0), list(to_ctm("a.wav", []))) == ("", "WEBVTT\n", [])


def test_ctm_lengths_are_those_between_the_rounded_times():
    (line,) = to_ctm("/data/a b.flac", words((0.1004, 0.3006)))
    assert line == "a_b 1 0.100 0.201 word 0.500"
