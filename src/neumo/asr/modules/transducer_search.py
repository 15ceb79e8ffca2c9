"""Decoders of transducers: the best label after the other, and beam searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from neumo.asr.checks import at_least, one_of
from neumo.asr.modules.transducer import NO_DURATIONS, Lattice
from neumo.graph.module import NeuralModule, Role
from neumo.graph.signature import Signature
from neumo.types import ANY, B, Hypotheses, Lengths, NeuralType, Positions, Scorer, T, U, Values, Vocab
from neumo.types.errors import ConfigError

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


@dataclass(frozen=True)
class TransducerBeam(NeuralModule):
    """Keeps the best `beam` hypotheses of a transducer, and adds up the alignments of each.

    >>> list(TransducerBeam(Vocab.english(), n_best=2).signature().gives)
    ['ids', 'ids_len', 'frames', 'score', 'best_ids', 'best_len', 'best_score']
    >>> list(TransducerBeam(Vocab.english(), lm_weight=0.3).signature().takes)
    ['lattice', 'lattice_len', 'lm']

    `search` says in which order the lattice is gone through:

    * "time": frame after frame, at most `max_symbols` labels in each; exact but for the beam (TSD of Saon et
      al. 2020).
    * "alignment": step after step, blanks and labels alike, at most `max_per_frame` labels a frame over the
      whole utterance (ALSD of the same). Not for lattices with durations.
    * "token": one token of every hypothesis after the other, wherever in time each is; at most `max_symbols`
      labels a frame. The steps are as many as the longest hypothesis has tokens: with durations, few.
    * "adaptive": at most `steps` - 1 labels a frame, and of each hypothesis only what is within `gamma` of
      its best among `beam` + `extra` tokens; hypotheses that are at most `prefix` labels shorter are added
      to longer ones (mAES of Kim et al. 2020).
    * "best_first": in each frame the best one is extended, until `beam` others have left it that are better;
      at most `max_symbols` labels a frame (Graves 2012). Adds up nothing where there are no durations.

    Hypotheses are ranked by their score divided by their labels and one, or with `length_norm=False` by the
    score. `lm_weight` adds as much of what a language model, `lm`, says of each label (shallow fusion), and
    each label adds `length_bonus`. `score` is the log-probability of the best one with these, undivided.

    With `n_best` above 1 there are also `best_ids`, `best_len` and `best_score` of as many hypotheses, best
    first; where there are fewer, the score is -inf. Each utterance is searched on its own, the networks are
    asked for all of them together: the result is the same in any batch. An utterance without frames has no
    labels. https://arxiv.org/abs/1211.3711, https://ieeexplore.ieee.org/document/9053040,
    https://ieeexplore.ieee.org/document/9250505
    """

    role: ClassVar[Role] = "decoder"

    vocab: Vocab
    search: Literal["time", "alignment", "token", "adaptive", "best_first"] = "time"
    beam: int = 4
    n_best: int = 1
    max_symbols: int = 10
    max_per_frame: float = 2.0
    steps: int = 2
    extra: int = 2
    gamma: float = 2.3
    prefix: int = 1
    length_norm: bool = True
    length_bonus: float = 0.0
    lm_weight: float = 0.0

    def __post_init__(self) -> None:
        one_of(self, "search", ("time", "alignment", "token", "adaptive", "best_first"))
        at_least(self, 1, "beam", "n_best", "max_symbols", "steps")
        at_least(self, 0, "max_per_frame", "extra", "gamma", "prefix", "lm_weight")
        if self.n_best > self.beam:
            raise ConfigError(
                f"TransducerBeam.n_best is {self.n_best}; a beam of {self.beam} keeps {self.beam} at most",
                code="field",
                fixes=[f"beam={self.n_best}", f"n_best={self.beam}"],
            )

    def signature(self) -> Signature:
        """A lattice, and a language model where one counts, to ids without blank and their frames."""
        takes, emitted = lattice_ports(self.vocab), U("U'")
        if self.search == "alignment":  # with durations, its steps are none of the alignment
            takes["lattice"] = Lattice(self.vocab.with_blank("end"), durations=NO_DURATIONS)[B, T]
        if self.lm_weight:
            takes["lm"] = Scorer(self.vocab.with_ends())[B]
        gives = {
            "ids": Hypotheses(self.vocab)[B, emitted],
            "ids_len": Lengths(emitted)[B],
            "frames": Positions(T)[B, emitted],
            "score": LOG_PROB[B],
        }
        if self.n_best > 1:
            best, longest = ANY(self.n_best), U("U''")
            gives["best_ids"] = Hypotheses(self.vocab)[B, best, longest]
            gives["best_len"] = Lengths(longest)[B, best]
            gives["best_score"] = LOG_PROB[B, best]
        return Signature(takes=takes, gives=gives)


def lattice_ports(vocab: Vocab) -> dict[str, NeuralType]:
    """The ports of a decoder: a lattice, with or without durations, and its lengths."""
    return {"lattice": Lattice(vocab.with_blank("end"))[B, T], "lattice_len": Lengths(T)[B]}
