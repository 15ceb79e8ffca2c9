"""Axes: what a dimension of a tensor counts, how many of it there are, and how many in a second."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from fractions import Fraction
from typing import Any

from neumo.types.errors import ConfigError
from neumo.types.gap import slopes
from neumo.types.size import Size, Symbol
from neumo.types.vocab import Vocab


class Kind(Enum):
    """What an axis counts; the value is the letter that stands for it in the notation.

    >>> Kind.TIME.value
    'T'
    """

    BATCH = "B"
    TIME = "T"
    FEATURE = "F"
    VOCAB = "V"
    HEIGHT = "H"
    WIDTH = "W"
    SINGLETON = "1"
    ANY = "X"


# Names whose kind need not be written: `U2` is a time, `C` a feature axis, `F=D` needs its kind.
_LETTERS = {
    "B": Kind.BATCH,
    "T": Kind.TIME,
    "U": Kind.TIME,
    "F": Kind.FEATURE,
    "C": Kind.FEATURE,
    "V": Kind.VOCAB,
    "H": Kind.HEIGHT,
    "W": Kind.WIDTH,
    "X": Kind.ANY,
}
_PLAIN = re.compile(r"([BTUFCVHWX])\d*'*")
_NAME = re.compile(r"[A-Za-z_]\w*'*")
_RESERVED = ("ceil", "floor")
Clocks = Mapping[Symbol, Fraction]  # ticks per second along the axes that these symbols measure


def kind_of_name(name: str) -> Kind | None:
    """Tell the kind that a symbol's name implies, or None (`T2` is a time, `width` is anything).

    >>> kind_of_name("U'"), kind_of_name("width")
    (<Kind.TIME: 'T'>, None)
    """
    match = _PLAIN.fullmatch(name)
    return None if match is None else _LETTERS[match.group(1)]


# Kinds whose axis of size one is the same as one that counts nothing. Rows, steps and labels are none: where
# code adds or multiplies, one of them in the place of many would silently stand for all of them.
_PLACES = (Kind.FEATURE, Kind.HEIGHT, Kind.WIDTH)


class Axis:
    """One axis of a type: its kind, its size (None is `?`, known at run time), vocabulary and clock, if any.

    Arithmetic gives an axis of the same kind; calling one gives the same kind with another size or symbol.
    `clock` is how many steps of a time axis make a second. An axis that is `listed` is a Python list.

    >>> T // 160 + 1, T.ceildiv(2), T * 256
    (T//160 + 1, ceil(T/2), 256*T)
    >>> F(64), F("D"), T("T2"), T(None), ONE
    (F=64, F=D, T2, T=?, 1)
    >>> V(Vocab("ab", name="two")).size
    2
    >>> T.at(100), T.at(100).ceildiv(2), B.list()
    (T at 100 Hz, ceil(T/2) at 50 Hz, list B)
    """

    __slots__ = ("clock", "kind", "listed", "size", "vocab")

    def __init__(
        self,
        kind: Kind,
        size: Any,
        vocab: Vocab | None = None,
        clock: Fraction | None = None,
        listed: bool = False,
    ) -> None:
        self.kind = kind
        self.size: Size | None = None if size is None else Size.of(size)
        self.vocab = vocab
        self.clock = clock
        self.listed = listed

    def __call__(self, size: Any) -> Axis:
        """Give this kind of axis with a size: a number, a symbol's name, a `Vocab`, or None for `?`."""
        if self.kind is Kind.SINGLETON:
            raise ConfigError("a singleton axis has the size 1", code="axis")
        if isinstance(size, Vocab):
            if self.kind is not Kind.VOCAB:
                raise ConfigError(f"only a vocabulary axis takes a Vocab, {self} does not", code="axis")
            return Axis(self.kind, len(size), size, None, self.listed)
        if isinstance(size, str):
            return self.named(size)
        known = None if size is None else _sensible(Size.of(size))
        if known is not None and known.constant == 0:
            raise ConfigError(
                f"an axis of {self.kind.value} has at least the size 1, not 0",
                code="axis",
                fixes=(f"leave the axis out, or write {self.kind.value}(None) for a size that is not known",),
            )
        return Axis(self.kind, known, None, self.clock, self.listed)

    def named(self, name: str) -> Axis:
        """Give an axis of the same kind with a symbol of its own.

        >>> T.named("T2")
        T2
        """
        if not _NAME.fullmatch(name) or name in _RESERVED:
            raise ConfigError(
                f"{name!r} cannot name an axis", code="axis", why="Use a word such as T2, U' or width."
            )
        return Axis(self.kind, Symbol(name).size, None, self.clock, self.listed)

    def at(self, clock: int | float | Fraction) -> Axis:
        """Give the same axis with a clock: how many of its steps make a second.

        A float counts as the decimal number it is written as; a rate such as 22050 / 256 is a `Fraction`.

        >>> T.at(50), T.at(12.5), T.at(Fraction(22050, 256))
        (T at 50 Hz, T at 25/2 Hz, T at 11025/128 Hz)
        """
        if self.kind is not Kind.TIME:
            raise ConfigError(f"only a time axis has a clock, {self} is none", code="clock")
        return Axis(self.kind, self.size, None, _rate(clock), self.listed)

    def list(self) -> Axis:
        """Give the same axis as a Python list, such as the texts of a batch: `Strings()[B.list()]`.

        >>> B.list(), B.list().listed
        (list B, True)
        """
        return Axis(self.kind, self.size, self.vocab, self.clock, True)

    @property
    def symbol(self) -> Symbol | None:
        """The symbol that the size is and nothing else, or None."""
        return None if self.size is None else self.size.symbol

    def substitute(
        self,
        sizes: Mapping[Symbol, Size],
        axes: Mapping[Symbol, Axis] | None = None,
        clocks: Clocks | None = None,
    ) -> Axis:
        """Put sizes in the place of symbols; what is known of an axis or a clock is passed on.

        >>> T.ceildiv(2).substitute({Symbol("T"): Size.of(7)})
        T=4
        >>> T.ceildiv(2).substitute({Symbol("T"): Size.of(7)}, clocks={Symbol("T"): Fraction(100)})
        T=4 at 50 Hz
        """
        size = self.size
        if size is None or not size.terms:
            return self
        new = size.substitute(sizes)
        if new is size:
            return self
        found = axes.get(size.symbol) if axes and size.symbol is not None else None
        kind = self.kind if found is None or self.kind is not Kind.ANY else found.kind
        vocab = None if found is None or kind is not Kind.VOCAB else found.vocab
        clock = self.clock
        if clocks and clock is None and kind is Kind.TIME:
            clock = scaled_clock(size, clocks)
        return Axis(kind, new, vocab, clock, self.listed)

    def _with(self, size: Size, clock: Fraction | None = None) -> Axis:
        kind = Kind.ANY if self.kind is Kind.SINGLETON else self.kind
        return Axis(kind, _sensible(size), None, clock, self.listed)

    def _beside(self, other: Any) -> Fraction | None:
        """The clock of a sum: adding steps keeps it, adding another axis does if that has the same."""
        if self.clock is None or isinstance(other, int):
            return self.clock
        return self.clock if isinstance(other, Axis) and other.clock == self.clock else None

    def _known(self) -> Size:
        if self.size is None:
            raise ConfigError(
                f"cannot compute with {self}: its size is known only at run time",
                code="axis",
                fixes=("give it a name, such as T('T2')",),
            )
        return self.size

    def __add__(self, other: Any) -> Axis:
        return self._with(self._known() + other, self._beside(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Axis:
        return self._with(self._known() - other, self._beside(other))

    def __rsub__(self, other: Any) -> Axis:
        return self._with(other - self._known())

    def __mul__(self, other: Any) -> Axis:
        clock = self.clock * other if self.clock and isinstance(other, int) and other > 0 else None
        return self._with(self._known() * other, clock)

    __rmul__ = __mul__

    def __floordiv__(self, by: int) -> Axis:
        return self._with(self._known() // by, self.clock and self.clock / by)

    def __mod__(self, by: int) -> Axis:
        return self._with(self._known() % by)

    def __truediv__(self, by: object) -> Axis:
        raise ConfigError(
            f"{self} / {by} need not be whole",
            code="size",
            fixes=(f"{self} // {by} rounds down", f"{self}.ceildiv({by}) rounds up, as a padded stride does"),
        )

    def ceildiv(self, by: int) -> Axis:
        """Divide and round up, as a padded stride does.

        >>> T.ceildiv(3)
        ceil(T/3)
        """
        return self._with(self._known().ceildiv(by), self.clock and self.clock / by)

    def __hash__(self) -> int:
        return hash((self.kind, self.size, self.vocab, self.clock, self.listed))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Axis):
            return False
        return (
            self.kind is other.kind
            and self.size == other.size
            and self.vocab == other.vocab
            and self.clock == other.clock
            and self.listed == other.listed
        )

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def text(self, *, owners: bool = False, clock: bool = True) -> str:
        """Print the axis: `T//160 + 1`, `F=64`, `V=en[28]#f3b66b0a`, `1`, `T=?`, `T at 50 Hz`, `list B`.

        >>> F("D").text(), T.at(50).text(clock=False)
        ('F=D', 'T')
        """
        before = "list " if self.listed else ""
        behind = f" at {self.clock} Hz" if clock and self.clock is not None else ""
        return f"{before}{self._body(owners)}{behind}"

    def _body(self, owners: bool) -> str:
        if self.vocab is not None:
            return f"{self.kind.value}={self.vocab}"
        if self.size is None:
            return f"{self.kind.value}=?"
        if self.kind is Kind.SINGLETON:
            return "1"
        body = self.size.text(owners=owners)
        return body if kind_of_size(self.size) is self.kind else f"{self.kind.value}={body}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Axis, (self.kind, self.size, self.vocab, self.clock, self.listed)


def kinds_fit(wanted: Axis, given: Axis) -> bool:
    """Whether a given axis may stand in the place of a wanted one, sizes aside.

    Kinds have to be equal; `ANY` fits all, and an axis of size one (`ONE`) is one feature, row or column of a
    picture, where the size of that is 1 or open.

    >>> kinds_fit(F("D"), ONE), kinds_fit(ONE, C(1)), kinds_fit(F(80), ONE), kinds_fit(T, ONE)
    (True, True, False, False)
    """
    if wanted.kind is given.kind or Kind.ANY in (wanted.kind, given.kind):
        return True
    if given.kind is Kind.SINGLETON:
        return wanted.kind in _PLACES and (wanted.size is None or wanted.size.constant in (None, 1))
    if wanted.kind is Kind.SINGLETON:
        return given.kind in _PLACES and (given.size is None or given.size.constant == 1)
    return False


def _sensible(size: Size) -> Size:
    """Refuse a size that cannot be one."""
    if size.negative:
        raise ConfigError(f"an axis cannot have the size {size}", code="axis")
    return size


def _rate(clock: Any) -> Fraction:
    """Read ticks per second."""
    if isinstance(clock, int | float | Fraction) and not isinstance(clock, bool) and 0 < clock < float("inf"):
        return Fraction(repr(clock)) if isinstance(clock, float) else Fraction(clock)
    raise ConfigError(
        f"a clock is a number of ticks per second above 0, not {clock!r}",
        code="clock",
        fixes=("T.at(50), or T.at(Fraction(22050, 256))",),
    )


def scaled_clock(size: Size, clocks: Clocks) -> Fraction | None:
    """Work the clock of a size out from those of its symbols; None unless all of them agree on one.

    >>> scaled_clock(Symbol("T").size // 160 + 1, {Symbol("T"): Fraction(16000)})
    Fraction(100, 1)
    """
    if size.symbol is not None:
        return clocks.get(size.symbol)
    found: Fraction | None = None
    for symbol, slope in slopes(size).items():
        clock = clocks.get(symbol) if isinstance(symbol, Symbol) else None
        if clock is None or slope < 0 or found not in (None, clock * slope):
            return None
        found = clock * slope
    return found


def kind_of_size(size: Size) -> Kind | None:
    """Tell the kind that a size's symbols imply, or None when they are silent or disagree.

    >>> kind_of_size(Symbol("T").size // 2), kind_of_size(Size.of(64))
    (<Kind.TIME: 'T'>, None)
    """
    kinds = {kind_of_name(symbol.name) for symbol in size.symbols()}
    return kinds.pop() if len(kinds) == 1 else None


B = Axis(Kind.BATCH, Symbol("B"))
T = Axis(Kind.TIME, Symbol("T"))
U = Axis(Kind.TIME, Symbol("U"))
F = Axis(Kind.FEATURE, Symbol("F"))
C = Axis(Kind.FEATURE, Symbol("C"))
V = Axis(Kind.VOCAB, Symbol("V"))
H = Axis(Kind.HEIGHT, Symbol("H"))
W = Axis(Kind.WIDTH, Symbol("W"))
ONE = Axis(Kind.SINGLETON, 1)
ANY = Axis(Kind.ANY, Symbol("X"))
