"""Searches that write label after label with what an attention decoder gives: the best one, or a beam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from neumo.asr.checks import a_share, at_least
from neumo.graph.module import NeuralModule, Role
from neumo.graph.signature import Signature
from neumo.types import (
    ANY,
    B,
    Hypotheses,
    Lengths,
    LogProbs,
    NeuralType,
    Scorer,
    T,
    U,
    V,
    Values,
    Vocab,
)
from neumo.types.errors import ConfigError


def _search_ports(vocab: Vocab) -> tuple[dict[str, NeuralType], dict[str, NeuralType]]:
    emitted = U("U'")
    takes: dict[str, NeuralType] = {"scorer": Scorer(vocab.with_ends())[B], "encoded_len": Lengths(T)[B]}
    gives: dict[str, NeuralType] = {
        "ids": Hypotheses(vocab)[B, emitted],
        "ids_len": Lengths(emitted)[B],
        "score": Values("log-probability")[B],
    }
    return takes, gives


def _check_lengths(spec: Any) -> None:
    at_least(spec, 0, "max_per_frame")
    if spec.max_labels is not None:
        at_least(spec, 1, "max_labels")


@dataclass(frozen=True)
class AttentionGreedy(NeuralModule):
    """Takes the best next label until that is `<eos>`.

    >>> list(AttentionGreedy(Vocab.english()).signature().gives)
    ['ids', 'ids_len', 'score']

    An utterance ends at the latest after `max_per_frame` labels for each encoded frame, and after
    `max_labels`, whatever the weights are; one without frames has no labels. `score` is the log-probability
    of the labels and the `<eos>`. Beyond `ids_len` ids are 0.
    """

    role: ClassVar[Role] = "decoder"

    vocab: Vocab
    max_per_frame: float = 1.0
    max_labels: int | None = None

    def __post_init__(self) -> None:
        _check_lengths(self)

    def signature(self) -> Signature:
        """What scores the next label, and the frames there are, to ids without ends."""
        takes, gives = _search_ports(self.vocab)
        return Signature(takes=takes, gives=gives)


@dataclass(frozen=True)
class AttentionBeam(NeuralModule):
    """Keeps the best `beam` hypotheses, label by label, and gives the best of those that came to an end.

    >>> list(AttentionBeam(Vocab.english(), ctc_weight=0.3, n_best=2).signature().takes)
    ['scorer', 'encoded_len', 'log_probs', 'log_probs_len']

    A hypothesis scores the sum of log-probabilities of its labels and `<eos>`. With `ctc_weight` w it is
    (1 - w) of that and w of the logarithm of its CTC prefix probability (joint decoding, Watanabe et al.
    2017), computed from the `log_probs` of a `CTCHead` on the same frames. `lm_weight` adds as much of what
    another scorer, `lm`, says: a language model over `vocab.with_ends()`.

    Against too short and too long results: each label adds `length_bonus`; the score is divided by
    ((5 + n) / 6) ** `length_penalty` for n labels with `<eos>` (Wu et al. 2016); and with `eos_threshold` g,
    a hypothesis may only end where log p(`<eos>`) is above g times that of the best other label (Hannun
    et al. 2019, who take 1.5). It ends at the latest as with `AttentionGreedy`.

    With `n_best` above 1 there are also `best_ids`, `best_len` and `best_score` of as many hypotheses, best
    first; where there are fewer, the score is -inf. Each utterance is searched on its own: the result is the
    same in any batch. A beam of 1 without further settings finds what `AttentionGreedy` does.

    https://arxiv.org/abs/1609.06773, https://arxiv.org/abs/1609.08144, https://arxiv.org/abs/1904.02619
    """

    role: ClassVar[Role] = "decoder"

    vocab: Vocab
    beam: int = 8
    n_best: int = 1
    length_bonus: float = 0.0
    length_penalty: float = 0.0
    eos_threshold: float | None = None
    ctc_weight: float = 0.0
    lm_weight: float = 0.0
    max_per_frame: float = 1.0
    max_labels: int | None = None

    def __post_init__(self) -> None:
        _check_lengths(self)
        at_least(self, 1, "beam", "n_best")
        at_least(self, 0, "length_penalty", "lm_weight")
        a_share(self, "ctc_weight")
        if self.n_best > self.beam:
            raise ConfigError(
                f"AttentionBeam.n_best is {self.n_best}; a beam of {self.beam} keeps {self.beam} at most",
                code="field",
                fixes=[f"beam={self.n_best}", f"n_best={self.beam}"],
            )

    def signature(self) -> Signature:
        """What scores the next label, and what its settings ask for besides, to ids without ends."""
        takes, gives = _search_ports(self.vocab)
        if self.ctc_weight:
            labels = self.vocab.with_blank("end")
            takes |= {"log_probs": LogProbs(labels)[B, T, V(labels)], "log_probs_len": Lengths(T)[B]}
        if self.lm_weight:
            takes["lm"] = Scorer(self.vocab.with_ends())[B]
        if self.n_best > 1:
            best, emitted = ANY(self.n_best), U("U'")
            gives["best_ids"] = Hypotheses(self.vocab)[B, best, emitted]
            gives["best_len"] = Lengths(emitted)[B, best]
            gives["best_score"] = Values("log-probability")[B, best]
        return Signature(takes=takes, gives=gives)
