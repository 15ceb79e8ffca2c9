"""The ARPA format of n-gram models: read with the number of the line in every error, and written."""

from __future__ import annotations

import gzip
import math
import os
import re
import zlib
from array import array
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, Final, NoReturn

import numpy as np

from neumo.lm.ngram import BOS, Grams, NGramModel
from neumo.types.errors import DataError, Source

_LN10 = math.log(10)
_NEVER = -99.0  # the usual log10 of the probability of <s>, which is never predicted
_LONGEST = 1 << 16  # bytes of a line: no n-gram is longer, and a file without line ends is no model
_MOST: Final = 200_000_000  # n-grams: some 10 GB of memory
_COUNT = re.compile(rb"ngram\s+(\d{1,18})\s*=\s*(\d{1,18})\s*$")
_SECTION = re.compile(rb"\\(\d{1,18})-grams:\s*$")

Progress = Callable[[int, int], None]


def read_arpa(
    path: str | os.PathLike[str], *, limit: int = _MOST, progress: Progress | None = None
) -> NGramModel:
    r"""Read a model from an ARPA file of any order, plain or packed with gzip, whatever its name.

    >>> import tempfile
    >>> text = "\\data\\\nngram 1=3\n\n\\1-grams:\n-99\t<s>\n-0.3\t</s>\n-0.3\tyes\n\n\\end\\\n"
    >>> with tempfile.NamedTemporaryFile("w", suffix=".arpa") as file:
    ...     _ = file.write(text), file.flush()
    ...     read_arpa(file.name).counts
    (3,)

    What stands before `\data\` is skipped. `limit` is the number of n-grams beyond which a file is refused.
    `progress` is called with the n-grams read and those that there are. Whatever is broken is a `DataError`
    with the number of its line: counts that do not fit, n-grams of unknown words, figures that are none.
    """
    try:
        with open(path, "rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            file = gzip.GzipFile(fileobj=raw) if packed else raw
            return _Reader(file, os.fspath(path), limit, progress).read()
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            _broken(path, error)
        reason = error.strerror or str(error)
        fixes = ["neumo data lm TEXT -o lm.arpa makes one"] if isinstance(error, FileNotFoundError) else []
        raise DataError(
            f"the language model {os.fspath(path)} cannot be read: {reason}", code="arpa", fixes=fixes
        ) from error
    except (EOFError, zlib.error) as error:
        _broken(path, error)


def shared_arpa(path: str | os.PathLike[str]) -> NGramModel:
    """Read a model once for all who ask while the file stays as it is; the last four files are kept."""
    try:
        found = os.stat(path)
    except OSError:
        return read_arpa(path)  # which says what is wrong
    return _shared(os.path.realpath(path), found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=4)
def _shared(path: str, _changed: int, _size: int) -> NGramModel:
    return read_arpa(path)


def _broken(path: str | os.PathLike[str], error: Exception) -> NoReturn:
    raise DataError(
        f"{os.fspath(path)} is packed with gzip, and broken", code="arpa", why=f"{error}."
    ) from error


class _Reader:
    """Reads one file from top to bottom."""

    def __init__(
        self, file: IO[bytes] | gzip.GzipFile, name: str, limit: int, progress: Progress | None
    ) -> None:
        self.file, self.name, self.limit, self.progress = file, name, limit, progress
        self.line, self.text = 0, b""
        self.done = 0
        self.index: dict[bytes, int] = {}

    def read(self) -> NGramModel:
        counts = self._header()
        grams = [self._section(order, count) for order, count in enumerate(counts, 1)]
        if self.text != b"\\end\\":
            self._fail(f"the header counts orders 1 to {len(counts)}, and more follows")
        words: list[str] = []
        for word in self.index:
            try:
                words.append(word.decode())
            except UnicodeDecodeError as error:
                raise DataError(
                    f"the word {word!r} in {self.name} is not UTF-8", code="arpa", fixes=["save it as UTF-8"]
                ) from error
        return NGramModel.of(words, grams)

    def _header(self) -> list[int]:
        while self._next(required="\\data\\") != b"\\data\\":
            pass
        counts: list[int] = []
        while not self._next(required="\\1-grams:").startswith(b"\\"):
            match = _COUNT.match(self.text)
            if match is None or int(match[1]) != len(counts) + 1:
                self._fail(f"the header wants `ngram {len(counts) + 1}=...` here")
            counts.append(int(match[2]))
        if not counts:
            self._fail("the header counts no n-grams")
        if sum(counts) > self.limit:
            self._fail(
                f"the file counts {sum(counts):,} n-grams, more than {self.limit:,}",
                fix=f"limit={sum(counts)}",
            )
        self.total = sum(counts)
        return counts

    def _section(self, order: int, count: int) -> Grams:
        match = _SECTION.match(self.text)
        if match is None or int(match[1]) != order:
            self._fail(f"\\{order}-grams: is wanted here")
        words, logp, backoff = array("i"), array("d"), array("d")  # grow with what is there, not with counts
        for fields in self._rows(order):
            if len(logp) == count:
                self._fail(f"the header counts {count:,} {order}-grams, and here is one more")
            value = self._log(fields[0], "probability")
            if value > 1e-6:
                self._fail(f"log10 of a probability is {fields[0].decode(errors='replace')}, above 0")
            logp.append(value)
            backoff.append(
                self._log(fields[order + 1], "back-off weight") if len(fields) > order + 1 else 0.0
            )
            words.extend(self._numbers(fields[1 : order + 1], order))
            self.done += 1
            if self.progress and not self.done % 100_000:
                self.progress(self.done, self.total)
        if len(logp) < count:
            self._fail(f"the header counts {count:,} {order}-grams, and there are {len(logp):,}")
        numbers = np.array(words, dtype=np.int32).reshape(-1, order)
        return self._grams(numbers, np.array(logp), np.array(backoff))

    def _grams(self, words: np.ndarray, logp: np.ndarray, backoff: np.ndarray) -> Grams:
        if words.shape[1] > 1:
            code = words[:, 0].astype(np.int64)
            for column in range(1, words.shape[1]):
                _, code = np.unique(code * len(self.index) + words[:, column], return_inverse=True)
            if len(np.unique(code)) < len(code):
                first = np.unique(code, return_index=True)[1]
                twice = words[np.setdiff1d(np.arange(len(code)), first)[0]]
                names = list(self.index)
                said = b" ".join(names[word] for word in twice).decode(errors="replace")
                self._fail(
                    f"the {words.shape[1]}-gram {said!r} is there twice, in the section that ends here"
                )
        return Grams(words, np.minimum(logp, 0.0) * _LN10, backoff * _LN10)

    def _rows(self, order: int) -> Iterator[list[bytes]]:
        while not self._next(required="\\end\\").startswith(b"\\") or not self.text.endswith((b":", b"\\")):
            fields = self.text.split()
            if not order + 1 <= len(fields) <= order + 2:
                self._fail(
                    f"a line of {order}-grams has a log10, {order} word{'s' * (order > 1)} and perhaps "
                    f"a back-off weight; this has {len(fields)} pieces"
                )
            yield fields

    def _numbers(self, words: list[bytes], order: int) -> list[int]:
        if order == 1:
            if words[0] in self.index:
                self._fail(f"the word {words[0].decode(errors='replace')!r} is there twice")
            self.index[words[0]] = len(self.index)
            return [len(self.index) - 1]
        try:
            return [self.index[word] for word in words]
        except KeyError as error:
            said = error.args[0].decode(errors="replace")
            self._fail(f"the word {said!r} is not among the 1-grams")

    def _log(self, field: bytes, what: str) -> float:
        try:
            value = float(field)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            if field.lower() in (b"-inf", b"-infinity"):
                return _NEVER
            self._fail(f"the {what} is {field.decode(errors='replace')!r}, which is no number")
        return value

    def _next(self, required: str = "") -> bytes:
        """Go to the next line that is not blank; `required` is what has to come before the file ends."""
        while raw := self.file.readline(_LONGEST):
            self.line += 1
            if len(raw) == _LONGEST:
                self.text = raw[:80]
                self._fail(f"a line is longer than {_LONGEST:,} bytes", "This is no ARPA file.")
            self.text = raw.strip()
            if self.text:
                return self.text
        self.text = b""
        if required:
            self._fail(f"the file ends before {required}", "It may have been cut off, or be no ARPA file.")
        return b""

    def _fail(self, what: str, why: str = "", fix: str = "") -> NoReturn:
        text = self.text.decode(errors="replace")
        raise DataError(
            what,
            code="arpa",
            where=Source(self.name, self.line, text[:200]),
            why=why or (),
            fixes=[fix] if fix else (),
        )


def write_arpa(model: NGramModel, path: str | os.PathLike[str]) -> None:
    r"""Write a model as an ARPA file, packed where the name ends in `.gz`; a file that is there is replaced.

    >>> import tempfile
    >>> model = NGramModel.of(["a"], [Grams(np.array([[0]]), np.array([0.0]), np.array([0.0]))])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_arpa(model, f"{folder}/lm.arpa")
    ...     Path(f"{folder}/lm.arpa").read_text().split()
    ['\\data\\', 'ngram', '1=1', '\\1-grams:', '0', 'a', '\\end\\']

    Figures have nine digits. The same model gives the same bytes.
    """
    target = Path(path)
    part = target.with_name(target.name + ".part")
    try:
        with open(part, "wb") as raw:
            if target.suffix == ".gz":
                with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed:
                    _write(model, packed)
            else:
                _write(model, raw)
        os.replace(part, target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise DataError(
            f"the language model cannot be written to {target}: {error.strerror or error}", code="arpa"
        ) from error


def _write(model: NGramModel, file: IO[bytes] | gzip.GzipFile) -> None:
    lines = ["\\data\\", *(f"ngram {order}={count}" for order, count in enumerate(model.counts, 1)), ""]
    for order in range(1, model.order + 1):
        lines.append(f"\\{order}-grams:")
        grams = model.grams(order)
        for row, logp, backoff in zip(
            grams.words.tolist(), (grams.logp / _LN10).tolist(), (grams.backoff / _LN10).tolist(), strict=True
        ):
            words = " ".join(model.words[word] for word in row)
            figure = "-99" if words == BOS and logp < -90 else f"{logp:.9g}"
            weight = f"\t{backoff:.9g}" if backoff and order < model.order else ""
            lines.append(f"{'0' if figure == '-0' else figure}\t{words}{weight}")
            if len(lines) > 10_000:
                file.write(("\n".join(lines) + "\n").encode())
                lines = []
        lines.append("")
    lines += ["\\end\\", ""]
    file.write("\n".join(lines).encode())
