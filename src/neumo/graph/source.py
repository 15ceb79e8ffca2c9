"""Where a call stands in the user's text: file, line and argument, looked up when a message is printed."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Protocol

from neumo.types import Source

if TYPE_CHECKING:
    import ast

_ROOM = os.path.dirname(os.path.abspath(__file__)) + os.sep


@dataclass(frozen=True)
class Place(Source):
    """Points at text: a line of a file and, where known, the columns `start` to `end` in it (from 0).

    >>> print(Place("train.py", 3, "    loss = ctc(x=y)", 15, 18).render())
    train.py:3
        loss = ctc(x=y)
                   ^^^
    """

    line: int = 1
    start: int = 0
    end: int = 0

    def __str__(self) -> str:
        return f"{short_path(self.file)}:{self.line}"

    def render(self) -> str:
        """Give the place, the source line where it is known, and the caret where the columns are known."""
        if self.end > self.start:
            return Source.render(self)
        return Source(str(self), None, self.text).render()


class Location(Protocol):
    """Says where a call was written; a Python call site and a line of a recipe are the two kinds."""

    def place(self, port: str | None = None) -> Place:
        """Give the place of the argument for `port` (or one of its items, `port[1]`), or of the call."""
        ...


@dataclass(frozen=True, slots=True)
class CallSite:
    """The place of a Python call, kept as code and instruction offset: two references, nothing is read."""

    code: CodeType
    lasti: int

    def __str__(self) -> str:
        return str(self.place())

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross process borders as the text that was found: code objects cannot."""
        return TextSite, (self.place(),)

    def place(self, port: str | None = None) -> Place:
        """Find the call by the columns of its instruction, and the keyword by parsing the file."""
        file = self.code.co_filename
        positions = islice(self.code.co_positions(), self.lasti // 2, None)
        line, end_line, column, end_column = next(positions, (None, None, None, None))
        text = linecache.getline(file, line or 0).rstrip("\n")
        if line is None or end_line is None or column is None or end_column is None:
            return Place(file, line or self.code.co_firstlineno, text)
        call = _find_call(file, end_line, end_column)
        if call is not None:
            return _place_of(file, _argument(call, port))
        end = _characters(text, end_column) if end_line == line else len(text.rstrip())
        return Place(file, line, text, _characters(text, column), end)


@dataclass(frozen=True, slots=True)
class TextSite:
    """The place of a call in a text that is not Python, such as a recipe, with the place of each argument.

    >>> text = "  feats: mel(audio=batch.audio)"
    >>> site = TextSite(Place("an4.yaml", 12, text, 9, 31), {"audio": Place("an4.yaml", 12, text, 13, 30)})
    >>> print(site.place("audio").render())
    an4.yaml:12
        feats: mel(audio=batch.audio)
                   ^^^^^^^^^^^^^^^^^
    """

    call: Place
    arguments: Mapping[str, Place] = field(default_factory=dict[str, Place])

    def __str__(self) -> str:
        return str(self.place())

    def place(self, port: str | None = None) -> Place:
        """Give the place of the argument for `port`, or of the call."""
        return self.arguments.get((port or "").partition("[")[0], self.call)


def caller() -> FrameType | None:
    """Give the first frame outside this room: the line that composes."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_code.co_filename.startswith(_ROOM):
        frame = frame.f_back
    return frame


def short_path(file: str) -> str:
    """Show a path relative to the working folder if it lies below, else as it is."""
    if not os.path.isabs(file):
        return file
    relative = os.path.relpath(file) if _same_drive(file) else file
    return file if relative.startswith(os.pardir) else relative


def _same_drive(file: str) -> bool:
    return os.path.splitdrive(file)[0] == os.path.splitdrive(os.getcwd())[0]


def _find_call(file: str, end_line: int, end_column: int) -> ast.Call | None:
    """Find the call that ends at a line and a column (in bytes): no two calls end at the same place."""
    import ast

    source = "".join(linecache.getlines(file))
    if not source:
        return None
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None  # the text is not the code that runs, for instance edited since
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (node.end_lineno, node.end_col_offset) == (end_line, end_column):
            return node
    return None


def _argument(call: ast.Call, port: str | None) -> ast.expr | ast.keyword:
    import ast

    name, _, item = (port or "").partition("[")
    for keyword in call.keywords:
        if port is not None and keyword.arg == name:
            listed = keyword.value.elts if isinstance(keyword.value, ast.List | ast.Tuple) else []
            plain = item and not any(isinstance(each, ast.Starred) for each in listed)
            return listed[int(item[:-1])] if plain and listed else keyword
    if port is not None and port.isdecimal() and int(port) < len(call.args):
        return call.args[int(port)]
    return call


def _place_of(file: str, node: ast.expr | ast.keyword) -> Place:
    """Turn byte columns of a node into character columns of its first line."""
    text = linecache.getline(file, node.lineno).rstrip("\n")
    start = _characters(text, node.col_offset)
    same_line = node.end_lineno == node.lineno and node.end_col_offset is not None
    end = _characters(text, node.end_col_offset or 0) if same_line else len(text.rstrip())
    return Place(file, node.lineno, text, start, end)


def _characters(text: str, column: int) -> int:
    return len(text.encode()[:column].decode(errors="replace"))
