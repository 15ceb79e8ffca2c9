"""Wrong graphs that join modules of several collections."""

from __future__ import annotations

from typing import Any

from neumo import (
    Acoustic,
    Audio,
    B,
    Durations,
    F,
    Features,
    Graph,
    Ids,
    Item,
    Lengths,
    Logits,
    LogProbs,
    Loss,
    Mask,
    Mel,
    MultiData,
    Pitch,
    Strings,
    T,
    Text,
    U,
    V,
    Vocab,
    WordErrorRate,
    collect,
    inputs,
)
from neumo.asr import ConvEncoder, CTCHead, GreedyCTC, MelSpectrogram, SpeechData, SpeedPerturb
from neumo.graph.adapters import Append, Concat, LengthsToMask, Pick, Resample, Unstack, Upsample

from .language import (
    PIECES,
    TAGS,
    BeamOfTranslations,
    BertLike,
    CausalLM,
    PlainTexts,
    SequenceLoss,
    SourceEncoder,
    TaggedTexts,
    TargetDecoder,
    WordPieces,
)
from .mistakes import wrong
from .small import PhoneLine
from .speech import (
    LETTERS,
    AddLosses,
    Attend,
    ClassLoss,
    CosineScore,
    CTCBeam,
    Detokenise,
    Normed,
    Recogniser,
    StatsPool,
    StreamingEncoder,
    spoken,
)
from .synthesis import (
    GRAPHEMES,
    LJ,
    PHONEMES,
    AddVoice,
    CountFrames,
    Expand,
    FrameDecoder,
    HifiGenerator,
    MelError,
    PitchEmbedding,
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


@wrong("contradiction", "29 labels", "V=30")
def thirty_scores_for_29_labels() -> object:
    labels = LETTERS.with_blank()
    opened = inputs(log_probs=LogProbs(labels)[B, T, V(30)], n=Lengths(T)[B])
    return GreedyCTC(LETTERS)(log_probs=opened.log_probs, log_probs_len=opened.n)


@wrong("element", "inputs.texts", "Detokenise.ids", "Strings", "Ids")
def texts_written_twice() -> object:
    opened = inputs(texts=Strings()[B.list()], n=Lengths(U)[B])
    return Detokenise(LETTERS)(ids=opened.texts, ids_len=opened.n)


@wrong("contradiction", "2 channels", "no axis for them", "C(2)")
def two_channels_in_one_axis() -> object:
    opened = inputs(audio=Audio(rate=16000, peak=1.0, channels=2)[B, T], n=Lengths(T)[B])
    return PhoneLine()(audio=opened.audio, audio_len=opened.n)


@wrong("general", "SpeechData.text", "WordErrorRate.hypothesis", "Hypotheses")
def reference_measured_against_itself() -> object:
    batch = SpeechData("dev.jsonl", vocab=LETTERS)()
    return WordErrorRate(LETTERS)(
        hypothesis=batch.text,
        hypothesis_len=batch.text_len,
        reference=batch.text,
        reference_len=batch.text_len,
    )


@wrong("general", "SpeechData.text", "WordErrorRate.hypothesis", "Hypotheses")
def hypothesis_and_reference_swapped() -> object:
    batch, _, states, scores = Recogniser().compose()
    best = GreedyCTC(LETTERS)(log_probs=scores.log_probs, log_probs_len=states.encoded_len)
    return WordErrorRate(LETTERS)(
        hypothesis=batch.text,
        hypothesis_len=batch.text_len,
        reference=best.ids,
        reference_len=best.ids_len,
    )


@wrong(
    "lengths",
    "inputs.audio_len",
    "MelSpectrogram.audio_len",
    "rounded otherwise",
    "audio_len=down.audio_len",
)
def resampled_there_and_back() -> object:
    opened = spoken()
    up = Resample(16000, 22050)(audio=opened.audio, audio_len=opened.audio_len)
    down = Resample(22050, 16000)(audio=up.audio, audio_len=up.audio_len)
    return MelSpectrogram()(audio=down.audio, audio_len=opened.audio_len)


@wrong("size lengths", "inputs.mel", "MelError.target", "counts other frames", "!symbols")
def durations_of_another_reading() -> object:
    frames = T("frames")
    opened = inputs(
        encoded=Text()[B, U, F(512)],
        durations=Durations(T, unit="frames", scale="linear")[B, U],
        mel=LJ[B, F(80), frames],
        mel_len=Lengths(frames)[B],
    )
    expanded = Expand()(encoded=opened.encoded, durations=opened.durations)
    said = FrameDecoder()(expanded=expanded.expanded, expanded_len=expanded.expanded_len)
    return MelError()(said=said.mel, target=opened.mel, target_len=opened.mel_len)


@wrong("output", "SpeechData gives no 'text'", "!did you mean item")
def text_of_a_layer_without_vocabulary() -> object:
    batch = SpeechData("test.jsonl")()
    return Tacotron2Encoder(LETTERS)(text=batch.text, text_len=batch.text_len)


@wrong("vocab", "inputs.ids", "Detokenise.ids", "'c' only there", "!Detokenise with vocab=en ")
def labels_of_the_same_name() -> object:
    opened = inputs(ids=Ids(Vocab("abc", name="en"))[B, U], n=Lengths(U)[B])
    return Detokenise(Vocab("abd", name="en"))(ids=opened.ids, ids_len=opened.n)


@wrong(
    "lengths",
    "SpeechData.audio_len",
    "MelSpectrogram.audio_len",
    "SpeedPerturb",
    "audio_len=faster.audio_len",
)
def lengths_of_before_a_nested_graph() -> object:
    opened = spoken()
    perturbed = SpeedPerturb()(audio=opened.audio, audio_len=opened.audio_len)
    graph = Graph("faster", outputs=perturbed)
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    faster = graph(audio=batch.audio, audio_len=batch.audio_len)
    return MelSpectrogram()(audio=faster.audio, audio_len=batch.audio_len)


@wrong(
    "lengths",
    "call 2 of MelSpectrogram",
    "ConvEncoder.mel_len",
    "MultiData.audio_1",
    "mel_len=one.mel_len",
)
def lengths_of_the_other_call_of_a_graph() -> object:
    opened = spoken()
    frames = MelSpectrogram()(audio=opened.audio, audio_len=opened.audio_len)
    front = Graph("front", outputs=frames)
    both = MultiData(layers=(SpeechData("a.jsonl", vocab=LETTERS), SpeechData("b.jsonl")))()
    one = front(audio=both.audio, audio_len=both.audio_len)
    two = front(audio=both.audio_1, audio_len=both.audio_len_1)
    return ConvEncoder.preset("an4")(mel=one.mel, mel_len=two.mel_len)


@wrong("size", "inputs.labels", "SequenceLoss.targets", "It is 1 too short")
def labels_one_shorter_than_the_scores() -> object:
    opened = inputs(
        ids=Ids(PIECES, shifted=False)[B, T], labels=Ids(PIECES, pad=-100, shifted=True)[B, T - 1]
    )
    scores = CausalLM(PIECES)(ids=opened.ids)
    return SequenceLoss(PIECES, shifted=True)(logits=scores.logits, targets=opened.labels)


@wrong("axes axes", "inputs.one", "Concat.first", "Append")
def sequences_put_side_by_side() -> object:
    opened = inputs(one=Acoustic()[B, F(64), T], other=Acoustic()[B, F(64), U])
    return Concat(axis=2)(first=opened.one, second=opened.other)


@wrong("element", "inputs.item", "ClassLoss.labels", "Item is not Ids")
def index_of_an_utterance_for_a_label() -> object:
    opened = inputs(logits=Logits(TAGS)[B, V(TAGS)], item=Item()[B])
    return ClassLoss(TAGS)(logits=opened.logits, labels=opened.item)


@wrong("facet", "inputs.pitch", "PitchEmbedding.pitch", "unit is semitones, not ln_hz")
def pitch_in_semitones() -> object:
    opened = inputs(x=Text()[B, U, F(512)], pitch=Pitch(unit="semitones", norm="per_speaker")[B, U])
    return PitchEmbedding()(encoded=opened.x, pitch=opened.pitch)


@wrong("mask", "inputs.mask", "Attend.mask", "It is always 64, but T changes")
def mask_of_features_for_frames() -> object:
    opened = inputs(x=Acoustic()[B, F(64), T], mask=Mask(F(64), true="keep")[B, F(64)])
    return Attend(width=64)(encoded=opened.x, mask=opened.mask)


@wrong(
    "size",
    "StreamingEncoder.state_out",
    "StreamingEncoder_2.state_in",
    "20 features, not 40",
    "build StreamingEncoder_2 with context=20",
)
def state_of_another_size() -> object:
    first, second = StreamingEncoder(context=20), StreamingEncoder(context=40)
    opened = inputs(mel=Mel(n_mels=64)[B, F(64), T], state=first.signature().takes["state_in"])
    states = first(mel=opened.mel, state_in=opened.state)
    return second(mel=opened.mel, state_in=states.state_out)


@wrong("size", "CountFrames.durations", "Expand.durations", "inputs.letters", "inputs.sounds")
def durations_of_letters_for_sounds() -> object:
    frames = T("frames")
    opened = inputs(
        sounds=Ids(PHONEMES)[B, U],
        sounds_len=Lengths(U)[B],
        letters=Ids(GRAPHEMES)[B, T],
        letters_len=Lengths(T)[B],
        mel=LJ[B, F(80), frames],
        mel_len=Lengths(frames)[B],
    )
    spelt = Tacotron2Encoder(GRAPHEMES)(text=opened.letters, text_len=opened.letters_len)
    paths = SoftAligner()(
        encoded=spelt.encoded,
        encoded_len=opened.letters_len,
        mel=opened.mel,
        mel_len=opened.mel_len,
    )
    lasts = CountFrames()(path=paths.hard)
    said = Tacotron2Encoder()(text=opened.sounds, text_len=opened.sounds_len)
    return Expand()(encoded=said.encoded, durations=lasts.durations)
