"""Edit distance between two token sequences, with substitutions, insertions and deletions told apart."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorCounts:
    """Counts what turns a reference into a hypothesis; counts add up over a corpus.

    >>> counts = error_counts("the cat sat".split(), "a cat sat down".split())
    >>> counts
    ErrorCounts(substitutions=1, insertions=1, deletions=0, hits=2)
    >>> counts.errors, counts.reference, counts.hypothesis
    (2, 3, 4)
    >>> round(counts.rate, 3)
    0.667
    """

    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0
    hits: int = 0

    @property
    def errors(self) -> int:
        """Give the edit distance: substitutions + insertions + deletions."""
        return self.substitutions + self.insertions + self.deletions

    @property
    def reference(self) -> int:
        """Give the number of tokens in the reference."""
        return self.hits + self.substitutions + self.deletions

    @property
    def hypothesis(self) -> int:
        """Give the number of tokens in the hypothesis."""
        return self.hits + self.substitutions + self.insertions

    @property
    def rate(self) -> float:
        """Give errors per reference token.

        The divisor is at least 1: nothing against nothing is 0.0, and n insertions into an empty reference
        are n, so the rate of a corpus is always a finite number.
        """
        return self.errors / max(self.reference, 1)

    def __add__(self, other: ErrorCounts) -> ErrorCounts:
        return ErrorCounts(
            self.substitutions + other.substitutions,
            self.insertions + other.insertions,
            self.deletions + other.deletions,
            self.hits + other.hits,
        )


def error_counts(reference: Sequence[Hashable], hypothesis: Sequence[Hashable]) -> ErrorCounts:
    """Count the errors of a best alignment of two sequences: lists of words, or strings of characters.

    >>> error_counts("kitten", "sitting")
    ErrorCounts(substitutions=2, insertions=1, deletions=0, hits=4)
    >>> error_counts([], "a b".split())
    ErrorCounts(substitutions=0, insertions=2, deletions=0, hits=0)
    """
    substitutions = insertions = deletions = hits = 0
    for wanted, given in align(reference, hypothesis):
        if wanted is None:
            insertions += 1
        elif given is None:
            deletions += 1
        elif reference[wanted] == hypothesis[given]:
            hits += 1
        else:
            substitutions += 1
    return ErrorCounts(substitutions, insertions, deletions, hits)


def edit_distance(reference: Sequence[Hashable], hypothesis: Sequence[Hashable]) -> int:
    """Count the least number of substitutions, insertions and deletions between two sequences.

    >>> edit_distance("flaw", "lawn")
    2
    """
    return error_counts(reference, hypothesis).errors


def align(
    reference: Sequence[Hashable], hypothesis: Sequence[Hashable]
) -> list[tuple[int | None, int | None]]:
    """Pair the positions of two sequences along a best alignment; None marks insertions and deletions.

    >>> align("abc", "xbcd")
    [(0, 0), (1, 1), (2, 2), (None, 3)]
    """
    start, stop = _shared_ends(reference, hypothesis)
    inner = reference[start : len(reference) - stop], hypothesis[start : len(hypothesis) - stop]
    pairs: list[tuple[int | None, int | None]] = [(i, i) for i in range(start)]
    for wanted, given in reversed(list(_backtrace(*inner))):
        pairs.append((_shift(wanted, start), _shift(given, start)))
    pairs.extend((len(reference) - i, len(hypothesis) - i) for i in range(stop, 0, -1))
    return pairs


def _shift(position: int | None, by: int) -> int | None:
    return None if position is None else position + by


def _shared_ends(one: Sequence[Hashable], other: Sequence[Hashable]) -> tuple[int, int]:
    """Count the equal tokens at the start and, beyond those, at the end."""
    limit = min(len(one), len(other))
    start = 0
    while start < limit and one[start] == other[start]:
        start += 1
    stop = 0
    while stop < limit - start and one[-1 - stop] == other[-1 - stop]:
        stop += 1
    return start, stop


def _vertical_deltas(
    reference: Sequence[Hashable], hypothesis: Sequence[Hashable]
) -> tuple[list[int], list[int]]:
    """Fill the distance matrix by rows of bits (Hyyrö 2003, "A bit-vector algorithm ... Levenshtein").

    Bit i of row j tells whether the distance grows (first list) or shrinks (second list) by one from
    reference position i to i + 1 beside hypothesis position j + 1. Python's integers hold any number of bits,
    so a row costs a dozen operations however long the reference is.
    """
    positions: dict[Hashable, int] = {}
    for i, token in enumerate(reference):
        positions[token] = positions.get(token, 0) | (1 << i)
    mask = (1 << len(reference)) - 1
    grows, shrinks = mask, 0
    rows_grow: list[int] = []
    rows_shrink: list[int] = []
    for token in hypothesis:
        match = positions.get(token, 0)
        diagonal = ((((match & grows) + grows) ^ grows) | match | shrinks) & mask
        right_grows = shrinks | (~(diagonal | grows) & mask)
        right_shrinks = diagonal & grows
        right_grows = ((right_grows << 1) | 1) & mask
        right_shrinks = (right_shrinks << 1) & mask
        grows = right_shrinks | (~(diagonal | right_grows) & mask)
        shrinks = right_grows & diagonal
        rows_grow.append(grows)
        rows_shrink.append(shrinks)
    return rows_grow, rows_shrink


def _backtrace(
    reference: Sequence[Hashable], hypothesis: Sequence[Hashable]
) -> Iterator[tuple[int | None, int | None]]:
    """Walk back from the end of both sequences: deletions first, then insertions, then pairs."""
    grows, shrinks = _vertical_deltas(reference, hypothesis)
    i, j = len(reference), len(hypothesis)
    while i and j:
        if (grows[j - 1] >> (i - 1)) & 1:
            i -= 1
            yield i, None
            continue
        j -= 1
        if j and (shrinks[j - 1] >> (i - 1)) & 1:
            yield None, j
        else:
            i -= 1
            yield i, j
    for position in range(i - 1, -1, -1):
        yield position, None
    for position in range(j - 1, -1, -1):
        yield None, position
