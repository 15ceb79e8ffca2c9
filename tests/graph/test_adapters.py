"""Adapters: each does to the type what it says, and is offered only where its result fits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from neumo.graph import adapters as ad
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    ONE,
    Audio,
    B,
    C,
    ConfigError,
    F,
    Ids,
    Lengths,
    Logits,
    LogProbs,
    Mask,
    Mel,
    NeuralType,
    PortError,
    Probs,
    Spectrogram,
    T,
    Text,
    U,
    V,
    Vocab,
)

from .specs import EN, EN_SORTED, TAGS, WORDS, CTCLoss, MelSpectrogram

LogSoftmax = ad.LogSoftmax
AB, BA = Vocab("abc", name="abc"), Vocab("cba", name="cba")
PADDED = Vocab(["<pad>", "a"], pad=0, name="padded")

CONVERSIONS = [
    (
        ad.Resample(22050, 16000),
        Audio(rate=22050, peak=1.0)[B, T],
        "Audio(rate=16000, peak=1.0)[B, ceil(320*T/441)]",
    ),
    (ad.Resample(8000, 16000), Audio(rate=8000)[B, T], "Audio(rate=16000)[B, 2*T]"),
    (ad.Repeak(32768.0, 1.0), Audio(rate=8000, peak=32768.0)[B, C, T], "Audio(rate=8000, peak=1.0)[B, C, T]"),
    (ad.Mono(), Audio(rate=8000, channels=2)[B, C(2), T], "Audio(rate=8000, channels=1)[B, T]"),
    (
        ad.Rescale("ln", "log10"),
        Mel(scale="ln", n_mels=80)[B, F(80), T],
        "Mel(scale=log10, n_mels=80)[B, F=80, T]",
    ),
    (
        ad.Rescale("db", "ln", 2.0),
        Spectrogram(scale="db", power=2.0)[B, T, F],
        "Spectrogram(power=2.0, scale=ln)[B, T, F]",
    ),
    (ad.LogSoftmax(), Logits(AB)[B, T, V(AB)], f"LogProbs({AB})[B, T, V={AB}]"),
    (ad.Softmax(), Logits(AB)[B, V(AB)], f"Probs({AB})[B, V={AB}]"),
    (ad.Exp(), LogProbs(AB)[B, T, V(AB)], f"Probs({AB})[B, T, V={AB}]"),
    (ad.Log(), Probs(AB)[B, T, V(AB)], f"LogProbs({AB})[B, T, V={AB}]"),
    (ad.Reorder(AB, BA), LogProbs(AB)[B, T, V(AB)], f"LogProbs({BA})[B, T, V={BA}]"),
    (ad.RemapIds(AB, BA), Ids(AB, pad=-100)[B, U], f"Ids({BA}, pad=-100)[B, U]"),
    (ad.RemapIds(AB, BA), Ids(AB, pad=0)[B, U], f"Ids({BA}, pad=2)[B, U]"),
    (ad.Repad(0, -100), Ids(PADDED, pad=0)[B, U], f"Ids({PADDED}, pad=-100)[B, U]"),
    (ad.Invert(), Mask(T, true="pad")[B, T], "Mask(T, true=keep)[B, T]"),
    (ad.Invert(), Mask(T, true="keep")[B, ONE, T], "Mask(T, true=pad)[B, 1, T]"),
    (ad.MaskToLengths(), Mask(T, true="keep")[B, T], "Lengths(T)[B]"),
    (ad.Subsample(2), Lengths(T // 160 + 1)[B], "Lengths(T//320 + 1)[B]"),
    (ad.Subsample(2, "floor"), Lengths(T)[B], "Lengths(T//2)[B]"),
    (ad.Transpose("B F T", "T B F"), Mel(n_mels=80)[B, F(80), T], "Mel(n_mels=80)[T, B, F=80]"),
    (ad.Transpose("B T T2", "B T2 T"), Text()[B, T, U], "Text[B, U, T]"),
    (ad.Unsqueeze(1), Mel()[B, F, T], "Mel[B, 1, F, T]"),
    (ad.Squeeze(1), Mel()[B, ONE, F, T], "Mel[B, F, T]"),
    (ad.Squeeze(1), Mel()[B, C(1), F, T], "Mel[B, F, T]"),
]


@pytest.mark.parametrize(("adapter", "given", "after"), CONVERSIONS, ids=lambda value: str(value))
def test_an_adapter_does_to_the_type_what_it_says(adapter: ad.Adapter, given: NeuralType, after: str) -> None:
    value = inputs(value=given).value
    result = adapter(**{adapter.entry: value})
    assert str(result[adapter.exit].type) == after


def test_lengths_go_through_resampling_with_the_audio() -> None:
    speech = inputs(audio=Audio(rate=22050, peak=1.0)[B, T], audio_len=Lengths(T)[B])
    slow = ad.Resample(22050, 16000)(audio=speech.audio, audio_len=speech.audio_len)
    MelSpectrogram()(audio=slow.audio, audio_len=slow.audio_len)


def test_a_mask_is_made_out_of_lengths_and_a_value_of_that_size() -> None:
    given = inputs(n=Lengths(T)[B], x=Mel()[B, T, F(80)])
    assert str(ad.LengthsToMask()(lengths=given.n, like=given.x).mask.type) == "Mask(T, true=keep)[B, T]"


def test_a_default_needs_a_value_of_the_same_axes() -> None:
    given = inputs(segments=Ids(pad=0).optional()[B, T], ids=Ids(WORDS)[B, T])
    found = ad.Default()(value=given.segments, like=given.ids)
    assert str(found.value.type) == "Ids(pad=0)[B, T]"


def test_changing_a_pad_that_is_a_label_needs_lengths() -> None:
    given = inputs(labels=Ids(TAGS, pad=0)[B, U], n=Lengths(U)[B])
    with pytest.raises(PortError, match="Repad needs ids_len"):
        ad.Repad(0, -100)(ids=given.labels)
    found = ad.Repad(0, -100)(ids=given.labels, ids_len=given.n)
    assert found.ids.type.element.pad == -100


def test_a_wrong_source_is_refused() -> None:
    speech = inputs(audio=Audio(rate=44100)[B, T])
    with pytest.raises(PortError, match="rate is 44100, not 22050"):
        ad.Resample(22050, 16000)(audio=speech.audio)
    with pytest.raises(PortError, match=r"Softmax\.logits"):
        ad.Softmax()(logits=inputs(x=LogProbs(AB)[B, T, V(AB)]).x)
    with pytest.raises(PortError, match="scale is log10, not ln"):
        ad.Rescale("ln", "db", 2.0)(mel=inputs(mel=Mel(scale="log10", power=2.0)[B, F, T]).mel)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: ad.Rescale("ln", "bel"), "'bel' is not a scale"),
        (lambda: ad.Rescale("ln", "ln"), "no way to take"),
        (lambda: ad.Rescale("ln", "db"), "decibels need the power"),
        (lambda: ad.Transpose("B F T", "B F"), "not the same axes"),
        (lambda: ad.Transpose("B B", "B B"), "not the same axes"),
        (lambda: ad.RemapIds(AB, Vocab("ab")).table, "no label 'c'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        make()


def test_multipliers_convert_between_scales() -> None:
    power = 7.0
    forms = {"ln": math.log(power), "log10": math.log10(power), "db": 10 * math.log10(power)}
    for source, before in forms.items():
        for target, after in forms.items():
            if source != target:
                assert before * ad.Rescale(source, target, 2.0).multiplier == pytest.approx(after)
        assert math.exp(before * ad.Rescale(source, "linear", 2.0).multiplier) == pytest.approx(power)
    magnitude_db = 20 * math.log10(power)
    assert magnitude_db * ad.Rescale("db", "ln", 1.0).multiplier == pytest.approx(math.log(power))


def test_tables_and_orders_are_those_of_the_vocabularies_and_axes() -> None:
    assert ad.RemapIds(EN_SORTED, EN).table[1] == EN.index("'")
    assert ad.Transpose("B F T", "T B F").order == (2, 0, 1)


@dataclass(frozen=True)
class Sink(NeuralModule):
    """Takes whatever the test wants."""

    def signature(self) -> Signature:
        raise NotImplementedError

    @staticmethod
    def of(wanted: NeuralType) -> NeuralModule:
        @dataclass(frozen=True)
        class Port(NeuralModule):
            def signature(self) -> Signature:
                return Signature(takes={"x": wanted})

        return Port()


def offered(wanted: NeuralType, given: NeuralType, **more: NeuralType) -> list[str]:
    batch = inputs(given=given, **more)
    with pytest.raises(PortError) as caught:
        Sink.of(wanted)(x=batch.given)
    return [fix.text for fix in caught.value.fixes]


def test_adapters_are_offered_where_they_fit() -> None:
    assert offered(Audio(peak=1.0)[B, T], Audio(peak=32768.0)[B, T]) == [
        "insert Repeak(32768 -> 1) before it"
    ]
    assert offered(Audio(channels=1)[B, T], Audio(channels=2)[B, C(2), T]) == ["insert Mono() before it"]
    assert offered(Probs(AB)[B, T, V(AB)], Logits(AB)[B, T, V(AB)]) == ["insert Softmax(over=V) before it"]
    assert offered(Probs(AB)[B, T, V(AB)], LogProbs(AB)[B, T, V(AB)]) == ["insert Exp() before it"]
    assert offered(LogProbs(AB)[B, T, V(AB)], Probs(AB)[B, T, V(AB)]) == ["insert Log() before it"]
    assert offered(Mel()[B, ONE, F, T], Mel()[B, F(80), T]) == ["insert Unsqueeze(at=1) before it"]
    assert offered(Mel()[B, F, T], Mel()[B, ONE, F(80), T]) == ["insert Squeeze(at=1) before it"]
    assert offered(Mel(scale="db")[B, F, T], Mel(scale="ln", power=2.0)[B, F(80), T]) == [
        "insert Rescale(ln -> db) before it"
    ]
    assert offered(Lengths(T)[B], Mask(T, true="keep")[B, T]) == ["insert MaskToLengths() before it"]


def test_adapters_are_not_offered_where_they_would_not_be_exact() -> None:
    assert offered(Mel(scale="ln")[B, F, T], Mel(scale="linear")[B, F(80), T]) == []
    assert offered(Mel(scale="ln")[B, F, T], Mel(scale="log10", norm="per_feature")[B, F(80), T]) == []
    assert offered(Mel(scale="db")[B, F, T], Mel(scale="ln")[B, F(80), T]) == []
    assert offered(Ids(AB)[B, U], Ids(Vocab("abd"))[B, U]) == []
    assert offered(Logits(AB)[B, T, V(AB)], LogProbs(AB)[B, T, V(AB)]) == []


def test_two_adapters_are_offered_where_one_is_not_enough() -> None:
    assert offered(Mel(scale="log10")[B, T, F(80)], Mel(scale="ln")[B, F(80), T])[0].startswith(
        "insert Rescale(ln -> log10), then Transpose(B F T -> B T F)"
    )
    assert offered(Audio(rate=16000, peak=1.0)[B, T], Audio(rate=8000, peak=32768.0)[B, T])[0].startswith(
        "insert Resample(8000 -> 16000), then Repeak(32768 -> 1)"
    )
    assert offered(LogProbs(BA)[B, T, V(BA)], Logits(AB)[B, T, V(AB)])[0].startswith(
        "insert LogSoftmax(over=V), then Reorder(abc -> cba)"
    )


def test_what_an_adapter_needs_beside_the_value_is_told() -> None:
    assert offered(Mask(T, true="keep")[B, T], Lengths(T)[B], frames=Mel()[B, T, F(80)]) == [
        "insert LengthsToMask(true=keep) before it, with like=batch.frames"
    ]
    assert offered(Mask(T, true="keep")[B, T], Lengths(T)[B]) == []
    fixes = offered(Ids()[B, T], Ids().optional()[B, T], ids=Ids(WORDS)[B, T])
    assert "insert Default(0) before it, with like=batch.ids" in fixes


def test_every_offered_adapter_really_composes() -> None:
    speech = inputs(
        audio=Audio(rate=22050, peak=1.0)[B, T], audio_len=Lengths(T)[B], text=Ids(EN_SORTED)[B, U]
    )
    with pytest.raises(
        PortError, match=r"Resample\(22050 -> 16000\) before it; audio_len goes through it too"
    ):
        MelSpectrogram()(audio=speech.audio, audio_len=speech.audio_len)
    with pytest.raises(PortError, match=r"RemapIds\(en-sorted -> en\)"):
        CTCLoss(EN)(targets=speech.text)
    ids = ad.RemapIds(EN_SORTED, EN)(ids=speech.text)
    with pytest.raises(PortError, match="CTCLoss needs log_probs, log_probs_len and targets_len"):
        CTCLoss(EN)(targets=ids.ids)


def test_what_an_adapter_was_not_made_for_is_refused() -> None:
    with pytest.raises(PortError, match=r"Reorder\.scores"):
        ad.Reorder(AB, BA)(scores=inputs(x=LogProbs(BA)[B, T, V(BA)]).x)
    with pytest.raises(PortError, match=r"Rescale\.mel"):
        ad.Rescale("ln", "log10")(mel=inputs(mel=Mel()[B, T]).mel)


def test_adapters_say_what_they_are() -> None:
    assert [adapter.notation() for adapter, _, _ in CONVERSIONS[:6]] == [
        "Resample(22050 -> 16000)",
        "Resample(8000 -> 16000)",
        "Repeak(32768 -> 1)",
        "Mono()",
        "Rescale(ln -> log10)",
        "Rescale(db -> ln)",
    ]
    assert {adapter.role for adapter in ad.ADAPTERS} == {"adapter"}


def test_a_softmax_is_only_offered_over_the_last_axis() -> None:
    vocab = Vocab(("a", "b"), name="ab")
    last, middle = Logits(vocab)[B, T, V(vocab)], Logits(vocab)[B, V(vocab), T]
    assert LogSoftmax().accepts(last)
    assert not LogSoftmax().accepts(middle)
