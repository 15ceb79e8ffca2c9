"""JSON lines as they come: every object with its place, every fault with line, column and snippet."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_SNIPPET = 60  # characters of a faulty line that are shown
_WINDOW = 65536  # bytes in which the end of an object is looked for that does not end on its own line


@dataclass(frozen=True, slots=True)
class Problem:
    """Names one fault of a manifest: where it is, what is wrong, and the piece of text around it.

    >>> print(Problem("a.jsonl", 3, "no audio_filepath"))
    a.jsonl:3: no audio_filepath
    """

    file: str
    line: int
    reason: str
    column: int | None = None
    snippet: str = ""

    @property
    def place(self) -> str:
        """Give file:line or file:line:column."""
        return f"{self.file}:{self.line}" + ("" if self.column is None else f":{self.column}")

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" + (f"\n{self.snippet}" if self.snippet else "")


@dataclass(frozen=True, slots=True)
class Found:
    """Holds one object of a file: its fields, its line, and its bytes (`blob[start:stop]`)."""

    value: dict[str, Any]
    line: int
    start: int
    stop: int


class DuplicateKey(ValueError):
    """Signals that an object names one key twice."""


def unwrap(blob: bytes) -> bytes:
    """Give the UTF-8 bytes of a text file: gzip opened, UTF-16 recoded, a byte order mark removed.

    >>> unwrap("\\ufeff{}".encode())
    b'{}'
    """
    if blob[:2] == b"\x1f\x8b":
        blob = gzip.decompress(blob)
    if blob[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return blob.decode("utf-16").encode()
    return blob[3:] if blob[:3] == b"\xef\xbb\xbf" else blob


def scan(blob: bytes, file: str) -> Iterator[Found | Problem]:
    """Read the objects of a JSON-lines file, or of one JSON array, in order; faults come as problems.

    Blank lines and both line ends are fine. Which of the two forms it is shows in the first character, not in
    the file's name.

    >>> [type(found).__name__ for found in scan(b'{"a": 1}\\r\\n\\r\\n{"a": 2},', "x.jsonl")]
    ['Found', 'Problem']
    """
    if blob[:64].lstrip()[:1] == b"[":
        return _scan_array(blob, file)
    return _scan_lines(blob, file)


def load_object(text: str) -> Any:
    """Parse JSON and refuse an object that names a key twice (the parser keeps the last in silence)."""
    return _DECODER.decode(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        raise DuplicateKey(next(name for name in names if names.count(name) > 1))
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def _scan_lines(blob: bytes, file: str) -> Iterator[Found | Problem]:
    start, line = 0, 0
    while start < len(blob):
        stop = blob.find(b"\n", start)
        stop = len(blob) if stop < 0 else stop
        line += 1
        raw = blob[start:stop]
        if not raw.isspace() and raw:
            found = _read_line(raw, file, line, start)
            if isinstance(found, Problem) and (lines := _spread(blob, start)) > 1:
                reason = (
                    f"the object is spread over lines {line} to {line + lines - 1}; write one object a line"
                )
                found = Problem(file, line, reason, found.column, found.snippet)
                for _ in range(lines - 1):
                    stop = blob.find(b"\n", stop + 1)
                stop = len(blob) if stop < 0 else stop
                line += lines - 1
            yield found
        start = stop + 1


def _read_line(raw: bytes, file: str, line: int, start: int) -> Found | Problem:
    try:
        text = raw.decode()
        value = load_object(text)
    except UnicodeDecodeError as error:
        reason = f"byte 0x{raw[error.start]:02x} is not UTF-8; save the manifest as UTF-8"
        return Problem(
            file, line, reason, error.start + 1, snippet(raw.decode(errors="replace"), error.start)
        )
    except json.JSONDecodeError as error:
        position = error.pos
        return Problem(
            file, line, _explain(raw.decode(), error), position + 1, snippet(raw.decode(), position)
        )
    except (DuplicateKey, RecursionError) as error:
        return Problem(file, line, _refusal(error))
    if not isinstance(value, dict):
        reason = f"a JSON {_kind(value)}, not an object in braces"
        return Problem(file, line, reason, 1, snippet(raw.decode(), 0))
    return Found(value, line, start, start + len(raw))


def _refusal(error: Exception) -> str:
    return (
        f"the key {str(error)!r} is there twice" if isinstance(error, DuplicateKey) else "nested too deeply"
    )


def _kind(value: object) -> str:
    names = {list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def _spread(blob: bytes, start: int) -> int:
    """Count the lines of an object that begins at `start` and ends on a later line; 0 if there is none."""
    text = blob[start : start + _WINDOW].decode(errors="replace")
    if not text.lstrip().startswith("{"):
        return 0
    indent = len(text) - len(text.lstrip())
    try:
        _, stop = json.JSONDecoder().raw_decode(text, indent)
    except (json.JSONDecodeError, RecursionError):
        return 0
    return text.count("\n", 0, stop) + 1


def _explain(text: str, error: json.JSONDecodeError) -> str:
    """Say in the words of a manifest what the JSON parser stumbled over."""
    rest = text[error.pos :].lstrip()
    before = text[: error.pos].rstrip()
    if error.msg.startswith("Extra data"):
        if rest.startswith(","):
            return "a comma after the object; objects stand on lines of their own, without commas"
        return "a second object on the line" if rest.startswith("{") else "text after the object"
    if re.match(r",?\s*[}\]]", rest) and (before.endswith(",") or rest.startswith(",")):
        return "a comma before the closing brace"
    if rest.startswith("'"):
        return "single quotes; JSON wants double quotes"
    if not rest or "nterminated string" in error.msg:
        return "the object does not end on this line"
    if "escape" in error.msg:
        return "a lone backslash; write \\\\ or / in paths"
    if not text.lstrip().startswith("{"):
        return "not JSON; a manifest has one JSON object a line"
    if match := re.match(r"(None|True|False|nan)\b", rest):
        return f"{match[1]} is Python; JSON writes null, true, false"
    return f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}"


def snippet(text: str, position: int) -> str:
    """Cut a line to the part around a position and draw a caret under it.

    >>> print(snippet('{"a": 1} {"b": 2}', 9))
    {"a": 1} {"b": 2}
             ^
    """
    text = re.sub(r"[\t\r\n]", " ", text)
    left = max(0, min(position - _SNIPPET * 2 // 3, len(text) - _SNIPPET))
    cut = text[left : left + _SNIPPET]
    head = "..." if left else ""
    tail = "..." if left + _SNIPPET < len(text) else ""
    return f"{head}{cut}{tail}".rstrip() + "\n" + " " * (len(head) + position - left) + "^"


def _scan_array(blob: bytes, file: str) -> Iterator[Found | Problem]:
    """Read the elements of an array one by one, up to the first fault in its syntax."""
    try:
        text = blob.decode()
    except UnicodeDecodeError as error:
        line = blob.count(b"\n", 0, error.start) + 1
        yield Problem(file, line, f"byte 0x{blob[error.start]:02x} is not UTF-8; save the manifest as UTF-8")
        return
    position, line, counted, offset = text.index("[") + 1, 1, 0, 0
    while True:
        position = _skip(text, position)
        line += text.count("\n", counted, position)
        offset += len(text[counted:position].encode())
        counted = position
        if text[position : position + 1] == "]":
            return
        try:
            value, stop = _DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            yield _array_problem(text, error.pos, file, error.msg)
            return
        except (DuplicateKey, RecursionError) as error:
            yield Problem(file, line, _refusal(error) + "; what follows was not read")
            return
        if isinstance(value, dict):
            yield Found(value, line, offset, offset + len(text[position:stop].encode()))
        else:
            yield Problem(file, line, f"a JSON {_kind(value)} in the array, not an object in braces")
        position = _skip(text, stop)
        if text[position : position + 1] not in (",", "]"):
            yield _array_problem(text, position, file, "Expecting ',' delimiter")
            return
        position += text[position] == ","


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _array_problem(text: str, position: int, file: str, message: str) -> Problem:
    line = text.count("\n", 0, position) + 1
    start = text.rfind("\n", 0, position) + 1
    row = text[start:].split("\n", 1)[0]
    reason = f"the array is broken here ({message[:1].lower()}{message[1:]}); what follows was not read"
    return Problem(file, line, reason, position - start + 1, snippet(row, position - start))
