"""Speech synthesis as specifications: Tacotron 2, FastPitch, WaveGlow, HiFi-GAN, voices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from neumo import (
    Alignment,
    Audio,
    B,
    DataLayer,
    Durations,
    F,
    Features,
    Ids,
    Latent,
    Lengths,
    LogDet,
    Logits,
    Loss,
    Mask,
    Mel,
    NeuralModule,
    Pitch,
    Signature,
    Speaker,
    T,
    Text,
    U,
    Vocab,
)

PHONEMES = Vocab(["<pad>", "AA", "B", "K", "S", "T", " "], "phonemes", pad=0, unit="word")
GRAPHEMES = Vocab("_ abcdefgh", "graphemes", pad=0)
VOICES = Vocab(["anna", "ben", "carl"], "voices", unit="word")
LJ = Mel(
    rate=22050, hop=256, n_fft=1024, win=1024, window="hann", power=1.0, scale="ln", floor=1e-5,
    norm="none", center=True, n_mels=80, fmin=0.0, fmax=8000.0, mel_scale="slaney",
)  # the frames of the public Tacotron 2 and WaveGlow  # fmt: skip


@dataclass(frozen=True)
class ReadSpeech(DataLayer):
    """Texts and how they were read: frames and samples of each, pitch, who read it."""

    mel: Mel = LJ
    vocab: Vocab = PHONEMES
    targets: ClassVar[tuple[str, ...]] = ("mel", "mel_len", "gate", "pitch")

    def signature(self) -> Signature:
        n_mels = self.mel.n_mels
        return Signature(
            gives={
                "text": Ids(self.vocab, pad=0)[B, U],
                "text_len": Lengths(U)[B],
                "mel": self.mel[B, F(n_mels), T],
                "mel_len": Lengths(T)[B],
                "gate": Ids()[B, T],
                "pitch": Pitch(unit="hz", norm="none")[B, T],
                "voice": Ids(VOICES)[B],
            }
        )


@dataclass(frozen=True)
class CropPairs(DataLayer):
    """Crops of frames with the samples that belong to them."""

    mel: Mel = LJ
    frames: int = 32

    def signature(self) -> Signature:
        hop, rate = self.mel.hop, self.mel.rate
        return Signature(
            gives={
                "mel": self.mel[B, F(self.mel.n_mels), T(self.frames)],
                "audio": Audio(rate=rate, peak=1.0)[B, T(self.frames * hop)],
            }
        )


@dataclass(frozen=True)
class Tacotron2Encoder(NeuralModule):
    """Encodes phonemes or letters."""

    vocab: Vocab = PHONEMES
    width: int = 512
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"text": Ids(self.vocab)[B, U], "text_len": Lengths(U)[B]},
            gives={"encoded": Text("tacotron2")[B, U, F(self.width)]},
        )


@dataclass(frozen=True)
class Tacotron2Speaks(NeuralModule):
    """Decodes frames, fed with the right ones in training."""

    mel: Mel = LJ
    width: int = 512
    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ("encoded",)

    def signature(self) -> Signature:
        mel = self.mel[B, F(self.mel.n_mels), T]
        return Signature(
            takes={
                "encoded": Text()[B, U, F(self.width)],
                "encoded_len": Lengths(U)[B],
                "target": mel,
            },
            gives={
                "mel": mel,
                "gate": Logits(over="gate")[B, T],
                "alignment": Alignment("soft")[B, T, U],
            },
        )


@dataclass(frozen=True)
class Tacotron2Free(NeuralModule):
    """Decodes frames until its gate says that it is done."""

    mel: Mel = LJ
    width: int = 512
    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ("encoded",)

    def signature(self) -> Signature:
        said = T("said")
        return Signature(
            takes={"encoded": Text()[B, U, F(self.width)], "encoded_len": Lengths(U)[B]},
            gives={
                "mel": self.mel[B, F(self.mel.n_mels), said],
                "mel_len": Lengths(said)[B],
                "alignment": Alignment("soft")[B, said, U],
            },
        )


@dataclass(frozen=True)
class PostnetLike(NeuralModule):
    """Adds what the decoder's frames lack."""

    mel: Mel = LJ
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        mel = self.mel[B, F(self.mel.n_mels), T]
        return Signature(takes={"mel": mel, "mel_len": Lengths(T)[B]}, gives={"mel": mel})


@dataclass(frozen=True)
class MelError(NeuralModule):
    """Squared error of frames."""

    mel: Mel = LJ
    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        mel = self.mel[B, F(self.mel.n_mels), T]
        return Signature(
            takes={"said": mel, "target": mel, "target_len": Lengths(T)[B]},
            gives={"loss": Loss(reduction="mean")[()]},
        )


@dataclass(frozen=True)
class GateError(NeuralModule):
    """Binary cross-entropy of where speech ends."""

    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        return Signature(
            takes={
                "gate": Logits(over="gate")[B, T],
                "target": Ids()[B, T],
                "target_len": Lengths(T)[B],
            },
            gives={"loss": Loss(reduction="mean")[()]},
        )


@dataclass(frozen=True)
class DurationPredictor(NeuralModule):
    """Predicts logarithms of numbers of frames."""

    width: int = 512
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"encoded": Text()[B, U, F(self.width)], "encoded_len": Lengths(U)[B]},
            gives={"durations": Durations(unit="frames", scale="ln")[B, U]},
        )


@dataclass(frozen=True)
class RoundDurations(NeuralModule):
    """Turns logarithms into whole frames; they add up to something that nobody knows before."""

    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(
            takes={"durations": Durations(unit="frames", scale="ln")[B, U]},
            gives={"durations": Durations(T, unit="frames", scale="linear")[B, U]},
        )


@dataclass(frozen=True)
class PitchPredictor(NeuralModule):
    """Predicts the pitch of each symbol, normalised for each speaker."""

    width: int = 512
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"encoded": Text()[B, U, F(self.width)], "encoded_len": Lengths(U)[B]},
            gives={"pitch": Pitch(unit="ln_hz", norm="per_speaker")[B, U]},
        )


@dataclass(frozen=True)
class PitchEmbedding(NeuralModule):
    """A vector for the pitch of each symbol."""

    width: int = 512
    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(
            takes={
                "encoded": Text()[B, U, F(self.width)],
                "pitch": Pitch(unit="ln_hz", norm="per_speaker")[B, U],
            },
            gives={"encoded": Text()[B, U, F(self.width)]},
        )


@dataclass(frozen=True)
class AveragePitch(NeuralModule):
    """The mean pitch of the frames of each symbol, as a logarithm, normalised."""

    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(
            takes={
                "pitch": Pitch(unit="hz")[B, T],
                "durations": Durations(T, unit="frames", scale="linear")[B, U],
            },
            gives={"pitch": Pitch(unit="ln_hz", norm="per_speaker")[B, U]},
        )


@dataclass(frozen=True)
class Expand(NeuralModule):
    """Repeats each symbol as long as it lasts."""

    width: int = 512
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(
            takes={
                "encoded": Text()[B, U, F(self.width)],
                "durations": Durations(T, unit="frames", scale="linear")[B, U],
            },
            gives={"expanded": Text()[B, T, F(self.width)], "expanded_len": Lengths(T)[B]},
        )


@dataclass(frozen=True)
class FrameDecoder(NeuralModule):
    """Turns expanded symbols into frames."""

    mel: Mel = LJ
    width: int = 512
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"expanded": Text()[B, T, F(self.width)], "expanded_len": Lengths(T)[B]},
            gives={"mel": self.mel[B, F(self.mel.n_mels), T]},
        )


@dataclass(frozen=True)
class SoftAligner(NeuralModule):
    """Attention between frames and symbols, and the best path through it."""

    mel: Mel = LJ
    width: int = 512
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={
                "encoded": Text()[B, U, F(self.width)],
                "encoded_len": Lengths(U)[B],
                "mel": self.mel[B, F(self.mel.n_mels), T],
                "mel_len": Lengths(T)[B],
            },
            gives={
                "soft": Alignment("soft")[B, T, U],
                "hard": Alignment("hard")[B, T, U],
            },
        )


@dataclass(frozen=True)
class CountFrames(NeuralModule):
    """Counts the frames of each symbol on one path."""

    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(
            takes={"path": Alignment("hard")[B, T, U]},
            gives={"durations": Durations(T, unit="frames", scale="linear")[B, U]},
        )


@dataclass(frozen=True)
class DurationError(NeuralModule):
    """Squared error of logarithms of durations."""

    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        return Signature(
            takes={
                "predicted": Durations(unit="frames", scale="ln")[B, U],
                "target": Durations(unit="frames", scale="linear")[B, U],
                "text_len": Lengths(U)[B],
            },
            gives={"loss": Loss(reduction="mean")[()]},
        )


@dataclass(frozen=True)
class PitchError(NeuralModule):
    """Squared error of pitches."""

    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        pitch = Pitch(unit="ln_hz", norm="per_speaker")[B, U]
        return Signature(
            takes={"predicted": pitch, "target": pitch, "text_len": Lengths(U)[B]},
            gives={"loss": Loss(reduction="mean")[()]},
        )


@dataclass(frozen=True)
class WaveGlowLike(NeuralModule):
    """Turns frames into samples: `hop` for each; fresh weights take any frames."""

    mel: Mel = LJ
    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        samples = T * (self.mel.hop or 256)
        return Signature(
            takes={"mel": self.mel[B, F(self.mel.n_mels or 80), T]},
            gives={"audio": Audio(rate=self.mel.rate, peak=1.0)[B, samples]},
        )


@dataclass(frozen=True)
class WaveGlowTrains(NeuralModule):
    """Turns samples into noise, and says how much that stretched."""

    mel: Mel = LJ
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        samples = Audio(rate=self.mel.rate, peak=1.0)[B, T * self.mel.hop]
        return Signature(
            takes={"mel": self.mel[B, F(self.mel.n_mels), T], "audio": samples},
            gives={
                "noise": Latent(prior="normal", part="sample")[B, F(8), T * self.mel.hop // 8],
                "log_det": LogDet(reduction="sum")[B],
            },
        )


@dataclass(frozen=True)
class FlowError(NeuralModule):
    """The likelihood of noise."""

    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        return Signature(
            takes={
                "noise": Latent(prior="normal", part="sample")[B, F, T],
                "log_det": LogDet(reduction="sum")[B],
            },
            gives={"loss": Loss(reduction="mean")[()]},
        )


@dataclass(frozen=True)
class HifiGenerator(NeuralModule):
    """Turns frames into samples, `upsample` of each frame, which should be the hop of the frames."""

    mel: Mel = LJ
    upsample: int = 256
    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(
            takes={"mel": self.mel[B, F(self.mel.n_mels), T]},
            gives={"audio": Audio(rate=self.mel.rate, peak=1.0)[B, T * self.upsample]},
        )


@dataclass(frozen=True)
class PeriodDiscriminator(NeuralModule):
    """Scores samples as real, seen with one period, and gives what it saw."""

    period: int = 2
    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(
            takes={"audio": Audio(rate=22050, peak=1.0)[B, T]},
            gives={
                "real": Logits(over="real")[B, T // self.period],
                "features": Features(f"period{self.period}")[B, F(64), T // self.period],
            },
        )


@dataclass(frozen=True)
class AdversarialError(NeuralModule):
    """What a generator wants: each discriminator to take its samples for real."""

    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        return Signature(
            takes={"real": Logits(over="real")[B, T]}, gives={"loss": Loss(reduction="mean")[()]}
        )


@dataclass(frozen=True)
class FeatureError(NeuralModule):
    """The distance of what one discriminator saw in two recordings."""

    space: str = "period2"
    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        seen = Features(self.space)[B, F, T]
        return Signature(takes={"said": seen, "target": seen}, gives={"loss": Loss(reduction="mean")[()]})


@dataclass(frozen=True)
class VoiceTable(NeuralModule):
    """A vector for each voice."""

    voices: Vocab = VOICES
    width: int = 64
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"voice": Ids(self.voices)[B]},
            gives={"voice": Speaker("table", norm="none")[B, F(self.width)]},
        )


@dataclass(frozen=True)
class VoiceEncoder(NeuralModule):
    """A voice from frames of anybody."""

    mel: Mel = LJ
    width: int = 64
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"mel": self.mel[B, F(self.mel.n_mels), T], "mel_len": Lengths(T)[B]},
            gives={"voice": Speaker("gst", norm="l2")[B, F(self.width)]},
        )


@dataclass(frozen=True)
class AddVoice(NeuralModule):
    """Adds a voice to each symbol."""

    width: int = 512
    voice: int = 64
    space: str | None = None
    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(
            takes={
                "encoded": Text()[B, U, F(self.width)],
                "voice": Speaker(self.space).optional()[B, F(self.voice)],
            },
            gives={"encoded": Text()[B, U, F(self.width)]},
        )


@dataclass(frozen=True)
class FrameMasker(NeuralModule):
    """Masks frames; the mask says True for what is padding."""

    def signature(self) -> Signature:
        return Signature(
            takes={"mel": Mel()[B, F, T], "mask": Mask(T, true="pad")[B, T]},
            gives={"mel": Mel()[B, F, T]},
        )


@dataclass(frozen=True)
class PosteriorEncoder(NeuralModule):
    """The mean and the spread of a latent variable for each frame (VITS)."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        def latent(part: str) -> Latent:
            return Latent(prior="normal", part=part)

        return Signature(
            takes={"mel": Mel()[B, F, T], "mel_len": Lengths(T)[B]},
            gives={
                "mean": latent("mean")[B, F(192), T],
                "log_variance": latent("log_variance")[B, F(192), T],
                "sample": latent("sample")[B, F(192), T],
            },
        )


@dataclass(frozen=True)
class SampleDecoder(NeuralModule):
    """Turns samples of a latent variable into audio."""

    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(
            takes={"latent": Latent(prior="normal", part="sample")[B, F(192), T]},
            gives={"audio": Audio(rate=22050, peak=1.0)[B, T * 256]},
        )


@dataclass(frozen=True)
class KullbackLeibler(NeuralModule):
    """The distance of two distributions, each with its mean and its logarithm of the variance."""

    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        def latent(part: str) -> Latent:
            return Latent(prior="normal", part=part)

        return Signature(
            takes={
                "mean": latent("mean")[B, F, T],
                "log_variance": latent("log_variance")[B, F, T],
            },
            gives={"loss": Loss(reduction="mean")[()]},
        )


def with_facets(**facets: Any) -> Mel:
    """The frames of LJ with other settings."""
    return replace(LJ, **facets)


@dataclass(frozen=True)
class WholeError(NeuralModule):
    """Squared error of whole frames: no gradient flows into whole numbers."""

    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        whole = Durations(unit="frames", scale="linear")[B, U]
        return Signature(
            takes={"predicted": whole, "target": whole, "text_len": Lengths(U)[B]},
            gives={"loss": Loss(reduction="mean")[()]},
        )
