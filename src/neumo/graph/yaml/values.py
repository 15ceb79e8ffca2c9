"""Reads single values of a recipe: numbers, texts, paths, vocabularies, elements and types."""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from neumo.graph.yaml.read import COMMAND_LINE, Node
from neumo.graph.yaml.scope import Scope, Spoilt, known_names
from neumo.graph.yaml.vocabs import read_vocab
from neumo.types.element import Element
from neumo.types.errors import Fix, NeumoError, did_you_mean
from neumo.types.type import NeuralType
from neumo.types.vocab import Vocab

ANYTHING: Final = (Any, object)  # `Any` is a class since Python 3.11
UNIONS: Final = {typing.Union, types.UnionType}
LISTS: Final[frozenset[Any]] = frozenset(
    {list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Iterable}
)
MAPS: Final[frozenset[Any]] = frozenset({dict, collections.abc.Mapping, collections.abc.MutableMapping})


class Unfit(Exception):
    """A value does not fit its annotation: what was expected instead, and the very node that is wrong."""

    def __init__(self, expected: str, node: Node, fixes: tuple[Fix | str, ...] = ()) -> None:
        super().__init__(expected)
        self.expected, self.node, self.fixes = expected, node, fixes


def describe_hint(hint: Any) -> str:
    """Say in words what an annotation asks for.

    >>> describe_hint(int | None), describe_hint(list[float])
    ('an integer or null', 'a list of numbers')
    """
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in UNIONS:
        return " or ".join(describe_hint(part) for part in parts)
    if origin is typing.Literal:
        return " or ".join(repr(part) for part in parts)
    container = origin or hint
    if container in LISTS:
        word = _PLURALS.get(parts[0]) if parts else None
        return f"a list of {word}" if word else "a list"
    if container in MAPS:
        return "a mapping"
    if hint in ANYTHING or not isinstance(hint, type):
        return "a value"
    if hint in _WORDS:
        return _WORDS[hint]
    name: str = cast("Any", hint).__name__
    if issubclass(hint, Element):
        return f"an element such as '{_EXAMPLES.get(name, name)}'"
    if name.endswith("Settings"):  # of an action, which nobody knows by the name of its class
        return "a mapping of settings"
    return f"the settings of {name}" if has_fields(hint) else f"a {name}"


_WORDS: Final[Mapping[Any, str]] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a text",
    Path: "a path",
    type(None): "null",
    Vocab: "a vocabulary",
    NeuralType: "a type such as 'Audio(rate=16000)[B, T]'",
}
_PLURALS: Final[Mapping[Any, str]] = {int: "integers", float: "numbers", str: "texts", Path: "paths"}
_EXAMPLES: Final = {
    "Mel": "Mel(rate=16000, n_mels=64)",
    "Element": "Audio(rate=16000)",
    "Audio": "Audio(rate=16000)",
}


def has_fields(hint: Any) -> bool:
    """Whether an annotation is a dataclass."""
    return hasattr(hint, "__dataclass_fields__")


def read_element(hint: type[Element], node: Node, scope: Scope) -> Element:
    """Read an element in its notation."""
    from neumo.types.notation import parse_element

    if not isinstance(node.data, str):
        raise Unfit(describe_hint(hint), node)
    try:
        element = parse_element(node.data, names=known_vocabs(scope))
    except NeumoError as error:
        scope.note(error, node.place)
        raise Spoilt from None
    if not isinstance(element, hint):
        raise Unfit(describe_hint(hint), node)
    return element


def known_vocabs(scope: Scope) -> dict[str, Vocab]:
    """Give the vocabularies that a notation may name."""
    return {name: vocab for name, vocab in scope.vocabs.items() if vocab is not None}


def _read_bool(node: Node, _: Scope) -> bool:
    if isinstance(node.data, bool):
        return node.data
    words = {"yes": "true", "on": "true", "no": "false", "off": "false"}
    meant = words.get(node.data.lower()) if isinstance(node.data, str) else None
    raise Unfit("true or false", node, (f"write {meant}",) if meant else ())


def _read_int(node: Node, _: Scope) -> int:
    value = node.data
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:  # 1e6 steps
        return int(value)
    raise Unfit("an integer", node)


def _read_float(node: Node, _: Scope) -> float:
    value = node.data
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise Unfit("a number", node)


def _read_str(node: Node, _: Scope) -> str:
    if isinstance(node.data, str):
        return node.data
    scalar = node.data is not None and not node.is_map and not node.is_list
    raise Unfit("a text", node, (f'write it in quotes: "{node.plain()}"',) if scalar else ())


def _read_none(node: Node, _: Scope) -> None:
    if node.data is not None:
        raise Unfit("null", node)


def read_path(node: Node, scope: Scope) -> Path:
    """Read a path, which starts at the folder of the recipe; on the command line at the current one."""
    if isinstance(node.data, str) and node.data and "\0" not in node.data:
        if node.place.file == COMMAND_LINE:
            return Path.cwd() / Path(node.data).expanduser()
        return scope.path(node.data)
    raise Unfit("a path", node)


def _read_vocab(node: Node, scope: Scope) -> Vocab:
    if node.is_map or node.is_list:
        found = read_vocab("", node, scope)
    elif isinstance(node.data, str) and node.data in scope.vocabs:
        found = scope.vocabs[node.data]
    else:
        fixes = did_you_mean(str(node.data), scope.vocabs)
        raise Unfit(f"the name of a vocabulary ({known_names(scope.vocabs)})", node, fixes)
    if found is None:
        raise Spoilt
    return found


def _read_type(node: Node, scope: Scope) -> NeuralType:
    from neumo.types.notation import parse

    if not isinstance(node.data, str):
        raise Unfit(_WORDS[NeuralType], node)
    try:
        return parse(node.data, names=known_vocabs(scope))
    except NeumoError as error:
        scope.note(error, node.place)
        raise Spoilt from None


SCALARS: Final[Mapping[Any, Callable[[Node, Scope], Any]]] = {
    bool: _read_bool,
    int: _read_int,
    float: _read_float,
    str: _read_str,
    type(None): _read_none,
    Path: read_path,
    Vocab: _read_vocab,
    NeuralType: _read_type,
}
