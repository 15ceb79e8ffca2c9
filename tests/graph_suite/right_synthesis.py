"""Right graphs of speech synthesis."""

from __future__ import annotations

from typing import Any

from neumo import (
    Audio,
    B,
    Durations,
    F,
    Graph,
    Lengths,
    Mel,
    MultiData,
    T,
    Text,
    U,
    inputs,
)
from neumo.graph.adapters import (
    LengthsToMask,
    Rescale,
    Upsample,
)

from .matches import right
from .speech import (
    AddLosses,
)
from .synthesis import (
    LJ,
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


def tacotron(batch: Any, **facets: Any) -> tuple[Any, Any]:
    """Compose Tacotron 2, taught."""
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    said = Tacotron2Speaks(**facets)(encoded=memory.encoded, encoded_len=batch.text_len, target=batch.mel)
    return memory, said


@right
def tacotron_with_postnet_and_gate() -> Graph:
    batch = ReadSpeech()()
    _, said = tacotron(batch)
    better = PostnetLike()(mel=said.mel, mel_len=batch.mel_len)
    error = MelError()
    losses = [
        error(said=said.mel, target=batch.mel, target_len=batch.mel_len).loss,
        error(said=better.mel, target=batch.mel, target_len=batch.mel_len).loss,
        GateError()(gate=said.gate, target=batch.gate, target_len=batch.mel_len).loss,
    ]
    return Graph("train", "train", {"loss": AddLosses()(losses=losses).loss})


@right
def text_to_speech() -> Graph:
    opened = inputs(text=ReadSpeech().signature().gives["text"], text_len=Lengths(U)[B])
    memory = Tacotron2Encoder()(text=opened.text, text_len=opened.text_len)
    said = Tacotron2Free()(encoded=memory.encoded, encoded_len=opened.text_len)
    better = PostnetLike()(mel=said.mel, mel_len=said.mel_len)
    audio = WaveGlowLike()(mel=better.mel)
    samples = Upsample(256)(lengths=said.mel_len)
    return Graph("speak", "infer", {"audio": audio.audio, "audio_len": samples.lengths})


@right
def vocoder_of_fresh_weights_on_any_frames() -> Graph:
    batch = ReadSpeech(with_facets(scale="log10", floor=1e-10))()
    vocoder = WaveGlowLike(Mel(n_mels=80, hop=256))
    return Graph("speak", "infer", {"audio": vocoder(mel=batch.mel).audio})


@right
def frames_rescaled_for_the_vocoder() -> Graph:
    batch = ReadSpeech(with_facets(scale="log10"))()
    turned = Rescale("log10", "ln")(mel=batch.mel)
    return Graph("speak", "infer", {"audio": WaveGlowLike()(mel=turned.mel).audio})


def fast(batch: Any, voice: Any = None) -> Graph:
    """Compose FastPitch, taught with durations that an aligner finds."""
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    encoded = memory.encoded
    if voice is not None:
        encoded = AddVoice()(encoded=encoded, voice=voice).encoded
    paths = SoftAligner()(encoded=encoded, encoded_len=batch.text_len, mel=batch.mel, mel_len=batch.mel_len)
    lasts = CountFrames()(path=paths.hard)
    mean = AveragePitch()(pitch=batch.pitch, durations=lasts.durations)
    sung = PitchEmbedding()(encoded=encoded, pitch=mean.pitch)
    expanded = Expand()(encoded=sung.encoded, durations=lasts.durations)
    said = FrameDecoder()(expanded=expanded.expanded, expanded_len=expanded.expanded_len)
    guessed = DurationPredictor()(encoded=encoded, encoded_len=batch.text_len)
    pitch = PitchPredictor()(encoded=encoded, encoded_len=batch.text_len)
    losses = [
        MelError()(said=said.mel, target=batch.mel, target_len=batch.mel_len).loss,
        DurationError()(predicted=guessed.durations, target=lasts.durations, text_len=batch.text_len).loss,
        PitchError()(predicted=pitch.pitch, target=mean.pitch, text_len=batch.text_len).loss,
    ]
    return Graph("train", "train", {"loss": AddLosses()(losses=losses).loss})


@right
def fastpitch() -> Graph:
    return fast(ReadSpeech()())


@right
def fastpitch_of_many_speakers() -> Graph:
    batch = ReadSpeech()()
    return fast(batch, VoiceTable()(voice=batch.voice).voice)


@right
def fastpitch_with_a_voice_of_another_recording() -> Graph:
    both = MultiData(layers=(ReadSpeech(), ReadSpeech()), names={"mel_1": "like", "mel_len_1": "like_len"})()
    return fast(both, VoiceEncoder()(mel=both.like, mel_len=both.like_len).voice)


@right
def fastpitch_speaks() -> Graph:
    opened = inputs(text=ReadSpeech().signature().gives["text"], text_len=Lengths(U)[B])
    memory = Tacotron2Encoder()(text=opened.text, text_len=opened.text_len)
    guessed = DurationPredictor()(encoded=memory.encoded, encoded_len=opened.text_len)
    whole = RoundDurations()(durations=guessed.durations)
    pitch = PitchPredictor()(encoded=memory.encoded, encoded_len=opened.text_len)
    sung = PitchEmbedding()(encoded=memory.encoded, pitch=pitch.pitch)
    expanded = Expand()(encoded=sung.encoded, durations=whole.durations)
    said = FrameDecoder()(expanded=expanded.expanded, expanded_len=expanded.expanded_len)
    audio = HifiGenerator()(mel=said.mel)
    return Graph("speak", "infer", {"audio": audio.audio, "mel_len": expanded.expanded_len})


@right
def given_durations_expand() -> Graph:
    opened = inputs(
        encoded=Text()[B, U, F(512)],
        durations=Durations(T, unit="frames", scale="linear")[B, U],
        mel=LJ[B, F(80), T],
        mel_len=Lengths(T)[B],
    )
    expanded = Expand()(encoded=opened.encoded, durations=opened.durations)
    said = FrameDecoder()(expanded=expanded.expanded, expanded_len=opened.mel_len)
    loss = MelError()(said=said.mel, target=opened.mel, target_len=expanded.expanded_len)
    return Graph("train", "train", {"loss": loss.loss})


@right
def waveglow() -> Graph:
    batch = CropPairs()()
    flow = WaveGlowTrains()(mel=batch.mel, audio=batch.audio)
    loss = FlowError()(noise=flow.noise, log_det=flow.log_det)
    return Graph("train", "train", {"loss": loss.loss})


@right
def waveglow_on_whole_readings() -> Graph:
    opened = inputs(mel=LJ[B, F(80), T], audio=Audio(rate=22050, peak=1.0)[B, T * 256])
    flow = WaveGlowTrains()(mel=opened.mel, audio=opened.audio)
    return Graph("train", "train", FlowError()(noise=flow.noise, log_det=flow.log_det))


@right
def hifi_gan_generator_with_discriminators() -> Graph:
    batch = CropPairs()()
    fake = HifiGenerator()(mel=batch.mel)
    losses = []
    for period in (2, 3, 5, 7, 11):
        seen = PeriodDiscriminator(period)
        said, real = seen(audio=fake.audio), seen(audio=batch.audio)
        losses.append(AdversarialError()(real=said.real).loss)
        losses.append(FeatureError(space=f"period{period}")(said=said.features, target=real.features).loss)
    return Graph("train", "train", {"loss": AddLosses()(losses=losses).loss})


@right
def discriminator_alone() -> Graph:
    batch = CropPairs()()
    fake = HifiGenerator()(mel=batch.mel)
    seen = PeriodDiscriminator(3)
    losses = [AdversarialError()(real=seen(audio=audio).real).loss for audio in (fake.audio, batch.audio)]
    return Graph("train", "train", {"loss": AddLosses()(losses=losses).loss})


@right
def vits_posterior() -> Graph:
    batch = ReadSpeech()()
    hidden = PosteriorEncoder()(mel=batch.mel, mel_len=batch.mel_len)
    loss = KullbackLeibler()(mean=hidden.mean, log_variance=hidden.log_variance)
    return Graph("train", "train", {"loss": loss.loss})


@right
def latent_sample_into_audio() -> Graph:
    opened = inputs(mel=LJ[B, F(80), T], mel_len=Lengths(T)[B])
    hidden = PosteriorEncoder()(mel=opened.mel, mel_len=opened.mel_len)
    return Graph("copy", "infer", {"audio": SampleDecoder()(latent=hidden.sample).audio})


@right
def frames_masked_by_lengths() -> Graph:
    opened = inputs(mel=LJ[B, F(80), T], mel_len=Lengths(T)[B])
    mask = LengthsToMask(true="pad", axis=2)(lengths=opened.mel_len, like=opened.mel)
    masked = FrameMasker()(mel=opened.mel, mask=mask.mask)
    return Graph("mask", outputs={"mel": masked.mel, "mel_len": opened.mel_len})


@right
def voice_left_out() -> Graph:
    batch = ReadSpeech()()
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    plain = AddVoice()(encoded=memory.encoded)
    said = Tacotron2Free()(encoded=plain.encoded, encoded_len=batch.text_len)
    return Graph("speak", "infer", {"mel": said.mel, "mel_len": said.mel_len})
