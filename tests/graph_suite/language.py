"""Language modules as specifications: encoders, heads, language models, translation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from neumo import (
    B,
    DataLayer,
    DialogueState,
    F,
    Hypotheses,
    Ids,
    Lengths,
    Logits,
    LogProbs,
    Loss,
    Mask,
    NeuralModule,
    Positions,
    Score,
    Signature,
    Strings,
    Struct,
    T,
    Text,
    U,
    V,
    Vocab,
)

SPECIALS = ["<pad>", "<s>", "</s>", "<unk>"]
PIECES = Vocab([*SPECIALS, "the", "cat", "sat", "on", "a", "mat"], "pieces", 0, None, 1, 2, 3, unit="word")
CASED = Vocab([*SPECIALS, "The", "cat", "sat", "on", "A", "mat"], "cased", 0, None, 1, 2, 3, unit="word")
LARGER = Vocab([*PIECES, "dog", "ran"], "pieces-2", 0, None, 1, 2, 3, unit="word")
DEUTSCH = Vocab([*SPECIALS, "die", "Katze", "sass"], "deutsch", 0, None, 1, 2, 3, unit="word")
TAGS = Vocab(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"], "tags", unit="word")
TAGS_SORTED = Vocab(sorted(TAGS), "tags-sorted", unit="word")
TOPICS = Vocab(["sports", "politics", "weather"], "topics", unit="word")
INTENTS = Vocab(["play", "stop", "call"], "intents", unit="word")
SLOTS = Vocab(["O", "B-song", "I-song", "B-name"], "slots", unit="word")
HOTEL = Vocab(["hotel-area", "hotel-price", "taxi-leave"], "hotel", unit="word")


@dataclass(frozen=True)
class TaggedTexts(DataLayer):
    """Tokens and a label for each; `pad` stands behind the labels of a row."""

    vocab: Vocab
    tags: Vocab
    pad: int = -100

    def signature(self) -> Signature:
        return Signature(
            gives={
                "ids": Ids(self.vocab, pad=0, frame="bos..eos")[B, T],
                "mask": Mask(T, true="keep")[B, T],
                "ids_len": Lengths(T)[B],
                "tags": Ids(self.tags, pad=self.pad)[B, T],
            }
        )


@dataclass(frozen=True)
class TopicTexts(DataLayer):
    """Texts with one topic each."""

    vocab: Vocab
    topics: Vocab

    def signature(self) -> Signature:
        return Signature(
            gives={
                "ids": Ids(self.vocab, pad=0, frame="bos..eos")[B, T],
                "mask": Mask(T, true="keep")[B, T],
                "topic": Ids(self.topics)[B],
            }
        )


@dataclass(frozen=True)
class CommandTexts(DataLayer):
    """Commands with an intent each and a slot for each token."""

    def signature(self) -> Signature:
        return Signature(
            gives={
                "ids": Ids(PIECES, pad=0, frame="bos..eos")[B, T],
                "mask": Mask(T, true="keep")[B, T],
                "intent": Ids(INTENTS)[B],
                "slots": Ids(SLOTS, pad=-100)[B, T],
            }
        )


@dataclass(frozen=True)
class QuestionTexts(DataLayer):
    """Question and passage in one row, with where the answer starts and ends in it."""

    def signature(self) -> Signature:
        return Signature(
            gives={
                "ids": Ids(PIECES, pad=0, frame="bos..eos")[B, T],
                "mask": Mask(T, true="keep")[B, T],
                "segments": Ids()[B, T],
                "start": Positions(T)[B],
                "end": Positions(T)[B],
                "characters": Ids()[B, U],
                "start_character": Positions(U)[B],
            }
        )


@dataclass(frozen=True)
class PlainTexts(DataLayer):
    """Running text for a language model: `labels` is the same row one position on."""

    vocab: Vocab

    def signature(self) -> Signature:
        return Signature(
            gives={
                "ids": Ids(self.vocab, pad=0, frame="bos..", shifted=False)[B, T],
                "labels": Ids(self.vocab, pad=-100, frame="..eos", shifted=True)[B, T],
                "mask": Mask(T, true="keep")[B, T],
                "ids_len": Lengths(T)[B],
            }
        )


@dataclass(frozen=True)
class ParallelTexts(DataLayer):
    """Sentences and their translations."""

    source: Vocab
    target: Vocab

    def signature(self) -> Signature:
        return Signature(
            gives={
                "source": Ids(self.source, pad=0, frame="..eos")[B, T],
                "source_mask": Mask(T, true="keep")[B, T],
                "target": Ids(self.target, pad=0, frame="bos..", shifted=False)[B, U],
                "target_mask": Mask(U, true="keep")[B, U],
                "labels": Ids(self.target, pad=0, frame="..eos", shifted=True)[B, U],
                "labels_len": Lengths(U)[B],
            }
        )


@dataclass(frozen=True)
class RawTexts(DataLayer):
    """Texts as they were written."""

    form: str = "written"

    def signature(self) -> Signature:
        return Signature(gives={"texts": Strings(language="en", form=self.form)[B.list()]})


@dataclass(frozen=True)
class WordPieces(NeuralModule):
    """Cuts texts into pieces."""

    vocab: Vocab

    def signature(self) -> Signature:
        return Signature(
            takes={"texts": Strings(form="written")[B.list()]},
            gives={
                "ids": Ids(self.vocab, pad=0, frame="bos..eos")[B, T],
                "mask": Mask(T, true="keep")[B, T],
            },
        )


@dataclass(frozen=True)
class BertLike(NeuralModule):
    """A bidirectional encoder of pieces."""

    vocab: Vocab
    width: int = 768
    space: str = "bert"
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={
                "ids": Ids(self.vocab, frame="bos..eos")[B, T],
                "mask": Mask(T, true="keep")[B, T],
                "segments": Ids().optional()[B, T],
            },
            gives={"hidden": Text(self.space)[B, T, F(self.width)]},
        )


@dataclass(frozen=True)
class TagHead(NeuralModule):
    """Scores a label for each token."""

    labels: Vocab
    width: int = 768
    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(
            takes={"hidden": Text()[B, T, F(self.width)]},
            gives={"logits": Logits(self.labels)[B, T, V(self.labels)]},
        )


@dataclass(frozen=True)
class TopicHead(NeuralModule):
    """Scores a label for each text, from the state of its first token."""

    labels: Vocab
    width: int = 768
    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(
            takes={"hidden": Text("bert")[B, T, F(self.width)]},
            gives={"logits": Logits(self.labels)[B, V(self.labels)]},
        )


@dataclass(frozen=True)
class IntentSlotHead(NeuralModule):
    """Scores intent and slots together."""

    width: int = 768
    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(
            takes={"hidden": Text()[B, T, F(self.width)]},
            gives={
                "intent": Logits(INTENTS)[B, V(INTENTS)],
                "slots": Logits(SLOTS)[B, T, V(SLOTS)],
            },
        )


@dataclass(frozen=True)
class SpanHead(NeuralModule):
    """Scores each token as the start and as the end of an answer."""

    width: int = 768
    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        scores = Logits(over="T")[B, T]
        return Signature(
            takes={"hidden": Text()[B, T, F(self.width)]}, gives={"start": scores, "end": scores}
        )


@dataclass(frozen=True)
class SpanLoss(NeuralModule):
    """Cross-entropy over positions."""

    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        return Signature(
            takes={
                "start_logits": Logits(over="T")[B, T],
                "end_logits": Logits(over="T")[B, T],
                "start": Positions(T)[B],
                "end": Positions(T)[B],
                "mask": Mask(T, true="keep")[B, T],
            },
            gives={"loss": Loss(reduction="mean")[()]},
        )


@dataclass(frozen=True)
class SequenceLoss(NeuralModule):
    """Cross-entropy of a label for each position; leaves out what is labelled `ignore`."""

    labels: Vocab
    ignore: int = -100
    shifted: bool | None = None
    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        targets = Ids(self.labels, pad=self.ignore, shifted=self.shifted)
        return Signature(
            takes={"logits": Logits(self.labels)[B, T, V(self.labels)], "targets": targets[B, T]},
            gives={"loss": Loss(reduction="mean")[()]},
        )


@dataclass(frozen=True)
class SmoothedLoss(NeuralModule):
    """Label-smoothed cross-entropy of what comes next, over log-probabilities."""

    vocab: Vocab
    smoothing: float = 0.1
    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        return Signature(
            takes={
                "log_probs": LogProbs(self.vocab)[B, U, V(self.vocab)],
                "targets": Ids(self.vocab, pad=self.vocab.pad, frame="..eos", shifted=True)[B, U],
                "targets_mask": Mask(U, true="keep")[B, U],
            },
            gives={"loss": Loss(reduction="mean")[()]},
        )


@dataclass(frozen=True)
class CausalLM(NeuralModule):
    """Says what comes next; looks only back, so that it need not know about padding."""

    vocab: Vocab
    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(
            takes={"ids": Ids(self.vocab, frame="bos..", shifted=False)[B, T]},
            gives={"logits": Logits(self.vocab)[B, T, V(self.vocab)]},
        )


@dataclass(frozen=True)
class PieceEmbedding(NeuralModule):
    """A vector for each piece."""

    vocab: Vocab
    width: int = 512
    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(
            takes={"ids": Ids(self.vocab)[B, T]}, gives={"embedded": Text()[B, T, F(self.width)]}
        )


@dataclass(frozen=True)
class OutputLayer(NeuralModule):
    """Scores of pieces, with the weight of the embedding turned around: one width for both."""

    vocab: Vocab
    width: int = 512
    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        return Signature(
            takes={"hidden": Text()[B, T, F(self.width)]},
            gives={"log_probs": LogProbs(self.vocab)[B, T, V(self.vocab)]},
        )


@dataclass(frozen=True)
class SourceEncoder(NeuralModule):
    """Encodes the sentence to be translated."""

    vocab: Vocab
    width: int = 512
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={"ids": Ids(self.vocab, frame="..eos")[B, T], "mask": Mask(T, true="keep")[B, T]},
            gives={"memory": Text("source")[B, T, F(self.width)]},
        )


@dataclass(frozen=True)
class TargetDecoder(NeuralModule):
    """Decodes with attention to a memory of another length."""

    width: int = 512
    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ("memory",)

    def signature(self) -> Signature:
        return Signature(
            takes={
                "embedded": Text()[B, U, F(self.width)],
                "memory": Text("source")[B, T, F(self.width)],
                "memory_mask": Mask(T, true="keep")[B, T],
            },
            gives={"hidden": Text("target")[B, U, F(self.width)]},
        )


@dataclass(frozen=True)
class TorchAttention(NeuralModule):
    """Attention with the mask of torch: True is padding."""

    width: int = 768
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(
            takes={
                "query": Text()[B, U, F(self.width)],
                "key": Text()[B, T, F(self.width)],
                "key_padding_mask": Mask(T, true="pad")[B, T],
            },
            gives={"attended": Text()[B, U, F(self.width)]},
        )


@dataclass(frozen=True)
class BeamOfTranslations(NeuralModule):
    """Searches translations of a memory; how long they are is found out by searching."""

    vocab: Vocab
    width: int = 512
    role: ClassVar[Any] = "decoder"

    def signature(self) -> Signature:
        found = U("found")
        return Signature(
            takes={
                "memory": Text("source")[B, T, F(self.width)],
                "memory_mask": Mask(T, true="keep")[B, T],
            },
            gives={
                "ids": Hypotheses(self.vocab, frame="..eos")[B, found],
                "ids_len": Lengths(found)[B],
                "score": Score()[B],
            },
        )


@dataclass(frozen=True)
class Overlap(NeuralModule):
    """Measures hypotheses (found by a decoder) beside references."""

    vocab: Vocab
    role: ClassVar[Any] = "metric"

    def signature(self) -> Signature:
        return Signature(
            takes={
                "hypotheses": Hypotheses(self.vocab)[B, U("H")],
                "hypotheses_len": Lengths(U("H"))[B],
                "references": Ids(self.vocab)[B, U],
                "references_len": Lengths(U)[B],
            },
            gives={"score": Score()[()]},
        )


@dataclass(frozen=True)
class SlotTracker(NeuralModule):
    """Follows the state of a dialogue from turn to turn."""

    slots: Vocab
    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...]] = ()

    def signature(self) -> Signature:
        state = DialogueState(self.slots)[B, V(self.slots)]
        return Signature(takes={"hidden": Text()[B, T, F(768)], "before": state}, gives={"state": state})


@dataclass(frozen=True)
class Answer(NeuralModule):
    """Reads the best answer off the scores of a span."""

    role: ClassVar[Any] = "decoder"

    def signature(self) -> Signature:
        return Signature(
            takes={"start_logits": Logits(over="T")[B, T], "end_logits": Logits(over="T")[B, T]},
            gives={"answer": Struct(start=Positions(T)[B], end=Positions(T)[B])[()]},
        )


@dataclass(frozen=True)
class Cut(NeuralModule):
    """Cuts an answer out of a row."""

    def signature(self) -> Signature:
        answer = Struct(start=Positions(T)[B], end=Positions(T)[B], score=Score()[B])
        return Signature(
            takes={"ids": Ids(PIECES)[B, T], "answer": answer[()]},
            gives={"texts": Strings(form="written")[B.list()]},
        )


@dataclass(frozen=True)
class PoolTexts(NeuralModule):
    """The mean of the states of a text."""

    trainable: ClassVar[bool] = False

    def signature(self) -> Signature:
        return Signature(
            takes={"hidden": Text()[B, T, F], "mask": Mask(T, true="keep")[B, T]},
            gives={"pooled": Text()[B, F]},
        )
