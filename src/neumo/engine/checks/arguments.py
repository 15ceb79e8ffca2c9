"""Whether arguments are of the kinds that they are declared to be, so that a wrong one is refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

from neumo.types.errors import ConfigError

_WORDS: Final[dict[Any, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "text",
    NoneType: "None",
    Mapping: "a dict",
    Sequence: "a list",
}


def check_kind(
    owner: str, name: str, value: object, kind: Any, *, code: str, fixes: Iterable[str] = ()
) -> None:
    """Raise `ConfigError` for an argument that is of another kind than it is declared to be.

    >>> check_kind("train", "clip", 1, float | None, code="train")
    >>> check_kind("train", "clip", "1", float | None, code="train")
    Traceback (most recent call last):
    neumo.types.errors.ConfigError: ConfigError[train]: train: clip='1' is not a number or None
    <BLANKLINE>
      fix      clip=1
    """
    if is_kind(value, kind):
        return
    if not fixes and isinstance(value, str) and _reads_as(value, kind):
        fixes = [f"{name}={value}"]
    raise ConfigError(f"{owner}: {name}={value!r} is not {words(kind)}", code=code, fixes=list(fixes))


def check_fields(given: Any, *, code: str, owner: str = "", without: Iterable[str] = ()) -> None:
    """Raise `ConfigError` for the first field of a dataclass that is of another kind than it is declared."""
    kinds, left_out = _kinds_of(given.__class__), set(without)
    for each in fields(given):
        if each.name not in left_out:
            value = getattr(given, each.name)
            check_kind(owner or type(given).__name__, each.name, value, kinds[each.name], code=code)


def is_kind(value: object, kind: Any) -> bool:
    """Say whether a value is of a kind, written as a type hint; True is no number, and neither is NaN.

    >>> is_kind(1, float), is_kind(True, int), is_kind(1.5, int | None)
    (True, False, False)

    How many values a tuple has is not looked at, and neither is what stands in hints of other collections.
    """
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return any(is_kind(value, each) for each in get_args(kind))
    if origin is Literal:
        return value in get_args(kind)
    if origin is tuple:
        return isinstance(value, tuple | list) and _are_kinds(cast("list[object]", value), get_args(kind))
    if kind is int:
        return _is_number(value, Integral)
    if kind is float:
        return _is_number(value, Real) and value == value
    return not isinstance(kind, type) or isinstance(value, cast("type[object]", kind))


def words(kind: Any) -> str:
    """Say a kind in words.

    >>> words(int | float | None)
    'a whole number, a number or None'
    """
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        *most, last = [words(each) for each in get_args(kind)]
        return f"{', '.join(most)} or {last}"
    if origin is Literal:
        return " or ".join(repr(each) for each in get_args(kind))
    if origin is tuple:
        return f"a tuple of {', '.join(words(each) for each in get_args(kind) if each is not ...)}"
    return _WORDS.get(kind, getattr(kind, "__name__", str(kind)))


def _is_number(value: object, kind: type[object]) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _are_kinds(values: list[object], kinds: tuple[Any, ...]) -> bool:
    if kinds[-1:] == (...,):
        return all(is_kind(value, kinds[0]) for value in values)
    return all(is_kind(value, kind) for value, kind in zip(values, kinds, strict=False))


def _reads_as(text: str, kind: Any) -> bool:
    """Say whether a text is a number of this kind that was written with quotation marks."""
    for read in (int, float):
        try:
            if is_kind(read(text), kind):
                return True
        except ValueError:
            continue
    return False


@cache
def _kinds_of(owner: type[Any]) -> dict[str, Any]:
    return get_type_hints(owner)
