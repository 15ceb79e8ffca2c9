"""What the connections of one call have taught about symbols and facet variables so far."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from neumo.types.axis import Axis
from neumo.types.element import Var
from neumo.types.size import Size, Symbol
from neumo.types.type import NeuralType


@dataclass(frozen=True)
class Binding:
    """A symbol or variable that was solved, its value, and the connection that did it (`origin`).

    >>> str(Binding(Symbol("T"), Size.of(7), "audio"))
    'T = 7'
    """

    unknown: Symbol | Var
    value: Any
    origin: Any = None

    def __str__(self) -> str:
        return f"{self.unknown.name} = {self.value}"


@dataclass(frozen=True, slots=True)
class _Tick:
    """A clock that was learned, and the connection that told it."""

    unknown: Symbol
    origin: Any = None


class Environment:
    """The solved symbols and facet variables of one call, with the origin of each.

    >>> env = Environment()
    >>> env.bind_size(Symbol("T"), Symbol("N", rigid=True).size, origin="audio")
    >>> env.size(Symbol("T").size // 2), env.origin(Symbol("T"))
    (N//2, 'audio')
    """

    __slots__ = ("_trail", "axes", "clocks", "facets", "sizes")

    def __init__(self) -> None:
        self.sizes: dict[Symbol, Size] = {}
        self.facets: dict[Var, Any] = {}
        self.axes: dict[Symbol, Axis] = {}
        self.clocks: dict[Symbol, Fraction] = {}
        self._trail: list[Binding | _Tick] = []

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """Everything solved so far, in order."""
        return self.since(0)

    def mark(self) -> int:
        """Remember this state for `rollback`."""
        return len(self._trail)

    def since(self, mark: int) -> tuple[Binding, ...]:
        """What was solved since a mark."""
        return tuple([each for each in self._trail[mark:] if type(each) is Binding])

    def rollback(self, mark: int) -> None:
        """Forget everything solved since a mark."""
        while len(self._trail) > mark:
            last = self._trail.pop()
            unknown = last.unknown
            if isinstance(last, _Tick):
                del self.clocks[last.unknown]
            elif isinstance(unknown, Symbol):
                del self.sizes[unknown]
                self.axes.pop(unknown, None)
            else:
                del self.facets[unknown]

    def bind_size(self, symbol: Symbol, size: Size, *, origin: Any = None, axis: Axis | None = None) -> None:
        """Solve a symbol; `axis` is the given axis where its kind or vocabulary travels with the size."""
        self.sizes[symbol] = size
        if axis is not None:
            self.axes[symbol] = axis
        self._trail.append(Binding(symbol, size, origin))

    def bind_facet(self, var: Var, value: Any, *, origin: Any = None) -> None:
        """Solve a facet variable."""
        self.facets[var] = value
        self._trail.append(Binding(var, value, origin))

    def bind_clock(self, symbol: Symbol, clock: Fraction, *, origin: Any = None) -> None:
        """Learn how many steps of the axes that a symbol measures make a second."""
        self.clocks[symbol] = clock
        self._trail.append(_Tick(symbol, origin))

    def origin(self, unknown: Symbol | Var) -> Any:
        """Which connection solved this symbol or variable, or None."""
        return next((b.origin for b in self._trail if b.unknown == unknown and type(b) is Binding), None)

    def clock_origin(self, symbol: Symbol) -> Any:
        """Which connection told the clock of this symbol, or None."""
        return next((b.origin for b in self._trail if b.unknown == symbol and type(b) is _Tick), None)

    def size(self, size: Size) -> Size:
        """Put what is known into a size."""
        while size.terms and self.sizes:
            new = size.substitute(self.sizes)
            if new is size:
                break
            size = new
        return size

    def facet(self, value: Any) -> Any:
        """Put what is known into a facet."""
        while isinstance(value, Var) and value in self.facets:
            value = self.facets[value]
        return self.size(value) if isinstance(value, Size) else value

    def type(self, t: NeuralType) -> NeuralType:
        """Put what is known into a type.

        >>> from neumo.types.axis import B, T
        >>> from neumo.types.element import Lengths
        >>> env = Environment()
        >>> env.bind_size(Symbol("T"), Size.of(7))
        >>> env.type(Lengths(T)[B])
        Lengths(7)[B]
        """
        new = t.substitute(self.sizes, self.facets, self.axes, self.clocks)
        while new is not t:
            t, new = new, new.substitute(self.sizes, self.facets, self.axes, self.clocks)
        return t
