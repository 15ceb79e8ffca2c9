"""Toy modules of speech, language and synthesis models that can be wired into graphs that break rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from neumo.graph.module import DataLayer, NeuralModule, Role
from neumo.graph.signature import Signature
from neumo.types import (
    Acoustic,
    Any_,
    Audio,
    B,
    Durations,
    F,
    Features,
    Flags,
    H,
    Ids,
    Item,
    Lengths,
    Logits,
    LogProbs,
    Loss,
    Mask,
    Mel,
    Probs,
    Scores,
    T,
    Text,
    U,
    V,
    Var,
    Vocab,
)

LABELS = Vocab("abc", name="abc")
OTHERS = Vocab("xyz", name="xyz")
WIDTH = 8


@dataclass(frozen=True)
class Speech(DataLayer):
    """Utterances with their texts, which are what is to be predicted."""

    targets: ClassVar[tuple[str, ...]] = ("text", "text_len")

    vocab: Vocab = LABELS
    batch_size: int = 16
    with_text: bool = True

    def signature(self) -> Signature:
        audio = {"audio": Audio(rate=16000)[B, T], "audio_len": Lengths(T)[B]}
        text = {"text": Ids(self.vocab)[B, U], "text_len": Lengths(U)[B]}
        return Signature(gives={**audio, **(text if self.with_text else {}), "item": Item()[B]})


@dataclass(frozen=True)
class Crops(DataLayer):
    """Two seconds of each utterance."""

    def signature(self) -> Signature:
        return Signature(gives={"audio": Audio(rate=16000)[B, T(32000)], "audio_len": Lengths(T(32000))[B]})


@dataclass(frozen=True)
class Sentences(DataLayer):
    """Tagged sentences; which of its ports are targets it does not say."""

    def signature(self) -> Signature:
        return Signature(
            gives={
                "ids": Ids(LABELS)[B, T],
                "mask": Mask(T, true="keep")[B, T],
                "tags": Ids(OTHERS)[B, T],
            }
        )


@dataclass(frozen=True)
class Pairs(DataLayer):
    """Sentences and their translations."""

    def signature(self) -> Signature:
        return Signature(
            gives={
                "source": Ids(LABELS)[B, T],
                "source_len": Lengths(T)[B],
                "target": Ids(OTHERS)[B, U],
                "target_len": Lengths(U)[B],
            }
        )


@dataclass(frozen=True)
class Voices(DataLayer):
    """Texts and how they were read, for synthesis."""

    targets: ClassVar[tuple[str, ...]] = ("mel", "mel_len")

    def signature(self) -> Signature:
        return Signature(
            gives={
                "text": Ids(LABELS)[B, U],
                "text_len": Lengths(U)[B],
                "mel": Mel(rate=22050, hop=256)[B, F(80), T],
                "mel_len": Lengths(T)[B],
            }
        )


@dataclass(frozen=True)
class Front(NeuralModule):
    """Frames of audio, normalised over time if it is told how long an utterance is."""

    mixes: ClassVar[tuple[str, ...]] = ("audio",)

    hop: int = 160

    def signature(self) -> Signature:
        frames = T // self.hop + 1
        return Signature(
            takes={"audio": Audio()[B, T], "audio_len": Lengths(T).optional()[B]},
            gives={"mel": Mel(rate=16000, hop=self.hop)[B, F(80), frames], "mel_len": Lengths(frames)[B]},
        )


@dataclass(frozen=True)
class Encoder(NeuralModule):
    """Convolutions over frames, masked where lengths are known; what it mixes follows from its ports."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        half = T.ceildiv(2)
        return Signature(
            takes={"mel": Mel()[B, F(80), T], "mel_len": Lengths(T).optional()[B]},
            gives={"encoded": Acoustic()[B, F(WIDTH), half], "encoded_len": Lengths(half)[B]},
        )


@dataclass(frozen=True)
class BareConv(NeuralModule):
    """A convolution that cannot be told about padding, and says that it mixes."""

    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ("x",)

    def signature(self) -> Signature:
        x = Features()[B, F(WIDTH), T]
        return Signature(takes={"x": x}, gives={"x": x})


@dataclass(frozen=True)
class Dense(NeuralModule):
    """Works position by position; it passes lengths on, and says that it mixes nothing."""

    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        x = Features()[B, F(WIDTH), T]
        return Signature(takes={"x": x, "x_len": Lengths(T).optional()[B]}, gives={"x": x})


@dataclass(frozen=True)
class Attention(NeuralModule):
    """Attends from queries to a memory, both of which may be masked."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        query, memory = Features()[B, F(WIDTH), U], Features()[B, F(WIDTH), T]
        return Signature(
            takes={
                "query": query,
                "memory": memory,
                "memory_mask": Mask(T, true="keep").optional()[B, T],
                "memory_len": Lengths(T).optional()[B],
            },
            gives={"x": query},
        )


@dataclass(frozen=True)
class MeanPool(NeuralModule):
    """The mean over time."""

    def signature(self) -> Signature:
        takes = {"x": Features()[B, F, T], "mask": Mask(T, true="keep").optional()[B, T]}
        return Signature(takes=takes, gives={"x": Features()[B, F]})


@dataclass(frozen=True)
class Translator(NeuralModule):
    """A transformer that takes a mask of its source twice, and for its target a causal mask as well."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        source, target = Features()[B, T, F(WIDTH)], Features()[B, U, F(WIDTH)]
        return Signature(
            takes={
                "source": source,
                "target": target,
                "source_pad": Mask(T, true="pad").optional()[B, T],
                "memory_pad": Mask(T, true="pad").optional()[B, T],
                "source_keep": Mask(T, true="keep").optional()[B, T],
                "teacher_pad": Mask(T, true="pad").optional().only("train")[B, T],
                "target_pad": Mask(U, true="pad").optional()[B, U],
                "causal": Mask(U, true="pad").optional()[U, U],
            },
            gives={"x": target},
        )


@dataclass(frozen=True)
class Causal(NeuralModule):
    """Attends to what is before each position; it cannot be told of padding, and need not be."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        x = Features()[B, U, F(WIDTH)]
        return Signature(takes={"x": x, "causal": Mask(U, true="pad")[U, U]}, gives={"x": x})


@dataclass(frozen=True)
class Sentence(NeuralModule):
    """One vector of all positions: it does not say how it is made."""

    picks: bool = False

    def __post_init__(self) -> None:
        if self.picks:
            object.__setattr__(self, "mixes", ())

    def signature(self) -> Signature:
        return Signature(takes={"x": Features()[B, T, F(WIDTH)]}, gives={"x": Features()[B, F(WIDTH)]})


@dataclass(frozen=True)
class Halve(NeuralModule):
    """Every second position, or two positions in one."""

    def signature(self) -> Signature:
        x, half = Features()[B, T, F(WIDTH)], Features()[B, T // 2, F(WIDTH)]
        return Signature(takes={"x": x}, gives={"x": half, "n": Lengths(T)[B]})


@dataclass(frozen=True)
class Spread(NeuralModule):
    """Features of symbols, each for as long as it lasts: padding lasts for nothing."""

    def signature(self) -> Signature:
        takes = {"x": Features()[B, T, F(WIDTH)], "lasts": Durations(unit="frames")[B, T]}
        return Signature(takes=takes, gives={"x": Features()[B, U, F(WIDTH)]})


@dataclass(frozen=True)
class Norm(NeuralModule):
    """A loss of all positions."""

    def signature(self) -> Signature:
        return Signature(takes={"x": Features()[B, T, F(WIDTH)]}, gives={"loss": Loss()[()]})


@dataclass(frozen=True)
class Image2D(NeuralModule):
    """Each position for each of some rows of a picture: the axis is there, times another."""

    def signature(self) -> Signature:
        takes = {"x": Features()[B, T, F(WIDTH)], "y": Features()[B, H]}
        return Signature(takes=takes, gives={"x": Features()[B, T * H.size]})


@dataclass(frozen=True)
class ListPool(NeuralModule):
    """The mean over time of each sequence in a list."""

    def signature(self) -> Signature:
        takes = {"x": Features()[B.list(), T], "x_len": Lengths(T).optional()[B]}
        return Signature(takes=takes, gives={"x": Features()[B]})


@dataclass(frozen=True)
class Embed(NeuralModule):
    """A vector for each id of any vocabulary."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(takes={"ids": Ids()[B, T]}, gives={"x": Text()[B, F(WIDTH), T]})


@dataclass(frozen=True)
class Head(NeuralModule):
    """A score for each label at each position."""

    trainable: ClassVar[bool] = True

    vocab: Vocab = LABELS

    def signature(self) -> Signature:
        scores = Logits(self.vocab)[B, T, V(self.vocab)]
        return Signature(takes={"x": Features()[B, F(WIDTH), T]}, gives={"logits": scores})


@dataclass(frozen=True)
class ProbHead(NeuralModule):
    """Log-probabilities at each position."""

    trainable: ClassVar[bool] = True

    vocab: Vocab = LABELS

    def signature(self) -> Signature:
        scores = LogProbs(self.vocab)[B, T, V(self.vocab)]
        return Signature(takes={"x": Features()[B, F(WIDTH), T]}, gives={"log_probs": scores})


@dataclass(frozen=True)
class Normalise(NeuralModule):
    """A softmax of whatever scores come in."""

    def signature(self) -> Signature:
        takes = {"scores": Scores(Var("vocab"))[B, T, V]}
        return Signature(takes=takes, gives={"probs": Probs(Var("vocab"))[B, T, V]})


@dataclass(frozen=True)
class Sharpen(NeuralModule):
    """Scores times a number, which it calls logits."""

    def signature(self) -> Signature:
        takes = {"scores": Scores(Var("vocab"))[B, T, V]}
        return Signature(takes=takes, gives={"logits": Logits(Var("vocab"))[B, T, V]})


@dataclass(frozen=True)
class Smooth(NeuralModule):
    """Anything at all, slightly blurred."""

    def signature(self) -> Signature:
        return Signature(takes={"x": Any_()[B, T, V]}, gives={"x": Any_()[B, T, V]})


@dataclass(frozen=True)
class Rescore(NeuralModule):
    """Another network over scores, with weights: its softmax is its own."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        takes = {"scores": Scores(Var("vocab"))[B, T, V]}
        return Signature(takes=takes, gives={"log_probs": LogProbs(Var("vocab"))[B, T, V]})


@dataclass(frozen=True)
class Group(NeuralModule):
    """Probabilities of groups of labels."""

    def signature(self) -> Signature:
        return Signature(takes={"scores": Scores()[B, T, V]}, gives={"probs": Probs()[B, T, V("G")]})


@dataclass(frozen=True)
class ToOthers(NeuralModule):
    """Scores over one vocabulary to probabilities over another one."""

    def signature(self) -> Signature:
        takes = {"scores": Scores(LABELS)[B, T, V(LABELS)]}
        return Signature(takes=takes, gives={"probs": Probs(OTHERS)[B, T, V(OTHERS)]})


@dataclass(frozen=True)
class Best(NeuralModule):
    """The best label at each position."""

    role: ClassVar[Role] = "decoder"

    def signature(self) -> Signature:
        vocab = Var("vocab")
        return Signature(takes={"scores": Scores(vocab)[B, T, V]}, gives={"ids": Ids(vocab)[B, T]})


@dataclass(frozen=True)
class Speller(NeuralModule):
    """A decoder that is fed the text while it is trained."""

    trainable: ClassVar[bool] = True

    vocab: Vocab = LABELS

    def signature(self) -> Signature:
        return Signature(
            takes={
                "encoded": Features()[B, F(WIDTH), T],
                "encoded_len": Lengths(T)[B],
                "said": Ids(self.vocab).optional()[B, U],
            },
            gives={"logits": Logits(self.vocab)[B, U, V(self.vocab)]},
        )


@dataclass(frozen=True)
class CrossEntropy(NeuralModule):
    """Logits against ids; positions beyond the lengths do not count."""

    role: ClassVar[Role] = "loss"

    def signature(self) -> Signature:
        vocab = Var("vocab")
        return Signature(
            takes={
                "logits": Logits(vocab)[B, T, V],
                "targets": Ids(vocab)[B, T],
                "targets_len": Lengths(T).optional()[B],
            },
            gives={"loss": Loss()[()], "wrong": Flags()[B]},
        )


@dataclass(frozen=True)
class Alignments(NeuralModule):
    """A loss over all alignments, as CTC."""

    role: ClassVar[Role] = "loss"

    vocab: Vocab = LABELS

    def signature(self) -> Signature:
        return Signature(
            takes={
                "log_probs": LogProbs(self.vocab)[B, T, V(self.vocab)],
                "log_probs_len": Lengths(T)[B],
                "targets": Ids(self.vocab)[B, U],
                "targets_len": Lengths(U)[B],
            },
            gives={"loss": Loss()[()]},
        )
