"""Wrong graphs of speech synthesis, as users write them."""

from __future__ import annotations

from neumo import (
    Alignment,
    Audio,
    B,
    Durations,
    F,
    Ids,
    Latent,
    Lengths,
    Loss,
    Mask,
    Mel,
    Pitch,
    T,
    Text,
    U,
    inputs,
)
from neumo.graph.adapters import Rescale
from neumo.graph.learned import set_learned

from .mistakes import wrong
from .small import VoiceBox
from .speech import AddLosses, ClassLoss, CosineScore, SpeakerHead
from .synthesis import (
    GRAPHEMES,
    LJ,
    PHONEMES,
    VOICES,
    AddVoice,
    AdversarialError,
    AveragePitch,
    CountFrames,
    CropPairs,
    DurationError,
    DurationPredictor,
    Expand,
    FeatureError,
    FlowError,
    FrameDecoder,
    FrameMasker,
    GateError,
    HifiGenerator,
    KullbackLeibler,
    MelError,
    PeriodDiscriminator,
    PitchEmbedding,
    PitchError,
    PitchPredictor,
    PosteriorEncoder,
    PostnetLike,
    ReadSpeech,
    RoundDurations,
    SampleDecoder,
    SoftAligner,
    Tacotron2Encoder,
    Tacotron2Free,
    Tacotron2Speaks,
    VoiceEncoder,
    VoiceTable,
    WaveGlowLike,
    WaveGlowTrains,
    with_facets,
)


@wrong(
    "facet",
    "ReadSpeech.mel",
    "WaveGlowLike.mel",
    "scale is log10, not ln",
    "Rescale(log10 -> ln)",
)
def decimal_logarithms_into_vocoder() -> object:
    batch = ReadSpeech(with_facets(scale="log10"))()
    return WaveGlowLike()(mel=batch.mel)


@wrong("facet", "ReadSpeech.mel", "WaveGlowLike.mel", "floor is 1e-09, not 1e-05")
def floor_of_another_front_end_into_vocoder() -> object:
    batch = ReadSpeech(with_facets(floor=1e-9))()
    return WaveGlowLike()(mel=batch.mel)


@wrong(
    "facet",
    "ReadSpeech.mel",
    "WaveGlowLike.mel",
    "fmin is 80.0, not 0.0",
    "fmax is 7600.0, not 8000.0",
)
def another_band_into_vocoder() -> object:
    batch = ReadSpeech(with_facets(fmin=80.0, fmax=7600.0))()
    return WaveGlowLike()(mel=batch.mel)


@wrong("facet", "ReadSpeech.mel", "WaveGlowLike.mel", "mel_scale is htk, not slaney")
def another_mel_scale_into_vocoder() -> object:
    batch = ReadSpeech(with_facets(mel_scale="htk"))()
    return WaveGlowLike()(mel=batch.mel)


@wrong("facet", "power is 2.0, not 1.0")
def powers_into_vocoder_of_magnitudes() -> object:
    batch = ReadSpeech(with_facets(power=2.0))()
    return WaveGlowLike()(mel=batch.mel)


@wrong("facet", "norm is per_feature, not none")
def normalised_frames_into_vocoder() -> object:
    batch = ReadSpeech(with_facets(norm="per_feature"))()
    return WaveGlowLike()(mel=batch.mel)


@wrong(
    "facet",
    "rate is 24000, not 22050",
    "hop is 300, not 256",
    "win is 1200, not 1024",
    "n_fft is 2048, not 1024",
)
def frames_of_24_khz_into_vocoder_of_22() -> object:
    batch = ReadSpeech(with_facets(rate=24000, hop=300, win=1200, n_fft=2048))()
    return WaveGlowLike()(mel=batch.mel)


@wrong("facet", "center is False, not True")
def frames_that_are_not_centred_into_vocoder() -> object:
    batch = ReadSpeech(with_facets(center=False))()
    return WaveGlowLike()(mel=batch.mel)


@wrong("facet", "WaveGlowLike.mel", "scale is log10, not ln", "learned in training (lj.neumo)")
def loaded_vocoder_on_other_frames() -> object:
    vocoder = WaveGlowLike(Mel(n_mels=80, hop=256))
    set_learned(vocoder, {"mel": LJ}, source="lj.neumo")
    batch = ReadSpeech(with_facets(scale="log10"))()
    return vocoder(mel=batch.mel)


@wrong("vocab", "ReadSpeech.text", "Tacotron2Encoder.text", "graphemes", "phonemes")
def letters_into_encoder_of_phonemes() -> object:
    batch = ReadSpeech(vocab=GRAPHEMES)()
    return Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)


@wrong("lengths", "ReadSpeech.mel_len", "Tacotron2Encoder.text_len", "text_len=batch.text_len")
def frames_counted_for_symbols() -> object:
    batch = ReadSpeech()()
    return Tacotron2Encoder()(text=batch.text, text_len=batch.mel_len)


@wrong("lengths", "ReadSpeech.mel_len", "Tacotron2Speaks.encoded_len", "encoded_len=batch.text_len")
def frames_counted_for_the_memory() -> object:
    batch = ReadSpeech()()
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    return Tacotron2Speaks()(encoded=memory.encoded, encoded_len=batch.mel_len, target=batch.mel)


@wrong(
    "lengths",
    "ReadSpeech.mel_len",
    "PostnetLike.mel_len",
    "Tacotron2Free",
    "mel_len=said.mel_len",
)
def lengths_of_the_reading_for_what_was_said() -> object:
    batch = ReadSpeech()()
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    said = Tacotron2Free()(encoded=memory.encoded, encoded_len=batch.text_len)
    return PostnetLike()(mel=said.mel, mel_len=batch.mel_len)


@wrong("size lengths", "ReadSpeech.mel", "MelError.target", "made by Tacotron2Free")
def free_speech_compared_with_a_reading() -> object:
    batch = ReadSpeech()()
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    said = Tacotron2Free()(encoded=memory.encoded, encoded_len=batch.text_len)
    return MelError()(said=said.mel, target=batch.mel, target_len=batch.mel_len)


@wrong("missing", "Tacotron2Speaks needs target", "target=batch.mel")
def teacher_forgotten() -> object:
    batch = ReadSpeech()()
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    return Tacotron2Speaks()(encoded=memory.encoded, encoded_len=batch.text_len)


@wrong("element", "Tacotron2Speaks.mel", "GateError.gate", "gate=said.gate")
def frames_for_the_gate() -> object:
    batch = ReadSpeech()()
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    said = Tacotron2Speaks()(encoded=memory.encoded, encoded_len=batch.text_len, target=batch.mel)
    return GateError()(gate=said.mel, target=batch.gate, target_len=batch.mel_len)


@wrong("facet", "DurationPredictor.durations", "Expand.durations", "scale is ln, not linear")
def logarithms_for_durations() -> object:
    batch = ReadSpeech()()
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    lasts = DurationPredictor()(encoded=memory.encoded, encoded_len=batch.text_len)
    return Expand()(encoded=memory.encoded, durations=lasts.durations)


@wrong("facet", "inputs.durations", "Expand.durations", "unit is seconds, not frames")
def seconds_for_frames() -> object:
    opened = inputs(
        encoded=Text()[B, U, F(512)],
        durations=Durations(T, unit="seconds", scale="linear")[B, U],
    )
    return Expand()(encoded=opened.encoded, durations=opened.durations)


@wrong("facet", "SoftAligner.soft", "CountFrames.path", "form is soft, not hard", "path=paths.hard")
def attention_counted_as_a_path() -> object:
    batch = ReadSpeech()()
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    paths = SoftAligner()(
        encoded=memory.encoded, encoded_len=batch.text_len, mel=batch.mel, mel_len=batch.mel_len
    )
    return CountFrames()(path=paths.soft)


@wrong("size", "CountFrames.durations", "Expand.durations", "inputs.text")
def alignment_lying_on_its_side() -> object:
    opened = inputs(
        path=Alignment("hard")[B, U, T],
        text=Ids(PHONEMES)[B, U],
        text_len=Lengths(U)[B],
    )
    lasts = CountFrames()(path=opened.path)
    memory = Tacotron2Encoder()(text=opened.text, text_len=opened.text_len)
    return Expand()(encoded=memory.encoded, durations=lasts.durations)


@wrong(
    "facet",
    "inputs.pitch",
    "PitchError.target",
    "unit is hz, not ln_hz",
    "norm is none, not per_speaker",
)
def pitch_in_hertz_for_its_logarithm() -> object:
    opened = inputs(pitch=Pitch(unit="hz", norm="none")[B, U], n=Lengths(U)[B], x=Text()[B, U, F(512)])
    said = PitchPredictor()(encoded=opened.x, encoded_len=opened.n)
    return PitchError()(predicted=said.pitch, target=opened.pitch, text_len=opened.n)


@wrong("facet", "ReadSpeech.pitch", "PitchEmbedding.pitch", "hz", "ln_hz", "pitch=mean.pitch")
def pitch_of_frames_for_pitch_of_symbols() -> object:
    batch = ReadSpeech()()
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    paths = SoftAligner()(
        encoded=memory.encoded, encoded_len=batch.text_len, mel=batch.mel, mel_len=batch.mel_len
    )
    lasts = CountFrames()(path=paths.hard)
    mean = AveragePitch()(pitch=batch.pitch, durations=lasts.durations)
    return mean, PitchEmbedding()(encoded=memory.encoded, pitch=batch.pitch)


@wrong(
    "lengths",
    "ReadSpeech.text_len",
    "FrameDecoder.expanded_len",
    "counts symbols, not frames",
    "expanded_len=expanded.expanded_len",
)
def lengths_of_symbols_for_expanded_frames() -> object:
    batch = ReadSpeech()()
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    lasts = DurationPredictor()(encoded=memory.encoded, encoded_len=batch.text_len)
    whole = RoundDurations()(durations=lasts.durations)
    expanded = Expand()(encoded=memory.encoded, durations=whole.durations)
    return FrameDecoder()(expanded=expanded.expanded, expanded_len=batch.text_len)


@wrong("facet", "DurationPredictor.durations", "DurationError.target", "scale is ln, not linear")
def predicted_durations_as_their_own_target() -> object:
    batch = ReadSpeech()()
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    lasts = DurationPredictor()(encoded=memory.encoded, encoded_len=batch.text_len)
    return DurationError()(predicted=lasts.durations, target=lasts.durations, text_len=batch.text_len)


@wrong("size", "inputs.audio", "WaveGlowTrains.audio", "256*T", "mel has T frames")
def samples_that_do_not_belong_to_the_frames() -> object:
    opened = inputs(mel=LJ[B, F(80), T], audio=Audio(rate=22050, peak=1.0)[B, T("S")])
    return WaveGlowTrains()(mel=opened.mel, audio=opened.audio)


@wrong(
    "size",
    "inputs.audio",
    "WaveGlowTrains.audio",
    "9600 samples, not 8192",
    "mel has 32 frames",
)
def crops_of_another_hop() -> object:
    opened = inputs(mel=LJ[B, F(80), T(32)], audio=Audio(rate=22050, peak=1.0)[B, T(9600)])
    return WaveGlowTrains()(mel=opened.mel, audio=opened.audio)


@wrong(
    "facet",
    "PeriodDiscriminator_2.features",
    "FeatureError.target",
    "space is period3, not period2",
)
def features_of_two_discriminators_compared() -> object:
    batch = CropPairs()()
    fake = HifiGenerator()(mel=batch.mel)
    two, three = PeriodDiscriminator(2), PeriodDiscriminator(3)
    return FeatureError()(said=two(audio=fake.audio).features, target=three(audio=batch.audio).features)


@wrong("clock", "HifiGenerator.audio", "22050", "upsample=300")
def generator_of_another_hop_than_its_data() -> object:
    batch = CropPairs(with_facets(hop=300))()
    fake = HifiGenerator(with_facets(hop=300), upsample=256)(mel=batch.mel)
    two = PeriodDiscriminator(2)
    return FeatureError()(said=two(audio=fake.audio).features, target=two(audio=batch.audio).features)


@wrong(
    "facet",
    "PosteriorEncoder.mean",
    "SampleDecoder.latent",
    "part is mean, not sample",
    "latent=hidden.sample",
)
def mean_for_a_sample() -> object:
    batch = ReadSpeech()()
    hidden = PosteriorEncoder()(mel=batch.mel, mel_len=batch.mel_len)
    return SampleDecoder()(latent=hidden.mean)


@wrong("facet", "inputs.spread", "KullbackLeibler.log_variance", "part is std, not log_variance")
def deviation_for_logarithm_of_variance() -> object:
    opened = inputs(
        mean=Latent(prior="normal", part="mean")[B, F(192), T],
        spread=Latent(prior="normal", part="std")[B, F(192), T],
    )
    return KullbackLeibler()(mean=opened.mean, log_variance=opened.spread)


@wrong("facet", "inputs.noise", "SampleDecoder.latent", "prior is uniform, not normal")
def noise_of_another_prior() -> object:
    opened = inputs(noise=Latent(prior="uniform", part="sample")[B, F(192), T])
    return SampleDecoder()(latent=opened.noise)


@wrong("element", "WaveGlowTrains.log_det", "AddLosses.losses", "LogDet", "Loss")
def determinant_for_a_loss() -> object:
    batch = CropPairs()()
    flow = WaveGlowTrains()(mel=batch.mel, audio=batch.audio)
    loss = FlowError()(noise=flow.noise, log_det=flow.log_det)
    return AddLosses()(losses=[loss.loss, flow.log_det])


@wrong("facet", "ClassLoss.loss", "AddLosses.losses", "1 axis, not 0", "Reduce(mean)")
def losses_of_rows_in_a_sum() -> object:
    batch = ReadSpeech()()
    voice = VoiceTable()(voice=batch.voice)
    scores = SpeakerHead(VOICES, width=64)(voice=voice.voice)
    each = ClassLoss(VOICES, reduction="none")(logits=scores.logits, labels=batch.voice)
    gate = GateError()
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    said = Tacotron2Speaks()(encoded=memory.encoded, encoded_len=batch.text_len, target=batch.mel)
    ends = gate(gate=said.gate, target=batch.gate, target_len=batch.mel_len)
    return AddLosses()(losses=[ends.loss, each.loss])


@wrong("facet", "inputs.total", "AddLosses.losses", "reduction is sum, not mean")
def sum_added_to_a_mean() -> object:
    opened = inputs(total=Loss(reduction="sum")[()], mean=Loss(reduction="mean")[()])
    return AddLosses()(losses=[opened.mean, opened.total])


@wrong("facet facet", "VoiceEncoder.voice", "CosineScore.one", "space is gst, not ecapa")
def voices_of_another_model_compared() -> object:
    batch = ReadSpeech()()
    voice = VoiceEncoder()(mel=batch.mel, mel_len=batch.mel_len)
    return CosineScore()(one=voice.voice, other=voice.voice)


@wrong("element", "ReadSpeech.voice", "AddVoice.voice", "Ids", "Speaker", "voice=anna.voice")
def index_of_a_voice_for_the_voice() -> object:
    batch = ReadSpeech()()
    anna = VoiceTable()(voice=batch.voice)
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    return anna, AddVoice()(encoded=memory.encoded, voice=batch.voice)


@wrong("mask", "inputs.mask", "FrameMasker.mask", "True means keep, not pad", "Invert(mask)")
def mask_of_frames_the_wrong_way_round() -> object:
    opened = inputs(mel=LJ[B, F(80), T], mask=Mask(T, true="keep")[B, T])
    return FrameMasker()(mel=opened.mel, mask=opened.mask)


@wrong("element", "PeriodDiscriminator.features", "AdversarialError.real", "real=seen.real")
def features_for_the_verdict() -> object:
    batch = CropPairs()()
    seen = PeriodDiscriminator(2)(audio=batch.audio)
    return AdversarialError()(real=seen.features)


@wrong(
    "size",
    "Expand.expanded",
    "FrameDecoder.expanded",
    "512",
    "384",
    "FrameDecoder with width=512",
)
def decoder_of_another_width() -> object:
    opened = inputs(durations=Durations(T, unit="frames", scale="linear")[B, U], x=Text()[B, U, F(512)])
    expanded = Expand()(encoded=opened.x, durations=opened.durations)
    return FrameDecoder(width=384)(expanded=expanded.expanded, expanded_len=expanded.expanded_len)


@wrong("clock", "HifiGenerator", "22050")
def vocoder_of_another_hop_than_its_frames() -> object:
    batch = ReadSpeech()()
    return HifiGenerator(upsample=300)(mel=batch.mel)


@wrong("adapter", "Rescale(ln -> log10)", "norm", "!Changes the scale of a spectrogram exactly")
def normalised_frames_rescaled() -> object:
    opened = inputs(mel=with_facets(norm="per_feature")[B, F(80), T])
    return Rescale("ln", "log10")(mel=opened.mel)


@wrong("clock", "inputs.audio", "VoiceBox.audio", "8000", "22050")
def samples_of_a_clock_that_is_no_rate() -> object:
    opened = inputs(audio=Audio(peak=1.0)[B, T.at(8000)])
    return VoiceBox()(audio=opened.audio)
