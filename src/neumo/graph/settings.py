"""Settings behind a mismatch: which field of a module asks for it, and what it would have to be."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, cast

from neumo.graph.module import NeuralModule, label_of, module_fields
from neumo.types import ConfigError, Element, Reason, Size, Vocab, facet_text


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


def _behind(module: NeuralModule, facet: str, mine: Any, other: Any) -> tuple[str, Any, Any] | None:
    """Find the field behind a value, what it holds, and what it would have to hold for the other value.

    These may be labels that the module adds the blank, or bos and eos, to.
    """
    name = setting_behind(module, facet, mine)
    if name is not None:
        return name, _plain(mine), _plain(other)
    here, there = _labels_behind(mine), _labels_behind(other)
    if here is None or there is None or here[1] != there[1]:
        return None
    name = setting_behind(module, facet, here[0])
    return None if name is None else (name, here[0], there[0])


def _labels_behind(vocab: Any) -> tuple[Vocab, str] | None:
    """Give the labels that `with_blank` or `with_ends` made a vocabulary of, and what was added where."""
    if not isinstance(vocab, Vocab):
        return None
    if vocab.name.endswith("+ends") and len(vocab) > 2:
        return _labels_before_ends(vocab)
    if vocab.blank is None or len(vocab) == 1:
        return None
    where = "start" if vocab.blank == 0 else "end"
    data = vocab.to_data()
    data["labels"] = [label for n, label in enumerate(vocab) if n != vocab.blank]
    data |= {role: index - (where == "start") for role, index in vocab.roles}
    data["name"] = vocab.name.removesuffix("+blank").removeprefix("blank+")
    del data["blank"]
    try:
        plain = Vocab.from_data(data)
    except ConfigError:  # the blank has another role besides
        return None
    return (plain, where) if plain.with_blank(where) == vocab else None


def _labels_before_ends(vocab: Vocab) -> tuple[Vocab, str] | None:
    """Give the labels that `with_ends` added bos and eos to."""
    data = {key: value for key, value in vocab.to_data().items() if key not in ("bos", "eos")}
    data |= {"labels": list(vocab)[:-2], "name": vocab.name.removesuffix("+ends")}
    try:
        plain = Vocab.from_data(data)
    except ConfigError:  # an end has another role besides
        return None
    return (plain, "ends") if plain.with_ends() == vocab else None


def changed_settings(
    module: NeuralModule, reasons: Sequence[Reason], *, giving: bool, label: str = ""
) -> Iterator[tuple[NeuralModule, str]]:
    """Give the module with the fields changed that stand behind all reasons, and the words for it.

    `giving` says on which side it is: what it gives has to become what is wanted, or the reverse. `label` is
    what the module is called where several are called alike.
    """
    changes: dict[str, Any] = {}
    for reason in reasons:
        mine, other = (reason.given, reason.wanted) if giving else (reason.wanted, reason.given)
        found = _behind(module, reason.facet, mine, other)
        if found is None:
            return
        name, _, value = found
        if value is None or changes.setdefault(name, value) != value:
            return
    try:
        changed: NeuralModule = cast("Any", dataclasses).replace(module, **_nested(module, changes))
        changed.signature()
    except Exception:  # the user's own code, on settings that nobody has tried: they do not go together
        return
    words = " and ".join(f"{name}={_text(value, reasons)}" for name, value in changes.items())
    yield changed, f"build {label or label_of(module)} with {words}"


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


def _text(value: Any, reasons: Sequence[Reason]) -> str:
    """Write a setting; a vocabulary by its name, unless the other one of a mismatch is called like it."""
    sides = (side for reason in reasons for side in (reason.wanted, reason.given))
    names = [side.name for side in sides if isinstance(side, Vocab)]
    if isinstance(value, Vocab) and value.name and len(set(names)) == len(names):
        return value.name
    return facet_text(value)


def setting_text(module: NeuralModule, reason: Reason) -> str:
    """Write the field behind a wanted facet, such as `n_mels=64`, or nothing if no field asks for it."""
    if reason.part not in ("facet", "axes", "size", "clock"):
        return ""  # no setting says that a value has to be there
    found = _behind(module, reason.facet, reason.wanted, reason.given)
    return "" if found is None else f"{found[0]}={_text(found[1], [reason])}"


def _plain(value: Any) -> Any:
    if isinstance(value, Size):
        return value.constant
    if isinstance(value, Fraction) and value.denominator == 1:
        return value.numerator  # steps a second
    return None if isinstance(value, tuple | Element) else value


def _same(one: Any, two: Any) -> bool:
    return (
        isinstance(one, bool) == isinstance(two, bool)
        and one is not None
        and type(one) is type(two)
        and one == two
    )
