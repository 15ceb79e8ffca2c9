"""Error rates of a corpus: counts over utterances, what was confused with what, and how it was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from neumo.metrics.edit import ErrorCounts, align, error_counts
from neumo.metrics.normalise import find_normaliser
from neumo.types.errors import DataError

Unit = Literal["word", "char"]


@dataclass(frozen=True, slots=True)
class Utterance:
    """Holds the score of one utterance: the texts as they were compared, and the counts.

    >>> utterance = Utterance("", "uh", ErrorCounts(insertions=1))
    >>> utterance.empty_reference
    True
    """

    reference: str
    hypothesis: str
    counts: ErrorCounts
    item: int | None = None

    @property
    def empty_reference(self) -> bool:
        """Tell whether there was nothing to recognise, so that all of the hypothesis is insertions."""
        return self.counts.reference == 0


class CorpusErrors:
    """Adds up the errors of many utterances, by words or by characters.

    >>> errors = CorpusErrors("word")
    >>> errors.add("the cat sat", "the cat sat down")
    >>> errors.add("yes", "")
    >>> errors.counts, errors.rate
    (ErrorCounts(substitutions=0, insertions=1, deletions=1, hits=3), 0.5)
    >>> print(errors.text())
    WER 50.00 % (0 substitutions, 1 insertions, 1 deletions; 4 words in 2 utterances; normaliser none-1)

    The rate is that of the corpus: all errors over all reference tokens. An empty reference counts its
    insertions and is reported as such, an empty hypothesis counts deletions, and nothing against nothing is
    right. Words are what stands between spaces; characters include single spaces between words, not those at
    the ends.
    """

    def __init__(self, unit: Unit = "word", *, normaliser: str = "none") -> None:
        self.unit: Unit = unit
        self.normaliser = find_normaliser(normaliser)
        self.utterances: list[Utterance] = []
        self.counts = ErrorCounts()

    def add(self, reference: str, hypothesis: str, *, item: int | None = None) -> None:
        """Score one utterance; `item` says which one it is."""
        wanted, given = (" ".join(self.normaliser(text).split()) for text in (reference, hypothesis))
        counts = error_counts(*self._tokens(wanted, given))
        self.utterances.append(Utterance(wanted, given, counts, item))
        self.counts = self.counts + counts

    def extend(self, other: CorpusErrors) -> None:
        """Take over what another one counted; both must count the same way."""
        if (self.unit, self.normaliser) != (other.unit, other.normaliser):
            one, two = (f"{errors.unit}s ({errors.normaliser})" for errors in (self, other))
            what = f"errors of {one} and of {two} do not add up"
            raise DataError(what, code="metric")
        self.utterances.extend(other.utterances)
        self.counts = self.counts + other.counts

    @property
    def rate(self) -> float:
        """Give errors per reference token; 0.0 for an empty corpus, and always finite."""
        return self.counts.rate

    @property
    def empty_references(self) -> list[Utterance]:
        """List the utterances that had nothing to recognise."""
        return [utterance for utterance in self.utterances if utterance.empty_reference]

    def top_substitutions(self, limit: int = 10) -> list[tuple[str, str, int]]:
        """List the most frequent confusions as (reference, hypothesis, times).

        >>> errors = CorpusErrors("word")
        >>> errors.add("don't stop don't", "dont stop dont")
        >>> errors.top_substitutions()
        [("don't", 'dont', 2)]
        """
        return [(*pair, times) for pair, times in _ranked(self._substitutions())[:limit]]

    def top_insertions(self, limit: int = 10) -> list[tuple[str, int]]:
        """List what was most often heard where nothing was said."""
        return _ranked(Counter(given for wanted, given in self._edits() if wanted is None and given))[:limit]

    def top_deletions(self, limit: int = 10) -> list[tuple[str, int]]:
        """List what was most often missed."""
        return _ranked(Counter(wanted for wanted, given in self._edits() if given is None and wanted))[:limit]

    def notes(self) -> list[str]:
        """Say which errors are about writing rather than hearing: case, apostrophes, compounds, empty texts.

        >>> errors = CorpusErrors("word")
        >>> errors.add("Hot dog", "hotdog")
        >>> errors.notes()
        ['1 utterances differ only in case or in where words are split']
        """
        notes: list[str] = []
        if self.empty_references:
            count = len(self.empty_references)
            notes.append(
                f"{count} utterances have an empty reference; what was heard there counts as insertions"
            )
        pairs = self._substitutions()
        case = sum(times for (a, b), times in pairs.items() if a.lower() == b.lower())
        if case:
            notes.append(f"{case} of {self.counts.substitutions} substitutions differ only in case")
        marks = sum(
            times for (a, b), times in pairs.items() if a.lower() != b.lower() and _bare(a) == _bare(b)
        )
        if marks:
            notes.append(f"{marks} of {self.counts.substitutions} substitutions differ only in punctuation")
        split = sum(
            1 for u in self.utterances if u.counts.errors and _joined(u.reference) == _joined(u.hypothesis)
        )
        if split and self.unit == "word" and split > case:
            notes.append(f"{split} utterances differ only in case or in where words are split")
        return notes

    def text(self) -> str:
        """Write rate, counts and normaliser in one line."""
        name, tokens = ("WER", "words") if self.unit == "word" else ("CER", "characters")
        c = self.counts
        errors = f"{c.substitutions} substitutions, {c.insertions} insertions, {c.deletions} deletions"
        size = f"{c.reference} {tokens} in {len(self.utterances)} utterances"
        return f"{name} {100 * self.rate:.2f} % ({errors}; {size}; normaliser {self.normaliser})"

    def to_json(self, limit: int = 10) -> dict[str, Any]:
        """Give rate, counts, confusions and how it was measured, ready for `json.dumps`."""
        from neumo import __version__

        counts = self.counts
        return {
            "metric": "wer" if self.unit == "word" else "cer",
            "rate": self.rate,
            "substitutions": counts.substitutions,
            "insertions": counts.insertions,
            "deletions": counts.deletions,
            "hits": counts.hits,
            "reference": counts.reference,
            "utterances": len(self.utterances),
            "empty_references": len(self.empty_references),
            "normaliser": str(self.normaliser),
            "neumo": __version__,
            "top_substitutions": [list(row) for row in self.top_substitutions(limit)],
            "notes": self.notes(),
        }

    def _tokens(self, wanted: str, given: str) -> tuple[Sequence[str], Sequence[str]]:
        return (wanted, given) if self.unit == "char" else (wanted.split(), given.split())

    def _edits(self) -> Iterable[tuple[str | None, str | None]]:
        for utterance in self.utterances:
            if utterance.counts.errors:
                wanted, given = self._tokens(utterance.reference, utterance.hypothesis)
                for i, j in align(wanted, given):
                    yield (None if i is None else wanted[i]), (None if j is None else given[j])

    def _substitutions(self) -> Counter[tuple[str, str]]:
        return Counter((a, b) for a, b in self._edits() if a is not None and b is not None and a != b)


def word_error_rate(
    references: Iterable[str], hypotheses: Iterable[str], *, normaliser: str = "none"
) -> float:
    """Give the word error rate of a corpus.

    >>> word_error_rate(["a b c", "d"], ["a x c", "d"])
    0.25
    """
    return _corpus("word", references, hypotheses, normaliser).rate


def char_error_rate(
    references: Iterable[str], hypotheses: Iterable[str], *, normaliser: str = "none"
) -> float:
    """Give the character error rate of a corpus, single spaces between words included.

    >>> char_error_rate(["abcd"], ["abxd"])
    0.25
    """
    return _corpus("char", references, hypotheses, normaliser).rate


def _corpus(
    unit: Unit, references: Iterable[str], hypotheses: Iterable[str], normaliser: str
) -> CorpusErrors:
    wanted, given = list(references), list(hypotheses)
    if len(wanted) != len(given):
        raise DataError(f"{len(wanted)} references and {len(given)} hypotheses do not pair up", code="metric")
    errors = CorpusErrors(unit, normaliser=normaliser)
    for reference, hypothesis in zip(wanted, given, strict=True):
        errors.add(reference, hypothesis)
    return errors


def _ranked(counter: Counter[Any]) -> list[tuple[Any, int]]:
    """Sort by count, and equal counts by name, so that a report is the same on every run."""
    return sorted(counter.items(), key=lambda pair: (-pair[1], pair[0]))


def _bare(word: str) -> str:
    return "".join(c for c in word.lower() if c.isalnum())


def _joined(text: str) -> str:
    return text.lower().replace(" ", "")
