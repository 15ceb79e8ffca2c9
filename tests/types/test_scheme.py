"""Let-polymorphic signatures: flexible in inputs, rigid where only outputs have them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.types.strategies import types

from neumo.types import (
    Acoustic,
    Audio,
    B,
    Environment,
    F,
    Ids,
    Lengths,
    Logits,
    LogProbs,
    Mel,
    Scheme,
    Symbol,
    T,
    U,
    V,
    Var,
    Vocab,
    compare,
    rigid_scope,
    solve_order,
)

DATA = {"audio": Audio(rate=16000)[B, T], "audio_len": Lengths(T)[B], "text": Ids()[B, U]}


def call(scheme, owner="Module", **given_types):
    env = Environment()
    instance = scheme.instantiate(owner)
    for name, t in given_types.items():
        result = compare(instance.takes[name], t, env, origin=name)
        assert result.ok, result.reasons
    return instance.results(env)


def test_the_outputs_follow_the_inputs():
    data = rigid_scope(DATA, "SpeechData")
    mel = Scheme(
        {"audio": Audio()[B, T], "audio_len": Lengths(T)[B]},
        {"mel": Mel()[B, F(64), T // 160 + 1], "mel_len": Lengths(T // 160 + 1)[B]},
    )
    encoder = Scheme(
        {"mel": Mel()[B, F, T], "mel_len": Lengths(T)[B]}, {"encoded": Acoustic()[B, F, T.ceildiv(2)]}
    )
    frames = call(mel, audio=data["audio"], audio_len=data["audio_len"])
    assert str(frames["mel"]) == "Mel[B, F=64, T//160 + 1 at 100 Hz]"
    encoded = call(encoder, mel=frames["mel"], mel_len=frames["mel_len"])["encoded"]
    assert str(encoded) == "Acoustic[B, F=64, T//320 + 1 at 50 Hz]"
    assert encoded.axes[0] == data["audio"].axes[0]


def test_symbols_that_only_outputs_have_are_rigid_and_fresh():
    perturb = Scheme(
        {"audio": Audio()[B, T], "audio_len": Lengths(T)[B]},
        {"audio": Audio()[B, T("T2")], "audio_len": Lengths(T("T2"))[B]},
    )
    data = rigid_scope(DATA, "SpeechData")
    one, two = (call(perturb, "SpeedPerturb", audio=data["audio"]) for _ in range(2))
    assert compare(one["audio"], one["audio"]).ok
    stale = compare(Lengths(one["audio"].axes[1])[B], data["audio_len"])
    assert [r.code for r in stale.reasons] == ["lengths"]
    assert stale.reasons[0].sentence == "T comes from SpeechData, T2 from SpeedPerturb"
    assert not compare(one["audio"], two["audio"]).ok
    assert one["audio"].axes[1].size == one["audio_len"].element.of


def test_two_data_layers_never_meet_by_accident():
    one, two = rigid_scope(DATA, "SpeechData"), rigid_scope(DATA, "SpeechData_2")
    loss = Scheme({"audio": Audio()[B, T], "text": Ids()[B, U]}, {})
    env = Environment()
    takes = loss.instantiate("Loss").takes
    assert compare(takes["audio"], one["audio"], env).ok
    (reason,) = compare(takes["text"], two["text"], env).reasons
    assert reason.code == "batch"
    assert reason.sentence.startswith("It belongs to another data layer")


def test_facet_variables_follow_too():
    augment = Scheme({"audio": Audio(rate=Var("rate"))[B, T]}, {"audio": Audio(rate=Var("rate"))[B, T]})
    assert call(augment, audio=Audio(rate=8000)[B(2), T(5)])["audio"] == Audio(rate=8000)[B(2), T(5)]
    assert call(augment, audio=Audio()[B(2), T(5)])["audio"] == Audio()[B(2), T(5)]
    unknown = Scheme({}, {"audio": Audio(rate=Var("rate"))[B, T]}).instantiate("D").results(Environment())
    (var,) = unknown["audio"].variables()
    assert var.rigid
    assert str(unknown["audio"]) == "Audio(rate=$rate)[B, T]"


def test_a_vocabulary_passes_through_its_axis():
    softmax = Scheme(
        {"logits": Logits(Var("vocab"))[B, T, V]}, {"log_probs": LogProbs(Var("vocab"))[B, T, V]}
    )
    vocab = Vocab("ab")
    given_type = Logits(vocab)[B(2), T(5), V(vocab)]
    assert call(softmax, logits=given_type)["log_probs"] == LogProbs(vocab)[B(2), T(5), V(vocab)]


def test_ports_left_out_leave_rigid_symbols_that_the_outputs_share():
    scheme = Scheme(
        {"a": Audio()[B, T], "memory": Acoustic().optional()[B, U]},
        {"x": Acoustic()[B, U], "x_len": Lengths(U)[B], "y": Acoustic(space=Var("s"))[B]},
    )
    env = Environment()
    instance = scheme.instantiate("Cross")
    assert instance.gives["x"] == Acoustic()[B, U]
    assert compare(instance.takes["a"], Audio()[B(2), T(5)], env).ok
    results = instance.results(env)
    assert results["x"].axes[1].size == results["x_len"].element.of
    symbol = results["x"].axes[1].symbol
    assert symbol is not None
    assert symbol.rigid
    assert env.size(U.size) == symbol.size


def test_ports_with_bare_symbols_come_first():
    assert solve_order(Mel()[B, F(64), T]) == 0
    assert solve_order(Mel()[B, F(64), T // 2]) == 1
    assert solve_order(Lengths(T // 2)[B]) == 1


@given(st.dictionaries(st.sampled_from("abc"), types()), st.dictionaries(st.sampled_from("xyz"), types()))
def test_nothing_flexible_ever_leaves_a_call(takes, gives):
    results = Scheme(takes, gives).instantiate("Me").results(Environment())
    for t in results.values():
        assert all(symbol.rigid for symbol in t.symbols())
        assert all(var.rigid for var in t.variables())


@given(st.dictionaries(st.sampled_from("xyz"), types(), min_size=1))
def test_a_scope_of_rigid_symbols_prints_the_same(gives):
    for name, t in rigid_scope(gives, "inputs").items():
        if not any(symbol.owner for symbol in gives[name].symbols()):
            assert sorted(str(t)) == sorted(str(gives[name]))


def test_rigid_symbols_of_an_input_stay():
    fixed = Symbol("N", 9, rigid=True)
    scheme = Scheme({"a": Audio()[B, T(fixed)]}, {"b": Audio()[B, T(fixed)]})
    assert call(scheme, a=Audio()[B(1), T(fixed)])["b"] == Audio()[B(1), T(fixed)]
