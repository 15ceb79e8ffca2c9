"""What is known of a public corpus: address, checksums, licence, and how its files are laid out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neumo.data.download import Checksum
from neumo.types.errors import DataError

Line = Mapping[str, Any]  # of a manifest, `audio_filepath` as a path on this machine
Splits = dict[str, Iterable[Line]]  # by the name of the manifest


@dataclass(frozen=True, slots=True)
class Archive:
    """Names one archive of a corpus; `md5` or `sha256` only where the publisher's figure is known for sure.

    >>> Archive("dev-clean.tar.gz", part="dev-clean").checksum is None
    True
    """

    file: str
    part: str = ""
    md5: str = ""
    sha256: str = ""
    url: str = ""  # where it is no file below the address of the corpus

    @property
    def checksum(self) -> Checksum | None:
        """Give the checksum that is known, or None."""
        if self.sha256:
            return Checksum("sha256", self.sha256)
        return Checksum("md5", self.md5) if self.md5 else None


@dataclass(frozen=True, slots=True)
class Corpus:
    """Describes a corpus.

    `layout` takes the folder of the unpacked files and gives the lines of each manifest. `url` is the address
    that archives are fetched from, and empty where the publisher wants a consent first: `by_hand` then says
    how to come by them. `patterns` are names that such archives have. `nested` is a glob for archives
    inside of the archives.
    """

    name: str
    title: str
    licence: str
    home: str
    layout: Callable[[Path], Splits]
    archives: tuple[Archive, ...] = ()
    url: str = ""
    by_hand: str = ""
    patterns: tuple[str, ...] = ()
    nested: str = ""
    notes: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """Give the names of the parts that can be fetched by themselves, in order."""
        return tuple(archive.part for archive in self.archives if archive.part)


def one_folder(root: Path, marker: str, what: str) -> Path:
    """Find the folder that holds `marker` (a glob): the root, or one that is at most three levels below.

    Raises `DataError` where there is none.
    """
    for depth in ("", "*/", "*/*/", "*/*/*/"):
        for found in sorted(root.glob(f"{depth}{marker}")):
            folder = found
            for _ in Path(marker).parts:
                folder = folder.parent
            return folder
    raise layout_error(root, marker, what)


def layout_error(root: Path, marker: str, what: str) -> DataError:
    """Make the error of a folder that is no such corpus."""
    there = sorted(path.name for path in root.iterdir())[:8] if root.is_dir() else []
    return DataError(
        f"{root} does not look like {what}: there is no {marker}",
        code="corpus-layout",
        details=[f"there are {', '.join(there)}" if there else "the folder is empty"],
        fixes=["--archives DIR names the folder of the archives as they were published"],
    )


def read_lines(path: Path) -> list[str]:
    """Read the lines of a UTF-8 text file, without their ends and without empty ones."""
    text = path.read_text(encoding="utf-8-sig")
    return [line.rstrip("\r") for line in text.split("\n") if line.strip()]


def keyed(lines: Sequence[str], sep: str | None = None) -> dict[str, str]:
    """Read lines of a name and a text behind it.

    >>> keyed(["a hello world", "b"])
    {'a': 'hello world', 'b': ''}
    """
    found: dict[str, str] = {}
    for line in lines:
        name, *rest = line.split(sep, 1)
        found[name.strip()] = rest[0].strip() if rest else ""
    return found
