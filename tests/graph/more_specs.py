"""Further small modules of speech and language models: decoders, convolutions, joins, noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from neumo.graph.module import DataLayer, NeuralModule, Role
from neumo.graph.signature import Signature
from neumo.types import (
    Acoustic,
    Audio,
    B,
    C,
    F,
    Features,
    Ids,
    Lengths,
    Logits,
    LogProbs,
    Loss,
    Mask,
    Score,
    T,
    Text,
    U,
    V,
    Var,
    Vocab,
)

from .specs import (
    EN,
)

PIECES = Vocab(["<pad>", "<s>", "</s>", "the", "cat"], name="pieces", pad=0, bos=1, eos=2, unit="word")
SWAPPED = Vocab(["<pad>", "</s>", "<s>", "the", "cat"], name="swapped", pad=0, bos=2, eos=1, unit="word")
UPPER = Vocab(" ABCDEFGHIJKLMNOPQRSTUVWXYZ'", name="upper")


@dataclass(frozen=True)
class Embedding(NeuralModule):
    vocab: Vocab
    width: int = 256

    def signature(self) -> Signature:
        return Signature(takes={"ids": Ids(self.vocab)[B, T]}, gives={"x": Text()[B, T, F(self.width)]})


@dataclass(frozen=True)
class Fixed(NeuralModule):
    width: int

    def signature(self) -> Signature:
        x = Acoustic()[B, F(self.width), T]
        return Signature(takes={"x": x, "n": Lengths(T).optional()[B]}, gives={"x": x})


@dataclass(frozen=True)
class Concat(NeuralModule):
    """Joins features."""

    def signature(self) -> Signature:
        takes = {"a": Acoustic()[B, F("D1"), T], "b": Acoustic()[B, F("D2"), T]}
        return Signature(takes=takes, gives={"x": Acoustic()[B, F("D1") + F("D2"), T]})


@dataclass(frozen=True)
class ConcatTime(NeuralModule):
    def signature(self) -> Signature:
        both = T("T1") + T("T2")
        takes = {"a": Acoustic()[B, F, T("T1")], "b": Acoustic()[B, F, T("T2")]}
        return Signature(takes=takes, gives={"x": Acoustic()[B, F, both], "n": Lengths(both)[B]})


@dataclass(frozen=True)
class Conv(NeuralModule):
    """Without padding."""

    stride: int = 1
    kernel: int = 3

    def signature(self) -> Signature:
        frames = (T - self.kernel) // self.stride + 1
        return Signature(takes={"x": Acoustic()[B, F, T]}, gives={"x": Acoustic()[B, F, frames]})


@dataclass(frozen=True)
class ConvTranspose(NeuralModule):
    stride: int = 2
    kernel: int = 2

    def signature(self) -> Signature:
        frames = (T - 1) * self.stride + self.kernel
        return Signature(takes={"x": Acoustic()[B, F, T]}, gives={"x": Acoustic()[B, F, frames]})


@dataclass(frozen=True)
class PadTo(NeuralModule):
    multiple: int = 16

    def signature(self) -> Signature:
        frames = T.ceildiv(self.multiple) * self.multiple
        return Signature(takes={"x": Acoustic()[B, F, T]}, gives={"x": Acoustic()[B, F, frames]})


@dataclass(frozen=True)
class CrossAttention(NeuralModule):
    width: int = 512

    def signature(self) -> Signature:
        query, memory = Features()[B, U, F(self.width)], Features()[B, T, F(self.width)]
        return Signature(
            takes={"query": query, "memory": memory, "memory_mask": Mask(T, true="keep")[B, T]},
            gives={"x": query},
        )


@dataclass(frozen=True)
class Shift(NeuralModule):
    """Teacher forcing: what the decoder sees, and what it has to say."""

    vocab: Vocab

    def signature(self) -> Signature:
        seen = Ids(self.vocab, frame="bos..", shifted=False)[B, U - 1]
        said = Ids(self.vocab, frame="..eos", shifted=True)[B, U - 1]
        return Signature(
            takes={"ids": Ids(self.vocab, frame="bos..eos")[B, U]}, gives={"seen": seen, "said": said}
        )


@dataclass(frozen=True)
class Decoder(NeuralModule):
    vocab: Vocab

    def signature(self) -> Signature:
        return Signature(
            takes={
                "ids": Ids(self.vocab, frame="bos..", shifted=False)[B, U],
                "memory": Features()[B, T, F(512)],
            },
            gives={"logits": Logits(self.vocab)[B, U, V(self.vocab)]},
        )


@dataclass(frozen=True)
class CrossEntropy(NeuralModule):
    role: ClassVar[Role] = "loss"

    vocab: Vocab

    def signature(self) -> Signature:
        return Signature(
            takes={
                "logits": Logits(self.vocab)[B, U, V(self.vocab)],
                "targets": Ids(self.vocab, shifted=True)[B, U],
            },
            gives={"loss": Loss()[()]},
        )


@dataclass(frozen=True)
class BeamSearch(NeuralModule):
    """Finds as many labels as it finds: a number that nobody knows before."""

    vocab: Vocab

    def signature(self) -> Signature:
        labels = self.vocab.with_blank()
        return Signature(
            takes={"log_probs": LogProbs(labels)[B, T, V(labels)], "log_probs_len": Lengths(T)[B]},
            gives={"ids": Ids(self.vocab)[B, U], "ids_len": Lengths(U)[B]},
        )


@dataclass(frozen=True)
class Rescore(NeuralModule):
    vocab: Vocab

    def signature(self) -> Signature:
        return Signature(
            takes={"ids": Ids(self.vocab)[B, U], "ids_len": Lengths(U)[B]}, gives={"score": Score()[B]}
        )


@dataclass(frozen=True)
class StereoData(DataLayer):
    def signature(self) -> Signature:
        audio = Audio(rate=16000, peak=1.0, channels=2)[B, C(2), T]
        return Signature(gives={"audio": audio, "audio_len": Lengths(T)[B]})


@dataclass(frozen=True)
class AddNoise(NeuralModule):
    def signature(self) -> Signature:
        audio = Audio(rate=Var("rate"), peak=Var("peak"))
        return Signature(
            takes={"audio": audio[B, T], "noise": audio[B, T("N")]}, gives={"audio": audio[B, T]}
        )


@dataclass(frozen=True)
class Sum(NeuralModule):
    def signature(self) -> Signature:
        return Signature(takes={"xs": Acoustic().many()[B, F, T]}, gives={"x": Acoustic()[B, F, T]})


@dataclass(frozen=True)
class LengthRegulator(NeuralModule):
    def signature(self) -> Signature:
        return Signature(
            takes={"x": Text()[B, U, F("D")]},
            gives={"x": Acoustic()[B, F("D"), T], "x_len": Lengths(T)[B]},
        )


@dataclass(frozen=True)
class Pool(NeuralModule):
    def signature(self) -> Signature:
        return Signature(takes={"hidden": Text()[B, T, F]}, gives={"pooled": Text()[B, F]})


@dataclass(frozen=True)
class TTSData(DataLayer):
    def signature(self) -> Signature:
        return Signature(
            gives={
                "text": Ids(EN)[B, U],
                "text_len": Lengths(U)[B],
                "audio": Audio(rate=22050, peak=1.0)[B, T],
                "audio_len": Lengths(T)[B],
            }
        )
