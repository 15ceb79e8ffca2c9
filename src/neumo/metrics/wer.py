"""Word and character error rate as neural modules: typed ports, and an accumulator for the corpus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from neumo.graph.module import Metric
from neumo.graph.signature import Signature
from neumo.metrics.error_rate import CorpusErrors, Unit
from neumo.metrics.normalise import find_normaliser
from neumo.types import B, Hypotheses, Ids, Item, Lengths, Score, T, U, Vocab
from neumo.types.errors import DataError


@runtime_checkable
class Accumulator(Protocol):
    """Gathers a metric over batches: `update` by port name, `result` at the end, `merge` across processes."""

    def update(self, *args: Any, **ports: Any) -> None:
        """Take one batch: arrays by the port names of the metric."""
        ...

    def result(self) -> dict[str, float | int]:
        """Give the figures of everything that was taken."""
        ...

    def merge(self, other: Self) -> None:
        """Take over what another process gathered."""
        ...


class ErrorRateAccumulator:
    """Scores batches of ids against batches of ids; the texts and counts stay in `errors`.

    >>> import numpy as np
    >>> accumulator = WordErrorRate(Vocab.english()).start()
    >>> ids, ids_len = np.array([[1, 2, 0, 3]]), np.array([4])
    >>> accumulator.update(hypothesis=ids, hypothesis_len=np.array([2]), reference=ids, reference_len=ids_len)
    >>> accumulator.result()["wer"], accumulator.errors.utterances[0].hypothesis
    (0.5, 'ab')
    """

    def __init__(self, vocab: Vocab, unit: Unit, normaliser: str) -> None:
        self.vocab = vocab
        self.errors = CorpusErrors(unit, normaliser=normaliser)

    def update(
        self, *, hypothesis: Any, hypothesis_len: Any, reference: Any, reference_len: Any, item: Any = None
    ) -> None:
        """Score one batch: ids [B, U] and their lengths [B]; `item` [B] names the utterances."""
        columns = [self._texts(hypothesis, hypothesis_len), self._texts(reference, reference_len)]
        items = [None] * len(columns[0]) if item is None else [int(i) for i in item]
        if len({len(columns[0]), len(columns[1]), len(items)}) > 1:
            counts = f"{len(columns[0])} hypotheses, {len(columns[1])} references, {len(items)} items"
            what = f"{counts} do not pair up"
            raise DataError(what, code="metric")
        for given, wanted, number in zip(*columns, items, strict=True):
            self.errors.add(wanted, given, item=number)

    def result(self) -> dict[str, float | int]:
        """Give the rate (`wer` or `cer`, 1.0 is 100 %) and the counts behind it."""
        errors, counts = self.errors, self.errors.counts
        word = errors.unit == "word"
        return {
            "wer" if word else "cer": errors.rate,
            "substitutions": counts.substitutions,
            "insertions": counts.insertions,
            "deletions": counts.deletions,
            "hits": counts.hits,
            "words" if word else "characters": counts.reference,
            "utterances": len(errors.utterances),
            "empty_references": len(errors.empty_references),
        }

    def merge(self, other: ErrorRateAccumulator) -> None:
        """Take over the utterances of another accumulator of the same metric."""
        self.errors.extend(other.errors)

    def _texts(self, ids: Any, lengths: Any) -> list[str]:
        """Decode each row up to its length; what lies beyond is padding."""
        rows, counts = _rows(ids), [int(n) for n in _rows(lengths)]
        if len(rows) != len(counts):
            raise DataError(f"{len(rows)} rows of ids have {len(counts)} lengths", code="metric")
        return [self.vocab.decode(row[:count]) for row, count in zip(rows, counts, strict=True)]


def _rows(array: Any) -> list[Any]:
    """Give the rows of an array (of any library) or of nested lists as lists."""
    to_list = getattr(array, "tolist", None)
    return list(array) if to_list is None else to_list()


def _signature(vocab: Vocab) -> Signature:
    other = T.named("R")
    return Signature(
        takes={
            "hypothesis": Hypotheses(vocab)[B, U],  # not just any ids: a reference would score 0 errors
            "hypothesis_len": Lengths(U)[B],
            "reference": Ids(vocab)[B, other],
            "reference_len": Lengths(other)[B],
            "item": Item().optional()[B],
        },
        gives={"score": Score()[()]},
    )


@dataclass(frozen=True)
class WordErrorRate(Metric):
    """Measures the word error rate of a corpus, with substitutions, insertions and deletions.

    >>> print(WordErrorRate(Vocab("ab c", name="abc")).signature().gives["score"])
    Score[]

    Words are what stands between spaces. `normaliser` ("none" or "basic") rewrites both texts before they are
    compared and is published with the rate.
    """

    vocab: Vocab
    normaliser: str = "none"

    def __post_init__(self) -> None:
        find_normaliser(self.normaliser)

    def signature(self) -> Signature:
        """Hypotheses and references over one vocabulary."""
        return _signature(self.vocab)

    def start(self) -> ErrorRateAccumulator:
        """Start counting from nothing."""
        return ErrorRateAccumulator(self.vocab, "word", self.normaliser)


@dataclass(frozen=True)
class CharErrorRate(Metric):
    """Measures the character error rate of a corpus; single spaces between words count as characters.

    >>> sorted(CharErrorRate(Vocab("ab")).start().result())[0]
    'cer'
    """

    vocab: Vocab
    normaliser: str = "none"

    def __post_init__(self) -> None:
        find_normaliser(self.normaliser)

    def signature(self) -> Signature:
        """Hypotheses and references over one vocabulary."""
        return _signature(self.vocab)

    def start(self) -> ErrorRateAccumulator:
        """Start counting from nothing."""
        return ErrorRateAccumulator(self.vocab, "char", self.normaliser)
