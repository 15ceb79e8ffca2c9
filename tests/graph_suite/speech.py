"""Speech modules that neumo does not ship, as specifications, beside those of `neumo.asr`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from neumo import (
    Acoustic,
    Audio,
    B,
    DataLayer,
    F,
    Features,
    Flags,
    Hypotheses,
    Ids,
    Lengths,
    LogDet,
    Logits,
    LogProbs,
    Loss,
    Mask,
    Mel,
    NeuralModule,
    Probs,
    Score,
    Scores,
    Signature,
    Speaker,
    State,
    Strings,
    Struct,
    T,
    Text,
    U,
    V,
    Var,
    Vocab,
    inputs,
)
from neumo.asr import ConvEncoder, CTCHead, CTCLoss, MelSpectrogram, SpeechData

LETTERS = Vocab.english()
GERMAN = Vocab(" abcdefghijklmnopqrstuvwxyzß", name="de")
SORTED = Vocab("".join(sorted(LETTERS)), name="en-sorted")
PEOPLE = Vocab([f"speaker{n}" for n in range(40)], name="people", unit="word")


@dataclass(frozen=True)
class TelephoneData(DataLayer):
    """Calls at 8 kHz, two sides of them where `channels` is 2."""

    vocab: Vocab
    rate: int = 8000
    channels: int = 1

    def signature(self) -> Signature:
        audio = Audio(rate=self.rate, peak=1.0, channels=self.channels)
        axes = (B, T) if self.channels == 1 else (B, F(self.channels), T)
        return Signature(
            gives={
                "audio": audio[axes],
                "audio_len": Lengths(T)[B],
                "text": Ids(self.vocab)[B, U],
                "text_len": Lengths(U)[B],
            }
        )


@dataclass(frozen=True)
class PcmData(DataLayer):
    """Samples as 16-bit integers wrote them: the loudest is 32768."""

    vocab: Vocab

    def signature(self) -> Signature:
        return Signature(
            gives={
                "audio": Audio(rate=16000, peak=32768.0)[B, T],
                "audio_len": Lengths(T)[B],
                "text": Ids(self.vocab)[B, U],
                "text_len": Lengths(U)[B],
            }
        )


@dataclass(frozen=True)
class WavesOfSomebody(DataLayer):
    """A reader from another project that states shapes and no meaning of them."""

    def signature(self) -> Signature:
        return Signature(
            gives={
                "audio": Audio()[B, T],
                "audio_len": Lengths(T)[B],
                "text": Ids()[B, U],
                "text_len": Lengths(U)[B],
            }
        )


@dataclass(frozen=True)
class FractionData(DataLayer):
    """Lengths as shares of the longest row, as SpeechBrain counts."""

    vocab: Vocab

    def signature(self) -> Signature:
        return Signature(
            gives={
                "audio": Audio(rate=16000, peak=1.0)[B, T],
                "audio_len": Lengths(T, unit="fraction")[B],
                "text": Ids(self.vocab)[B, U],
                "text_len": Lengths(U, unit="fraction")[B],
            }
        )


@dataclass(frozen=True)
class SpeakerData(DataLayer):
    """Utterances with who says them."""

    people: Vocab

    def signature(self) -> Signature:
        return Signature(
            gives={
                "audio": Audio(rate=16000, peak=1.0)[B, T],
                "audio_len": Lengths(T)[B],
                "speaker": Ids(self.people)[B],
            }
        )


@dataclass(frozen=True)
class MixNoise(NeuralModule):
    """Adds noise of the same rate, whatever rate that is."""

    def signature(self) -> Signature:
        audio = Audio(rate=Var("rate"), peak=Var("peak"))
        return Signature(
            takes={"audio": audio[B, T], "noise": audio[B, U]},
            gives={"audio": audio[B, T]},
        )


@dataclass(frozen=True)
class Gainer(NeuralModule):
    """Changes the loudness of audio of any rate; no position is computed from another one."""

    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        audio = Audio(rate=Var("rate"), peak=Var("peak"), channels=Var("channels"))
        return Signature(takes={"audio": audio[B, T]}, gives={"audio": audio[B, T]})


@dataclass(frozen=True)
class TrimSilence(NeuralModule):
    """Cuts silence away: how much is left depends on the data."""

    def signature(self) -> Signature:
        audio, left = Audio(rate=Var("rate"), peak=Var("peak")), T("left")
        return Signature(
            takes={"audio": audio[B, T], "audio_len": Lengths(T)[B]},
            gives={"audio": audio[B, left], "audio_len": Lengths(left)[B]},
        )


@dataclass(frozen=True)
class LstmEncoder(NeuralModule):
    """A time-major recurrent encoder, as cuDNN has it."""

    n_mels: int = 64
    width: int = 512
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"mel": Mel(n_mels=self.n_mels)[T, B, F(self.n_mels)], "mel_len": Lengths(T)[B]},
            gives={"encoded": Acoustic()[T, B, F(self.width)], "encoded_len": Lengths(T)[B]},
        )


@dataclass(frozen=True)
class Conformer(NeuralModule):
    """Self-attention over sub-sampled frames, told by a mask (True keeps) what is padding."""

    n_mels: int = 64
    width: int = 256
    stride: int = 4
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        frames = T.ceildiv(self.stride)
        return Signature(
            takes={
                "mel": Mel(n_mels=self.n_mels)[B, F(self.n_mels), T],
                "mask": Mask(T, true="keep")[B, T],
            },
            gives={
                "encoded": Acoustic("conformer")[B, F(self.width), frames],
                "mask": Mask(frames, true="keep")[B, frames],
            },
        )


@dataclass(frozen=True)
class Attend(NeuralModule):
    """Self-attention, with a mask of either kind."""

    width: int = 256
    true: str = "keep"
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        frames = Acoustic(Var("space"))[B, F(self.width), T]
        return Signature(
            takes={"encoded": frames, "mask": Mask(T, true=self.true)[B, T]},
            gives={"encoded": frames},
        )


@dataclass(frozen=True)
class StreamingEncoder(NeuralModule):
    """Encodes one chunk and hands its state on."""

    n_mels: int = 64
    width: int = 256
    context: int = 20
    name_of_state: str = "encoder"
    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        state = State(self.name_of_state)[B, F(self.width), F(self.context)]
        return Signature(
            takes={"mel": Mel(n_mels=self.n_mels)[B, F(self.n_mels), T], "state_in": state},
            gives={"encoded": Acoustic()[B, F(self.width), T.ceildiv(2)], "state_out": state},
        )


@dataclass(frozen=True)
class Listener(NeuralModule):
    """Attention decoder (Listen, Attend and Spell), teacher-forced with the text in training."""

    vocab: Vocab
    width: int = 256
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={
                "encoded": Acoustic()[B, F(self.width), T],
                "encoded_len": Lengths(T)[B],
                "text": Ids(self.vocab, frame="bos..").only("train")[B, U],
            },
            gives={"log_probs": LogProbs(self.vocab)[B, U, V(self.vocab)]},
        )


@dataclass(frozen=True)
class Predictor(NeuralModule):
    """The prediction network of a transducer; with the `start` it gives one state more than labels."""

    vocab: Vocab
    width: int = 256
    start: bool = True
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"text": Ids(self.vocab)[B, U], "text_len": Lengths(U)[B]},
            gives={"predicted": Text()[B, F(self.width), U + 1 if self.start else U]},
        )


@dataclass(frozen=True)
class Joiner(NeuralModule):
    """Scores each pair of a frame and a label."""

    vocab: Vocab
    width: int = 256
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        labels = self.vocab.with_blank()
        return Signature(
            takes={
                "encoded": Acoustic()[B, F(self.width), T],
                "predicted": Text()[B, F(self.width), U],
            },
            gives={"logits": Logits(labels)[B, T, U, V(labels)]},
        )


@dataclass(frozen=True)
class TransducerLoss(NeuralModule):
    """Sums over all paths of a transducer; takes logits and normalises them itself."""

    vocab: Vocab
    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        labels = self.vocab.with_blank()
        return Signature(
            takes={
                "logits": Logits(labels)[B, T, U + 1, V(labels)],
                "frames_len": Lengths(T)[B],
                "targets": Ids(self.vocab)[B, U],
                "targets_len": Lengths(U)[B],
            },
            gives={"loss": Loss(reduction="mean")[()]},
        )


@dataclass(frozen=True)
class CTCBeam(NeuralModule):
    """Prefix search with the blank where the vocabulary says."""

    labels: Vocab
    width: int = 16
    role: ClassVar[Any] = "decoder"

    def signature(self) -> Signature:
        plain = Vocab([label for label in self.labels if label != "<blank>"], name="letters")
        return Signature(
            takes={
                "log_probs": LogProbs(self.labels)[B, T, V(self.labels)],
                "log_probs_len": Lengths(T)[B],
            },
            gives={
                "ids": Hypotheses(plain)[B, U],
                "ids_len": Lengths(U)[B],
                "best": Struct(ids=Hypotheses(plain)[B, U], score=Score()[B])[()],
            },
        )


@dataclass(frozen=True)
class VoiceActivity(NeuralModule):
    """Speech or not, for each frame of 10 ms."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"encoded": Acoustic()[B, F, T.at(100)], "lengths": Lengths(T)[B]},
            gives={"speech": Probs()[B, T.at(100)]},
        )


@dataclass(frozen=True)
class StatsPool(NeuralModule):
    """Mean and deviation of frames: one vector of fixed length for each utterance."""

    width: int = 256
    out: int = 192
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"encoded": Acoustic()[B, F(self.width), T], "encoded_len": Lengths(T)[B]},
            gives={"voice": Speaker("ecapa", norm="none")[B, F(self.out)]},
        )


@dataclass(frozen=True)
class Normed(NeuralModule):
    """Scales a voice to the length 1."""

    def signature(self) -> Signature:
        return Signature(
            takes={"voice": Speaker(Var("space"))[B, F]},
            gives={"voice": Speaker(Var("space"), norm="l2")[B, F]},
        )


@dataclass(frozen=True)
class CosineScore(NeuralModule):
    """How alike two voices are."""

    space: str = "ecapa"

    def signature(self) -> Signature:
        voice = Speaker(self.space, norm="l2")[B, F]
        return Signature(takes={"one": voice, "other": voice}, gives={"score": Score()[B]})


@dataclass(frozen=True)
class SpeakerHead(NeuralModule):
    """Scores who speaks."""

    people: Vocab
    width: int = 192
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"voice": Speaker()[B, F(self.width)]},
            gives={"logits": Logits(self.people)[B, V(self.people)]},
        )


@dataclass(frozen=True)
class ClassLoss(NeuralModule):
    """Cross-entropy of one label a row; takes logits."""

    labels: Vocab
    reduction: str = "mean"
    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        loss = Loss(reduction=self.reduction)
        return Signature(
            takes={
                "logits": Logits(self.labels)[B, V(self.labels)],
                "labels": Ids(self.labels)[B],
            },
            gives={"loss": loss[B] if self.reduction == "none" else loss[()]},
        )


@dataclass(frozen=True)
class AddLosses(NeuralModule):
    """Adds up any number of losses."""

    def signature(self) -> Signature:
        return Signature(
            takes={"losses": Loss(reduction="mean").many()[()]},
            gives={"loss": Loss(reduction="mean")[()]},
        )


@dataclass(frozen=True)
class Detokenise(NeuralModule):
    """Writes ids as texts."""

    vocab: Vocab

    def signature(self) -> Signature:
        return Signature(
            takes={"ids": Ids(self.vocab)[B, U], "ids_len": Lengths(U)[B]},
            gives={"texts": Strings(language="en", form="spoken")[B.list()]},
        )


@dataclass(frozen=True)
class UNet(NeuralModule):
    """Separates sources with one skip connection: the halves of an odd length do not meet."""

    width: int = 64
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"frames": Features()[B, F(self.width), T]},
            gives={
                "down": Features()[B, F(self.width), T.ceildiv(2)],
                "skip": Features()[B, F(self.width), T],
            },
        )


@dataclass(frozen=True)
class UpConv(NeuralModule):
    """Doubles the number of frames."""

    width: int = 64
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"frames": Features()[B, F(self.width), T]},
            gives={"frames": Features()[B, F(self.width), T * 2]},
        )


@dataclass(frozen=True)
class PadEven(NeuralModule):
    """Pads to an even number of frames."""

    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(
            takes={"frames": Features()[B, F, T]},
            gives={"frames": Features()[B, F, T.ceildiv(2) * 2]},
        )


@dataclass(frozen=True)
class CropLike(NeuralModule):
    """Cuts frames to the number of others, which are fewer."""

    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(
            takes={"frames": Features()[B, F, T("long")], "like": Features()[B, F, T]},
            gives={"frames": Features()[B, F, T]},
        )


@dataclass(frozen=True)
class AddSkip(NeuralModule):
    """Adds two streams of equal size."""

    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        frames = Features()[B, F, T]
        return Signature(takes={"one": frames, "other": frames}, gives={"sum": frames})


@dataclass(frozen=True)
class FlowPrior(NeuralModule):
    """A flow over frames with the determinant of what it did."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"frames": Acoustic()[B, F, T]},
            gives={"frames": Acoustic()[B, F, T], "log_det": LogDet(reduction="sum")[B]},
        )


@dataclass(frozen=True)
class Wake(NeuralModule):
    """Whether the wake word was said."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"encoded": Acoustic()[B, F, T], "encoded_len": Lengths(T)[B]},
            gives={"heard": Flags()[B]},
        )


@dataclass(frozen=True)
class Rerank(NeuralModule):
    """Takes any scores of a vocabulary and a language model's of the same."""

    vocab: Vocab

    def signature(self) -> Signature:
        scores = Scores(self.vocab)[B, T, V(self.vocab)]
        return Signature(takes={"acoustic": scores, "language": scores}, gives={"scores": scores})


@dataclass
class Recogniser:
    """The modules of a recogniser and the records of their calls, up to the scores."""

    vocab: Vocab = LETTERS

    def __post_init__(self) -> None:
        self.data = SpeechData("train.jsonl", vocab=self.vocab)
        self.mel = MelSpectrogram()
        self.encoder = ConvEncoder.preset("an4")
        self.head = CTCHead(self.vocab, width=self.encoder.width)
        self.ctc = CTCLoss(self.vocab)

    def compose(self) -> tuple[Any, Any, Any, Any]:
        """Compose data, frames, states and scores."""
        batch = self.data()
        frames = self.mel(audio=batch.audio, audio_len=batch.audio_len)
        states = self.encoder(mel=frames.mel, mel_len=frames.mel_len)
        return batch, frames, states, self.head(encoded=states.encoded)


def spoken(rate: int | None = 16000, peak: float | None = 1.0) -> Any:
    """Declare audio and its lengths as open inputs."""
    return inputs(audio=Audio(rate=rate, peak=peak)[B, T], audio_len=Lengths(T)[B])
