"""Right graphs that join modules of several collections."""

from __future__ import annotations

from typing import Any

from neumo import (
    ONE,
    Acoustic,
    Audio,
    B,
    CharErrorRate,
    F,
    Features,
    Graph,
    Ids,
    Lengths,
    LogProbs,
    Loss,
    Mask,
    Mel,
    MultiData,
    Score,
    Speaker,
    State,
    Struct,
    T,
    U,
    V,
    Vocab,
    clock_of,
    inputs,
    parse,
    relax,
)
from neumo.asr import ConvEncoder, CTCHead, CTCLoss, GreedyCTC, MelSpectrogram, SpeechData
from neumo.graph.adapters import (
    Append,
    Exp,
    FullLengths,
    LengthsToMask,
    Offset,
    Pick,
    Resample,
    Squeeze,
    Subsample,
    Unsqueeze,
    Upsample,
)

from .language import (
    PIECES,
    TAGS,
    BertLike,
    CausalLM,
    OutputLayer,
    ParallelTexts,
    PieceEmbedding,
    PlainTexts,
    SequenceLoss,
    SmoothedLoss,
    SourceEncoder,
    TaggedTexts,
    TagHead,
    TargetDecoder,
)
from .matches import right
from .right_speech import recognise
from .small import AnyFrontEnd, CachedStep, ForcedAligner, ValidConv
from .speech import (
    GERMAN,
    LETTERS,
    PEOPLE,
    AddLosses,
    AddSkip,
    Attend,
    ClassLoss,
    CosineScore,
    Detokenise,
    Listener,
    Recogniser,
    SpeakerData,
    SpeakerHead,
    StatsPool,
    StreamingEncoder,
    spoken,
)
from .synthesis import (
    LJ,
    AddVoice,
    HifiGenerator,
    ReadSpeech,
    Tacotron2Encoder,
    Tacotron2Free,
    VoiceEncoder,
    WaveGlowLike,
)


@right
def recogniser_listens_to_synthesis() -> Graph:
    model = Recogniser()
    batch = ReadSpeech(vocab=LETTERS)()
    memory = Tacotron2Encoder(vocab=LETTERS)(text=batch.text, text_len=batch.text_len)
    said = Tacotron2Free()(encoded=memory.encoded, encoded_len=batch.text_len)
    audio = HifiGenerator()(mel=said.mel)
    samples = Upsample(256)(lengths=said.mel_len)
    slow = Resample(22050, 16000)(audio=audio.audio, audio_len=samples.lengths)
    frames = model.mel(audio=slow.audio, audio_len=slow.audio_len)
    return recognise(batch, frames, model)


@right
def what_was_heard_is_spoken_again() -> Graph:
    _, _, states, scores = Recogniser().compose()
    best = GreedyCTC(LETTERS)(log_probs=scores.log_probs, log_probs_len=states.encoded_len)
    memory = Tacotron2Encoder(vocab=LETTERS)(text=best.ids, text_len=best.ids_len)
    said = Tacotron2Free()(encoded=memory.encoded, encoded_len=best.ids_len)
    return Graph("repeat", "infer", {"audio": WaveGlowLike()(mel=said.mel).audio})


@right
def speech_and_speaker_together() -> Graph:
    model = Recogniser()
    both = MultiData(layers=(model.data, SpeakerData(PEOPLE)), names={})()
    frames = model.mel(audio=both.audio, audio_len=both.audio_len)
    states = model.encoder(mel=frames.mel, mel_len=frames.mel_len)
    text = model.ctc(
        log_probs=model.head(encoded=states.encoded).log_probs,
        log_probs_len=states.encoded_len,
        targets=both.text,
        targets_len=both.text_len,
    )
    voice = StatsPool()(encoded=states.encoded, encoded_len=states.encoded_len)
    who = ClassLoss(PEOPLE)(logits=SpeakerHead(PEOPLE)(voice=voice.voice).logits, labels=both.speaker)
    return Graph("train", "train", {"loss": AddLosses()(losses=[text.loss, who.loss]).loss})


@right
def voice_from_a_recording_for_synthesis() -> Graph:
    opened = inputs(
        mel=LJ[B, F(80), T],
        mel_len=Lengths(T)[B],
        text=ReadSpeech().signature().gives["text"],
        text_len=Lengths(U)[B],
    )
    voice = VoiceEncoder()(mel=opened.mel, mel_len=opened.mel_len)
    memory = Tacotron2Encoder()(text=opened.text, text_len=opened.text_len)
    told = AddVoice()(encoded=memory.encoded, voice=voice.voice)
    said = Tacotron2Free()(encoded=told.encoded, encoded_len=opened.text_len)
    return Graph("clone", "infer", {"mel": said.mel, "mel_len": said.mel_len})


@right
def two_voices_that_are_one_space() -> Graph:
    opened = inputs(one=Speaker("ecapa", norm="l2")[B, F(192)], other=Speaker("ecapa", norm="l2")[B, F(192)])
    return Graph("verify", outputs=CosineScore()(one=opened.one, other=opened.other))


@right
def lengths_that_may_be_absent() -> Graph:
    opened = inputs(audio=Audio(rate=16000, peak=1.0)[B, T], audio_len=Lengths(T).optional()[B])
    full = FullLengths()(lengths=opened.audio_len, like=opened.audio)
    frames = MelSpectrogram()(audio=opened.audio, audio_len=full.lengths)
    return Graph("front", outputs=frames)


@right
def probabilities_of_a_recogniser() -> Graph:
    _, _, _, scores = Recogniser().compose()
    return Graph("show", "infer", {"probs": Exp()(log_probs=scores.log_probs).probs})


@right
def one_loss_of_three_collections() -> Graph:
    opened = inputs(
        asr=Loss(reduction="mean")[()], nlp=Loss(reduction="mean")[()], tts=Loss(reduction="mean")[()]
    )
    total = AddLosses()(losses=[opened.asr, opened.nlp, opened.tts])
    return Graph("sum", "infer", {"loss": total.loss})


@right
def loss_of_labels_that_nobody_typed() -> Graph:
    labels = LETTERS.with_blank()
    opened = inputs(
        log_probs=LogProbs()[B, T, V(29)], n=Lengths(T)[B], text=Ids()[B, U], text_len=Lengths(U)[B]
    )
    loss = CTCLoss(LETTERS)(
        log_probs=opened.log_probs, log_probs_len=opened.n, targets=opened.text, targets_len=opened.text_len
    )
    assert len(labels) == 29
    return Graph("measure", "infer", {"loss": loss.loss})


@right
def convolutions_without_padding() -> Graph:
    def shorter(count: Any) -> Any:
        halved = Subsample(2, "floor")(lengths=Offset(-3)(lengths=count).lengths)
        return Offset(1)(lengths=halved.lengths).lengths

    opened = inputs(x=Acoustic()[B, F(80), T], n=Lengths(T)[B])
    conv = ValidConv()
    one = conv(x=opened.x, n=opened.n)
    count = shorter(opened.n)
    two = ValidConv(64)(x=one.x, n=count)
    mask = LengthsToMask(axis=2)(lengths=shorter(count), like=two.x)
    return Graph("encode", outputs=Attend(width=64)(encoded=two.x, mask=mask.mask))


@right
def twice_as_fast_and_back() -> Graph:
    opened = spoken(rate=8000)
    up = Resample(8000, 16000)(audio=opened.audio, audio_len=opened.audio_len)
    down = Resample(16000, 8000)(audio=up.audio, audio_len=up.audio_len)
    front = MelSpectrogram(rate=8000, hop=80, win=160, n_fft=256)
    return Graph("front", outputs=front(audio=down.audio, audio_len=opened.audio_len))


@right
def two_languages_and_one_encoder() -> Graph:
    model = Recogniser()
    both = MultiData(
        layers=(model.data, SpeechData("de.jsonl", vocab=GERMAN)),
        names={"text_1": "german", "text_len_1": "german_len"},
    )()
    heads = {"text": (model.head, model.ctc), "german": (CTCHead(GERMAN, width=256), CTCLoss(GERMAN))}
    losses = []
    for (name, (head, loss)), end in zip(heads.items(), ("", "_1"), strict=True):
        frames = model.mel(audio=both[f"audio{end}"], audio_len=both[f"audio_len{end}"])
        states = model.encoder(mel=frames.mel, mel_len=frames.mel_len)
        losses.append(
            loss(
                log_probs=head(encoded=states.encoded).log_probs,
                log_probs_len=states.encoded_len,
                targets=both[name],
                targets_len=both[f"{name}_len"],
            ).loss
        )
    return Graph("train", "train", {"loss": AddLosses()(losses=losses).loss})


@right
def one_embedding_for_both_sides() -> Graph:
    batch = ParallelTexts(PIECES, PIECES)()
    embedding, out = PieceEmbedding(PIECES), OutputLayer(PIECES)
    memory = SourceEncoder(PIECES)(ids=batch.source, mask=batch.source_mask)
    hidden = TargetDecoder()(
        embedded=embedding(ids=batch.target).embedded,
        memory=memory.memory,
        memory_mask=batch.source_mask,
    )
    copied = out(hidden=embedding(ids=batch.source).embedded)
    loss = SmoothedLoss(PIECES)(
        log_probs=out(hidden=hidden.hidden).log_probs,
        targets=batch.labels,
        targets_mask=batch.target_mask,
    )
    return Graph("train", "train", {"loss": loss.loss, "copied": copied.log_probs})


@right
def cache_that_grows_by_one() -> Graph:
    step = CachedStep()
    opened = inputs(id=Ids(PIECES)[B, ONE], cache=State("lm")[B, T, F(64)])
    cache = opened.cache
    for _ in range(5):
        said = step(id=opened.id, cache=cache)
        cache = said.cache
    assert str(cache.type.axes[1]) == "T + 5"
    return Graph("say", "infer", {"logits": said.logits, "cache": cache})


@right
def batch_of_one_in_a_stream() -> Graph:
    opened = inputs(mel=Mel(n_mels=64)[B(1), F(64), T], state=State("encoder")[B(1), F(256), F(20)])
    return Graph("stream", "infer", StreamingEncoder()(mel=opened.mel, state_in=opened.state))


@right
def one_value_where_several_may_be() -> Graph:
    opened = inputs(loss=Loss(reduction="mean")[()])
    return Graph("sum", outputs=AddLosses()(losses=opened.loss))


@right
def loss_of_unknown_reduction() -> Graph:
    opened = inputs(loss=Loss()[()])
    graph = Graph("sum", outputs=AddLosses()(losses=[opened.loss]))
    assert len(graph.assumptions()) == 1
    return graph


@right
def labels_of_another_name() -> Graph:
    same = Vocab(list(LETTERS), name="letters")
    opened = inputs(ids=Ids(same)[B, U], n=Lengths(U)[B])
    return Graph("write", outputs=Detokenise(LETTERS)(ids=opened.ids, ids_len=opened.n))


@right
def sizes_that_nobody_knows() -> Graph:
    opened = inputs(mel=parse("Mel(n_mels=64)[B, F=64, ?]"), n=parse("Lengths[B]"))
    graph = Graph("encode", outputs=ConvEncoder.preset("an4")(mel=opened.mel, mel_len=opened.n))
    assert graph.assumptions()
    return graph


@right
def teacher_in_a_graph_for_both() -> Graph:
    opened = inputs(
        encoded=Acoustic()[B, F(256), T],
        n=Lengths(T)[B],
        text=Ids(PIECES, frame="bos..").only("train")[B, U],
    )
    spelt = Listener(PIECES)(encoded=opened.encoded, encoded_len=opened.n, text=opened.text)
    both = Graph("both", "both", {"log_probs": spelt.log_probs})
    heard = inputs(encoded=Acoustic()[B, F(256), T], n=Lengths(T)[B])
    return Graph("infer", "infer", both(encoded=heard.encoded, n=heard.n))


@right
def nested_encoder_without_its_optional_input() -> Graph:
    opened = inputs(
        ids=Ids(PIECES, frame="bos..eos")[B, T],
        mask=Mask(T, true="keep")[B, T],
        segments=Ids().optional()[B, T],
    )
    bert = BertLike(PIECES)(ids=opened.ids, mask=opened.mask, segments=opened.segments)
    encode = Graph("encode", outputs=bert)
    batch = TaggedTexts(PIECES, TAGS)()
    scores = TagHead(TAGS)(hidden=encode(ids=batch.ids, mask=batch.mask).hidden)
    loss = SequenceLoss(TAGS)(logits=scores.logits, targets=batch.tags)
    return Graph("train", "train", {"loss": loss.loss})


@right
def clock_relaxed() -> Graph:
    two = inputs(slow=Acoustic()[B, F(8), T(9).at(50)], fast=Acoustic()[B, F(8), T(9).at(100)])
    with relax("clock", reason="both were cut to nine frames"):
        added = AddSkip()(one=two.slow, other=two.fast)
    return Graph("add", outputs=added)


@right
def front_end_for_every_rate() -> Graph:
    opened = spoken(rate=8000)
    frames = AnyFrontEnd()(audio=opened.audio, audio_len=opened.audio_len)
    assert clock_of(frames.mel.type, 2) == 50
    return Graph("encode", outputs=ConvEncoder.preset("an4")(mel=frames.mel, mel_len=frames.mel_len))


@right
def list_of_best_texts() -> Graph:
    best = Struct(ids=Ids(PIECES)[U], score=Score()[()])
    opened = inputs(best=best[B.list(), F("beam").list()])
    return Graph("pick", outputs=Pick("ids")(value=opened.best))


@right
def perplexity_in_inference() -> Graph:
    batch = PlainTexts(PIECES)()
    scores = CausalLM(PIECES)(ids=batch.ids)
    loss = SequenceLoss(PIECES, shifted=True)(logits=scores.logits, targets=batch.labels)
    return Graph("perplexity", "infer", {"loss": loss.loss, "logits": scores.logits})


@right
def synthesis_measured_by_a_recogniser() -> Graph:
    model = Recogniser()
    batch = ReadSpeech(vocab=LETTERS)()
    memory = Tacotron2Encoder(vocab=LETTERS)(text=batch.text, text_len=batch.text_len)
    said = Tacotron2Free()(encoded=memory.encoded, encoded_len=batch.text_len)
    samples = Upsample(256)(lengths=said.mel_len)
    slow = Resample(22050, 16000)(audio=HifiGenerator()(mel=said.mel).audio, audio_len=samples.lengths)
    frames = model.mel(audio=slow.audio, audio_len=slow.audio_len)
    states = model.encoder(mel=frames.mel, mel_len=frames.mel_len)
    best = GreedyCTC(LETTERS)(
        log_probs=model.head(encoded=states.encoded).log_probs, log_probs_len=states.encoded_len
    )
    rate = CharErrorRate(LETTERS)(
        hypothesis=best.ids,
        hypothesis_len=best.ids_len,
        reference=batch.text,
        reference_len=batch.text_len,
    )
    return Graph("evaluate", "infer", {"cer": rate.score})


def aligned() -> Any:
    """Compose a forced alignment."""
    batch, _, states, scores = Recogniser().compose()
    return ForcedAligner(LETTERS)(
        log_probs=scores.log_probs,
        log_probs_len=states.encoded_len,
        text=batch.text,
        text_len=batch.text_len,
    )


@right
def forced_alignment() -> Graph:
    return Graph("align", "infer", {"durations": aligned().durations})


@right
def forced_alignment_with_the_rule_silenced() -> Graph:
    return Graph(
        "align",
        "infer",
        {"durations": aligned().durations},
        silence={"target-in-inference": "the text is what is aligned"},
    )


@right
def squeezed_and_back() -> Graph:
    opened = inputs(energy=Features()[B, T])
    wide = Unsqueeze(1)(value=opened.energy)
    return Graph("energy", outputs={"energy": Squeeze(1)(value=wide.value).value})


@right
def prompt_and_its_completion() -> Graph:
    opened = inputs(
        prompt=Ids(PIECES, frame="bos..")[B, T],
        prompt_len=Lengths(T)[B],
        said=Ids(PIECES, frame="..eos")[B, U],
        said_len=Lengths(U)[B],
    )
    joined = Append()(
        first=opened.prompt,
        second=opened.said,
        first_len=opened.prompt_len,
        second_len=opened.said_len,
    )
    mask = LengthsToMask()(lengths=joined.length, like=joined.value)
    return Graph("encode", outputs=BertLike(PIECES)(ids=joined.value, mask=mask.mask))
