"""A size that several ports share has one clock in all of them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from neumo.types import Acoustic, Alignment, Audio, B, ConfigError, F, Features, Mel, NeuralType, Symbol, T, U
from neumo.types.clocks import check_clocks, rate_text, symbol_clock
from neumo.types.size import Size


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (T.size, (Symbol("T"), Fraction(100))),
        (T.size // 2 + 3, (Symbol("T"), Fraction(200))),
        (2 * T.size, (Symbol("T"), Fraction(50))),
        (T.size + U.size, None),
        (T.size * U.size, None),
        (40 - T.size, None),
        (T.size - T.size // 1, None),
        (Size.of(7), None),
    ],
)
def test_a_clock_tells_that_of_the_one_symbol_it_depends_on(
    size: Size, told: tuple[Symbol, Fraction] | None
) -> None:
    assert symbol_clock(size, Fraction(100)) == told


@pytest.mark.parametrize(
    ("one", "two", "sentence"),
    [
        (
            Audio(rate=16000)[B, T],
            Audio(rate=8000)[B, T],
            "T has 16000 steps a second in 'one' and 8000 in",
        ),
        (Audio(rate=16000)[B, T], Mel(rate=16000, hop=200)[B, F, T // 160], "and 12800 in 'two'"),
        (Audio(rate=16000)[B, T], Mel(rate=16000, hop=160)[B, F, T // 160 + 1], None),
        (Acoustic()[B, T.at(50)], Acoustic()[B, U.at(100)], None),
        (Acoustic()[B, T.at(50)], Features()[B, T], None),
        (
            Alignment()[B, T.at(50), T.at(100)],
            Features()[B, U.at(50)],
            "T has 50 steps a second in 'one' and 100",
        ),
        (Acoustic()[B, T.at(50)], Acoustic()[B, T(None).at(100)], None),
        (Acoustic()[B, T.at(50)], Alignment()[B, T.at(50), U.at(100)], None),
        (Acoustic()[B, T(200).at(50)], Acoustic()[B, T(200).at(100)], None),
    ],
)
def test_two_ports_of_one_size_have_one_clock(one: NeuralType, two: NeuralType, sentence: str | None) -> None:
    ports = {"one": one, "two": two}
    if sentence is None:
        check_clocks(ports)
        return
    with pytest.raises(ConfigError) as caught:
        check_clocks(ports)
    assert caught.value.code == "clock"
    assert sentence in str(caught.value)
    assert caught.value.fixes[0].text == 'give one of them a name of its own, such as T("T2")'


def test_rates_are_written_as_people_say_them() -> None:
    assert [rate_text(Fraction(50)), rate_text(Fraction(11025, 128))] == ["50", "86.1328"]
