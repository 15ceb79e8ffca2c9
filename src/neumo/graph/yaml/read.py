"""Reads YAML text into plain values that remember where they were written.

Safe by construction: no tag can name a class, duplicate keys are refused, and size, depth and the expansion
of anchors are limited before anything is built. Scalars follow the YAML 1.2 core schema, so `1e-3` is a
number and `no` is the word "no".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, cast

from neumo.graph.source import Place, short_path
from neumo.types.errors import ConfigError, nearest

if TYPE_CHECKING:
    from yaml import SafeLoader

TEXT: Final = "<text>"  # what messages call a recipe that is no file
COMMAND_LINE: Final = "command line"  # what they call the place of an override
LARGEST_FILE: Final = 2_000_000  # characters; the largest recipe worth reading is far below
MOST_NODES: Final = 20_000  # after aliases are followed: an anchors bomb ends here
DEEPEST: Final = 40  # levels of nesting

_LINE_BREAK: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")  # as YAML counts lines

_YAML: Final = re.compile(r"^\s*[{\[]|:\s|^\s*-\s")  # what no path looks like
_SHOWN: Final = 60  # characters of a text in a message

Plain: TypeAlias = Any
"""None, bool, int, float, str, or lists and dictionaries of them."""


@dataclass(frozen=True)
class YamlPlace(Place):
    """Points at a value in a YAML text; printed with its column, as editors count.

    >>> str(YamlPlace("recipe.yaml", 3, "  mel: audio", start=7, end=12))
    'recipe.yaml:3:8'
    """

    def __str__(self) -> str:
        return f"{short_path(self.file)}:{self.line}:{self.start + 1}" if self.line else short_path(self.file)

    def within(self, offset: int, width: int) -> YamlPlace:
        """Give a part of this place, `offset` characters to the right."""
        start = self.start + offset
        return YamlPlace(self.file, self.line, self.text, start, start + max(width, 1))


@dataclass(slots=True)
class Node:
    """A value with its place: `data` is a scalar, a list of nodes, or a dictionary of nodes."""

    data: Any
    place: YamlPlace
    key: YamlPlace
    inner: int | None = None  # characters from `place` to the first one of a text written on one line
    rows: tuple[tuple[int, YamlPlace], ...] = ()  # of a text on several lines: where each starts in it

    @property
    def is_map(self) -> bool:
        """Whether this is a mapping."""
        return isinstance(self.data, dict)

    @property
    def is_list(self) -> bool:
        """Whether this is a list."""
        return isinstance(self.data, list)

    @property
    def children(self) -> dict[str, Node]:
        """The entries of a mapping; nothing if this is none."""
        return cast("dict[str, Node]", self.data) if self.is_map else {}

    @property
    def items(self) -> list[Node]:
        """The entries of a list; nothing if this is none."""
        return cast("list[Node]", self.data) if self.is_list else []

    def part(self, offset: int, width: int) -> YamlPlace:
        """The place of `width` characters of a text from `offset` on, as far as they are on one line."""
        if self.inner is not None:
            return self.place.within(self.inner + offset, width)
        start, row = next((each for each in reversed(self.rows) if each[0] <= offset), (0, None))
        if row is None:
            return self.place
        return row.within(offset - start, min(width, row.end - row.start - (offset - start)))

    def plain(self) -> Plain:
        """The value without places."""
        if self.is_map:
            return {key: node.plain() for key, node in self.children.items()}
        if self.is_list:
            return [node.plain() for node in self.items]
        return self.data

    def describe(self) -> str:
        """The value in words, for messages.

        >>> Node([], YamlPlace("-", 1), YamlPlace("-", 1)).describe()
        'an empty list'
        """
        data = self.data
        if isinstance(data, dict):
            return "a mapping" if data else "an empty mapping"
        if isinstance(data, list):
            return "a list" if data else "an empty list"
        if data is None:
            return "nothing (null)"
        return f"{'the text ' if isinstance(data, str) else ''}{data!r}"


def read_text(source: str | Path) -> tuple[str, str]:
    """Give the text of a recipe and the name of its file; a text with a line break is the recipe itself.

    >>> read_text("neumo: 1\\n")
    ('neumo: 1\\n', '<text>')
    """
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith(("{", "neumo:"))):
        return source, TEXT
    path = Path(source)
    try:
        with path.open("rb") as file:
            raw = file.read(4 * LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        if isinstance(source, str) and _YAML.search(source) and not path.is_dir():
            raise _no_path(source) from None
        if isinstance(error, FileNotFoundError):
            raise _no_such_file(path) from None
        reason = "it is a folder" if path.is_dir() else getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot read {path}: {reason}", code="recipe-file") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"{path} is not a recipe: it is no UTF-8 text",
            code="recipe-file",
            where=f"{path}:{line}",
            details=(f"byte 0x{raw[error.start]:02x} at position {error.start} begins no character",),
            fixes=("save the recipe as UTF-8 text",),
        ) from None
    return text, str(path)


def read_yaml(text: str, path: str) -> Node:
    """The tree of a YAML text.

    >>> tree = read_yaml("mel: {n_mels: 64}", "recipe.yaml")
    >>> tree.plain(), str(tree.data["mel"].data["n_mels"].place)
    ({'mel': {'n_mels': 64}}, 'recipe.yaml:1:15')
    """
    if len(text) > LARGEST_FILE:
        raise ConfigError(
            f"{path} is too large for a recipe: over {LARGEST_FILE} characters", code="recipe-file"
        )
    import yaml  # takes 20 ms: only when a recipe is read

    lines = _LINE_BREAK.split(text)
    try:
        root: Any = cast("Any", yaml).compose(text, Loader=_loader())
    except yaml.YAMLError as error:
        raise _syntax_error(error, lines, path) from None
    if root is None:
        nowhere = YamlPlace(path, 1)
        return Node(None, nowhere, nowhere)
    return _Reader(lines, path).node(root, None, 0)


def node_of(value: Plain, origin: str) -> Node:
    """Make a tree of plain values that were not written in a file; `origin` says where they come from.

    >>> node_of({"epochs": 3}, "a call").plain()
    {'epochs': 3}
    """
    place = YamlPlace(origin, 0)
    if isinstance(value, dict):
        children = cast("dict[str, Plain]", value)
        return Node({str(key): node_of(child, origin) for key, child in children.items()}, place, place)
    if isinstance(value, list | tuple):
        items = cast("list[Plain]", value)
        return Node([node_of(child, origin) for child in items], place, place)
    return Node(value, place, place)


def _no_path(text: str) -> ConfigError:
    shown = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    return ConfigError(
        f"{shown!r} is YAML, not the path of a file",
        code="recipe-file",
        why="A text of a single line is taken for a path.",
        fixes=("end the text with a line break",),
    )


def _no_such_file(path: Path) -> ConfigError:
    folder = path.parent
    names = sorted(p.name for p in folder.glob("*.y*ml")) if folder.is_dir() else []
    near = nearest(path.name, names, cutoff=0.5)
    fixes = (f"did you mean {folder / near}?",) if near else ()
    return ConfigError(f"no such file: {path}", code="recipe-file", fixes=fixes)


_KEYS: Final = frozenset({"str", "int", "float", "bool", "null"})  # what a key may look like
_CORE_SCHEMA: Final = (
    ("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    ("tag:yaml.org,2002:int", re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"), list("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        re.compile(
            r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
        ),
        list("-+.0123456789"),
    ),
    ("tag:yaml.org,2002:merge", re.compile(r"^<<$"), ["<"]),
)


def add_core_schema(target: Any) -> None:
    """Gives a PyYAML loader or dumper class the scalars of the YAML 1.2 core schema."""
    for tag, pattern, first in _CORE_SCHEMA:
        target.add_implicit_resolver(tag, pattern, first)


@lru_cache(maxsize=1)
def _loader() -> type[SafeLoader]:
    from yaml import SafeLoader
    from yaml.composer import ComposerError

    class RecipeLoader(SafeLoader):
        """Composes nodes only; constructs nothing."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.depth += 1
            if self.depth > DEEPEST:
                event: Any = cast("Any", self).peek_event()
                raise ComposerError(None, None, f"nested deeper than {DEEPEST} levels", event.start_mark)
            try:
                return super().compose_node(parent, index)
            finally:
                self.depth -= 1

    RecipeLoader.yaml_implicit_resolvers = {}
    add_core_schema(RecipeLoader)
    return RecipeLoader


def _syntax_error(error: Any, lines: list[str], path: str) -> ConfigError:
    mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).strip()
    row = -1 if mark is None else int(mark.line)
    line = lines[row] if 0 <= row < len(lines) else ""
    where = YamlPlace(path, 0)
    if mark is not None:
        where = YamlPlace(path, mark.line + 1, line, mark.column, mark.column + 1)
    context = getattr(error, "context", None)
    details = (f"{problem} ({context})" if context else problem,)
    fixes: tuple[str, ...] = ()
    if mark is not None and (line[: mark.column + 1].endswith("\t") or r"'\t'" in problem):
        details, fixes = ("YAML indents with spaces, and here is a tab",), ("replace the tab by spaces",)
    elif "special characters" in problem:
        details = ("it holds characters that no text has; is it a binary file?",)
    return ConfigError(
        f"{path} is not valid YAML", code="recipe-yaml", where=where, details=details, fixes=fixes
    )


class _Reader:
    """Turns the nodes of PyYAML into ours, and counts them."""

    def __init__(self, lines: list[str], path: str) -> None:
        self.lines = lines
        self.path = path
        self.count = 0
        self.open: set[int] = set()

    def node(self, raw: Any, key: YamlPlace | None, depth: int) -> Node:
        place = self.place(raw)
        self.count += 1
        if self.count > MOST_NODES:
            self.refuse(place, f"over {MOST_NODES} values once its anchors are followed")
        if id(raw) in self.open:
            self.refuse(place, "an anchor that contains itself")
        if depth > DEEPEST:
            self.refuse(place, f"nested deeper than {DEEPEST} levels once its anchors are followed")
        tag = raw.tag.removeprefix("tag:yaml.org,2002:")
        key = key or place
        if raw.id == "scalar":
            inner = self.inner(raw, place)
            rows = () if inner is not None else self.rows(raw)
            return Node(self.scalar(raw, tag, place), place, key, inner, rows)
        self.open.add(id(raw))
        try:
            if raw.id == "sequence" and tag == "seq":
                return Node([self.node(child, None, depth + 1) for child in raw.value], place, key)
            if raw.id == "mapping" and tag == "map":
                return Node(self.mapping(raw, depth), place, key)
        finally:
            self.open.discard(id(raw))
        return self.refuse_tag(raw, place)

    def mapping(self, raw: Any, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for key_node, value_node in raw.value:
            place = self.place(key_node)
            if key_node.tag == "tag:yaml.org,2002:merge":
                merged.update(self.merged(value_node, depth))
                continue
            name = self.key(key_node, place)
            if name in found:
                self.refuse(place, f"the key {name!r} stands twice; first in line {found[name].key.line}")
            found[name] = self.node(value_node, place, depth + 1)
        return {**{name: node for name, node in merged.items() if name not in found}, **found}

    def merged(self, raw: Any, depth: int) -> dict[str, Node]:
        node = self.node(raw, None, depth + 1)
        parts: list[Node] = node.data if node.is_list else [node]
        found: dict[str, Node] = {}
        for part in parts:
            if not part.is_map:
                self.refuse(part.place, f"<< merges mappings, not {part.describe()}")
            found = {**part.data, **found}
        return found

    def key(self, raw: Any, place: YamlPlace) -> str:
        if raw.id != "scalar":
            self.refuse(place, "a key must be a word")
        if raw.tag.removeprefix("tag:yaml.org,2002:") not in _KEYS:
            self.refuse_tag(raw, place)
        return str(raw.value)

    def scalar(self, raw: Any, tag: str, place: YamlPlace) -> Plain:
        text: str = raw.value
        if tag == "str" or tag == "merge":
            return text
        if tag == "null":
            return None
        if tag == "bool" and text.lower() in {"true", "false"}:
            return text.lower() == "true"
        try:
            if tag == "int":
                return int(text, 0) if text[:2] in {"0x", "0o"} else int(text)
            if tag == "float":
                return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError as error:
            self.refuse(place, str(error))
        return self.refuse_tag(raw, place)

    def place(self, raw: Any) -> YamlPlace:
        start, end = raw.start_mark, raw.end_mark
        row = int(start.line)
        text = self.lines[row] if row < len(self.lines) else ""
        last = end.column if end.line == start.line else len(text.rstrip())
        return YamlPlace(self.path, start.line + 1, text, start.column, max(last, start.column + 1))

    def inner(self, raw: Any, place: YamlPlace) -> int | None:
        skip = 0 if raw.style is None else 1
        return skip if place.text[place.start + skip :].startswith(raw.value) else None

    def rows(self, raw: Any) -> tuple[tuple[int, YamlPlace], ...]:
        """Find the lines of a text on several lines; nothing where it has escapes, which move all places."""
        value: str = raw.value
        quote = raw.style if raw.style in ("'", '"') else ""
        found: list[tuple[int, YamlPlace]] = []
        at = 0
        for row in range(raw.start_mark.line, min(raw.end_mark.line + 1, len(self.lines))):
            at += len(value[at:]) - len(value[at:].lstrip())  # a break became a space, or stayed one
            if at >= len(value):
                break
            text = self.lines[row]
            column = raw.start_mark.column if row == raw.start_mark.line else len(text) - len(text.lstrip())
            part = text[column:].strip().removeprefix(quote if not found else "")
            if not part or (row == raw.start_mark.line and raw.style in (">", "|")):
                continue
            part = part.removesuffix(quote)
            if not value.startswith(part, at):
                return ()
            start = text.index(part, column)
            found.append((at, YamlPlace(self.path, row + 1, text, start, start + len(part))))
            at += len(part)
        return tuple(found)

    def refuse(self, place: YamlPlace, reason: str) -> NoReturn:
        raise ConfigError(f"{self.path}: {reason}", code="recipe-yaml", where=place)

    def refuse_tag(self, raw: Any, place: YamlPlace) -> NoReturn:
        tag = raw.tag.replace("tag:yaml.org,2002:", "!!")
        raise ConfigError(
            f"{self.path}: the tag {tag} is refused",
            code="recipe-yaml",
            where=place,
            details=("a recipe is data: no tag of it makes an object or runs code",),
            fixes=("remove the tag; a module is named by its kind",),
        )
