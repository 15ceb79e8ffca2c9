"""Graphs that an adversary wrote from the rules alone: each is refused for its reason, or accepted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from neumo.graph.adapters import LengthsToMask, Mono, Resample, Transpose
from neumo.graph.inputs import inputs
from neumo.graph.value import Record, Value
from neumo.types import (
    Acoustic,
    Audio,
    B,
    F,
    Features,
    Ids,
    Lengths,
    Loss,
    Mask,
    Mel,
    NeumoError,
    T,
    U,
    Vocab,
)

from .more_specs import (
    PIECES,
    SWAPPED,
    UPPER,
    AddNoise,
    BeamSearch,
    Concat,
    ConcatTime,
    Conv,
    ConvTranspose,
    CrossAttention,
    CrossEntropy,
    Decoder,
    Embedding,
    Fixed,
    LengthRegulator,
    PadTo,
    Pool,
    Rescore,
    Shift,
    StereoData,
    Sum,
    TTSData,
)
from .specs import (
    EN,
    MEL_22K,
    TAGS,
    WORDS,
    Add,
    BertEncoder,
    ConvEncoder,
    CTCHead,
    CTCLoss,
    Down,
    Gain,
    Measure,
    MelSpectrogram,
    SpecAugment,
    SpeechData,
    SpeedPerturb,
    SumLoss,
    Tacotron2Decoder,
    TextData,
    TextEncoder,
    TimeMajorEncoder,
    TokenClassifier,
    Up,
    WaveGlow,
)


def features(width: int = 64) -> Value:
    return inputs(x=Acoustic()[B, F(width), T]).x


def scored(stride: int = 2, vocab: Vocab = EN) -> tuple[Record, Record, Record, Record]:
    batch = SpeechData(vocab)()
    frames = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    states = ConvEncoder(stride=stride)(mel=frames.mel, mel_len=frames.mel_len)
    return batch, frames, states, CTCHead(EN)(encoded=states.encoded)


# wrong graphs


def swapped_lengths() -> None:
    batch, _, states, scores = scored()
    CTCLoss(EN)(
        log_probs=scores.log_probs,
        log_probs_len=batch.text_len,
        targets=batch.text,
        targets_len=states.encoded_len,
    )


def swapped_scores_and_targets() -> None:
    batch, _, states, scores = scored()
    CTCLoss(EN)(
        log_probs=batch.text,
        log_probs_len=states.encoded_len,
        targets=scores.log_probs,
        targets_len=batch.text_len,
    )


def stale_by_four() -> None:
    batch, frames, states, scores = scored(stride=4)
    assert str(states.encoded_len.type) == "Lengths(T//640 + 1)[B]"
    CTCLoss(EN)(
        log_probs=scores.log_probs,
        log_probs_len=frames.mel_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )


def upper_case_targets() -> None:
    batch, _, states, scores = scored(vocab=UPPER)
    CTCLoss(EN)(
        log_probs=scores.log_probs,
        log_probs_len=states.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )


def targets_that_hold_blanks() -> None:
    batch = SpeechData(EN.with_blank())()
    Rescore(EN)(ids=batch.text, ids_len=batch.text_len)


def lengths_of_another_rate() -> None:
    batch = SpeechData(EN, rate=8000)()
    wide = Resample(8000, 16000)(audio=batch.audio)
    MelSpectrogram()(audio=wide.audio, audio_len=batch.audio_len)


def stereo_into_mono() -> None:
    batch = StereoData()()
    MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)


def noise_of_another_rate() -> None:
    sound = inputs(audio=Audio(rate=16000, peak=1.0)[B, T], noise=Audio(rate=8000, peak=1.0)[B, T("N")])
    AddNoise()(audio=sound.audio, noise=sound.noise)


def noise_of_another_loader() -> None:
    batch, noises = SpeechData(EN)(), SpeechData(EN)()
    AddNoise()(audio=batch.audio, noise=noises.audio)


def a_rate_behind_two_augmentations() -> None:
    batch = SpeechData(EN, rate=44100)()
    fast = SpeedPerturb()(audio=Gain()(audio=batch.audio).audio, audio_len=batch.audio_len)
    MelSpectrogram()(audio=fast.audio, audio_len=fast.audio_len)


def swapped_roles() -> None:
    Embedding(PIECES)(ids=inputs(ids=Ids(SWAPPED)[B, T]).ids)


def too_narrow_for_joined_features() -> None:
    both = inputs(a=Acoustic()[B, F(256), T], b=Acoustic()[B, F(128), T])
    Fixed(512)(x=Concat()(a=both.a, b=both.b).x)


def joined_over_other_frames() -> None:
    x = features()
    Concat()(a=x, b=Down()(x=x).x)


def residual_over_a_convolution_without_padding() -> None:
    x = features()
    Add()(a=Conv()(x=x).x, b=x)


def transposed_convolution_of_an_odd_length() -> None:
    x = features()
    Add()(a=ConvTranspose(2, 4)(x=Conv(2, 4)(x=x).x).x, b=x)


def a_third_and_then_twice() -> None:
    x = inputs(x=Acoustic()[B, F(64), 6 * T]).x
    Add()(a=Up(2)(x=Down(3)(x=x).x).x, b=x)


def lengths_from_before_padding() -> None:
    data = inputs(x=Acoustic()[B, F(64), T], n=Lengths(T)[B])
    Fixed(64)(x=PadTo(16)(x=data.x).x, n=data.n)


def the_mask_of_the_query() -> None:
    data = inputs(q=Features()[B, U, F(512)], m=Features()[B, T, F(512)], q_mask=Mask(U, true="keep")[B, U])
    CrossAttention()(query=data.q, memory=data.m, memory_mask=data.q_mask)


def targets_that_were_not_shifted() -> None:
    data = inputs(ids=Ids(PIECES, frame="bos..eos")[B, U], memory=Features()[B, T, F(512)])
    shifted = Shift(PIECES)(ids=data.ids)
    out = Decoder(PIECES)(ids=shifted.seen, memory=data.memory)
    CrossEntropy(PIECES)(logits=out.logits, targets=shifted.seen)


def a_decoder_that_sees_the_end() -> None:
    data = inputs(ids=Ids(PIECES, frame="bos..eos")[B, U], memory=Features()[B, T, F(512)])
    Decoder(PIECES)(ids=data.ids, memory=data.memory)


def reference_lengths_for_found_labels() -> None:
    batch, _, states, scores = scored()
    found = BeamSearch(EN)(log_probs=scores.log_probs, log_probs_len=states.encoded_len)
    Rescore(EN)(ids=found.ids, ids_len=batch.text_len)


def one_of_several_is_too_short() -> None:
    data = inputs(a=Acoustic()[B, F(4), T], b=Acoustic()[B, F(4), T], c=Acoustic()[B, F(4), T])
    Sum()(xs=[data.a, Down()(x=data.c).x])


def one_of_several_is_no_loss() -> None:
    data = inputs(a=Loss()[()], b=Loss()[B])
    SumLoss()(losses=[data.a, data.b])


def predicted_frames_against_true_ones() -> None:
    batch = TTSData()()
    encoded = TextEncoder(EN)(text=batch.text, text_len=batch.text_len)
    made = LengthRegulator()(x=encoded.encoded)
    frames = MelSpectrogram(rate=22050, hop=256)(audio=batch.audio, audio_len=batch.audio_len)
    Fixed(512)(x=made.x, n=frames.mel_len)


def samples_for_symbols() -> None:
    batch = TTSData()()
    frames = MelSpectrogram(rate=22050, hop=256, n_mels=80)(audio=batch.audio, audio_len=batch.audio_len)
    encoded = TextEncoder(EN)(text=batch.text, text_len=batch.text_len)
    Tacotron2Decoder()(
        encoded=encoded.encoded, encoded_len=batch.audio_len, target=frames.mel, target_len=frames.mel_len
    )


def a_pooled_sentence_for_its_words() -> None:
    batch = TextData(WORDS, TAGS)()
    states = BertEncoder(WORDS)(ids=batch.ids, mask=batch.mask)
    TokenClassifier(TAGS)(hidden=Pool()(hidden=states.hidden).pooled)


WRONG: list[tuple[Callable[[], None], str, str, str]] = [
    (swapped_lengths, "lengths", "it counts symbols, not frames", "log_probs_len=states.encoded_len"),
    (swapped_scores_and_targets, "element", "Ids is not LogProbs", "exchange log_probs and targets"),
    (stale_by_four, "lengths", "4 times too long", "log_probs_len=states.encoded_len"),
    (upper_case_targets, "vocab", "'A', 'B', 'C'", "build SpeechData with vocab=en"),
    (targets_that_hold_blanks, "vocab", "1 more behind them: '<blank>'", "build SpeechData with vocab=en"),
    (lengths_of_another_rate, "lengths", "it counts other samples", "audio_len=wide.audio_len"),
    (stereo_into_mono, "axes", "3 axes, not 2", "insert Mono()"),
    (noise_of_another_rate, "facet", "rate is 8000, not 16000", "insert Resample(8000 -> 16000)"),
    (noise_of_another_loader, "batch", "their batches have nothing in common", "read SpeechData and"),
    (a_rate_behind_two_augmentations, "facet", "rate is 44100, not 16000", "insert Resample(44100 -> 16000)"),
    (swapped_roles, "vocab", "the eos is at index 1 there", "insert RemapIds(swapped -> pieces)"),
    (too_narrow_for_joined_features, "size", "384 features, not 512", "build Fixed with width=384"),
    (joined_over_other_frames, "size", "2 times too short", ""),
    (residual_over_a_convolution_without_padding, "size", "It is 2 too long", ""),
    (transposed_convolution_of_an_odd_length, "size", "for T = 1 it is 1, not 0", ""),
    (a_third_and_then_twice, "size", "Down (by 3) and Up (by 2) stand between the two", ""),
    (lengths_from_before_padding, "lengths", "for T = 1 it is 1, not 16", ""),
    (the_mask_of_the_query, "mask", "runs along inputs.q, but memory runs along inputs.m", ""),
    (targets_that_were_not_shifted, "facet", "shifted is False, not True", "targets=shifted.said"),
    (a_decoder_that_sees_the_end, "facet", 'frame is "bos..eos", not "bos.."', ""),
    (reference_lengths_for_found_labels, "lengths", "are made by BeamSearch", "ids_len=found.ids_len"),
    (one_of_several_is_too_short, "size", "because inputs.a has T frames", "xs=[data.a, data.b]"),
    (one_of_several_is_no_loss, "axes", "1 axis, not 0", "insert Reduce(mean) before it"),
    (predicted_frames_against_true_ones, "lengths", "by TTSData", "n=made.x_len"),
    (samples_for_symbols, "lengths", "it counts samples, not symbols", "encoded_len=encoded.encoded_len"),
    (a_pooled_sentence_for_its_words, "axes", "2 axes, not 3", "hidden=states.hidden"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "code", "phrase", "fix"), WRONG, ids=[row[0].__name__ for row in WRONG])
def test_it_is_refused_with_its_reason_and_its_way_out(
    build: Callable[[], None], code: str, phrase: str, fix: str
) -> None:
    with pytest.raises(NeumoError) as caught:
        build()
    error = caught.value
    assert error.code == code
    assert phrase in " ".join(error.render().split())
    assert any(each.text.startswith(fix) for each in error.fixes) if fix else not error.fixes


# right graphs


def strides_in_any_order() -> None:
    x = features()
    Add()(a=Down(2)(x=Down(3)(x=x).x).x, b=Down(6)(x=x).x)


def a_u_net_on_a_padded_length() -> None:
    x = PadTo(8)(x=features()).x
    half = Down()(x=x).x
    quarter = Down()(x=half).x
    up = Add()(a=Up()(x=quarter).x, b=half).x
    Add()(a=Up()(x=up).x, b=x)


def a_transposed_convolution_undone() -> None:
    x = features()
    Add()(a=Conv(2, 4)(x=ConvTranspose(2, 4)(x=x).x).x, b=x)


def features_joined_with_themselves() -> None:
    x = inputs(x=Acoustic()[B, F("D"), T]).x
    twice = Concat()(a=x, b=x).x
    Add()(a=Concat()(a=twice, b=x).x, b=Concat()(a=x, b=twice).x)


def time_joined_in_either_order() -> None:
    both = inputs(a=Acoustic()[B, F(8), T], b=Acoustic()[B, F(8), T("T2")])
    one, two = ConcatTime()(a=both.a, b=both.b), ConcatTime()(a=both.b, b=both.a)
    Add()(a=one.x, b=two.x)
    Fixed(8)(x=one.x, n=two.n)


def attention_over_another_encoder() -> None:
    data = inputs(
        ids=Ids(EN)[B, U], ids_len=Lengths(U)[B], memory=Acoustic()[B, T, F(512)], memory_len=Lengths(T)[B]
    )
    query = TextEncoder(EN)(text=data.ids, text_len=data.ids_len)
    mask = LengthsToMask("keep")(lengths=data.memory_len, like=data.memory)
    CrossAttention()(query=query.encoded, memory=data.memory, memory_mask=mask.mask)


def attention_over_itself() -> None:
    data = inputs(x=Features()[B, T, F(512)], mask=Mask(T, true="keep")[B, T])
    CrossAttention()(query=data.x, memory=data.x, memory_mask=data.mask)


def teacher_forcing() -> None:
    data = inputs(ids=Ids(PIECES, frame="bos..eos")[B, U], memory=Features()[B, T, F(512)])
    shifted = Shift(PIECES)(ids=data.ids)
    out = Decoder(PIECES)(ids=shifted.seen, memory=data.memory)
    CrossEntropy(PIECES)(logits=out.logits, targets=shifted.said)


def found_labels_with_their_own_lengths() -> None:
    _, _, states, scores = scored()
    found = BeamSearch(EN)(log_probs=scores.log_probs, log_probs_len=states.encoded_len)
    Rescore(EN)(ids=found.ids, ids_len=found.ids_len)


def losses_of_two_loaders() -> None:
    losses: list[Value] = []
    for _ in range(2):
        batch, _, states, scores = scored()
        loss = CTCLoss(EN)(
            log_probs=scores.log_probs,
            log_probs_len=states.encoded_len,
            targets=batch.text,
            targets_len=batch.text_len,
        )
        losses.append(loss.loss)
    SumLoss()(losses=losses)


def noise_of_its_own_length() -> None:
    audio = Audio(rate=16000, peak=1.0)
    sound = inputs(audio=audio[B, T], audio_len=Lengths(T)[B], noise=audio[B, T("N")])
    noisy = AddNoise()(audio=sound.audio, noise=sound.noise)
    MelSpectrogram()(audio=noisy.audio, audio_len=sound.audio_len)


def stereo_mixed_down() -> None:
    batch = StereoData()()
    MelSpectrogram()(audio=Mono()(audio=batch.audio).audio, audio_len=batch.audio_len)


def time_major_and_back() -> None:
    batch = SpeechData(EN)()
    frames = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    turned = Transpose("B F T", "T B F")(value=frames.mel)
    states = TimeMajorEncoder()(mel=turned.value)
    back = Transpose("T B F", "B F T")(value=states.encoded)
    Add()(a=back.value, b=back.value)


def synthetic_speech_recognised() -> None:
    voice = WaveGlow()(mel=inputs(mel=MEL_22K[B, F(80), T]).mel)
    measured = Measure()(audio=voice.audio)
    slow = Resample(22050, 16000)(audio=voice.audio, audio_len=measured.audio_len)
    MelSpectrogram()(audio=slow.audio, audio_len=slow.audio_len)


def augmented_twice() -> None:
    batch = SpeechData(EN)()
    fast = SpeedPerturb()(audio=batch.audio, audio_len=batch.audio_len)
    faster = SpeedPerturb()(audio=fast.audio, audio_len=fast.audio_len)
    frames = MelSpectrogram()(audio=faster.audio, audio_len=faster.audio_len)
    masked = SpecAugment()(
        mel=SpecAugment()(mel=frames.mel, mel_len=frames.mel_len).mel, mel_len=frames.mel_len
    )
    ConvEncoder()(mel=masked.mel, mel_len=frames.mel_len)


def numbers_for_every_symbol() -> None:
    data = inputs(mel=Mel(n_mels=64)[B(1), F(64), T(101)], n=Lengths(101)[B(1)])
    states = ConvEncoder()(mel=data.mel, mel_len=data.n)
    assert str(states.encoded.type) == "Acoustic[B=1, F=1024, T=51]"


RIGHT: list[Callable[[], None]] = [
    strides_in_any_order,
    a_u_net_on_a_padded_length,
    a_transposed_convolution_undone,
    features_joined_with_themselves,
    time_joined_in_either_order,
    attention_over_another_encoder,
    attention_over_itself,
    teacher_forcing,
    found_labels_with_their_own_lengths,
    losses_of_two_loaders,
    noise_of_its_own_length,
    stereo_mixed_down,
    time_major_and_back,
    synthetic_speech_recognised,
    augmented_twice,
    numbers_for_every_symbol,
]


@pytest.mark.parametrize("build", RIGHT, ids=[build.__name__ for build in RIGHT])
def test_it_is_accepted(build: Callable[[], None]) -> None:
    build()
