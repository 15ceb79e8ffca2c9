"""Right graphs that join modules of several collections."""

from __future__ import annotations

from neumo import (
    Audio,
    B,
    F,
    Graph,
    Ids,
    Lengths,
    LogProbs,
    Loss,
    MultiData,
    Speaker,
    T,
    U,
    V,
    inputs,
)
from neumo.asr import (
    CTCLoss,
    GreedyCTC,
    MelSpectrogram,
)
from neumo.graph.adapters import (
    Exp,
    FullLengths,
    Resample,
    Upsample,
)

from .matches import right
from .right_speech import recognise
from .speech import (
    LETTERS,
    PEOPLE,
    AddLosses,
    ClassLoss,
    CosineScore,
    Recogniser,
    SpeakerData,
    SpeakerHead,
    StatsPool,
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
