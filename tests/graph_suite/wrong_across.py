"""Wrong graphs that join modules of several collections."""

from __future__ import annotations

from typing import Any

from neumo import (
    Acoustic,
    Audio,
    B,
    F,
    Features,
    Ids,
    Lengths,
    LogProbs,
    Loss,
    Mel,
    MultiData,
    Strings,
    T,
    Text,
    U,
    V,
    collect,
    inputs,
)
from neumo.asr import ConvEncoder, CTCHead, GreedyCTC, MelSpectrogram, SpeechData
from neumo.graph.adapters import Append, Concat, LengthsToMask, Pick, Unstack, Upsample

from .language import (
    PIECES,
    TAGS,
    BeamOfTranslations,
    BertLike,
    PlainTexts,
    SourceEncoder,
    TaggedTexts,
    TargetDecoder,
    WordPieces,
)
from .mistakes import wrong
from .speech import (
    LETTERS,
    AddLosses,
    CosineScore,
    CTCBeam,
    Detokenise,
    Normed,
    PhoneLine,
    Recogniser,
    StatsPool,
    spoken,
)
from .synthesis import (
    LJ,
    AddVoice,
    FrameDecoder,
    HifiGenerator,
    ReadSpeech,
    SoftAligner,
    Tacotron2Encoder,
    Tacotron2Free,
    VoiceEncoder,
    WaveGlowLike,
    with_facets,
)


def speak() -> tuple[Any, Any]:
    """Compose text to samples."""
    batch = ReadSpeech()()
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    said = Tacotron2Free()(encoded=memory.encoded, encoded_len=batch.text_len)
    return said, WaveGlowLike()(mel=said.mel)


@wrong(
    "facet",
    "WaveGlowLike.audio",
    "MelSpectrogram.audio",
    "rate is 22050, not 16000",
    "Resample(22050 -> 16000)",
)
def synthesis_into_recogniser() -> object:
    said, audio = speak()
    samples = Upsample(256)(lengths=said.mel_len)
    return MelSpectrogram()(audio=audio.audio, audio_len=samples.lengths)


@wrong(
    "lengths", "Tacotron2Free.mel_len", "MelSpectrogram.audio_len", "256 times too short", "Upsample(by=256)"
)
def frames_counted_for_samples() -> object:
    said, audio = speak()
    return MelSpectrogram(rate=22050)(audio=audio.audio, audio_len=said.mel_len)


@wrong(
    "facet",
    "Tacotron2Free.mel",
    "ConvEncoder.mel",
    "rate is 22050, not 16000",
    "n_mels is 80, not 64",
)
def frames_of_synthesis_into_trained_encoder() -> object:
    said, _ = speak()
    trained = Mel(rate=16000, hop=160, norm="per_feature", n_mels=64)
    return ConvEncoder(mel=trained)(mel=said.mel, mel_len=said.mel_len)


@wrong(
    "facet",
    "MelSpectrogram.mel",
    "WaveGlowLike.mel",
    "rate is 16000, not 22050",
    "hop is 160, not 256",
)
def frames_of_recogniser_into_vocoder() -> object:
    _batch, frames, _states, _scores = Recogniser().compose()
    return WaveGlowLike(with_facets(n_mels=64))(mel=frames.mel)


@wrong("vocab", "GreedyCTC.ids", "BertLike.ids", "en", "pieces")
def letters_heard_into_encoder_of_pieces() -> object:
    _batch, _frames, states, scores = Recogniser().compose()
    best = GreedyCTC(LETTERS)(log_probs=scores.log_probs, log_probs_len=states.encoded_len)
    mask = LengthsToMask()(lengths=best.ids_len, like=best.ids)
    return BertLike(PIECES)(ids=best.ids, mask=mask.mask)


@wrong("facet", "Detokenise.texts", "WordPieces.texts", "form is spoken, not written")
def spoken_form_into_written_pieces() -> object:
    _batch, _frames, states, scores = Recogniser().compose()
    best = GreedyCTC(LETTERS)(log_probs=scores.log_probs, log_probs_len=states.encoded_len)
    heard = Detokenise(LETTERS)(ids=best.ids, ids_len=best.ids_len)
    return WordPieces(PIECES)(texts=heard.texts)


@wrong("element", "inputs.encoded", "TargetDecoder.memory", "Acoustic is not Text")
def sounds_as_memory_of_translation() -> object:
    opened = inputs(encoded=Acoustic()[B, T, F(512)], n=Lengths(T)[B], embedded=Text()[B, U, F(512)])
    mask = LengthsToMask()(lengths=opened.n, like=opened.encoded)
    return TargetDecoder()(embedded=opened.embedded, memory=opened.encoded, memory_mask=mask.mask)


@wrong("facet", "VoiceEncoder.voice", "CosineScore.other", "space is gst, not ecapa")
def voice_of_synthesis_scored_by_verification() -> object:
    opened = inputs(mel=LJ[B, F(80), T], mel_len=Lengths(T)[B], x=Acoustic()[B, F(256), U], n=Lengths(U)[B])
    voice = StatsPool(out=64)(encoded=opened.x, encoded_len=opened.n)
    scaled = Normed()(voice=voice.voice)
    other = VoiceEncoder()(mel=opened.mel, mel_len=opened.mel_len)
    return CosineScore()(one=scaled.voice, other=other.voice)


@wrong("batch", "StatsPool.voice", "AddVoice.voice", "SpeechData", "ReadSpeech", "MultiData")
def voice_of_another_corpus() -> object:
    _batch, _frames, states, _scores = Recogniser().compose()
    voice = StatsPool(out=64)(encoded=states.encoded, encoded_len=states.encoded_len)
    read = ReadSpeech()()
    memory = Tacotron2Encoder()(text=read.text, text_len=read.text_len)
    return AddVoice()(encoded=memory.encoded, voice=voice.voice)


@wrong("size", "TargetDecoder.memory", "512", "256")
def recogniser_states_of_another_width_in_translation() -> object:
    opened = inputs(memory=Text("source")[B, T, F(256)], embedded=Text()[B, U, F(512)], n=Lengths(T)[B])
    mask = LengthsToMask()(lengths=opened.n, like=opened.memory)
    return TargetDecoder()(embedded=opened.embedded, memory=opened.memory, memory_mask=mask.mask)


@wrong("clock", "inputs.visual", "Concat.second", "25", "50")
def pictures_beside_sounds() -> object:
    opened = inputs(
        sounds=Acoustic()[B, F(256), T(200).at(50)],
        visual=Features()[B, F(128), T(200).at(25)],
    )
    return Concat(axis=1)(first=opened.sounds, second=opened.visual)


@wrong("fields", "CTCBeam.best", "text", "ids", "score")
def field_that_a_search_does_not_give() -> object:
    _batch, _frames, states, scores = Recogniser().compose()
    found = CTCBeam(LETTERS.with_blank())(log_probs=scores.log_probs, log_probs_len=states.encoded_len)
    return Pick("text")(value=found.best)


@wrong("list", "Unstack.value", "BertLike.ids", "list", "Stack")
def list_of_rows_into_encoder() -> object:
    batch = TaggedTexts(PIECES, TAGS)()
    rows = Unstack()(value=batch.ids)
    return BertLike(PIECES)(ids=rows.value, mask=batch.mask)


@wrong("element", "ReadSpeech.text_len", "Tacotron2Encoder.text", "text=batch.text")
def text_and_its_lengths_swapped() -> object:
    batch = ReadSpeech()()
    return Tacotron2Encoder()(text=batch.text_len, text_len=batch.text_len)


@wrong("argument", "Tacotron2Encoder.text", "list")
def list_for_one_value() -> object:
    batch = ReadSpeech()()
    return Tacotron2Encoder()(text=[batch.text, batch.text], text_len=batch.text_len)


@wrong("missing", "MelSpectrogram needs audio", "None", "audio=batch.audio")
def none_for_a_value() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    return MelSpectrogram()(audio=None, audio_len=batch.audio_len)


@wrong(
    "collect facet size",
    "MelSpectrogram.audio",
    "rate is 8000, not 16000",
    "CTCHead.encoded",
    "256 features, not 512",
)
def two_mistakes_in_one_file() -> object:
    with collect():
        opened = spoken(rate=8000)
        frames = MelSpectrogram()(audio=opened.audio, audio_len=opened.audio_len)
        states = ConvEncoder.preset("an4")(mel=frames.mel, mel_len=frames.mel_len)
        scores = CTCHead(LETTERS, width=512)(encoded=states.encoded)
        return GreedyCTC(LETTERS)(log_probs=scores.log_probs, log_probs_len=states.encoded_len)


@wrong("vocab", "GreedyCTC", "already has a blank", "wrong_across.py")
def labels_with_two_blanks() -> object:
    _batch, _frames, states, scores = Recogniser().compose()
    return GreedyCTC(LETTERS.with_blank())(log_probs=scores.log_probs, log_probs_len=states.encoded_len)


@wrong("lengths", "MultiData.wanted_len", "Tacotron2Encoder.text_len", "text_len=both.")
def texts_of_two_layers_mixed_up() -> object:
    both = MultiData(
        layers=(ReadSpeech(), PlainTexts(PIECES)), names={"ids": "wanted", "ids_len": "wanted_len"}
    )()
    return Tacotron2Encoder()(text=both.text, text_len=both.wanted_len)


@wrong("element", "Append.second", "Ids")
def answer_behind_frames() -> object:
    opened = inputs(mel=LJ[B, T, F(80)], text=Ids(PIECES)[B, U])
    return Append()(first=opened.mel, second=opened.text)


@wrong("facet", "ReadSpeech.mel", "SoftAligner.mel", "scale is ln, not log10")
def aligner_of_other_frames_than_the_decoder() -> object:
    batch = ReadSpeech()()
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    return SoftAligner(with_facets(scale="log10"))(
        encoded=memory.encoded, encoded_len=batch.text_len, mel=batch.mel, mel_len=batch.mel_len
    )


@wrong("facet", "HifiGenerator.mel", "FrameDecoder.mel", "floor is 1e-05, not 1e-10")
def decoder_and_vocoder_of_two_papers() -> object:
    opened = inputs(x=Text()[B, T, F(512)], n=Lengths(T)[B])
    said = FrameDecoder()(expanded=opened.x, expanded_len=opened.n)
    return HifiGenerator(with_facets(floor=1e-10))(mel=said.mel)


@wrong("element", "BeamOfTranslations.score", "AddLosses.losses", "Score", "Loss")
def score_for_a_loss() -> object:
    opened = inputs(loss=Loss(reduction="mean")[()], ids=Ids(PIECES)[B, T], n=Lengths(T)[B])
    mask = LengthsToMask()(lengths=opened.n, like=opened.ids)
    memory = SourceEncoder(PIECES)(ids=opened.ids, mask=mask.mask)
    found = BeamOfTranslations(PIECES)(memory=memory.memory, memory_mask=mask.mask)
    return AddLosses()(losses=[opened.loss, found.score])


@wrong("vocab", "TaggedTexts.tags", "BertLike.ids", "tags", "pieces", "ids=batch.ids")
def tags_read_as_pieces() -> object:
    batch = TaggedTexts(PIECES, TAGS)()
    return BertLike(PIECES)(ids=batch.tags, mask=batch.mask)


@wrong("size", "inputs.log_probs", "GreedyCTC.log_probs", "V")
def thirty_scores_for_29_labels() -> object:
    labels = LETTERS.with_blank()
    opened = inputs(log_probs=LogProbs(labels)[B, T, V(30)], n=Lengths(T)[B])
    return GreedyCTC(LETTERS)(log_probs=opened.log_probs, log_probs_len=opened.n)


@wrong("element", "inputs.texts", "Detokenise.ids", "Strings", "Ids")
def texts_written_twice() -> object:
    opened = inputs(texts=Strings()[B.list()], n=Lengths(U)[B])
    return Detokenise(LETTERS)(ids=opened.texts, ids_len=opened.n)


@wrong("facet", "inputs.audio", "channels", "2", "1")
def two_channels_in_one_axis() -> object:
    opened = inputs(audio=Audio(rate=16000, peak=1.0, channels=2)[B, T], n=Lengths(T)[B])
    return PhoneLine()(audio=opened.audio, audio_len=opened.n)
