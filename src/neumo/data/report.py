"""The data report: what a source holds, and everything that was dropped, changed or noticed on the way."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neumo.data.quarantine import Quarantined

_NAMED = 5  # names that are printed per line of the report; the lists hold all of them


@dataclass(frozen=True, slots=True)
class Dropped:
    """Counts the entries that one reason kept out, with the name of every one of them.

    >>> print(Dropped("longer than 20 s", 2, 0.0125, ("a.wav (x.jsonl:1)", "b.wav (x.jsonl:7)")))
    dropped 2 (0.01 h): longer than 20 s: a.wav (x.jsonl:1), b.wav (x.jsonl:7)
    """

    reason: str
    count: int
    hours: float
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"dropped {self.count} ({self.hours:.2f} h): {self.reason}: {_some(self.names)}"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Holds one entry whose recording does not last as long as the manifest says, in seconds.

    >>> print(Mismatch("a.wav (x.jsonl:1)", 2.0, 1.0))
    a.wav (x.jsonl:1) says 2.00 s, lasts 1.00 s
    """

    name: str
    said: float
    decoded: float

    def __str__(self) -> str:
        return f"{self.name} says {self.said:.2f} s, lasts {self.decoded:.2f} s"


@dataclass(frozen=True, slots=True)
class DataReport:
    """Says what became of the entries of a manifest; hours are hours of sound, rates are in Hz.

    `checked` counts recordings whose header or samples were read so far; `rates` and `mismatches` are about
    those. `mismatches` are ordered by size and differ by more than `tolerance` seconds. `quarantined` has one
    row for each bad item, with what is wrong with it.

    >>> print(DataReport(("train.jsonl",), entries=3, kept=3, hours=0.5, hours_kept=0.5).text())
    train.jsonl: 3 entries, 0.50 h
      kept 3 (0.50 h)
    """

    manifests: tuple[str, ...]
    entries: int
    kept: int
    hours: float
    hours_kept: float
    dropped: tuple[Dropped, ...] = ()
    checked: int = 0
    target_rate: int | None = None
    rates: dict[int, int] = field(default_factory=dict)
    resampled: dict[int, int] = field(default_factory=dict)
    mismatches: tuple[Mismatch, ...] = ()
    tolerance: float = 0.1
    clipped: tuple[str, ...] = ()
    unknown: dict[str, Any] = field(default_factory=dict)
    quarantined: tuple[Quarantined, ...] = ()
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """Write the report for a terminal, one fact a line."""
        lines = [f"{', '.join(self.manifests)}: {self.entries} entries, {self.hours:.2f} h"]
        lines.append(f"  kept {self.kept} ({self.hours_kept:.2f} h)")
        lines.extend(f"  {dropped}" for dropped in self.dropped)
        if len(self.rates) > 1 or self.resampled:
            counts = ", ".join(f"{count} of {rate} Hz" for rate, count in sorted(self.rates.items()))
            lines.append(f"  rates of {self.checked} recordings read so far: {counts}")
        if self.resampled:
            counts = ", ".join(f"{count} from {rate} Hz" for rate, count in sorted(self.resampled.items()))
            lines.append(f"  resampled to {self.target_rate} Hz: {counts}")
        if self.mismatches:
            count = len(self.mismatches)
            shown = _some(tuple(map(str, self.mismatches)))
            lines.append(f"  {count} durations are off by more than {self.tolerance:g} s: {shown}")
        if self.clipped:
            lines.append(
                f"  {len(self.clipped)} with samples outside -1 to 1, clipped: {_some(self.clipped)}"
            )
        lines.extend(self._unknown_lines())
        lines.extend(f"  note: {note}" for note in self.notes)
        return "\n".join(lines)

    def _unknown_lines(self) -> list[str]:
        lines: list[str] = []
        labels = self.unknown.get("unknown", [])
        if labels:
            shown = ", ".join(f"{u['label']!r} x{u['count']}" for u in labels[:20])
            more = f" and {len(labels) - 20} more" if len(labels) > 20 else ""
            affected, texts = self.unknown["affected"], self.unknown["texts"]
            lines.append(f"  unknown in {affected} of {texts} texts: {shown}{more}")
        if self.unknown.get("empty"):
            lines.append(f"  {self.unknown['empty']} texts are empty")
        if self.unknown.get("altered"):
            lines.append(f"  {self.unknown['altered']} texts do not come back from their ids as they were")
        lines.extend(f"  {hint}" for hint in self.unknown.get("hints", []))
        return lines

    def to_json(self) -> dict[str, Any]:
        """Give everything as plain values, ready for `json.dumps`."""
        return {
            "manifests": list(self.manifests),
            "entries": self.entries,
            "kept": self.kept,
            "hours": self.hours,
            "hours_kept": self.hours_kept,
            "dropped": [
                {"reason": d.reason, "count": d.count, "hours": d.hours, "names": list(d.names)}
                for d in self.dropped
            ],
            "checked": self.checked,
            "target_rate": self.target_rate,
            "rates": {str(rate): count for rate, count in sorted(self.rates.items())},
            "resampled": {str(rate): count for rate, count in sorted(self.resampled.items())},
            "mismatches": [{"name": m.name, "said": m.said, "decoded": m.decoded} for m in self.mismatches],
            "tolerance": self.tolerance,
            "clipped": list(self.clipped),
            "unknown": self.unknown,
            "quarantined": [row.to_json() for row in self.quarantined],
            "notes": list(self.notes),
        }

    def save(self, folder: str | Path) -> None:
        """Write report.txt, report.json and dropped.tsv (reason and name of each) into a folder.

        `quarantine.jsonl` has the bad items, if there are any.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        (place / "report.txt").write_text(self.text() + "\n", encoding="utf-8")
        (place / "report.json").write_text(json.dumps(self.to_json(), indent=1), encoding="utf-8")
        rows = [f"{d.reason}\t{name}\n" for d in self.dropped for name in d.names]
        (place / "dropped.tsv").write_text("".join(rows), encoding="utf-8")
        bad = [json.dumps(row.to_json(), ensure_ascii=False) + "\n" for row in self.quarantined]
        if bad:
            (place / "quarantine.jsonl").write_text("".join(bad), encoding="utf-8")


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
