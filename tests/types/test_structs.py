"""Structs: elements with named typed fields; and axes that are lists."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from tests.types.strategies import structs

from neumo.types import (
    ANY,
    Acoustic,
    Any_,
    Audio,
    B,
    ConfigError,
    Environment,
    F,
    Ids,
    Lengths,
    Logits,
    LogProbs,
    Mel,
    Obligation,
    Outcome,
    Scheme,
    Score,
    Size,
    Strings,
    Struct,
    Symbol,
    T,
    U,
    V,
    Values,
    Var,
    Vocab,
    compare,
    element_class,
    facets_of,
    parse,
    rigid_scope,
)

AB, BA = Vocab("ab"), Vocab("ba")
N = T(Symbol("T9", 1, True, "SpeechData"))
B1 = B(Symbol("B", 2, True, "SpeechData"))
B2 = B(Symbol("B", 3, True, "SpeechData_2"))


class Answer(Struct):
    """An element of a user, with fixed fields."""

    text = Ids(AB)[B, U]
    score = Score()[B]


class LongAnswer(Answer):
    """More of it."""

    seconds = Values("s")[B].as_optional()


def reasons(wanted: Any, given_type: Any, env: Environment | None = None, **more: Any) -> list[str]:
    return [str(reason) for reason in compare(wanted, given_type, env, **more).reasons]


def codes(wanted: Any, given_type: Any) -> list[str]:
    return [reason.code for reason in compare(wanted, given_type).reasons]


# how they are made


def test_a_stated_field_takes_any_size_whatever_its_symbols_are_called() -> None:
    longer = Answer(text=Answer().fields["text"].with_axes(B, U + 1))
    assert str(longer.fields["text"].axes[1]) == "U + 1"


def test_a_struct_has_fields_and_no_facets() -> None:
    struct = Struct(text=Ids(AB)[B, U], score=Score()[B])
    assert list(struct.fields) == ["text", "score"]
    assert facets_of(Struct) == {}
    assert struct.dtype == "any"
    assert struct[()].symbols() == {Symbol("B"), Symbol("U")}
    assert struct[B].sizes


def test_the_order_of_fields_does_not_matter() -> None:
    one, two = Struct(a=Score()[B], b=Ids()[B]), Struct(b=Ids()[B], a=Score()[B])
    assert one == two
    assert hash(one) == hash(two)
    assert one != Struct(a=Score()[B])
    assert one != "Struct"
    assert one[B] == two[B]


def test_a_subclass_states_its_fields_once() -> None:
    assert Answer().fields == {"text": Ids(AB)[B, U], "score": Score()[B]}
    assert list(LongAnswer().fields) == ["text", "score", "seconds"]
    assert not hasattr(Answer, "text")
    assert element_class("Answer") is Answer
    assert str(Answer()[B.list()]) == "Answer[list B]"
    assert parse("Answer[list B]") == Answer()[B.list()]
    assert Answer() != Struct(**Answer().fields)


def test_a_field_of_a_subclass_can_be_known_better() -> None:
    better = Answer(text=Ids(AB)[B1, U(5)])
    assert better.fields["score"] == Score()[B]
    assert str(better) == "Answer(text=Ids(vocab[2]#9bad6162)[B, U=5])".replace("U=5", "T=5")
    with pytest.raises(ConfigError, match=r"Answer\.score is Score\[B\], not Ids\[B\]") as caught:
        Answer(score=Ids()[B])
    assert caught.value.code == "fields"
    assert caught.value.why == ("Ids is not Score.",)
    with pytest.raises(ConfigError, match=r"(?s)Answer has no field 'scor'.*did you mean 'score'"):
        Answer(scor=Score()[B])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Struct(), r"(?s)Struct needs fields.*fix      Struct\(text="),
        (lambda: type("Empty", (Struct,), {})(), "(?s)Empty needs fields.*in its body"),
        (lambda: Struct(text=Ids()), "the field text of Struct is Ids, not a type"),  # type: ignore[arg-type]
        (lambda: Struct(**{"a b": Ids()[B]}), "'a b' cannot name a field of Struct"),
        (lambda: Struct(text=Ids()[B].as_many()), "the field text of Struct is one value in every mode"),
        (lambda: Struct(text=Ids()[B].only("train")), "the field text of Struct is one value in every mode"),
        (
            lambda: type("Odd", (Struct,), {"losses": Score()[B].as_many()}),
            "the field losses of Odd is one value",
        ),
    ],
)
def test_what_cannot_be_a_struct_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make()
    assert caught.value.code == "fields"


@given(structs)
def test_structs_survive_printing_and_pickling(struct: Any) -> None:
    assert parse(str(struct[()])) == struct[()]
    again = pickle.loads(pickle.dumps(struct))
    assert again == struct
    assert hash(again) == hash(struct)


# what is unknown in them


def test_symbols_and_variables_inside_are_substituted() -> None:
    t = Struct(audio=Audio(rate=Var("rate"))[B, T], frames=Lengths(T // 160)[B])[B.list()]
    assert t.variables() == (Var("rate"),)
    assert str(t.substitute({Symbol("T"): Size.of(320)})) == (
        "Struct(audio=Audio(rate=$rate)[B, T=320], frames=Lengths(2)[B])[list B]"
    )
    assert str(t.substitute({}, {Var("rate"): 8000})) == (
        "Struct(audio=Audio(rate=8000)[B, T], frames=Lengths(T//160)[B])[list B]"
    )
    assert t.substitute({Symbol("U"): Size.of(1)}) is t
    assert t.fresh() != t


def test_a_struct_in_a_signature_belongs_to_the_call() -> None:
    best = Struct(ids=Ids(Var("vocab"))[B, U], at=Acoustic()[B, T // 2], new=Score()[B, T("T2")])
    scheme = Scheme({"ids": Ids(Var("vocab"))[B, U], "x": Mel()[B, T]}, {"best": best[()]})
    env = Environment()
    call = scheme.instantiate("Search")
    assert compare(call.takes["ids"], Ids(AB)[B1, U(7)], env).ok
    assert compare(call.takes["x"], Mel(rate=16000, hop=160)[B1, N], env).ok
    found = call.results(env)["best"]
    assert str(found) == (
        "Struct(ids=Ids(vocab[2]#9bad6162)[B, T=7], at=Acoustic[B, T9//2 at 50 Hz], new=Score[B, T2])[]"
    )
    assert all(symbol.rigid for symbol in found.symbols())


# comparison


def test_each_field_is_compared_and_named() -> None:
    wanted = Struct(text=Ids(AB)[B, U], score=Values("years")[B])[()]
    assert compare(wanted, wanted).outcome is Outcome.SAME
    assert compare(wanted, Struct(text=Ids(AB)[B, U], score=Values("years")[B])[()]).outcome is Outcome.SAME
    given_type = Struct(text=Ids(BA)[B, U], score=Values("days")[B])[()]
    found = compare(wanted, given_type).reasons
    assert [(r.field, r.code, r.facet) for r in found] == [
        ("text", "vocab", "vocab"),
        ("score", "facet", "unit"),
    ]
    assert str(found[1]) == "Its score does not fit: unit is days, not years"
    assert str(found[0]).startswith("Its text does not fit: the same 2 labels in another order")


def test_fields_inside_fields_are_named_with_their_way() -> None:
    wanted = Struct(best=Struct(x=Acoustic()[B, F(64)])[B])[B.list()]
    assert reasons(wanted, Struct(best=Struct(x=Acoustic()[B, F(80)])[B])[B.list()]) == [
        "Its best.x does not fit: it is 80, not 64"
    ]


def test_fields_that_are_wanted_have_to_be_there() -> None:
    wanted = Struct(text=Ids()[B, U], score=Score()[B], note=Strings()[B].as_optional())[()]
    found = compare(wanted, Struct(txt=Ids()[B, U], score=Score()[B])[()]).reasons
    assert [(r.part, r.code, r.facet) for r in found] == [("fields", "fields", "fields")]
    assert str(found[0]) == "It has no text, only txt, score"
    assert (found[0].wanted, found[0].given) == (("text", "score", "note"), ("txt", "score"))
    assert compare(wanted, Struct(text=Ids()[B, U], score=Score()[B])[()]).outcome is Outcome.SAME
    maybe = Struct(text=Ids()[B, U].as_optional(), score=Score()[B])[()]
    assert reasons(wanted, maybe) == ["Its text does not fit: it may be absent, but is needed"]


def test_more_fields_than_wanted_are_a_subtype() -> None:
    wanted = Struct(text=Ids()[B, U])[()]
    assert compare(wanted, Struct(text=Ids()[B, U], score=Score()[B])[()]).outcome is Outcome.SUBTYPE


def test_a_subclass_is_a_case_of_a_struct_with_its_fields() -> None:
    assert compare(Struct(text=Ids()[B, U])[()], Answer()[()]).outcome is Outcome.SUBTYPE
    assert compare(Answer()[()], LongAnswer()[()]).outcome is Outcome.SUBTYPE
    assert codes(Answer()[()], Struct(**Answer().fields)[()]) == ["general"]
    assert codes(Answer()[()], Ids()[()]) == ["element"]
    assert codes(Struct(tail=Score()[B])[()], Answer()[()]) == ["fields"]
    assert compare(Any_()[()], Answer()[()]).outcome is Outcome.SAME


def test_one_environment_holds_for_all_fields() -> None:
    wanted = Struct(x=Acoustic()[B, T], n=Lengths(T)[B])[()]
    assert compare(wanted, Struct(x=Acoustic()[B1, N], n=Lengths(N)[B1])[()]).outcome is Outcome.BOUND
    assert reasons(wanted, Struct(x=Acoustic()[B1, N], n=Lengths(N // 2)[B1])[()]) == [
        "Its n does not fit: it is 2 times too short"
    ]
    assert codes(wanted, Struct(x=Acoustic()[B1, N], n=Lengths(N)[B2])[()]) == ["batch"]
    env = Environment()
    assert compare(wanted, Struct(x=Acoustic()[B1, N], n=Lengths(N)[B1])[()], env).ok
    assert env.type(Lengths(T)[B]) == Lengths(N)[B1]
    assert not compare(Lengths(T)[B], Lengths(N // 2)[B1], env).ok


def test_sizes_inside_are_solved_before_what_depends_on_them() -> None:
    wanted = Struct(n=Lengths(T // 2)[B], x=Acoustic()[B, T])[()]
    assert compare(wanted, Struct(n=Lengths(N // 2)[B1], x=Acoustic()[B1, N])[()]).ok


def test_what_a_field_does_not_say_is_assumed() -> None:
    wanted = Struct(a=Audio(rate=8000)[B, T(5)], x=Acoustic()[B, N.at(50)])[()]
    given_type = Struct(a=Audio()[B, T(None)], x=Acoustic()[B, N])[()]
    assert compare(wanted, given_type).obligations == (
        Obligation("a.rate", 8000),
        Obligation("a.T", Size.of(5), 1),
        Obligation("x.clock", 50, 1),
    )


def test_clocks_inside_are_compared() -> None:
    wanted = Struct(fast=Acoustic()[B, T], slow=Acoustic()[B, T])[()]
    fits = Struct(fast=Acoustic()[B1, N.at(50)], slow=Acoustic()[B1, N.at(50)])[()]
    assert compare(wanted, fits).ok
    found = compare(wanted, Struct(fast=Acoustic()[B1, N.at(100)], slow=Acoustic()[B1, N.at(50)])[()]).reasons
    assert [(r.field, str(r)) for r in found] == [
        ("slow", "Its slow does not fit: it has 50 frames a second, not 100")
    ]
    other = Struct(slow=Acoustic()[B, (N // 2).at(50)], fast=Acoustic()[B, N.at(50)])[()]
    assert codes(Struct(fast=Acoustic()[B, N], slow=Acoustic()[B, N.at(100)])[()], other) == ["size"]


def test_soft_facets_inside_warn() -> None:
    found = compare(Struct(x=Mel(window="hann")[B])[()], Struct(x=Mel(window="hamming")[B])[()])
    assert found.ok
    assert [str(warning) for warning in found.warnings] == ["Its x does not fit: window is hamming, not hann"]


def test_a_scope_reaches_into_structs() -> None:
    found = rigid_scope({"a": Struct(x=Acoustic()[B, T])[()], "n": Lengths(T)[B]}, "inputs")
    assert found["a"].element.fields["x"].axes[1].size == found["n"].element.of


# lists


def test_a_list_axis_prints_and_compares() -> None:
    assert str(Strings()[B.list()]) == "Strings[list B]"
    assert B.list() != B
    assert hash(B.list()) == hash(B.list())
    assert (B.list() * 2).listed
    assert B.list()(8).listed
    assert B.list()("B2").listed
    assert B.list().substitute({Symbol("B"): Size.of(3)}).listed
    assert V.list()(AB).listed
    assert pickle.loads(pickle.dumps(B.list())) == B.list()


def test_a_list_holds_tensors_and_not_the_reverse() -> None:
    assert Acoustic()[B.list(), T.list(), F].rank == 3
    with pytest.raises(
        ConfigError, match="the axis list T of Acoustic stands behind an axis of a tensor"
    ) as caught:
        Acoustic()[B, T.list(), F]
    assert caught.value.code == "list"


def test_a_list_is_no_tensor() -> None:
    found = compare(Ids()[B, U], Ids()[B.list(), U])
    assert [(r.part, r.code, r.facet, r.axis) for r in found.reasons] == [("axes", "list", "B", 0)]
    assert str(found.reasons[0]) == "Its list B is a list, wanted is an axis of a tensor"
    assert reasons(Strings()[B.list()], Strings()[B]) == ["Its B is an axis of a tensor, wanted is a list"]
    assert compare(Strings()[B.list()], Strings()[B1.list()]).outcome is Outcome.BOUND
    assert codes(Any_()[ANY], Any_()[B.list()]) == ["list"]


def test_the_sizes_of_lists_are_held_against_others() -> None:
    env = Environment()
    assert compare(Strings()[B.list()], Strings()[B1.list()], env).ok
    assert compare(Ids()[B, U], Ids()[B1, U(3)], env).ok
    assert not compare(Ids()[B, U], Ids()[B2, U(3)], env).ok
    assert [r.code for r in compare(Ids()[B, F(3)], Ids()[B.list(), F(4)]).reasons] == ["list", "size"]


def test_vocabularies_along_listed_axes_are_compared_too() -> None:
    assert codes(LogProbs(AB)[V(AB)], Logits(AB)[V(AB).list()]) == ["element", "list"]
