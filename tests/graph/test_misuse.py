"""Calls that are not written as they have to be, each refused with the way out."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from neumo.graph.adapters import Pick
from neumo.graph.collect import collect
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    Acoustic,
    Audio,
    B,
    F,
    GraphError,
    Ids,
    Lengths,
    Loss,
    Mask,
    Mel,
    PortError,
    Struct,
    T,
    U,
    Var,
)

from .snapshots import refused
from .specs import (
    EN,
    BertEncoder,
    ConvEncoder,
    CTCHead,
    CTCLoss,
    MelSpectrogram,
    SpeechData,
    SumLoss,
)
from .specs import WORDS as VOCAB
from .test_fixes_apply import Port


def speech():
    return SpeechData(EN)()


def test_positional_arguments_are_refused_with_the_names_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = speech()
        MelSpectrogram()(batch.audio, batch.audio_len)

    error = refused("misuse_positional", build, monkeypatch)
    assert error.fixes[0].text == "write audio=batch.audio, audio_len=batch.audio_len"


def test_a_whole_record_is_refused_with_the_value_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = speech()
        MelSpectrogram()(audio=batch, audio_len=batch.audio_len)

    error = refused("misuse_record", build, monkeypatch)
    assert [fix.text for fix in error.fixes] == ["pass batch.audio, not batch"]


def test_a_module_that_was_not_called_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = speech()
        MelSpectrogram()(audio=SpeechData(EN), audio_len=batch.audio_len)

    refused("misuse_uncalled", build, monkeypatch)


def test_data_is_refused_where_a_symbolic_value_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = speech()
        MelSpectrogram()(audio=[0.0, 0.1], audio_len=batch.audio_len)

    refused("misuse_list", build, monkeypatch)


def test_a_number_is_refused_and_open_inputs_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = speech()
        MelSpectrogram()(audio=batch.audio, audio_len=7)

    refused("misuse_number", build, monkeypatch)


def test_an_output_given_as_an_input_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = speech()
        MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len, mel=batch.audio)

    refused("misuse_output_as_input", build, monkeypatch)


def test_none_for_a_required_port_is_a_missing_port(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = speech()
        MelSpectrogram()(audio=batch.audio, audio_len=None)

    error = refused("misuse_none", build, monkeypatch)
    assert [fix.text for fix in error.fixes] == ["audio_len=batch.audio_len"]


def test_a_call_without_any_argument_lists_what_fits_each_port(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = speech()
        assert batch
        MelSpectrogram()()

    error = refused("misuse_nothing", build, monkeypatch)
    assert error.data["ports"] == ["audio", "audio_len"]


def test_what_nothing_fits_directly_is_offered_behind_an_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = speech()
        BertEncoder(VOCAB)(ids=batch.text)

    refused("misuse_wrong_first", build, monkeypatch)


def test_a_data_layer_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = speech()
        SpeechData(EN)(audio=batch.audio)

    refused("misuse_data_layer", build, monkeypatch)


def test_an_unknown_output_gets_the_nearest_match(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = speech()
        MelSpectrogram()(audio=batch.audoi, audio_len=batch.audio_len)

    error = refused("misuse_output", build, monkeypatch)
    assert isinstance(error, GraphError)
    assert isinstance(error, AttributeError)


def test_arithmetic_with_symbolic_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        losses = inputs(a=Loss()[()], b=Loss()[()])
        losses.a + losses.b

    refused("misuse_arithmetic", build, monkeypatch)


@pytest.mark.parametrize(
    "use",
    [
        bool, float, int, complex, round, abs, len, list, range, lambda v: v[0], lambda v: -v,
        lambda v: 2 * v, lambda v: v > 0, lambda v: v >= 1, lambda v: 2**v, lambda v: v // 2, lambda v: v % 2,
        lambda v: ~v, lambda v: v & v, lambda v: 3 in v, lambda v: divmod(v, 2), lambda v: v << 1,
        lambda v: 1 / v, lambda v: v @ v, lambda v: v.transpose(1, 2), lambda v: v.shape, lambda v: v.mean(),
        np.asarray, np.exp, lambda v: np.concatenate([v, v]), lambda v: v + np.ones(3),
        lambda v: np.ones(3) * v, torch.relu, lambda v: torch.stack([v, v]),
        lambda v: torch.mul(other=v, input=torch.ones(2)), lambda v: torch.ones(2) + v, torch.nn.Linear(2, 2),
    ],
)  # fmt: skip
def test_a_symbolic_value_has_no_data(use) -> None:
    value = inputs(a=Loss()[()]).a
    with pytest.raises(GraphError, match="symbolic value") as caught:
        use(value)
    assert caught.value.code == "symbolic"


def test_names_of_a_value_are_told_from_those_of_tensors() -> None:
    value = inputs(a=Loss()[()]).a
    with pytest.raises(GraphError, match="did you mean type"):
        value.typ  # noqa: B018
    assert not hasattr(value, "shape")
    assert getattr(value, "device", 3) == 3
    assert copy.copy(value).type == value.type


def test_a_field_of_a_struct_is_taken_by_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    best = Struct(ids=Ids()[B, U], n=Lengths(U)[B])[()]

    def build() -> None:
        inputs(best=best).best.ids  # noqa: B018

    refused("misuse_field", build, monkeypatch)
    with pytest.raises(GraphError, match=r"no\s+field 'idz'") as unknown:
        inputs(best=best).best.idz  # noqa: B018
    assert [fix.text for fix in unknown.value.fixes] == ['Pick("ids")(value=...).value']
    with pytest.raises(PortError) as caught:
        Pick("idz")(value=inputs(best=best).best)
    assert (caught.value.code, caught.value.fixes[0].text) == ("fields", "did you mean 'ids'?")
    assert "n=Lengths(U)[B]" in best.text(facets=frozenset({"vocab"}))


def test_a_module_is_not_made_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        MelSpectrogram(audio=inputs(audio=Audio()[B, T]).audio)  # type: ignore[call-arg]

    refused("misuse_settings", build, monkeypatch)
    for wrong in (lambda v: MelSpectrogram(v), lambda v: MelSpectrogram(audio=inputs(audio=v.type))):
        with pytest.raises(GraphError, match="is made of settings") as caught:
            wrong(inputs(audio=Audio()[B, T]).audio)
        assert caught.value.code == "symbolic"


def test_many_values_that_are_none_are_refused() -> None:
    for wrong in ([], [1], [None]):
        with pytest.raises(PortError) as caught:
            SumLoss()(losses=wrong)
        assert caught.value.code == "argument"


def test_one_wrong_value_among_many_is_named() -> None:
    values = inputs(a=Loss()[()], b=Audio()[B, T])
    with pytest.raises(PortError, match=r"inputs.b cannot feed SumLoss.losses"):
        SumLoss()(losses=[values.a, values.b])


def test_errors_of_many_calls_can_be_gathered() -> None:
    with collect(raises=False) as errors:
        batch = SpeechData(EN, rate=22050)()
        feats = MelSpectrogram(n_mels=80)(audio=batch.audio, audio_len=batch.audio_len)
        enc = ConvEncoder(width=512)(mel=feats.mel, mel_len=feats.mel_len)
        lp = CTCHead(EN)(encoded=enc.encoded)
        CTCLoss(EN)(log_probs=lp.log_probs)
    assert [error.code for error in errors] == ["facet", "facet", "size", "missing"]


def test_what_follows_a_refused_call_is_judged_as_if_it_had_fitted() -> None:
    with collect(raises=False) as errors:
        batch = SpeechData(EN, rate=22050)()
        feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
        ConvEncoder()(mel=feats.mel, mel_len=feats.mel_len)
    assert len(errors) == 1
    assert str(feats.mel.type.axes) == "(B, F=64, T//160 + 1)"


def test_a_data_layer_that_is_called_twice_gives_two_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        data = SpeechData(EN)
        one = data()
        MelSpectrogram()(audio=one.audio, audio_len=data().audio_len)

    refused("misuse_called_twice", build, monkeypatch)


def test_a_value_for_a_port_that_wants_ids_of_lengths_is_refused() -> None:
    batch = speech()
    with pytest.raises(PortError) as caught:
        CTCLoss(EN)(
            log_probs=batch.audio,
            log_probs_len=batch.audio_len,
            targets=batch.text_len,
            targets_len=batch.text,
        )
    assert [error.data["port"] for error in (caught.value, *caught.value.also)] == [
        "log_probs",
        "targets",
        "targets_len",
    ]


def test_open_inputs_need_types() -> None:
    with pytest.raises(GraphError, match="not a neural type"):
        inputs(audio=Audio(rate=16000))
    assert (
        repr(inputs(ids=Ids()[B, T], n=Lengths(T)[B])) == "inputs gives\n  ids: Ids[B, T]\n  n: Lengths(T)[B]"
    )


def test_an_unknown_port_beside_one_that_is_free_is_taken_for_it() -> None:
    batch = speech()
    with pytest.raises(PortError) as caught:
        MelSpectrogram()(wave=batch.audio, audio_len=batch.audio_len)
    assert [fix.text for fix in caught.value.fixes] == ["did you mean audio=batch.audio?"]
    with pytest.raises(PortError, match="has no port 'p' and no port 'q'"):
        MelSpectrogram()(p=batch.audio, q=3)


def test_positional_data_is_shown_as_dots() -> None:
    with pytest.raises(PortError) as caught:
        MelSpectrogram()([0.1], speech().audio_len)
    assert caught.value.fixes[0].text == "write audio=..., audio_len=SpeechData.audio_len"


def test_records_cannot_be_changed_and_look_like_mappings() -> None:
    batch = speech()
    with pytest.raises(AttributeError, match="a record cannot be changed"):
        batch.audio = batch.text
    assert len(batch) == 4
    assert "audio" in batch
    assert "mel" not in batch
    assert "audio" in dir(batch)
    audio, *_ = batch
    assert audio is batch["audio"]
    assert not hasattr(batch, "mel")
    assert not hasattr(batch, "__array__")
    assert repr(CTCLoss(EN).named("ctc")) == "CTCLoss(vocab=Vocab(en[28]#c4af7923))"
    assert repr(batch.audio.step) == "SpeechData() -> audio, audio_len, text, text_len"


def test_notebooks_show_values_and_records_as_text() -> None:
    shown = []

    class Printer:
        text = staticmethod(shown.append)

    batch = speech()
    batch._repr_pretty_(Printer, False)
    batch.audio._repr_pretty_(Printer, False)
    assert shown == [repr(batch), repr(batch.audio)]


def test_a_module_class_is_told_from_data() -> None:
    with pytest.raises(PortError, match="cannot take a module class, SpeechData, that has"):
        MelSpectrogram()(audio=SpeechData)


def test_an_item_that_is_no_value_is_named() -> None:
    losses = inputs(a=Loss()[()], b=Loss()[()])
    with pytest.raises(PortError, match="a list whose item 1 is None"):
        SumLoss()(losses=[losses.a, None])
    with pytest.raises(PortError, match="a list whose item 0 is a record") as caught:
        SumLoss()(losses=[losses])
    assert caught.value.why[0] == "Each item is one value, such as losses.a."
    with pytest.raises(PortError, match="cannot take an empty list"):
        SumLoss()(losses=[])


def test_a_generator_is_told_to_be_a_list() -> None:
    losses = inputs(a=Loss()[()], b=Loss()[()])
    with pytest.raises(PortError, match="cannot take a generator") as caught:
        SumLoss()(losses=(value for value in losses))
    assert caught.value.fixes[0].text == "write a list, such as [one.loss, two.loss]"


def test_a_record_is_told_a_part_that_it_has() -> None:
    losses = inputs(a=Loss()[()], b=Loss()[()])
    with pytest.raises(PortError) as caught:
        SumLoss()(losses=losses)
    assert caught.value.why[0] == "A port takes one value, such as losses.a."


def test_values_that_are_spelled_alike_are_offered_once() -> None:
    data = inputs(x=Loss()[()])
    total = SumLoss()(losses=[SumLoss()(losses=data.x).loss for _ in range(3)])
    with pytest.raises(PortError) as caught:
        SumLoss()()
    offered = {fix.text for fix in caught.value.fixes}
    assert len(caught.value.fixes) == 3
    assert offered == {"losses=total.loss", "losses=SumLoss.loss", "losses=data.x"}
    assert len(total) == 1


def test_a_type_is_no_value() -> None:
    with pytest.raises(PortError, match=r"MelSpectrogram\.audio cannot take a type") as caught:
        MelSpectrogram()(audio=Audio(rate=16000)[B, T], audio_len=speech().audio_len)
    assert caught.value.why == ("A type says what a value means; it is none.",)
    assert [fix.text for fix in caught.value.fixes] == [
        "declare an open input: inputs(audio=Audio(rate=16000)[B, T])"
    ]


def test_facets_that_any_value_may_have_are_not_said_to_be_wanted() -> None:
    port = Port({"mel": Mel(rate=Var("rate"), hop=160, n_mels=Var("n"))[B, F, T]})
    with pytest.raises(PortError) as caught:
        port(mel=speech())
    assert "wanted   Mel(hop=160)[B, F, T]" in str(caught.value)


def test_a_port_that_is_called_otherwise_elsewhere_is_the_one_that_fits() -> None:
    data = inputs(ids=Ids(EN)[B, T], mask=Mask(T, true="keep")[B, T], other=Acoustic()[B, F(8), T])
    port = Port(
        {
            "ids": Ids(EN)[B, T],
            "padding": Mask(T, true="keep")[B, T],
            "segments": Ids().optional()[B, T],
            "more": Ids(EN).optional()[B, T],
        }
    )
    with pytest.raises(PortError, match="has no port 'attn'") as caught:
        port(ids=data.ids, attn=data.mask)
    assert [fix.text for fix in caught.value.fixes] == ["did you mean padding=data.mask?"]
    for wrong in (data.other, 3):
        with pytest.raises(PortError, match="has no port 'attn'") as caught:
            port(ids=data.ids, attn=wrong)
        assert caught.value.fixes == ()


def test_what_nothing_gives_comes_from_outside() -> None:
    batch = speech()
    with pytest.raises(PortError, match="No value that has been made so far fits n") as caught:
        Port({"x": Ids(EN)[B, U], "n": Acoustic()[B, F(8), U]})(x=batch.text)
    assert [fix.text for fix in caught.value.fixes] == [
        "take it from outside, and with it what SpeechData gives: inputs(n=Acoustic()[B, F(8), U], ...)"
    ]
    with pytest.raises(PortError) as caught:
        Port({"n": Acoustic()[B, F(8), U]})()
    assert [fix.text for fix in caught.value.fixes] == [
        "declare it as an open input: inputs(n=Acoustic()[B, F(8), U])"
    ]


def test_an_output_of_a_module_that_was_not_called_is_refused_with_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build() -> None:
        layer = SpeechData(EN)
        MelSpectrogram()(audio=layer.audio, audio_len=layer.audio_len)

    error = refused("misuse_not_called", build, monkeypatch)
    assert error.code == "uncalled"
    assert error.fixes[0].text == "call it, and keep what it gives: batch = layer(); batch.audio"
    with pytest.raises(
        GraphError, match="MelSpectrogram is a module; mel is what a call of it gives"
    ) as caught:
        _ = MelSpectrogram().mel
    assert "batch = MelSpectrogram(...)(audio=..., audio_len=...)" in caught.value.fixes[0].text


def test_what_a_module_has_not_is_a_plain_attribute_error() -> None:
    module = MelSpectrogram()
    with pytest.raises(AttributeError, match="'MelSpectrogram' object has no attribute 'nothing'"):
        _ = module.nothing
    assert not hasattr(module, "mel")
    assert getattr(module, "audio", None) is None  # a port that it takes


def test_a_signature_that_asks_for_what_is_not_there_says_so() -> None:
    class Unfinished(NeuralModule):
        def signature(self) -> Signature:
            return Signature(gives={"x": Mel()[B, F(self.width), T]})

    with pytest.raises(AttributeError, match="no attribute 'x'"):
        _ = Unfinished().x
