"""Neural types: an element, its axes, and when and how often the value is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Literal

from neumo.types.axis import Axis, Clocks, Kind
from neumo.types.element import Element, Var
from neumo.types.errors import ConfigError
from neumo.types.size import Size, Symbol

When = Literal["train"] | None
_NOTHING: Mapping[Any, Any] = {}


class NeuralType:
    """The type of a value or a port: `Mel(rate=16000)[B, F(64), T]`.

    `optional` marks a port that may be left out (or a value that may be absent), `many` a port that takes
    several values, `when="train"` one that is there in training only.

    >>> from neumo.types.axis import B, F, T
    >>> from neumo.types.element import Mel
    >>> Mel(rate=16000, n_mels=64)[B, F(64), T // 160 + 1]
    Mel(rate=16000, n_mels=64)[B, F=64, T//160 + 1]
    """

    __slots__ = ("_clocks", "_hash", "_symbols", "_variables", "axes", "element", "many", "optional", "when")

    def __init__(
        self,
        element: Element,
        axes: tuple[Axis, ...] = (),
        optional: bool = False,
        many: bool = False,
        when: When = None,
    ) -> None:
        clocked = tensor = False
        for axis in axes:
            if type(axis) is not Axis:
                raise ConfigError(
                    f"{axis!r} is not an axis of {element}",
                    code="axis",
                    why="Write F(64) for a size that is fixed.",
                    fixes=("call it: B.list()",) if callable(axis) else (),
                )
            if axis.clock is not None:
                clocked = True
            if not axis.listed:
                tensor = True
            elif tensor:
                raise _list_behind(element, axis)
        self.element = element
        self.axes = _canonical(element, axes) if clocked else axes
        self.optional = optional
        self.many = many
        self.when: When = when
        self._clocks: tuple[Fraction | None, ...] | None = None
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
        return NeuralType(self.element, self.axes, True, self.many, self.when)

    def as_required(self) -> NeuralType:
        """The same type for a value that is always there."""
        return NeuralType(self.element, self.axes, False, self.many, self.when)

    def as_many(self) -> NeuralType:
        """The same type for a port that takes several values.

        >>> from neumo.types.element import Loss
        >>> Loss()[()].as_many()
        Loss*[]
        """
        return NeuralType(self.element, self.axes, self.optional, True, self.when)

    def as_single(self) -> NeuralType:
        """The type of each value that a `many` port takes."""
        return NeuralType(self.element, self.axes, self.optional, False, self.when)

    def only(self, when: When) -> NeuralType:
        """The same type for a port that is there in training only ("train"), or in every mode (None).

        >>> from neumo.types.axis import B, U
        >>> from neumo.types.element import Ids
        >>> Ids()[B, U].only("train")
        Ids[B, U] when train
        """
        if when not in ("train", None):
            raise ConfigError(
                f"a port is there when 'train' or always (None), not when {when!r}",
                code="when",
                fixes=('.only("train")',),
            )
        return NeuralType(self.element, self.axes, self.optional, self.many, when)

    def with_element(self, element: Element) -> NeuralType:
        """The same axes with another element; what that implies about a clock holds."""
        return NeuralType(element, _settled(element, self.axes), self.optional, self.many, self.when)

    def with_axes(self, *axes: Axis) -> NeuralType:
        """The same element with other axes."""
        return NeuralType(self.element, axes, self.optional, self.many, self.when)

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

    @property
    def clocks(self) -> tuple[Fraction | None, ...]:
        """The clock of each axis, stated or implied by the element; empty when no axis has one.

        >>> from neumo.types.axis import B, F, T
        >>> from neumo.types.element import Mel
        >>> Mel(rate=16000, hop=160)[B, F, T].clocks
        (None, None, Fraction(100, 1))
        """
        if self._clocks is None:
            found = [axis.clock for axis in self.axes]
            implied = _implied(self.element, self.axes)
            if implied is not None:
                found[implied[0]] = implied[1]
            self._clocks = () if found.count(None) == len(found) else tuple(found)
        return self._clocks

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
        clocks: Clocks | None = None,
    ) -> NeuralType:
        """Put sizes in the place of symbols and values (or None) in the place of facet variables.

        `axes` are the given axes that symbols were solved with: they pass kind and vocabulary on. `clocks`
        are those of the symbols; what the element itself says about its clock goes before them.

        >>> from neumo.types.axis import B, T
        >>> from neumo.types.element import Lengths
        >>> Lengths(T)[B].substitute({T.symbol: Size.of(9)})
        Lengths(9)[B]
        """
        has_sizes = not self.symbols().isdisjoint(sizes)
        has_facets = bool(facets) and any(var in facets for var in self.variables())
        if not has_sizes and not has_facets:
            return self
        element = self.element.substitute(sizes, facets, axes, clocks)
        new = self.axes
        if has_sizes:
            new = tuple([axis.substitute(sizes, axes, clocks) for axis in new])
        if clocks or has_facets:
            new = _settled(element, new)
        return NeuralType(element, new, self.optional, self.many, self.when)

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
        return self.with_axes(*(change(axis) for axis in self.axes))

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.element, self.axes, self.optional, self.many, self.when))
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
            and self.when == other.when
        )

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def text(self, *, owners: bool = False, facets: frozenset[str] | None = None) -> str:
        """Print the type; `owners` says whose each symbol is, `facets` limits the facets that are shown.

        Where they are limited, "clock" asks for the clocks of the axes, implied ones too, and "..." for dots
        where some are left out.

        >>> from neumo.types.axis import B, T
        >>> from neumo.types.element import Audio
        >>> Audio(rate=16000, peak=1.0)[B, T].text(facets=frozenset({"rate"}))
        'Audio(rate=16000)[B, T]'
        >>> Audio(rate=16000, peak=1.0)[B, T].text(facets=frozenset({"peak", "clock"}))
        'Audio(peak=1.0)[B, T at 16000 Hz]'
        """
        from neumo.types.notation import type_text

        return type_text(self, owners=owners, facets=facets)

    def __reduce__(self) -> tuple[Any, ...]:
        return NeuralType, (self.element, self.axes, self.optional, self.many, self.when)


def clock_of(t: NeuralType, index: int) -> Fraction | None:
    """Tell how many steps of an axis make a second: what the axis says, or what the element implies; or None.

    >>> from neumo.types.axis import B, T
    >>> from neumo.types.element import Acoustic, Audio
    >>> clock_of(Audio(rate=16000)[B, T], 1), clock_of(Acoustic()[B, T.at(50)], 1), clock_of(Audio()[B, T], 1)
    (Fraction(16000, 1), Fraction(50, 1), None)
    """
    return t.clocks[index] if t.clocks else None


def _implied(element: Element, axes: tuple[Axis, ...]) -> tuple[int, Fraction] | None:
    """What the element says about its time axis: index and clock; of two time axes it does not say which."""
    clock = element.implied_clock()
    if clock is None:
        return None
    times = [n for n, axis in enumerate(axes) if axis.kind is Kind.TIME]
    return (times[0], clock) if len(times) == 1 else None


def _settled(element: Element, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Leave the clock of an axis to the element where that implies one, so that types have one form."""
    implied = _implied(element, axes)
    if implied is None or axes[implied[0]].clock is None:
        return axes
    axis = axes[implied[0]]
    return tuple(Axis(a.kind, a.size, a.vocab, None, a.listed) if a is axis else a for a in axes)


def _canonical(element: Element, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Refuse an axis that contradicts its element."""
    implied = _implied(element, axes)
    if implied is not None and axes[implied[0]].clock not in (None, implied[1]):
        axis = axes[implied[0]]
        raise ConfigError(
            f"{element} has {implied[1]} steps a second, its axis {axis} says {axis.clock}",
            code="clock",
            why="The rate and the hop of an element say how fast its time axis ticks.",
            fixes=(f"leave the clock out: {axis.text(clock=False)}",),
        )
    return _settled(element, axes)


def _list_behind(element: Element, axis: Axis) -> ConfigError:
    return ConfigError(
        f"the axis {axis} of {element} stands behind an axis of a tensor",
        code="list",
        why="A list holds tensors, a tensor holds no lists: list axes come first.",
    )
