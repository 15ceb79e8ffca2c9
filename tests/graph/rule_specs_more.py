"""More toy modules for graphs that break rules: losses, metrics, synthesis, images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from neumo.graph.module import Metric, NeuralModule, Role
from neumo.graph.signature import Signature
from neumo.types import (
    Alignment,
    Audio,
    B,
    C,
    Durations,
    F,
    Features,
    H,
    Ids,
    Image,
    Lengths,
    Logits,
    LogProbs,
    Loss,
    Mel,
    Pitch,
    Score,
    Scores,
    T,
    Text,
    U,
    V,
    Var,
    W,
)

from .rule_specs import LABELS, WIDTH


@dataclass(frozen=True)
class FrameLoss(NeuralModule):
    """The distance of frames from frames."""

    role: ClassVar[Role] = "loss"

    def signature(self) -> Signature:
        frames = Mel(rate=22050, hop=256)[B, F(80), T]
        takes = {"given": frames, "wanted": frames, "frames_len": Lengths(T)[B]}
        return Signature(takes=takes, gives={"loss": Loss()[()]})


@dataclass(frozen=True)
class EditLoss(NeuralModule):
    """How many ids are wrong: no gradient comes out of this."""

    role: ClassVar[Role] = "loss"

    def signature(self) -> Signature:
        takes = {"hypothesis": Ids(LABELS)[B, T], "reference": Ids(LABELS)[B, U]}
        return Signature(takes=takes, gives={"loss": Loss()[()]})


@dataclass(frozen=True)
class SumLoss(NeuralModule):
    """Several losses, added."""

    role: ClassVar[Role] = "loss"

    def signature(self) -> Signature:
        return Signature(takes={"losses": Loss().many()[()]}, gives={"loss": Loss()[()]})


@dataclass(frozen=True)
class Distance(Metric):
    """How far ids are from ids."""

    def signature(self) -> Signature:
        return Signature(
            takes={
                "hypothesis": Ids(LABELS)[B, T],
                "hypothesis_len": Lengths(T).optional()[B],
                "reference": Ids(LABELS)[B, U],
                "reference_len": Lengths(U).optional()[B],
            },
            gives={"score": Score()[()]},
        )


@dataclass(frozen=True)
class Search(NeuralModule):
    """Finds a text of some length."""

    role: ClassVar[Role] = "decoder"

    def signature(self) -> Signature:
        return Signature(
            takes={"scores": Scores(LABELS)[B, T, V(LABELS)], "scores_len": Lengths(T)[B]},
            gives={"ids": Ids(LABELS)[B, U], "ids_len": Lengths(U)[B]},
        )


@dataclass(frozen=True)
class Reader(NeuralModule):
    """Encodes texts."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"text": Ids(LABELS)[B, U], "text_len": Lengths(U)[B]},
            gives={"encoded": Text()[B, F(WIDTH), U], "encoded_len": Lengths(U)[B]},
        )


@dataclass(frozen=True)
class Speaker(NeuralModule):
    """Reads encoded text aloud: fed the frames while it is trained; says when to stop."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        frames = Mel(rate=22050, hop=256)[B, F(80), T]
        return Signature(
            takes={
                "encoded": Text()[B, F(WIDTH), U],
                "encoded_len": Lengths(U)[B],
                "heard": frames.as_optional(),
            },
            gives={"mel": frames, "stop": Logits()[B, T], "mel_len": Lengths(T)[B]},
        )


@dataclass(frozen=True)
class Speed(NeuralModule):
    """Audio of another length, with its lengths."""

    def signature(self) -> Signature:
        audio = Audio(rate=Var("rate"))
        changed = T("T'")
        return Signature(
            takes={"audio": audio[B, T], "audio_len": Lengths(T)[B]},
            gives={"audio": audio[B, changed], "audio_len": Lengths(changed)[B]},
        )


@dataclass(frozen=True)
class Measure(NeuralModule):
    """Full lengths for a value that has none."""

    def signature(self) -> Signature:
        return Signature(takes={"mel": Mel()[B, F(80), T]}, gives={"mel_len": Lengths(T)[B]})


@dataclass(frozen=True)
class Spaced(NeuralModule):
    """Features of a named space."""

    space: str

    def signature(self) -> Signature:
        return Signature(takes={"ids": Ids()[B, T]}, gives={"x": Features(self.space)[B, F(WIDTH), T]})


@dataclass(frozen=True)
class Aligner(NeuralModule):
    """Where in the frames the labels of a given text are."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={
                "scores": LogProbs(LABELS)[B, T, V(LABELS)],
                "scores_len": Lengths(T)[B],
                "text": Ids(LABELS)[B, U],
                "text_len": Lengths(U)[B],
            },
            gives={"path": Alignment()[B, T, U], "found": Score()[B]},
        )


@dataclass(frozen=True)
class Prosody(NeuralModule):
    """How long and how high each symbol is to be read."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"encoded": Text()[B, F(WIDTH), U]},
            gives={
                "encoded": Text()[B, F(WIDTH), U],
                "pitch": Pitch(unit="hz")[B, U],
                "frames": Durations(unit="frames", scale="linear")[B, U],
            },
        )


@dataclass(frozen=True)
class Vision(NeuralModule):
    """Features of an image."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(takes={"image": Image()[B, C(3), H, W]}, gives={"x": Features()[B, F(WIDTH)]})


@dataclass(frozen=True)
class Vocoder(NeuralModule):
    """Audio from frames."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(takes={"mel": Mel()[B, F(80), T]}, gives={"audio": Audio()[B, T * 256]})
