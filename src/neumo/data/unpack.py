"""Archives of data, unpacked member by member: nothing leaves the folder, nothing is a link out of it."""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from neumo.types.errors import DataError

_BLOCK = 1 << 20  # bytes
_RATIO = 200  # times that a file may be larger than its archive: speech and text do not compress like that
_SMALL = 64 << 20  # bytes below which the ratio does not matter


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds what an archive may hold: bytes and members.

    >>> Limits().members
    5000000
    """

    bytes: int = 1 << 41
    members: int = 5_000_000


def unpack(
    archive: Path,
    folder: Path,
    *,
    limits: Limits | None = None,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Unpack a tar (plain, gz, bz2, xz) or zip archive into a folder, and give the number of files.

    Every member is checked before it is written: its path stays inside the folder, it is a file or a folder
    (a link, a device or a pipe is refused), and the sizes keep within the limits. Files are written with
    plain permissions. Raises `DataError` at the first member that is not right; nothing was written outside.
    """
    limits = limits or Limits()
    bound = min(limits.bytes, max(_SMALL, _RATIO * archive.stat().st_size))
    written, count, members = 0, 0, 0
    root = folder.resolve()
    try:
        for name, kind, size, open_member in _members(archive):
            members += 1
            if members > limits.members:
                raise _hostile(archive, name, f"it has more than {limits.members} members")
            target = _place(archive, root, name)
            if kind == "link":
                raise _hostile(archive, name, "it is a link")
            if kind == "folder":
                target.mkdir(parents=True, exist_ok=True)
                continue
            if kind != "file":
                raise _hostile(archive, name, "it is neither a file nor a folder")
            if written + size > bound:
                raise _hostile(archive, name, f"with it the files are larger than {bound} bytes")
            target.parent.mkdir(parents=True, exist_ok=True)
            written += _write(archive, name, target, open_member, bound - written)
            count += 1
            if progress is not None:
                progress(count)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, ValueError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise DataError(f"{archive} cannot be unpacked: {error}", code="archive") from error
        raise DataError(
            f"{archive} is damaged: {error}", code="archive", fixes=["delete it and fetch it again"]
        ) from error
    return count


_Opener = Callable[[], IO[bytes]]


def _members(archive: Path) -> Iterator[tuple[str, str, int, _Opener]]:
    """Go through the members in order: name, kind, size in bytes, and what opens them."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as file:
            for info in file.infolist():
                mode = info.external_attr >> 16
                link = stat.S_ISLNK(mode)
                kind = "link" if link else "folder" if info.is_dir() else "file"
                yield info.filename, kind, info.file_size, lambda info=info: file.open(info)
        return
    with _tar(archive) as file:
        for member in file:
            link = member.issym() or member.islnk()
            kind = "link" if link else "folder" if member.isdir() else "file" if member.isreg() else "other"
            yield member.name, kind, member.size, lambda member=member: _of_tar(file, member)


@contextmanager
def _tar(archive: Path) -> Iterator[tarfile.TarFile]:
    with tarfile.open(archive, mode="r:*") as file:
        yield file


def _of_tar(file: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    found = file.extractfile(member)
    if found is None:
        raise tarfile.TarError(f"{member.name} has no content")
    return found


def _place(archive: Path, root: Path, name: str) -> Path:
    """Give where a member goes; refuse absolute paths, `..`, drives, and folders that are links."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if name.startswith(("/", "\\")) or ".." in parts or ":" in "".join(parts[:1]) or "\0" in name:
        raise _hostile(archive, name, "its path leads out of the folder")
    target = root.joinpath(*parts)
    # A link that was there before, such as one a user made, must not lead out either.
    if not Path(os.path.realpath(target)).is_relative_to(root):
        raise _hostile(archive, name, "its path leads out of the folder")
    return target


def _write(archive: Path, name: str, target: Path, open_member: _Opener, most: int) -> int:
    """Copy a member, counting what really comes, since a header may say anything."""
    written = 0
    with open_member() as source, target.open("wb") as file:
        while block := source.read(_BLOCK):
            written += len(block)
            if written > most:
                raise _hostile(archive, name, "it is larger than the archive says")
            file.write(block)
    return written


def _hostile(archive: Path, name: str, reason: str) -> DataError:
    return DataError(
        f"{archive} is not unpacked: its member {name!r} is not allowed",
        code="archive",
        why=f"{reason[0].upper()}{reason[1:]}.",
        fixes=[
            "fetch the archive from its publisher",
            "unpack what you trust yourself, and name it with --root",
        ],
    )
