"""Settings behind a mismatch: which field of a module asks for it, and what it would have to be."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, cast

from neumo.graph.module import NeuralModule, label_of, module_fields
from neumo.types import Element, Reason, Size, Vocab, facet_text


def setting_behind(module: NeuralModule, facet: str, value: Any) -> str | None:
    """Find the field that holds `value`: the one called like the facet, or the only one of that value.

    A field that is an element is looked into: `mel.scale`.
    """
    value = _plain(value)
    if value is None:
        return None
    fields = module_fields(module)
    if facet in fields and _same(fields[facet], value):
        return facet
    for name, held in fields.items():
        if isinstance(held, Element) and _same(getattr(held, facet, None), value):
            return f"{name}.{facet}"
    equal = [name for name, held in fields.items() if _same(held, value)]
    return equal[0] if len(equal) == 1 else None


def changed_settings(
    module: NeuralModule, reasons: Sequence[Reason], *, giving: bool
) -> Iterator[tuple[NeuralModule, str]]:
    """Give the module with the fields changed that stand behind all reasons, and the words for it.

    `giving` says on which side it is: what it gives has to become what is wanted, or the reverse.
    """
    changes: dict[str, Any] = {}
    for reason in reasons:
        mine, other = (reason.given, reason.wanted) if giving else (reason.wanted, reason.given)
        name = setting_behind(module, reason.facet, mine)
        value = _plain(other)
        if name is None or value is None or changes.setdefault(name, value) != value:
            return
    try:
        changed: NeuralModule = cast("Any", dataclasses).replace(module, **_nested(module, changes))
        changed.signature()
    except Exception:  # the user's own code, on settings that nobody has tried: they do not go together
        return
    words = " and ".join(f"{name}={_text(value)}" for name, value in changes.items())
    yield changed, f"build {label_of(module)} with {words}"


def _nested(module: NeuralModule, changes: dict[str, Any]) -> dict[str, Any]:
    """Turn `mel.scale` into a new `mel`."""
    fields = module_fields(module)
    result: dict[str, Any] = {}
    for name, value in changes.items():
        outer, _, inner = name.partition(".")
        if inner:
            result[outer] = dataclasses.replace(result.get(outer, fields[outer]), **{inner: value})
        else:
            result[outer] = value
    return result


def _text(value: Any) -> str:
    return value.name if isinstance(value, Vocab) and value.name else facet_text(value)


def setting_text(module: NeuralModule, facet: str, value: Any) -> str:
    """Write the field behind a wanted facet, such as `n_mels=64`, or nothing if no field asks for it."""
    name = setting_behind(module, facet, value)
    return "" if name is None else f"{name}={_text(_plain(value))}"


def _plain(value: Any) -> Any:
    if isinstance(value, Size):
        return value.constant
    return None if isinstance(value, tuple | Element) else value


def _same(one: Any, two: Any) -> bool:
    return (
        isinstance(one, bool) == isinstance(two, bool)
        and one is not None
        and type(one) is type(two)
        and one == two
    )
