"""The container of a model: a zip file of stored members, each with its digest, read without trusting it.

Layout of format 1 (any zip tool opens it):

    recipe.yaml           vocabularies, modules and graphs, as text
    weights.safetensors   the tensors, by module and parameter name
    card.json             what the model is, where it comes from, how good it is; `format`: that of the file
    assets/NAME           further files that a module needs
    checksums.json        the sha256 of every other member

Nothing is unpacked to a path that the file chooses, nothing is decompressed, nothing is executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NoReturn

from neumo.types.errors import CheckpointError

__all__ = ["FORMAT", "Archive", "write_archive"]

FORMAT = 1
RECIPE, WEIGHTS, CARD, CHECKSUMS = "recipe.yaml", "weights.safetensors", "card.json", "checksums.json"
_REQUIRED = (RECIPE, WEIGHTS, CARD, CHECKSUMS)
_ASSET = re.compile(r"assets/[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_LARGEST_TEXT = 4 << 20  # bytes of recipe, card or checksums
_MOST_MEMBERS = 1000
_BLOCK = 1 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date of a zip: equal content gives equal files


def write_archive(path: str | Path, members: Mapping[str, bytes | Path]) -> str:
    """Write a model file at once or not at all; return its sha256.

    `members` maps the names of the layout to their bytes, or to the file that holds them; checksums are
    added. Folders on the way are made. Raises `CheckpointError` where the path is that of a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise CheckpointError(
            f"a model is written to a file, and {path} is a folder",
            code="checkpoint-path",
            where=str(path),
            fixes=[f"save_model({str(path / 'model.neumo')!r}, ...)"],
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    digests: dict[str, str] = {}
    try:
        with part.open("wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                for name, content in members.items():
                    digests[name] = _add(archive, name, content)
                _add(archive, CHECKSUMS, json.dumps({"sha256": digests}, indent=1).encode())
            file.flush()
            os.fsync(file.fileno())
        digest = _digest(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return digest


class Archive:
    """A model file, opened and checked: the names, sizes and digests of all members hold, or nothing is read.

    Raises `CheckpointError` where the file is missing, is something else, is cut off, was changed, or was
    written by a newer version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        _refuse_what_is_no_zip(self.path)
        try:
            with zipfile.ZipFile(self.path) as archive:
                _refuse_pickles(self.path, archive)
                self._check_format(archive)
                self._check_members(archive)
                self._check_digests(archive)
        except CheckpointError:
            raise
        except (
            zipfile.BadZipFile,
            EOFError,
            ValueError,
            NotImplementedError,
            RecursionError,
            OSError,
        ) as error:
            _refuse(self.path, f"it is damaged or cut off ({error})", "copy it again from where it came")

    @property
    def names(self) -> list[str]:
        """The members, in the order of the file."""
        with zipfile.ZipFile(self.path) as archive:
            return archive.namelist()

    def read(self, name: str) -> bytes:
        """Return the bytes of a member."""
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(name)

    def text(self, name: str) -> str:
        """Return a member as text."""
        try:
            return self.read(name).decode()
        except UnicodeDecodeError as error:
            _refuse(self.path, f"{name} in it is no UTF-8 text ({error})", "copy it again from where it came")

    def copy(self, name: str, to: str | Path) -> Path:
        """Write a member to the path that the caller chooses, block by block."""
        with zipfile.ZipFile(self.path) as archive, archive.open(name) as member, Path(to).open("wb") as file:
            for block in _blocks(member):
                file.write(block)
        return Path(to)

    def card(self) -> dict[str, Any]:
        """Return the card as it was written."""
        return json.loads(self.read(CARD))

    def _check_format(self, archive: zipfile.ZipFile) -> None:
        """Read the number of the layout before anything else: a newer one may have other members."""
        infos = [info for info in archive.infolist() if info.filename == CARD]
        if (
            len(infos) != 1
            or infos[0].compress_type != zipfile.ZIP_STORED
            or infos[0].file_size > _LARGEST_TEXT
        ):
            _refuse(self.path, "it is a zip file without the card of a model", "give a .neumo file")
        card = json.loads(archive.read(CARD))
        number = card.get("format") if isinstance(card, dict) else None
        if not isinstance(number, int) or number < 1:
            _refuse(
                self.path, "its card does not say which format it has", "copy it again from where it came"
            )
        if number > FORMAT:
            _refuse(
                self.path,
                f"it has format {number} (of neumo {card.get('neumo', '?')}); this one reads up to {FORMAT}",
                "pip install -U neumo",
                code="model-version",
            )

    def _check_members(self, archive: zipfile.ZipFile) -> None:
        infos = archive.infolist()
        problems = [problem for info in infos if (problem := _member_problem(info))]
        names = [info.filename for info in infos]
        problems += [f"{name!r} is there twice" for name in sorted({n for n in names if names.count(n) > 1})]
        problems += [f"{name} is missing" for name in _REQUIRED if name not in names]
        if len(infos) > _MOST_MEMBERS:
            problems.append(f"{len(infos)} members")
        if sum(info.file_size for info in infos) > self.path.stat().st_size:
            problems.append("its members claim more bytes than the file has")
        if problems:
            _refuse(
                self.path, "its members are not those of a model file", None, details=tuple(problems[:20])
            )

    def _check_digests(self, archive: zipfile.ZipFile) -> None:
        checksums = json.loads(archive.read(CHECKSUMS))
        wanted = checksums.get("sha256") if isinstance(checksums, dict) else None
        wanted = wanted if isinstance(wanted, dict) else {}
        problems: list[str] = []
        for name in archive.namelist():
            if name == CHECKSUMS:
                continue
            try:
                with archive.open(name) as member:
                    found = _hash(_blocks(member))
            except zipfile.BadZipFile:
                found = ""  # its own check, a CRC, failed
            if found != wanted.get(name):
                problems.append(f"{name} is not what was written")
        problems += [f"{name} is missing" for name in sorted(set(wanted) - set(archive.namelist()))]
        if problems:
            _refuse(
                self.path,
                "a checksum is wrong",
                "copy it again from where it came",
                code="model-checksum",
                details=tuple(problems),
            )


def _add(archive: zipfile.ZipFile, name: str, content: bytes | Path) -> str:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.external_attr = 0o644 << 16
    if isinstance(content, bytes):
        archive.writestr(info, content)
        return hashlib.sha256(content).hexdigest()
    digest = hashlib.sha256()
    info.file_size = content.stat().st_size
    with archive.open(info, "w") as member, content.open("rb") as file:
        for block in _blocks(file):
            digest.update(block)
            member.write(block)
    return digest.hexdigest()


def _member_problem(info: zipfile.ZipInfo) -> str:
    """Say what is wrong with one member, or nothing; `orig_filename` is what stands in the file."""
    name = info.orig_filename
    mode = info.external_attr >> 16
    if name != info.filename or not (name in _REQUIRED or _ASSET.fullmatch(name)) or ".." in name:
        return f"{name!r} is not a member of a model file"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return f"{name!r} is a link or a device"
    if info.flag_bits & 0x1:
        return f"{name!r} is encrypted"
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        return f"{name!r} is compressed"
    if name in (RECIPE, CARD, CHECKSUMS) and info.file_size > _LARGEST_TEXT:
        return f"{name!r} is too large: {info.file_size} bytes"
    return ""


def _refuse_what_is_no_zip(path: Path) -> None:
    if not path.exists():
        near = sorted(path.parent.glob("*.neumo"))[:3] if path.parent.is_dir() else []
        fix = f"did you mean {', '.join(map(str, near))}?" if near else "train one: neumo train RECIPE"
        raise CheckpointError(f"there is no model file {path}", code="model-file", fixes=(fix,))
    if not path.is_file():
        _refuse(path, "it is a folder", f"give a file, such as {path / 'model.neumo'}")
    try:
        with path.open("rb") as file:
            start = file.read(512)
    except OSError as error:
        _refuse(path, f"it cannot be read: {error.strerror}", None)
    if not start:
        _refuse(path, "the file is empty", "copy it again from where it came")
    if start.startswith(b"PK\x03\x04"):
        return
    _refuse(path, f"it is {_what_it_is(start)}", "give a .neumo file, as `neumo train` writes it")


def _what_it_is(start: bytes) -> str:
    """Name a file by its first bytes."""
    if start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "a pickle (a torch checkpoint?): reading one can run any code"
    if start[257:262] == b"ustar":
        return "a tar archive (a .nemo file?)"
    if start.startswith(b"\x1f\x8b"):
        return "a gzip archive (a .nemo file?)"
    if start[8:10] in (b'{"', b"{ ") and int.from_bytes(start[:8], "little") < 1 << 30:
        return "a safetensors file: weights alone, without the graph that they belong to"
    if start.startswith((b"RIFF", b"fLaC", b"OggS", b"ID3")):
        return "an audio file"
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in start[:128]):
        return "a text file"
    return f"no zip archive (it starts with {start[:4].hex(' ')})"


def _refuse_pickles(path: Path, archive: zipfile.ZipFile) -> None:
    for name in archive.namelist():
        if name.endswith(".pkl"):
            _refuse(
                path,
                f"it is a torch checkpoint: {name} in it is a pickle, and reading one can run any code",
                "give a .neumo file, as `neumo train` writes it",
            )


def _refuse(
    path: Path, why: str, fix: str | None, *, code: str = "model-file", details: tuple[str, ...] = ()
) -> NoReturn:
    raise CheckpointError(
        f"{path} is not a model file that can be read: {why}",
        code=code,
        details=details,
        fixes=(fix,) if fix else (),
    ) from None


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block


def _hash(blocks: Iterator[bytes]) -> str:
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return _hash(_blocks(file))
