"""Writes a signature as the Python expression that makes it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from neumo.graph.signature import Signature
from neumo.types import (
    AtLeast,
    Axis,
    Element,
    Kind,
    NeuralType,
    Size,
    Symbol,
    Vocab,
    facets_of,
    kind_of_name,
    kind_of_size,
)
from neumo.types.size import Floor, Product

_AXES: Final = ("B", "T", "U", "F", "C", "V", "H", "W")  # names that neumo has for symbols
_WORDS: Final = {kind: kind.value for kind in Kind if kind not in (Kind.SINGLETON, Kind.ANY)}


def signature_source(signature: Signature, notes: Mapping[str, str]) -> str:
    """Write `Signature(takes={...}, gives={...})`, with a comment behind each port that `notes` mentions.

    >>> from neumo.types import B, F, Features, T
    >>> print(signature_source(Signature(gives={"x": Features()[B, F(8), T // 2]}), {"x": "guess: features"}))
    Signature(
        gives={
            "x": Features()[B, F(8), T // 2],  # guess: features
        },
    )
    """
    lines = ["Signature("]
    for side, ports in (("takes", signature.takes), ("gives", signature.gives)):
        if not ports:
            continue
        lines.append(f"    {side}={{")
        for name, type in ports.items():
            note = f"  # {notes[name]}" if notes.get(name) else ""
            lines.append(f'        "{name}": {type_source(type)},{note}')
        lines.append("    },")
    return "\n".join([*lines, ")"])


def names_in(signature: Signature) -> list[str]:
    """The names of neumo that the source of a signature uses, sorted."""
    text = signature_source(signature, {})
    types = [*signature.takes.values(), *signature.gives.values()]
    classes = {type.element.__class__.__name__ for type in types}
    letters = {name for name in (*_AXES, "ONE", "ANY") if _mentions(text, name)}
    return sorted({"Signature", *classes, *letters})


def type_source(type: NeuralType) -> str:
    """Write a type, such as `Features()[B, F(80), T]`."""
    axes = ", ".join(axis_source(axis) for axis in type.axes) or "()"
    marks = ".optional()" * type.optional + ".many()" * type.many
    return f"{_element_source(type.element)}{marks}[{axes}]"


def axis_source(axis: Axis) -> str:
    """Write an axis, such as `F(80)`, `(T - 3) // 4 + 1` or `V(en)`.

    >>> from neumo.types import F, T
    >>> axis_source(T.ceildiv(2) + 1), axis_source(F(80)), axis_source(T.named("T2") * 3)
    ('T.ceildiv(2) + 1', 'F(80)', '3 * T("T2")')
    """
    if axis.kind is Kind.SINGLETON:
        return "ONE"
    word = _WORDS.get(axis.kind, "ANY")
    if axis.vocab is not None:
        text = f"{word}({_value_source(axis.vocab)})"
    elif axis.size is None:
        text = f"{word}(None)"
    elif (symbol := axis.size.symbol) is not None and symbol.name not in _AXES:
        text = word if symbol.name == axis.kind.value else f'{word}("{symbol.name}")'
    else:
        body = size_source(axis.size)
        text = body if axis.size.terms and kind_of_size(axis.size) is axis.kind else f"{word}({body})"
    if axis.clock is not None:
        text = f"{f'({text})' if ' ' in text else text}.at({_number(axis.clock)})"
    return f"{text}.list()" if axis.listed else text


def _number(clock: Fraction) -> str:
    return str(clock) if clock.denominator == 1 else f"Fraction({clock.numerator}, {clock.denominator})"


def size_source(size: Size) -> str:
    """Write a size as arithmetic on axes."""
    terms = sorted(size.terms, key=lambda term: term[1] < 0)
    text = ""
    for atom, coefficient in terms:
        body = _atom(atom, product=abs(coefficient) != 1)
        part = body if abs(coefficient) == 1 else f"{abs(coefficient)} * {body}"
        text = f"{text} {'-' if coefficient < 0 else '+'} {part}" if text else part
        if text == part and coefficient < 0:
            text = f"0 - {part}"
    if not text:
        return str(size.const)
    return text + (f" {'-' if size.const < 0 else '+'} {abs(size.const)}" if size.const else "")


def _atom(atom: Symbol | Floor | Product, *, product: bool) -> str:
    if isinstance(atom, Product):
        return " * ".join(_atom(factor, product=True) for factor in atom.factors)
    if isinstance(atom, Symbol):
        if atom.name in _AXES:
            return atom.name
        kind = kind_of_name(atom.name)
        return f'{_WORDS.get(kind, "ANY") if kind else "ANY"}("{atom.name}")'
    if atom.size.const == atom.k - 1:
        return f"{_inner(Size(0, atom.size.terms))}.ceildiv({atom.k})"
    divided = f"{_inner(atom.size)} // {atom.k}"
    return f"({divided})" if product else divided


def _inner(size: Size) -> str:
    text = size_source(size)
    return text if size.symbol is not None else f"({text})"


def _element_source(element: Element) -> str:
    told: list[str] = []
    for name, facet in facets_of(type(element)).items():
        value: Any = getattr(element, name)
        if value == facet.default:
            continue
        text = size_source(value) if isinstance(value, Size) else _value_source(value)
        told.append(text if facet.positional else f"{name}={text}")
    return f"{type(element).__name__}({', '.join(told)})"


def _value_source(value: Any) -> str:
    """Write a facet; a vocabulary by its name, as a variable would be called."""
    if isinstance(value, AtLeast):
        return f"AtLeast({_value_source(value.vocab)})"
    if not isinstance(value, Vocab):
        return repr(value).replace("'", '"')
    name = value.name or "vocab"
    if name.startswith("blank+"):
        return f'{name.removeprefix("blank+")}.with_blank("start")'
    for suffix, call in (("+blank", "with_blank()"), ("+ends", "with_ends()")):
        if name.endswith(suffix):
            return f"{name.removesuffix(suffix)}.{call}"
    return name


def _mentions(text: str, name: str) -> bool:
    """Say whether a name is used as it stands, and not inside another or as a text."""
    import re

    return re.search(rf'(?<![\w"]){name}(?![\w"])', text) is not None
