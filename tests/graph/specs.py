"""Small modules of speech and language models, declared here so that the tests depend on no collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from neumo.graph.module import DataLayer, NeuralModule, Role
from neumo.graph.signature import Signature
from neumo.types import (
    Acoustic,
    Alignment,
    Audio,
    B,
    F,
    Features,
    Ids,
    Lengths,
    Logits,
    LogProbs,
    Loss,
    Mask,
    Mel,
    Spectrogram,
    T,
    Text,
    U,
    V,
    Var,
    Vocab,
)

EN = Vocab(" abcdefghijklmnopqrstuvwxyz'", name="en")
EN_SORTED = Vocab(" 'abcdefghijklmnopqrstuvwxyz", name="en-sorted")
DE = Vocab(" abcdefghijklmnopqrstuvwxyä", name="de")
TAGS = Vocab(["O", "B-PER", "I-PER", "B-LOC"], name="tags", unit="word")
TAGS_SORTED = Vocab(["B-LOC", "B-PER", "I-PER", "O"], name="tags-sorted", unit="word")
WORDS = Vocab(["<pad>", "yes", "no", "go"], name="words", pad=0, unit="word")


@dataclass(frozen=True)
class SpeechData(DataLayer):
    vocab: Vocab
    rate: int = 16000

    def signature(self) -> Signature:
        return Signature(
            gives={
                "audio": Audio(rate=self.rate, peak=1.0)[B, T],
                "audio_len": Lengths(T)[B],
                "text": Ids(self.vocab)[B, U],
                "text_len": Lengths(U)[B],
            }
        )


@dataclass(frozen=True)
class UntypedSource(DataLayer):
    def signature(self) -> Signature:
        return Signature(gives={"audio": Audio()[B, T], "audio_len": Lengths(T)[B]})


@dataclass(frozen=True)
class MelSpectrogram(NeuralModule):
    rate: int = 16000
    n_mels: int = 64
    hop: int = 160
    scale: str = "ln"
    floor: float | None = None
    fmin: float | None = None
    fmax: float | None = None

    def signature(self) -> Signature:
        frames = T // self.hop + 1
        mel = Mel(
            rate=self.rate,
            hop=self.hop,
            scale=self.scale,
            floor=self.floor,
            power=2.0,
            n_mels=self.n_mels,
            fmin=self.fmin,
            fmax=self.fmax,
        )
        return Signature(
            takes={"audio": Audio(rate=self.rate, peak=1.0)[B, T], "audio_len": Lengths(T)[B]},
            gives={"mel": mel[B, F(self.n_mels), frames], "mel_len": Lengths(frames)[B]},
        )


@dataclass(frozen=True)
class Gain(NeuralModule):
    """Works at any sample rate."""

    gain: float = 1.0

    def signature(self) -> Signature:
        audio = Audio(rate=Var("rate"), peak=Var("peak"), channels=Var("channels"))[B, T]
        return Signature(takes={"audio": audio}, gives={"audio": audio})


@dataclass(frozen=True)
class SpeedPerturb(NeuralModule):
    def signature(self) -> Signature:
        audio = Audio(rate=Var("rate"), peak=Var("peak"))
        return Signature(
            takes={"audio": audio[B, T], "audio_len": Lengths(T)[B]},
            gives={"audio": audio[B, T("T2")], "audio_len": Lengths(T("T2"))[B]},
        )


@dataclass(frozen=True)
class SpecAugment(NeuralModule):
    n_freq_masks: int = 2

    def signature(self) -> Signature:
        mel = Mel(rate=Var("rate"), hop=Var("hop"), scale=Var("scale"), n_mels=Var("n_mels"))[B, F("D"), T]
        return Signature(takes={"mel": mel, "mel_len": Lengths(T)[B]}, gives={"mel": mel})


@dataclass(frozen=True)
class ConvEncoder(NeuralModule):
    trainable: ClassVar[bool] = True

    n_mels: int = 64
    width: int = 1024
    stride: int = 2

    def signature(self) -> Signature:
        frames = T.ceildiv(self.stride)
        return Signature(
            takes={"mel": Mel(n_mels=self.n_mels)[B, F(self.n_mels), T], "mel_len": Lengths(T)[B]},
            gives={"encoded": Acoustic()[B, F(self.width), frames], "encoded_len": Lengths(frames)[B]},
        )


@dataclass(frozen=True)
class TimeMajorEncoder(NeuralModule):
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(takes={"mel": Mel()[T, B, F]}, gives={"encoded": Acoustic()[T, B, F("E")]})


@dataclass(frozen=True)
class CTCHead(NeuralModule):
    trainable: ClassVar[bool] = True

    vocab: Vocab
    width: int = 1024
    blank: str = "end"

    def signature(self) -> Signature:
        labels = self.vocab.with_blank(self.blank)
        return Signature(
            takes={"encoded": Acoustic()[B, F(self.width), T]},
            gives={"log_probs": LogProbs(labels)[B, T, V(labels)]},
        )


@dataclass(frozen=True)
class LinearHead(NeuralModule):
    trainable: ClassVar[bool] = True

    vocab: Vocab
    width: int = 1024

    def signature(self) -> Signature:
        labels = self.vocab.with_blank()
        return Signature(
            takes={"encoded": Acoustic()[B, F(self.width), T]},
            gives={"logits": Logits(labels)[B, T, V(labels)]},
        )


@dataclass(frozen=True)
class CTCLoss(NeuralModule):
    role: ClassVar[Role] = "loss"

    vocab: Vocab
    blank: str = "end"

    def signature(self) -> Signature:
        labels = self.vocab.with_blank(self.blank)
        return Signature(
            takes={
                "log_probs": LogProbs(labels)[B, T, V(labels)],
                "log_probs_len": Lengths(T)[B],
                "targets": Ids(self.vocab)[B, U],
                "targets_len": Lengths(U)[B],
            },
            gives={"loss": Loss()[()]},
        )


@dataclass(frozen=True)
class SumLoss(NeuralModule):
    role: ClassVar[Role] = "loss"

    def signature(self) -> Signature:
        return Signature(takes={"losses": Loss().many()[()]}, gives={"loss": Loss()[()]})


@dataclass(frozen=True)
class TextData(DataLayer):
    vocab: Vocab
    labels: Vocab
    label_pad: int = -100
    mask_true: str = "keep"

    def signature(self) -> Signature:
        return Signature(
            gives={
                "ids": Ids(self.vocab, pad=0, frame="bos..eos")[B, T],
                "ids_len": Lengths(T)[B],
                "mask": Mask(T, true=self.mask_true)[B, T],
                "labels": Ids(self.labels, pad=self.label_pad)[B, T],
            }
        )


@dataclass(frozen=True)
class BertEncoder(NeuralModule):
    trainable: ClassVar[bool] = True

    vocab: Vocab
    width: int = 768

    def signature(self) -> Signature:
        return Signature(
            takes={
                "ids": Ids(self.vocab, frame="bos..eos")[B, T],
                "mask": Mask(T, true="keep")[B, T],
                "segments": Ids().optional()[B, T],
            },
            gives={"hidden": Text("bert")[B, T, F(self.width)]},
        )


@dataclass(frozen=True)
class TokenClassifier(NeuralModule):
    trainable: ClassVar[bool] = True

    labels: Vocab
    width: int = 768

    def signature(self) -> Signature:
        return Signature(
            takes={"hidden": Text()[B, T, F(self.width)]},
            gives={"logits": Logits(self.labels)[B, T, V(self.labels)]},
        )


@dataclass(frozen=True)
class TaggingLoss(NeuralModule):
    role: ClassVar[Role] = "loss"

    labels: Vocab
    ignore: int = -100

    def signature(self) -> Signature:
        return Signature(
            takes={
                "logits": Logits(self.labels)[B, T, V(self.labels)],
                "labels": Ids(self.labels, pad=self.ignore)[B, T],
            },
            gives={"loss": Loss()[()]},
        )


@dataclass(frozen=True)
class TransformerDecoder(NeuralModule):
    trainable: ClassVar[bool] = True

    vocab: Vocab
    width: int = 512

    def signature(self) -> Signature:
        return Signature(
            takes={
                "ids": Ids(self.vocab)[B, U],
                "memory": Features()[B, T, F(self.width)],
                "memory_mask": Mask(T, true="keep")[B, T],
            },
            gives={"log_probs": LogProbs(self.vocab)[B, U, V(self.vocab)]},
        )


@dataclass(frozen=True)
class TextEncoder(NeuralModule):
    trainable: ClassVar[bool] = True

    vocab: Vocab
    width: int = 512

    def signature(self) -> Signature:
        return Signature(
            takes={"text": Ids(self.vocab)[B, U], "text_len": Lengths(U)[B]},
            gives={"encoded": Text()[B, U, F(self.width)], "encoded_len": Lengths(U)[B]},
        )


MEL_22K = Mel(rate=22050, hop=256, scale="ln", n_mels=80)


@dataclass(frozen=True)
class Tacotron2Decoder(NeuralModule):
    trainable: ClassVar[bool] = True

    mel: Mel = MEL_22K
    width: int = 512

    def signature(self) -> Signature:
        mel = self.mel[B, F(int(self.mel.n_mels or 80)), T]
        return Signature(
            takes={
                "encoded": Text()[B, U, F(self.width)],
                "encoded_len": Lengths(U)[B],
                "target": mel,
                "target_len": Lengths(T)[B],
            },
            gives={"mel": mel, "gate": Logits()[B, T], "alignment": Alignment()[B, T, U]},
        )


@dataclass(frozen=True)
class WaveGlow(NeuralModule):
    trainable: ClassVar[bool] = True

    mel: Mel = MEL_22K
    rate: int = 22050
    hop: int = 256

    def signature(self) -> Signature:
        return Signature(
            takes={"mel": self.mel[B, F(int(self.mel.n_mels or 80)), T]},
            gives={"audio": Audio(rate=self.rate, peak=1.0)[B, T * self.hop]},
        )


@dataclass(frozen=True)
class Measure(NeuralModule):
    """Gives full lengths for audio that has none."""

    def signature(self) -> Signature:
        return Signature(takes={"audio": Audio()[B, T]}, gives={"audio_len": Lengths(T)[B]})


@dataclass(frozen=True)
class Down(NeuralModule):
    by: int = 2

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F, T]}, gives={"x": Acoustic()[B, F, T.ceildiv(self.by)]})


@dataclass(frozen=True)
class Up(NeuralModule):
    by: int = 2

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F, T]}, gives={"x": Acoustic()[B, F, T * self.by]})


@dataclass(frozen=True)
class Add(NeuralModule):
    def signature(self) -> Signature:
        x = Acoustic()[B, F, T]
        return Signature(takes={"a": x, "b": x}, gives={"x": x})


@dataclass(frozen=True)
class OptionalText(DataLayer):
    """A data layer that may have no text."""

    vocab: Vocab

    def signature(self) -> Signature:
        return Signature(
            gives={
                "audio": Audio(rate=16000, peak=1.0)[B, T],
                "audio_len": Lengths(T)[B],
                "text": Ids(self.vocab).optional()[B, U],
                "text_len": Lengths(U).optional()[B],
            }
        )


@dataclass(frozen=True)
class Linear2d(NeuralModule):
    """A spectrogram of any kind."""

    def signature(self) -> Signature:
        return Signature(takes={"x": Spectrogram()[B, F, T]}, gives={"x": Spectrogram()[B, F, T]})
