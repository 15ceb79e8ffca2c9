"""Reads the fields of modules and settings from a recipe, checked against the annotations of their dataclass.

Fields hold what YAML can hold: null, booleans, numbers, texts, paths, lists, mappings, nested dataclasses,
vocabularies (by name or written out) and elements in their notation. Every wrong field is noted with its
place.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

from neumo.graph.module import NeuralModule
from neumo.graph.yaml.read import Node
from neumo.graph.yaml.scope import Scope, Spoilt, known_names
from neumo.graph.yaml.values import (
    ANYTHING,
    LISTS,
    MAPS,
    SCALARS,
    UNIONS,
    Unfit,
    describe_hint,
    has_fields,
    read_element,
    read_path,
)
from neumo.types.element import Element
from neumo.types.errors import Fix, NeumoError, did_you_mean, nearest

Made = TypeVar("Made")


def read_object(cls: type[Made], node: Node, scope: Scope, label: str = "") -> Made:
    """Make an object of a dataclass from a mapping; raises `Spoilt` once its mistakes are noted.

    >>> from neumo.graph.yaml.read import read_yaml
    >>> @dataclasses.dataclass(frozen=True)
    ... class Optimizer:
    ...     lr: float
    ...     warmup: int = 0
    >>> read_object(Optimizer, read_yaml("{lr: 1e-3}", "-"), Scope())
    Optimizer(lr=0.001, warmup=0)
    """
    label = label or cls.__name__
    try:
        values = read_fields(cls, node, scope, label)
    except Spoilt:
        meant = [nearest(name, field_hints(cls)) for name in node.children if name not in field_hints(cls)]
        _refuse_missing(cls, [*node.children, *meant], node, scope, label)
        raise
    return make(cls, values, node, scope, label)


def read_fields(
    cls: type,
    node: Node,
    scope: Scope,
    label: str,
    *,
    skip: tuple[str, ...] = (),
    preset: Callable[..., Any] | None = None,
) -> dict[str, Any]:
    """Read the fields that a mapping gives; raises `Spoilt` at the end if one of them is wrong.

    `preset` may take settings of its own beside the fields of `cls`; keys of `skip` are read elsewhere.
    """
    if not node.is_map:
        scope.refuse(f"{label} needs a mapping of its settings, not {node.describe()}", node.place)
        raise Spoilt
    known = field_hints(cls) | (keyword_hints(preset) if preset is not None else {})
    values: dict[str, Any] = {}
    spoilt = False
    for name, child in node.data.items():
        if name in skip:
            continue
        try:
            values[name] = _read_field(known, name, child, scope, label)
        except Spoilt:
            spoilt = True
    if spoilt:
        raise Spoilt
    return values


def make(call: Callable[..., Made], values: Mapping[str, Any], node: Node, scope: Scope, label: str) -> Made:
    """Call a class (or a preset) with read fields; what it refuses gets its place, or that of `node`."""
    if _refuse_missing(call, values, node, scope, label):
        raise Spoilt
    made, refused = attempt(call, values)
    if made is not None:
        return made
    for field, error in refused:
        child = node.children.get(field)
        if isinstance(error, NeumoError):
            scope.note(error, node.key if child is None else child.place)
        else:
            place = node.key if child is None else child.place
            scope.refuse(f"{label} refuses its settings: {error}", place)
    raise Spoilt


Refusals = list[tuple[str, Exception]]  # what a class refuses, by the field that the error names, "" if none


def attempt(call: Callable[..., Made], values: Mapping[str, Any]) -> tuple[Made | None, Refusals]:
    """Call something with fields; where it refuses one, leave that one out to find what else it refuses.

    >>> from neumo.graph.adapters import Resample
    >>> attempt(Resample, {"source": 8000, "target": 16000})
    (Resample(source=8000, target=16000), [])
    """
    left, refused = dict(values), list[tuple[str, Exception]]()
    while True:
        try:
            made = call(**left)
        except (NeumoError, TypeError, ValueError) as error:
            if refused and isinstance(error, TypeError):
                return None, refused  # what was left out is needed
            field = _named_in(error, left)
            refused.append((field, error))
            if not field:
                return None, refused
            del left[field]
        else:
            return (None if refused else made), refused


def _named_in(error: Exception, values: Collection[str]) -> str:
    """Find the field that an error is about: it writes `name=value`, or the name in its sentence."""
    text = error.what if isinstance(error, NeumoError) else str(error)
    for pattern in (r"(?<![\w.]){}=", r"(?<!\w)(?i:{})(?!\w)"):
        found = [name for name in values if re.search(pattern.format(re.escape(name)), text)]
        if found:
            return found[0]
    return ""


def _refuse_missing(call: Any, given: Collection[str | None], node: Node, scope: Scope, label: str) -> bool:
    """Note the fields that are needed and not given; say whether there are any."""
    missing = [name for name in _required(call) if name not in given]
    if missing and node.is_map:
        scope.refuse(
            f"{label} needs {' and '.join(missing)}",
            node.key,
            code="recipe-key",
            fixes=[f"add {missing[0]}: ..."],
        )
    return bool(missing)


@lru_cache(maxsize=256)
def field_hints(cls: type) -> dict[str, Any]:
    """Give the fields of a dataclass that its constructor takes, with their annotations as types."""
    if not dataclasses.is_dataclass(cls):
        return {}
    return {field.name: _resolve(cls, field) for field in dataclasses.fields(cls) if field.init}


def mentions_path(hint: Any) -> bool:
    """Say whether an annotation allows a path, such as `Path | None` or `tuple[Path, ...]`."""
    return hint is Path or any(mentions_path(part) for part in getattr(hint, "__args__", ()))


def keyword_hints(call: Callable[..., Any]) -> dict[str, Any]:
    """Give the keyword-only settings of a function, with their annotations as types."""
    try:
        hints = typing.get_type_hints(call)
    except (NameError, TypeError, AttributeError):
        hints = {}
    parameters = inspect.signature(call).parameters.values()
    return {each.name: hints.get(each.name, Any) for each in parameters if each.kind is each.KEYWORD_ONLY}


def _read_field(known: Mapping[str, Any], name: str, child: Node, scope: Scope, label: str) -> Any:
    if name not in known:
        scope.refuse(
            f"{label} has no field {name!r}",
            child.key,
            code="recipe-key",
            details=[f"its fields are {known_names(known)}"],
            fixes=did_you_mean(name, known),
        )
        raise Spoilt
    try:
        return read_value(known[name], child, scope, f"{label}.{name}")
    except Unfit as unfit:
        subject = f"{label}.{name}" if unfit.node is child else f"a value in {label}.{name}"
        what = f"{subject} must be {unfit.expected}, not {unfit.node.describe()}"
        scope.refuse(what, unfit.node.place, fixes=unfit.fixes)
        raise Spoilt from None


def _resolve(cls: type, field: dataclasses.Field[Any]) -> Any:
    """Turn an annotation into a type; `Any` where its names exist for type checkers only."""
    owner = next((base for base in cls.__mro__ if field.name in inspect.get_annotations(base)), cls)
    holder = types.SimpleNamespace(__annotations__={"field": field.type})
    try:
        return typing.get_type_hints(holder, vars(sys.modules[owner.__module__]), dict(vars(owner)))["field"]
    except (NameError, KeyError, TypeError, AttributeError):
        return Any


def _required(call: Any) -> list[str]:
    if not isinstance(call, type) or not dataclasses.is_dataclass(call):
        return []
    return [
        field.name
        for field in dataclasses.fields(call)
        if field.init
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]


def read_value(hint: Any, node: Node, scope: Scope, label: str) -> Any:
    """Read a value; raises `Unfit` if it is of another type, `Spoilt` if a mistake was noted already.

    >>> from neumo.graph.yaml.read import read_yaml
    >>> read_value(tuple[int, ...], read_yaml("[3, 5]", "-"), Scope(), "kernels")
    (3, 5)
    """
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, typing.NewType):
        return read_value(hint.__supertype__, node, scope, label)
    if origin in UNIONS:
        return _read_union(parts, node, scope, label)
    if origin is typing.Literal:
        return _read_literal(parts, node)
    container = origin or hint
    if container in LISTS:
        return _read_list(container, parts, node, scope, label)
    if container in MAPS:
        return _read_map(parts, node, scope, label)
    if hint in ANYTHING or not isinstance(hint, type):
        return node.plain()
    return _read_class(hint, node, scope, label)


def _read_class(hint: type[Any], node: Node, scope: Scope, label: str) -> Any:
    if hint in SCALARS:
        return SCALARS[hint](node, scope)
    if issubclass(hint, Element):
        return read_element(hint, node, scope)
    if issubclass(hint, NeuralModule):
        from neumo.graph.yaml.build import read_part

        return read_part(hint, node, scope, label)
    if has_fields(hint):
        if not node.is_map:
            raise Unfit(describe_hint(hint), node)
        return read_object(cast("type[object]", hint), node, scope, label)
    raise Unfit(f"{describe_hint(hint)}, which a recipe cannot hold", node)


def _read_union(parts: tuple[Any, ...], node: Node, scope: Scope, label: str) -> Any:
    """Take the first alternative that fits; a text that may be a path starts at the recipe's folder."""
    fixes: list[Fix | str] = []
    for part in sorted(parts, key=lambda part: part not in (bool, int, type(None))):
        before = len(scope.problems)
        try:
            if part is str and Path in parts:
                return str(read_path(node, scope))
            return read_value(part, node, scope, label)
        except Unfit as unfit:
            if unfit.node is not node:
                raise
            del scope.problems[before:]
            fixes += [fix for fix in unfit.fixes if fix not in fixes]
    raise Unfit(" or ".join(describe_hint(part) for part in parts), node, tuple(fixes))


def _read_literal(choices: tuple[Any, ...], node: Node) -> Any:
    for choice in choices:
        if type(choice) is type(node.data) and choice == node.data:
            return choice
    words = [choice for choice in choices if isinstance(choice, str)]
    fixes = did_you_mean(node.data, words) if isinstance(node.data, str) else ()
    raise Unfit(" or ".join(repr(choice) for choice in choices), node, fixes)


def _read_list(container: Any, parts: tuple[Any, ...], node: Node, scope: Scope, label: str) -> Any:
    if not node.is_list:
        raise Unfit(describe_hint(container[parts] if parts else container), node)
    children: list[Node] = node.data
    fixed = container is tuple and parts and parts[-1] is not Ellipsis
    if fixed and len(children) != len(parts):
        raise Unfit(f"a list of {len(parts)}", node)
    hints = parts if fixed else (parts[0] if parts else Any,) * len(children)
    values = [
        read_value(hint, child, scope, f"{label}[{index}]")
        for index, (hint, child) in enumerate(zip(hints, children, strict=True))
    ]
    if container in {set, frozenset}:
        return frozenset(values)
    return values if container is list else tuple(values)


def _read_map(parts: tuple[Any, ...], node: Node, scope: Scope, label: str) -> dict[str, Any]:
    if not node.is_map:
        raise Unfit("a mapping", node)
    hint = parts[1] if len(parts) == 2 else Any
    return {key: read_value(hint, child, scope, f"{label}.{key}") for key, child in node.data.items()}
