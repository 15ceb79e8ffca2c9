"""Right graphs of speech recognition."""

from __future__ import annotations

from typing import Any

from neumo import (
    Acoustic,
    AtLeast,
    Audio,
    B,
    CharErrorRate,
    F,
    Features,
    Graph,
    Ids,
    Lengths,
    Logits,
    LogProbs,
    Mask,
    Mel,
    MultiData,
    Spectrogram,
    T,
    U,
    V,
    Vocab,
    WordErrorRate,
    assume,
    collect,
    inputs,
    relax,
)
from neumo.asr import (
    ConvEncoder,
    CTCHead,
    GreedyCTC,
    MelSpectrogram,
    SpecAugment,
    SpecCutout,
    SpeechData,
    SpeedPerturb,
)
from neumo.graph.adapters import (
    FractionToCount,
    Invert,
    LengthsToMask,
    LogSoftmax,
    MaskToLengths,
    Mono,
    Pick,
    RemapIds,
    Reorder,
    Repeak,
    Resample,
    Stack,
    Subsample,
    Transpose,
    Unstack,
)
from neumo.graph.learned import check_learned, learned_facets, set_learned

from .language import (
    LARGER,
    PIECES,
    SmoothedLoss,
)
from .matches import right
from .small import CountIds
from .speech import (
    LETTERS,
    PEOPLE,
    SORTED,
    AddLosses,
    AddSkip,
    Attend,
    ClassLoss,
    Conformer,
    CosineScore,
    CropLike,
    CTCBeam,
    FractionData,
    Gainer,
    Joiner,
    Listener,
    LstmEncoder,
    MixNoise,
    Normed,
    PadEven,
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
    WavesOfSomebody,
    spoken,
)
from .synthesis import (
    ReadSpeech,
    WaveGlowLike,
    with_facets,
)


def recognise(batch: Any, frames: Any, model: Recogniser) -> Graph:
    """Compose encoder, head and loss behind frames."""
    states = model.encoder(mel=frames.mel, mel_len=frames.mel_len)
    scores = model.head(encoded=states.encoded)
    loss = model.ctc(
        log_probs=scores.log_probs,
        log_probs_len=states.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )
    return Graph("train", "train", {"loss": loss.loss})


@right
def plain_recogniser() -> Graph:
    model = Recogniser()
    batch = model.data()
    return recognise(batch, model.mel(audio=batch.audio, audio_len=batch.audio_len), model)


@right
def all_augmentations() -> Graph:
    model = Recogniser()
    batch = model.data()
    louder = Gainer()(audio=batch.audio)
    faster = SpeedPerturb()(audio=louder.audio, audio_len=batch.audio_len)
    trimmed = TrimSilence()(audio=faster.audio, audio_len=faster.audio_len)
    frames = model.mel(audio=trimmed.audio, audio_len=trimmed.audio_len)
    masked = SpecAugment()(mel=frames.mel, mel_len=frames.mel_len)
    cut = SpecCutout()(mel=masked.mel, mel_len=frames.mel_len)
    states = model.encoder(mel=cut.mel, mel_len=frames.mel_len)
    scores = model.head(encoded=states.encoded)
    loss = model.ctc(
        log_probs=scores.log_probs,
        log_probs_len=states.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )
    return Graph("train", "train", {"loss": loss.loss})


@right
def one_augmentation_at_two_rates() -> Graph:
    both = inputs(
        wide=Audio(rate=16000)[B, T],
        wide_len=Lengths(T)[B],
        narrow=Audio(rate=8000)[B, U],
        narrow_len=Lengths(U)[B],
    )
    gain, speed = Gainer(), SpeedPerturb()
    one = speed(audio=gain(audio=both.wide).audio, audio_len=both.wide_len)
    two = speed(audio=gain(audio=both.narrow).audio, audio_len=both.narrow_len)
    return Graph(
        outputs={"one": one.audio, "one_len": one.audio_len, "two": two.audio, "two_len": two.audio_len}
    )


@right
def noise_of_the_same_pair() -> Graph:
    model = Recogniser()
    both = MultiData(
        layers=(model.data, SpeechData("noise.jsonl")),
        names={"audio_1": "noise", "audio_len_1": "noise_len"},
    )()
    mixed = MixNoise()(audio=both.audio, noise=both.noise)
    return recognise(both, model.mel(audio=mixed.audio, audio_len=both.audio_len), model)


@right
def telephone_resampled() -> Graph:
    model = Recogniser()
    batch = TelephoneData(LETTERS)()
    wide = Resample(8000, 16000)(audio=batch.audio, audio_len=batch.audio_len)
    return recognise(batch, model.mel(audio=wide.audio, audio_len=wide.audio_len), model)


@right
def telephone_front_end_of_its_own() -> Graph:
    model = Recogniser()
    batch = TelephoneData(LETTERS)()
    frames = MelSpectrogram(rate=8000, hop=80, win=160, n_fft=256)(
        audio=batch.audio, audio_len=batch.audio_len
    )
    return recognise(batch, frames, model)


@right
def stereo_mixed_down() -> Graph:
    model = Recogniser()
    batch = TelephoneData(LETTERS, rate=16000, channels=2)()
    mono = Mono()(audio=batch.audio)
    return recognise(batch, model.mel(audio=mono.audio, audio_len=batch.audio_len), model)


@right
def integers_scaled() -> Graph:
    model = Recogniser()
    batch = PcmData(LETTERS)()
    scaled = Repeak(32768, 1.0)(audio=batch.audio)
    return recognise(batch, model.mel(audio=scaled.audio, audio_len=batch.audio_len), model)


@right
def shares_counted() -> Graph:
    model = Recogniser()
    batch = FractionData(LETTERS)()
    samples = FractionToCount()(lengths=batch.audio_len, like=batch.audio)
    letters = FractionToCount()(lengths=batch.text_len, like=batch.text)
    frames = model.mel(audio=batch.audio, audio_len=samples.lengths)
    states = model.encoder(mel=frames.mel, mel_len=frames.mel_len)
    loss = model.ctc(
        log_probs=model.head(encoded=states.encoded).log_probs,
        log_probs_len=states.encoded_len,
        targets=batch.text,
        targets_len=letters.lengths,
    )
    return Graph("train", "train", {"loss": loss.loss})


@right
def lengths_divided_by_hand() -> Graph:
    model = Recogniser()
    batch = model.data()
    frames = model.mel(audio=batch.audio, audio_len=batch.audio_len)
    states = model.encoder(mel=frames.mel, mel_len=frames.mel_len)
    halved = Subsample(by=2)(lengths=frames.mel_len)
    loss = model.ctc(
        log_probs=model.head(encoded=states.encoded).log_probs,
        log_probs_len=halved.lengths,
        targets=batch.text,
        targets_len=batch.text_len,
    )
    return Graph("train", "train", {"loss": loss.loss})


@right
def labels_remapped() -> Graph:
    model = Recogniser()
    batch = SpeechData("train.jsonl", vocab=SORTED)()
    frames = model.mel(audio=batch.audio, audio_len=batch.audio_len)
    states = model.encoder(mel=frames.mel, mel_len=frames.mel_len)
    loss = model.ctc(
        log_probs=model.head(encoded=states.encoded).log_probs,
        log_probs_len=states.encoded_len,
        targets=RemapIds(SORTED, LETTERS)(ids=batch.text).ids,
        targets_len=batch.text_len,
    )
    return Graph("train", "train", {"loss": loss.loss})


@right
def blank_moved_to_the_front() -> Graph:
    batch, frames, states, scores = Recogniser().compose()
    first, last = LETTERS.with_blank("start"), LETTERS.with_blank()
    turned = Reorder(last, first)(scores=scores.log_probs)
    found = CTCBeam(first)(log_probs=turned.scores, log_probs_len=states.encoded_len)
    best = Pick("ids")(value=found.best)
    return Graph("infer", "infer", {"ids": best.value, "frames": frames.mel, "item": batch.item})


@right
def evaluation_with_two_rates() -> Graph:
    batch, _, states, scores = Recogniser().compose()
    best = GreedyCTC(LETTERS)(log_probs=scores.log_probs, log_probs_len=states.encoded_len)
    texts: dict[str, Any] = {
        "hypothesis": best.ids,
        "hypothesis_len": best.ids_len,
        "reference": batch.text,
        "reference_len": batch.text_len,
    }
    wer, cer = WordErrorRate(LETTERS)(**texts), CharErrorRate(LETTERS)(**texts, item=batch.item)
    return Graph("evaluate", "infer", {"wer": wer.score, "cer": cer.score})


@right
def time_major_encoder_with_adapters() -> Graph:
    model = Recogniser()
    batch = model.data()
    frames = model.mel(audio=batch.audio, audio_len=batch.audio_len)
    turned = Transpose("B F T", "T B F")(value=frames.mel)
    states = LstmEncoder()(mel=turned.value, mel_len=frames.mel_len)
    back = Transpose("T B F", "B F T")(value=states.encoded)
    scores = CTCHead(LETTERS, width=512)(encoded=back.value)
    loss = model.ctc(
        log_probs=scores.log_probs,
        log_probs_len=states.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )
    return Graph("train", "train", {"loss": loss.loss})


@right
def masks_from_lengths_and_back() -> Graph:
    model = Recogniser()
    batch = model.data()
    frames = model.mel(audio=batch.audio, audio_len=batch.audio_len)
    mask = LengthsToMask(axis=2)(lengths=frames.mel_len, like=frames.mel)
    states = Conformer()(mel=frames.mel, mask=mask.mask)
    again = Attend(true="pad")(encoded=states.encoded, mask=Invert()(mask=states.mask).mask)
    counted = MaskToLengths()(mask=states.mask)
    loss = model.ctc(
        log_probs=model.head(encoded=again.encoded).log_probs,
        log_probs_len=counted.lengths,
        targets=batch.text,
        targets_len=batch.text_len,
    )
    return Graph("train", "train", {"loss": loss.loss})


@right
def transducer() -> Graph:
    batch, _, states, _ = Recogniser().compose()
    predicted = Predictor(LETTERS)(text=batch.text, text_len=batch.text_len)
    joined = Joiner(LETTERS)(encoded=states.encoded, predicted=predicted.predicted)
    loss = TransducerLoss(LETTERS)(
        logits=joined.logits,
        frames_len=states.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )
    return Graph("train", "train", {"loss": loss.loss})


@right
def attention_decoder_taught() -> Graph:
    marked = Vocab(["<pad>", "<s>", "</s>", *LETTERS], name="marked", pad=0, bos=1, eos=2)
    opened = inputs(
        encoded=Acoustic()[B, F(256), T],
        n=Lengths(T)[B],
        text=Ids(marked, pad=0, frame="bos..", shifted=False)[B, U],
        labels=Ids(marked, pad=0, frame="..eos", shifted=True)[B, U],
        mask=Mask(U, true="keep")[B, U],
    )
    spelt = Listener(marked)(encoded=opened.encoded, encoded_len=opened.n, text=opened.text)
    loss = SmoothedLoss(marked)(log_probs=spelt.log_probs, targets=opened.labels, targets_mask=opened.mask)
    return Graph("train", "train", {"loss": loss.loss})


@right
def attention_decoder_alone() -> Graph:
    opened = inputs(encoded=Acoustic()[B, F(256), T], n=Lengths(T)[B])
    spelt = Listener(PIECES)(encoded=opened.encoded, encoded_len=opened.n)
    return Graph("infer", "infer", {"log_probs": spelt.log_probs})


@right
def streaming_in_three_chunks() -> Graph:
    encoder = StreamingEncoder()
    frames = Mel(n_mels=64)
    opened = inputs(
        one=frames[B, F(64), T(40)],
        two=frames[B, F(64), T(40)],
        three=frames[B, F(64), T("rest")],
        state=encoder.signature().takes["state_in"],
    )
    first = encoder(mel=opened.one, state_in=opened.state)
    second = encoder(mel=opened.two, state_in=first.state_out)
    third = encoder(mel=opened.three, state_in=second.state_out)
    return Graph(
        "stream",
        "infer",
        {"one": first.encoded, "two": second.encoded, "three": third.encoded, "state": third.state_out},
    )


@right
def speaker_verification() -> Graph:
    opened = inputs(
        one=Acoustic()[B, F(256), T],
        one_len=Lengths(T)[B],
        other=Acoustic()[B, F(256), U],
        other_len=Lengths(U)[B],
    )
    pool, normed = StatsPool(), Normed()
    one = normed(voice=pool(encoded=opened.one, encoded_len=opened.one_len).voice)
    other = normed(voice=pool(encoded=opened.other, encoded_len=opened.other_len).voice)
    return Graph("verify", "infer", {"score": CosineScore()(one=one.voice, other=other.voice).score})


@right
def speaker_recognition() -> Graph:
    batch = SpeakerData(PEOPLE)()
    frames = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    states = ConvEncoder.preset("an4")(mel=frames.mel, mel_len=frames.mel_len)
    voice = StatsPool()(encoded=states.encoded, encoded_len=states.encoded_len)
    scores = SpeakerHead(PEOPLE)(voice=voice.voice)
    loss = ClassLoss(PEOPLE)(logits=scores.logits, labels=batch.speaker)
    return Graph("train", "train", {"loss": loss.loss})


@right
def voice_activity_on_frames_of_ten_milliseconds() -> Graph:
    opened = inputs(encoded=Acoustic()[B, F(64), T.at(100)], n=Lengths(T)[B])
    found = VoiceActivity()(encoded=opened.encoded, lengths=opened.n)
    return Graph("vad", "infer", {"speech": found.speech})


@right
def two_clocks_brought_together() -> Graph:
    opened = inputs(slow=Features()[B, F(64), T.at(25)], fast=Features()[B, F(64), (T * 2).at(50)])
    up = UpConv()(frames=opened.slow)
    return Graph("fuse", outputs=AddSkip()(one=up.frames, other=opened.fast))


@right
def u_net_padded() -> Graph:
    opened = inputs(frames=Features()[B, F(64), T])
    even = PadEven()(frames=opened.frames)
    down = UNet()(frames=even.frames)
    added = AddSkip()(one=down.skip, other=UpConv()(frames=down.down).frames)
    return Graph("separate", outputs=CropLike()(frames=added.sum, like=opened.frames))


@right
def u_net_cropped() -> Graph:
    opened = inputs(frames=Features()[B, F(64), T])
    down = UNet()(frames=opened.frames)
    up = UpConv()(frames=down.down)
    cropped = CropLike()(frames=up.frames, like=down.skip)
    return Graph("separate", outputs=AddSkip()(one=down.skip, other=cropped.frames))


@right
def u_net_of_two_levels() -> Graph:
    opened = inputs(frames=Features()[B, F(64), T * 4])
    outer, inner = UNet(), UNet()
    one = outer(frames=opened.frames)
    two = inner(frames=one.down)
    up = AddSkip()(one=two.skip, other=UpConv()(frames=two.down).frames)
    top = AddSkip()(one=one.skip, other=UpConv()(frames=up.sum).frames)
    return Graph("separate", outputs=top)


@right
def shapes_of_somebody_else() -> Graph:
    model = Recogniser()
    batch = WavesOfSomebody()()
    graph = recognise(batch, model.mel(audio=batch.audio, audio_len=batch.audio_len), model)
    told = " ".join(str(assumption) for assumption in graph.assumptions())
    assert "rate" in told
    assert "peak" in told
    assert "vocab" in told
    return graph


@right
def shapes_of_somebody_else_with_a_reason() -> Graph:
    model = Recogniser()
    batch = WavesOfSomebody()()
    wave = assume(batch.audio, Audio(rate=16000, peak=1.0)[B, T], reason="the corpus is 16 kHz")
    graph = recognise(batch, model.mel(audio=wave, audio_len=batch.audio_len), model)
    assert "the corpus is 16 kHz" in " ".join(str(each) for each in graph.assumptions())
    return graph


@right
def some_spectrogram_known_to_be_mel() -> Graph:
    some = inputs(frames=Spectrogram(rate=16000)[B, F(64), T], n=Lengths(T)[B])
    mel = assume(some.frames, Mel(n_mels=64)[B, F(64), T], reason="kaldi's fbank made them")
    states = ConvEncoder.preset("an4")(mel=mel, mel_len=some.n)
    return Graph("encode", outputs=states)


@right
def known_vocabulary_with_more_behind() -> Graph:
    opened = inputs(ids=Ids(PIECES, frame="bos..eos")[B, T], mask=Mask(T, true="keep")[B, T])
    taken = CountIds(AtLeast(LARGER))(ids=opened.ids)
    return Graph("count", outputs={"n": taken.lengths, "mask": opened.mask})


@right
def weights_that_learned_the_same_frames() -> Graph:
    model = Recogniser()
    set_learned(model.encoder, {"mel": Mel(rate=16000, hop=160, norm="per_feature", n_mels=64)})
    assert learned_facets(model.encoder)
    batch = model.data()
    frames = model.mel(audio=batch.audio, audio_len=batch.audio_len)
    graph = recognise(batch, frames, model)
    check_learned([frames.mel.step])
    return graph


@right
def one_encoder_twice() -> Graph:
    model = Recogniser()
    both = MultiData(
        layers=(model.data, SpeechData("noisy.jsonl")),
        names={"audio_1": "noisy", "audio_len_1": "noisy_len"},
    )()
    states = []
    for audio, count in ((both.audio, both.audio_len), (both.noisy, both.noisy_len)):
        frames = model.mel(audio=audio, audio_len=count)
        states.append(model.encoder(mel=frames.mel, mel_len=frames.mel_len))
    losses = [
        model.ctc(
            log_probs=model.head(encoded=each.encoded).log_probs,
            log_probs_len=each.encoded_len,
            targets=both.text,
            targets_len=both.text_len,
        ).loss
        for each in states
    ]
    return Graph("train", "train", {"loss": AddLosses()(losses=losses).loss})


@right
def nested_front_end() -> Graph:
    model = Recogniser()
    opened = spoken()
    frames = model.mel(audio=opened.audio, audio_len=opened.audio_len)
    states = model.encoder(mel=frames.mel, mel_len=frames.mel_len)
    listen = Graph("listen", outputs={"encoded": states.encoded, "encoded_len": states.encoded_len})
    batch = model.data()
    heard = listen(audio=batch.audio, audio_len=batch.audio_len)
    loss = model.ctc(
        log_probs=model.head(encoded=heard.encoded).log_probs,
        log_probs_len=heard.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )
    return Graph("train", "train", {"loss": loss.loss})


@right
def nested_twice_deep() -> Graph:
    opened = spoken(rate=8000)
    wide = Resample(8000, 16000)(audio=opened.audio, audio_len=opened.audio_len)
    widen = Graph("widen", outputs={"audio": wide.audio, "audio_len": wide.audio_len})
    again = spoken(rate=8000)
    inner = widen(audio=again.audio, audio_len=again.audio_len)
    frames = MelSpectrogram()(audio=inner.audio, audio_len=inner.audio_len)
    front = Graph("front", outputs={"mel": frames.mel, "mel_len": frames.mel_len})
    batch = TelephoneData(LETTERS)()
    seen = front(audio=batch.audio, audio_len=batch.audio_len)
    states = ConvEncoder.preset("an4")(mel=seen.mel, mel_len=seen.mel_len)
    return Graph("outer", "infer", states)


@right
def list_of_rows_and_back() -> Graph:
    opened = inputs(mels=Mel(n_mels=64)[B.list(), F(64), T], n=Lengths(T)[B])
    rows = Stack()(value=opened.mels)
    states = ConvEncoder.preset("an4")(mel=rows.value, mel_len=opened.n)
    return Graph("encode", outputs={"rows": Unstack()(value=states.encoded).value})


@right
def reranking_with_the_same_labels() -> Graph:
    labels = LETTERS.with_blank()
    axes = (B, T, V(labels))
    two = inputs(heard=LogProbs(labels)[axes], language=Logits(labels)[axes])
    best = Rerank(labels)(acoustic=two.heard, language=LogSoftmax()(logits=two.language).log_probs)
    return Graph("rescore", "infer", {"scores": best.scores})


@right
def floor_relaxed() -> Graph:
    with relax("floor", reason="both floors lie below the noise"):
        batch = ReadSpeech(with_facets(floor=1e-9))()
        audio = WaveGlowLike()(mel=batch.mel)
    graph = Graph("speak", "infer", {"audio": audio.audio})
    assert "both floors lie below the noise" in str(graph.warnings())
    return graph


@right
def another_window_for_fresh_weights() -> Graph:
    encoder = ConvEncoder(mel=Mel(window="hann", n_mels=64))
    opened = spoken()
    frames = MelSpectrogram(window="hamming")(audio=opened.audio, audio_len=opened.audio_len)
    return Graph("encode", outputs=encoder(mel=frames.mel, mel_len=frames.mel_len))


@right
def nothing_wrong_under_collect() -> Graph:
    with collect() as errors:
        model = Recogniser()
        batch = model.data()
        graph = recognise(batch, model.mel(audio=batch.audio, audio_len=batch.audio_len), model)
    assert errors == []
    return graph
