"""Files from the web: resumed where they stopped, and checked against what their publisher says of them."""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from neumo.types.errors import DataError

Progress = Callable[[int, int | None], None]  # bytes that are there, bytes of the whole where it is known

_BLOCK = 1 << 20  # bytes
_TRIES = 5  # times that a broken connection is taken up again
_SCHEMES = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class Checksum:
    """Holds what a file's content must add up to, as its publisher states it.

    >>> Checksum("md5", "d41d8cd98f00b204e9800998ecf8427e").name
    'md5'
    """

    name: str
    digest: str


def download(
    url: str,
    path: Path,
    *,
    checksum: Checksum | None = None,
    progress: Progress | None = None,
    timeout: float = 60,
) -> Path:
    """Fetch a file to `path`, going on with what an interrupted download left there.

    What has come so far stands in `path.part`, with the address and the version (ETag or date) that it is
    of. The proxies of the environment are used (`https_proxy`, `no_proxy`, ...). A file that is there and
    has the right checksum, or any file where none is published, is not fetched again. Raises `DataError`.
    """
    if path.is_file():
        _check(path, checksum, fixes=[f"delete {path} to fetch it again"])
        return path
    if not url.startswith(_SCHEMES):
        raise DataError(f"{url!r} is no address of http or https", code="download")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    for left in reversed(range(_TRIES)):
        try:
            if _fetch(url, part, progress, timeout):
                break
        except urllib.error.HTTPError as error:
            raise _refused(url, f"the server answered {error.code} {error.reason}", path) from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            if left == 0 or (isinstance(error, urllib.error.URLError) and not part.exists()):
                raise _refused(url, str(reason), path) from error
    else:
        raise _refused(url, f"the connection broke {_TRIES} times", path)
    try:
        _check(part, checksum, fixes=["run it again: the file is fetched from the start"], named=path)
    except DataError:
        part.unlink()
        raise
    finally:
        _stamp(part).unlink(missing_ok=True)
    os.replace(part, path)
    return path


def digest_of(path: Path, name: str) -> str:
    """Give the hex digest of a file's content.

    >>> digest_of(Path(os.devnull), "md5")
    'd41d8cd98f00b204e9800998ecf8427e'
    """
    found = hashlib.new(name, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def _check(path: Path, checksum: Checksum | None, *, fixes: list[str], named: Path | None = None) -> None:
    if checksum is None:
        return
    found = digest_of(path, checksum.name)
    if found != checksum.digest:
        raise DataError(
            f"{named or path} is not the file that was published",
            code="checksum",
            details=[f"{checksum.name} published {checksum.digest}", f"{checksum.name} of the file {found}"],
            why="It is damaged, cut off, or another version.",
            fixes=fixes,
        )


def _stamp(part: Path) -> Path:
    return part.with_name(part.name + ".from")


def _fetch(url: str, part: Path, progress: Progress | None, timeout: float) -> bool:
    """Fetch what is missing of a file; tell whether all of it is there now."""
    stamp = _stamp(part)
    known = stamp.read_text(encoding="utf-8").split("\n") if stamp.is_file() else []
    start = part.stat().st_size if part.is_file() and known[:1] == [url] else 0
    request = urllib.request.Request(url, headers={"User-Agent": "neumo"})  # noqa: S310 - http or https only
    if start:
        request.add_header("Range", f"bytes={start}-")
        if len(known) > 1 and known[1]:
            request.add_header("If-Range", known[1])  # another version is sent as a whole
    try:
        answer = urllib.request.urlopen(request, timeout=timeout)  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code == 416 and start:  # nothing is behind what is there: it is whole, or of another version
            error.close()
            return _is_whole(error.headers.get("Content-Range"), start, part)
        raise
    with answer:
        if answer.status != 206:
            start = 0
        total = _total(answer, start)
        version = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
        stamp.write_text(f"{url}\n{'' if version.startswith('W/') else version}", encoding="utf-8")
        with part.open("ab" if start else "wb") as file:
            while block := answer.read(_BLOCK):
                file.write(block)
                start += len(block)
                if progress is not None:
                    progress(start, total)
    return total is None or start >= total


def _is_whole(content_range: str | None, size: int, part: Path) -> bool:
    """Compare with the size in `bytes */SIZE`; a part of another size is thrown away."""
    whole = (content_range or "").rpartition("/")[2] == str(size)
    if not whole:
        part.unlink()
    return whole


def _total(answer: Any, start: int) -> int | None:
    length = answer.headers.get("Content-Length")
    return start + int(length) if length and length.isdigit() else None


def _refused(url: str, reason: str, path: Path) -> DataError:
    return DataError(
        f"{url} cannot be fetched: {reason}",
        code="download",
        why="What has come so far is kept, and the next try goes on from there.",
        fixes=[
            "check the connection; proxies are taken from https_proxy, http_proxy and no_proxy",
            f"fetch {path.name} elsewhere and name its folder: --archives DIR",
            "--url BASE names a mirror that has the same files",
        ],
    )
