"""Beam search over the scores of CTC, with or without an n-gram language model, and choosing again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal

from neumo.asr.checks import at_least, one_of
from neumo.graph.module import NeuralModule, Role
from neumo.graph.signature import Signature
from neumo.types import ANY, B, Hypotheses, Lengths, LogProbs, NeuralType, Positions, T, U, V, Values, Vocab
from neumo.types.errors import ConfigError

LOG_PROB: Final = Values("log-probability")


@dataclass(frozen=True)
class BeamCTC(NeuralModule):
    """Keeps the best `beam` hypotheses, frame by frame, each with all of its paths, and gives the best.

    >>> list(BeamCTC(Vocab.english(), lm="words.arpa").signature().gives)
    ['ids', 'ids_len', 'frames', 'label_log_probs', 'score']
    >>> list(BeamCTC(Vocab.english(), n_best=4).signature().gives)[5:]
    ['best_ids', 'best_len', 'best_score', 'best_acoustic', 'best_lm']

    Where `GreedyCTC` reads off the best path, this adds up the paths of a hypothesis (Hannun et al. 2014,
    https://arxiv.org/abs/1408.2873). A label with a log-probability below `token_min_logp` is impossible in a
    frame, unless it is the best one; a hypothesis that is `beam_prune_logp` worse than the best is dropped.
    Both may be -.inf.

    `lm` is an ARPA file, as `neumo data lm` makes it, perhaps packed with gzip; without one nothing but the
    scores of CTC counts. A hypothesis gets `alpha` times the log-probability of each word and of the end of
    the sentence, and `beta` for each word against too short results. `unknown` is added to the
    log-probability of a word that the model does not have, as soon as nothing else can become of it; with
    -.inf there are such words only where nothing else is possible. A label " ", or pieces that begin with ▁,
    tell where words end. `lm_unit` is "word", or "label" for a model of characters (`neumo data lm --unit
    char`) or of whatever the labels are, which weighs each label; "auto" finds out which. `beta` is 1.5 for
    words and 0 for labels if it is left out. Labels that cannot spell the words are refused: most often the
    case is another.

    `frames` says where each label begins on the best path of the best hypothesis, as with `GreedyCTC`, and
    `label_log_probs` how probable it was there, for confidences; `score` is the log-probability of the whole
    hypothesis, with what the language model adds. With `n_best` above 1 there are also `best_ids`, `best_len`
    and `best_score` of as many hypotheses, best first, and the two parts of that score, `best_acoustic` and
    `best_lm`; where there are fewer, all three are -inf. What counts labels is 0 behind them. Each utterance
    is searched on its own: the result is the same in any batch. The search runs on the CPU, in one thread, in
    double precision.
    """

    role: ClassVar[Role] = "decoder"

    vocab: Vocab
    beam: int = 64
    n_best: int = 1
    lm: str | Path | None = None
    alpha: float = 0.5
    beta: float | None = None
    unknown: float = -30.0
    lm_unit: Literal["auto", "word", "label"] = "auto"
    token_min_logp: float = -5.0
    beam_prune_logp: float = -10.0

    def __post_init__(self) -> None:
        at_least(self, 1, "beam", "n_best")
        at_least(self, 0, "alpha")
        one_of(self, "lm_unit", ("auto", "word", "label"))
        _finite(self, "alpha", "beta")
        _at_most_zero(self, "unknown", "token_min_logp", "beam_prune_logp")
        if self.n_best > self.beam:
            raise ConfigError(
                f"BeamCTC.n_best is {self.n_best}; a beam of {self.beam} keeps {self.beam} at most",
                code="field",
                fixes=[f"beam={self.n_best}", f"n_best={self.beam}"],
            )

    def signature(self) -> Signature:
        """Log-probabilities of labels and blank to ids without blank, and the frames in which they begin."""
        labels, emitted = self.vocab.with_blank("end"), U("U'")
        gives: dict[str, NeuralType] = {
            "ids": Hypotheses(self.vocab)[B, emitted],
            "ids_len": Lengths(emitted)[B],
            "frames": Positions(T)[B, emitted],
            "label_log_probs": LOG_PROB[B, emitted],
            "score": LOG_PROB[B],
        }
        if self.n_best > 1:
            best, longest = ANY(self.n_best), U("U''")
            gives["best_ids"] = Hypotheses(self.vocab)[B, best, longest]
            gives["best_len"] = Lengths(longest)[B, best]
            gives |= dict.fromkeys(("best_score", "best_acoustic", "best_lm"), LOG_PROB[B, best])
        return Signature(
            takes={"log_probs": LogProbs(labels)[B, T, V(labels)], "log_probs_len": Lengths(T)[B]},
            gives=gives,
        )


@dataclass(frozen=True)
class Rescore(NeuralModule):
    """Chooses among the best hypotheses again, by what another model says of them.

    >>> signature = Rescore(Vocab.english(), n_best=4, weight=0.3).signature()
    >>> list(signature.takes), list(signature.gives)
    (['best_ids', 'best_len', 'best_score', 'log_probs'], ['ids', 'ids_len', 'score', 'chosen'])

    A hypothesis scores `best_score` plus `weight` times `log_probs`, the log-probability that a language
    model gives it as a whole, plus `length_bonus` for each label. `score` is that of the best one, `chosen`
    its place among the `n_best`; of equal ones the first is taken. Places without a hypothesis score -inf,
    whatever the model says of them.
    """

    role: ClassVar[Role] = "decoder"

    vocab: Vocab
    n_best: int
    weight: float = 0.5
    length_bonus: float = 0.0

    def __post_init__(self) -> None:
        at_least(self, 1, "n_best")
        at_least(self, 0, "weight")
        _finite(self, "weight", "length_bonus")

    def signature(self) -> Signature:
        """The best hypotheses, with their scores and those of another model, to the best of them."""
        best, longest, emitted = ANY(self.n_best), U, U("U'")
        return Signature(
            takes={
                "best_ids": Hypotheses(self.vocab)[B, best, longest],
                "best_len": Lengths(longest)[B, best],
                "best_score": LOG_PROB[B, best],
                "log_probs": LOG_PROB[B, best],
            },
            gives={
                "ids": Hypotheses(self.vocab)[B, emitted],
                "ids_len": Lengths(emitted)[B],
                "score": LOG_PROB[B],
                "chosen": Positions()[B],
            },
        )


def _finite(spec: object, *fields: str) -> None:
    for field in fields:
        value = getattr(spec, field)
        if value is not None and not math.isfinite(value):
            raise ConfigError(
                f"{type(spec).__name__}.{field} is {value!r}; it must be a finite number", code="field"
            )


def _at_most_zero(spec: object, *fields: str) -> None:
    for field in fields:
        if not getattr(spec, field) <= 0:
            raise ConfigError(
                f"{type(spec).__name__}.{field} is {getattr(spec, field)!r}; "
                "it is added to the logarithm of a probability, and must be at most 0",
                code="field",
            )
