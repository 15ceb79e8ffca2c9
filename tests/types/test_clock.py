"""Clocks: how many steps of a time axis make a second, and what follows from it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from tests.types.strategies import clocks, sizes

from neumo.types import (
    ANY,
    MFCC,
    Acoustic,
    Alignment,
    Any_,
    Audio,
    B,
    ConfigError,
    Environment,
    F,
    Features,
    Lengths,
    Mel,
    Obligation,
    Outcome,
    Scheme,
    Spectrogram,
    Symbol,
    T,
    U,
    V,
    Var,
    Vocab,
    clock_of,
    compare,
    parse,
)
from neumo.types.axis import scaled_clock

N = T(Symbol("T9", 1, True, "SpeechData"))
B1 = B(Symbol("B", 2, True, "SpeechData"))


def hz(number: float) -> Fraction:
    return Fraction(number)


# axes


@pytest.mark.parametrize(
    ("clock", "wanted"),
    [
        (50, 50),
        (50.0, 50),
        (12.5, Fraction(25, 2)),
        (0.1, Fraction(1, 10)),
        (Fraction(22050, 256), Fraction(11025, 128)),
    ],
)
def test_a_clock_is_a_whole_number_a_decimal_or_a_fraction(clock: Any, wanted: Any) -> None:
    assert T.at(clock).clock == wanted
    assert T.clock is None


@pytest.mark.parametrize("clock", [0, -1, True, None, "50", float("nan"), float("inf")])
def test_what_is_no_clock_is_refused(clock: Any) -> None:
    with pytest.raises(ConfigError, match="a clock is a number of ticks per second above 0") as caught:
        T.at(clock)
    assert caught.value.code == "clock"


@pytest.mark.parametrize("axis", [B, F, V(Vocab("ab")), ANY])
def test_only_a_time_axis_has_a_clock(axis: Any) -> None:
    with pytest.raises(ConfigError, match="only a time axis has a clock"):
        axis.at(50)


@pytest.mark.parametrize(
    ("axis", "clock"),
    [
        (T.at(100) // 2, 50),
        (T.at(100).ceildiv(4), 25),
        (T.at(100) * 3, 300),
        (3 * T.at(100), 300),
        (T.at(100) + 7, 100),
        (7 + T.at(100), 100),
        (T.at(100) - 7, 100),
        (T.at(100) + U.at(100), 100),
        (T(500).at(100) // 2, 50),
        (T.at(100)("T2"), 100),
        (T.at(100)(64), 100),
        (T.at(100)(None), 100),
        (T.at(100).list(), 100),
        (T.at(100) + U, None),
        (T.at(100) + U.at(50), None),
        (T.at(100) + U.size, None),
        (U + T.at(100), None),
        (9 - T.at(100), None),
        (T.at(100) * U, None),
        (T.at(100) * 0, None),
    ],
)  # fmt: skip
def test_arithmetic_scales_the_clock(axis: Any, clock: int | None) -> None:
    assert axis.clock == clock


def test_axes_with_other_clocks_are_other_axes() -> None:
    assert T.at(50) != T
    assert T.at(50) != T.at(100)
    assert T.at(50) == T.at(50.0)
    assert hash(T.at(50)) == hash(T.at(50))
    assert pickle.loads(pickle.dumps(T.at(50))) == T.at(50)


@given(sizes, clocks)
def test_the_clock_of_a_size_is_its_slope(size: Any, clock: Fraction) -> None:
    found = scaled_clock(size, {Symbol("T"): clock})
    if found is not None:
        assert size.symbols() >= {Symbol("T")}
        assert found > 0
    else:
        assert size.symbol != Symbol("T")


def test_several_symbols_have_to_agree() -> None:
    both = T.size + U.size
    assert scaled_clock(both, {Symbol("T"): hz(100), Symbol("U"): hz(100)}) == 100
    assert scaled_clock(both, {Symbol("T"): hz(100), Symbol("U"): hz(50)}) is None
    assert scaled_clock(both, {Symbol("T"): hz(100)}) is None
    assert scaled_clock(2 * T.size + U.size, {Symbol("T"): hz(100), Symbol("U"): hz(200)}) == 200
    assert scaled_clock(T.size * U.size, {Symbol("T"): hz(100), Symbol("U"): hz(100)}) is None
    assert scaled_clock(F(3).size, {Symbol("T"): hz(100)}) is None


# types


@dataclass(frozen=True)
class Steady(Features):
    """An element of a user that knows its clock."""

    def implied_clock(self) -> Fraction | None:
        """Always the same."""
        return Fraction(25)


@pytest.mark.parametrize(
    ("t", "clock"),
    [
        (Audio(rate=16000)[B, T], 16000),
        (Audio()[B, T], None),
        (Audio(rate=Var("rate"))[B, T], None),
        (Spectrogram(rate=16000, hop=160)[B, F, T], 100),
        (Mel(rate=22050, hop=256)[B, F, T], Fraction(11025, 128)),
        (MFCC(rate=8000, hop=80)[B, F, T], 100),
        (Mel(rate=16000)[B, F, T], None),
        (Mel(hop=160)[B, F, T], None),
        (Steady()[B, T], 25),
        (Acoustic()[B, T.at(50)], 50),
        (Mel(rate=16000)[B, F, T.at(50)], 50),
    ],
)
def test_a_clock_is_stated_or_implied(t: Any, clock: Any) -> None:
    assert clock_of(t, t.rank - 1) == clock
    assert clock_of(t, 0) is None


def test_of_two_time_axes_the_element_does_not_say_which() -> None:
    assert Audio(rate=16000)[T, U].clocks == ()
    assert Alignment()[B, T.at(50), U].clocks == (None, 50, None)


def test_what_the_element_implies_is_not_kept_twice() -> None:
    t = Mel(rate=16000, hop=160)[B, F, T.at(100)]
    assert t == Mel(rate=16000, hop=160)[B, F, T]
    assert t.axes[2].clock is None
    assert str(t) == "Mel(rate=16000, hop=160)[B, F, T]"


def test_an_axis_cannot_contradict_its_element() -> None:
    with pytest.raises(ConfigError, match="has 100 steps a second, its axis T at 50 Hz says 50") as caught:
        Mel(rate=16000, hop=160)[B, F, T.at(50)]
    assert caught.value.code == "clock"
    assert [fix.text for fix in caught.value.fixes] == ["leave the clock out: T"]


def test_another_element_decides_about_its_clock() -> None:
    assert str(Acoustic()[B, T.at(50)].with_element(Audio(rate=8000))) == "Audio(rate=8000)[B, T]"
    assert str(Acoustic()[B, T.at(50)].with_element(Features())) == "Features[B, T at 50 Hz]"


def test_where_facets_are_limited_the_clock_has_to_be_asked_for() -> None:
    mel = Mel(rate=16000, hop=160, n_mels=64)[B, F(64), T]
    assert mel.text(facets=frozenset({"n_mels"})) == "Mel(n_mels=64)[B, F=64, T]"
    assert mel.text(facets=frozenset({"clock"})) == "Mel[B, F=64, T at 100 Hz]"
    encoded = Acoustic("a")[B, T.at(50)]
    assert encoded.text(facets=frozenset()) == "Acoustic[B, T]"
    assert encoded.text(facets=frozenset({"clock"})) == "Acoustic[B, T at 50 Hz]"
    assert Acoustic()[B, T].text(facets=frozenset({"clock"})) == "Acoustic[B, T]"


# through calls


def call(takes: Any, gives: Any, **given_types: Any) -> Any:
    env = Environment()
    instance = Scheme(takes, gives).instantiate("Module")
    for name, t in given_types.items():
        result = compare(instance.takes[name], t, env, origin=name)
        assert result.ok, result.reasons
    return instance.results(env)


SLOW, MEL = Acoustic()[B1, N.at(50)], Mel(rate=16000, hop=160)[B1, F(64), N]
PLAIN, AUDIO = Acoustic()[B, T], Audio(rate=8000)[B1, N]
ANY_RATE = Audio(rate=Var("rate"))[B, T]


@pytest.mark.parametrize(
    ("wanted", "given_type", "gives", "text"),
    [
        (
            Mel()[B, F, T],
            Mel(rate=16000, hop=160)[B1, F(64), N],
            Acoustic()[T.ceildiv(2)],
            "ceil(T9/2) at 50 Hz",
        ),
        (PLAIN, SLOW, Acoustic()[T * 4 + 1], "4*T9 + 1 at 200 Hz"),
        # a fixed number of frames
        (PLAIN, Acoustic()[B1, T(500).at(50)], Acoustic()[T // 2], "T=250 at 25 Hz"),
        # solved by an expression
        (Acoustic()[B, T * 2 + 1], Acoustic()[B1, (N * 2 + 1).at(50)], Acoustic()[T], "T9 at 25 Hz"),
        # what the element says goes before what follows, even where time is stretched
        (Audio()[B, T], AUDIO, Mel(rate=8000, hop=80)[T // 80], "T9//80"),
        (Audio()[B, T], AUDIO, Audio(rate=8000)[T * 2], "2*T9"),
        # and so does what the author says
        (PLAIN, SLOW, Acoustic()[T.at(10)], "T9 at 10 Hz"),
        # a facet that is solved implies one
        (ANY_RATE, AUDIO, Audio(rate=Var("rate"))[T], "T9"),
        (ANY_RATE, AUDIO, Acoustic()[T // 80], "T9//80 at 100 Hz"),
        # what the port wants is known, even if the value does not say it
        (Audio(rate=8000)[B, T], Audio()[B1, N], Acoustic()[T // 80], "T9//80 at 100 Hz"),
        (Acoustic()[B, T.at(50)], Acoustic()[B1, N], Acoustic()[T // 2], "T9//2 at 25 Hz"),
        # the kind of an axis that may be any goes with its clock
        (Any_()[B, ANY], SLOW, Any_()[ANY], "T9 at 50 Hz"),
        # none: a fresh axis, a constant, another kind, one that shrinks, unknown sizes, nothing told
        (PLAIN, SLOW, Acoustic()[T("T2")], "T2"),
        (PLAIN, SLOW, Acoustic()[T(3)], "T=3"),
        (PLAIN, SLOW, Acoustic()[F(T)], "F=T9"),
        (PLAIN, SLOW, Acoustic()[9 - T], "-T9 + 9"),
        (PLAIN, SLOW, Acoustic()[T(None)], "T=?"),
        (PLAIN, Acoustic()[B1, N], Acoustic()[T // 2], "T9//2"),
    ],
)
def test_clocks_travel_through_calls(wanted: Any, given_type: Any, gives: Any, text: str) -> None:
    found = call({"x": wanted}, {"y": gives}, x=given_type)["y"]
    assert str(found.axes[0]) == text


def test_the_whole_chain_of_a_recogniser() -> None:
    audio = Audio(rate=16000)[B1, N]
    mel = call({"a": Audio()[B, T]}, {"y": Mel(hop=160)[B, F(64), T // 160 + 1]}, a=audio)["y"]
    assert clock_of(mel, 2) == 100
    encoded = call({"m": Mel()[B, F, T]}, {"y": Acoustic()[B, F, T.ceildiv(2)]}, m=mel)["y"]
    assert clock_of(encoded, 2) == 50
    assert parse(str(encoded)).clocks == encoded.clocks


def test_a_join_of_two_axes_keeps_the_clock_they_share() -> None:
    takes = {"a": Acoustic()[B, T], "b": Acoustic()[B, U]}
    gives = {"y": Acoustic()[B, T + U]}
    one, two = Acoustic()[B1, T(3).at(50)], Acoustic()[B1, T(4).at(50)]
    assert clock_of(call(takes, gives, a=one, b=two)["y"], 1) == 50
    assert clock_of(call(takes, gives, a=one, b=Acoustic()[B1, T(4)])["y"], 1) is None


# comparison


def reasons(wanted: Any, given_type: Any, env: Environment | None = None, **more: Any) -> list[str]:
    return [str(reason) for reason in compare(wanted, given_type, env, **more).reasons]


def test_frames_of_another_clock_are_refused() -> None:
    (reason,) = compare(Acoustic()[B, T.at(50)], Acoustic()[B1, N.at(100)]).reasons
    assert (reason.part, reason.code, reason.facet, reason.axis) == ("clock", "clock", "clock", 1)
    assert (reason.wanted, reason.given) == (50, 100)
    assert str(reason) == "It has 100 frames a second, not 50"
    assert reasons(Features()[T.at(100)], Acoustic()[N.at(Fraction(22050, 256))]) == [
        "It has 86.1328 frames a second, not 100"
    ]
    assert reasons(Any_()[T.at(16000)], Audio(rate=8000)[N]) == ["It has 8000 samples a second, not 16000"]


def test_equal_clocks_fit_and_unknown_ones_are_assumed() -> None:
    assert compare(Acoustic()[B, T.at(50)], Acoustic()[B1, N.at(50)]).outcome is Outcome.BOUND
    assert compare(Any_()[T.at(100)], Mel(rate=16000, hop=160)[N]).ok
    found = compare(Acoustic()[B, N.at(50)], Acoustic()[B, N])
    assert found.outcome is Outcome.ASSUMED
    assert found.obligations == (Obligation("clock", hz(50), 1),)
    assert str(found.obligations[0]) == "clock = 50"
    assert compare(Acoustic()[B, N], Acoustic()[B, N.at(50)]).outcome is Outcome.SAME


def test_equally_many_frames_of_two_clocks_do_not_meet() -> None:
    env = Environment()
    assert compare(Acoustic()[B, T], Acoustic()[B1, T(500).at(100)], env, origin="fast").ok
    found = compare(Acoustic()[B, T], Acoustic()[B1, T(500).at(50)], env, origin="slow")
    assert [str(reason) for reason in found.reasons] == ["It has 50 frames a second, not 100"]
    assert found.reasons[0].origin == "fast"
    assert compare(Acoustic()[B, T], Acoustic()[B1, T(500)], env).outcome is Outcome.SAME
    assert reasons(Acoustic()[B, T * 2], Acoustic()[B1, T(1000).at(100)], env) == [
        "It has 100 frames a second, not 200"
    ]


def test_the_clock_may_be_told_after_the_size() -> None:
    env = Environment()
    assert compare(Lengths(T)[B], Lengths(N)[B1], env, origin="lengths").ok
    assert compare(Acoustic()[B, T], Acoustic()[B1, N.at(50)], env, origin="frames").outcome is Outcome.SAME
    assert env.clock_origin(Symbol("T")) == "frames"
    assert env.origin(Symbol("T")) == "lengths"
    assert env.clock_origin(Symbol("U")) is None
    assert reasons(Acoustic()[B, T], Acoustic()[B1, N.at(100)], env) == ["It has 100 frames a second, not 50"]


def test_where_sizes_differ_the_clock_is_no_second_reason() -> None:
    env = Environment()
    assert compare(Acoustic()[B, T], Acoustic()[B1, N.at(100)], env).ok
    found = compare(Acoustic()[B, T], Acoustic()[B1, (N // 2).at(50)], env)
    assert [reason.code for reason in found.reasons] == ["size"]


def test_where_facets_differ_an_implied_clock_is_no_second_reason() -> None:
    wanted = Mel(rate=16000, hop=160)[B, F, T]
    assert reasons(wanted, Mel(rate=22050, hop=160)[B1, F(64), N]) == ["rate is 22050, not 16000"]
    assert reasons(wanted, Audio(rate=16000)[B1, F(64), N]) == ["Audio is not Mel"]
    relaxed = compare(wanted, Mel(rate=22050, hop=160)[B1, F(64), N], relax={"rate"})
    assert relaxed.ok
    assert [reason.facet for reason in relaxed.warnings] == ["rate"]
    stated = Mel(rate=16000)[B1, F(64), N.at(50)]
    assert reasons(wanted, stated) == ["It has 50 frames a second, not 100"]
    assert reasons(wanted, Mel(rate=22050)[B1, F(64), N.at(50)]) == ["rate is 22050, not 16000"]
    louder = Mel(rate=16000, hop=160, scale="ln")[B, F, T]
    assert reasons(louder, Mel(rate=16000, scale="db")[B1, F(64), N.at(50)]) == [
        "scale is db, not ln",
        "It has 50 frames a second, not 100",
    ]


def test_a_clock_can_be_relaxed() -> None:
    found = compare(Acoustic()[T.at(50)], Acoustic()[N.at(100)], relax={"clock"})
    assert found.ok
    assert [reason.code for reason in found.warnings] == ["clock"]


def test_other_axes_say_nothing_about_clocks() -> None:
    assert [r.code for r in compare(Acoustic()[B, T.at(50)], Acoustic()[T.at(100), B]).reasons] == ["axes"]


def test_a_mismatch_forgets_the_clocks_it_saw() -> None:
    env = Environment()
    assert not compare(Acoustic()[B, F(3), T], Acoustic()[B1, F(4), N.at(50)], env).ok
    assert env.clocks == {}
    mark = env.mark()
    assert compare(Acoustic()[B, T], Acoustic()[B1, N.at(50)], env).ok
    assert env.clocks == {Symbol("T"): 50}
    env.rollback(mark)
    assert env.clocks == {}
    assert env.bindings == ()


def test_the_clock_of_a_rigid_or_unknown_size_is_not_learned() -> None:
    env = Environment()
    assert compare(Acoustic()[B, N], Acoustic()[B, N.at(50)], env).ok
    assert compare(Acoustic()[B, T(None)], Acoustic()[B, N.at(50)], env).ok
    assert compare(Acoustic()[B, T(5)], Acoustic()[B, T(5).at(50)], env).ok
    assert compare(Acoustic()[B, T * U], Acoustic()[B, (T * U).at(50)], env).ok
    assert env.clocks == {}
