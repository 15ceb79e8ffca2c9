"""Reads vocabularies of a recipe: a string of characters, a list of labels, a file, a model of pieces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from neumo.graph.yaml.read import LARGEST_FILE, Node
from neumo.graph.yaml.scope import Scope
from neumo.types.errors import ConfigError, NeumoError, did_you_mean
from neumo.types.pieces import LARGEST_MODEL
from neumo.types.vocab import ROLES, Vocab

_KEYS: Final = ("labels", "file", "sentencepiece", "name", "unit", "model", "normalise", *ROLES)
_SOURCES: Final = ("labels", "file", "sentencepiece")
_Content = TypeVar("_Content", str, bytes)


def read_vocab(name: str, node: Node, scope: Scope) -> Vocab | None:
    """Read one vocabulary, called `name` unless it names itself; None once its mistakes are noted.

    >>> from neumo.graph.yaml.read import read_yaml
    >>> read_vocab("digits", read_yaml("{labels: '0123456789'}", "-"), Scope())
    Vocab(digits[10]#37649e79)
    """
    before = len(scope.problems)
    data = _settings(name, node, scope)
    if data is None or len(scope.problems) > before:
        return None
    try:
        if isinstance(data.get("labels"), bytes):
            return _of_pieces(data)
        return Vocab.from_data(data)
    except NeumoError as error:
        scope.note(error, node.key)
    return None


def _settings(name: str, node: Node, scope: Scope) -> dict[str, Any] | None:
    if isinstance(node.data, str) or node.is_list:
        return {"labels": _labels(node, scope), **_named(name)}
    if not node.is_map:
        scope.refuse(f"the vocabulary {name!r} must be labels, not {node.describe()}", node.place)
        return None
    for key, child in node.data.items():
        if key not in _KEYS:
            known = f"it may have {', '.join(_KEYS)}"
            fixes = did_you_mean(key, _KEYS)
            scope.refuse(
                f"a vocabulary has no {key!r}", child.key, code="recipe-key", details=[known], fixes=fixes
            )
    given = [key for key in _SOURCES if key in node.data]
    if len(given) != 1:
        what = f"the vocabulary {name!r} needs labels, a file or a model of sentencepiece, one of them"
        scope.refuse(what, node.key, code="recipe-key")
        return None
    data = {key: child.plain() for key, child in node.data.items() if key not in _SOURCES}
    read = {"labels": _labels, "file": _read_file, "sentencepiece": _read_model}[given[0]]
    return {**_named(name), **data, "labels": read(node.data[given[0]], scope)}


def _of_pieces(data: dict[str, Any]) -> Vocab:
    """Make the vocabulary of a SentencePiece model: its pieces and roles are those of the model."""
    extra = sorted(data.keys() - {"labels", "name", "normalise"})
    if extra:
        raise ConfigError(
            f"a vocabulary of sentencepiece has its {extra[0]} from the model",
            code="vocab",
            fixes=[f"leave {', '.join(extra)} out"],
        )
    return Vocab.of_pieces(data["labels"], data.get("name", ""), data.get("normalise"))


def _named(name: str) -> dict[str, str]:
    return {"name": name} if name else {}


def _labels(node: Node, scope: Scope) -> str | list[str]:
    if isinstance(node.data, str):
        return node.data
    if not node.is_list:
        scope.refuse(f"labels must be a text or a list of texts, not {node.describe()}", node.place)
        return ""
    labels: list[str] = []
    for child in node.data:
        if isinstance(child.data, str):
            labels.append(child.data)
            continue
        fixes = [f'write it in quotes: "{child.data}"'] if not child.is_list and not child.is_map else []
        scope.refuse(f"a label must be a text, not {child.describe()}", child.place, fixes=fixes)
    return labels


def _read_file(node: Node, scope: Scope) -> list[str]:
    """Read one label a line; a line with a single space is the label of the space."""
    text = _read(node, scope, _read_small, "")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines and not lines[-1] else lines


def _read_model(node: Node, scope: Scope) -> bytes:
    """Read a SentencePiece model, whose bytes are looked at and never executed."""
    return _read(node, scope, _read_bytes, b"")


def _read(node: Node, scope: Scope, read: Callable[[Path], _Content], nothing: _Content) -> _Content:
    if not isinstance(node.data, str) or not node.data or "\0" in node.data:
        scope.refuse(f"the file of a vocabulary must be a path, not {node.describe()}", node.place)
        return nothing
    path = scope.path(node.data)
    try:
        return read(path)
    except FileNotFoundError:
        scope.refuse(f"the vocabulary file {path} does not exist", node.place, code="recipe-file")
    except (OSError, ValueError) as error:
        scope.refuse(f"cannot read the vocabulary file {path}: {error}", node.place, code="recipe-file")
    return nothing


def _read_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(LARGEST_MODEL + 1)
    if len(data) > LARGEST_MODEL:
        raise ValueError(f"over {LARGEST_MODEL} bytes")
    return data


def _read_small(path: Path) -> str:
    with path.open(encoding="utf-8-sig", newline="") as file:
        text = file.read(LARGEST_FILE + 1)
    if len(text) > LARGEST_FILE:
        raise ValueError(f"over {LARGEST_FILE} characters")
    return text
