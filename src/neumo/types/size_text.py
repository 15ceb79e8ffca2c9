"""The printed form of sizes: `T//160 + 1`, `ceil(T/2)`, `-T + 9`; however deep, without recursion."""

from __future__ import annotations

from collections.abc import Mapping

from neumo.types.size import Atom, Floor, Product, Size, floors_in


def size_text(size: Size, owners: bool = False) -> str:
    """Print a size; negative terms come behind the first positive one.

    >>> from neumo.types.size import Symbol
    >>> size_text(1 - Symbol("T").size), size_text(Symbol("T").size.ceildiv(2) * 3 * Symbol("B").size)
    ('-T + 1', '3*B*ceil(T/2)')
    """
    known: dict[int, str] = {}
    for floor in floors_in(size):
        known[id(floor)] = _floor_text(floor, owners, known)
    return _sum_text(size, owners, known)


def _sum_text(size: Size, owners: bool, known: Mapping[int, str]) -> str:
    terms = sorted(size.terms, key=lambda term: term[1] < 0)
    text = ""
    for atom, coefficient in terms:
        body = _atom_text(atom, owners, known)
        if abs(coefficient) != 1:
            body = f"{abs(coefficient)}*{_in_product(atom, body)}"
        sign = "-" if coefficient < 0 else "+"
        text = (
            f"{text} {sign} {body}" if text else (f"-{_in_product(atom, body)}" if coefficient < 0 else body)
        )
    if not text:
        return str(size.const)
    if size.const:
        text += f" {'-' if size.const < 0 else '+'} {abs(size.const)}"
    return text


def _atom_text(atom: Atom, owners: bool, known: Mapping[int, str]) -> str:
    if isinstance(atom, Product):
        return "*".join(_in_product(factor, _atom_text(factor, owners, known)) for factor in atom.factors)
    if isinstance(atom, Floor):
        return known[id(atom)]
    return f"{atom.name}@{atom.owner}" if owners and atom.owner else str(atom)


def _floor_text(atom: Floor, owners: bool, known: Mapping[int, str]) -> str:
    size, k = atom.size, atom.k
    if size.const == k - 1:
        inner = Size(0, size.terms)
        return f"ceil({_divided_text(inner, owners, '/', known)}/{k})"
    return f"{_divided_text(size, owners, '//', known)}//{k}"


def _divided_text(size: Size, owners: bool, sign: str, known: Mapping[int, str]) -> str:
    text = _sum_text(size, owners, known)
    plain = size.symbol is not None or (sign == "/" and len(size.terms) == 1 and not text.startswith("-"))
    return text if plain else f"({text})"


def _in_product(atom: Atom, body: str) -> str:
    """Bracket `T//2` before it is multiplied or negated; `ceil(T/2)` needs no brackets."""
    return f"({body})" if isinstance(atom, Floor) and not body.startswith("ceil(") else body
