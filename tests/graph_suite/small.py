"""Small specifications, each for one or two graphs of the suite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from neumo import (
    ONE,
    Acoustic,
    Alignment,
    Audio,
    B,
    Durations,
    F,
    Ids,
    Lengths,
    Logits,
    LogProbs,
    Mask,
    Mel,
    NeuralModule,
    Scores,
    Signature,
    Speaker,
    State,
    T,
    Text,
    U,
    V,
    Var,
    Vocab,
)

from .language import PIECES


@dataclass(frozen=True)
class PhoneLine(NeuralModule):
    """What is left of one channel after a telephone."""

    def signature(self) -> Signature:
        audio = Audio(rate=16000, channels=1)
        return Signature(
            takes={"audio": audio[B, T], "audio_len": Lengths(T)[B]}, gives={"audio": audio[B, T]}
        )


@dataclass(frozen=True)
class MeanOfFrames(NeuralModule):
    """The mean of frames, padded ones among them: it has no port for lengths."""

    mixes: ClassVar[tuple[str, ...]] = ("encoded",)

    def signature(self) -> Signature:
        return Signature(takes={"encoded": Acoustic()[B, F, T]}, gives={"voice": Speaker("mean")[B, F]})


@dataclass(frozen=True)
class Rescorer(NeuralModule):
    """Adds a bias to scores of any kind and says that logits come out."""

    labels: Vocab
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        axes = (B, T, V(self.labels))
        return Signature(
            takes={"scores": Scores(self.labels)[axes]}, gives={"logits": Logits(self.labels)[axes]}
        )


@dataclass(frozen=True)
class SpellOut(NeuralModule):
    """Spells with what was said so far, where that is known."""

    vocab: Vocab
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        spelt = U("spelt")
        return Signature(
            takes={
                "encoded": Acoustic()[B, F, T],
                "encoded_len": Lengths(T)[B],
                "said": Ids(self.vocab).optional()[B, U],
            },
            gives={"logits": Logits(self.vocab)[B, spelt, V(self.vocab)]},
        )


@dataclass(frozen=True)
class AnyEmbedding(NeuralModule):
    """A vector for each id of the vocabulary that it is first used with."""

    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(takes={"ids": Ids(Var("vocab"))[B, T]}, gives={"embedded": Text()[B, T, F(512)]})


@dataclass(frozen=True)
class JoinedTexts(NeuralModule):
    """Cuts what was joined: a sum alone does not say how long the parts are."""

    def signature(self) -> Signature:
        return Signature(takes={"both": Text()[B, T + U, F(512)]}, gives={"first": Text()[B, T, F(512)]})


@dataclass(frozen=True)
class CountIds(NeuralModule):
    """Counts ids of a vocabulary, or of one that begins like it."""

    vocab: Any
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(takes={"ids": Ids(self.vocab)[B, T]}, gives={"lengths": Lengths(T)[B]})


@dataclass(frozen=True)
class ValidConv(NeuralModule):
    """A convolution of kernel 3 and stride 2 without padding."""

    width: int = 80
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"x": Acoustic()[B, F(self.width), T], "n": Lengths(T)[B]},
            gives={"x": Acoustic()[B, F(64), (T - 3) // 2 + 1]},
        )


@dataclass(frozen=True)
class CachedStep(NeuralModule):
    """Says one piece and remembers one position more."""

    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        cache = State("lm")
        return Signature(
            takes={"id": Ids(PIECES)[B, ONE], "cache": cache[B, T, F(64)]},
            gives={"logits": Logits(PIECES)[B, V(PIECES)], "cache": cache[B, T + 1, F(64)]},
        )


@dataclass(frozen=True)
class AnyFrontEnd(NeuralModule):
    """Mel frames of audio of any rate: 160 samples each."""

    def signature(self) -> Signature:
        frames = T // 160 + 1
        return Signature(
            takes={"audio": Audio(rate=Var("rate"))[B, T], "audio_len": Lengths(T)[B]},
            gives={
                "mel": Mel(rate=Var("rate"), hop=160, n_mels=64)[B, F(64), frames],
                "mel_len": Lengths(frames)[B],
            },
        )


@dataclass(frozen=True)
class ForcedAligner(NeuralModule):
    """The best path of a text through the scores of its recording."""

    vocab: Vocab

    def signature(self) -> Signature:
        labels = self.vocab.with_blank()
        return Signature(
            takes={
                "log_probs": LogProbs(labels)[B, T, V(labels)],
                "log_probs_len": Lengths(T)[B],
                "text": Ids(self.vocab)[B, U],
                "text_len": Lengths(U)[B],
            },
            gives={
                "path": Alignment("hard")[B, T, U],
                "durations": Durations(T, unit="frames", scale="linear")[B, U],
            },
        )


@dataclass(frozen=True)
class OptionalMask(NeuralModule):
    """An encoder that may be told what is padding."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={
                "ids": Ids(PIECES)[B, T],
                "mask": Mask(T, true="keep").optional()[B, T],
            },
            gives={"hidden": Text("bert")[B, T, F(768)]},
        )


@dataclass(frozen=True)
class VoiceBox(NeuralModule):
    """Takes samples as a vocoder makes them."""

    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        audio = Audio(rate=22050, peak=1.0)[B, T]
        return Signature(takes={"audio": audio}, gives={"audio": audio})
