"""Modules of a user's own, for recipes that need more than ships with neumo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from neumo.graph.module import DataLayer, NeuralModule
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, F, Ids, Lengths, Logits, Mask, Mel, T, Text, U, V, Vocab


@dataclass(frozen=True)
class OwnHead(NeuralModule):
    """Scores labels, without a softmax."""

    trainable: ClassVar[bool] = True

    vocab: Vocab
    width: int = 256

    def signature(self) -> Signature:
        labels = self.vocab.with_blank()
        return Signature(
            takes={"encoded": Acoustic()[B, F(self.width), T]},
            gives={"logits": Logits(labels)[B, T, V(labels)]},
        )


@dataclass(frozen=True)
class OwnTimeMajor(NeuralModule):
    """Wants time first."""

    def signature(self) -> Signature:
        return Signature(takes={"mel": Mel()[T, B, F]}, gives={"encoded": Acoustic()[T, B, F("E")]})


@dataclass(frozen=True)
class OwnTags(DataLayer):
    """Reads tagged sentences."""

    vocab: Vocab
    tags: Vocab
    pad: int = 0

    def signature(self) -> Signature:
        return Signature(
            gives={
                "ids": Ids(self.vocab)[B, T],
                "ids_len": Lengths(T)[B],
                "mask": Mask(T, true="pad")[B, T],
                "tags": Ids(self.tags, pad=self.pad)[B, T],
            }
        )


@dataclass(frozen=True)
class OwnBert(NeuralModule):
    """Attends to the words that the mask keeps."""

    vocab: Vocab
    width: int = 32

    def signature(self) -> Signature:
        return Signature(
            takes={"ids": Ids(self.vocab)[B, T], "mask": Mask(T, true="keep")[B, T]},
            gives={"hidden": Text("bert")[B, T, F(self.width)]},
        )


@dataclass(frozen=True)
class OwnTagLoss(NeuralModule):
    """Ignores padding of -100."""

    tags: Vocab

    def signature(self) -> Signature:
        return Signature(takes={"tags": Ids(self.tags, pad=-100)[B, T]}, gives={"hidden": Text()[B, T, F(1)]})


@dataclass(frozen=True)
class OwnVocoder(NeuralModule):
    """Was trained on mels of one kind."""

    mel: Mel = Mel(scale="log10")  # noqa: RUF009 - an element is frozen
    n_mels: int = 64

    def signature(self) -> Signature:
        return Signature(takes={"mel": self.mel[B, F(self.n_mels), T]}, gives={"frames": Lengths(U)[B]})
