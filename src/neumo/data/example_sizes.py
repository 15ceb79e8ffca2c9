"""Numbers for the symbols of types: small, different from each other, and such that every axis has a size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from neumo.types import (
    Audio,
    Axis,
    ConfigError,
    DialogueState,
    Ids,
    Kind,
    NeuralType,
    Scores,
    Size,
    Symbol,
    Vocab,
)
from neumo.types.errors import did_you_mean

_USUAL: Final = {
    Kind.BATCH: 3,
    Kind.TIME: 19,
    Kind.FEATURE: 6,
    Kind.VOCAB: 7,
    Kind.HEIGHT: 8,
    Kind.WIDTH: 10,
}
_ANY: Final = 4
_LABELS: Final = 5  # ids in a row: few enough for a CTC loss after an encoder of stride 4
_RATE: Final = 16000  # Hz, of audio that does not tell; half a second is made
_LONGEST: Final = 1000  # times the usual size, of a symbol that is divided
_FASTEST: Final = 96000  # Hz
_LARGEST: Final = 1 << 22
_MOST_NUMBERS: Final = 1 << 27  # of one array: half a gigabyte
_CHANNELS: Final = {"rgb": 3, "bgr": 3, "rgba": 4, "grey": 1}
_COUNTED: Final = ("n_mels", "n_mfcc", "channels")  # facets that are the size of the feature axis


def solve_sizes(
    types: Iterable[NeuralType], sizes: Mapping[str, int] | None = None, also: Iterable[Size] = ()
) -> dict[Symbol, int]:
    """Choose a number for each symbol, so that every size of the types (and of `also`) is at least 1.

    >>> from neumo.types import B, Features, Lengths, T
    >>> found = solve_sizes([Features()[B, (T - 30) // 2], Lengths(T)[B]], {"B": 2})
    >>> {symbol.name: number for symbol, number in found.items()}
    {'B': 2, 'T': 38}

    `sizes` fixes some symbols by name. Raises `ConfigError` where they leave an axis less than nothing.
    """
    known = list(types)
    wanted = [*(size for type in known for size in type.sizes()), *also]
    fixed = dict(sizes or {})
    symbols = list(dict.fromkeys(s for size in wanted for s in sorted(size.symbols(), key=lambda s: s.key)))
    _check_names(fixed, symbols)
    found = {symbol: fixed[symbol.name] for symbol in symbols if symbol.name in fixed}
    for symbol, number in _told(known):
        found.setdefault(symbol, number)
    settled = set(found)
    taken = set(found.values())
    for symbol, number in _usual(known, symbols):
        if symbol not in found:
            while number in taken and number > 1:  # one number twice would hide that two sizes are mixed up
                number += 1
            taken.add(number)
            found[symbol] = number
    free = [symbol for symbol in symbols if symbol not in settled]
    for _ in range(8):
        was_wide = [_widen(size, found, free) for size in wanted]
        if all(was_wide):
            break
    _refuse_negative(wanted, found)
    _refuse_huge(known, found)
    return found


def free_sizes(types: Iterable[NeuralType]) -> dict[str, int]:
    """The usual number of each symbol that no facet tells, by name: what `sizes` may well change.

    >>> from neumo.types import B, F, Mel, T
    >>> free_sizes([Mel(n_mels=64)[B, F, T]])
    {'B': 3, 'T': 19}
    """
    known = list(types)
    told = {symbol for symbol, _ in _told(known)}
    found = solve_sizes(known)
    return {s.name: n for s, n in found.items() if s not in told}


def _told(types: list[NeuralType]) -> Iterator[tuple[Symbol, int]]:
    """Symbols whose number a facet tells: the bands of a mel spectrogram, the labels of a vocabulary."""
    for type in types:
        for axis in type.axes:
            symbol = axis.symbol
            number = None if symbol is None else _told_by(type, axis)
            if symbol is not None and number is not None:
                yield symbol, number


def _told_by(type: NeuralType, axis: Axis) -> int | None:
    element = type.element
    implied = element.implied_size(axis.kind)
    if implied is not None and sum(each.kind is axis.kind for each in type.axes) == 1:
        return implied[0]
    if axis.kind is Kind.FEATURE:
        numbers = [getattr(element, name, None) for name in _COUNTED]
        known = [_CHANNELS.get(number) if isinstance(number, str) else number for number in numbers]
        return next((number for number in known if isinstance(number, int)), None)
    vocab = getattr(element, "slots" if isinstance(element, DialogueState) else "vocab", None)
    if axis.kind is Kind.VOCAB and isinstance(element, Scores | DialogueState) and vocab is not None:
        vocab = getattr(vocab, "vocab", vocab)  # AtLeast
        return len(vocab) if isinstance(vocab, Vocab) else None
    return None


def _usual(types: list[NeuralType], symbols: list[Symbol]) -> Iterator[tuple[Symbol, int]]:
    """What a symbol would be without further reasons: from the axis that it is, or else occurs in."""
    seen: set[Symbol] = set()
    for bare in (True, False):
        for type in types:
            for axis in type.axes:
                size = axis.size
                if size is None or bare is not (size.symbol is not None):
                    continue
                for symbol in sorted(size.symbols() - seen, key=lambda each: each.key):
                    seen.add(symbol)
                    if bare:
                        yield symbol, usual_size(type, axis.kind)
                    else:  # so much that the expression is as large as an axis usually is
                        yield symbol, _USUAL.get(axis.kind, _ANY) * min(size.period(), _LONGEST)
    for symbol in symbols:
        if symbol not in seen:
            yield symbol, _USUAL[Kind.TIME]


def usual_size(type: NeuralType, kind: Kind) -> int:
    """The size of an axis that nothing is known about but its kind and the element.

    >>> from neumo.types import B, T
    >>> usual_size(Audio(rate=8000)[B, T], Kind.TIME)
    4000
    """
    element = type.element
    if kind is Kind.TIME and isinstance(element, Audio):
        rate = element.rate if isinstance(element.rate, int) else _RATE
        return min(max(rate, 2 * _LABELS), _FASTEST) // 2
    if kind is Kind.TIME and isinstance(element, Ids):
        return _LABELS
    return _USUAL.get(kind, _ANY)


def _widen(size: Size, found: dict[Symbol, int], free: list[Symbol]) -> bool:
    """Make a size at least 1 by doubling (or halving) one free symbol in it; say whether it was so before."""
    if size.evaluate(found) >= 1:
        return True
    for symbol in (symbol for symbol in free if symbol in size.symbols()):
        before = found[symbol]
        for change in (_doubled, _halved):
            for number in change(before):
                found[symbol] = number
                if size.evaluate(found) >= 1:
                    return False
            found[symbol] = before
    return False


def _doubled(number: int) -> Iterator[int]:
    number = max(1, number)
    while number < _LARGEST:
        number *= 2
        yield number


def _halved(number: int) -> Iterator[int]:
    while number > 1:
        number //= 2
        yield number


def _check_names(fixed: Mapping[str, int], symbols: list[Symbol]) -> None:
    names = {symbol.name for symbol in symbols}
    for name, number in fixed.items():
        if name not in names:
            raise ConfigError(
                f"no size of these types is called {name!r}",
                code="size",
                details=[f"their symbols are {', '.join(sorted(names)) or 'none'}"],
                fixes=did_you_mean(name, names),
            )
        value: Any = number
        if not isinstance(value, int) or value < 0:
            raise ConfigError(f"the size {name} cannot be {number!r}", code="size")


def _refuse_huge(types: Iterable[NeuralType], found: Mapping[Symbol, int]) -> None:
    for type in types:
        count = math.prod(size.evaluate(found) for axis in type.axes if (size := axis.size) is not None)
        if count > _MOST_NUMBERS:
            raise ConfigError(
                f"an example of {type} would have {count:,} numbers",
                code="size",
                fixes=("give smaller sizes for its symbols",),
            )


def _refuse_negative(sizes: Iterable[Size], found: Mapping[Symbol, int]) -> None:
    for size in sizes:
        number = size.evaluate(found)
        if number < 0:
            chosen = ", ".join(f"{s.name}={found[s]}" for s in sorted(size.symbols(), key=lambda s: s.key))
            raise ConfigError(
                f"the size {size} is {number} with {chosen}",
                code="size",
                fixes=("give other sizes, or leave them out",),
            )
