"""Overrides on the command line: `train.epochs=5`, `modules.encoder.width=128`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from neumo.graph.yaml.read import COMMAND_LINE, Node, YamlPlace, read_yaml
from neumo.graph.yaml.recipe import ACTIONS
from neumo.types.errors import ConfigError, did_you_mean

_SECTIONS: Final = ("vocabs", "modules", "graphs", *ACTIONS)


def apply_overrides(tree: Node, overrides: Sequence[str], *, within: str = "") -> None:
    """Change the tree of a recipe as `key=value` words say: dotted keys, values in YAML.

    >>> tree = read_yaml("train: {epochs: 10}", "recipe.yaml")
    >>> apply_overrides(tree, ["train.epochs=5", "train.schedule={kind: cosine}"])
    >>> tree.plain()
    {'train': {'epochs': 5, 'schedule': {'kind': 'cosine'}}}

    The last key may be new (its section says whether it has such a field). So may those before it in the
    sections of actions: `factory.strategy.kind=FSDP` writes `strategy: {kind: FSDP}` where the recipe has no
    strategy. Elsewhere they must be in the recipe. A number as key counts from 0 in a list. A path starts at
    the current folder, as on any command line. `within` names the only entry of the tree that may be changed.
    Raises `ConfigError` with the nearest match.
    """
    for text in overrides:
        key, sign, _ = text.partition("=")
        if not sign or not all(key.strip().split(".")):
            raise ConfigError(
                f"{text!r} overrides nothing",
                code="override",
                fixes=["write key=value, such as train.epochs=5"],
            )
        path = key.strip().split(".")
        value = _value(text, len(key) + 1)
        _set(tree.data[within] if within else tree, path, text, value, [within] if within else [])


def _value(text: str, start: int) -> Node:
    try:
        node = read_yaml(text[start:], COMMAND_LINE)
    except ConfigError as error:
        where = _place(text, start, len(text))
        raise ConfigError(
            f"cannot read the value of {text!r}", code="override", where=where, details=error.details
        ) from None
    return _moved(node, text, start)


def _moved(node: Node, text: str, start: int) -> Node:
    """Give a value the place that it has in its word on the command line."""
    data: Any = node.data
    if node.is_map:
        data = {key: _moved(child, text, start) for key, child in node.children.items()}
    elif node.is_list:
        data = [_moved(child, text, start) for child in node.items]
    place = _place(text, start + node.place.start, start + node.place.end)
    key = _place(text, start + node.key.start, start + node.key.end)
    return Node(data, place, key, node.inner)


def _place(text: str, start: int, end: int) -> YamlPlace:
    return YamlPlace(COMMAND_LINE, 0, text, start, max(end, start + 1))


def _set(tree: Node, path: list[str], text: str, value: Node, done: list[str]) -> None:
    here = tree
    column = 0
    for part in path[:-1]:
        here = _child(here, part, done, _place(text, column, column + len(part)))
        done.append(part)
        column += len(part) + 1
    last = path[-1]
    where = _place(text, column, column + len(last))
    value.key = where
    if here.is_list:
        _child(here, last, done, where)
        here.data[int(last)] = value
        return
    _check_map(here, done, where)
    if not done and last not in here.data and last not in _SECTIONS:
        raise _unknown(last, {**here.data, **dict.fromkeys(_SECTIONS)}, done, where)
    if done == ["modules"] or done == ["graphs"] or done == ["vocabs"]:
        _child(here, last, done, where)
    here.data[last] = value


def _child(here: Node, part: str, done: list[str], where: YamlPlace) -> Node:
    if here.is_list:
        if not part.isdecimal() or int(part) >= len(here.data):
            raise ConfigError(
                f"{'.'.join(done)} is a list of {len(here.data)}: {part} is not among them",
                code="override",
                where=where,
            )
        return here.data[int(part)]
    _check_map(here, done, where)
    if not done and part in ACTIONS and not isinstance(getattr(here.data.get(part), "data", None), dict):
        here.data[part] = Node({}, where, where)
    if part not in here.data and done and done[0] in ACTIONS and part.isidentifier():
        here.data[part] = Node({}, where, where)  # the section says whether it has such a field
    if part not in here.data:
        raise _unknown(part, here.data if done else {**here.data, **dict.fromkeys(ACTIONS)}, done, where)
    return here.data[part]


def _check_map(here: Node, done: list[str], where: YamlPlace) -> None:
    if not here.is_map:
        name = ".".join(done) or "the recipe"
        raise ConfigError(
            f"{name} is {here.describe()}: nothing in it can be overridden", code="override", where=where
        )


def _unknown(part: str, known: Mapping[str, Any], done: list[str], where: YamlPlace) -> ConfigError:
    name = ".".join(done)
    return ConfigError(
        f"{name} has no {part!r}" if name else f"a recipe has no section {part!r}",
        code="override",
        where=where,
        details=[f"it has {', '.join(known) or 'nothing'}"],
        fixes=did_you_mean(part, known),
    )
