"""Words in seconds: the clock of the frames, their middles, and what the types say about both."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from neumo.asr import CTCHead, GreedyCTC
from neumo.asr.transcribe import Transcriber, Word
from neumo.asr.word_times import FrameClock, Span, Spelling, find_clock, label_spans, words_of
from neumo.engine import NeuralFactory
from neumo.graph import Graph, NeuralModule, Signature, assume, inputs
from neumo.types import (
    Acoustic,
    Audio,
    B,
    ConfigError,
    F,
    Ids,
    Lengths,
    Logits,
    LogProbs,
    Positions,
    Probs,
    Scores,
    Spectrogram,
    T,
    U,
    V,
    Vocab,
)

from ..graph.snapshots import refused
from .tones import LABELS, LETTERS, RATE, TONES, play, recogniser


@pytest.fixture(scope="module")
def factory():
    return NeuralFactory(device="cpu", seed=1, progress=False, verify="always")


SONG = (("a", 0.3, 0.5), ("b", 0.81, 1.13), ("c", 2.047, 2.3))


def heard(factory, graph, *recordings, **settings):
    return list(Transcriber(factory, graph, **settings)(recordings))


@pytest.mark.parametrize("length", ["ceil", "floor+1", "floor"])
@pytest.mark.parametrize("stride", [1, 2, 4])
def test_tones_are_found_where_they_were_played(factory, stride, length):
    (found,) = heard(factory, recogniser(stride, length), play(*SONG, seconds=2.5))
    assert [word.text for word in found.words] == ["a", "b", "c"]
    frame = stride * 0.01
    for word, (_, start, end) in zip(found.words, SONG, strict=True):
        assert word.start == pytest.approx(start, abs=frame / 2 + 0.001)
        assert word.end == pytest.approx(end, abs=frame / 2 + 0.001)
        assert word.confidence == pytest.approx(0.9)


@pytest.mark.parametrize("stride", [1, 4])
@pytest.mark.parametrize("pad_to", [0, 16])
def test_times_are_the_same_alone_in_a_batch_and_beside_padding(factory, stride, pad_to):
    graph = recogniser(stride, pad_to=pad_to)
    recordings = [
        play(("a", 0.2, 0.4), ("b", 0.6, 0.8), seconds=0.8),  # sounds to its very end
        play(*SONG, seconds=3.017),
        play(("c", 0.0, 0.31), seconds=0.31),
    ]
    together = heard(factory, graph, *recordings)
    alone = [heard(factory, graph, each)[0] for each in recordings]
    assert together == alone
    assert [len(each.words) for each in together] == [2, 3, 1]


def test_times_never_go_back_and_never_leave_the_recording(factory):
    draw = np.random.default_rng(1)
    for seed in range(6):
        seconds = 0.3 + draw.random() * 2
        starts = np.arange(0, seconds - 0.1, 0.15 + 0.05 * seed)
        song = [(draw.choice(list(TONES)), start, min(start + 0.1, seconds)) for start in starts]
        (found,) = heard(factory, recogniser(int(draw.choice([1, 2, 4]))), play(*song, seconds=seconds))
        times = [time for word in found.words for time in (word.start, word.end)]
        assert times == sorted(times)
        assert times[0] >= 0
        assert times[-1] <= found.seconds
        assert len(found.words) == len(song)


def test_words_of_a_long_recording_have_times_in_the_whole(factory):
    song = [("abc"[n % 3], 1.0 * n + 0.3, 1.0 * n + 0.5) for n in range(9)]
    (found,) = heard(factory, recogniser(2), play(*song, seconds=9.0), chunk=2.0)
    assert found.text == " ".join(letter for letter, _, _ in song)
    for word, (_, start, end) in zip(found.words, song, strict=True):
        assert (word.start, word.end) == pytest.approx((start, end), abs=0.0211)  # pieces are cut anywhere


@pytest.mark.parametrize("element", [LogProbs(LABELS), Probs(LABELS), Logits(LABELS)])
def test_confidence_is_the_same_from_log_probabilities_probabilities_and_logits(element):
    clock = clock_for(element)
    probabilities = np.array([[0.1, 0.7, 0.1, 0.05, 0.05], [0.9, 0.025, 0.025, 0.025, 0.025]])
    scores = probabilities if isinstance(element, Probs) else np.log(probabilities)
    if isinstance(element, Logits):
        scores = scores + 3.0
    arrays = {"scores": scores[None], "frames": np.array([[0, 1]]), "ids_len": np.array([2])}
    ((first, second),) = label_spans(clock, arrays)
    assert np.exp([first.log_prob, second.log_prob]) == pytest.approx([0.7, 0.9])


def clock_for(element, rate=Fraction(50)):
    values = inputs(frames=Positions(T)[B, U], scores=element[B, T, V(LABELS)])
    return FrameClock(values.frames, values.scores, None, rate)


def test_a_label_lasts_until_another_one_is_better_and_no_longer_than_the_utterance():
    best = np.array([[4, 1, 1, 2, 2, 4, 3, 3]])
    scores = np.log(np.full((1, 8, 5), 0.05))
    np.put_along_axis(scores, best[..., None], np.log(0.8), -1)
    arrays = {"scores": scores, "frames": np.array([[1, 3, 6, 0]]), "ids_len": np.array([3])}
    (spans,) = label_spans(clock_for(LogProbs(LABELS)), arrays)
    assert [(span.first, span.last) for span in spans] == [(1, 2), (3, 4), (6, 7)]
    (spans,) = label_spans(clock_for(LogProbs(LABELS)), {**arrays, "scores_len": np.array([7])})
    assert spans[-1] == Span(6, 6, pytest.approx(np.log(0.8)))
    assert list(label_spans(clock_for(LogProbs(LABELS)), {**arrays, "ids_len": np.array([0])})) == [[]]


def spell(vocab, ids, between=(0.0, 10.0)):
    spans = [Span(5 * n, 5 * n + 1, np.log(0.5)) for n in range(len(ids))]
    return words_of(Spelling.of(vocab), ids, spans, clock_for(LogProbs(LABELS)), between=between)


def test_letters_are_joined_between_spaces_and_the_space_is_in_no_word():
    words = spell(Vocab.english(), [0, 8, 9, 0, 0, 25, 15, 0])
    assert [word.text for word in words] == ["hi", "yo"]
    assert (words[0].start, words[0].end) == pytest.approx((0.09, 0.23))
    assert words[0].confidence == pytest.approx(0.5)


def test_a_vocabulary_without_spaces_has_a_word_in_each_label():
    assert [word.text for word in spell(Vocab("abc"), [0, 1, 1])] == ["a", "b", "b"]
    assert [word.text for word in spell(Vocab(["yes", "no"], unit="word"), [1, 0])] == ["no", "yes"]


@pytest.mark.parametrize("space", [" ", "\u2581"])
def test_pieces_of_words_begin_a_word_with_their_space(space):
    pieces = Vocab([f"{space}the", "re", f"{space}a", space])
    words = spell(pieces, [0, 1, 2, 3, 1])
    assert [word.text for word in words] == ["there", "a", "re"]
    assert [word.start for word in words] == pytest.approx([0.0, 0.19, 0.39])


def test_labels_that_are_silent_are_in_no_word():
    vocab = Vocab(["<pad>", "yes", "no"], unit="word", pad=0)
    assert [word.text for word in spell(vocab, [1, 0, 2])] == ["yes", "no"]


def test_times_stay_between_the_ends_of_the_piece():
    (word,) = spell(Vocab("abc"), [1], between=(4.0, 4.02))
    assert (word.start, word.end) == (4.0, 4.02)
    assert spell(Vocab("abc"), []) == []


def test_the_json_of_a_word_has_rounded_times():
    assert Word("a", 0.123456, 1 / 3, 0.98765).to_json() == {
        "word": "a", "start": 0.1235, "end": 0.3333, "confidence": 0.9877,
    }  # fmt: skip


@dataclass(frozen=True)
class Front(NeuralModule):
    """A front-end of any kind of frames."""

    element: Spectrogram

    def signature(self) -> Signature:
        return Signature(
            takes={"audio": Audio(rate=RATE)[B, T], "audio_len": Lengths(T)[B]},
            gives={
                "mel": self.element[B, F, T // 160],
                "mel_len": Lengths(T // 160)[B],
            },
        )


@dataclass(frozen=True)
class Encoder(NeuralModule):
    """Gives frames that have nothing to do with those it takes."""

    frames: object = T("T'")

    def signature(self) -> Signature:
        return Signature(
            takes={"mel": Spectrogram()[B, F, T], "mel_len": Lengths(T)[B]},
            gives={
                "encoded": Acoustic()[B, F(16), self.frames],
                "encoded_len": Lengths(self.frames)[B],
            },
        )


def graph_of(encoder, front=None, decoder=None):
    spoken = inputs(audio=Audio(rate=RATE)[B, T], audio_len=Lengths(T)[B])
    mel = Front(front or Spectrogram(rate=RATE, hop=160))(audio=spoken.audio, audio_len=spoken.audio_len)
    encoded = encoder(mel=mel.mel, mel_len=mel.mel_len)
    scores = CTCHead(LETTERS, width=16)(encoded=encoded.encoded)
    decoder = decoder or GreedyCTC(LETTERS)
    found = decoder(log_probs=scores.log_probs, log_probs_len=encoded.encoded_len)
    return Graph("infer", "infer", {"ids": found.ids, "ids_len": found.ids_len})


@pytest.mark.parametrize(
    ("front", "first"),
    [
        (Spectrogram(rate=RATE, hop=160, n_fft=512, win=320, center=True), 0.0),
        (Spectrogram(rate=RATE, hop=160, n_fft=512, win=320, center=False), 0.016),
        (Spectrogram(rate=RATE, hop=160, win=320, center=False), 0.01),
        (Spectrogram(rate=RATE, hop=160, center=False), 0.0),
        (Spectrogram(rate=RATE, hop=160), 0.0),
    ],
)
def test_the_first_frame_is_in_the_middle_of_its_window(front, first):
    clock = find_clock(graph_of(Encoder(T("T'").at(50)), front))
    assert (clock.first, clock.rate) == (first, 50)
    assert clock.interval(0, 0) == pytest.approx((first - 0.01, first + 0.01))


def test_frames_without_a_clock_are_an_error_that_names_who_lost_it(monkeypatch):
    graph = graph_of(Encoder())
    refused("word_times_no_clock", lambda: find_clock(graph), monkeypatch)


def test_scores_from_outside_without_a_clock_are_an_error():
    spoken = inputs(log_probs=LogProbs(LABELS)[B, T, V(LABELS)], log_probs_len=Lengths(T)[B])
    found = GreedyCTC(LETTERS)(log_probs=spoken.log_probs, log_probs_len=spoken.log_probs_len)
    with pytest.raises(ConfigError, match="cannot tell when a word was said"):
        find_clock(Graph("infer", "infer", found))


def test_both_ways_out_of_a_lost_clock_give_it_back():
    assert find_clock(graph_of(Encoder(T("T'").at(50)))).rate == 50
    spoken = inputs(encoded=Acoustic()[B, F(16), T], encoded_len=Lengths(T)[B])
    sure = assume(spoken.encoded, Acoustic()[B, F(16), T.at(50)], reason="stride 2 on frames of 10 ms")
    scores = CTCHead(LETTERS, width=16)(encoded=sure).log_probs
    found = GreedyCTC(LETTERS)(log_probs=scores, log_probs_len=spoken.encoded_len)
    assert find_clock(Graph("infer", "infer", found)).rate == 50


@dataclass(frozen=True)
class Beam(NeuralModule):
    """A decoder that gives ids, and what else it is told to."""

    positions: bool = False

    def signature(self) -> Signature:
        more = {"where": Positions(T)[B, U("U'")]} if self.positions else {}
        return Signature(
            takes={"log_probs": Scores(LABELS)[B, T, V(LABELS)], "log_probs_len": Lengths(T)[B]},
            gives={"ids": Ids(LETTERS)[B, U("U'")], "ids_len": Lengths(U("U'"))[B], **more},
        )


def test_a_decoder_of_ones_own_is_understood_by_the_types_of_what_it_gives():
    clock = find_clock(graph_of(Encoder(T("T'").at(25)), decoder=Beam(positions=True)))
    assert (clock.frames.port, clock.scores.port, clock.lengths.port) == ("where", "log_probs", "encoded_len")
    assert clock.rate == 25


def test_ids_of_which_nobody_knows_the_frames_are_an_error_with_the_way_out(monkeypatch):
    refused(
        "word_times_no_frames",
        lambda: find_clock(graph_of(Encoder(T("T'").at(50)), decoder=Beam())),
        monkeypatch,
    )


@dataclass(frozen=True)
class Blind(NeuralModule):
    """A decoder that is not given the scores."""

    def signature(self) -> Signature:
        return Signature(
            takes={"mel": Spectrogram()[B, F(8), T]},
            gives={
                "ids": Ids(LETTERS)[B, U("U'")],
                "ids_len": Lengths(U("U'"))[B],
                "frames": Positions(T)[B, U("U'")],
            },
        )


def test_positions_without_scores_are_an_error(monkeypatch):
    spoken = inputs(mel=Spectrogram(rate=RATE, hop=160)[B, F(8), T])
    graph = Graph("infer", "infer", Blind()(mel=spoken.mel))
    refused("word_times_no_scores", lambda: find_clock(graph), monkeypatch)
