"""What neumo raises: errors that are objects with data and are rendered only when somebody reads them.

NeumoError
├── PortError        a value cannot feed a port (wrong type, missing, misspelt)
├── GraphError       a graph as a whole is wrong (cycles, no trainable parameter, unknown outputs)
├── ConfigError      an argument, a recipe or a notation is wrong
├── DataError        a manifest, a recording or a text is wrong
├── BackendError     a framework, a device or an optional package is missing or failed
└── CheckpointError  a model file or a checkpoint cannot be used
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

COLUMNS = 100
_TIED = "\N{NO-BREAK SPACE}"
_LABEL = 9  # width of the words given / wanted / path / fix, with the gap behind them


@dataclass(frozen=True)
class Source:
    """Points at the user's line, with a caret under columns `start` to `end` of `text` when they are known.

    >>> print(Source("train.py", 3, "loss = ctc(x=y)", 11, 14).render())
    train.py:3
        loss = ctc(x=y)
                   ^^^
    """

    file: str
    line: int | None = None
    text: str = ""
    start: int | None = None
    end: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def render(self) -> str:
        """Give the place, and below it the source line with its caret."""
        lines = [str(self)]
        text, start, end = self._window()
        if text.strip():
            lines.append("    " + text)
        if text.strip() and start is not None:
            lines.append("    " + " " * start + "^" * max(1, (end or start + 1) - start))
        return "\n".join(lines)

    def _window(self) -> tuple[str, int | None, int | None]:
        """Cut a long line so that it fits and the caret stays in view."""
        room = COLUMNS - 8
        indent = len(self.text) - len(self.text.lstrip())
        text = self.text.strip()
        start = None if self.start is None else max(0, self.start - indent)
        end = None if self.end is None or start is None else max(start + 1, self.end - indent)
        if len(text) <= room:
            return text, start, end
        left = 0 if start is None or (end or start) <= room - 3 else max(0, start - room // 3)
        cut = text[left : left + room - 6]
        head, tail = ("..." if left else ""), ("..." if left + len(cut) < len(text) else "")
        if start is None:
            return head + cut + tail, None, None
        shift = len(head) - left
        return head + cut + tail, start + shift, min((end or start + 1) + shift, len(head) + len(cut))


@dataclass(frozen=True)
class Row:
    """One labelled line of an error (`given    Mel[B, F=64, T]    made by ...`).

    >>> Row("given", "Mel[B, F=64, T]", "made by MelSpectrogram").label
    'given'
    """

    label: str
    text: str
    note: str = ""


@dataclass(frozen=True)
class Fix:
    """One way out: what to write, and whether it was tried (`note`, usually "fits").

    `code` is the same as it would be pasted, where `text` says it in words.

    >>> Fix("insert Invert(mask)", "fits").text
    'insert Invert(mask)'
    """

    text: str
    note: str = ""
    code: str = field(default="", repr=False)


Where = str | Source | Callable[[], "str | Source | None"] | None


class NeumoError(Exception):
    """Root of everything that neumo raises on purpose: what is wrong, where, why, and the way out.

    `what` completes the first line; `code` is stable and is what `neumo explain CODE` takes. `where` is a
    place, a `Source` or a function that finds it when the error is printed. `details` are `Row`s or plain
    lines, `why` the diagnosis, `path` the way through the graph, `fixes` the ways out, `also` further errors
    of the same action.

    >>> print(NeumoError("rate is 0", code="field", where="recipe.yaml:3", why="A rate is above 0 Hz."))
    NeumoError[field]: rate is 0
    <BLANKLINE>
      recipe.yaml:3
    <BLANKLINE>
      A rate is above 0 Hz.
    """

    default_code: ClassVar[str] = "error"

    def __init__(
        self,
        what: str,
        *,
        code: str = "",
        where: Where = None,
        details: Iterable[Row | str] = (),
        why: str | Sequence[str] = (),
        path: str = "",
        fixes: Iterable[Fix | str] = (),
        also: Iterable[NeumoError] = (),
        data: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.code = code or self.default_code
        self.details = tuple(details)
        self.why: tuple[str, ...] = (why,) if isinstance(why, str) else tuple(why)
        self.path = path
        self.fixes = tuple(Fix(f) if isinstance(f, str) else f for f in fixes)
        self.also = tuple(also)
        self.data = dict(data or {})
        self._where = where

    @property
    def where(self) -> str | Source | None:
        """The place of the mistake, looked up on first use."""
        if callable(self._where):
            self._where = self._where()
        return self._where

    def __str__(self) -> str:
        return self.render()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._state())

    def _state(self) -> dict[str, Any]:
        names = ("what", "code", "where", "details", "why", "path", "fixes", "also", "data")
        return {name: getattr(self, name) for name in names}

    def render(self) -> str:
        """Write the error as plain text of at most 100 columns."""
        blocks = [_wrap(f"{type(self).__name__}[{self.code}]: {self.what}", "", "    ")]
        body = [*self._where_lines(), *_rows(self.details)]
        blocks.append("\n".join(body))
        blocks.append("\n".join(_wrap(sentence, "  ", "  ") for sentence in self.why))
        rows: list[Row | str] = [Row("path", self.path)] if self.path else []
        rows += [
            Row("fix" if n == 0 else "or", f.text, f"({f.note})" if f.note else "")
            for n, f in enumerate(self.fixes)
        ]
        codes = [*([""] if self.path else []), *(f.code for f in self.fixes)]
        blocks.append("\n".join(_rows(rows, codes)))
        blocks += [error.render() for error in self.also]
        return "\n\n".join(block for block in blocks if block)

    def _where_lines(self) -> list[str]:
        where = self.where
        if where is None:
            return []
        text = where if isinstance(where, str) else where.render()
        return ["  " + line for line in text.split("\n")]

    def to_json(self) -> dict[str, Any]:
        """Give everything as a dict of plain values, ready for `json.dumps`."""
        where = self.where
        place: Any = where if where is None or isinstance(where, str) else dict(vars(where))
        return {
            "error": type(self).__name__,
            "code": self.code,
            "what": self.what,
            "where": place,
            "details": [d if isinstance(d, str) else dict(vars(d)) for d in self.details],
            "why": list(self.why),
            "path": self.path,
            "fixes": [
                {key: text for key, text in vars(f).items() if text or key != "code"} for f in self.fixes
            ],
            "also": [error.to_json() for error in self.also],
            "data": self.data,
        }


class PortError(NeumoError):
    """Says that a value cannot feed a port, or that a port was left out or misspelt."""

    default_code = "port"


class GraphError(NeumoError):
    """Says that a graph as a whole cannot be right: a cycle, an unknown output, nothing to train."""

    default_code = "graph"


class ConfigError(NeumoError):
    """Says that an argument, a recipe or a piece of notation cannot be used."""

    default_code = "config"


class DataError(NeumoError):
    """Says that a manifest, a recording or a text cannot be used, naming file and line."""

    default_code = "data"


class BackendError(NeumoError):
    """Says that a framework, a device or an optional package is missing or failed."""

    default_code = "backend"


class CheckpointError(NeumoError):
    """Says that a model file or a checkpoint cannot be used."""

    default_code = "checkpoint"


def nearest(word: str, choices: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Find the choice a misspelt word most likely meant, or None; `cutoff` is as in `matches`.

    >>> nearest("audoi", ["audio", "text"])
    'audio'
    >>> nearest("qqq", ["audio", "text"]) is None
    True
    """
    return next(iter(matches(word, choices, 1, cutoff)), None)


def matches(word: str, choices: Iterable[str], n: int, cutoff: float = 0.6) -> list[str]:
    """Find the `n` choices that are most like a word, the likest first.

    `cutoff` says how much of the two has to agree, from 0 to 1.

    >>> matches("mell", ["text", "mel", "meld"], 2)
    ['mel', 'meld']
    """
    import difflib

    return difflib.get_close_matches(word, list(choices), n, cutoff)


def did_you_mean(word: str, choices: Iterable[str], cutoff: float = 0.6) -> tuple[Fix, ...]:
    """Give the nearest match as a fix, or nothing when no choice is near.

    >>> did_you_mean("audoi", ["audio", "text"])
    (Fix(text="did you mean 'audio'?", note=''),)
    """
    match = nearest(word, choices, cutoff)
    return () if match is None else (Fix(f"did you mean {match!r}?"),)


def and_text(words: Iterable[str]) -> str:
    """Join words, each once.

    >>> and_text(["mel", "encoder", "mel"])
    'mel and encoder'
    """
    return " and ".join(dict.fromkeys(words))


def clause(sentence: str) -> str:
    """Go on with a sentence behind a colon or a comma; names keep their capital.

    >>> clause("It is 3 too long"), clause("CTCLoss wants ids")
    ('it is 3 too long', 'CTCLoss wants ids')
    """
    head = sentence.partition(" ")[0]
    return sentence[:1].lower() + sentence[1:] if head in ("It", "Its", "No", "Axis") else sentence


def _rebuild(kind: type[NeumoError], state: dict[str, Any]) -> NeumoError:
    """Undo pickling: errors cross process borders, with their place already looked up."""
    what = state.pop("what")
    return kind(what, **state)


def _wrap(text: str, first: str, rest: str) -> str:
    lines: list[str] = []
    for n, part in enumerate(text.split("\n")):
        head = first if n == 0 else rest
        lines += textwrap.wrap(
            part,
            COLUMNS,
            initial_indent=head,
            subsequent_indent=rest,
            break_on_hyphens=False,
            drop_whitespace=True,
        ) or [""]
    return "\n".join(lines)


def _whole_axes(text: str) -> str:
    """Tie the axes of a type together, so that no line breaks within `[B, F=80, T]` if it is short enough."""
    tied: list[str] = []
    depth = 0
    for character in text:
        depth += (character == "[") - (character == "]")
        tied.append(_TIED if character == " " and depth else character)
    found = "".join(tied)
    room = COLUMNS - _LABEL - 2
    return found if max(map(len, found.split(" "))) <= room else text


def _rows(details: Sequence[Row | str], codes: Sequence[str] = ()) -> list[str]:
    """Lay labels, texts and notes out in columns; a note that does not fit goes below its text.

    `codes` go below the rows as they are: a line that is to be pasted is never broken.
    """
    width = max(
        (len(d.text) for d in details if isinstance(d, Row) and d.note and len(d.text) <= 50), default=0
    )
    lines: list[str] = []
    for n, detail in enumerate(details):
        if isinstance(detail, str):
            lines.append(_wrap(detail, "  ", "    "))
            continue
        indent = " " * (2 + _LABEL)
        line = f"  {detail.label:<{_LABEL}}{detail.text:<{width}}    {detail.note}".rstrip()
        if len(line) <= COLUMNS:
            lines.append(line)
        else:
            tied = _wrap(_whole_axes(detail.text), f"  {detail.label:<{_LABEL}}", indent)
            lines.append(tied.replace(_TIED, " "))
            lines += [_wrap(detail.note, indent, indent)] if detail.note else []
        lines += [indent + text for code in codes[n : n + 1] for text in code.splitlines()]
    return lines
