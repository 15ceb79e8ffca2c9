"""Refuses settings that cannot be meant, with the value that was nearest."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from neumo.types.errors import ConfigError, did_you_mean


def one_of(spec: object, field: str, choices: Iterable[Any]) -> None:
    """Refuse a field whose value is not among the choices."""
    value, choices = getattr(spec, field), tuple(choices)
    if value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ConfigError(
            f"{type(spec).__name__}.{field} is {value!r}, which is none of {listed}",
            code="field",
            fixes=did_you_mean(str(value), map(str, choices)),
        )


def at_least(spec: object, least: float, *fields: str) -> None:
    """Refuse the fields that are below the least value that makes sense."""
    for field in fields:
        value = getattr(spec, field)
        if value < least:
            raise ConfigError(
                f"{type(spec).__name__}.{field} is {value!r}; it must be at least {least}", code="field"
            )


def a_share(spec: object, *fields: str) -> None:
    """Refuse the fields that are not between 0 and 1."""
    for field in fields:
        value = getattr(spec, field)
        if not 0 <= value <= 1:
            raise ConfigError(
                f"{type(spec).__name__}.{field} is {value!r}; it must be between 0 and 1", code="field"
            )


def a_range(spec: object, *fields: str) -> None:
    """Refuse the fields that are not two numbers, of which the second is not below the first."""
    for field in fields:
        value = getattr(spec, field)
        if len(value) != 2 or not -math.inf < value[0] <= value[1] < math.inf:
            raise ConfigError(
                f"{type(spec).__name__}.{field} is {value!r}; it must be the least and the most: two numbers",
                code="field",
            )
