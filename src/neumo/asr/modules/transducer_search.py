"""Decoders of transducers: the best label after the other, and beam searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from neumo.asr.checks import at_least
from neumo.asr.modules.transducer import Lattice
from neumo.graph.module import NeuralModule, Role
from neumo.graph.signature import Signature
from neumo.types import B, Hypotheses, Lengths, NeuralType, Positions, T, U, Values, Vocab

LOG_PROB = Values("log-probability")


@dataclass(frozen=True)
class TransducerGreedy(NeuralModule):
    """Takes the best label in each frame until the blank is best, then goes on to the next frame.

    >>> list(TransducerGreedy(Vocab.english()).signature().gives)
    ['ids', 'ids_len', 'frames', 'log_probs', 'score']

    For plain lattices, and for those with durations (TDT), in which the best duration says how many frames
    on the next label is. At most `max_symbols` labels are taken in one frame, so that it ends whatever the
    weights are. Each utterance goes its own way through its frames, so it is decoded the same in any batch.

    `frames` says in which frame each label was read, `log_probs` how probable it was there, for confidences;
    `score` is their sum. Beyond `ids_len` all are 0; an utterance without frames has no labels.
    """

    role: ClassVar[Role] = "decoder"

    vocab: Vocab
    max_symbols: int = 10

    def __post_init__(self) -> None:
        at_least(self, 1, "max_symbols")

    def signature(self) -> Signature:
        """A lattice to ids without blank, the frames in which they were read, and how probable they were."""
        emitted = U("U'")
        return Signature(
            takes=lattice_ports(self.vocab),
            gives={
                "ids": Hypotheses(self.vocab)[B, emitted],
                "ids_len": Lengths(emitted)[B],
                "frames": Positions(T)[B, emitted],
                "log_probs": LOG_PROB[B, emitted],
                "score": LOG_PROB[B],
            },
        )


def lattice_ports(vocab: Vocab) -> dict[str, NeuralType]:
    """The ports of a decoder: a lattice, with or without durations, and its lengths."""
    return {"lattice": Lattice(vocab.with_blank("end"))[B, T], "lattice_len": Lengths(T)[B]}
