from __future__ import annotations

import pickle
import random
from fractions import Fraction

import pytest
from hypothesis import given
from tests.types.strategies import sizes, symbols

from neumo.types import Acoustic, ConfigError, Size, Symbol, compare, gap, parse_size, same_size
from neumo.types import T as AXIS
from neumo.types.gap import slopes
from neumo.types.size import Floor

T, U, B = (Symbol(name).size for name in "TUB")
SYMBOLS = tuple(Symbol(name) for name in "TUB")


def random_program(rng: random.Random, depth: int):
    """A size and the same computation on integers."""
    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.3:
            n = rng.randint(0, 30)
            return Size.of(n), lambda values: n
        symbol = rng.choice(SYMBOLS)
        return symbol.size, lambda values: values[symbol]
    left, f = random_program(rng, depth - 1)
    op = rng.randrange(6)
    k = rng.randint(1, 9)
    if op == 0:
        return left // k, lambda values: f(values) // k
    if op == 1:
        return left.ceildiv(k), lambda values: -(-f(values) // k)
    if op == 2:
        return left * (k - 4), lambda values: f(values) * (k - 4)
    if op == 3:
        return left + k, lambda values: f(values) + k
    right, g = random_program(rng, depth - 1)
    if op == 4:
        return left + right, lambda values: f(values) + g(values)
    return left - right, lambda values: f(values) - g(values)


def test_20_000_random_programs_agree_with_integer_arithmetic():
    rng = random.Random(7)
    for _ in range(20_000):
        size, compute = random_program(rng, rng.randint(1, 5))
        for _ in range(8):
            values = {symbol: rng.randint(0, 400) for symbol in SYMBOLS}
            assert size.evaluate(values) == compute(values), str(size)


@given(sizes)
def test_printed_sizes_read_back(size):
    assert parse_size(str(size)) == size


@given(sizes)
def test_sizes_survive_pickling(size):
    again = pickle.loads(pickle.dumps(size))
    assert again == size
    assert hash(again) == hash(size)


@given(sizes, symbols, sizes)
def test_substitution_agrees_with_evaluation(size, symbol, by):
    values = {s: 3 + len(s.name) * 5 + len(s.owner) for s in size.symbols() | by.symbols() | {symbol}}
    there = size.substitute({symbol: by}).evaluate(values)
    assert there == size.evaluate({**values, symbol: by.evaluate(values)})


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (T // 160 + 1, "T//160 + 1"),
        ((T // 160 + 1).ceildiv(2), "T//320 + 1"),
        (T.ceildiv(2), "ceil(T/2)"),
        ((T + 1) // 2, "ceil(T/2)"),
        (T.ceildiv(2).ceildiv(2), "ceil(T/4)"),
        (2 * T, "2*T"),
        (2 * T.ceildiv(2), "2*ceil(T/2)"),
        (2 * (T // 2), "2*(T//2)"),
        (-(T // 2), "-(T//2)"),
        (3 * ((T + 1) // 3), "3*((T + 1)//3)"),
        ((T + U).ceildiv(4), "ceil((T + U)/4)"),
        ((2 * T).ceildiv(3), "ceil(2*T/3)"),
        ((2 * T + 1) // 3, "(2*T + 1)//3"),
        ((2 * T) // 3, "(2*T)//3"),
        (T - 1, "T - 1"),
        (1 - T, "-T + 1"),
        (U - T, "U - T"),
        (U - 2 * T, "U - 2*T"),
        (-2 * T, "-2*T"),
        (T - T, "0"),
        (Size.of(64), "64"),
        (Size.of(-3), "-3"),
        ((T + 160) // 160, "T//160 + 1"),
        ((4 * T + 2) // 4, "T"),
        ((2 * T + 3) // 4, "ceil(T/2)"),
        ((T // 2 + U) // 3, "(T + 2*U)//6"),
        ((T + 10 - 10 - 1) // 2 + 1, "ceil(T/2)"),
    ],
)
def test_canonical_form_and_its_print(size, text):
    assert str(size) == repr(size) == text
    assert parse_size(text) == size


def test_equal_functions_of_a_padded_stride_are_equal():
    assert T // 2 // 2 == T // 4
    assert (T // 3 + 2) // 5 == (T + 6) // 15
    assert T.ceildiv(2) * 2 != T


def test_a_size_equals_the_number_it_always_is():
    assert Size.of(64) == 64
    assert Size.of(64) != 63
    assert hash(Size.of(64)) == hash(64)
    assert T != 1
    assert T != "T"


def test_constant_and_symbol_of_a_size():
    assert Size.of(5).constant == 5
    assert T.constant is None
    assert T.symbol == Symbol("T")
    assert (2 * T).symbol is None
    assert (T + 1).symbol is None
    assert (T // 2).symbol is None


def test_the_order_of_sizes_is_worked_out_once():
    assert (T // 2).key is not (T // 2).key
    size = T // 2
    assert size.key is size.key


def test_adding_zero_gives_the_same_object():
    size = T // 2
    assert size + 0 is size
    assert 0 + size is size
    assert size * 1 is size
    assert size // 1 is size
    assert size * 0 == 0
    assert Size.of(3) + size == size + 3


def test_fresh_symbols_are_equal_to_nothing_else():
    one, two = (Symbol("B").fresh(rigid=True, owner="SpeechData") for _ in range(2))
    assert one != two
    assert one == pickle.loads(pickle.dumps(one))
    assert one.rigid
    assert one.size.text() == "B"
    assert one.size.text(owners=True) == "B@SpeechData"
    assert (one.size // 2).text(owners=True) == "B@SpeechData//2"
    assert one != "B"


def test_a_symbol_of_equal_hash_is_still_compared():
    assert Symbol("T", rigid=True) != Symbol("T")


H = Symbol("H").size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (H * T, "H*T"),
        (T * H * 3, "3*H*T"),
        (H * (T + 1), "H + H*T"),
        ((H + 1) * (T - 1), "T + H*T - H - 1"),
        (T * T * T, "T*T*T"),
        (T.ceildiv(2) * H, "H*ceil(T/2)"),
        (H * (T // 2), "H*(T//2)"),
        (1 - H * T, "-H*T + 1"),
        (H * T // 4, "(H*T)//4"),
        ((H * T).ceildiv(4), "ceil(H*T/4)"),
        ((2 * H * T) // 4, "(H*T)//2"),
        (H * T - T * H, "0"),
    ],
)
def test_products_of_unknowns_are_multiplied_out(size, text):
    assert str(size) == text
    assert parse_size(text) == size
    values = {Symbol("H"): 7, Symbol("T"): 5, Symbol("U"): 3}
    assert size.evaluate(values) == size.substitute({s: Size.of(n) for s, n in values.items()})
    assert pickle.loads(pickle.dumps(size)) == size


def test_the_atoms_of_products_are_values():
    (one, _), (two, _) = (H * T).terms[0], (T * H).terms[0]
    assert one == two
    assert str(one) == "H*T"
    assert one != (H * H).terms[0][0]
    assert one.symbols() == {Symbol("H"), Symbol("T")}
    assert (H * (T // 2)).symbols() == {Symbol("H"), Symbol("T")}
    assert pickle.loads(pickle.dumps(one)) == one


def test_products_round_like_the_numbers_they_stand_for():
    area = H * T
    assert same_size(area - area // 2, area.ceildiv(2))
    assert not same_size(H * (T - T // 2), H * T.ceildiv(2))  # strict, but never wrong
    assert not same_size(area.ceildiv(2) * 2, area)
    assert ((H * (T // 2)) // 3).period() == 6
    with pytest.raises(ConfigError, match="needs a number for H"):
        area.evaluate({Symbol("T"): 1})


@pytest.mark.parametrize(
    ("size", "negative"),
    [
        (Size.of(-1), True),
        (Size.of(0), False),
        (-T - 1, True),
        (-T, False),
        (-(T // 2) - H * T - 1, True),
        (T - 400, False),
        (-((T - 3) // 2) - 1, False),
        (-((T + 3) // 2) - 1, True),
        (-(H * ((T - 3) // 2)) - 1, False),
    ],
)
def test_a_size_below_zero_is_seen(size, negative):
    assert size.negative is negative


def test_a_rounding_that_occurs_twice_prints_twice():
    third = T // 3
    assert str(third * 2 + third * 3 // 5) == "2*(T//3) + (3*(T//3))//5"


def deep(leaf: Size = T, depth: int = 500) -> Size:
    """Roundings inside one another that no identity flattens."""
    for n in range(depth):
        leaf = (leaf * 3).ceildiv(5) if n % 2 else (leaf * 3 + 1) // 5
    return leaf


def test_five_hundred_roundings_inside_one_another_print():
    text = str(deep())
    assert text.count("//5") == text.count("ceil(") == 250
    assert str(deep().terms[0][0]) == text


def test_five_hundred_roundings_inside_one_another_compute():
    size, number = deep(), 10**120
    wanted = number
    for n in range(500):
        wanted = (wanted * 3 + (4 if n % 2 else 1)) // 5
    assert size.evaluate({Symbol("T"): number}) == wanted
    assert size.substitute({Symbol("T"): Size.of(number)}) == wanted
    assert size.substitute({Symbol("T"): U}) == deep(U)
    assert (deep(H * T) * U).substitute({Symbol("H"): U}) == deep(U * T) * U
    assert size.symbols() == {Symbol("T")}
    assert size.period() == 5**500
    assert (-size - 1).negative
    assert slopes(size) == {Symbol("T"): Fraction(3, 5) ** 500}
    assert gap(size, size * 2).sentence == "It is 2 times too long"
    assert compare(Acoustic()[AXIS, AXIS(size)], Acoustic()[AXIS, AXIS(deep())]).ok


def test_deep_sizes_are_compared_and_not_only_their_hashes():
    same = [deep(T * H), deep(Symbol("H").size * Symbol("T").size)]
    assert same[0] == same[1]
    one = deep(T * H).terms[0][0]
    others = [
        deep(T * H + 1),
        deep(T * H * 2),
        deep(T * U),
        deep(T * H * U),
        deep(T),
        deep(T // 7 * 2 // 3),
        deep(T // 7 * 2 // 5),
        deep(T * H + U),
    ]
    for other in (size.terms[0][0] for size in others):
        assert one != other
        other._hash = one._hash
        assert one != other
    first, second = deep(T // 7 * 2 // 3).terms[0][0], deep(T // 7 * 2 // 5).terms[0][0]
    second._hash = first._hash
    assert first != second


def test_floors_compare_by_content():
    (a, _), (b, _) = (T // 2).terms[0], (Symbol("T").size // 2).terms[0]
    assert a == a
    assert a == b
    assert isinstance(a, Floor)
    assert a != (T // 3).terms[0][0]
    assert str(a) == "T//2"


def test_evaluation_needs_a_number_for_every_symbol():
    with pytest.raises(ConfigError, match="needs a number for U"):
        (T + U).evaluate({Symbol("T"): 1})


@pytest.mark.parametrize("by", [0, -1, 2.0, True, None])
def test_only_whole_numbers_above_zero_divide(by):
    with pytest.raises(ConfigError, match="cannot divide"):
        T // by
    with pytest.raises(ConfigError, match="cannot divide"):
        T.ceildiv(by)


@pytest.mark.parametrize("value", ["T", 1.5, True, None])
def test_what_is_not_a_size_is_refused(value):
    with pytest.raises(ConfigError, match="is not a size"):
        Size.of(value)


def test_substitution_leaves_other_sizes_alone():
    size = T // 2 + 1
    assert size.substitute({Symbol("U"): Size.of(3)}) is size
    assert Size.of(3).substitute({Symbol("U"): Size.of(3)}) == 3
    assert (T + U // 2).substitute({Symbol("U"): T}) == T + T // 2
