"""A public corpus made ready: archives fetched, checked and unpacked, and a manifest for each set."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neumo.data.audio import audio_info
from neumo.data.corpora import Archive, Corpus
from neumo.data.corpora.corpus import Line
from neumo.data.download import digest_of, download
from neumo.data.unpack import unpack
from neumo.types.errors import ConfigError, DataError, did_you_mean

Say = Callable[[str], None]

_STATE = ".neumo"  # folder that remembers what was unpacked; an archive in the middle of it has a file there
_ARCHIVES = "archives"


@dataclass(frozen=True, slots=True)
class Made:
    """Says what became of one set: its manifest, how many recordings and hours, and what was left out."""

    manifest: Path
    entries: int
    hours: float
    left_out: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Give the figures as plain values."""
        return {
            "manifest": str(self.manifest),
            "entries": self.entries,
            "hours": round(self.hours, 4),
            "left_out": list(self.left_out),
        }


@dataclass(slots=True)
class Prepared:
    """Says what a preparation did: a `Made` for each set by name, and what is worth knowing."""

    corpus: Corpus
    sets: dict[str, Made] = field(default_factory=dict[str, Made])
    notes: list[str] = field(default_factory=list[str])

    def to_json(self) -> dict[str, Any]:
        """Give everything as plain values."""
        corpus = self.corpus
        return {
            "corpus": corpus.name,
            "title": corpus.title,
            "licence": corpus.licence,
            "home": corpus.home,
            "sets": {name: made.to_json() for name, made in self.sets.items()},
            "notes": self.notes,
        }


def prepare(
    corpus: Corpus,
    root: str | Path,
    *,
    archives: str | Path | None = None,
    url: str = "",
    parts: Sequence[str] = (),
    say: Say = lambda _line: None,
    progress: Callable[[str, int, int | None], None] = lambda _what, _done, _total: None,
) -> Prepared:
    """Fetch, check and unpack a corpus below `root`, and write a manifest beside it for each of its sets.

    What is there is used: an unpacked corpus below `root`, archives in the folder `archives` or in
    `root/archives`. Only the rest is fetched, from the publisher or from `url`, a mirror with the same files.
    `parts` names what is wanted of a corpus of several archives. A recording that cannot be read is in no
    manifest and named in `left_out`. Raises `DataError`, `ConfigError` for parts that there are not.
    """
    place = Path(root).expanduser()
    result = Prepared(corpus)
    wanted = _chosen(corpus, parts)
    place.mkdir(parents=True, exist_ok=True)
    if not corpus.archives:
        _unpack_by_hand(corpus, place, archives, say, progress)
    for archive in wanted:
        if _is_there(corpus, place, archive):
            say(f"{archive.part or corpus.name}: unpacked already")
            continue
        file = _find(corpus, archive, place, archives)
        if file is None:
            file = _fetch(corpus, archive, place, url, say, progress)
        else:
            _check_local(archive, file, say)
        if archive.checksum is None:
            result.notes.append(f"{file.name}: no checksum published here, so its content was not compared")
        _unpack(file, archive.file, place, say, progress)
    _unpack_nested(corpus, place, say, progress)
    for name, lines in corpus.layout(place).items():
        result.sets[name] = write_set(place, name, lines, progress)
    result.notes += corpus.notes
    return result


def write_set(
    root: Path,
    name: str,
    lines: Iterable[Line],
    progress: Callable[[str, int, int | None], None] = lambda _what, _done, _total: None,
) -> Made:
    """Write the manifest of one set: paths relative to it, durations from the headers of the recordings."""
    target = root / f"{name}.jsonl"
    part = target.with_name(f".{target.name}.part")
    left_out: list[str] = []
    seconds, count = 0.0, 0
    with part.open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            audio = Path(line["audio_filepath"])
            try:
                duration = audio_info(audio).seconds
            except DataError as error:
                left_out.append(f"{line.get('id', audio.stem)}: {error.what}")
                continue
            relative = Path(os.path.relpath(audio, root)).as_posix()
            row = {**line, "audio_filepath": relative, "duration": round(duration, 4)}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            seconds, count = seconds + duration, count + 1
            progress(f"writing {target.name}", count, None)
    if not count:
        part.unlink()
        raise DataError(
            f"no recording of the set {name!r} could be read below {root}",
            code="corpus-layout",
            details=left_out[:5],
        )
    os.replace(part, target)
    return Made(target, count, seconds / 3600, tuple(left_out))


def _chosen(corpus: Corpus, parts: Sequence[str]) -> list[Archive]:
    for part in parts:
        if part not in corpus.parts:
            known = f"it has {', '.join(corpus.parts)}" if corpus.parts else "it comes as a whole"
            raise ConfigError(
                f"the corpus {corpus.name} has no part {part!r}",
                code="corpus-name",
                details=[known],
                fixes=did_you_mean(part, corpus.parts),
            )
    return [archive for archive in corpus.archives if not parts or archive.part in parts]


def _is_there(corpus: Corpus, root: Path, archive: Archive) -> bool:
    """Tell whether an archive is unpacked: by us as a whole, or by somebody else, who left no trace of it."""
    if (root / _STATE / f"{archive.file}.done").is_file():
        return True
    if (root / _STATE).is_dir() and any((root / _STATE).glob("*.unpacking")):
        return False
    try:
        sets = corpus.layout(root)
    except DataError:
        return False
    return not archive.part or archive.part in sets


def _find(corpus: Corpus, archive: Archive, root: Path, archives: str | Path | None) -> Path | None:
    """Find an archive in the folders given; one that is asked for there and lacks is an error."""
    folders = [root / _ARCHIVES]
    if archives is not None:
        folders.insert(0, Path(archives).expanduser())
        if not folders[0].is_dir():
            raise DataError(f"there is no folder {folders[0]}", code="archive")
    for folder in folders:
        for pattern in (archive.file, *corpus.patterns):
            found = sorted(path for path in folder.glob(pattern) if path.is_file())
            if found:
                return found[0]
    if archives is None:
        return None
    there = sorted(path.name for path in folders[0].iterdir())[:8]
    raise DataError(
        f"{folders[0]} does not have {archive.file}",
        code="archive",
        details=[f"it has {', '.join(there)}" if there else "it is empty"],
        fixes=[f"fetch it from {corpus.url}{archive.file}", *([f"--part {p}" for p in corpus.parts[:2]])],
    )


def _check_local(archive: Archive, file: Path, say: Say) -> None:
    checksum = archive.checksum
    if checksum is None or file.name != archive.file:
        return
    say(f"{file.name}: comparing its {checksum.name} with the published one")
    found = digest_of(file, checksum.name)
    if found != checksum.digest:
        raise DataError(
            f"{file} is not the file that was published",
            code="checksum",
            details=[f"{checksum.name} published {checksum.digest}", f"{checksum.name} of the file {found}"],
            fixes=["fetch it again", "rename it, if you know that it is another version that you want"],
        )


def _fetch(
    corpus: Corpus,
    archive: Archive,
    root: Path,
    url: str,
    say: Say,
    progress: Callable[[str, int, int | None], None],
) -> Path:
    address = archive.url or (url.rstrip("/") + "/" if url else corpus.url) + archive.file
    say(f"{archive.file}: fetching {address}")
    return download(
        address,
        root / _ARCHIVES / archive.file,
        checksum=archive.checksum,
        progress=lambda done, total: progress(f"fetching {archive.file}", done, total),
    )


def _unpack(
    file: Path, name: str, root: Path, say: Say, progress: Callable[[str, int, int | None], None]
) -> None:
    """Unpack an archive once; a mark says that it was begun until all of it is there."""
    state = root / _STATE
    state.mkdir(exist_ok=True)
    begun, done = state / f"{name}.unpacking", state / f"{name}.done"
    if done.is_file() and not begun.exists():
        return
    begun.touch()
    say(f"{file.name}: unpacking")
    count = unpack(file, root, progress=lambda n: progress(f"unpacking {file.name}", n, None))
    done.write_text(json.dumps({"files": count, "bytes": file.stat().st_size}), encoding="utf-8")
    begun.unlink()


def _unpack_nested(
    corpus: Corpus, root: Path, say: Say, progress: Callable[[str, int, int | None], None]
) -> None:
    """Unpack the archives that a corpus holds, each beside itself, and delete it then."""
    if not corpus.nested:
        return
    for inner in sorted(root.rglob(corpus.nested)):
        if _ARCHIVES in inner.relative_to(root).parts:
            continue
        say(f"{inner.name}: unpacking")
        unpack(
            inner, inner.parent, progress=lambda n, name=inner.name: progress(f"unpacking {name}", n, None)
        )
        inner.unlink()


def _unpack_by_hand(
    corpus: Corpus,
    root: Path,
    archives: str | Path | None,
    say: Say,
    progress: Callable[[str, int, int | None], None],
) -> None:
    """Unpack what the user has of a corpus that cannot be fetched; say how to come by it otherwise."""
    folders = [Path(archives).expanduser()] if archives is not None else [root, root / _ARCHIVES]
    found = {path for folder in folders for pattern in corpus.patterns for path in folder.glob(pattern)}
    files = sorted(
        path for path in found if path.is_file() and path.suffix in (".gz", ".tgz", ".tar", ".zip")
    )
    for file in files:
        _unpack(file, file.name, root, say, progress)
    if files:
        return
    try:
        corpus.layout(root)
    except DataError as error:
        raise DataError(
            f"{corpus.name} cannot be fetched from here, and {folders[0]} has nothing of it",
            code="corpus-by-hand",
            why=corpus.by_hand,
            details=[*error.details, f"names that archives have: {', '.join(corpus.patterns)}"],
            fixes=[corpus.home, f"neumo data prepare {corpus.name} --root {root} --archives DIR"],
        ) from error
