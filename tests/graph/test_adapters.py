"""Adapters: each does to the type what it says, and is offered only where its result fits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from neumo.graph import adapters as ad
from neumo.graph.adapters.adapter import FittingAdapter, ShapedAdapter
from neumo.graph.catalogue import Entry
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    MFCC,
    ONE,
    Any_,
    Audio,
    B,
    C,
    ConfigError,
    F,
    Features,
    H,
    Ids,
    Image,
    Lengths,
    Logits,
    LogProbs,
    Loss,
    Mask,
    Mel,
    NeuralType,
    PortError,
    Probs,
    Speaker,
    Spectrogram,
    Struct,
    T,
    Text,
    U,
    V,
    Vocab,
    W,
)

from .more_specs import PIECES
from .specs import EN, EN_SORTED, TAGS, WORDS, CTCLoss, MelSpectrogram, SumLoss

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
        (lambda: ad.Reframe("none", "bos", PADDED), "'bos' is no frame"),
        (lambda: ad.Reframe("none", "..eos", PADDED), "has no eos to add"),
        (lambda: ad.Repower(1, 1, "ln"), "1 -> 1 is no change"),
        (lambda: ad.Spread("std", "std"), "std -> std is no change"),
        (lambda: ad.Upsample(0), "cannot be multiplied by 0"),
        (lambda: ad.LengthsToMask(axis=0), "axis 0 has the rows"),
        (lambda: ad.Unsqueeze(-1), "no axis number -1"),
        (lambda: ad.Squeeze(-1), "no axis number -1"),
        (lambda: ad.Append(0), "axis 0 has the rows"),
        (lambda: ad.Concat(1, 9), "2 to 8 values"),
        (lambda: ad.Concat(-1), "no axis number -1"),
        (lambda: ad.Pick("a.b"), "cannot be the name of a field"),
        (lambda: ad.Default(0.5, "int"), "0.5 is no int"),
        (lambda: ad.Default(2, "bool"), "2 is no bool"),
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


@pytest.mark.parametrize(
    ("adapter", "given"),
    [
        (ad.Rescale("ln", "log10"), Mel(scale="ln", norm="per_feature")[B, F(8), T]),
        (ad.Rescale("ln", "linear"), MFCC(scale="ln")[B, F(8), T]),
        (ad.Repower(1, 2, "ln"), Mel(power=1.0, scale="ln", floor=0.0)[B, F(8), T]),
        (ad.FlipChannels(), Image(channels="rgb", norm="imagenet")[B, C(3), H, W]),
        (ad.ScalePixels(255.0, 1.0), Image(peak=255.0, norm="imagenet")[B, C(3), H, W]),
    ],
    ids=lambda value: str(value),
)
def test_what_is_not_exact_is_refused_where_it_is_written(adapter: ad.Adapter, given: NeuralType) -> None:
    with pytest.raises(PortError, match="is not exact for") as caught:
        adapter(**{adapter.entry: inputs(value=given).value})
    assert caught.value.code == "adapter"


def test_a_constant_has_the_kind_of_what_it_stands_for() -> None:
    given = inputs(segments=Ids().optional()[B, T], ids=Ids()[B, T], mel=Mel()[B, T])
    with pytest.raises(PortError, match=r"Default\(0\) would be float, but Ids are int") as caught:
        ad.Default()(value=given.segments, like=given.mel)
    assert [fix.text for fix in caught.value.fixes] == ["set numbers=int"]
    assert str(ad.Default(0, "int")(value=given.segments, like=given.mel).value.type) == "Ids[B, T]"


def test_anything_goes_through_an_adapter_of_axes_and_comes_out_as_it_was() -> None:
    given = inputs(x=Any_()[B, F, T])
    assert str(ad.Transpose("B F T", "T B F")(value=given.x).value.type) == "Any[T, B, F]"
    assert str(ad.Unsqueeze(1)(value=given.x).value.type) == "Any[B, 1, F, T]"
    with pytest.raises(PortError, match="too general"):
        ad.LogSoftmax()(logits=given.x)


def test_what_may_be_absent_is_refused_by_adapters_that_need_it() -> None:
    given = inputs(x=Logits(AB).optional()[B, T, V(AB)])
    with pytest.raises(PortError, match="may be absent"):
        ad.LogSoftmax()(logits=given.x)


def test_an_adapter_takes_one_value_where_several_are_given() -> None:
    given = inputs(a=Logits(AB)[B, T, V(AB)], b=Logits(AB)[B, T, V(AB)])
    with pytest.raises(PortError, match="cannot take a list"):
        ad.LogSoftmax()(logits=[given.a, given.b])


def test_one_loss_out_of_many_rows_goes_where_many_losses_go() -> None:
    given = inputs(a=Loss()[B], b=Loss()[()])
    one = ad.Reduce("sum")(loss=given.a)
    assert str(SumLoss()(losses=[one.loss, given.b]).loss.type) == "Loss[]"


def test_lists_are_refused_by_adapters_of_tensors() -> None:
    given = inputs(x=Logits(AB)[B.list(), T, V(AB)], n=Lengths(T)[B.list()])
    for adapter, value in ((ad.LogSoftmax(), given.x), (ad.Subsample(2), given.n)):
        with pytest.raises(PortError) as caught:
            adapter(**{adapter.entry: value})
        assert caught.value.code == "list"


def test_what_is_there_in_training_only_stays_so() -> None:
    given = inputs(x=Logits(AB)[B, T, V(AB)].only("train"), y=Logits(AB)[B, T, V(AB)])
    assert ad.LogSoftmax()(logits=given.x).log_probs.type.when == "train"
    assert ad.LogSoftmax()(logits=given.y).log_probs.type.when is None


def test_clocks_go_through_adapters() -> None:
    given = inputs(x=Features()[B, F(4), T.at(50)], y=Features()[B, F(2), T.at(50)])
    assert str(ad.Transpose("B F T", "B T F")(value=given.x).value.type) == "Features[B, T at 50 Hz, F=4]"
    assert str(ad.Concat(1)(first=given.x, second=given.y).value.type) == "Features[B, F=6, T at 50 Hz]"


def test_features_of_several_kinds_become_features() -> None:
    given = inputs(a=Text("bert")[B, T, F(4)], b=Text()[B, T, F(2)], c=Features()[B, T, F(1)])
    assert str(ad.Concat(2)(first=given.a, second=given.b).value.type) == "Text[B, T, F=6]"
    joined = ad.Concat(2, 3)(first=given.a, second=given.b, third=given.c)
    assert str(joined.value.type) == "Features[B, T, F=7]"
    with pytest.raises(PortError, match=r"Concat\.first"):
        ad.Concat(1)(first=given.a, second=given.b)  # one behind the other needs their lengths


def test_sequences_are_joined_with_their_lengths() -> None:
    given = inputs(a=Ids(EN)[B, T], n=Lengths(T)[B], b=Ids(EN)[B, U], other=Ids(TAGS)[B, U])
    joined = ad.Append()(first=given.a, first_len=given.n, second=given.b)
    assert str(joined.value.type.axes[1]) == str(joined.length.type.element.of) == "T + U"
    with pytest.raises(PortError, match=r"Append\.second"):
        ad.Append()(first=given.a, second=given.other)


def test_the_marks_of_rows_are_those_of_the_vocabulary() -> None:
    given = inputs(ids=Ids(PIECES, pad=0, frame="none")[B, U], n=Lengths(U)[B])
    framed = ad.Reframe("none", "bos..eos", PIECES)(ids=given.ids, ids_len=given.n)
    assert str(framed.ids.type.axes[1]) == "U + 2"
    assert framed.ids.type.element.frame == "bos..eos"
    with pytest.raises(PortError, match="Reframe needs ids_len"):
        ad.Reframe("none", "..eos", PIECES)(ids=given.ids)
    with pytest.raises(PortError, match="pad is 0, not -100"):
        ad.Reframe("none", "bos..", PIECES, -100)(ids=given.ids)


def test_an_axis_is_put_where_there_is_a_place_for_it() -> None:
    given = inputs(x=Mel()[B, F, T])
    assert str(ad.Unsqueeze(3)(value=given.x).value.type) == "Mel[B, F, T, 1]"
    with pytest.raises(PortError, match=r"3 axes, not 4"):
        ad.Unsqueeze(4)(value=given.x)
    with pytest.raises(PortError, match=r"3 axes, not 6"):
        ad.Squeeze(5)(value=given.x)


def test_columns_are_put_in_order_along_the_last_axis_only() -> None:
    with pytest.raises(PortError, match=r"Reorder\.scores"):
        ad.Reorder(AB, BA)(scores=inputs(x=LogProbs(AB)[B, V(AB), T]).x)


def test_a_field_that_a_struct_lacks_is_refused() -> None:
    found = inputs(best=Struct(ids=Ids()[B, U])[()], many=Struct(ids=Ids()[U])[B.list()]).best
    with pytest.raises(PortError, match=r"Pick\.value") as caught:
        ad.Pick("score")(value=found)
    assert caught.value.code == "fields"


def test_a_field_is_picked_out_of_a_list_of_structs() -> None:
    found = inputs(many=Struct(ids=Ids()[U], spare=Ids()[U].as_optional())[B.list()]).many
    assert str(ad.Pick("ids")(value=found).value.type) == "Ids[list B, U]"
    assert str(ad.Pick("spare")(value=found).value.type) == "Ids?[list B, U]"


def test_every_adapter_says_what_it_is_in_a_message() -> None:
    shown = {
        "MaskToLengths(true=pad)": ad.MaskToLengths("pad"),
        "LengthsToMask(true=pad, axis=2)": ad.LengthsToMask("pad", 2),
        "FractionToCount(axis=2)": ad.FractionToCount(2),
        "CountToFraction()": ad.CountToFraction(),
        "FullLengths()": ad.FullLengths(),
        "Upsample(by=256)": ad.Upsample(256),
        "Offset(by=-2)": ad.Offset(-2),
        "Repower(1 -> 2)": ad.Repower(1, 2, "ln"),
        "Reduce(mean)": ad.Reduce(),
        "Concat(axis=1, parts=3)": ad.Concat(1, 3),
        "Append(axis=1)": ad.Append(),
        "Default(1, numbers=bool)": ad.Default(1, "bool"),
        "FlipChannels(axis=3)": ad.FlipChannels(3),
        "Fallback()": ad.Fallback(),
    }
    assert {text: adapter.notation() for text, adapter in shown.items()} == {text: text for text in shown}


def test_a_class_that_is_not_finished_says_so() -> None:
    class Half(ad.Adapter):
        pass

    class HalfShaped(ShapedAdapter):
        pass

    class HalfFitting(FittingAdapter):
        pass

    with pytest.raises(NotImplementedError, match="Half proposes nothing"):
        Half.propose(Loss()[()], Loss()[B])
    with pytest.raises(NotImplementedError):
        HalfShaped().accepts(Loss()[()])
    with pytest.raises(NotImplementedError):
        HalfShaped().convert(Loss())
    with pytest.raises(NotImplementedError):
        HalfFitting().signature()


def test_nothing_says_that_a_sequence_has_to_go_on() -> None:
    assert list(ad.Append.propose(Ids()[B, T], Ids()[B, U])) == []
    assert list(ad.Concat.propose(Features()[B, F, T], Features()[B, F(3), T])) == []


@pytest.mark.parametrize("kind", ad.ADAPTERS, ids=lambda kind: kind.__name__)
def test_every_adapter_is_saved_and_read_back(kind: type[ad.Adapter], tmp_path) -> None:
    adapter = Entry(kind).module
    assert adapter is not None
    given = inputs(**adapter.signature().takes)
    graph = Graph("saved", outputs=adapter(**given._asdict()))
    graph.save(tmp_path / "graph.yaml")
    again = Graph.load(tmp_path / "graph.yaml")
    assert again == graph
    assert [step.module for step in again.steps if isinstance(step.module, kind)] == [adapter]


def test_a_softmax_over_another_axis_is_not_one_over_the_labels() -> None:
    with pytest.raises(PortError, match="over is T, not V"):
        ad.LogSoftmax()(logits=inputs(x=Logits(AB, over="T")[B, T, V(AB)]).x)


@pytest.mark.parametrize(
    ("ids", "needed"),
    [
        (Ids(PADDED, pad=0), False),
        (Ids(TAGS, pad=0), True),
        (Ids(TAGS, pad=-100), False),
        (Ids(TAGS, pad=99), False),
        (Ids(pad=0), True),
        (Ids(pad=-100), False),
        (Ids(Vocab(["</s>", "a"], pad=0, eos=0), pad=0), True),
    ],
    ids=lambda value: str(value),
)
def test_lengths_are_needed_where_the_pad_may_be_a_label(ids: Ids, needed: bool) -> None:
    ports = ad.Repad(ids.pad, 7).signature_for({"ids": ids[B, U]})
    assert ports.takes["ids_len"].optional is not needed


def test_two_voices_side_by_side_are_no_voice() -> None:
    given = inputs(a=Speaker("xvector")[B, F(4)], b=Speaker("xvector")[B, F(4)])
    assert str(ad.Concat(1)(first=given.a, second=given.b).value.type) == "Features[B, F=8]"


@pytest.mark.parametrize(
    ("source", "target", "before", "after"),
    [
        ("bos..", "..eos", False, True),  # `<s> a b` becomes `a b </s>`: the next id at each place
        ("bos..", "..eos", True, None),
        ("..eos", "bos..", True, False),
        ("..eos", "bos..", None, None),
        ("none", "bos..eos", False, False),
        ("bos..eos", "bos..", True, True),
    ],
)
def test_marks_that_change_sides_shift_the_ids(
    source: str, target: str, before: bool | None, after: bool | None
) -> None:
    given = inputs(ids=Ids(PADDED_WITH_ENDS, frame=source, shifted=before)[B, T], n=Lengths(T)[B])
    found = ad.Reframe(source, target, PADDED_WITH_ENDS)(ids=given.ids, ids_len=given.n).ids.type.element
    assert isinstance(found, Ids)
    assert found.shifted is after


PADDED_WITH_ENDS = Vocab(["<pad>", "<s>", "</s>", "cat"], name="ends", pad=0, bos=1, eos=2, unit="word")


def test_vocabularies_of_one_name_are_told_apart_by_their_digests() -> None:
    one, two = Vocab("abc", name="abc"), Vocab("cba", name="abc")
    assert ad.RemapIds(one, two).notation() == f"RemapIds(abc#{one.digest} -> abc#{two.digest})"
    assert ad.Reorder(one, two).notation() == f"Reorder(abc#{one.digest} -> abc#{two.digest})"
