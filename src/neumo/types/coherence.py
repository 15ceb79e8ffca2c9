"""What the facets of an element say about the sizes of its axes: one type does not contradict itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from neumo.types.axis import Axis, Kind
from neumo.types.element import Element
from neumo.types.errors import ConfigError
from neumo.types.size import Size, Symbol
from neumo.types.type import NeuralType
from neumo.types.vocab import Vocab

_KINDS = (Kind.FEATURE, Kind.VOCAB)
_SURROUNDINGS = (Kind.TIME, Kind.HEIGHT)  # where one of these is, an axis of channels would be, too


def coherent(t: NeuralType) -> NeuralType:
    """Give a type whose axes are as long as its element says; raises `ConfigError` where they cannot be.

    >>> from neumo.types.axis import B, F, T
    >>> from neumo.types.element import Mel
    >>> coherent(NeuralType(Mel(n_mels=80), (B, F(None), T)))
    Mel(n_mels=80)[B, F=80, T]
    >>> Mel(n_mels=80)[B, F(64), T]
    Traceback (most recent call last):
        ...
    neumo.types.errors.ConfigError: ConfigError[contradiction]: Mel(n_mels=80) has 80 features, F=64 has 64
    ...

    Of several axes of one kind, one is that long. A size that only has a name is settled where all ports are
    known that it stands in: see `implied_symbols`.
    """
    for kind in _KINDS:
        found = t.element.implied_size(kind)
        if found is not None:
            t = _agreed(t, kind, *found)
    return t


def implied_symbols(types: Iterable[NeuralType]) -> dict[Symbol, Axis]:
    """Find the symbols that elements give a size, each with the axis that takes their place.

    >>> from neumo.types.axis import B, F, T
    >>> from neumo.types.element import Mel
    >>> implied_symbols([Mel(n_mels=80)[B, F, T]])
    {F: F=80}
    """
    found: dict[Symbol, Axis] = {}
    for t in types:
        for kind in _KINDS:
            implied = t.element.implied_size(kind)
            axes = [axis for axis in t.axes if axis.kind is kind]
            if implied is None or len(axes) != 1 or axes[0].symbol is None or axes[0].symbol.rigid:
                continue
            axis = _filled(axes[0], t.element, implied[0])
            other = found.setdefault(axes[0].symbol, axis)
            if other.size != axis.size:
                raise _two_sizes(axes[0], other, axis, t)
    return found


def substituted(t: NeuralType, axes: Mapping[Symbol, Axis]) -> NeuralType:
    """Put axes in the place of symbols, wherever these stand, and hold the element against the result."""
    sizes = {symbol: axis.size for symbol, axis in axes.items() if axis.size is not None}
    new = t.substitute(sizes, axes=axes)
    return t if new is t else coherent(new)


def _agreed(t: NeuralType, kind: Kind, size: int, facet: str) -> NeuralType:
    """Refuse axes of which none can have the size that a facet states; fill in one that is not known."""
    axes = [axis for axis in t.axes if axis.kind is kind]
    if not axes:
        if facet == "channels" and size > 1 and any(axis.kind in _SURROUNDINGS for axis in t.axes):
            raise _no_axis(t, size)
        return t
    if not any(_can_be(axis, size) for axis in axes):
        raise _other_size(t, axes[0], size, facet)
    if len(axes) > 1 or axes[0].size is not None:
        if len(axes) == 1:
            _check_labels(t.element, axes[0])
        return t
    return t.with_axes(*(_filled(axis, t.element, size) if axis is axes[0] else axis for axis in t.axes))


def _can_be(axis: Axis, size: int) -> bool:
    return axis.size is None or axis.size.constant in (None, size)


def _filled(axis: Axis, element: Element, size: int) -> Axis:
    vocab = _labels(element) if axis.kind is Kind.VOCAB else None
    return Axis(axis.kind, Size.of(size), vocab, axis.clock, axis.listed)


def _labels(element: Element) -> Vocab | None:
    vocab = getattr(element, "vocab", None)
    return vocab if isinstance(vocab, Vocab) else None


def _check_labels(element: Element, axis: Axis) -> None:
    """Refuse an axis of other labels than those of the scores along it."""
    mine = _labels(element)
    if axis.vocab is not None and mine is not None and mine.digest != axis.vocab.digest:
        raise ConfigError(
            f"the scores of {element} are along the labels of another vocabulary: {axis}",
            code="contradiction",
            why=mine.difference(axis.vocab).sentence,
            fixes=(f"write V({mine.name or 'vocab'}) with the vocabulary of the scores",),
        )


_WORDS = {Kind.FEATURE: "feature", Kind.VOCAB: "label"}


def _other_size(t: NeuralType, axis: Axis, size: int, facet: str) -> ConfigError:
    words = "channel" if facet == "channels" else _WORDS[axis.kind]
    return ConfigError(
        f"{t.element} has {size} {words}{'' if size == 1 else 's'}, {axis} has {axis.size}",
        code="contradiction",
        why="What an element says of its axis and the axis itself are one and the same number."
        + (" A transform of n_fft samples gives n_fft // 2 + 1 bins." if facet == "n_fft" else ""),
        fixes=(f"put the wrong one right, or leave the size open: {axis.kind.value}",),
    )


def _no_axis(t: NeuralType, size: int) -> ConfigError:
    return ConfigError(
        f"{t.element} has {size} channels, and no axis for them",
        code="contradiction",
        why="Several channels are an axis of their own.",
        fixes=(f"add C({size}) to its axes",),
    )


def _two_sizes(axis: Axis, one: Axis, two: Axis, t: NeuralType) -> ConfigError:
    return ConfigError(
        f"the size {axis} of a signature is {one.size} in one port and {two.size} in {t}",
        code="contradiction",
        why="A name stands for one size in all ports of a signature.",
        fixes=(f"name one of them otherwise: {axis.kind.value}('{axis.symbol}2')",),
    )
