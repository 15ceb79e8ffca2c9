"""Speech as a data source: recordings with texts, in batches, and an account of what was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from neumo.data.audio import ChannelPolicy, RatePolicy, Wanted, read_audio
from neumo.data.batches import Batches
from neumo.data.bucket import Bucketing, Budget
from neumo.data.cache import SampleCache
from neumo.data.decode import DURATION_TOLERANCE
from neumo.data.intake import all_bad, take_in, too_many_bad, wanted_of, with_way_out
from neumo.data.ledger import KINDS, Ledger
from neumo.data.manifest import Entry, Manifest, read_manifest
from neumo.data.pieces import encode
from neumo.data.quarantine import Quarantined, make_state, read_state
from neumo.data.report import DataReport, Dropped, Mismatch
from neumo.data.retry import read_patiently
from neumo.data.share import SharedArrays
from neumo.data.source import item_rng
from neumo.data.text import UNKNOWN_POLICIES, UnknownPolicy
from neumo.data.weights import check_weights, weigh
from neumo.types.errors import ConfigError, DataError, did_you_mean
from neumo.types.vocab import Vocab

ManifestLike = str | Path | Sequence[str | Path] | Iterable[Mapping[str, Any] | Entry] | Manifest
Perturb = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]

_CHECK_HEADERS_UP_TO = 5000  # entries; opening that many files takes about a second
_CHOICES: dict[str, tuple[str, ...]] = {
    "on_rate": ("resample", "refuse"),
    "on_bad": ("raise", "skip"),
    "on_unknown": UNKNOWN_POLICIES,
    "cache": ("off", "memory"),
    "check": ("auto", "headers", "files", "off"),
}


class SpeechSource:
    """Reads the recordings and texts of a manifest for training, evaluation or transcription.

    >>> import pathlib, soundfile, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> soundfile.write(folder / "a.wav", np.zeros(16000, np.float32), 16000)
    >>> source = SpeechSource([{"audio_filepath": folder / "a.wav", "text": "yes"}], vocab=Vocab.english())
    >>> batch = source.collate([source.item(index, epoch=0) for index in source.batches(epoch=0)[0]])
    >>> {port: array.shape for port, array in batch.items()}
    {'audio': (1, 16000), 'audio_len': (1,), 'text': (1, 3), 'text_len': (1,), 'item': (1,)}

    `manifest` is a path, several paths, a list of dicts or entries, or a `Manifest`; `vocab` None leaves the
    texts out. Everything that is wrong is found before the first batch and raised together, as one
    `DataError`.

    Recordings: `rate` (Hz) with `on_rate` "resample" or "refuse"; `channels` "refuse", "mix", "first" or a
    number (a field `channel` in a line goes before it); `min_duration` and `max_duration` in seconds.
    `on_bad` "skip" leaves bad recordings out, remembers them for all epochs and all workers, and raises once
    more than `max_bad_share` of them are bad. `check` says how closely to look first: "headers" opens every
    file, "files" sees that it is there, "auto" does the first for up to 5000 entries and the second beyond.
    `retries` is how often a recording is read again after an error of the system that may pass, such as one
    of a network drive, before it counts as bad.

    Texts: `on_unknown` "raise", "drop_utterance" or "drop_character" for characters that the vocabulary does
    not have; the dropping ones raise when more than `max_unknown_share` of the texts are affected.
    `text_field` names another key for the text.

    Batches: see `Bucketing`; `max_batch_seconds` and `max_batch_tokens` (ids of the texts) bound the padded
    size of a batch, and `bucket_window` is 16 batches when shuffling and else 0, which keeps the order of the
    manifest. `weights` says how often each of several manifests is seen in an epoch: 2 is twice, 0.5 a half
    of it, another half the next time; seed and epoch alone decide which. `cache` "memory" keeps decoded
    samples, once for all workers, if all of them fit into `cache_limit` bytes.
    `perturb(samples, rate, rng)` may change the samples of an item, with random numbers that depend on (seed,
    epoch, index) only.
    """

    def __init__(
        self,
        manifest: ManifestLike,
        *,
        vocab: Vocab | None = None,
        rate: int = 16000,
        batch_size: int = 16,
        shuffle: bool = True,
        min_duration: float | None = None,
        max_duration: float | None = None,
        channels: ChannelPolicy = "refuse",
        on_rate: RatePolicy = "resample",
        on_bad: Literal["raise", "skip"] = "raise",
        on_unknown: UnknownPolicy = "raise",
        max_bad_share: float = 0.1,
        max_unknown_share: float = 0.1,
        max_batch_seconds: float | None = None,
        max_batch_tokens: int | None = None,
        bucket_window: int | None = None,
        cache: Literal["off", "memory"] = "off",
        cache_limit: int = 1 << 30,
        text_field: str | None = None,
        check: Literal["auto", "headers", "files", "off"] = "auto",
        perturb: Perturb | None = None,
        retries: int = 2,
        weights: Sequence[float] | None = None,
        seed: int = 0,
    ) -> None:
        chosen = {
            "on_rate": on_rate,
            "on_bad": on_bad,
            "on_unknown": on_unknown,
            "cache": cache,
            "check": check,
        }
        _check_choices(chosen, channels)
        window = (16 if shuffle else 0) if bucket_window is None else bucket_window
        self.bucketing = Bucketing(
            batch_size, max_batch_seconds, shuffle, window, _token_budget(max_batch_tokens, vocab)
        )
        self.wanted = Wanted(rate, on_rate, channels)
        self.vocab = vocab
        self.rate = rate
        self.seed = seed
        self.perturb = perturb
        self.retries = retries
        self._skips = on_bad == "skip"
        self._on_unknown = on_unknown
        self._shares = (max_bad_share, max_unknown_share)
        self.manifest = _open_manifest(manifest, text_field=text_field, needs_text=vocab is not None)
        self.weights = check_weights(weights, self.manifest.files)
        self._ledger = Ledger(len(self.manifest))
        self._reasons: list[str] = []
        self._dropped = np.full(len(self.manifest), -1, np.int16)  # position in _reasons, -1 for kept
        self._notes = list(self.manifest.notes)
        self._layout: tuple[tuple[int, int], Batches] | None = None
        self._take_in(check)
        self._drop_by_duration(min_duration, max_duration)
        self._require_some()
        self._cache = self._make_cache(cache, cache_limit)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._dropped < 0))

    def __repr__(self) -> str:
        hours = float(self.seconds[self.indices].sum()) / 3600
        return (
            f"<SpeechSource of {len(self)} recordings, {hours:.2f} h, from {', '.join(self.manifest.files)}>"
        )

    @property
    def indices(self) -> np.ndarray:
        """Give the indices of the items that take part, int64 [len(self)], in the order of the manifest."""
        return np.flatnonzero(self._dropped < 0)

    @property
    def frames(self) -> np.ndarray:
        """Give how many samples each entry of the manifest should have at `rate`, int64 [N]."""
        return np.maximum(1, np.rint(np.nan_to_num(self.seconds) * self.rate)).astype(np.int64)

    @property
    def seconds(self) -> np.ndarray:
        """Give how long each entry of the manifest lasts, float64 [N], NaN where nothing is known."""
        return self._lengths["seconds"]

    @property
    def text_lengths(self) -> np.ndarray | None:
        """Give how many ids the text of each entry has, int32 [N], or None without a vocabulary."""
        return None if self.vocab is None else self._lengths["tokens"]

    def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> Batches:
        """Give the batches of one epoch for one process: a pure function of seed, epoch, rank and world."""
        if not 0 <= rank < world:
            raise ConfigError(f"rank is {rank}, expected 0 to {world - 1}", code="rank")
        if self._layout is None or self._layout[0] != (epoch, world):
            lengths = {"seconds": self.seconds}
            if self.bucketing.budgets:
                lengths["tokens"] = self._lengths["tokens"]
            layout = self.bucketing.layout(
                lengths, seed=self.seed, epoch=epoch, world=world, indices=self._seen_in(epoch)
            )
            self._layout = (epoch, world), layout  # one process may ask for the batches of several ranks
        return self._layout[1].of_rank(rank, world)

    def _seen_in(self, epoch: int) -> np.ndarray:
        """Give the items of one epoch: those that take part, as often as the weights of manifests say."""
        if self.weights is None:
            return self.indices
        return weigh(self.indices, self.manifest.file_numbers, self.weights, seed=self.seed, epoch=epoch)

    def item(self, index: int, epoch: int) -> dict[str, Any]:
        """Read one recording: `audio` float32 [T], `item` its index, and with a vocabulary `text` int64 [U].

        A bad recording raises `DataError`, or gives an empty dict where bad ones are skipped.
        """
        if self._skips and self._ledger.is_bad(index):
            return {}
        try:
            entry, samples = read_patiently(lambda: self._read(index), self.retries)
        except DataError as error:
            if not self._skips:
                with_way_out(error)
                raise
            self._ledger.mark(index, error.code.removeprefix("audio-"), error.what)
            self._check_share()
            return {}
        item: dict[str, Any] = {"audio": samples, "item": index}
        if self.vocab is not None:
            item["text"] = np.array(encode(self.vocab, entry.text or "").ids, dtype=np.int64)
        if self.perturb is not None:
            rng = item_rng(self.seed, epoch, index)
            own = samples if samples.flags.writeable else samples.copy()
            item["audio"] = np.asarray(self.perturb(own, self.rate, rng), dtype=np.float32)
        return item

    def collate(self, items: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
        """Pad items with zeros: audio [B, T] and audio_len [B], text [B, U] and text_len [B], item [B].

        Empty items are left out; an empty dict means that nothing was left.
        """
        items = [item for item in items if item]
        if not items:
            return {}
        batch: dict[str, np.ndarray] = {}
        for port, kind in (("audio", np.float32), ("text", np.int64)):
            if port in items[0]:
                batch[port], batch[f"{port}_len"] = _pad([item[port] for item in items], kind)
        batch["item"] = np.array([item["item"] for item in items], dtype=np.int64)
        return batch

    def name(self, index: int) -> str:
        """Give the id or path of an entry with file:line."""
        return self.manifest.name(index)

    def text(self, index: int) -> str:
        """Give the text of an entry as the manifest has it."""
        return self.manifest[index].text or ""

    def text_ids(self, index: int) -> np.ndarray:
        """Give the text of an entry as ids, int64 [U], without unknown characters (those were reported)."""
        if self.vocab is None:
            raise ConfigError("this source has no vocabulary, so it has no text ids", code="vocab")
        return np.array(encode(self.vocab, self.text(index)).ids, dtype=np.int64)

    def exclude(self, indices: Iterable[int], reason: str) -> None:
        """Leave entries out from now on, for a reason that the report gives; call it before the first batch.

        The hook for filters that need a model, such as one that asks an encoder for its output length.
        """
        self._drop(list(indices), reason)
        self._require_some()

    def scan(self) -> DataReport:
        """Open the header of every recording now, before the first batch, and report rates and bad files."""
        intake = take_in(
            self.manifest,
            self._ledger,
            wanted=self.wanted,
            vocab=None,
            check="headers",
            retries=self.retries,
        )
        if intake.errors and not self._skips:
            raise all_bad(self.manifest, intake.errors)
        for index, error in intake.errors.items():
            self._remember(index, error)
        return self.report()

    def report(self) -> DataReport:
        """Say what was dropped, resampled, clipped or noticed so far, in all workers of this machine."""
        ledger, durations = self._ledger, self.seconds
        good = (self._dropped < 0) & (ledger.bad == 0)
        rates = {int(r): int(np.count_nonzero(ledger.rate == r)) for r in np.unique(ledger.rate) if r}
        return DataReport(
            manifests=self.manifest.files,
            entries=len(self.manifest),
            kept=int(np.count_nonzero(good)),
            hours=float(np.nansum(durations)) / 3600,
            hours_kept=float(np.nansum(durations[good])) / 3600,
            dropped=tuple(self._dropped_entries()),
            checked=int(np.count_nonzero(ledger.rate)),
            target_rate=self.rate,
            rates=rates,
            resampled={rate: count for rate, count in rates.items() if rate != self.rate},
            mismatches=tuple(self._mismatches()),
            tolerance=DURATION_TOLERANCE,
            clipped=tuple(self.name(int(i)) for i in np.flatnonzero(ledger.clipped)),
            unknown={} if self.coverage is None else self.coverage.to_json(),
            quarantined=tuple(self.quarantined),
            notes=tuple(self._notes),
        )

    def quarantine(self, items: Iterable[int | str], reason: str) -> None:
        """Let items, given by index or name, come out empty from now on; the batches stay what they are."""
        self._require_skipping("items are to be put in quarantine")
        for item in items:
            index = self.manifest.find(item) if isinstance(item, str) else item
            self._ledger.mark(index, "other", reason)
        self._check_share()

    @property
    def quarantined(self) -> list[Quarantined]:
        """List the bad items that were found so far, by all processes of this machine, by index."""
        messages = self._ledger.messages()
        return [
            Quarantined(
                index,
                self.manifest.item_name(index),
                KINDS[self._ledger.bad[index]],
                messages.get(index, ""),
                late=bool(self._dropped[index] < 0),
            )
            for index in np.flatnonzero(self._ledger.bad).tolist()
        ]

    def state(self) -> dict[str, Any]:
        """Give what a checkpoint must hold, ready for JSON: which items are bad, and which took part."""
        return make_state(self.quarantined, self._dropped < 0, self.seconds, self.manifest.durations)

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Have the batches of the run that wrote this state, whatever has broken or come back since.

        What the first look found bad then is in no batch; what broke later, or has broken since, stays in its
        batches and comes out empty. States of several processes add up.
        """
        then = read_state(state)
        if then.bad:
            self._require_skipping(f"the run that goes on left out {len(then.bad)} bad recordings")
        if len(then.kept) != len(self.manifest):
            before, now = len(then.kept), len(self.manifest)
            self._notes.append(f"the manifest has {now} entries and had {before}: the batches differ")
            return
        involved = np.flatnonzero(self._ledger.bad).tolist()
        for row in then.bad:
            involved.append(row.index)
            self._ledger.mark(row.index, row.kind, row.reason)
        seconds = np.array(self.seconds)
        for index in involved:
            said = float(self.manifest.durations[index])
            seconds[index] = then.duration(index, said=said, now=seconds[index])
            if then.kept[index]:
                self._dropped[index] = -1
            else:
                self._drop([index], _bad_reason(KINDS[self._ledger.bad[index]]))
        self._lengths = SharedArrays({"seconds": seconds, "tokens": self._lengths["tokens"]})
        self._layout = None
        self._check_share()
        self._require_some()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_layout": None}

    def _read(self, index: int) -> tuple[Entry, np.ndarray]:
        entry = self.manifest[index]
        return entry, self._samples(index, entry)

    def _samples(self, index: int, entry: Entry) -> np.ndarray:
        if self._cache is not None and (known := self._cache.get(index)) is not None:
            return known
        wanted = wanted_of(self.wanted, entry)
        wave = read_audio(
            entry.audio,
            rate=wanted.rate,
            on_rate=wanted.on_rate,
            channels=wanted.channels,
            channel=wanted.channel,
            offset=entry.offset or 0.0,
            duration=None if entry.offset is None else entry.duration,
            where=entry.where,
        )
        self._ledger.rate[index], self._ledger.seconds[index] = wave.source_rate, wave.seconds
        self._ledger.clipped[index] = wave.clipped > 0
        if self._cache is not None:
            self._cache.put(index, wave.samples)
        return wave.samples

    def _take_in(self, check: str) -> None:
        if check == "auto":
            check = "headers" if len(self.manifest) <= _CHECK_HEADERS_UP_TO else "files"
        intake = take_in(
            self.manifest,
            self._ledger,
            wanted=self.wanted,
            vocab=self.vocab,
            check=check,
            retries=self.retries,
        )
        tokens = np.zeros(0, np.int32) if intake.text_lengths is None else intake.text_lengths
        self._lengths = SharedArrays({"seconds": intake.seconds, "tokens": tokens})
        self.coverage = intake.coverage
        without = int(np.count_nonzero(np.isnan(self.manifest.durations)))
        if without:
            self._notes.append(f"{without} lines have no duration; it was read from the files")
        if intake.repeated:
            self._notes.append(f"{intake.repeated} lines name a recording that an earlier line names already")
        if intake.errors and not self._skips:
            raised = all_bad(self.manifest, intake.errors)
            if self.coverage is not None and not self.coverage.complete and self._on_unknown == "raise":
                raised.also = (self.coverage.error(", ".join(self.manifest.files)),)
            raise raised
        for index, error in intake.errors.items():
            self._remember(index, error)
        self._check_share()
        self._drop_by_text()

    def _drop_by_text(self) -> None:
        coverage = self.coverage
        if coverage is None or coverage.complete:
            return
        where = ", ".join(self.manifest.files)
        if self._on_unknown == "raise":
            raise coverage.error(where)
        if coverage.share > self._shares[1]:
            allowed = f"max_unknown_share allows {self._shares[1]:.0%}"
            why = f"{coverage.share:.0%} of the texts are affected; {allowed}."
            raise coverage.error(where, why=why)
        if self._on_unknown == "drop_utterance":
            self._drop(coverage.affected, "characters that are not in the vocabulary")

    def _drop_by_duration(self, least: float | None, most: float | None) -> None:
        usable = self._dropped < 0
        if least is not None:
            self._drop(np.flatnonzero(usable & (self.seconds < least)), f"shorter than {least:g} s")
        if most is not None:
            self._drop(np.flatnonzero(usable & (self.seconds > most)), f"longer than {most:g} s")

    def _drop(self, indices: Sequence[int] | np.ndarray, reason: str) -> None:
        """Keep entries out of every batch; the first reason stays."""
        chosen = [int(index) for index in indices if self._dropped[index] < 0]
        if not chosen:
            return
        if reason not in self._reasons:
            self._reasons.append(reason)
        self._dropped[chosen] = self._reasons.index(reason)
        self._layout = None

    def _require_some(self) -> None:
        if len(self):
            return
        details = [str(dropped) for dropped in self._dropped_entries()]
        what = f"no recordings of {', '.join(self.manifest.files)} are left"
        raise DataError(what, code="no-data", details=details)

    def _remember(self, index: int, error: DataError) -> None:
        """Mark what the first look found bad, and keep it out of every batch."""
        kind = error.code.removeprefix("audio-")
        self._ledger.mark(index, "text" if error.code == "text-file" else kind, error.what)
        self._drop([index], _bad_reason(KINDS[self._ledger.bad[index]]))

    def _check_share(self) -> None:
        bad = np.flatnonzero(self._ledger.bad).tolist()
        total = len(self.manifest)
        if len(bad) > self._shares[0] * total:
            raise too_many_bad(self.manifest, bad, self._ledger.messages(), total, self._shares[0])

    def _require_skipping(self, why: str) -> None:
        if not self._skips:
            raise ConfigError(
                f"{why}, and on_bad is 'raise'",
                code="quarantine",
                why="Only a source that skips bad recordings can go on without them.",
                fixes=['on_bad="skip"'],
            )

    def _make_cache(self, cache: str, limit: int) -> SampleCache | None:
        if cache == "off":
            return None
        frames = np.where(self._dropped < 0, self.frames, 0)
        need = SampleCache.size_of(frames)
        if need <= limit:
            try:
                return SampleCache(frames)
            except OSError as error:
                self._notes.append(f"samples are not cached: {error.strerror or error}")
                return None
        self._notes.append(
            f"samples are not cached: they take {need / 1e9:.1f} GB, cache_limit is {limit / 1e9:.1f} GB"
        )
        return None

    def _dropped_entries(self) -> list[Dropped]:
        """List what was left out: by filters, by the first look, and in the middle of the run."""
        bad, messages = self._ledger.bad, self._ledger.messages()
        groups = [
            (reason, np.flatnonzero((self._dropped == n) & (bad == 0)))
            for n, reason in enumerate(self._reasons)
        ]
        groups += [(_bad_reason(kind), self._ledger.bad_indices(kind)) for kind in KINDS[1:]]
        dropped: list[Dropped] = []
        for reason, indices in groups:
            if len(indices):
                hours = float(np.nansum(self.seconds[indices])) / 3600
                names = tuple(_account(self.name(int(i)), messages.get(int(i))) for i in indices)
                dropped.append(Dropped(reason, len(indices), hours, names))
        return dropped

    def _mismatches(self) -> list[Mismatch]:
        said, lasts = self.manifest.durations, self._ledger.seconds
        off = np.abs(said - lasts)
        found = np.flatnonzero((lasts > 0) & (off > DURATION_TOLERANCE))
        order = found[np.argsort(-off[found], kind="stable")]
        return [Mismatch(self.name(int(i)), float(said[i]), float(lasts[i])) for i in order]


def _token_budget(most: int | None, vocab: Vocab | None) -> tuple[Budget, ...]:
    if most is not None and vocab is None:
        raise ConfigError("max_batch_tokens counts the ids of texts, and there is no vocab", code="vocab")
    return () if most is None else (Budget(most, of=("tokens",)),)


def _account(name: str, message: str | None) -> str:
    return name + (f": {message}" if message else "")


def _bad_reason(kind: str) -> str:
    return f"bad recording ({kind})"


def _pad(arrays: Sequence[np.ndarray], kind: Any) -> tuple[np.ndarray, np.ndarray]:
    """Give [B, longest] with zeros behind, and the lengths [B]; the longest counts as at least 1."""
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    padded = np.zeros((len(arrays), max(1, int(lengths.max()))), dtype=kind)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    return padded, lengths


def _open_manifest(manifest: ManifestLike, *, text_field: str | None, needs_text: bool) -> Manifest:
    if isinstance(manifest, Manifest):
        return manifest
    if isinstance(manifest, str | Path):
        return read_manifest(manifest, text_field=text_field, needs_text=needs_text)
    parts = list(manifest)
    paths = [part for part in parts if isinstance(part, str | Path)]
    if paths and len(paths) == len(parts):
        return read_manifest(paths, text_field=text_field, needs_text=needs_text)
    if paths:
        raise ConfigError("a manifest is a list of paths or a list of entries, not both", code="manifest")
    entries = [part for part in parts if not isinstance(part, str | Path)]
    return Manifest.of(entries, text_field=text_field, needs_text=needs_text)


def _check_choices(chosen: Mapping[str, str], channels: ChannelPolicy) -> None:
    for field, value in chosen.items():
        if value not in _CHOICES[field]:
            wanted = ", ".join(map(repr, _CHOICES[field]))
            fixes = did_you_mean(str(value), _CHOICES[field])
            raise ConfigError(f"{field} is {value!r}, expected one of {wanted}", code="policy", fixes=fixes)
    number = isinstance(channels, int) and not isinstance(channels, bool) and channels >= 0
    if not number and channels not in ("refuse", "mix", "first"):
        what = f"channels is {channels!r}, expected 'refuse', 'mix', 'first' or a number from 0"
        raise ConfigError(what, code="policy")
