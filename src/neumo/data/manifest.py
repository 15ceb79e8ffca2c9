"""Manifests: which recordings there are, how long they last and what is said in them."""

from __future__ import annotations

import json
import os
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from neumo.data.containers import sniff
from neumo.data.cuts import is_cut, line_of_cut
from neumo.data.fields import BadFields, Fields, extra_fields, read_fields, unknown_note
from neumo.data.json_lines import Found, Problem, scan, unwrap
from neumo.data.kaldi import read_kaldi
from neumo.data.share import SharedArrays
from neumo.types.errors import DataError, did_you_mean

SHOWN = 20  # problems that are printed; the rest are counted


@dataclass(frozen=True, slots=True)
class Entry:
    """Holds one line of a manifest: a recording, or a piece of one, with its text.

    `duration` and `offset` are in seconds. An entry with an `offset` is a piece: exactly `duration` seconds
    from there are read. Without `offset` the whole file is read, and `duration` is what the manifest says
    about it. `channel` counts from 0. `extra` keeps the fields neumo has no meaning for. `where` is
    file:line.
    """

    audio: str
    duration: float | None = None
    text: str | None = None
    offset: float | None = None
    speaker: str | None = None
    channel: int | None = None
    id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    audio_filepath: str = ""
    where: str = ""

    @property
    def name(self) -> str:
        """Give what messages call this entry: its id, or else its path as it was written."""
        return self.id or self.audio_filepath


# Where each entry lies: the name and the type of each column, one row per entry.
_COLUMNS = (
    ("file", "i", np.int32),  # position in `Manifest.files`
    ("line", "i", np.int32),  # counted from 1
    ("start", "q", np.int64),  # first byte in the blob of the file
    ("stop", "q", np.int64),
    ("duration", "d", np.float64),  # seconds, NaN where the manifest does not say
)


class Manifest(Sequence[Entry]):
    """Holds a list of recordings in little memory: the bytes of the manifest and one row of numbers per line.

    >>> manifest = Manifest.of([{"audio_filepath": "a.wav", "duration": 1.5, "text": "yes"}])
    >>> len(manifest), manifest[0].text, manifest[0].duration
    (1, 'yes', 1.5)

    Entries are parsed when they are asked for, so a million lines cost about what the file weighs, and worker
    processes share them, forked or spawned. Read files with `read_manifest`.
    """

    def __init__(
        self,
        files: Sequence[str],
        folders: Sequence[str],
        arrays: SharedArrays,
        *,
        text_field: str | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.files = tuple(files)
        self.notes = tuple(notes)
        self._folders = tuple(folders)
        self._arrays = arrays  # one for each of _COLUMNS, and the bytes of each file by its number
        self._text_field = text_field

    @classmethod
    def of(
        cls,
        entries: Iterable[Mapping[str, Any] | Entry],
        *,
        folder: str | Path = ".",
        text_field: str | None = None,
        needs_text: bool = False,
    ) -> Manifest:
        """Make a manifest of dicts with the fields of a line; relative paths are relative to `folder`."""
        lines = [json.dumps(_as_line(entry), default=_plain) for entry in entries]
        reader = _Reader(text_field=text_field, needs_text=needs_text)
        reader.add("\n".join(lines).encode(), "entries", os.fspath(folder))
        return reader.finish()

    @property
    def durations(self) -> np.ndarray:
        """Give what the manifest says about durations, float64 [N] in seconds, NaN where it says nothing."""
        return self._arrays["duration"]

    @property
    def file_numbers(self) -> np.ndarray:
        """Give the position in `files` of each entry's manifest, int32 [N]."""
        return self._arrays["file"]

    def __len__(self) -> int:
        return len(self._arrays["start"])

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> list[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | list[Entry]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"entry {index} of a manifest of {len(self)}")
        return self._entry(index % len(self))

    def __iter__(self) -> Iterator[Entry]:
        return (self._entry(index) for index in range(len(self)))

    def __repr__(self) -> str:
        hours = float(np.nansum(self.durations)) / 3600
        return f"<Manifest of {len(self)} entries, {hours:.2f} h, from {', '.join(self.files)}>"

    def where(self, index: int) -> str:
        """Give file:line of an entry."""
        return f"{self.files[self._arrays['file'][index]]}:{self._arrays['line'][index]}"

    def name(self, index: int) -> str:
        """Give what messages call an entry: id or path, and file:line in brackets."""
        return f"{self.item_name(index)} ({self.where(index)})"

    def item_name(self, index: int) -> str:
        """Give the id of an entry, or else its path as it was written."""
        fields = read_fields(self.record(index), text_field=self._text_field, needs_text=False)
        return fields.id or fields.audio_filepath

    def find(self, name: str) -> int:
        """Give the index of the entry that messages call so, with or without its file:line.

        Raises `DataError` if there is none.
        """
        for index in range(len(self)):
            if name in (self.item_name(index), self.name(index)):
                return index
        raise DataError(f"{', '.join(self.files)} has no entry {name!r}", code="manifest-entry")

    def record(self, index: int) -> dict[str, Any]:
        """Give a line as it was written, a lhotse cut as the manifest line it stands for."""
        arrays = self._arrays
        blob = arrays[str(arrays["file"][index])]
        record = json.loads(blob[arrays["start"][index] : arrays["stop"][index]].tobytes())
        return line_of_cut(record) if is_cut(record) else record

    def _entry(self, index: int) -> Entry:
        record = self.record(index)
        fields = read_fields(record, text_field=self._text_field, needs_text=False)
        folder, where = self._folders[self._arrays["file"][index]], self.where(index)
        return Entry(
            audio=locate(fields.audio_filepath, folder),
            duration=fields.duration,
            text=_text_of(fields, folder, where),
            offset=fields.offset,
            speaker=fields.speaker,
            channel=fields.channel,
            id=fields.id,
            extra=extra_fields(record, self._text_field),
            audio_filepath=fields.audio_filepath,
            where=where,
        )


def read_manifest(
    paths: str | Path | Sequence[str | Path], *, text_field: str | None = None, needs_text: bool = False
) -> Manifest:
    """Read one or several manifests and check every line.

    JSON lines, a JSON array and lhotse cuts are told apart by their content; each may be gzipped. A folder
    with a wav.scp is read as Kaldi does, without executing commands (`neumo.data.kaldi`).

    Relative paths inside are relative to their manifest. `text_field` names another key for the text, such as
    `normalized_text`. Raises `DataError` that lists all faulty lines of all files at once.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "train.jsonl").write_text('{"audio_filepath": "a.wav", "text": "yes"}\\n')
    >>> read_manifest(folder / "train.jsonl")[0].audio == str(folder / "a.wav")
    True
    """
    reader = _Reader(text_field=text_field, needs_text=needs_text)
    for path in [paths] if isinstance(paths, str | Path) else paths:
        reader.add_path(path)
    return reader.finish()


def read_what_can_be_read(
    path: str | Path, *, text_field: str | None = None
) -> tuple[Manifest | None, list[Problem]]:
    """Read the good lines of a manifest, and list what is wrong with the others; None where none is good.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.jsonl"
    >>> _ = path.write_text('{"audio_filepath": "a.wav"}\\n{"audio_filepath": 3}')
    >>> manifest, problems = read_what_can_be_read(path)
    >>> len(manifest), problems[0].line
    (1, 2)
    """
    reader = _Reader(text_field=text_field, needs_text=False)
    reader.add_path(path)
    problems = list(reader.problems)
    reader.problems.clear()
    return (reader.finish() if len(reader.columns[0]) else None), problems


def write_manifest(path: str | Path, entries: Iterable[Mapping[str, Any]]) -> None:
    """Write dicts as JSON lines.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.jsonl"
    >>> write_manifest(path, [{"audio_filepath": "ä.wav", "text": "ja"}])
    >>> read_manifest(path)[0].text
    'ja'
    """
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for entry in entries:
            file.write(json.dumps(dict(entry), ensure_ascii=False) + "\n")


def locate(path: str, folder: str) -> str:
    """Find the file that a manifest in `folder` means by `path`.

    `~` is the home folder, a relative path is relative to the manifest, and where there is no file of exactly
    that name, backslashes are read as slashes and accents in their other Unicode form. Returns the plain
    reading if no file is found, which then makes the message.

    >>> locate("clips/a.wav", "/data")
    '/data/clips/a.wav'
    """
    plain = os.path.join(folder, os.path.expanduser(path))
    if "\\" not in path and path.isascii():
        return plain
    slashed = path.replace("\\", "/")
    for spelling in (path, slashed, *(unicodedata.normalize(form, slashed) for form in ("NFC", "NFD"))):
        place = os.path.join(folder, os.path.expanduser(spelling))
        if os.path.exists(place):
            return place
    return os.path.join(folder, os.path.expanduser(slashed))


def list_problems(what: str, problems: Sequence[Problem], *, code: str, why: str = "") -> DataError:
    """Make one error of many problems: the first 20 in words, all of them as data."""
    details = [str(problem) for problem in problems[:SHOWN]]
    if len(problems) > SHOWN:
        details.append(f"... and {len(problems) - SHOWN} more")
    rows = [{"where": p.place, "reason": p.reason} for p in problems]
    return DataError(
        what, code=code, details=details, why=why, data={"problems": rows, "count": len(problems)}
    )


class _Reader:
    """Gathers the lines of several manifests, and everything that is wrong with them."""

    def __init__(self, *, text_field: str | None, needs_text: bool) -> None:
        self.text_field = text_field
        self.needs_text = needs_text
        self.files: list[str] = []
        self.folders: list[str] = []
        self.blobs: list[bytes] = []
        self.problems: list[Problem] = []
        self.notes: dict[str, None] = {}
        self.columns = tuple(array(code) for _, code, _ in _COLUMNS)
        self._keys: set[str] = set()

    def add_path(self, path: str | Path) -> None:
        """Read one file, or a Kaldi folder."""
        place = os.path.expanduser(os.fspath(path))
        if os.path.isdir(place):
            self._add_kaldi(place, os.fspath(path))
            return
        self.add(_read_bytes(place), os.fspath(path), os.path.dirname(os.path.abspath(place)))

    def add(self, blob: bytes, name: str, folder: str) -> None:
        """Read one file's bytes."""
        blob = _open(blob, name)
        number, before = len(self.files), len(self.columns[0]) + len(self.problems)
        self.files.append(name)
        self.folders.append(folder)
        self.blobs.append(blob)
        for found in scan(blob, name):
            if isinstance(found, Problem):
                self.problems.append(found)
            else:
                self._take(found, number)
        if len(self.columns[0]) + len(self.problems) == before:
            raise DataError(f"manifest {name} has no entries", code="manifest-empty", where=name)

    def _add_kaldi(self, place: str, name: str) -> None:
        """Read a Kaldi folder: its lines of segments (or wav.scp) become those of a manifest."""
        found = read_kaldi(place)
        self.problems += [replace(p, file=p.file.replace(place, name, 1)) for p in found.problems]
        self.notes |= dict.fromkeys(found.notes)
        if found.lines or not found.problems:
            self.add("\n".join(found.lines).encode(), found.name.replace(place, name, 1), place)

    def _take(self, found: Found, file: int) -> None:
        try:
            record = line_of_cut(found.value) if is_cut(found.value) else found.value
            fields = read_fields(record, text_field=self.text_field, needs_text=self.needs_text)
        except BadFields as error:
            self.problems.append(Problem(self.files[file], found.line, str(error)))
            return
        files, lines, starts, stops, durations = self.columns
        files.append(file)
        lines.append(found.line)
        starts.append(found.start)
        stops.append(found.stop)
        durations.append(float("nan") if fields.duration is None else fields.duration)
        self._note(record)

    def _note(self, record: Mapping[str, Any]) -> None:
        for key in record.keys() - self._keys:
            self._keys.add(key)
            note = unknown_note(key) if key != self.text_field else None
            if note:
                self.notes[note] = None

    def finish(self) -> Manifest:
        """Give the manifest, or raise everything that is wrong at once."""
        if self.problems:
            total = len(self.columns[0]) + len(self.problems)
            names = self.files[0] if len(self.files) == 1 else f"{len(self.files)} manifests"
            what = f"{len(self.problems)} of {total} lines of {names} cannot be read"
            raise list_problems(what, self.problems, code="manifest")
        arrays: dict[str, np.ndarray] = {
            name: np.frombuffer(column, dtype=kind)
            for (name, _, kind), column in zip(_COLUMNS, self.columns, strict=True)
        }
        arrays |= {str(number): np.frombuffer(blob, np.uint8) for number, blob in enumerate(self.blobs)}
        return Manifest(
            self.files,
            self.folders,
            SharedArrays(arrays),
            text_field=self.text_field,
            notes=list(self.notes),
        )


def _as_line(entry: Mapping[str, Any] | Entry) -> dict[str, Any]:
    if not isinstance(entry, Entry):
        return {key: os.fspath(v) if isinstance(v, os.PathLike) else v for key, v in entry.items()}
    names = ("duration", "text", "offset", "speaker", "channel", "id")
    known = {name: getattr(entry, name) for name in names if getattr(entry, name) is not None}
    return {"audio_filepath": entry.audio, **known, **entry.extra}


def _plain(value: Any) -> Any:
    """Give the Python number of a numpy scalar, and the name of anything else."""
    return value.item() if isinstance(value, np.generic) else repr(value)


def _open(blob: bytes, name: str) -> bytes:
    """Give the text of a manifest, and refuse what is plainly something else by what it holds."""
    try:
        text = unwrap(blob)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"manifest {name} is damaged: {error}", code="manifest", where=name) from error
    head = text[:64].lstrip()
    if not head or head[:1] in (b"{", b"["):
        return text
    kind = sniff(text[:512])
    if kind == "unknown" and b"\0" not in text[:512]:
        return text
    what = f"manifest {name} holds {kind if kind != 'unknown' else 'binary data'}, not lines of JSON"
    raise DataError(what, code="manifest", where=name, fixes=["give a file with one JSON object a line"])


def _read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError as error:
        folder, name = os.path.split(os.path.abspath(path))
        beside = os.listdir(folder) if os.path.isdir(folder) else []
        fixes = did_you_mean(name, beside) if beside else [f"there is no folder {folder} either"]
        raise DataError(
            f"there is no manifest {path}", code="manifest-missing", where=path, fixes=fixes
        ) from error
    except OSError as error:
        what = f"manifest {path} cannot be opened: {error.strerror}"
        raise DataError(what, code="manifest-missing", where=path) from error


def _text_of(fields: Fields, folder: str, where: str) -> str | None:
    if fields.text is not None or fields.text_filepath is None:
        return fields.text
    path = locate(fields.text_filepath, folder)
    try:
        return Path(path).read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"text_filepath {path} cannot be read: {error}", code="text-file", where=where
        ) from error
