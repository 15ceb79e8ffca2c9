"""Reads the symbolic sizes of torch.export (sympy) as sizes in neumo's canonical form.

The functions are told apart by name: torch has classes of its own (FloorDiv, CeilToInt, Mod, Max ...) beside
those of sympy.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any, Final

from neumo.types import Size, Symbol
from neumo.types.size import Floor, Product

Sizes = Mapping[Any, Size]  # sympy symbol -> size

LEAST: Final = 2  # what torch.export takes the symbolic sizes to be at least: 0 and 1 are special to it


class Untranslatable(Exception):
    """Says that a traced size has no canonical form, such as the quotient of two unknown sizes."""


def read_size(expression: Any, sizes: Sizes) -> Size:
    """Translate a sympy expression, with a size for each of its symbols.

    >>> import sympy
    >>> from torch.utils._sympy.functions import FloorDiv
    >>> s, T = sympy.Symbol("s", integer=True), Symbol("T")
    >>> read_size(FloorDiv(s - 1, 2) + 1, {s: T.size})
    ceil(T/2)

    Raises `Untranslatable` for what the canonical form cannot say. `Max` and `Min` are solved where one side
    is always the larger, sizes being at least 2.
    """
    if isinstance(expression, int):
        return Size.of(expression)
    if expression in sizes:
        return sizes[expression]
    reader = _READERS.get(type(expression).__name__)
    if reader is None:
        if getattr(expression, "is_Integer", False):
            return Size.of(int(expression))
        raise Untranslatable(f"{type(expression).__name__} in {expression}")
    return reader(expression, sizes)


def lower_bound(size: Size, least: int = LEAST) -> int | None:
    """Find a number that a size is never below, if each of its symbols is at least `least`.

    >>> lower_bound(Symbol("T").size // 2 + 1), lower_bound(1 - Symbol("T").size)
    (2, None)
    """
    const, slopes = _line(size, 1)
    if any(slope < 0 for slope in slopes.values()):
        return None
    return math.ceil(const + sum(slope * _smallest(atom, least) for atom, slope in slopes.items()))


def _smallest(atom: Symbol | Product, least: int) -> int:
    if isinstance(atom, Symbol):
        return least
    bounds = [lower_bound(Size(0, ((factor, 1),)), least) for factor in atom.factors]
    return math.prod(max(0, bound or 0) for bound in bounds)


def _line(size: Size, sign: int) -> tuple[Fraction, dict[Symbol | Product, Fraction]]:
    """A line that is never above (sign 1) or never below (sign -1) a size: each floor loses at most k - 1."""
    const, slopes = Fraction(size.const), dict[Symbol | Product, Fraction]()
    for atom, coefficient in size.terms:
        if isinstance(atom, Floor):
            side = sign if coefficient > 0 else -sign
            inner, lines = _line(atom.size, side)
            const += coefficient * (inner - (atom.k - 1 if side > 0 else 0)) / atom.k
            share = Fraction(coefficient, atom.k)
        else:
            lines, share = {atom: Fraction(1)}, Fraction(coefficient)
        for symbol, slope in lines.items():
            slopes[symbol] = slopes.get(symbol, Fraction(0)) + share * slope
    return const, slopes


def _add(expression: Any, sizes: Sizes) -> Size:
    return reduce(operator.add, (read_size(part, sizes) for part in expression.args))


def _mul(expression: Any, sizes: Sizes) -> Size:
    return reduce(operator.mul, (read_size(part, sizes) for part in expression.args))


def _power(expression: Any, sizes: Sizes) -> Size:
    base, exponent = expression.args
    if not getattr(exponent, "is_Integer", False) or int(exponent) < 1:
        raise Untranslatable(f"the power {expression}")
    return reduce(operator.mul, [read_size(base, sizes)] * int(exponent))


def _divide(expression: Any, sizes: Sizes) -> Size:
    above, below = (read_size(part, sizes) for part in expression.args)
    return above // _number(below, expression)


def _divide_up(expression: Any, sizes: Sizes) -> Size:
    above, below = (read_size(part, sizes) for part in expression.args)
    return above.ceildiv(_number(below, expression))


def _remainder(expression: Any, sizes: Sizes) -> Size:
    above, below = (read_size(part, sizes) for part in expression.args)
    by = _number(below, expression)
    return above - above // by * by


def _indexing(expression: Any, sizes: Sizes) -> Size:
    """ModularIndexing(x, d, m) is (x // d) % m."""
    base, below, period = (read_size(part, sizes) for part in expression.args)
    row, by = base // _number(below, expression), _number(period, expression)
    return row - row // by * by


def _round_down(expression: Any, sizes: Sizes) -> Size:
    above, below = _ratio(expression.args[0], sizes)
    return above // below


def _round_up(expression: Any, sizes: Sizes) -> Size:
    above, below = _ratio(expression.args[0], sizes)
    return above.ceildiv(below)


def _ratio(expression: Any, sizes: Sizes) -> tuple[Size, int]:
    """Read what is rounded as a fraction of a size and a number."""
    name = type(expression).__name__
    if name in ("IntTrueDiv", "FloatTrueDiv"):
        above, below = (read_size(part, sizes) for part in expression.args)
        return above, _number(below, expression)
    if name in ("ToFloat", "Identity"):
        return _ratio(expression.args[0], sizes)
    parts = expression.args if name == "Add" else (expression,)
    below = math.lcm(*(_denominator(part) for part in parts))
    total = Size.of(0)
    for part in parts:
        total = total + read_size(part * below, sizes)
    return total, below


def _same(expression: Any, sizes: Sizes) -> Size:
    return read_size(expression.args[0], sizes)


def _extreme(expression: Any, sizes: Sizes) -> Size:
    """The largest (or smallest) of some sizes, where the order does not depend on their symbols."""
    found = [read_size(part, sizes) for part in expression.args]
    sign = 1 if type(expression).__name__ == "Max" else -1
    for size in found:
        if all(_never_negative((size - other) * sign) for other in found):
            return size
    raise Untranslatable(str(expression))


def _never_negative(size: Size) -> bool:
    bound = lower_bound(size)
    return bound is not None and bound >= 0


def _denominator(expression: Any) -> int:
    """The number below the line of a term such as 3*s/2."""
    number = expression.as_coeff_Mul()[0] if hasattr(expression, "as_coeff_Mul") else expression
    return int(getattr(number, "q", 1))


def _number(size: Size, expression: Any) -> int:
    if size.constant is None or size.constant < 1:
        raise Untranslatable(f"the divisor of {expression}")
    return size.constant


_READERS: dict[str, Callable[[Any, Sizes], Size]] = {
    "Add": _add,
    "Mul": _mul,
    "Pow": _power,
    "PowByNatural": _power,
    "FloorDiv": _divide,
    "CleanDiv": _divide,
    "CeilDiv": _divide_up,
    "Mod": _remainder,
    "PythonMod": _remainder,
    "ModularIndexing": _indexing,
    "CeilToInt": _round_up,
    "ceiling": _round_up,
    "FloorToInt": _round_down,
    "TruncToInt": _round_down,
    "floor": _round_down,
    "ToFloat": _same,
    "Identity": _same,
    "Max": _extreme,
    "Min": _extreme,
}
