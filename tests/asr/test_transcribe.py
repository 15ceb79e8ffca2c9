"""Recordings to text: order, batches, pieces, silence and what cannot be read. The network is a stand-in."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from neumo.asr.chunks import split
from neumo.asr.transcribe import Transcriber
from neumo.data.manifest import Manifest
from neumo.graph.yaml import load_recipe
from neumo.types import Audio, B, Ids, T, U, Vocab
from neumo.types.errors import ConfigError, DataError

INFER = """
neumo: 1
vocabs:
  letters: {labels: " abcdefghijklmnopqrstuvwxyz'"}
modules:
  mel: {kind: MelSpectrogram}
  encoder: {kind: ConvEncoder, preset: digits}
  head: {kind: CTCHead, vocab: letters, width: 256}
  decoder: {kind: GreedyCTC, vocab: letters}
graphs:
  infer:
    mode: infer
    inputs: {audio: "Audio(rate=16000)[B, T]", audio_len: "Lengths(T)[B]"}
    steps:
      frames: mel(audio=audio, audio_len=audio_len)
      states: encoder(mel=frames.mel, mel_len=frames.mel_len)
      scores: head(encoded=states.encoded)
      heard: decoder(log_probs=scores.log_probs, log_probs_len=states.encoded_len)
    outputs: {ids: heard.ids, ids_len: heard.ids_len}
"""


class Ear:
    """Hears a letter that follows from the loudness of a recording, once for each started second.

    If it is asked when, it says: in the first frame of the second, of 50.
    """

    def __init__(self):
        self.batches = []
        self.asked = []

    def infer(self, graph, inputs, outputs):
        audio, lengths = inputs["audio"], inputs["audio_len"]
        self.batches.append(lengths.tolist())
        rows = [
            [max(1, round(float(abs(row[:n]).max()) * 20))] * -(-int(n) // 16000)
            for row, n in zip(audio, lengths, strict=True)
        ]
        ids_len = np.array([len(row) for row in rows])
        ids = np.zeros((len(rows), ids_len.max()), np.int64)
        for target, row in zip(ids, rows, strict=True):
            target[: len(row)] = row
        self.asked = outputs
        found = {"ids": ids, "ids_len": ids_len}
        if "frames" in outputs:
            found["frames"] = np.tile(np.arange(ids.shape[1]) * 50, (len(ids), 1))
            found["scores_len"] = lengths // 320 + 1
            found["scores"] = np.full((len(ids), audio.shape[1] // 320 + 1, 29), np.log(0.01))
            found["scores"][..., 28] = np.log(0.72)  # the blank
            for scores, row in zip(found["scores"], rows, strict=True):
                scores[np.arange(len(row)) * 50, row] = np.log(0.8)
        return [found]


@pytest.fixture(scope="module")
def graph():
    return load_recipe(INFER).graphs["infer"]


def tone(seconds, level, rate=16000):
    return (level * np.ones(int(seconds * rate))).astype(np.float32)


def heard(graph, recordings, **settings):
    ear = Ear()
    return ear, list(Transcriber(ear, graph, **settings)(recordings))


def test_transcripts_come_in_the_order_given_though_batches_go_by_length(graph):
    lengths = [5, 1, 3, 2, 4]
    ear, found = heard(graph, [tone(n, n / 20) for n in lengths], batch_size=2)
    assert [t.text for t in found] == ["eeeee", "a", "ccc", "bb", "dddd"]
    assert [t.seconds for t in found] == lengths
    assert ear.batches == [[16000, 32000], [48000, 64000], [80000]]


def test_a_batch_is_limited_by_its_padded_seconds(graph):
    ear, _ = heard(graph, [tone(n, 0.5) for n in (1, 1, 1, 8)], batch_seconds=8)
    assert ear.batches == [[16000, 16000, 16000], [128000]]


def test_a_long_recording_goes_through_in_chunks_and_comes_back_whole(graph):
    ear, found = heard(graph, [tone(10, 0.05), tone(1, 0.1)], chunk=3, overlap=1)
    assert sorted(n // 16000 for batch in ear.batches for n in batch) == [1, 2, 3, 3, 3, 3]
    assert [(each.text, each.seconds) for each in found] == [("aaaaaaaaaa", 10), ("b", 1)]


def test_without_an_overlap_every_sample_goes_through_once(graph):
    ear, found = heard(graph, [tone(10, 0.05), tone(1, 0.1)], chunk=3, overlap=0)
    assert sum(n for batch in ear.batches for n in batch) == 11 * 16000
    assert found[0].text == "aaa aaa aaa a"


def test_a_graph_without_a_clock_is_cut_at_pauses(monkeypatch, graph):
    samples = tone(7, 0.05)
    samples[40000:41000] = 0
    ear, (found,) = heard(unclocked(monkeypatch, graph), [samples], chunk=3)
    assert sum(n for batch in ear.batches for n in batch) == 7 * 16000
    assert any(40000 <= n <= 41000 for batch in ear.batches for n in batch)
    assert (found.seconds, set(found.text)) == (7, {"a", " "})


@pytest.mark.parametrize("length", [1, 2, 7, 100, 320, 16000, 48001, 160000])
@pytest.mark.parametrize("longest", [0.001, 0.02, 0.5, 3.0])
def test_pieces_cover_every_sample_once(length, longest):
    samples = np.random.default_rng(length).standard_normal(length)
    pieces = split(samples, 16000, longest)
    assert np.array_equal(np.concatenate(pieces), samples)
    assert all(0 < len(piece) <= max(1, longest * 16000) for piece in pieces)


def test_a_cut_falls_into_the_pause():
    samples = np.random.default_rng(1).standard_normal(16000 * 60)
    for second in (14, 27, 41, 55):
        samples[second * 16000 : second * 16000 + 4800] *= 0.001
    edges = np.cumsum([len(piece) for piece in split(samples, 16000, 15.0)])[:-1] / 16000
    assert all(any(second <= edge <= second + 0.3 for second in (14, 27, 41, 55)) for edge in edges)


@pytest.mark.parametrize(
    "samples",
    [
        np.zeros(16000, np.float32),
        np.full(1, 0.5, np.float32),
        np.full(300, 0.5, np.float32),
        np.random.default_rng(1).normal(0, 0.001, 16000 * 7).astype(np.float32),
    ],
    ids=["zeros", "one sample", "less than 20 ms", "noise at -60 dB"],
)
def test_silence_gives_no_text_and_asks_no_network(graph, samples):
    ear, (transcript,) = heard(graph, [samples])
    assert (transcript.text, transcript.silent, transcript.error) == ("", True, None)
    assert transcript.to_json()["silent"] is True
    assert ear.batches == []


def test_quiet_speech_is_not_taken_for_silence(graph):
    _, (transcript,) = heard(graph, [tone(1, 0.004)])
    assert not transcript.silent


def test_a_bad_file_is_named_and_the_others_are_heard(graph, tmp_path):
    soundfile.write(tmp_path / "good.wav", tone(1, 0.05), 16000)
    (tmp_path / "bad.wav").write_bytes(b"RIFF????WAVE")
    recordings = [tmp_path / "bad.wav", tmp_path / "good.wav", tmp_path / "none.wav"]
    _, (bad, good, none) = heard(graph, recordings)
    assert good.text == "a"
    for transcript, name in ((bad, "bad.wav"), (none, "none.wav")):
        assert isinstance(transcript.error, DataError)
        assert name in transcript.error.what
        assert transcript.to_json()["error"] == transcript.error.what


def test_other_rates_are_resampled(graph, tmp_path):
    soundfile.write(tmp_path / "slow.wav", tone(2, 0.05, 8000), 8000)
    ear, (transcript,) = heard(graph, [tmp_path / "slow.wav"])
    assert ear.batches == [[32000]]
    assert transcript.seconds == 2


def test_several_channels_are_refused_unless_said_otherwise(graph, tmp_path):
    soundfile.write(tmp_path / "two.wav", np.stack([tone(1, 0.05), tone(1, 0.25)], 1), 16000)
    _, (refused,) = heard(graph, [tmp_path / "two.wav"])
    assert "2 channels" in refused.error.what
    for channels, text in (("first", "a"), (1, "e"), ("mix", "c")):
        _, (transcript,) = heard(graph, [tmp_path / "two.wav"], channels=channels)
        assert transcript.text == text


def test_entries_of_a_manifest_are_pieces_of_files(graph, tmp_path):
    soundfile.write(tmp_path / "a.wav", np.concatenate([tone(2, 0.05), tone(3, 0.1)]), 16000)
    lines = [
        {"audio_filepath": "a.wav", "offset": 2.0, "duration": 2.5},
        {"audio_filepath": "a.wav", "offset": 0.0, "duration": 1.0},
    ]
    _, (second, first) = heard(graph, Manifest.of(lines, folder=tmp_path))
    assert (second.text, second.seconds) == ("bbb", 2.5)
    assert (first.text, first.name) == ("a", "a.wav")


def test_many_recordings_are_not_held_at_once(graph, monkeypatch):
    monkeypatch.setattr("neumo.asr.transcribe._WINDOW", 4)
    drawn = []

    def recordings():
        for number in range(10):
            drawn.append(number)
            yield tone(1, 0.05)

    transcripts = Transcriber(Ear(), graph)(recordings())
    next(transcripts)
    assert len(drawn) == 4
    assert len(list(transcripts)) == 9


def test_no_recordings_give_no_transcripts(graph):
    ear, found = heard(graph, [])
    assert (ear.batches, found) == ([], [])


def test_a_graph_that_is_no_recogniser_is_refused_with_all_reasons():
    graph = SimpleNamespace(name="vocoder", inputs={"mel": None}, outputs={"audio": None})
    with pytest.raises(ConfigError) as caught:
        Transcriber(Ear(), graph)
    text = str(caught.value)
    assert "graph 'vocoder' cannot transcribe" in text
    for reason in ("no input 'audio'", "no input 'audio_len'", "no output 'ids'", "asks for 'mel'"):
        assert reason in text


def test_words_have_times_though_the_graph_gives_ids_only(graph):
    ear, (transcript,) = heard(graph, [tone(2.5, 0.05)])
    assert list(graph.outputs) == ["ids", "ids_len"]
    assert ear.asked == ["ids", "ids_len", "frames", "scores", "scores_len"]
    (word,) = transcript.words
    assert (word.text, word.start, word.end) == ("aaa", 0.0, pytest.approx(2.01))
    assert word.confidence == pytest.approx(0.8)
    assert transcript.to_json()["words"] == [word.to_json()]


def test_words_of_chunks_have_times_in_the_whole(graph):
    _, (transcript,) = heard(graph, [tone(7, 0.05)], chunk=3, overlap=0)
    assert " ".join(word.text for word in transcript.words) == transcript.text == "aaa aaa a"
    times = [time for word in transcript.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(6.01)


@pytest.mark.parametrize("times", [True, False])
def test_the_size_of_batches_and_the_order_change_nothing(graph, times):
    recordings = [tone(seconds, 0.05 * (n + 1)) for n, seconds in enumerate((7, 1, 4.5, 2, 11))]
    _, first = heard(graph, recordings, chunk=3, overlap=1, times=times)
    for size in (1, 2, 5):
        _, found = heard(graph, recordings[::-1], chunk=3, overlap=1, batch_size=size, times=times)
        assert [(t.text, t.seconds, t.to_json().get("words")) for t in found[::-1]] == [
            (t.text, t.seconds, t.to_json().get("words")) for t in first
        ]


def test_little_memory_makes_small_batches_and_too_little_is_refused(graph):
    ear, _ = heard(graph, [tone(5, 0.5)] * 8, memory="40MB")
    assert max(sum(batch) for batch in ear.batches) < 8 * 5 * 16000
    with pytest.raises(ConfigError, match="too little memory"):
        heard(graph, [], memory="100kB")
    with pytest.raises(ConfigError, match="no amount of memory"):
        heard(graph, [], memory="much")


def test_silence_and_what_cannot_be_read_have_no_words(graph, tmp_path):
    _, (silent, missing) = heard(graph, [np.zeros(16000, np.float32), tmp_path / "none.wav"])
    assert (silent.words, missing.words) == ([], [])
    assert silent.to_json()["words"] == []
    assert "words" not in missing.to_json()


def test_without_times_nothing_more_is_asked_of_the_network_and_words_say_why(graph):
    ear, (transcript,) = heard(graph, [tone(1, 0.05)], times=False)
    assert ear.asked == ["ids", "ids_len"]
    assert "words" not in transcript.to_json()
    with pytest.raises(ConfigError, match="not asked for"):
        _ = transcript.words


def unclocked(monkeypatch, graph):
    def no_clock(graph):
        raise ConfigError("cannot tell", code="word-times")

    monkeypatch.setattr("neumo.asr.transcribe.find_clock", no_clock)
    return graph


def test_a_graph_without_a_clock_still_gives_texts(monkeypatch, graph):
    _, (transcript,) = heard(unclocked(monkeypatch, graph), [tone(1, 0.05)])
    assert transcript.text == "a"
    assert "words" not in transcript.to_json()
    for _ in range(2):
        with pytest.raises(ConfigError, match="cannot tell"):
            _ = transcript.words


def test_a_graph_without_a_clock_is_refused_where_times_are_asked_for(monkeypatch, graph):
    with pytest.raises(ConfigError, match="cannot tell"):
        Transcriber(Ear(), unclocked(monkeypatch, graph), times=True)


def ends(audio, ids):
    inputs = {"audio": SimpleNamespace(type=audio[B, T]), "audio_len": None}
    return SimpleNamespace(
        name="g", inputs=inputs, outputs={"ids": SimpleNamespace(type=ids[B, U]), "ids_len": None}
    )


@pytest.mark.parametrize(
    ("audio", "ids", "reason"),
    [
        (Audio(), Ids(Vocab("ab")), "audio is Audio, without a rate"),
        (Audio(rate=8000), Ids(), "ids are Ids, without a vocabulary"),
    ],
)
def test_a_rate_and_a_vocabulary_must_be_known(audio, ids, reason):
    with pytest.raises(ConfigError) as caught:
        Transcriber(Ear(), ends(audio, ids))
    assert reason in str(caught.value)
