"""Long recordings were cut short in silence, and had wrong times at joins."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from neumo.asr.transcribe import Transcriber
from neumo.engine import NeuralFactory

from ..asr.tones import RATE, play, recogniser


@pytest.fixture(scope="module")
def factory():
    return NeuralFactory(device="cpu", seed=1, progress=False)


def song(seconds, every=1.0, length=0.2):
    """A tone each second, the three in turn, up to the very end."""
    return [("abc"[n % 3], n * every + 0.5, n * every + 0.5 + length) for n in range(int(seconds / every))]


def heard(factory, *recordings, **settings):
    return list(Transcriber(factory, recogniser(2), **settings)(recordings))


def check_times(found):
    times = [time for word in found.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] <= found.seconds
    assert len(set(times)) == len(times)


def test_31_seconds_in_chunks_of_30_with_5_shared_have_the_times_of_the_whole(factory):
    samples = play(*song(31), seconds=31.0)
    whole, cut = heard(factory, samples, chunk=60), heard(factory, samples, chunk=30, overlap=5)
    assert len(cut[0].words) == 31
    assert cut[0].words == whole[0].words
    check_times(cut[0])
    assert cut[0].seconds == 31.0


@pytest.mark.parametrize(("chunk", "overlap"), [(2.0, 0.5), (7.0, 3.0), (10.0, 0.0), (3.3, 1.1)])
def test_words_are_covered_wherever_the_seams_are(factory, chunk, overlap):
    samples = play(*song(31), seconds=31.0)
    (found,) = heard(factory, samples, chunk=chunk, overlap=overlap)
    check_times(found)
    if overlap >= 0.5:
        assert found.text == " ".join(letter for letter, _, _ in song(31))


def test_the_last_word_of_a_minute_is_heard(factory):
    (found,) = heard(factory, play(*song(60), seconds=60.0), chunk=15)
    assert found.words[-1].end > 58
    assert (found.seconds, len(found.words)) == (60.0, 60)


@pytest.mark.parametrize("chunk", [None, 10.0])
def test_times_change_no_word(factory, chunk):
    samples = play(*song(31, every=0.7), seconds=31.0)
    settings = {"chunk": chunk, "overlap": 3.0}
    texts = [heard(factory, samples, **settings, times=times)[0].text for times in (True, False, None)]
    assert texts[0] == texts[1] == texts[2]


def test_silence_with_times_and_confidences_has_none(factory):
    (found,) = heard(factory, np.zeros(31 * RATE, np.float32), times=True, chunk=10)
    assert (found.words, found.text, found.silent, found.seconds) == ([], "", True, 31.0)


def test_a_pause_of_many_chunks_has_no_words_and_costs_none(factory):
    samples = np.concatenate(
        [play(*song(5), seconds=5.0), np.zeros(60 * RATE, np.float32), play(*song(5), seconds=5.0)]
    )
    (found,) = heard(factory, samples, chunk=10)
    assert found.text == "a b c a b a b c a b"
    assert found.words[5].start == pytest.approx(65.5, abs=0.02)
    check_times(found)


def test_a_long_file_is_never_in_memory_as_a_whole(factory, tmp_path, monkeypatch):
    minute = play(*song(60), seconds=60.0)
    with soundfile.SoundFile(tmp_path / "long.flac", "w", RATE, 1) as file:
        for _ in range(10):
            file.write(minute)
    largest = []
    read = soundfile.SoundFile.read

    def counted(self, frames=-1, *args, **options):
        largest.append(frames)
        return read(self, frames, *args, **options)

    monkeypatch.setattr(soundfile.SoundFile, "read", counted)
    monkeypatch.setattr("neumo.asr.transcribe.Transcriber._hear", watched(largest_held := []))
    (found,) = heard(factory, tmp_path / "long.flac", memory="50MB")
    assert 0 < max(largest) <= 10 * RATE
    assert max(largest_held) <= 50e6 / 4 / 4 + 60 * RATE
    assert found.seconds == 600.0
    assert len(found.words) == 600
    check_times(found)


def watched(held):
    hear = Transcriber._hear

    def wrapped(self, waiting):
        held.append(sum(len(chunk.samples) for _, chunk in waiting))
        return hear(self, waiting)

    return wrapped
