"""What a source remembers of its bad items, so that a run goes on with the batches that it would have had.

An item that turns out bad in the middle of a run stays in its batches and comes out empty. Were it left out
of all batches when the run goes on, as one that the first look finds bad, all later batches would change.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from neumo.types.errors import ConfigError

_MEASURED = 5000  # durations that a state holds, beside those of bad items: not as the manifest says


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Names one bad item: its index, its name, the kind of fault and what is wrong.

    `late` tells that it was found in the middle of a run: it stays in its batches and comes out empty.

    >>> Quarantined(4, "u4", "missing", "there is no file a.wav", late=True).kind
    'missing'
    """

    index: int
    item: str
    kind: str
    reason: str
    late: bool

    def to_json(self) -> dict[str, Any]:
        """Give the row of `quarantine.jsonl`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Remembered:
    """Holds what a state says: the bad items, which items took part, and durations that were measured.

    `all_measured` says whether these are all that were not as the manifest says.
    """

    bad: tuple[Quarantined, ...]
    kept: np.ndarray  # bool [N]
    measured: Mapping[int, float]
    all_measured: bool = True

    def duration(self, index: int, *, said: float, now: float) -> float:
        """Give the duration, in seconds, that an item had then: what the manifest said, or what is known now.

        >>> then = read_state(make_state([], np.ones(2, bool), np.array([1.5, 2.0]), np.array([1.0, 2.0])))
        >>> then.duration(0, said=1.0, now=0.7), then.duration(1, said=2.0, now=0.7)
        (1.5, 2.0)
        """
        if (known := self.measured.get(index)) is not None:
            return known
        return said if self.all_measured or np.isnan(now) else now


def make_state(
    bad: Sequence[Quarantined], kept: np.ndarray, seconds: np.ndarray, said: np.ndarray
) -> dict[str, Any]:
    """Write a state, ready for JSON: `kept` bool [N], `seconds` of each item and what the manifest `said`.

    >>> state = make_state([], np.array([True, False]), np.ones(2), np.ones(2))
    >>> read_state(state).kept.tolist()
    [True, False]
    """
    differ = np.flatnonzero((seconds != said) & ~np.isnan(seconds))
    of_bad = np.isin(differ, [row.index for row in bad])  # their batches are read again without them
    measured = np.concatenate([differ[of_bad], differ[~of_bad][:_MEASURED]])
    return {
        "entries": len(kept),
        "bad": [row.to_json() for row in bad],
        "kept": base64.b64encode(zlib.compress(np.packbits(kept).tobytes())).decode(),
        "measured": {"index": measured.tolist(), "seconds": seconds[measured].tolist()},
        "all_measured": len(measured) == len(differ),
    }


def read_state(state: Mapping[str, Any]) -> Remembered:
    """Read a state that `make_state` wrote; raises `ConfigError` if it is something else."""
    try:
        bits = np.frombuffer(zlib.decompress(base64.b64decode(state["kept"])), np.uint8)
        measured = state["measured"]
        return Remembered(
            bad=tuple(Quarantined(**row) for row in state["bad"]),
            kept=np.unpackbits(bits, count=state["entries"]).astype(bool),
            measured=dict(zip(measured["index"], measured["seconds"], strict=True)),
            all_measured=bool(state.get("all_measured", len(measured["index"]) < _MEASURED)),
        )
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise ConfigError(f"this is not the state of a data source: {error}", code="data-state") from error


def join_states(states: Iterable[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """Make one state of those of several processes: the first, with the bad items of all of them.

    >>> kept, seconds = np.ones(2, bool), np.ones(2)
    >>> bad = [Quarantined(1, "b", "missing", "there is no file b.wav", late=True)]
    >>> joined = join_states([make_state(found, kept, seconds, seconds) for found in ([], bad)])
    >>> [row["item"] for row in joined["bad"]]
    ['b']
    """
    known = [state for state in states if state is not None]
    if not known:
        return None
    if "sources" in known[0]:  # data layers that are read together
        rows = zip(*(state["sources"] for state in known), strict=True)
        return {"sources": [join_states(row) for row in rows]}
    bad: dict[int, Any] = {}
    seconds: dict[int, float] = {}
    for state in known:
        for row in state["bad"]:
            bad.setdefault(row["index"], row)
        measured = state["measured"]
        for index, duration in zip(measured["index"], measured["seconds"], strict=True):
            if state is known[0] or index in bad:
                seconds.setdefault(index, duration)
    return {
        **known[0],
        "bad": [bad[index] for index in sorted(bad)],
        "measured": {"index": list(seconds), "seconds": list(seconds.values())},
    }
