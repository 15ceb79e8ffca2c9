"""Attention decoders (listen, attend and spell; Transformer) and their loss; `attention_search` has searches.

A decoder scores each next label given the labels before. In training these are the targets, and it gives
scores of all positions at once. When it is used nobody knows them: a search asks for one label after the
other. So the call decides what a decoder gives: with targets, scores; without, a `Scorer`, its own network
together with the frames it was called on, which a search module takes. The weights stay with the decoder, by
one name in every graph, and another search or a language model beside it is one more line:

    train                                               infer
    scores: decoder(encoded=..., targets=...)           next: decoder(encoded=..., encoded_len=...)
    loss: sequence(log_probs=scores.log_probs, ...)     heard: beam(scorer=next.scorer, ...)

Targets are given without ends: `<bos>` before and `<eos>` behind them is the decoder's and the loss's
business. So U labels have U + 1 positions, and scores are of `vocab.with_ends()`.

Where attention looks while it writes a label says little about when the label was spoken: it may be early,
late or spread. These decoders give an `alignment` for pictures and promise no times of words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from neumo.asr.checks import a_share, at_least, one_of
from neumo.graph.module import NeuralModule, Role
from neumo.graph.signature import Signature
from neumo.types import (
    Acoustic,
    Alignment,
    B,
    F,
    Ids,
    Lengths,
    LogProbs,
    Loss,
    NeuralType,
    Scorer,
    T,
    U,
    V,
    Values,
    Vocab,
)
from neumo.types.errors import ConfigError


def _decoder_ports(vocab: Vocab, width: int, *, told: bool) -> Signature:
    """Ports of a decoder whose call is told the targets, or not."""
    ends = vocab.with_ends()
    gives: dict[str, NeuralType] = {"scorer": Scorer(ends)[B]}
    if told:
        gives = {
            "log_probs": LogProbs(ends)[B, U + 1, V(ends)],
            "log_probs_len": Lengths(U + 1)[B],
            "alignment": Alignment(form="soft")[B, U + 1, T],
        }
    return Signature(
        takes={
            "encoded": Acoustic()[B, F(width), T],
            "encoded_len": Lengths(T)[B],
            "targets": Ids(vocab).only("train")[B, U],
            "targets_len": Lengths(U).only("train")[B],
        },
        gives=gives,
    )


@dataclass(frozen=True)
class RecurrentDecoder(NeuralModule):
    """Writes label after label with an LSTM or GRU that attends to the encoded frames ("spell" of LAS).

    >>> decoder = RecurrentDecoder(Vocab("ab", name="two"), width=256)
    >>> decoder.signature().gives["log_probs"]
    LogProbs(two+ends[4]#2444bc81)[B, U + 1, V=two+ends[4]#2444bc81]

    `width` is that of the encoded frames, `hidden` that of the `layers` recurrent layers. Attention goes by
    content and, with `filters` above 0, by the place of the weights before it (Chorowski et al. 2015), found
    by convolutions with a `kernel` of that many frames; `smoothing` spreads it over more frames. With
    `input_feeding` each step is told what the one before attended to.

    `sampling` is the probability that a position of a training is given a label drawn from the decoder's own
    scores instead of the target before it (scheduled sampling, Bengio et al. 2015). Let it rise with
    `ScheduleValue(decoder, "sampling", Ramp(0.0, 0.3))`. The draws are from the random numbers of the step,
    so a resumed training repeats them.

    Chan et al. 2016, https://arxiv.org/abs/1508.01211; Chorowski et al. 2015,
    https://arxiv.org/abs/1506.07503; Bengio et al. 2015, https://arxiv.org/abs/1506.03099.
    """

    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...] | None] = ("encoded", "targets")

    vocab: Vocab
    width: int = 512
    hidden: int = 512
    layers: int = 1
    cell: Literal["lstm", "gru"] = "lstm"
    embedding: int = 256
    attention: int = 256
    filters: int = 10
    kernel: int = 201
    smoothing: bool = False
    input_feeding: bool = True
    dropout: float = 0.0
    sampling: float = 0.0

    def __post_init__(self) -> None:
        at_least(self, 1, "width", "hidden", "layers", "embedding", "attention", "kernel")
        at_least(self, 0, "filters")
        one_of(self, "cell", ("lstm", "gru"))
        a_share(self, "dropout", "sampling")
        if self.kernel % 2 == 0:
            raise ConfigError(
                f"RecurrentDecoder.kernel is {self.kernel}: it must be odd, to have a frame in its middle",
                code="field",
                fixes=[f"kernel={self.kernel + 1}"],
            )

    def signature(self) -> Signature:
        """The ports in training: encoded frames and targets to scores of each position."""
        return _decoder_ports(self.vocab, self.width, told=True)

    def signature_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """With targets, scores of them; without, what scores the next label."""
        return _decoder_ports(self.vocab, self.width, told="targets" in given)


@dataclass(frozen=True)
class TransformerDecoder(NeuralModule):
    """Writes label after label with layers of attention to the labels before and to the encoded frames.

    >>> decoder = TransformerDecoder(Vocab("ab", name="two"), width=256, hidden=144, heads=4)
    >>> list(decoder.signature().gives)
    ['log_probs', 'log_probs_len', 'alignment']

    `width` is that of the encoded frames, `hidden` that of the layers. `norm` says whether the parts of a
    layer are normalised before ("pre", with one more norm behind the last layer) or after ("post", as in the
    paper). "sinusoidal" `positions` have no end, "learned" ones are for `longest` labels, `<bos>` among them.
    The alignment is that of the last layer, as mean over its heads. Labels can be read and written with one
    weight: `factory.tie((decoder, "output.weight"), (decoder, "embedding.weight"))`. Vaswani et al. 2017,
    https://arxiv.org/abs/1706.03762; Dong et al. 2018, https://ieeexplore.ieee.org/document/8462506.
    """

    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...] | None] = ("encoded", "targets")

    vocab: Vocab
    width: int = 256
    hidden: int = 256
    layers: int = 6
    heads: int = 4
    feed_forward: int = 2048
    norm: Literal["pre", "post"] = "pre"
    activation: Literal["relu", "gelu", "silu"] = "relu"
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    longest: int = 512
    dropout: float = 0.1

    def __post_init__(self) -> None:
        at_least(self, 1, "width", "hidden", "layers", "heads", "feed_forward", "longest")
        one_of(self, "norm", ("pre", "post"))
        one_of(self, "activation", ("relu", "gelu", "silu"))
        one_of(self, "positions", ("sinusoidal", "learned"))
        a_share(self, "dropout")
        if self.hidden % self.heads:
            fits = [n for n in range(self.heads, 0, -1) if self.hidden % n == 0]
            raise ConfigError(
                f"TransformerDecoder.hidden is {self.hidden}, which {self.heads} heads do not divide",
                code="field",
                fixes=[f"heads={fits[0]}", f"hidden={-(-self.hidden // self.heads) * self.heads}"],
            )

    def signature(self) -> Signature:
        """The ports in training: encoded frames and targets to scores of each position."""
        return _decoder_ports(self.vocab, self.width, told=True)

    def signature_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """With targets, scores of them; without, what scores the next label."""
        return _decoder_ports(self.vocab, self.width, told="targets" in given)


@dataclass(frozen=True)
class SequenceLoss(NeuralModule):
    """Cross-entropy of the targets and their `<eos>`, with smoothed labels (Szegedy et al. 2016).

    >>> loss = SequenceLoss(Vocab("ab", name="two"), smoothing=0.1)
    >>> loss.signature().gives["count"]
    Values(utterances)[]

    `smoothing` is the share of each target that is spread evenly over all labels. The loss is the mean over
    "utterances", each the sum of its positions, or over all "positions"; `count` is how many those are, so
    that batches of a step are weighted as one batch would be. https://arxiv.org/abs/1512.00567
    """

    role: ClassVar[Role] = "loss"

    vocab: Vocab
    smoothing: float = 0.0
    mean_over: Literal["utterances", "positions"] = "utterances"

    def __post_init__(self) -> None:
        a_share(self, "smoothing")
        one_of(self, "mean_over", ("utterances", "positions"))

    def signature(self) -> Signature:
        """Log-probabilities of U + 1 positions and U targets to a loss."""
        ends = self.vocab.with_ends()
        return Signature(
            takes={
                "log_probs": LogProbs(ends)[B, U + 1, V(ends)],
                "targets": Ids(self.vocab)[B, U],
                "targets_len": Lengths(U)[B],
            },
            gives={"loss": Loss(reduction="mean")[()], "count": Values(self.mean_over)[()]},
        )
