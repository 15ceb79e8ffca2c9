"""What is found in manifests before they are used: a finding has a kind, a place and a sentence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

Level = Literal["error", "warning"]

# kind: (level, what it is, in the plural)
KINDS: Final[dict[str, tuple[Level, str]]] = {
    "line": ("error", "lines that cannot be read"),
    "missing": ("error", "recordings that are not there"),
    "corrupt": ("error", "recordings that cannot be used"),
    "unknown": ("error", "texts with characters that the vocabulary does not have"),
    "altered": ("error", "texts that do not come back from their ids"),
    "infeasible": ("warning", "texts that need more frames than their recording has"),
    "empty": ("warning", "texts without a word"),
    "silent": ("warning", "recordings of silence"),
    "same-audio": ("warning", "recordings that are there more than once"),
    "same-text": ("warning", "entries of one text, one duration and one speaker, where that is known"),
    "leak": ("warning", "recordings that several manifests share"),
    "speakers": ("warning", "speakers that several manifests share"),
    "duration": ("warning", "durations that differ from those of the recordings"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Names one thing that is wrong, or worth a look.

    >>> print(Finding("empty", "a.jsonl:3", "utt3", "its text is empty"))
    a.jsonl:3: utt3: its text is empty
    """

    kind: str
    where: str
    utterance: str
    message: str

    @property
    def level(self) -> Level:
        """Tell whether the data is broken by this ("error") or may be meant so ("warning")."""
        return KINDS[self.kind][0]

    def to_json(self) -> dict[str, str]:
        """Give the parts as plain values; file and line apart."""
        file, _, line = self.where.rpartition(":")
        parts = {"file": file, "line": int(line)} if line.isdigit() else {"file": self.where, "line": None}
        return {
            "kind": self.kind,
            "level": self.level,
            **parts,
            "utterance": self.utterance,
            "message": self.message,
        }  # type: ignore[dict-item]

    def __str__(self) -> str:
        return (
            f"{self.where}: {self.utterance}: {self.message}"
            if self.utterance
            else f"{self.where}: {self.message}"
        )


@dataclass(slots=True)
class SetFigures:
    """Holds the figures of one manifest: durations in seconds, characters, rates in Hz, speakers."""

    name: str
    entries: int = 0
    seconds: list[float] = field(default_factory=list[float])
    lengths: list[int] = field(default_factory=list[int])  # characters of each text
    rates: Counter[int] = field(default_factory=Counter[int])
    channels: Counter[int] = field(default_factory=Counter[int])
    formats: Counter[str] = field(default_factory=Counter[str])
    characters: Counter[str] = field(default_factory=Counter[str])
    speakers: Counter[str] = field(default_factory=Counter[str])
    words: int = 0
    texts: int = 0

    @property
    def hours(self) -> float:
        """Give the hours of sound."""
        return sum(self.seconds) / 3600

    def quantiles(self, shares: tuple[float, ...] = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)) -> dict[str, float]:
        """Give durations in seconds by the share of recordings that last no longer.

        >>> SetFigures("a", seconds=[1.0, 2.0, 3.0]).quantiles((0.5,))
        {'0.5': 2.0}
        """
        if not self.seconds:
            return {}
        found = np.quantile(self.seconds, shares)
        return {f"{share:g}": round(float(value), 3) for share, value in zip(shares, found, strict=True)}

    def to_json(self) -> dict[str, Any]:
        """Give the figures as plain values, the most frequent characters first."""
        return {
            "manifest": self.name,
            "entries": self.entries,
            "hours": round(self.hours, 4),
            "durations": self.quantiles(),
            "rates": {str(rate): count for rate, count in self.rates.most_common()},
            "channels": {str(number): count for number, count in self.channels.most_common()},
            "formats": dict(self.formats.most_common()),
            "texts": self.texts,
            "words": self.words,
            "characters": dict(self.characters.most_common()),
            "speakers": len(self.speakers),
        }


@dataclass(slots=True)
class Validation:
    """Holds what a validation found: figures of each manifest, findings in the order of the lines, notes."""

    sets: list[SetFigures] = field(default_factory=list[SetFigures])
    findings: list[Finding] = field(default_factory=list[Finding])
    notes: list[str] = field(default_factory=list[str])
    checked: list[str] = field(default_factory=list[str])  # what was looked for beyond headers

    @property
    def ok(self) -> bool:
        """Tell whether nothing is broken; warnings do not count."""
        return not any(finding.level == "error" for finding in self.findings)

    def counts(self) -> dict[str, int]:
        """Count the findings of each kind, errors first."""
        found = Counter(finding.kind for finding in self.findings)
        return {kind: found[kind] for kind in KINDS if found[kind]}

    def to_json(self) -> dict[str, Any]:
        """Give everything as plain values."""
        return {
            "ok": self.ok,
            "manifests": [figures.to_json() for figures in self.sets],
            "counts": self.counts(),
            "findings": [finding.to_json() for finding in self.findings],
            "notes": self.notes,
            "checked": self.checked,
        }
