"""What the numbers of an element can never be, beyond what the guards of a training look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from neumo.engine.checks.value_checks import SUM_TOLERANCE
from neumo.types import (
    Alignment,
    Durations,
    Element,
    Kind,
    Latent,
    Loss,
    NeuralType,
    Positions,
    Size,
    Speaker,
    Symbol,
)

Sizes = Mapping[Symbol, int]


def impossible(type: NeuralType, numbers: Any, sizes: Sizes) -> str:
    """Say in words which numbers a value of this type cannot have, or "".

    >>> from neumo.types import B, T
    >>> impossible(Positions(T)[B], np.asarray([0, 5]), {T.symbol: 5})
    'position 5 is beyond T = 5'
    """
    look = _LOOKS.get(type.element.__class__)
    return look(type, numbers, sizes) if look is not None and numbers.size else ""


def _loss(type: NeuralType, numbers: Any, sizes: Sizes) -> str:
    return "the loss is NaN" if np.isnan(numbers).any() else ""


def _durations(type: NeuralType, numbers: Any, sizes: Sizes) -> str:
    element: Any = type.element
    counted = numbers.dtype.kind in "iu"
    if (counted or element.scale == "linear") and (numbers < 0).any():
        return f"a duration is {numbers.min():.4g}, below 0"
    longest = _number(element.of, sizes)
    if counted and longest is not None and type.rank and (rows := numbers.sum(axis=-1)).max() > longest:
        return f"the durations of a row sum to {rows.max()}, and {element.of} is {longest}"
    return ""


def _positions(type: NeuralType, numbers: Any, sizes: Sizes) -> str:
    element: Any = type.element
    longest = _number(element.of, sizes)
    if longest is None or numbers.max() < longest:  # below 0 stands what a loss leaves out
        return ""
    return f"position {numbers.max()} is beyond {element.of} = {longest}"


def _speaker(type: NeuralType, numbers: Any, sizes: Sizes) -> str:
    element: Any = type.element
    at = next((n for n, axis in enumerate(type.axes) if axis.kind is Kind.FEATURE), None)
    if element.norm != "l2" or at is None:
        return ""
    lengths = np.linalg.norm(numbers, axis=at)
    worst = lengths.flat[int(np.abs(lengths - 1).argmax())]
    return f"the length of a voice is {worst:.4g}, not 1" if abs(worst - 1) > SUM_TOLERANCE else ""


def _alignment(type: NeuralType, numbers: Any, sizes: Sizes) -> str:
    element: Any = type.element
    if element.form == "hard" and not np.isin(numbers, (0, 1)).all():
        return "a hard alignment holds other weights than 0 and 1"
    return f"a weight is {numbers.min():.4g}, below 0" if element.form and (numbers < 0).any() else ""


def _latent(type: NeuralType, numbers: Any, sizes: Sizes) -> str:
    element: Any = type.element
    wrong = element.part == "std" and (numbers < 0).any()
    return f"a deviation is {numbers.min():.4g}, below 0" if wrong else ""


def _number(size: Any, sizes: Sizes) -> int | None:
    known = isinstance(size, Size) and size.symbols() <= sizes.keys()
    return size.evaluate(sizes) if known else None


_LOOKS: Final[Mapping[type[Element], Callable[[NeuralType, Any, Sizes], str]]] = {
    Alignment: _alignment,
    Durations: _durations,
    Latent: _latent,
    Loss: _loss,
    Positions: _positions,
    Speaker: _speaker,
}
