"""The first look at a manifest's recordings and texts: what is wrong is found before the first batch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from neumo.data.audio import AudioInfo, Wanted, audio_info
from neumo.data.decode import Origin
from neumo.data.json_lines import Problem
from neumo.data.ledger import Ledger
from neumo.data.manifest import Entry, Manifest, list_problems
from neumo.data.retry import read_patiently
from neumo.data.text import Coverage, CoverageCounter
from neumo.types.errors import DataError, Fix
from neumo.types.vocab import Vocab


@dataclass(slots=True)
class Intake:
    """Holds what the first look found: bad entries with their error, texts, and how long each recording is.

    `seconds` [N] is the duration that the header gives where it was read, and that of the manifest elsewhere;
    `text_lengths` [N] counts ids, or is None without a vocabulary.
    """

    seconds: np.ndarray
    text_lengths: np.ndarray | None = None
    coverage: Coverage | None = None
    errors: dict[int, DataError] = field(default_factory=dict)
    repeated: int = 0  # lines that name the same (piece of a) recording as an earlier one


def take_in(
    manifest: Manifest, ledger: Ledger, *, wanted: Wanted, vocab: Vocab | None, check: str, retries: int = 0
) -> Intake:
    """Look at every entry once.

    `check` is "headers" (open each file), "files" (see that it is there) or "off". Headers are read in any
    case where the manifest gives no duration. Rates and header durations go into the ledger. `retries` is
    how often a header is read again after an error of the system that may pass.
    """
    size = len(manifest)
    intake = Intake(seconds=manifest.durations.copy())
    intake.text_lengths = None if vocab is None else np.zeros(size, np.int32)
    counter = None if vocab is None else CoverageCounter(vocab)
    last: tuple[str, AudioInfo] | None = None  # pieces of one recording usually stand together
    indices = range(size)
    if check == "off" and vocab is None:
        indices = np.flatnonzero(np.isnan(intake.seconds)).tolist()
    pieces = np.zeros(size, np.int64)
    for index, entry in _entries(manifest, indices, intake.errors):
        pieces[index] = hash((entry.audio, entry.channel, entry.offset, entry.offset and entry.duration))
        try:
            if check == "headers" or np.isnan(intake.seconds[index]):
                if last is None or last[0] != entry.audio:
                    look = partial(audio_info, entry.audio, where=entry.where)
                    last = entry.audio, read_patiently(look, retries)
                info = last[1]
                intake.seconds[index] = read_header(entry, info, wanted_of(wanted, entry))
                ledger.rate[index], ledger.seconds[index] = info.rate, intake.seconds[index]
            elif check == "files" and not os.path.exists(entry.audio):
                audio_info(entry.audio, where=entry.where)  # raises what is wrong with it
        except DataError as error:
            intake.errors[index] = error
        if counter is not None and intake.text_lengths is not None:
            ids = counter.add(index, entry.text or "", f"{entry.name} ({entry.where})")
            intake.text_lengths[index] = len(ids)
    intake.coverage = None if counter is None else counter.result()
    seen = pieces[pieces != 0]
    intake.repeated = len(seen) - len(np.unique(seen))
    return intake


def _entries(
    manifest: Manifest, indices: Iterable[int], errors: dict[int, DataError]
) -> Iterator[tuple[int, Entry]]:
    for index in indices:
        try:
            entry = manifest[index]
        except DataError as error:  # its text stands in a file that cannot be read
            errors[index] = error
            continue
        yield index, entry


def read_header(entry: Entry, info: AudioInfo, wanted: Wanted) -> float:
    """Give the seconds that an entry will have; raise `DataError` if its header rules it out."""
    origin = Origin(entry.audio, entry.where)
    wanted.pick_channel(info.channels, origin)
    wanted.check_rate(info.rate, origin)
    if entry.offset is None:
        return info.seconds
    left = info.seconds - entry.offset
    if round(entry.offset * info.rate) >= info.frames:
        what = f"{entry.audio} lasts {info.seconds:.3f} s: nothing is left from {entry.offset:g} s on"
        raise origin.error("slice", what)
    return left if entry.duration is None else min(left, entry.duration)


def wanted_of(wanted: Wanted, entry: Entry) -> Wanted:
    """Give the form wanted of one entry, whose line may name a channel."""
    if entry.channel is None:
        return wanted
    return Wanted(wanted.rate, wanted.on_rate, wanted.channels, entry.channel)


def all_bad(manifest: Manifest, errors: dict[int, DataError]) -> DataError:
    """Make one error of everything that is wrong with the recordings; a single one is raised as it is."""
    if len(errors) == 1:
        return with_way_out(next(iter(errors.values())))
    problems = [_problem(manifest.where(index), error) for index, error in errors.items()]
    what = f"{len(errors)} of {len(manifest)} recordings of {', '.join(manifest.files)} cannot be used"
    raised = list_problems(what, problems, code="audio")
    raised.fixes = tuple(_distinct_fixes(errors.values()))
    return with_way_out(raised)


def with_way_out(error: DataError) -> DataError:
    """Add to what is wrong with recordings that a source can go on without them."""
    skip = Fix('on_bad="skip" leaves bad recordings out, counts and names them')
    error.fixes = (*error.fixes, skip)
    return error


def too_many_bad(
    manifest: Manifest, bad: Sequence[int], messages: dict[int, str], total: int, share: float
) -> DataError:
    """Make the error that ends a run in which too large a share of the recordings is bad."""
    what = f"{len(bad)} of {total} recordings are bad, more than the {share:.0%} that max_bad_share allows"
    problems = [_problem_of(manifest.where(i), messages.get(i, "found bad by another process")) for i in bad]
    return list_problems(what, problems, code="bad-share")


def _distinct_fixes(errors: Iterable[DataError]) -> list[Fix]:
    fixes = {fix.text: fix for error in errors for fix in error.fixes}
    return list(fixes.values())[:4]


def _problem(where: str, error: DataError) -> Problem:
    return _problem_of(where, error.what)


def _problem_of(where: str, reason: str) -> Problem:
    file, _, line = where.rpartition(":")
    return Problem(file, int(line), reason)
