"""Wrong graphs of speech recognition, as users write them."""

from __future__ import annotations

from neumo import (
    Acoustic,
    Audio,
    B,
    F,
    Features,
    Ids,
    Lengths,
    Logits,
    LogProbs,
    Mel,
    MultiData,
    Spectrogram,
    T,
    U,
    V,
    Vocab,
    WordErrorRate,
    inputs,
)
from neumo.asr import (
    ConvEncoder,
    CTCHead,
    CTCLoss,
    GreedyCTC,
    MelSpectrogram,
    SpecAugment,
    SpeechData,
    SpeedPerturb,
)
from neumo.graph.adapters import LengthsToMask
from neumo.graph.learned import set_learned

from .mistakes import wrong
from .speech import (
    GERMAN,
    LETTERS,
    PEOPLE,
    SORTED,
    AddSkip,
    Attend,
    ClassLoss,
    Conformer,
    CosineScore,
    CTCBeam,
    FractionData,
    Joiner,
    Listener,
    LstmEncoder,
    MixNoise,
    PcmData,
    Predictor,
    Recogniser,
    Rerank,
    SpeakerData,
    SpeakerHead,
    StatsPool,
    StreamingEncoder,
    TelephoneData,
    TransducerLoss,
    TrimSilence,
    UNet,
    UpConv,
    VoiceActivity,
    spoken,
)


@wrong(
    "facet",
    "TelephoneData.audio",
    "MelSpectrogram.audio",
    "rate is 8000, not 16000",
    "Resample(8000 -> 16000)",
)
def telephone_into_wideband_front_end() -> object:
    batch = TelephoneData(LETTERS)()
    return MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)


@wrong("facet", "PcmData.audio", "peak", "32768", "1.0", "Repeak(32768 -> 1")
def integers_into_front_end() -> object:
    batch = PcmData(LETTERS)()
    return MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)


@wrong("axes", "TelephoneData.audio", "MelSpectrogram.audio", "Mono")
def stereo_into_front_end() -> object:
    batch = TelephoneData(LETTERS, rate=16000, channels=2)()
    return MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)


@wrong("element", "SpeechData.audio", "ConvEncoder.mel", "Audio", "Mel")
def audio_into_encoder() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    return ConvEncoder.preset("an4")(mel=batch.audio, mel_len=batch.audio_len)


@wrong("facet", "MelSpectrogram.mel", "ConvEncoder.mel", "80", "64", "n_mels")
def eighty_bands_into_encoder_of_64() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    frames = MelSpectrogram(n_mels=80)(audio=batch.audio, audio_len=batch.audio_len)
    return ConvEncoder.preset("an4")(mel=frames.mel, mel_len=frames.mel_len)


@wrong("size", "ConvEncoder.encoded", "CTCHead.encoded", "256", "1024")
def encoder_of_256_into_head_of_1024() -> object:
    _batch, _frames, states, _ = Recogniser().compose()
    return CTCHead(LETTERS)(encoded=states.encoded)


@wrong(
    "lengths",
    "MelSpectrogram.mel_len",
    "CTCLoss.log_probs_len",
    "2 times too long",
    "log_probs_len=states.encoded_len",
)
def lengths_of_before_the_stride() -> object:
    model = Recogniser()
    batch, frames, states, scores = model.compose()  # noqa: RUF059
    return model.ctc(
        log_probs=scores.log_probs,
        log_probs_len=frames.mel_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )


@wrong(
    "lengths",
    "SpeechData.audio_len",
    "CTCLoss.log_probs_len",
    "log_probs_len=states.encoded_len",
)
def lengths_in_samples() -> object:
    model = Recogniser()
    batch, _frames, states, scores = model.compose()  # noqa: RUF059
    return model.ctc(
        log_probs=scores.log_probs,
        log_probs_len=batch.audio_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )


@wrong("lengths lengths", "targets_len=batch.text_len", "log_probs_len=states.encoded_len")
def the_two_lengths_swapped() -> object:
    model = Recogniser()
    batch, _frames, states, scores = model.compose()
    return model.ctc(
        log_probs=scores.log_probs,
        log_probs_len=batch.text_len,
        targets=batch.text,
        targets_len=states.encoded_len,
    )


@wrong(
    "lengths",
    "SpeechData.audio_len",
    "MelSpectrogram.audio_len",
    "SpeedPerturb",
    "audio_len=faster.audio_len",
)
def lengths_of_before_the_speed() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    faster = SpeedPerturb()(audio=batch.audio, audio_len=batch.audio_len)
    return MelSpectrogram()(audio=faster.audio, audio_len=batch.audio_len)


@wrong("lengths", "TrimSilence", "audio_len=trimmed.audio_len")
def lengths_of_before_trimming() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    trimmed = TrimSilence()(audio=batch.audio, audio_len=batch.audio_len)
    return MelSpectrogram()(audio=trimmed.audio, audio_len=batch.audio_len)


@wrong("lengths", "FractionData.audio_len", "unit", "fraction", "count", "FractionToCount")
def shares_for_counts() -> object:
    batch = FractionData(LETTERS)()
    return MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)


@wrong("vocab", "SpeechData.text", "CTCLoss.targets", "other order", "RemapIds(en-sorted -> en")
def letters_in_another_order() -> object:
    model = Recogniser()
    batch = SpeechData("train.jsonl", vocab=SORTED)()
    frames = model.mel(audio=batch.audio, audio_len=batch.audio_len)
    states = model.encoder(mel=frames.mel, mel_len=frames.mel_len)
    scores = model.head(encoded=states.encoded)
    return model.ctc(
        log_probs=scores.log_probs,
        log_probs_len=states.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )


@wrong(
    "vocab",
    "CTCHead.log_probs",
    "CTCLoss.log_probs",
    "de",
    "en",
    "'ß'",
    "build CTCHead with vocab=en",
    '"\'"',
)
def german_head_with_english_loss() -> object:
    model = Recogniser()
    batch, _frames, states, _ = model.compose()
    scores = CTCHead(GERMAN, width=256)(encoded=states.encoded)
    return model.ctc(
        log_probs=scores.log_probs,
        log_probs_len=states.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )


@wrong("vocab", "CTCHead.log_probs", "CTCBeam.log_probs", "blank", "first", "last")
def blank_first_in_the_search() -> object:
    _batch, _frames, states, scores = Recogniser().compose()
    search = CTCBeam(LETTERS.with_blank("start"))
    return search(log_probs=scores.log_probs, log_probs_len=states.encoded_len)


@wrong("vocab", "inputs.log_probs", "CTCLoss.log_probs", "blank")
def scores_without_blank_into_loss() -> object:
    given = inputs(
        log_probs=LogProbs(LETTERS)[B, T, V(LETTERS)],
        n=Lengths(T)[B],
        text=Ids(LETTERS)[B, U],
        text_len=Lengths(U)[B],
    )
    return CTCLoss(LETTERS)(
        log_probs=given.log_probs, log_probs_len=given.n, targets=given.text, targets_len=given.text_len
    )


@wrong("element", "logits", "CTCLoss.log_probs", "LogSoftmax")
def logits_into_loss() -> object:
    labels = LETTERS.with_blank()
    given = inputs(
        logits=Logits(labels)[B, T, V(labels)],
        n=Lengths(T)[B],
        text=Ids(LETTERS)[B, U],
        text_len=Lengths(U)[B],
    )
    return CTCLoss(LETTERS)(
        log_probs=given.logits, log_probs_len=given.n, targets=given.text, targets_len=given.text_len
    )


@wrong("element", "CTCHead.log_probs", "WordErrorRate.hypothesis", "LogProbs is not")
def scores_for_hypotheses() -> object:
    batch, _frames, states, scores = Recogniser().compose()
    return WordErrorRate(LETTERS)(
        hypothesis=scores.log_probs,
        hypothesis_len=states.encoded_len,
        reference=batch.text,
        reference_len=batch.text_len,
    )


@wrong(
    "batch batch", "SpeechData_2.text", "CTCLoss.targets", "targets=batch.text", "targets_len=batch.text_len"
)
def texts_of_a_second_loader() -> object:
    model = Recogniser()
    batch, _frames, states, scores = model.compose()  # noqa: RUF059
    dev = SpeechData("dev.jsonl", vocab=LETTERS)()
    return model.ctc(
        log_probs=scores.log_probs,
        log_probs_len=states.encoded_len,
        targets=dev.text,
        targets_len=dev.text_len,
    )


@wrong("batch", "SpeechData_2.audio", "MixNoise.noise", "MultiData")
def noise_of_a_second_loader() -> object:
    batch, noises = SpeechData("train.jsonl", vocab=LETTERS)(), SpeechData("noise.jsonl")()
    return MixNoise()(audio=batch.audio, noise=noises.audio)


@wrong("batch batch", "call 1 of SpeechData", "call 2 of SpeechData", "Keep the record of one call")
def one_loader_called_twice() -> object:
    model = Recogniser()
    texts = model.data()
    _batch, _frames, states, scores = model.compose()
    return model.ctc(
        log_probs=scores.log_probs,
        log_probs_len=states.encoded_len,
        targets=texts.text,
        targets_len=texts.text_len,
    )


@wrong("axes", "MelSpectrogram.mel", "LstmEncoder.mel", "other order", "Transpose(B F T -> T B F)")
def batch_major_into_time_major() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    frames = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    return LstmEncoder()(mel=frames.mel, mel_len=frames.mel_len)


@wrong("facet", "MixNoise.noise", "rate", "8000", "16000", "Resample(8000 -> 16000)")
def noise_of_another_rate() -> object:
    both = inputs(audio=Audio(rate=16000, peak=1.0)[B, T], noise=Audio(rate=8000, peak=1.0)[B, T("N")])
    return MixNoise()(audio=both.audio, noise=both.noise)


@wrong("facet", "MelSpectrogram.mel", "ConvEncoder.mel", "hop is 200, not 160")
def hop_of_12_ms_into_trained_encoder() -> object:
    trained = Mel(rate=16000, hop=160, n_mels=64)
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    frames = MelSpectrogram(hop=200)(audio=batch.audio, audio_len=batch.audio_len)
    return ConvEncoder(mel=trained)(mel=frames.mel, mel_len=frames.mel_len)


@wrong(
    "facet", "ConvEncoder.mel", "norm is none, not per_feature", "build MelSpectrogram with norm=per_feature"
)
def unnormalised_frames_into_trained_encoder() -> object:
    trained = Mel(rate=16000, norm="per_feature", n_mels=64)
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    frames = MelSpectrogram(norm="none")(audio=batch.audio, audio_len=batch.audio_len)
    return ConvEncoder(mel=trained)(mel=frames.mel, mel_len=frames.mel_len)


@wrong("facet", "ConvEncoder.mel", "window is hamming, not hann")
def window_of_another_front_end_into_trained_encoder() -> object:
    encoder = ConvEncoder.preset("an4")
    set_learned(encoder, {"mel": Mel(window="hann", n_mels=64)}, source="an4.neumo")
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    frames = MelSpectrogram(window="hamming")(audio=batch.audio, audio_len=batch.audio_len)
    return encoder(mel=frames.mel, mel_len=frames.mel_len)


@wrong("general", "inputs.frames", "ConvEncoder.mel", "Spectrogram", "Mel")
def some_spectrogram_into_encoder() -> object:
    some = inputs(frames=Spectrogram(rate=16000)[B, F(64), T], n=Lengths(T)[B])
    return ConvEncoder.preset("an4")(mel=some.frames, mel_len=some.n)


@wrong("element", "MelSpectrogram.mel_len", "Conformer.mask", "Lengths", "Mask", "LengthsToMask")
def lengths_for_a_mask() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    frames = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    return Conformer()(mel=frames.mel, mask=frames.mel_len)


@wrong("mask", "LengthsToMask.mask", "Attend.mask", "4 times too long", "mask=states.mask")
def mask_of_before_the_stride() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    frames = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    masked = LengthsToMask(axis=2)(lengths=frames.mel_len, like=frames.mel)
    states = Conformer()(mel=frames.mel, mask=masked.mask)
    return Attend()(encoded=states.encoded, mask=masked.mask)


@wrong("mask", "Conformer.mask", "Attend.mask", "True means keep, not pad", "Invert")
def mask_the_wrong_way_round() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    frames = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    masked = LengthsToMask(axis=2)(lengths=frames.mel_len, like=frames.mel)
    states = Conformer()(mel=frames.mel, mask=masked.mask)
    return Attend(true="pad")(encoded=states.encoded, mask=states.mask)


@wrong("clock", "VoiceActivity.encoded", "50", "100")
def fifty_hertz_where_a_hundred_is_wanted() -> object:
    _batch, _frames, states, _scores = Recogniser().compose()
    return VoiceActivity()(encoded=states.encoded, lengths=states.encoded_len)


@wrong("clock", "AddSkip.other", "100 frames a second, not 50")
def equally_many_frames_of_other_length() -> object:
    two = inputs(
        encoded=Acoustic()[B, F(256), T(500).at(50)],
        features=Acoustic()[B, F(256), T(500).at(100)],
    )
    return AddSkip()(one=two.encoded, other=two.features)


@wrong("facet", "State(decoder)", "state_in", "module is decoder, not encoder")
def state_of_another_module() -> object:
    first = StreamingEncoder(name_of_state="decoder")
    opened = inputs(mel=Mel(n_mels=64)[B, F(64), T], state=first.signature().takes["state_in"])
    states = first(mel=opened.mel, state_in=opened.state)
    return StreamingEncoder()(mel=opened.mel, state_in=states.state_out)


@wrong("missing", "StreamingEncoder needs state_in", "State(encoder)", "inputs(state_in=")
def state_forgotten() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    frames = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    return StreamingEncoder()(mel=frames.mel)


@wrong(
    "size",
    "!targets has U + 1 symbols",
    "Joiner.logits",
    "TransducerLoss.logits",
    "U + 1",
    "1 too",
)
def transducer_without_the_start() -> object:
    batch, _frames, states, _ = Recogniser().compose()
    predicted = Predictor(LETTERS, start=False)(text=batch.text, text_len=batch.text_len)
    joined = Joiner(LETTERS)(encoded=states.encoded, predicted=predicted.predicted)
    return TransducerLoss(LETTERS)(
        logits=joined.logits,
        frames_len=states.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )


@wrong("element", "Predictor.predicted", "Joiner.encoded", "Text", "Acoustic", "encoded=states.encoded")
def the_two_sides_of_a_transducer_swapped() -> object:
    batch, _frames, states, _ = Recogniser().compose()
    predicted = Predictor(LETTERS)(text=batch.text, text_len=batch.text_len)
    return Joiner(LETTERS)(encoded=predicted.predicted, predicted=states.encoded)


@wrong("facet facet", "StatsPool.voice", "CosineScore.one", "norm is none, not l2")
def voices_of_any_length_into_cosine() -> object:
    _batch, _frames, states, _scores = Recogniser().compose()
    voice = StatsPool()(encoded=states.encoded, encoded_len=states.encoded_len)
    return CosineScore()(one=voice.voice, other=voice.voice)


@wrong("vocab", "SpeakerData.speaker", "ClassLoss.labels", "letters", "people")
def speakers_judged_as_letters() -> object:
    batch = SpeakerData(PEOPLE)()
    frames = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    states = ConvEncoder.preset("an4")(mel=frames.mel, mel_len=frames.mel_len)
    voice = StatsPool()(encoded=states.encoded, encoded_len=states.encoded_len)
    letters = Vocab([str(n) for n in range(40)], name="letters", unit="word")
    logits = SpeakerHead(letters)(voice=voice.voice)
    return ClassLoss(letters)(logits=logits.logits, labels=batch.speaker)


@wrong(
    "size",
    "UpConv.frames",
    "AddSkip.other",
    "2*ceil(T/2)",
    "!other=opened.frames",
    "rounded otherwise",
)
def u_net_of_odd_length() -> object:
    opened = inputs(frames=Features()[B, F(64), T])
    down = UNet()(frames=opened.frames)
    back = UpConv()(frames=down.down)
    return AddSkip()(one=down.skip, other=back.frames)


@wrong("unknown-port", "ConvEncoder", "mels", "did you mean", "mel")
def port_misspelt() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    frames = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    return ConvEncoder.preset("an4")(mels=frames.mel, mel_len=frames.mel_len)


@wrong("missing", "CTCLoss needs log_probs_len", "log_probs_len=states.encoded_len")
def lengths_forgotten() -> object:
    model = Recogniser()
    batch, _frames, states, scores = model.compose()  # noqa: RUF059
    return model.ctc(log_probs=scores.log_probs, targets=batch.text, targets_len=batch.text_len)


@wrong("output", "MelSpectrogram", "features", "mel, mel_len")
def output_that_is_not_there() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    frames = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    return ConvEncoder.preset("an4")(mel=frames.features, mel_len=frames.mel_len)


@wrong("positional", "MelSpectrogram", "audio=batch.audio")
def ports_without_names() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    return MelSpectrogram()(batch.audio, batch.audio_len)


@wrong("argument", "!$n_fft", "SpecAugment.mel", "mel, mel_len", "pass frames.mel")
def record_for_a_value() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    frames = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    return SpecAugment()(mel=frames, mel_len=frames.mel_len)


@wrong("element", "GreedyCTC.ids", "CTCLoss.log_probs", "is not LogProbs", "log_probs=scores.log_probs")
def best_labels_into_loss() -> object:
    model = Recogniser()
    batch, _frames, states, scores = model.compose()
    best = GreedyCTC(LETTERS)(log_probs=scores.log_probs, log_probs_len=states.encoded_len)
    return model.ctc(
        log_probs=best.ids,
        log_probs_len=best.ids_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )


@wrong("vocab", "inputs.language", "Rerank.language", "<blank>")
def language_model_without_blank_in_reranking() -> object:
    labels = LETTERS.with_blank()
    two = inputs(
        heard=LogProbs(labels)[B, T, V(labels)],
        language=LogProbs(LETTERS)[B, T, V(LETTERS)],
    )
    return Rerank(labels)(acoustic=two.heard, language=two.language)


@wrong("facet", "frame", "none", "bos..", "Listener.text", "Reframe")
def teacher_forcing_without_the_start() -> object:
    marked = Vocab(["<s>", "</s>", *LETTERS], name="marked", bos=0, eos=1)
    opened = inputs(encoded=Acoustic()[B, F(256), T], n=Lengths(T)[B], text=Ids(marked, frame="none")[B, U])
    return Listener(marked)(encoded=opened.encoded, encoded_len=opened.n, text=opened.text)


@wrong(
    "facet",
    "rate is 8000, not 16000",
    "peak is 32768.0, not 1.0",
    "Resample(8000 -> 16000)",
    "Repeak(32768 -> 1)",
)
def two_things_wrong_with_one_value() -> object:
    recorded = spoken(rate=8000, peak=32768.0)
    return MelSpectrogram()(audio=recorded.audio, audio_len=recorded.audio_len)


@wrong("lengths", "noisy_len", "audio_len=both.audio_len")
def lengths_of_the_other_recording() -> object:
    both = MultiData(
        layers=(SpeechData("clean.jsonl", vocab=LETTERS), SpeechData("noisy.jsonl")),
        names={"audio_1": "noisy", "audio_len_1": "noisy_len"},
    )()
    return MelSpectrogram()(audio=both.audio, audio_len=both.noisy_len)
