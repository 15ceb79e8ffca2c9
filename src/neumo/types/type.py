"""Neural types: an element, its axes, and whether the value may be absent or come several times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from neumo.types.axis import Axis
from neumo.types.element import Element, Var, measures
from neumo.types.errors import ConfigError
from neumo.types.size import Size, Symbol

_NOTHING: Mapping[Any, Any] = {}


class NeuralType:
    """The type of a value or a port: `Mel(rate=16000)[B, F(64), T]`.

    `optional` marks a port that may be left out (or a value that may be absent), `many` a port that takes
    several values.

    >>> from neumo.types.axis import B, F, T
    >>> from neumo.types.element import Mel
    >>> Mel(rate=16000, n_mels=64)[B, F(64), T // 160 + 1]
    Mel(rate=16000, n_mels=64)[B, F=64, T//160 + 1]
    """

    __slots__ = ("_hash", "_symbols", "_variables", "axes", "element", "many", "optional")

    def __init__(
        self, element: Element, axes: tuple[Axis, ...] = (), optional: bool = False, many: bool = False
    ) -> None:
        for axis in axes:
            if type(axis) is not Axis:
                raise ConfigError(
                    f"{axis!r} is not an axis of {element}",
                    code="axis",
                    why="Write F(64) for a size that is fixed.",
                )
        self.element = element
        self.axes = axes
        self.optional = optional
        self.many = many
        self._hash: int | None = None
        self._symbols: frozenset[Symbol] | None = None
        self._variables: tuple[Var, ...] | None = None

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.axes)

    def as_optional(self) -> NeuralType:
        """The same type for a port that may be left out.

        >>> from neumo.types.element import Loss
        >>> Loss()[()].as_optional()
        Loss?[]
        """
        return NeuralType(self.element, self.axes, True, self.many)

    def as_required(self) -> NeuralType:
        """The same type for a value that is always there."""
        return NeuralType(self.element, self.axes, False, self.many)

    def as_many(self) -> NeuralType:
        """The same type for a port that takes several values.

        >>> from neumo.types.element import Loss
        >>> Loss()[()].as_many()
        Loss*[]
        """
        return NeuralType(self.element, self.axes, self.optional, True)

    def as_single(self) -> NeuralType:
        """The type of each value that a `many` port takes."""
        return NeuralType(self.element, self.axes, self.optional, False)

    def with_element(self, element: Element) -> NeuralType:
        """The same axes with another element."""
        return NeuralType(element, self.axes, self.optional, self.many)

    def with_axes(self, *axes: Axis) -> NeuralType:
        """The same element with other axes."""
        return NeuralType(self.element, axes, self.optional, self.many)

    def sizes(self) -> Iterator[Size]:
        """Go through every known size: of the element's facets first, then of the axes."""
        yield from self.element.sizes()
        for axis in self.axes:
            if axis.size is not None:
                yield axis.size

    def symbols(self) -> frozenset[Symbol]:
        """Collect the symbols of all sizes.

        >>> from neumo.types.axis import B, T
        >>> from neumo.types.element import Lengths
        >>> sorted(map(str, Lengths(T)[B].symbols()))
        ['B', 'T']
        """
        if self._symbols is None:
            self._symbols = frozenset[Symbol]().union(*(size.symbols() for size in self.sizes()))
        return self._symbols

    def variables(self) -> tuple[Var, ...]:
        """Collect the facets that are variables."""
        if self._variables is None:
            self._variables = self.element.variables()
        return self._variables

    def substitute(
        self,
        sizes: Mapping[Symbol, Size],
        facets: Mapping[Var, Any] = _NOTHING,
        axes: Mapping[Symbol, Axis] | None = None,
    ) -> NeuralType:
        """Put sizes in the place of symbols and values (or None) in the place of facet variables.

        `axes` are the given axes that symbols were solved with: they pass kind and vocabulary on.

        >>> from neumo.types.axis import B, T
        >>> from neumo.types.element import Lengths
        >>> Lengths(T)[B].substitute({T.symbol: Size.of(9)})
        Lengths(9)[B]
        """
        has_sizes = not self.symbols().isdisjoint(sizes)
        has_facets = bool(facets) and any(var in facets for var in self.variables())
        if not has_sizes and not has_facets:
            return self
        element = _substitute_element(self.element, sizes, facets)
        new = tuple([axis.substitute(sizes, axes) for axis in self.axes]) if has_sizes else self.axes
        return NeuralType(element, new, self.optional, self.many)

    def fresh(self, owner: str = "", *, rigid: bool = False) -> NeuralType:
        """Give every symbol and facet variable a copy of its own, equal to nothing else.

        >>> from neumo.types.axis import B
        >>> from neumo.types.element import Loss
        >>> Loss()[B].fresh() == Loss()[B]
        False
        """
        sizes = {s: s.fresh(rigid=rigid, owner=owner).size for s in self.symbols()}
        facets = {v: v.fresh(rigid=rigid, owner=owner) for v in self.variables()}
        return self.substitute(sizes, facets)

    def map_axes(self, change: Callable[[Axis], Axis]) -> NeuralType:
        """Apply a function to every axis."""
        return NeuralType(self.element, tuple(change(axis) for axis in self.axes), self.optional, self.many)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.element, self.axes, self.optional, self.many))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, NeuralType):
            return False
        return (
            self.axes == other.axes
            and type(self.element) is type(other.element)
            and self.element == other.element
            and self.optional == other.optional
            and self.many == other.many
        )

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def text(self, *, owners: bool = False, facets: frozenset[str] | None = None) -> str:
        """Print the type; `owners` says whose each symbol is, `facets` limits the facets that are shown.

        >>> from neumo.types.axis import B, T
        >>> from neumo.types.element import Audio
        >>> Audio(rate=16000, peak=1.0)[B, T].text(facets=frozenset({"rate"}))
        'Audio(rate=16000)[B, T]'
        """
        from neumo.types.notation import type_text

        return type_text(self, owners=owners, facets=facets)

    def __reduce__(self) -> tuple[Any, ...]:
        return NeuralType, (self.element, self.axes, self.optional, self.many)


def _substitute_element(element: Element, sizes: Mapping[Symbol, Size], facets: Mapping[Var, Any]) -> Element:
    changes: dict[str, Any] = {}
    if not (facets or measures(type(element))):
        return element
    for name, value in vars(element).items():
        if isinstance(value, Size):
            new = value.substitute(sizes)
            if new is not value:
                changes[name] = new
        elif isinstance(value, Var) and value in facets:
            changes[name] = facets[value]
    if not changes:
        return element
    # The values were checked when the element was made, so the copy skips __init__: this is the hot path.
    copy = object.__new__(type(element))
    vars(copy).update(vars(element), **changes)
    return copy
