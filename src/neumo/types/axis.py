"""Axes: what a dimension of a tensor counts, and how many of it there are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

from neumo.types.errors import ConfigError
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


def kind_of_name(name: str) -> Kind | None:
    """Tell the kind that a symbol's name implies, or None (`T2` is a time, `width` is anything).

    >>> kind_of_name("U'"), kind_of_name("width")
    (<Kind.TIME: 'T'>, None)
    """
    match = _PLAIN.fullmatch(name)
    return None if match is None else _LETTERS[match.group(1)]


class Axis:
    """One axis of a type: its kind, its size (None is `?`, known at run time) and its vocabulary, if any.

    Arithmetic gives an axis of the same kind; calling one gives the same kind with another size or symbol.

    >>> T // 160 + 1, T.ceildiv(2), T * 256
    (T//160 + 1, ceil(T/2), 256*T)
    >>> F(64), F("D"), T("T2"), T(None), ONE
    (F=64, F=D, T2, T=?, 1)
    >>> V(Vocab("ab", name="two")).size
    2
    """

    __slots__ = ("kind", "size", "vocab")

    def __init__(self, kind: Kind, size: Any, vocab: Vocab | None = None) -> None:
        self.kind = kind
        self.size: Size | None = None if size is None else Size.of(size)
        self.vocab = vocab

    def __call__(self, size: Any) -> Axis:
        """Give this kind of axis with a size: a number, a symbol's name, a `Vocab`, or None for `?`."""
        if self.kind is Kind.SINGLETON:
            raise ConfigError("a singleton axis has the size 1", code="axis")
        if isinstance(size, Vocab):
            if self.kind is not Kind.VOCAB:
                raise ConfigError(f"only a vocabulary axis takes a Vocab, {self} does not", code="axis")
            return Axis(self.kind, len(size), size)
        if isinstance(size, str):
            return self.named(size)
        if isinstance(size, int) and size < 0:
            raise ConfigError(f"an axis cannot have the size {size}", code="axis")
        return Axis(self.kind, size)

    def named(self, name: str) -> Axis:
        """Give an axis of the same kind with a symbol of its own.

        >>> T.named("T2")
        T2
        """
        if not _NAME.fullmatch(name) or name in _RESERVED:
            raise ConfigError(
                f"{name!r} cannot name an axis", code="axis", why="Use a word such as T2, U' or width."
            )
        return Axis(self.kind, Symbol(name).size)

    @property
    def symbol(self) -> Symbol | None:
        """The symbol that the size is and nothing else, or None."""
        return None if self.size is None else self.size.symbol

    def substitute(self, sizes: Mapping[Symbol, Size], axes: Mapping[Symbol, Axis] | None = None) -> Axis:
        """Put sizes in the place of symbols; an axis known for the symbol passes its vocabulary on.

        >>> T.ceildiv(2).substitute({Symbol("T"): Size.of(7)})
        T=4
        """
        size = self.size
        if size is None or not size.terms:
            return self
        new = size.substitute(sizes)
        if new is size:
            return self
        found = axes.get(size.symbol) if axes and size.symbol is not None else None
        if found is None:
            return Axis(self.kind, new)
        kind = found.kind if self.kind is Kind.ANY else self.kind
        return Axis(kind, new, found.vocab if kind is Kind.VOCAB else None)

    def _with(self, size: Size) -> Axis:
        return Axis(Kind.ANY if self.kind is Kind.SINGLETON else self.kind, size)

    def _known(self) -> Size:
        if self.size is None:
            raise ConfigError(
                f"cannot compute with {self}: its size is known only at run time",
                code="axis",
                fixes=("give it a name, such as T('T2')",),
            )
        return self.size

    def __add__(self, other: Any) -> Axis:
        return self._with(self._known() + other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Axis:
        return self._with(self._known() - other)

    def __rsub__(self, other: Any) -> Axis:
        return self._with(other - self._known())

    def __mul__(self, other: Any) -> Axis:
        return self._with(self._known() * other)

    __rmul__ = __mul__

    def __floordiv__(self, by: int) -> Axis:
        return self._with(self._known() // by)

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
        return self._with(self._known().ceildiv(by))

    def __hash__(self) -> int:
        return hash((self.kind, self.size, self.vocab))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Axis):
            return False
        return self.kind is other.kind and self.size == other.size and self.vocab == other.vocab

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def text(self, *, owners: bool = False) -> str:
        """Print the axis: `T//160 + 1`, `F=64`, `V=en[28]#f3b66b0a`, `1`, `T=?`.

        >>> F("D").text()
        'F=D'
        """
        if self.vocab is not None:
            return f"{self.kind.value}={self.vocab}"
        if self.size is None:
            return f"{self.kind.value}=?"
        if self.kind is Kind.SINGLETON:
            return "1"
        body = self.size.text(owners=owners)
        return body if kind_of_size(self.size) is self.kind else f"{self.kind.value}={body}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Axis, (self.kind, self.size, self.vocab)


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
