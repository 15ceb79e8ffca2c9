"""A validation as one page for a browser: figures, distributions drawn as SVG, and every finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

import numpy as np

from neumo.data.findings import KINDS, Finding, SetFigures, Validation

_ROWS: Final = 2000  # findings of one kind that the page lists; the rest are counted
_BARS: Final = 60  # characters that are drawn
_WIDTH, _HEIGHT, _LEFT, _FOOT = 640, 150, 44, 22  # of a picture, in its own units

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1a1a1a; --soft: #666; --paper: #fff; --bar: #3b73b9; --line: #ddd;
        --bad: #b3261e; --odd: #8a6100; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --soft: #a0a0a0; --paper: #16181c; --bar: #7aa7e0; --line: #3a3d44;
          --bad: #ff8a80; --odd: #e0b050; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem } h2 { font-size: 1.15rem; margin-top: 2rem } h3 { font-size: 1rem }
table { border-collapse: collapse } td, th { padding: .15rem .8rem .15rem 0; text-align: left;
         vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
tr { border-bottom: 1px solid var(--line) }
.error { color: var(--bad) } .warning { color: var(--odd) } .soft { color: var(--soft) }
svg { display: block; max-width: 100%; height: auto } svg rect { fill: var(--bar) }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif } svg line { stroke: var(--line) }
figure { margin: 1rem 0 } figcaption { color: var(--soft) }
details { margin: .4rem 0 } summary { cursor: pointer } code { overflow-wrap: anywhere }
"""


def to_page(found: Validation) -> str:
    """Write a validation as HTML that needs nothing from elsewhere and runs no script.

    >>> "<svg" in to_page(Validation(sets=[SetFigures("a.jsonl", seconds=[1.0, 2.0])]))
    True
    """
    title = "Data: " + ", ".join(figures.name for figures in found.sets)
    verdict = "Nothing is broken." if found.ok else "Something is broken: see the findings in red."
    tone = "soft" if found.ok else "error"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="{tone}">{verdict} Looked at: {escape("; ".join(found.checked))}.</p>',
        _table(found.sets),
        "<h2>Findings</h2>",
        _summary(found),
        *(f"<p>{escape(note)}</p>" for note in found.notes),
        *(_kind(kind, [f for f in found.findings if f.kind == kind]) for kind in found.counts()),
        *(_set(figures) for figures in found.sets),
    ]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n'
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def histogram(values: Sequence[float], label: str, *, bins: int = 40, unit: str = "") -> str:
    """Draw how often values fall into equal ranges, as SVG.

    >>> histogram([1.0, 1.0, 3.0], "seconds").count("<rect")
    2
    """
    if not len(values):
        return ""
    counts, edges = np.histogram(values, bins=min(bins, max(1, len(set(values)))))
    bars = [
        (float(low), float(high), int(count), f"{low:.2f} to {high:.2f}{unit}: {count}")
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
    ]
    ends = float(edges[0]), float(edges[-1])
    step = (_WIDTH - _LEFT) / max(ends[1] - ends[0], 1e-9)
    most = max(int(counts.max()), 1)
    drawn = [
        _bar(_LEFT + (low - ends[0]) * step, (high - low) * step, count / most, tip)
        for low, high, count, tip in bars
        if count
    ]
    marks = [
        (_LEFT + (_WIDTH - _LEFT) * at / 4, f"{ends[0] + (ends[1] - ends[0]) * at / 4:.3g}")
        for at in range(5)
    ]
    return _picture(drawn, marks, most, label)


def bars(counts: Mapping[str, int], label: str) -> str:
    """Draw counts by name, the largest first, as SVG.

    >>> bars({"e": 3, "a": 1}, "characters").count("<rect")
    2
    """
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_BARS]
    if not ranked:
        return ""
    step = (_WIDTH - _LEFT) / len(ranked)
    most = ranked[0][1]
    drawn = [
        _bar(_LEFT + n * step + 1, max(step - 2, 1), count / most, f"{_shown(name)}: {count}")
        for n, (name, count) in enumerate(ranked)
    ]
    marks = [(_LEFT + (n + 0.5) * step, _shown(name)) for n, (name, _) in enumerate(ranked)]
    return _picture(drawn, marks, most, label)


def _bar(x: float, width: float, share: float, tip: str) -> str:
    height = max(share * _HEIGHT, 0.5)
    at = f'x="{x:.1f}" y="{_HEIGHT - height:.1f}" width="{max(width - 0.5, 0.5):.1f}" height="{height:.1f}"'
    return f"<rect {at}><title>{escape(tip)}</title></rect>"


def _picture(drawn: Sequence[str], marks: Sequence[tuple[float, str]], most: int, label: str) -> str:
    size = f'viewBox="0 -8 {_WIDTH + 12} {_HEIGHT + _FOOT + 8}" width="{_WIDTH + 12}"'
    axis = f'<line x1="{_LEFT}" y1="{_HEIGHT}" x2="{_WIDTH}" y2="{_HEIGHT}"/>'
    side = f'<text x="{_LEFT - 4}" y="8" text-anchor="end">{most}</text>'
    names = "".join(
        f'<text x="{x:.1f}" y="{_HEIGHT + 14}" text-anchor="middle">{escape(name)}</text>'
        for x, name in marks
    )
    svg = f'<svg {size} role="img" aria-label="{escape(label)}">{axis}{side}{"".join(drawn)}{names}</svg>'
    return f"<figure>{svg}<figcaption>{escape(label)}</figcaption></figure>"


def _shown(character: str) -> str:
    return "␣" if character == " " else character if character.isprintable() else f"U+{ord(character[0]):04X}"


def _table(sets: Sequence[SetFigures]) -> str:
    head = (
        "manifest",
        "entries",
        "hours",
        "shortest",
        "median",
        "longest",
        "words",
        "characters",
        "speakers",
    )
    rows: list[str] = []
    for figures in sets:
        found = figures.quantiles((0, 0.5, 1))
        seconds = [f"{found[key]:.2f} s" if found else "" for key in ("0", "0.5", "1")]
        numbers = [figures.words, len(figures.characters), len(figures.speakers)]
        cells = [figures.entries, f"{figures.hours:.2f}", *seconds, *numbers]
        numeric = "".join(f'<td class="n">{escape(str(cell))}</td>' for cell in cells)
        rows.append(f"<tr><td>{escape(figures.name)}</td>{numeric}</tr>")
    names = "".join(
        f'<th class="{align}">{name}</th>'
        for align, name in [("", head[0]), *(("n", name) for name in head[1:])]
    )
    return f"<table><tr>{names}</tr>{''.join(rows)}</table>"


def _summary(found: Validation) -> str:
    counts = found.counts()
    if not counts:
        return "<p>None.</p>"
    rows = "".join(
        f'<tr><td class="n {KINDS[kind][0]}">{count}</td><td>{KINDS[kind][1]}</td></tr>'
        for kind, count in counts.items()
    )
    return f"<table>{rows}</table>"


def _kind(kind: str, findings: Sequence[Finding]) -> str:
    level, what = KINDS[kind]
    rows = "".join(
        f"<tr><td><code>{escape(f.where)}</code></td><td><code>{escape(f.utterance)}</code></td>"
        f"<td>{escape(f.message)}</td></tr>"
        for f in findings[:_ROWS]
    )
    more = f"<p>and {len(findings) - _ROWS} more</p>" if len(findings) > _ROWS else ""
    summary = f'<summary class="{level}">{len(findings)} {what}</summary>'
    return f"<details>{summary}<table>{rows}</table>{more}</details>"


def _set(figures: SetFigures) -> str:
    rates = Counter({f"{rate} Hz": count for rate, count in figures.rates.items()})
    speakers = list(figures.speakers.values())
    parts = [
        f"<h2>{escape(figures.name)}</h2>",
        histogram(figures.seconds, "recordings by duration in seconds", unit=" s"),
        histogram([float(n) for n in figures.lengths], "texts by number of characters"),
        bars(figures.characters, f"characters: {len(figures.characters)} different ones"),
        bars(rates, "recordings by sampling rate") if len(rates) > 1 else "",
        histogram([float(n) for n in speakers], "speakers by number of recordings") if speakers else "",
    ]
    return "\n".join(part for part in parts if part)
