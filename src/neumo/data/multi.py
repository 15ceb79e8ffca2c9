"""Several data sources as one: items of the same index together, or every item with every other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from neumo.data.batches import Batches
from neumo.data.bucket import Bucketing
from neumo.data.report import DataReport
from neumo.data.source import DataSource, Remembering
from neumo.types.errors import DataError

Ports = Sequence[Sequence[tuple[str, str]]]  # by source: (port of the source, its name here)
_NAMED = 3  # items that a message names


class _Joined:
    """What both ways have in common: items that are tuples of items, and batches by port."""

    def __init__(self, sources: Sequence[DataSource], ports: Ports) -> None:
        self.sources = tuple(sources)
        self.ports = tuple(tuple(names) for names in ports)

    def split(self, index: int) -> Sequence[int]:
        """Give the index of the item in each source: the same one, unless the sources are crossed."""
        return (index,) * len(self.sources)

    def item(self, index: int, epoch: int) -> dict[str, Any]:
        """Read the items that belong together; an empty dict if one of them is skipped by policy."""
        parts: list[dict[str, Any]] = []
        for source, part in zip(self.sources, self.split(index), strict=True):
            found = source.item(part, epoch)
            if not found:
                return {}
            parts.append(found)
        return {"parts": parts, "item": index}

    def collate(self, items: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
        """Pad the items of each source as it does itself; `item` is the index of each item."""
        items = [item for item in items if item]
        if not items:
            return {}
        batch: dict[str, np.ndarray] = {}
        for number, (source, names) in enumerate(zip(self.sources, self.ports, strict=True)):
            arrays = source.collate([item["parts"][number] for item in items])
            batch |= {name: arrays[port] for port, name in names if port in arrays}
        batch.setdefault("item", np.array([item["item"] for item in items], dtype=np.int64))
        return batch

    def state(self) -> dict[str, Any]:
        """Give what a checkpoint must hold of each source, ready for JSON."""
        states = [source.state() if isinstance(source, Remembering) else None for source in self.sources]
        return {"sources": states}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Have the batches of the run that wrote this state."""
        for source, its in zip(self.sources, state["sources"], strict=True):
            if isinstance(source, Remembering) and its is not None:
                source.load_state(its)

    def name(self, index: int) -> str:
        """Give the names of the items that belong together."""
        parts = zip(self.sources, self.split(index), strict=True)
        return " with ".join(source.name(part) for source, part in parts)


class ZipSource(_Joined):
    """Puts items of the same index together; the batches are those of the first source.

    >>> class Numbers:
    ...     def __init__(self, port: str, count: int) -> None:
    ...         self.port, self.count = port, count
    ...     def __len__(self) -> int: return self.count
    ...     def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> list[list[int]]:
    ...         return [list(range(self.count))]
    ...     def item(self, index: int, epoch: int) -> dict: return {self.port: index}
    ...     def collate(self, items) -> dict: return {self.port: np.array([i[self.port] for i in items])}
    ...     def name(self, index: int) -> str: return f"{self.port}{index}"
    ...     def report(self) -> None: return None
    >>> pairs = ZipSource([Numbers("a", 2), Numbers("b", 2)], [[("a", "a")], [("b", "b")]])
    >>> len(pairs), pairs.name(1), pairs.collate([pairs.item(1, epoch=0)])
    (2, 'a1 with b1', {'a': array([1]), 'b': array([1]), 'item': array([1])})

    Raises `DataError` if the sources do not have the same items: pairs that are shifted by one would train a
    model on nonsense.
    """

    def __init__(self, sources: Sequence[DataSource], ports: Ports) -> None:
        super().__init__(sources, ports)
        first, *others = (_indices(source) for source in self.sources)
        for number, other in enumerate(others, start=1):
            if other != first:
                raise self._differ(number, first, other)

    def __len__(self) -> int:
        return len(self.sources[0])

    def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> Sequence[Sequence[int]]:
        """Give the batches of the first source."""
        return self.sources[0].batches(epoch, rank=rank, world=world)

    def report(self) -> DataReport | None:
        """Say what became of the entries of all sources."""
        return _joined_report(self.sources, len(self))

    def _differ(self, number: int, first: set[int], other: set[int]) -> DataError:
        details = [f"the first has {len(first)} items, number {number + 1} has {len(other)}"]
        for mine, theirs, where, source in (
            (first, other, "the first", self.sources[0]),
            (other, first, f"number {number + 1}", self.sources[number]),
        ):
            missing = sorted(mine - theirs)
            names = ", ".join(source.name(index) for index in missing[:_NAMED])
            more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            details += [f"only in {where}: {names}{more}"] if missing else []
        return DataError(
            "the data layers of a zip do not have the same items",
            code="zip",
            details=details,
            why="Items of the same index belong together, so each layer needs all of them.",
            fixes=[
                "let the layers keep the same items: the same lines, and the same filters",
                'how="cross" puts every item together with every other one',
            ],
        )


class ForeseeingZip(ZipSource):
    """Pairs whose first source knows the length and the text of its items before they are read."""

    @property
    def indices(self) -> np.ndarray:
        """Give the indices of the pairs that take part, int64 [len(self)]."""
        return self._first.indices

    @property
    def frames(self) -> np.ndarray:
        """Give how many samples the recording of each item of the first source has, int64 [N]."""
        return self._first.frames

    def text_ids(self, index: int) -> np.ndarray:
        """Give the text of an item of the first source as ids, int64 [U]."""
        return self._first.text_ids(index)

    def exclude(self, indices: Iterable[int], reason: str) -> None:
        """Leave pairs out from now on, for a reason that the report gives."""
        self._first.exclude(indices, reason)

    @property
    def _first(self) -> Any:
        return self.sources[0]


def zip_sources(sources: Sequence[DataSource], ports: Ports) -> ZipSource:
    """Put items of the same index together; what the first source knows beforehand the pairs know, too.

    That holds as long as its `text` and `audio_len` keep their names: by them it is known whose they are.
    """
    foresees = all(hasattr(sources[0], name) for name in ("indices", "frames", "text_ids", "exclude"))
    kept = {("text", "text"), ("audio_len", "audio_len")} <= set(ports[0])
    return ForeseeingZip(sources, ports) if foresees and kept else ZipSource(sources, ports)


class CrossSource(_Joined):
    """Puts every item of each source together with every item of the others, in batches of its own.

    The items are numbered like the digits of a number: the last source changes fastest. `seed` decides the
    order of the batches, which is a pure function of seed, epoch, rank and world.
    """

    def __init__(
        self,
        sources: Sequence[DataSource],
        ports: Ports,
        *,
        batch_size: int = 16,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(sources, ports)
        self.seed = seed
        self.bucketing = Bucketing(batch_size, None, shuffle, 0)

    def __len__(self) -> int:
        return int(np.prod([len(kept) for kept in self._kept], dtype=np.int64))

    def split(self, index: int) -> Sequence[int]:
        """Give the index of the item in each source: the digits of the number."""
        parts: list[int] = []
        for kept in reversed(self._kept):
            index, digit = divmod(index, len(kept))
            parts.append(kept[digit])
        return parts[::-1]

    def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> Batches:
        """Give batches over all combinations."""
        even = np.zeros(len(self))  # no item is longer than another as far as this can tell
        return self.bucketing.batches(even, seed=self.seed, epoch=epoch, rank=rank, world=world)

    def report(self) -> DataReport | None:
        """Say what became of the entries of all sources."""
        return _joined_report(self.sources, len(self))

    @cached_property
    def _kept(self) -> list[list[int]]:
        return [sorted(_indices(source)) for source in self.sources]


def _indices(source: DataSource) -> set[int]:
    """The items that take part; those of an epoch, where a source does not list them."""
    known = getattr(source, "indices", None)  # with weights, not every item is in every epoch
    if known is not None:
        return {int(index) for index in known}
    return {index for batch in source.batches(0) for index in batch}


def _joined_report(sources: Sequence[DataSource], kept: int) -> DataReport | None:
    """Put the reports of all sources together; None if no source reports."""
    reports: list[Any] = [source.report() for source in sources]
    known: list[DataReport] = [report for report in reports if report is not None]
    if not known:
        return None
    return replace(
        known[0],
        manifests=tuple(name for report in known for name in report.manifests),
        entries=sum(report.entries for report in known),
        kept=kept,
        hours=sum(report.hours for report in known),
        hours_kept=sum(report.hours_kept for report in known),
        dropped=tuple(dropped for report in known for dropped in report.dropped),
        checked=sum(report.checked for report in known),
        rates=_summed(report.rates for report in known),
        resampled=_summed(report.resampled for report in known),
        mismatches=tuple(found for report in known for found in report.mismatches),
        clipped=tuple(name for report in known for name in report.clipped),
        unknown=next((report.unknown for report in known if report.unknown), {}),
        quarantined=tuple(row for report in known for row in report.quarantined),
        notes=tuple(dict.fromkeys(note for report in known for note in report.notes)),
    )


def _summed(counts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    total: dict[int, int] = {}
    for each in counts:
        for key, number in each.items():
            total[key] = total.get(key, 0) + number
    return total
