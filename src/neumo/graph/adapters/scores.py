"""Adapters of scores and losses: softmax and its relatives, another order of labels, one number of many."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from neumo.graph.adapters.adapter import Adapter, ShapedAdapter, from_to
from neumo.graph.signature import Signature
from neumo.types import (
    B,
    Element,
    Kind,
    Logits,
    LogProbs,
    Loss,
    NeuralType,
    Probs,
    Relation,
    Scores,
    T,
    V,
    Var,
    Vocab,
)


class _ScoresAdapter(ShapedAdapter):
    """Turns scores of one kind into another over the vocabulary axis."""

    before: ClassVar[type[Scores]]
    after: ClassVar[type[Scores]]

    def signature(self) -> Signature:
        """Take and give scores over a vocabulary."""
        vocab = Var("vocab")
        return Signature(
            takes={self.entry: self.before(vocab)[B, T, V]},
            gives={self.exit: self.after(vocab)[B, T, V]},
        )

    def accepts(self, given: NeuralType) -> bool:
        """Accept scores with one vocabulary axis, which a softmax needs to be the last."""
        if type(given.element) is not self.before:
            return False
        if self.before is Logits and getattr(given.element, "over", None) not in (None, "V"):
            return False  # they are to be normalised over another axis
        places = [place for place, axis in enumerate(given.axes) if axis.kind is Kind.VOCAB]
        return len(places) == 1 and (self.before is not Logits or places[0] == len(given.axes) - 1)

    def convert(self, element: Scores) -> Element:
        """Change the kind of scores."""
        return self.after(element.vocab, element.over)

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where exactly these two kinds meet."""
        if type(wanted.element) is cls.after and type(given.element) is cls.before:
            yield cls()

    def notation(self) -> str:
        """Write the axis that it works over."""
        return f"{type(self).__name__}(over=V)" if self.before is Logits else f"{type(self).__name__}()"


@dataclass(frozen=True)
class LogSoftmax(_ScoresAdapter):
    """Turns logits into log-probabilities over the vocabulary axis."""

    entry: ClassVar[str] = "logits"
    exit: ClassVar[str] = "log_probs"
    before: ClassVar[type[Scores]] = Logits
    after: ClassVar[type[Scores]] = LogProbs


@dataclass(frozen=True)
class Softmax(_ScoresAdapter):
    """Turns logits into probabilities over the vocabulary axis."""

    entry: ClassVar[str] = "logits"
    exit: ClassVar[str] = "probs"
    before: ClassVar[type[Scores]] = Logits
    after: ClassVar[type[Scores]] = Probs


@dataclass(frozen=True)
class Exp(_ScoresAdapter):
    """Turns log-probabilities into probabilities."""

    entry: ClassVar[str] = "log_probs"
    exit: ClassVar[str] = "probs"
    before: ClassVar[type[Scores]] = LogProbs
    after: ClassVar[type[Scores]] = Probs


@dataclass(frozen=True)
class Log(_ScoresAdapter):
    """Turns probabilities into log-probabilities."""

    entry: ClassVar[str] = "probs"
    exit: ClassVar[str] = "log_probs"
    before: ClassVar[type[Scores]] = Probs
    after: ClassVar[type[Scores]] = LogProbs


@dataclass(frozen=True)
class Reorder(Adapter):
    """Puts the columns of scores into the order of another vocabulary with the same labels."""

    entry: ClassVar[str] = "scores"
    exit: ClassVar[str] = "scores"

    source: Vocab
    target: Vocab

    def signature(self) -> Signature:
        """Take and give scores over the two vocabularies."""
        return Signature(
            takes={"scores": Scores(self.source)[B, T, V(self.source)]},
            gives={"scores": Scores(self.target)[B, T, V(self.target)]},
        )

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for this kind of scores and these axes."""
        found = given.get("scores")
        if found is None or not isinstance(found.element, Scores) or found.element.vocab != self.source:
            return self.signature()
        if not found.axes or found.axes[-1].vocab != self.source:  # the columns are those of the last axis
            return self.signature()
        axes = (*found.axes[:-1], V(self.target))
        element = dataclasses.replace(found.element, vocab=self.target)
        return Signature(takes={"scores": found}, gives={"scores": NeuralType(element, axes)})

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose for the same labels in another order."""
        if isinstance(wanted.element, Scores) and isinstance(given.element, Scores):
            source, target = given.element.vocab, wanted.element.vocab
            if (
                isinstance(source, Vocab)
                and isinstance(target, Vocab)
                and source.relation(target) is Relation.PERMUTED
            ):
                yield cls(source, target)

    def notation(self) -> str:
        """Write `Reorder(en-sorted -> en)`."""
        return f"Reorder({from_to(self.source, self.target)})"


@dataclass(frozen=True)
class Reduce(Adapter):
    """Makes one number out of the loss of each row: their mean or their sum.

    >>> Reduce("mean").signature().gives["loss"]
    Loss(reduction=mean)[]
    """

    entry: ClassVar[str] = "loss"
    exit: ClassVar[str] = "loss"

    how: Literal["mean", "sum"] = "mean"

    def signature(self) -> Signature:
        """Take a loss for each row, give one."""
        return Signature(takes={"loss": Loss()[B]}, gives={"loss": Loss(reduction=self.how)[()]})

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where one loss is wanted and one for each row is given."""
        if isinstance(wanted.element, Loss) and isinstance(given.element, Loss) and given.rank > wanted.rank:
            yield cls("mean")
            yield cls("sum")

    def notation(self) -> str:
        """Write `Reduce(mean)`."""
        return f"Reduce({self.how})"
