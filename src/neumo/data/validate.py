"""Looks manifests through before anything is trained: figures of each, and all that is wrong with them."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from neumo.data.audio import AudioInfo, Wanted, audio_info, read_audio
from neumo.data.decode import DURATION_TOLERANCE
from neumo.data.findings import Finding, SetFigures, Validation
from neumo.data.intake import read_header
from neumo.data.json_lines import Problem
from neumo.data.manifest import Entry, Manifest, read_what_can_be_read
from neumo.data.text import CoverageCounter, describe
from neumo.types.errors import DataError
from neumo.types.vocab import Vocab

SILENCE = 10 ** (-60 / 20)  # a peak below -60 dB of full scale is no speech
_NAMED = 3  # other places that a finding names


@dataclass(frozen=True, slots=True)
class Frames:
    """Says how many frames an encoder gives for a recording, and how many a text needs.

    `of` takes seconds, `needed` ids; `text` says in words where the frames come from.

    >>> every = Frames.every(0.04)
    >>> every.of(1.01), every.needed([7, 4, 11, 11, 14])
    (26, 6)
    """

    text: str
    of: Callable[[float], int]
    needed: Callable[[Sequence[int]], int]

    @classmethod
    def every(cls, seconds: float) -> Frames:
        """One frame every so many seconds, rounded up; what a text needs is that of CTC."""

        def count(duration: float) -> int:
            return max(0, int(np.ceil(duration / seconds - 1e-9)))

        return cls(f"a frame every {1000 * seconds:g} ms", count, ctc_frames)


def ctc_frames(ids: Sequence[int]) -> int:
    """Count the frames that connectionist temporal classification needs for a text (Graves et al. 2006).

    >>> ctc_frames([1, 1, 2])
    4
    """
    return max(1, len(ids) + sum(1 for one, two in itertools.pairwise(ids) if one == two))


@dataclass(slots=True)
class _Seen:
    """What the entries so far were, to find the same again."""

    pieces: dict[tuple[object, ...], Entry] = field(default_factory=dict)
    texts: dict[tuple[str, float], Entry] = field(default_factory=dict)
    sounds: dict[bytes, Entry] = field(default_factory=dict)
    sets: dict[str, int] = field(default_factory=dict)  # manifest of each place
    speakers: dict[str, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))


def validate(
    manifests: Sequence[str | Path],
    *,
    vocab: Vocab | None = None,
    frames: Frames | None = None,
    decode: bool = False,
    text_field: str | None = None,
    wanted: Wanted | None = None,
    progress: Callable[[int], None] | None = None,
) -> Validation:
    """Look every line, every header and every text through; nothing is raised for what is wrong with them.

    >>> import pathlib, soundfile, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> soundfile.write(folder / "a.wav", np.zeros(16000, np.float32), 16000)
    >>> _ = (folder / "m.jsonl").write_text('{"audio_filepath": "a.wav", "text": ""}')
    >>> found = validate([folder / "m.jsonl"], decode=True)
    >>> [finding.kind for finding in found.findings], found.ok
    (['silent', 'empty'], True)

    `vocab` checks that every text comes back from its ids. `frames` and a vocabulary find the texts that CTC
    cannot align, one frame for each label and one between equal neighbours. `decode` reads the samples too,
    which finds silence, damage and recordings of the same samples under two names. `progress` takes the
    number of entries that are done. `wanted` says which rate and channels are right: what has others counts
    as corrupt. Raises `DataError` only for manifests of which nothing can be read.
    """
    result = Validation(checked=_checked(vocab, frames, decode))
    look = _Look(result, vocab, frames, decode, wanted or Wanted(channels="first"), progress)
    for number, path in enumerate(manifests):
        manifest, problems = read_what_can_be_read(path, text_field=text_field)
        result.findings += [Finding("line", f"{p.file}:{p.line}", "", _reason(p)) for p in problems]
        look.through(number, os.fspath(path), manifest)
        if manifest is not None:
            result.notes += [f"{os.fspath(path)}: {note}" for note in manifest.notes]
    look.speakers()
    result.findings.sort(key=_in_order([os.fspath(path) for path in manifests]))
    return result


def _checked(vocab: Vocab | None, frames: Frames | None, decode: bool) -> list[str]:
    found = ["every sample of the recordings" if decode else "headers of the recordings, not their samples"]
    if vocab is not None:
        found.append(f"texts against {vocab}")
    if vocab is not None and frames is not None:
        found.append(f"alignment by CTC with {frames.text}")
    return found


class _Look:
    """One look at all manifests; findings and figures go into `result`."""

    def __init__(
        self,
        result: Validation,
        vocab: Vocab | None,
        frames: Frames | None,
        decode: bool,
        wanted: Wanted,
        progress: Callable[[int], None] | None,
    ) -> None:
        self.result = result
        self.vocab = vocab
        self.frames = frames
        self.decode = decode
        self.wanted = wanted
        self.progress = progress
        self.seen = _Seen()
        self.done = 0
        self._last: tuple[str, AudioInfo] | None = None

    def through(self, number: int, name: str, manifest: Manifest | None) -> None:
        """Look at the entries of one manifest."""
        figures = SetFigures(name)
        self.result.sets.append(figures)
        counter = None if self.vocab is None else CoverageCounter(self.vocab)
        entries = () if manifest is None else range(len(manifest))
        for index in entries:
            assert manifest is not None
            self.done += 1
            figures.entries += 1
            try:
                entry = manifest[index]
            except DataError as error:  # its text stands in a file that cannot be read
                self._note(
                    "line", error.where or manifest.where(index), manifest.item_name(index), error.what
                )
                continue
            self.seen.sets[entry.where] = number
            seconds = self._sound(entry, figures)
            self._text(entry, figures, seconds, counter)
            self._repeats(entry, number, seconds)
            if entry.speaker is not None:
                figures.speakers[entry.speaker] += 1
                self.seen.speakers[entry.speaker].setdefault(number, name)
            if self.progress is not None:
                self.progress(self.done)
        several = sum(count for number, count in figures.channels.items() if number > 1)
        if several and self.wanted.channels == "first":
            what = f"{several} recordings have several channels; only the first was looked at"
            self.result.notes.append(
                f"{name}: {what}, and a data layer needs channels: mix, first or a number"
            )
        if counter is not None:
            self.result.notes += [f"{name}: {hint}" for hint in counter.result().hints]
        if self.vocab is not None and len(figures.characters) > len(self.vocab):
            many, few = len(figures.characters), len(self.vocab)
            self.result.notes.append(f"{name}: {many} different characters, and a vocabulary of {few} labels")

    def speakers(self) -> None:
        """Name the speakers that several manifests share."""
        for speaker, where in self.seen.speakers.items():
            if len(where) > 1:
                places = list(where.values())
                self._note("speakers", places[0], f"speaker {speaker}", f"is also in {', '.join(places[1:])}")

    def _note(self, kind: str, where: object, utterance: str, message: str) -> None:
        self.result.findings.append(Finding(kind, str(where), utterance, message))

    def _sound(self, entry: Entry, figures: SetFigures) -> float | None:
        """Read the header (and the samples) of a recording; give the seconds that will be read."""
        try:
            if self._last is None or self._last[0] != entry.audio:
                self._last = entry.audio, audio_info(entry.audio, where=entry.where)
            info = self._last[1]
            seconds = read_header(entry, info, self._wanted(entry))
            self._samples(entry)
        except DataError as error:
            kind = "missing" if error.code == "audio-missing" else "corrupt"
            self._note(kind, entry.where, entry.name, error.what)
            return None
        figures.seconds.append(seconds)
        figures.rates[info.rate] += 1
        figures.channels[info.channels] += 1
        figures.formats[info.format] += 1
        said = entry.duration
        if said is not None and abs(said - seconds) > DURATION_TOLERANCE:
            what = f"the manifest says {said:.2f} s, and it lasts {seconds:.2f} s"
            self._note("duration", entry.where, entry.name, what)
        return seconds

    def _wanted(self, entry: Entry) -> Wanted:
        wanted = self.wanted
        return Wanted(wanted.rate, wanted.on_rate, wanted.channels, entry.channel)

    def _samples(self, entry: Entry) -> None:
        if not self.decode:
            return
        wave = read_audio(
            entry.audio,
            channels=self.wanted.channels,
            channel=entry.channel,
            offset=entry.offset or 0.0,
            duration=None if entry.offset is None else entry.duration,
            where=entry.where,
        )
        peak = float(np.abs(wave.samples).max())
        if peak < SILENCE:
            level = f"{20 * np.log10(peak):.0f} dB" if peak else "nothing but zeros"
            self._note("silent", entry.where, entry.name, f"its loudest sample is {level}")
            return
        digest = hashlib.sha1(wave.samples.tobytes(), usedforsecurity=False).digest()
        first = self.seen.sounds.setdefault(digest, entry)
        if first is not entry and first.audio != entry.audio:
            self._same(entry, first, "the samples are those of")

    def _repeats(self, entry: Entry, number: int, seconds: float | None) -> None:
        """Find the same piece of a recording, or the same words at the same length, in an earlier line."""
        piece = (
            os.path.normpath(entry.audio),
            entry.channel,
            entry.offset,
            None if entry.offset is None else entry.duration,
        )
        first = self.seen.pieces.setdefault(piece, entry)
        if first is not entry:
            self._same(entry, first, "the same recording as")
            return
        text = " ".join((entry.text or "").split())
        if not text or seconds is None:
            return
        same = self.seen.texts.setdefault((text, round(seconds, 6)), entry)
        if same is not entry and (entry.speaker is None or entry.speaker == same.speaker):
            what = f"text and duration ({seconds:.3f} s) of {same.name} ({same.where})"
            self._note("same-text", entry.where, entry.name, what)

    def _same(self, entry: Entry, first: Entry, what: str) -> None:
        apart = self.seen.sets.get(first.where) != self.seen.sets.get(entry.where)
        self._note(
            "leak" if apart else "same-audio", entry.where, entry.name, f"{what} {first.name} ({first.where})"
        )

    def _text(
        self, entry: Entry, figures: SetFigures, seconds: float | None, counter: CoverageCounter | None
    ) -> None:
        text = entry.text
        if text is None:
            return
        figures.texts += 1
        figures.words += len(text.split())
        figures.characters.update(text)
        figures.lengths.append(len(text))
        if not text.strip():
            self._note("empty", entry.where, entry.name, "its text is empty")
        if counter is None:
            return
        ids, unknown, altered = counter.look(len(figures.lengths), text, entry.name)
        if unknown:
            shown = ", ".join(
                f"{describe(label)} {count}x" for label, count in Counter(unknown).most_common(_NAMED)
            )
            self._note("unknown", entry.where, entry.name, shown)
        elif altered is not None:
            self._note("altered", entry.where, entry.name, f"{text!r} comes back as {altered!r}")
        if self.frames is not None and seconds is not None:
            self._alignment(entry, self.frames.of(seconds), ids, seconds)

    def _alignment(self, entry: Entry, frames: int, ids: Sequence[int], seconds: float) -> None:
        assert self.frames is not None
        needed = self.frames.needed(ids)
        if needed > frames:
            what = f"its text needs {needed} frames, and {seconds:.2f} s give {frames}"
            self._note("infeasible", entry.where, entry.name, what)


def _reason(problem: Problem) -> str:
    return problem.reason + (f" (column {problem.column})" if problem.column else "")


def _in_order(files: Sequence[str]) -> Callable[[Finding], tuple[int, int]]:
    """Order findings by manifest and line; a Kaldi folder's are at the files in it."""

    def key(finding: Finding) -> tuple[int, int]:
        file, _, line = finding.where.rpartition(":")
        if not line.isdigit():
            file, line = finding.where, "0"
        place = next(
            (n for n, name in enumerate(files) if file == name or file.startswith(f"{name}/")), len(files)
        )
        return place, int(line)

    return key
