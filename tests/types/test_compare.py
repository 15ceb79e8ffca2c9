"""Every row of the rule table, and the laws that hold for all types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.types.strategies import DialectMel, axes, elements, types

from neumo.types import (
    ANY,
    CODES,
    Acoustic,
    Alignment,
    Any_,
    AtLeast,
    Audio,
    B,
    Environment,
    F,
    Features,
    Ids,
    Lengths,
    Logits,
    LogProbs,
    Loss,
    Mask,
    Mel,
    Outcome,
    Probs,
    Relation,
    Score,
    Scores,
    Size,
    Spectrogram,
    Struct,
    Symbol,
    T,
    Text,
    U,
    V,
    Var,
    Vocab,
    compare,
    parse,
    rigid_scope,
)

AB, BA, ABC, XY = Vocab("ab"), Vocab("ba"), Vocab("abc"), Vocab("xy")
N = T(Symbol("N", 1, rigid=True, owner="SpeechData"))  # a time that is fixed but unknown
M = T(Symbol("M", uid=2, rigid=True, owner="SpeedPerturb"))
B1 = B(Symbol("B", uid=3, rigid=True, owner="SpeechData"))
B2 = B(Symbol("B", uid=4, rigid=True, owner="SpeechData_2"))


@dataclass(frozen=True)
class CountedMel(Mel):
    """A mel that holds whole numbers."""

    dtype: ClassVar = "int"


SAME, SUBTYPE, BOUND, ASSUMED, MISMATCH = Outcome


@pytest.mark.parametrize(
    ("wanted", "given_type", "outcome"),
    [
        # element
        (Any_()[B], Ids(AB)[B], SAME),
        (Any_()[B], Any_()[B], SAME),
        (Mel()[B], Mel()[B], SAME),
        (Spectrogram()[B], Mel()[B], SUBTYPE),
        (Features()[B], Text("bert")[B], SUBTYPE),
        (Mel()[B], DialectMel(dialect="x")[B], SUBTYPE),
        (Scores()[B], LogProbs(AB)[B], SUBTYPE),
        # facets
        (Audio()[B], Audio(rate=16000)[B], SAME),
        (Audio(rate=16000)[B], Audio(rate=16000)[B], SAME),
        (Audio(rate=16000)[B], Audio()[B], ASSUMED),
        (Audio(rate=16000)[B], Audio(rate=Var("rate"))[B], ASSUMED),
        (Audio(rate=Var("rate"))[B], Audio(rate=8000)[B], BOUND),
        (Audio(rate=Var("rate"))[B], Audio(rate=Var("other"))[B], BOUND),
        (Audio(rate=Var("rate"))[B], Audio(rate=Var("rate"))[B], SAME),
        (Audio(rate=Var("rate"))[B], Audio()[B], SAME),
        (Audio(rate=Var("rate", 1, True))[B], Audio(rate=8000)[B], ASSUMED),
        (Audio(rate=Var("rate", 1, True))[B], Audio()[B], SAME),
        # vocabularies
        (Ids(AB)[B], Ids(Vocab("ab", name="other"))[B], SAME),
        (Ids(AtLeast(ABC))[B], Ids(AB)[B], SUBTYPE),
        (Ids(AtLeast(ABC))[B], Ids(ABC)[B], SUBTYPE),
        (Ids(AtLeast(ABC))[B], Ids(AtLeast(ABC))[B], SAME),
        (Ids(AtLeast(ABC))[B], Ids(AtLeast(Vocab("abc")))[B], SAME),
        (Ids(AtLeast(ABC))[B], Ids(AtLeast(AB))[B], SUBTYPE),
        (Ids(AB)[B], Ids()[B], ASSUMED),
        (Ids(Var("vocab"))[B], Ids(AB)[B], BOUND),
        # axes and sizes
        (Mel()[B, T], Mel()[B, N], BOUND),
        (Mel()[B, F(64)], Mel()[B, F(64)], SAME),
        (Mel()[B, N // 2], Mel()[B, N // 2], SAME),
        (Mel()[B, N - N // 2], Mel()[B, N.ceildiv(2)], SAME),
        (Mel()[B, T * 2 + 1], Mel()[B, N * 4 + 1], BOUND),
        (Mel()[B, T * 2 + 1], Mel()[B, T(9)], BOUND),
        (Mel()[B, T + 1], Mel()[B, N // 160 + 1], BOUND),
        (Mel()[B, F(64)], Mel()[B, F(None)], ASSUMED),
        (Mel()[B, T], Mel()[B, T(None)], ASSUMED),
        (Mel()[B, T(None)], Mel()[B, T(3)], SAME),
        (Mel()[B, ANY], Mel()[B, F(64)], BOUND),
        (Mel()[B, F(64)], Mel()[B, ANY(64)], ASSUMED),
        (Mel()[B, F(64)], Mel()[B, ANY(None)], ASSUMED),
        (LogProbs()[B, V], LogProbs()[B, V(AB)], BOUND),
        (LogProbs()[B, V(AB)], LogProbs()[B, V(2)], SAME),
        (LogProbs()[B, V(AB)], LogProbs()[B, V(Vocab("ab"))], SAME),
        # what is measured
        (Lengths(T)[B], Lengths(N)[B], BOUND),
        (Lengths(N)[B], Lengths()[B], ASSUMED),
        (Lengths()[B], Lengths(N)[B], SAME),
        (Lengths(Var("n"))[B], Lengths(N)[B], BOUND),
        (Lengths(N)[B], Lengths(Var("n"))[B], ASSUMED),
        (Mask(T, true="keep")[B, T], Mask(N, true="keep")[B, N], BOUND),
        # optional and many
        (Loss()[()].as_optional(), Loss()[()].as_optional(), SAME),
        (Loss()[()].as_optional(), Loss()[()], SAME),
        (Loss()[()].as_many(), Loss()[()], SAME),
        (Loss()[()].only("train"), Loss()[()], SAME),
        (Loss()[()], Loss()[()].only("train"), SAME),
        # mismatches
        (Loss()[()], Loss()[()].as_optional(), MISMATCH),
        (Mel()[B], Spectrogram()[B], MISMATCH),
        (Mel()[B], Any_()[B], MISMATCH),
        (LogProbs()[B], Logits()[B], MISMATCH),
        (Audio()[B], Ids()[B], MISMATCH),
        (Mel()[B], CountedMel()[B], MISMATCH),
        (Audio(rate=16000)[B], Audio(rate=22050)[B], MISMATCH),
        (Ids(AB)[B], Ids(BA)[B], MISMATCH),
        (Ids(AtLeast(AB))[B], Ids(ABC)[B], MISMATCH),
        (Ids(AB)[B], Ids(AtLeast(AB))[B], MISMATCH),
        (Ids(AB, pad=-100)[B], Ids(AB, pad=0)[B], MISMATCH),
        (Mel()[T, B, F], Mel()[B, F, T], MISMATCH),
        (Mel()[B, F], Mel()[B, F, T], MISMATCH),
        (Mel()[B, F], Mel()[B, T], MISMATCH),
        (Mel()[B, F(64)], Mel()[B, F(80)], MISMATCH),
        (Mel()[B, T(64)], Mel()[B, N], MISMATCH),
        (Mel()[B, N], Mel()[B, N * 2], MISMATCH),
        (Mel()[B, T * 2], Mel()[B, N], MISMATCH),
        (Mel()[B, T * 2 + 1], Mel()[B, T(4)], MISMATCH),
        (Mel()[B, T + 9], Mel()[B, T(3)], MISMATCH),
        (Mel()[B, T // 2], Mel()[B, N], MISMATCH),
        (Mel()[B, T + U], Mel()[B, N], MISMATCH),
        (Mel()[B, T], Mel()[B, T // 2], MISMATCH),
        (Mel()[B, T + T // 2], Mel()[B, N], MISMATCH),
        (LogProbs()[B, V(AB)], LogProbs()[B, V(XY)], MISMATCH),
        (LogProbs()[B, V(AB)], LogProbs()[B, V(3)], MISMATCH),
        (Mask(T, true="keep")[B, T], Mask(N, true="pad")[B, N], MISMATCH),
        (Lengths(T)[B], Lengths(N, unit="fraction")[B], MISMATCH),
    ],
)
def test_the_rule_table(wanted, given_type, outcome):
    result = compare(wanted, given_type)
    assert result.outcome is outcome
    assert result.ok is (outcome is not MISMATCH)
    assert bool(result.reasons) is (outcome is MISMATCH)
    for reason in result.reasons:
        assert reason.code in CODES
        assert str(reason) == reason.sentence


def only(wanted, given_type, env=None, **more):
    """The one reason why a comparison fails."""
    (reason,) = compare(wanted, given_type, env, **more).reasons
    return reason


@pytest.mark.parametrize(
    ("wanted", "given_type", "code", "sentence"),
    [
        (Loss()[()], Loss().optional()[()], "optional", "It may be absent, but is needed"),
        (Mel()[B], Any_()[B], "general", "Any is too general: it may be something else than Mel"),
        (Mel()[B], Spectrogram()[B], "general",
         "Spectrogram is too general: it may be something else than Mel"),
        (LogProbs()[B], Logits()[B], "element",
         "Logits are raw scores, LogProbs are logarithms of probabilities"),
        (Logits()[B], Probs()[B], "element", "Probs are probabilities, Logits are raw scores"),
        (Audio()[B], Loss()[B], "element", "Loss is not Audio"),
        (Mel()[B], CountedMel()[B], "dtype", "Its numbers are int, not float"),
        (Mel(scale="log10")[B], Mel(scale="ln")[B], "facet", "scale is ln, not log10"),
        (Mel(floor=1e-9)[B], Mel(floor=1e-5)[B], "facet", "floor is 1e-05, not 1e-09"),
        (Mask(true="keep")[B], Mask(true="pad")[B], "mask", "true is pad, not keep"),
        (Lengths()[B], Lengths(unit="fraction")[B], "lengths", "unit is fraction, not count"),
        (Ids(AB)[B], Ids(BA)[B], "vocab",
         "the same 2 labels in another order, first difference at index 0: 'b' there, 'a' here"),
        (Ids(AB)[B], Ids(AtLeast(AB))[B], "vocab", "It may hold fewer labels than wanted"),
        (Mel()[T, B, F], Mel()[B, F, T], "axes", "the same axes in another order"),
        (Mel()[B, F], Mel()[B, F, T], "axes", "3 axes, not 2"),
        (Mel()[B, F], Mel()[B, T], "axes", "axes B T, not B F"),
        (Mel()[B, F(64)], Mel()[B, F(80)], "size", "It is 80, not 64"),
        (Mel()[B, T(64)], Mel()[B, N], "size", "It changes from batch to batch, but 64 is wanted always"),
        (Mel()[B, N], Mel()[B, T(64)], "size", "It is always 64, but N changes from batch to batch"),
        (Lengths(N // 320 + 1)[B], Lengths(N // 160 + 1)[B], "lengths", "It is 2 times too long"),
        (Lengths(N)[B], Lengths(N // 2)[B], "lengths", "It is 2 times too short"),
        (Lengths(N * 2)[B], Lengths(N * 3)[B], "lengths", "It is 3/2 times as long as wanted"),
        (Lengths(N)[B], Lengths(N + 3)[B], "lengths", "It is 3 too long"),
        (Lengths(N)[B], Lengths(N - 1)[B], "lengths", "It is 1 too short"),
        (Lengths(N)[B], Lengths(2 * N.ceildiv(2))[B], "lengths",
         "It is rounded otherwise: for N = 1 it is 2, not 1"),
        (Mask(N)[B], Mask(N * 2)[B], "mask", "It is 2 times too long"),
        (Lengths(M)[B], Lengths(N)[B], "lengths", "N comes from SpeechData, M from SpeedPerturb"),
        (Audio()[B1], Audio()[B2], "batch",
         "It belongs to another data layer: B comes from SpeechData_2, B from SpeechData"),
        (Lengths(N)[B], Lengths(N + M)[B], "lengths", "M + N and N need not be equal"),
        (Lengths(N + M)[B], Lengths(N * 2 + M)[B], "lengths", "M + 2*N and M + N grow differently"),
        (Mel()[B, T // 2], Mel()[B, N], "unsolved", "N does not tell what T is in T//2"),
        (Mel()[B, T + U], Mel()[B, N], "unsolved", "N does not tell what T and U is in T + U"),
        (Mel()[B, T * 2], Mel()[B, N], "size", "No whole T makes 2*T equal to N"),
        (Mel()[B, T + 9], Mel()[B, T(3)], "size", "No whole T makes T + 9 equal to 3"),
        (LogProbs()[B, V(AB)], LogProbs()[B, V(XY)], "vocab",
         "none of the 2 labels is among the wanted 2: 'x', 'y' there"),
    ],
)  # fmt: skip
def test_each_reason_has_a_code_and_a_sentence(wanted, given_type, code, sentence):
    reason = only(wanted, given_type)
    assert (reason.code, reason.sentence) == (code, sentence)


def test_all_reasons_are_listed_from_element_to_sizes():
    wanted = Mel(rate=16000, scale="ln", n_mels=64)[B, F(64), T]
    given_type = Mel(rate=22050, scale="db", n_mels=80)[B, F(80), N].as_optional()
    codes = [(r.part, r.facet) for r in compare(wanted, given_type).reasons]
    assert codes == [
        ("optional", "optional"), ("facet", "rate"), ("facet", "scale"), ("facet", "n_mels"), ("size", "F"),
    ]  # fmt: skip


def test_other_elements_still_compare_what_they_share():
    codes = [r.code for r in compare(LogProbs(AB)[B, V(AB)], Logits(BA)[B, V(BA)]).reasons]
    assert codes == ["element", "vocab"], "the axis tells no more than the facet did"
    codes = [r.code for r in compare(Audio(rate=1)[B], Alignment()[T]).reasons]
    assert codes == ["element", "axes"]


def test_a_reason_carries_its_data():
    reason = only(Lengths(N // 320 + 1)[B], Lengths(N // 160 + 1)[B])
    assert reason.part == "facet"
    assert reason.facet == "of"
    assert reason.gap is not None
    assert (reason.gap.kind, reason.gap.factor) == ("factor", 2)
    assert str(reason.wanted) == "N//320 + 1"
    reason = only(Mel()[B, F(64)], Mel()[B, F(80)])
    assert (reason.part, reason.axis, reason.gap.offset, reason.gap.factor) == ("size", 1, 16, 1.25)
    reason = only(Ids(AB)[B], Ids(BA)[B])
    assert reason.vocab.relation is Relation.PERMUTED


def test_a_soft_facet_warns_and_hard_ones_can_be_relaxed():
    wanted, given_type = Mel(window="hann", floor=1e-5)[B], Mel(window="hamming", floor=1e-9)[B]
    refused = compare(wanted, given_type)
    assert [r.facet for r in refused.reasons] == ["floor"]
    assert [r.facet for r in refused.warnings] == ["window"]
    relaxed = compare(wanted, given_type, relax={"floor"})
    assert relaxed.ok
    assert [r.facet for r in relaxed.warnings] == ["window", "floor"]


def test_what_is_assumed_becomes_an_obligation():
    result = compare(Audio(rate=16000, peak=1.0)[B, N], Audio()[B, T(None)])
    assert [str(o) for o in result.obligations] == ["rate = 16000", "peak = 1.0", "T = N"]
    assert result.obligations[2].axis == 1
    result = compare(Mel()[B, F(64)], Mel()[B, ANY(None)])
    assert [str(o) for o in result.obligations] == ["kind = F", "F = 64"]
    assert str(compare(Lengths(N)[B], Lengths()[B]).obligations[0]) == "of = N"


def test_bindings_are_kept_with_their_origin():
    env = Environment()
    first = compare(Audio(rate=Var("rate"))[B, T], Audio(rate=8000)[B1, N], env, origin="audio")
    assert [str(b) for b in first.bindings] == ["rate = 8000", "B = B", "T = N"]
    assert env.bindings == first.bindings
    assert env.type(Audio(rate=Var("rate"))[B, T]) == Audio(rate=8000)[B1, N]
    second = compare(Lengths(T // 2)[B], Lengths(N)[B1], env, origin="audio_len")
    assert second.reasons[0].origin == "audio"
    third = compare(Audio(rate=Var("rate"))[B], Audio(rate=16000)[B1], env)
    assert third.reasons[0].origin == "audio"
    assert third.reasons[0].wanted == 8000


def test_a_mismatch_leaves_the_environment_as_it_was():
    env = Environment()
    compare(Lengths(U)[B], Lengths(N)[B1], env)
    before = (dict(env.sizes), dict(env.facets), dict(env.axes), env.bindings)
    wanted = LogProbs(Var("vocab"))[B, T, V, F(3)]
    assert not compare(wanted, LogProbs(AB)[B1, N, V(AB), F(4)], env).ok
    assert (env.sizes, env.facets, env.axes, env.bindings) == before


def test_bare_symbols_are_solved_before_what_depends_on_them():
    assert compare(Mel()[B, T // 2, T], Mel()[B, N // 2, N]).ok
    assert compare(Mask(T // 2)[B, T], Mask(N // 2)[B, N]).ok
    reason = only(Mel()[B, T // 2, T], Mel()[B, N, N])
    assert reason.code == "size"
    assert reason.gap.factor == 2


def test_one_variable_cannot_have_two_values():
    wanted = Mel(n_mels=Var("n"), rate=Var("n"))[B]
    assert only(wanted, Mel(n_mels=80, rate=64)[B]).sentence == "n_mels is 80, not 64"


def test_vocabulary_and_kind_of_an_axis_travel_with_its_size():
    env = Environment()
    assert compare(Logits()[B, T, V], Logits()[B1, N, V(AB)], env).ok
    assert env.type(LogProbs()[B, T, V]) == LogProbs()[B1, N, V(AB)]
    env = Environment()
    assert compare(Any_()[B, ANY], Any_()[B1, F(64)], env).ok
    assert env.type(Any_()[B, ANY]) == Any_()[B1, F(64)]


def test_a_size_solved_by_an_expression():
    env = Environment()
    assert compare(Mel()[B, T * 4 + 2], Mel()[B, N * 8 + 6], env).ok
    assert str(env.size(T.size)) == "2*N + 1"


def test_two_calls_of_one_module_need_not_agree():
    one, two = (rigid_scope({"x": Audio()[B, T]}, "SpeechData")["x"] for _ in range(2))
    reasons = compare(one, two).reasons
    assert [r.sentence for r in reasons] == [
        "B@SpeechData of one call need not be B@SpeechData of another",
        "T@SpeechData of one call need not be T@SpeechData of another",
    ]


def test_the_environment_may_be_left_out():
    assert compare(Acoustic()[B, T], Acoustic()[B, T]).outcome is Outcome.SAME
    scalar = Loss()[()]
    assert compare(scalar, scalar).outcome is Outcome.SAME


@given(types())
def test_compare_is_reflexive(t):
    result = compare(t, t)
    assert result.outcome is Outcome.SAME
    assert not result.warnings
    assert compare(t, parse(str(t))).outcome is Outcome.SAME


@given(types())
def test_reflexive_with_rigid_symbols(t):
    t = t.fresh("Me", rigid=True)
    assert compare(t, t).outcome is Outcome.SAME


class Measured(Struct):
    """A struct of a user."""

    x = Mel()[B]
    y = Score()[B]


CHAIN = st.sampled_from(
    [
        Any_(),
        Spectrogram(),
        Mel(),
        DialectMel(),
        Scores(),
        LogProbs(),
        Features(),
        Text(),
        Acoustic(),
        CountedMel(),
    ]
    + [Struct(x=Spectrogram()[B]), Struct(x=Mel()[B]), Struct(x=DialectMel()[B], y=Score()[B]), Measured()]
    + [Spectrogram(rate=r) for r in (1, 2)]
    + [Mel(rate=r, n_mels=n) for r in (None, 1, 2) for n in (None, 64)]
    + [DialectMel(rate=1, n_mels=64, dialect=d) for d in (None, "x")]
    + [Scores(v) for v in (AB, AtLeast(ABC), AtLeast(AB))]
    + [LogProbs(v) for v in (AB, ABC, AtLeast(ABC), AtLeast(AB))]
)
GOOD = (Outcome.SAME, Outcome.SUBTYPE)


@given(CHAIN, CHAIN, CHAIN)
def test_subtyping_is_transitive(a, b, c):
    if compare(a[B], b[B]).outcome in GOOD and compare(b[B], c[B]).outcome in GOOD and not forgets(b, c):
        assert compare(a[B], c[B]).outcome in GOOD


def forgets(wanted, given_element):
    """`Any` and unknown facets accept everything, so nothing follows from them for a third type."""
    if isinstance(wanted, Any_):
        return True
    return any(
        value is None and getattr(given_element, name) is not None for name, value in vars(wanted).items()
    )


@given(types(), elements(), axes())
def test_compare_never_fails_and_always_gives_reasons(t, element, axis):
    result = compare(t, Any_()[(*t.axes, axis)[:3]].with_element(element))
    assert bool(result.reasons) is (result.outcome is Outcome.MISMATCH)


@given(elements())
def test_anything_feeds_any(element):
    assert compare(Any_()[B], element[B]).outcome is Outcome.SAME


def test_the_number_that_a_symbol_was_solved_with_binds_the_others():
    env = Environment()
    assert compare(Audio()[B, T], Audio()[B1, T(100)], env).ok
    assert only(Lengths(T)[B], Lengths(90)[B1], env).sentence == "It is 90, not 100"
    assert env.origin(Symbol("Q")) is None
    assert env.facet(7) == 7
    assert Environment().type(Audio()[B, T]) == Audio()[B, T]
    lengths = Lengths()
    assert compare(lengths[B], lengths[B]).outcome is Outcome.SAME
    assert env.facet(T.size) == Size.of(100)


def test_one_axis_is_one() -> None:
    found = compare(Audio()[B, T], Audio()[T])
    assert [reason.sentence for reason in found.reasons] == ["1 axis, not 2"]


def test_scores_over_time_are_none_over_the_labels() -> None:
    labels = LogProbs(Vocab("abc"))[B, T, V]
    spans = LogProbs(Vocab("abc"), over="T")[B, T, V]
    assert [reason.sentence for reason in compare(labels, spans).reasons] == ["over is T, not V"]
    assert [reason.sentence for reason in compare(spans, labels).reasons] == ["over is V, not T"]


def test_scores_over_an_axis_that_nobody_knows_are_taken_on_trust() -> None:
    labels, unknown = LogProbs()[B, T, V], LogProbs(over=None)[B, T, V]
    assert [str(one) for one in compare(labels, unknown).obligations] == ["over = V"]
    assert compare(unknown, LogProbs(over="T")[B, T, V]).ok
    assert str(unknown) == "LogProbs(over=None)[B, T, V]"


@pytest.mark.parametrize(
    ("wanted", "given", "sentence"),
    [
        ("bos..", "..eos", 'frame is "..eos", not "bos.."'),
        ("bos..", "none", 'frame is "none", not "bos.."'),
        ("bos..eos", "none", "frame is none, not bos..eos"),
    ],
)
def test_two_texts_are_in_quotes_or_neither_is(wanted: str, given: str, sentence: str) -> None:
    found = compare(Ids(frame=wanted)[B, T], Ids(frame=given)[B, T])
    assert [reason.sentence for reason in found.reasons] == [sentence]


@dataclass(frozen=True)
class Marked(Features):
    """An element of a user whose facet is a text or a number."""

    mark: str | int | None = None


def test_a_number_beside_a_text_in_quotes_is_none() -> None:
    found = compare(Marked(mark="a b")[B, T], Marked(mark=3)[B, T])
    assert [reason.sentence for reason in found.reasons] == ['mark is 3, not "a b"']
