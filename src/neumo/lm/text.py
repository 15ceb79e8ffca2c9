"""Texts as the units of a language model: words, or characters."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from typing import Final, Literal

from neumo.types.errors import DataError

Unit = Literal["word", "char"]
UNITS: Final[tuple[Unit, ...]] = ("word", "char")
SPACE: Final = "<space>"  # how files write the unit between two words of characters, which cannot be blank


def units_of(text: str, unit: Unit) -> list[str]:
    """Cut a text into words, or into characters with `<space>` between words.

    >>> units_of(" so  be it ", "word"), units_of("so be", "char")
    (['so', 'be', 'it'], ['s', 'o', '<space>', 'b', 'e'])
    """
    words = text.split()
    if unit == "word":
        return words
    return [SPACE if character == " " else character for character in " ".join(words)]


def text_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    r"""Read the lines of a UTF-8 text, plain or packed with gzip, one sentence each; blank ones are left out.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w") as file:
    ...     _ = file.write("so be it\n\nyes\n"), file.flush()
    ...     list(text_lines(file.name))
    ['so be it', 'yes']
    """
    name, number = os.fspath(path), 0
    try:
        with open(path, "rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            for number, line in enumerate(gzip.GzipFile(fileobj=raw) if packed else raw, 1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                if text:
                    yield text
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise DataError(
            f"{name}:{number}: byte 0x{byte:02x} is not UTF-8",
            code="lm-text",
            fixes=["save the text as UTF-8"],
        ) from error
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"the text {name} cannot be read: {reason}", code="lm-text") from error
