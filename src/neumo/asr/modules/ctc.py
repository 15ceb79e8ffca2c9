"""Connectionist temporal classification: head, loss and decoding."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from neumo.asr.checks import at_least
from neumo.graph.module import NeuralModule, Role
from neumo.graph.signature import Signature
from neumo.types import (
    Acoustic,
    B,
    F,
    Flags,
    Hypotheses,
    Ids,
    Lengths,
    LogProbs,
    Loss,
    Positions,
    Scores,
    T,
    U,
    V,
    Values,
    Vocab,
)

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class CTCHead(NeuralModule):
    """Scores the labels and the blank in each encoded frame: one linear layer and a log-softmax in float32.

    >>> CTCHead(Vocab.english(), width=1024).signature().gives["log_probs"].axes[:2]
    (B, T)

    The blank is the last label: `vocab.with_blank("end")`.
    """

    trainable: ClassVar[bool] = True

    vocab: Vocab
    width: int = 1024

    def __post_init__(self) -> None:
        at_least(self, 1, "width")

    def signature(self) -> Signature:
        """Encoded frames to log-probabilities."""
        labels = self.vocab.with_blank("end")
        return Signature(
            takes={"encoded": Acoustic()[B, F(self.width), T]},
            gives={"log_probs": LogProbs(labels)[B, T, V(labels)]},
        )


@dataclass(frozen=True)
class CTCLoss(NeuralModule):
    """Connectionist temporal classification: minus the log-probability of a target, mean over utterances.

    >>> list(CTCLoss(Vocab.english()).signature().gives)
    ['loss', 'infeasible', 'count']

    An utterance is infeasible if its target needs more frames than there are (one for each label and one
    between equal neighbours), or if it has no frame: `infeasible` says which, and it adds nothing to the
    loss, the mean or any gradient. A batch of only infeasible utterances has the loss 0. `count` is how many
    the mean is over, so that batches of a step can be weighted. Graves et al. 2006,
    https://www.cs.toronto.edu/~graves/icml_2006.pdf
    """

    role: ClassVar[Role] = "loss"

    vocab: Vocab

    def signature(self) -> Signature:
        """Log-probabilities and targets, each with lengths, to a loss and the utterances it left out."""
        labels = self.vocab.with_blank("end")
        return Signature(
            takes={
                "log_probs": LogProbs(labels)[B, T, V(labels)],
                "log_probs_len": Lengths(T)[B],
                "targets": Ids(self.vocab)[B, U],
                "targets_len": Lengths(U)[B],
            },
            gives={
                "loss": Loss(reduction="mean")[()],
                "infeasible": Flags()[B],
                "count": Values("utterances")[()],
            },
        )

    @staticmethod
    def needed_frames(ids: Sequence[int]) -> int:
        """Count the frames that a target needs, so that a training can name infeasible utterances at once.

        >>> CTCLoss.needed_frames([7, 4, 11, 11, 14])
        6
        """
        labels = list(ids)
        repeats = sum(1 for before, label in itertools.pairwise(labels) if before == label)
        return max(1, len(labels) + repeats)


@dataclass(frozen=True)
class GreedyCTC(NeuralModule):
    """Reads off the best label of each frame, then drops repeats and blanks.

    >>> list(GreedyCTC(Vocab.english()).signature().gives)
    ['ids', 'ids_len', 'frames']

    `frames` says in which frame each label was read: the first of those in a row where it is the best one.
    The clock of the scores makes seconds of them, see `neumo.asr.word_times`; a label peaks somewhere in its
    sound, so these are no exact onsets. Beyond `ids_len` ids and frames are 0. Takes logits as well as
    log-probabilities: the best label is the same.
    """

    role: ClassVar[Role] = "decoder"

    vocab: Vocab

    def signature(self) -> Signature:
        """Scores of labels and blank to ids without blank, and the frames in which they were read."""
        labels, emitted = self.vocab.with_blank("end"), U("U'")
        return Signature(
            takes={"log_probs": Scores(labels)[B, T, V(labels)], "log_probs_len": Lengths(T)[B]},
            gives={
                "ids": Hypotheses(self.vocab)[B, emitted],
                "ids_len": Lengths(emitted)[B],
                "frames": Positions(T)[B, emitted],
            },
        )
