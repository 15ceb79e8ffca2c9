"""Transducers: prediction network, joint network and losses; `transducer_search` holds the decoders.

A transducer scores the next label given a frame *and* the labels so far, so its scores are a lattice over
(frame, labels so far) and exist for a given text only. Neither a loss nor a search wants all of it at once:
a loss can do without ever holding B x T x U x V numbers, and a search asks for what it reaches. So the two
networks hand over themselves: the prediction network gives a `Predictor`, the joint network ties it to the
encoded frames and gives a `Lattice`, and losses and decoders take that, in graphs of the same shape as with
CTC. The weights stay with the two modules, by one name in every graph:

    train                                               infer
    labels: prediction()                                labels: prediction()
    scores: joint(encoded=..., predictor=...)           scores: joint(encoded=..., predictor=...)
    rnnt: loss(lattice=scores.lattice, targets=...)     heard: decoder(lattice=scores.lattice, ...)

Nothing needs to be tied, loaded twice or left out, and a second decoder or loss is one more line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from neumo.asr.checks import a_share, at_least, one_of
from neumo.graph.module import NeuralModule, Role
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, F, Flags, Ids, Lengths, Loss, T, U, Values, Vocab
from neumo.types.element import DTypeClass, Element, Var
from neumo.types.errors import ConfigError
from neumo.types.vocab import AtLeast

NO_DURATIONS = "none"
_VOCAB = {"kind": "vocab", "positional": True}


@dataclass(frozen=True)
class Predictor(Element):
    """A prediction network itself: what it makes of labels is asked for when there are some.

    >>> Predictor(Vocab("ab", name="two"), width=640)
    Predictor(two[2]#9bad6162, width=640)

    `vocab` has the labels without the blank. The value is an object of the backend, not numbers.
    """

    dtype: ClassVar[DTypeClass] = "any"
    vocab: Vocab | AtLeast | Var | None = field(default=None, metadata=_VOCAB)
    width: int | Var | None = field(default=None, metadata={"holds": "count"})


@dataclass(frozen=True)
class Lattice(Element):
    """What scores each label, and the blank, in each frame after any labels so far (Graves 2012, figure 1).

    >>> Lattice(Vocab("ab", name="two").with_blank())[B, T]
    Lattice(two+blank[3]#1e1fe021)[B, T]

    `vocab` has the blank at its end. `durations` are the numbers of frames that a token may last, such as
    "0 1 2 3 4", where the joint network scores them too (TDT), and "none" where it does not. The value is an
    object of the backend, not numbers: nothing is computed before a loss or a search asks for it.
    """

    dtype: ClassVar[DTypeClass] = "any"
    vocab: Vocab | AtLeast | Var | None = field(default=None, metadata=_VOCAB)
    durations: str | Var | None = field(default=None, metadata={"holds": "text"})


@dataclass(frozen=True)
class PredictionNetwork(NeuralModule):
    """Reads the labels so far, for a transducer: an LSTM, or an embedding of the last few labels.

    >>> PredictionNetwork(Vocab.english(), width=320).signature().gives["predictor"]
    Predictor(en[28]#c4af7923, width=320)[]
    >>> PredictionNetwork(Vocab.english(), network="stateless", context=2).width
    640

    "lstm" is the recurrent network of Graves 2012 with `layers` layers. "stateless" is a convolution over the
    embeddings of the last `context` labels and a ReLU (Ghodsi et al. 2020): smaller, and hypotheses that end
    in the same labels have the same state. Before the first label stands a start symbol whose embedding is
    zero. `dropout` falls on the output, and between LSTM layers.

    It takes nothing: it gives itself, and whoever holds the labels asks it (see the top of this file).
    https://arxiv.org/abs/1211.3711, https://ieeexplore.ieee.org/document/9054419
    """

    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...] | None] = ()

    vocab: Vocab
    width: int = 640
    network: Literal["lstm", "stateless"] = "lstm"
    layers: int = 1
    context: int = 2
    dropout: float = 0.0

    def __post_init__(self) -> None:
        one_of(self, "network", ("lstm", "stateless"))
        at_least(self, 1, "width", "layers", "context")
        a_share(self, "dropout")

    def signature(self) -> Signature:
        """Nothing to the network itself."""
        return Signature(takes={}, gives={"predictor": Predictor(self.vocab, width=self.width)[()]})


@dataclass(frozen=True)
class JointNetwork(NeuralModule):
    """Scores the labels and the blank in each encoded frame after the labels so far (Graves et al. 2013).

    >>> joint = JointNetwork(Vocab.english(), encoder_width=512, predictor_width=640)
    >>> joint.signature().gives["lattice"]
    Lattice(en+blank[29]#040063b9, durations=none)[B, T]
    >>> JointNetwork(Vocab.english(), durations=(0, 1, 2, 3, 4)).lattice.durations
    '0 1 2 3 4'

    Frame and labels are each projected to `width`, added, passed through `activation` and dropout, and
    projected to the labels with the blank at their end: `vocab.with_blank("end")`. With `durations` it also
    scores how many frames each token lasts, as a second softmax (TDT, Xu et al. 2023). What it gives computes
    in the precision that this module has, wherever it is asked; softmax and sums are in float32.
    https://arxiv.org/abs/1303.5778, https://arxiv.org/abs/2304.06795
    """

    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...] | None] = ()

    vocab: Vocab
    encoder_width: int = 512
    predictor_width: int = 640
    width: int = 640
    activation: Literal["relu", "tanh"] = "relu"
    dropout: float = 0.0
    durations: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        one_of(self, "activation", ("relu", "tanh"))
        at_least(self, 1, "encoder_width", "predictor_width", "width")
        a_share(self, "dropout")
        if self.durations:
            check_durations(self)

    @property
    def lattice(self) -> Lattice:
        """What the lattice means, with every facet known."""
        return Lattice(self.vocab.with_blank("end"), durations=durations_text(self.durations))

    def signature(self) -> Signature:
        """Encoded frames and a prediction network to a lattice over these frames."""
        return Signature(
            takes={
                "encoded": Acoustic()[B, F(self.encoder_width), T],
                "predictor": Predictor(self.vocab, width=self.predictor_width)[()],
            },
            gives={"lattice": self.lattice[B, T]},
        )


@dataclass(frozen=True)
class TransducerLoss(NeuralModule):
    """Minus the log-probability of a target over all alignments of a transducer, mean over utterances.

    >>> list(TransducerLoss(Vocab.english()).signature().gives)
    ['loss', 'infeasible', 'count']

    Exact (Graves 2012), with the analytic gradient, in float32 or better. It never holds the scores of a
    whole batch: utterances are scored one after the other without padding, what fits into half of `memory`
    (megabytes) is kept for the gradient, and the rest is scored a second time. An utterance that is long by
    itself is cut. So memory grows with T x U only, and `memory` trades time for it; no figure depends on it.

    `fastemit` (lambda, 0.001 to 0.01 are usual) makes labels come earlier: in the gradient, and not in the
    loss that is reported, emitting a label counts 1 + lambda times (Yu et al. 2021).

    An utterance without a frame is infeasible: `infeasible` says which, and it adds nothing to the loss, the
    mean or any gradient. A batch of only infeasible utterances has the loss 0. `count` is how many the mean
    is over, so that batches of a step can be weighted. Raises `DataError` for ids outside of the vocabulary.
    https://arxiv.org/abs/1211.3711, https://arxiv.org/abs/2010.11148
    """

    role: ClassVar[Role] = "loss"

    vocab: Vocab
    fastemit: float = 0.0
    memory: float = 256.0

    def __post_init__(self) -> None:
        at_least(self, 0, "fastemit")
        _check_memory(self)

    def signature(self) -> Signature:
        """A lattice and targets, each with lengths, to a loss and the utterances it left out."""
        return _loss_signature(self.vocab, ())


@dataclass(frozen=True)
class TDTLoss(NeuralModule):
    """The loss of a token-and-duration transducer (Xu et al. 2023), mean over utterances.

    >>> TDTLoss(Vocab.english(), sigma=0.05, omega=0.1).signature().takes["lattice"].element.durations
    '0 1 2 3 4'

    As `TransducerLoss`, over alignments in which each label and each blank also says how many frames it
    lasts, one of `durations`; a blank lasts at least one, and the last one ends with the utterance. `sigma`
    is taken off every token's log-probability, which favours longer durations. `omega` is the share of the
    plain transducer loss, in which durations are ignored: the expectation of what the paper draws for each
    batch, with less noise. `fastemit` and `memory` as in `TransducerLoss`.

    An utterance is infeasible if no alignment ends with it: without a frame, or where 0 is no duration and
    the labels do not fit. https://arxiv.org/abs/2304.06795
    """

    role: ClassVar[Role] = "loss"

    vocab: Vocab
    durations: tuple[int, ...] = (0, 1, 2, 3, 4)
    sigma: float = 0.0
    omega: float = 0.0
    fastemit: float = 0.0
    memory: float = 256.0

    def __post_init__(self) -> None:
        check_durations(self)
        at_least(self, 0, "sigma", "fastemit")
        a_share(self, "omega")
        _check_memory(self)

    def signature(self) -> Signature:
        """A lattice and targets, each with lengths, to a loss and the utterances it left out."""
        return _loss_signature(self.vocab, self.durations)


def check_durations(spec: Any) -> None:
    """Refuse durations with which an alignment may be ambiguous, or unable to end with its utterance."""
    given: tuple[int, ...] = spec.durations
    if tuple(sorted(set(given))) != tuple(given) or not given or given[0] < 0 or 1 not in given:
        raise ConfigError(
            f"{type(spec).__name__}.durations is {given!r}; they are whole numbers of frames that rise, "
            "with 1 among them",
            code="field",
            why="With steps of one frame every number of frames can be reached.",
            fixes=["durations=(0, 1, 2, 3, 4)"],
        )


def durations_text(durations: Sequence[int]) -> str:
    """Write durations as the facet of a lattice.

    >>> durations_text((0, 1, 2)), durations_text(())
    ('0 1 2', 'none')
    """
    return " ".join(map(str, durations)) or NO_DURATIONS


def _check_memory(spec: Any) -> None:
    if not spec.memory > 0:
        raise ConfigError(
            f"{type(spec).__name__}.memory is {spec.memory!r}; it is a number of megabytes above 0",
            code="field",
        )


def _loss_signature(vocab: Vocab, durations: Sequence[int]) -> Signature:
    labels = vocab.with_blank("end")
    return Signature(
        takes={
            "lattice": Lattice(labels, durations=durations_text(durations))[B, T],
            "lattice_len": Lengths(T)[B],
            "targets": Ids(vocab)[B, U],
            "targets_len": Lengths(U)[B],
        },
        gives={
            "loss": Loss(reduction="mean")[()],
            "infeasible": Flags()[B],
            "count": Values("utterances")[()],
        },
    )
