"""Symbolic sizes with exact arithmetic: `T//160 + 1`, `ceil(T/2)`, `2*T`.

Every size is kept in one canonical form, `c0 + sum(ci * ai)`, where an atom `ai` is a symbol or `floor(size /
k)`:

* `floor((floor(x/a) + b) / k) = floor((x + a*b) / (a*k))` flattens nested floors,
* terms divisible by `k` leave the floor, and a common divisor of everything in it is cancelled,
* `ceil(x / k) = floor((x + k - 1) / k)`,
* products of unknown sizes are multiplied out: an atom may be a product of symbols and floors too.

That covers convolution, pooling, STFT, strides, up-sampling, concatenation and flattening.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from math import gcd, lcm
from typing import Any

from neumo.types.errors import ConfigError

_uids = itertools.count(1)
_DEEP = 40  # roundings inside one another, from which on they are gone through without recursion


class Symbol:
    """A named unknown size, such as `T`.

    `uid` 0 is the symbol as written in a signature; a call makes copies with their own `uid`. A flexible
    symbol may be solved for, a `rigid` one is a size that is fixed but unknown. `owner` names the module that
    made it.

    >>> Symbol("T"), Symbol("T") == Symbol("T", uid=7)
    (T, False)
    """

    __slots__ = ("_hash", "_size", "name", "owner", "rigid", "uid")

    def __init__(self, name: str, uid: int = 0, rigid: bool = False, owner: str = "") -> None:
        self.name = name
        self.uid = uid
        self.rigid = rigid
        self.owner = owner
        self._hash = hash((name, uid, owner))
        self._size: Size | None = None

    def fresh(self, *, rigid: bool, owner: str = "") -> Symbol:
        """Make a copy that is equal to nothing else.

        >>> Symbol("T").fresh(rigid=True) == Symbol("T").fresh(rigid=True)
        False
        """
        return Symbol(self.name, next(_uids), rigid, owner)

    @property
    def size(self) -> Size:
        """The symbol as a size, made once."""
        if self._size is None:
            self._size = Size(0, ((self, 1),))
        return self._size

    @property
    def key(self) -> tuple[Any, ...]:
        """What symbols are ordered by inside a size."""
        return (0, self.name, self.uid, self.owner)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Symbol) or self._hash != other._hash:
            return False
        return (self.uid, self.name, self.owner, self.rigid) == (
            other.uid,
            other.name,
            other.owner,
            other.rigid,
        )

    def __str__(self) -> str:
        return f"{self.name}@{self.owner}" if self.owner and not self.uid else self.name

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return Symbol, (self.name, self.uid, self.rigid, self.owner)


class Floor:
    """The atom `floor(size / k)` of a canonical size, `k` at least 2; made by `Size.__floordiv__` only.

    >>> (Symbol("T").size // 160).terms[0][0]
    T//160
    """

    __slots__ = ("_hash", "depth", "k", "key", "size")

    def __init__(self, size: Size, k: int) -> None:
        self.size = size
        self.k = k
        self._hash = hash((size, k))
        depth = 1
        for atom, _ in size.terms:
            if not isinstance(atom, Symbol) and atom.depth >= depth:
                depth = atom.depth + 1
        self.depth: int = depth
        if depth > _DEEP:
            size.symbols()  # known from inside out, they are not looked for recursively
        self.key: tuple[Any, ...] = (1, k, size.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Floor) or self._hash != other._hash:
            return False
        if self.depth > _DEEP:
            return _equal(self, other)
        return self.k == other.k and self.size == other.size

    def symbols(self) -> frozenset[Symbol]:
        """Collect the symbols inside."""
        return self.size.symbols()

    def __str__(self) -> str:
        return str(Size(0, ((self, 1),)))

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return Floor, (self.size, self.k)


class Product:
    """The atom `H*W` of a canonical size: symbols and floors, in order; made by `Size.__mul__` only.

    >>> (Symbol("W").size * Symbol("H").size).terms[0][0]
    H*W
    """

    __slots__ = ("_hash", "depth", "factors", "key")

    def __init__(self, factors: tuple[Symbol | Floor, ...]) -> None:
        self.factors = factors
        self.depth: int = max(getattr(factor, "depth", 0) for factor in factors)
        self._hash = hash(factors)
        self.key: tuple[Any, ...] = (2, tuple(factor.key for factor in factors))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Product) and self._hash == other._hash and self.factors == other.factors

    def symbols(self) -> frozenset[Symbol]:
        """Collect the symbols of all factors."""
        return frozenset[Symbol]().union(*(Size(0, ((factor, 1),)).symbols() for factor in self.factors))

    def __str__(self) -> str:
        return str(Size(0, ((self, 1),)))

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return Product, (self.factors,)


Atom = Symbol | Floor | Product
Terms = tuple[tuple[Atom, int], ...]


class Size:
    """The size of an axis, in canonical form, so that equal sizes are equal objects.

    >>> T = Symbol("T").size
    >>> (T // 160 + 1).ceildiv(2)
    T//320 + 1
    >>> (T // 2) // 2 == T // 4, T.ceildiv(2) * 2 == T
    (True, False)
    >>> (T // 160 + 1).evaluate({Symbol("T"): 16000})
    101
    """

    __slots__ = ("_hash", "_key", "_symbols", "const", "symbol", "terms")

    def __init__(self, const: int = 0, terms: Terms = ()) -> None:
        self.const = const
        self.terms = terms  # sorted by the atoms' keys, no coefficient is 0
        # The symbol that this size is and nothing else, or None; read often, hence an attribute.
        self.symbol: Symbol | None = None
        if const == 0 and len(terms) == 1 and terms[0][1] == 1 and type(terms[0][0]) is Symbol:
            self.symbol = terms[0][0]
        self._hash: int | None = None
        self._symbols: frozenset[Symbol] | None = None
        self._key: tuple[Any, ...] | None = None

    @staticmethod
    def of(value: SizeLike) -> Size:
        """Read an int, a symbol, or anything that has a `size` (an axis) as a size.

        >>> Size.of(64), Size.of(Symbol("T"))
        (64, T)
        """
        if isinstance(value, Size):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return _INTS[value] if 0 <= value < len(_INTS) else Size(value)
        size = getattr(value, "size", None)
        if isinstance(size, Size):
            return size
        raise ConfigError(
            f"{value!r} is not a size",
            code="size",
            why="A size is an int, a symbol, an axis or arithmetic on them.",
        )

    @property
    def key(self) -> tuple[Any, ...]:
        """What sizes are ordered by."""
        if self._key is None:
            self._key = (self.const, tuple((atom.key, c) for atom, c in self.terms))
        return self._key

    @property
    def constant(self) -> int | None:
        """The number this size always is, or None.

        >>> Size.of(3).constant, Symbol("T").size.constant
        (3, None)
        """
        return None if self.terms else self.const

    @property
    def negative(self) -> bool:
        """Whether this is below 0 whatever the symbols are (sizes themselves, hence never below 0).

        >>> Size.of(-2).negative, (-Symbol("T").size - 1).negative, (Symbol("T").size - 400).negative
        (True, True, False)
        """
        if self.const >= 0:
            return False
        known: dict[int, bool] = {}
        for floor in floors_in(self):
            inside = floor.size
            known[id(floor)] = inside.const >= 0 and all(c > 0 and _counts(a, known) for a, c in inside.terms)
        return all(c < 0 and _counts(atom, known) for atom, c in self.terms)

    def symbols(self) -> frozenset[Symbol]:
        """Collect all symbols, those inside floors too.

        >>> sorted(map(str, (Symbol("T").size // 2 + Symbol("U").size).symbols()))
        ['T', 'U']
        """
        if self._symbols is None:
            found: set[Symbol] = set()
            for atom, _ in self.terms:
                if isinstance(atom, Symbol):
                    found.add(atom)
                else:
                    found |= atom.symbols()
            self._symbols = frozenset(found)
        return self._symbols

    def __add__(self, other: SizeLike) -> Size:
        right = Size.of(other)
        if not right.terms:
            return Size(self.const + right.const, self.terms) if right.const else self
        if not self.terms:
            return Size(self.const + right.const, right.terms) if self.const else right
        return _sum(self.const + right.const, itertools.chain(self.terms, right.terms))

    __radd__ = __add__

    def __neg__(self) -> Size:
        return Size(-self.const, tuple((atom, -c) for atom, c in self.terms))

    def __sub__(self, other: SizeLike) -> Size:
        return self + -Size.of(other)

    def __rsub__(self, other: SizeLike) -> Size:
        return -self + other

    def __mul__(self, other: SizeLike) -> Size:
        right = Size.of(other)
        if right.terms and self.terms:
            return _product(self, right)
        size, by = (self, right.const) if not right.terms else (right, self.const)
        if by in (0, 1):
            return size if by else Size.of(0)
        return Size(size.const * by, tuple((atom, c * by) for atom, c in size.terms))

    __rmul__ = __mul__

    def __floordiv__(self, by: int) -> Size:
        if type(by) is not int or by < 1:
            raise ConfigError(
                f"cannot divide the size {self} by {by!r}",
                code="size",
                why="A size is divided by a whole number above 0.",
            )
        if by == 1:
            return self
        if not self.terms:
            return Size.of(self.const // by)
        return _floor(self, by)

    def __mod__(self, by: int) -> Size:
        return self - self // by * by

    def ceildiv(self, by: int) -> Size:
        """Divide and round up, as a padded stride does.

        >>> Symbol("T").size.ceildiv(2)
        ceil(T/2)
        """
        return (self + (by - 1)) // by if type(by) is int else self // by

    def substitute(self, sizes: Mapping[Symbol, Size]) -> Size:
        """Put sizes in the place of symbols.

        >>> T = Symbol("T")
        >>> T.size.ceildiv(2).substitute({T: T.size // 160 + 1})
        T//320 + 1
        """
        if not self.terms:
            return self
        bare = self.symbol
        if bare is not None:
            return sizes.get(bare, self)
        if self.symbols().isdisjoint(sizes):
            return self
        return _put_all(self, sizes, {})

    def evaluate(self, values: Mapping[Symbol, int]) -> int:
        """Compute the number for given numbers; a missing symbol is a `ConfigError`.

        >>> Symbol("T").size.ceildiv(2).evaluate({Symbol("T"): 5})
        3
        """
        missing = [symbol for symbol in self.symbols() if symbol not in values]
        if missing:
            named = min(missing, key=lambda symbol: symbol.key)
            raise ConfigError(f"the size {self} needs a number for {named}", code="size")
        known: dict[int, int] = {}
        for floor in floors_in(self):
            known[id(floor)] = _number(floor.size, values, known) // floor.k
        return _number(self, values, known)

    def period(self) -> int:
        """Number after which the rounding of every floor repeats (1 when there is none).

        >>> (Symbol("T").size // 160 + 1).period()
        160
        """
        known: dict[int, int] = {}
        for floor in floors_in(self):
            known[id(floor)] = floor.k * lcm(*(known[id(inner)] for inner in _floors(floor.size)))
        return lcm(*(known[id(floor)] for floor in _floors(self)))

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.const, self.terms)) if self.terms else hash(self.const)
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Size):
            return self.const == other.const and self.terms == other.terms
        return not self.terms and isinstance(other, int) and self.const == other

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def text(self, *, owners: bool = False) -> str:
        """Print the size; with `owners` each symbol says whose it is (`B@SpeechData`).

        >>> Symbol("B", uid=3, owner="SpeechData").size.text(owners=True)
        'B@SpeechData'
        """
        from neumo.types.size_text import size_text

        return size_text(self, owners)

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (self.const, self.terms)


SizeLike = Any  # int | Symbol | Size | Axis; Axis lives a file further up
_INTS = tuple(Size(n) for n in range(1025))


def _counts(atom: Atom, known: Mapping[int, bool]) -> bool:
    """Whether an atom can never be below 0; `known` says it of the floors inside."""
    return all(known.get(id(factor), True) for factor in _factors(atom))


def _number(size: Size, values: Mapping[Symbol, int], known: Mapping[int, int]) -> int:
    """Compute a size whose floors are known."""
    total = size.const
    for atom, coefficient in size.terms:
        for factor in _factors(atom):
            coefficient *= known[id(factor)] if isinstance(factor, Floor) else values[factor]
        total += coefficient
    return total


def _equal(one: Floor, two: Floor) -> bool:
    """Compare floors from outside in."""
    pairs: list[tuple[Atom, Atom]] = [(one, two)]
    while pairs:
        a, b = pairs.pop()
        if a is b:
            continue
        if isinstance(a, Floor) and isinstance(b, Floor):
            here, there = a.size, b.size
            numbers = [(each.k, each.size.const, [c for _, c in each.size.terms]) for each in (a, b)]
            if numbers[0] != numbers[1]:
                return False
            pairs += [(x, y) for (x, _), (y, _) in zip(here.terms, there.terms, strict=True)]
        elif isinstance(a, Product) and isinstance(b, Product) and len(a.factors) == len(b.factors):
            pairs += zip(a.factors, b.factors, strict=True)
        elif a != b:
            return False
    return True


def _factors(atom: Atom) -> tuple[Symbol | Floor, ...]:
    return atom.factors if isinstance(atom, Product) else (atom,)


def _put_all(size: Size, sizes: Mapping[Symbol, Size], known: Mapping[int, Size]) -> Size:
    """Put sizes in the place of symbols; `known` are floors that it has been done for."""
    total = Size.of(size.const)
    for atom, coefficient in size.terms:
        total = total + _put(atom, sizes, known) * coefficient
    return total


def _put_deep(atom: Floor, sizes: Mapping[Symbol, Size]) -> Size:
    known: dict[int, Size] = {}
    for floor in floors_in(Size(0, ((atom, 1),))):
        known[id(floor)] = _put_all(floor.size, sizes, known) // floor.k
    return known[id(atom)]


def _put(atom: Atom, sizes: Mapping[Symbol, Size], known: Mapping[int, Size]) -> Size:
    if isinstance(atom, Symbol):
        return sizes.get(atom, atom.size)
    if isinstance(atom, Floor):
        if known:
            return known[id(atom)]
        return atom.size.substitute(sizes) // atom.k if atom.depth <= _DEEP else _put_deep(atom, sizes)
    total = Size.of(1)
    for factor in atom.factors:
        total = total * _put(factor, sizes, known)
    return total


def _product(one: Size, two: Size) -> Size:
    """Multiply two unknown sizes out."""
    terms = [(atom, c * two.const) for atom, c in one.terms]
    terms += [(atom, c * one.const) for atom, c in two.terms]
    for mine, c in one.terms:
        for other, d in two.terms:
            factors = sorted((*_factors(mine), *_factors(other)), key=lambda factor: factor.key)
            terms.append((Product(tuple(factors)), c * d))
    return _sum(one.const * two.const, terms)


def _key(term: tuple[Atom, int]) -> tuple[Any, ...]:
    return term[0].key


def _sum(const: int, terms: Iterable[tuple[Atom, int]]) -> Size:
    totals: dict[Atom, int] = {}
    for atom, coefficient in terms:
        totals[atom] = totals.get(atom, 0) + coefficient
    kept = [(atom, c) for atom, c in totals.items() if c]
    if len(kept) > 1:
        kept.sort(key=_key)
    return Size(const, tuple(kept)) if kept else Size.of(const)


def _floor(size: Size, k: int) -> Size:
    """Write floor(size / k) canonically, k > 1."""
    outside: list[tuple[Atom, int]] = []
    inside: list[tuple[Atom, int]] = []
    for atom, coefficient in size.terms:
        whole, rest = divmod(coefficient, k)
        if whole:
            outside.append((atom, whole))
        if rest:
            inside.append((atom, rest))
    whole, const = divmod(size.const, k)
    if not inside:
        return _sum(whole, outside)
    common = gcd(k, *(c for _, c in inside))
    if common > 1:  # floor((g*x + c) / (g*k)) = floor((x + floor(c/g)) / k)
        inside = [(atom, c // common) for atom, c in inside]
        const, k = const // common, k // common
    nested = _nested(inside)
    if nested is None:
        return _sum(whole, [*outside, (Floor(Size(const, tuple(inside)), k), 1)])
    others = _sum(const, [term for term in inside if term[0] is not nested])
    flat = (nested.size + others * nested.k) // (nested.k * k)
    return flat + _sum(whole, outside)


def _nested(inside: list[tuple[Atom, int]]) -> Floor | None:
    """Find the one floor that can be flattened: its coefficient is 1."""
    for atom, coefficient in inside:
        if coefficient == 1 and isinstance(atom, Floor):
            return atom
    return None


def floors_in(size: Size) -> Iterator[Floor]:
    """Go through the floors in a size, the innermost first; without recursion, however deep they are.

    >>> list(floors_in((Symbol("T").size.ceildiv(2) * 3) // 5))
    [ceil(T/2), (3*ceil(T/2))//5]
    """
    done: set[int] = set()
    stack = [(floor, False) for floor in _floors(size)]
    while stack:
        floor, is_open = stack.pop()
        if is_open:
            yield floor
        elif id(floor) not in done:
            done.add(id(floor))
            stack.append((floor, True))
            stack += [(inner, False) for inner in _floors(floor.size)]


def _floors(size: Size) -> list[Floor]:
    return [each for atom, _ in size.terms for each in _factors(atom) if isinstance(each, Floor)]
