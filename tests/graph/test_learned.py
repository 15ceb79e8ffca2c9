"""What modules learn to expect goes where their weights go: facets of the training hold afterwards."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.learned import (
    check_learned,
    learn,
    learned_facets,
    learned_from,
    learned_state,
    restore_learned,
    seen_facets,
    set_learned,
)
from neumo.graph.module import NeuralModule, signature_of
from neumo.graph.relax import relax
from neumo.graph.signature import Signature
from neumo.graph.value import Record
from neumo.types import (
    Acoustic,
    AtLeast,
    Audio,
    B,
    CheckpointError,
    F,
    Features,
    Ids,
    Lengths,
    Mel,
    PortError,
    Spectrogram,
    T,
    Text,
    U,
    Var,
)

from .specs import DE, EN, MelSpectrogram, SpeechData

LOG10 = Mel(rate=22050, hop=256, scale="log10", n_mels=80, window="hann")


@dataclass(frozen=True)
class Vocoder(NeuralModule):
    """Trains on any mel spectrogram."""

    trainable: ClassVar[bool] = True

    n_mels: int = 80
    open_rate: bool = True

    def signature(self) -> Signature:
        rate = Var("rate") if self.open_rate else 22050
        mel = Mel(rate=rate, n_mels=self.n_mels)[B, F(self.n_mels), T]
        return Signature(
            takes={"mel": mel, "mel_len": Lengths(T).optional()[B]},
            gives={"audio": Audio(rate=rate)[B, T * 256]},
        )


@dataclass(frozen=True)
class Reader(NeuralModule):
    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(takes={"ids": Ids()[B, U]}, gives={"x": Text()[B, U, F(8)]})


@dataclass(frozen=True)
class AnyNet(NeuralModule):
    """Its ports depend on what comes in."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(takes={"x": Spectrogram()[B, F, T]}, gives={"x": Features()[B, F, T]})

    def signature_for(self, given: Any) -> Signature:
        x = Spectrogram()[B, F, T]
        return Signature(takes={"x": x}, gives={"x": Acoustic()[B, F, T]})


def vocode(vocoder: Vocoder, mel: Mel = LOG10) -> Record:
    return vocoder(mel=inputs(mel=mel[B, F(mel.n_mels or 80), T]).mel)


def trained(mel: Mel = LOG10) -> Vocoder:
    vocoder = Vocoder()
    learn(Graph(outputs=vocode(vocoder, mel)).steps)
    return vocoder


def test_a_fresh_module_trains_on_anything() -> None:
    vocoder = Vocoder()
    assert learned_facets(vocoder) == {}
    assert vocode(vocoder)
    assert vocode(vocoder, Mel(scale="ln", n_mels=80))


def test_a_trained_module_refuses_what_it_did_not_learn() -> None:
    vocoder = trained()
    assert learned_facets(vocoder) == {"mel": LOG10}
    assert vocode(vocoder)
    with pytest.raises(PortError) as caught:
        vocode(vocoder, Mel(rate=22050, hop=256, scale="ln", n_mels=80))
    wanted = next(row for row in caught.value.details if row.label == "wanted")  # type: ignore[union-attr]
    assert wanted.note == "learned in training"  # type: ignore[union-attr]
    assert "scale is ln, not log10" in caught.value.what


def test_the_message_names_the_file_that_says_so() -> None:
    vocoder = Vocoder()
    set_learned(vocoder, {"mel": LOG10}, source="model.neumo")
    with pytest.raises(PortError) as caught:
        vocode(vocoder, Mel(scale="ln", n_mels=80))
    text = " ".join(str(caught.value).split())
    assert "wanted Mel(scale=log10, ...)[B, F=80, T]" in text
    assert "learned in training (model.neumo)" in text


def test_what_a_field_says_is_not_told_as_learned() -> None:
    vocoder = trained()
    with pytest.raises(PortError) as caught:
        vocode(vocoder, Mel(scale="log10", n_mels=64))
    assert "because Vocoder has n_mels=80" in " ".join(str(caught.value).split())
    assert learned_from(vocoder, "mel", "n_mels") is None
    assert learned_from(vocoder, "mel", "scale") == ""
    assert learned_from(vocoder, "mel", "floor") is None
    assert learned_from(Vocoder(), "mel", "scale") is None


def test_a_variable_that_was_learned_is_known_in_the_outputs() -> None:
    assert vocode(Vocoder(), Mel(n_mels=80)).audio.type.element == Audio()
    given = inputs(mel=Mel(n_mels=80)[B, F(80), T])
    record = trained()(mel=given.mel)
    assert record.audio.type.element == Audio(rate=22050)
    assert [str(each) for _, each in record.audio.step.assumptions] == [
        "rate = 22050", "hop = 256", "window = hann", "scale = log10",
    ]  # fmt: skip


def test_facets_that_only_warn_for_fresh_weights_have_to_agree_with_trained_ones() -> None:
    other = Mel(rate=22050, hop=256, scale="log10", n_mels=80, window="hamming")
    wants = Mel(window="hann")[B, F, T]

    @dataclass(frozen=True)
    class Windowed(NeuralModule):
        trainable: ClassVar[bool] = True

        def signature(self) -> Signature:
            return Signature(takes={"mel": wants}, gives={"mel": wants})

    module = Windowed()
    warned = module(mel=inputs(mel=other[B, F(80), T]).mel)
    assert [str(reason) for _, reason in warned.mel.step.warnings] == ["window is hamming, not hann"]
    set_learned(module, {})
    with pytest.raises(PortError, match="window is hamming, not hann"):
        module(mel=inputs(mel=other[B, F(80), T]).mel)
    with pytest.raises(PortError, match="window is hamming, not hann"):
        vocode(trained(), other)
    with relax("window", reason="it was heard to make no difference"):
        assert len(vocode(trained(), other).audio.step.warnings) == 1


def test_learning_keeps_copies_and_pickles_and_can_be_forgotten() -> None:
    vocoder = trained()
    for other in (copy.copy(vocoder), copy.deepcopy(vocoder), pickle.loads(pickle.dumps(vocoder))):
        assert learned_facets(other) == {"mel": LOG10}
        with pytest.raises(PortError):
            vocode(other, Mel(scale="ln", n_mels=80))
    assert vocoder == Vocoder()
    set_learned(vocoder, None)
    assert vocode(vocoder, Mel(scale="ln", n_mels=80))
    set_learned(vocoder, None)
    assert learned_facets(vocoder) == {}


def test_a_facet_that_differs_between_two_calls_is_left_open() -> None:
    vocoder = Vocoder(open_rate=False)
    two = inputs(a=LOG10[B, F(80), T], b=Mel(rate=22050, hop=200, n_mels=80)[B, F(80), T])
    with relax("clock", reason="one of two hops"):
        steps = [vocoder(mel=two.a).audio.step, vocoder(mel=two.b).audio.step]
    assert seen_facets(steps)[id(vocoder)] == {"mel": Mel(rate=22050, n_mels=80)}
    general = AnyNet()
    values = inputs(
        a=Mel(rate=1, n_mels=3)[B, F, T],
        b=Spectrogram(rate=1, hop=2)[B, F, T],
        c=Spectrogram(rate=1)[B, F, T],
    )
    calls = [general(x=value).x.step for value in values]
    assert seen_facets(calls)[id(general)] == {"x": Spectrogram(rate=1)}
    assert seen_facets(calls[::-1])[id(general)] == {"x": Spectrogram(rate=1)}
    wide, narrow = inputs(a=Features("bert")[B, F, T]), inputs(a=LOG10[B, F, T])

    @dataclass(frozen=True)
    class Sink(NeuralModule):
        trainable: ClassVar[bool] = True

        def signature(self) -> Signature:
            from neumo.types import Any_

            return Signature(takes={"x": Any_()[B, F, T]})

    sink = Sink()
    step = vocode(Vocoder()).audio.step
    from neumo.graph.value import Step

    both = [Step(sink, {"x": wide.a}), Step(sink, {"x": narrow.a})]
    assert seen_facets([*both, step])[id(sink)] == {}


def test_frozen_modules_and_modules_without_weights_learn_nothing() -> None:
    batch = SpeechData(EN)()
    feats = MelSpectrogram(n_mels=80, hop=256)(audio=batch.audio, audio_len=batch.audio_len)
    vocoder = Vocoder(open_rate=False)
    record = Vocoder()(mel=feats.mel)
    steps = Graph(outputs=record).steps
    assert list(seen_facets(steps)) == [id(record.audio.step.module)]
    assert seen_facets(steps, [record.audio.step.module]) == {}
    set_learned(vocoder, {"mel": LOG10})
    again = vocode(vocoder).audio.step
    assert seen_facets([again], [vocoder]) == {id(vocoder): {"mel": LOG10}}


def test_what_was_learned_before_stays_when_training_goes_on() -> None:
    vocoder = Vocoder()
    set_learned(vocoder, {"mel": Mel(scale="log10")}, source="old.neumo")
    learn([vocode(vocoder).audio.step])
    assert learned_facets(vocoder) == {"mel": Mel(scale="log10")}
    with pytest.raises(PortError, match="scale") as caught:
        vocode(vocoder, Mel(scale="ln", n_mels=80))
    assert "(old.neumo)" in str(caught.value)


def test_sizes_are_not_learned() -> None:
    data = inputs(mel=LOG10[B, F(80), T], n=Lengths(T)[B])
    vocoder = Vocoder()
    learn([vocoder(mel=data.mel, mel_len=data.n).audio.step])
    assert learned_facets(vocoder) == {"mel": LOG10, "mel_len": Lengths()}
    assert signature_of(vocoder).takes["mel_len"].element.of is not None
    assert vocoder(mel=data.mel, mel_len=data.n)


def test_a_module_whose_ports_depend_on_the_call_learns_as_well() -> None:
    net = AnyNet()
    set_learned(net, {"x": Spectrogram(scale="db")})
    with pytest.raises(PortError, match="scale is ln, not db"):
        net(x=inputs(x=Spectrogram(scale="ln")[B, F, T]).x)


def test_vocabularies_are_learned_and_written() -> None:
    reader = Reader()
    learn([reader(ids=inputs(ids=Ids(EN, pad=0)[B, U]).ids).x.step])
    state = json.loads(json.dumps(learned_state({"reader": reader}, [], ())))
    assert state == {}
    state = json.loads(json.dumps(learned_state({"reader": reader}, [reading(reader)])))
    other = Reader()
    restore_learned({"reader": other}, state, source="model.neumo")
    assert learned_facets(other) == {"ids": Ids(EN, pad=0)}
    with pytest.raises(PortError) as caught:
        other(ids=inputs(ids=Ids(DE, pad=0)[B, U]).ids)
    assert "learned in training (model.neumo)" in " ".join(str(caught.value).split())


def reading(reader: Reader) -> Any:
    return reader(ids=inputs(ids=Ids(EN, pad=0)[B, U]).ids).x.step


def test_at_least_a_vocabulary_is_written_too() -> None:
    reader = Reader()
    set_learned(reader, {"ids": Ids(AtLeast(EN))})
    state = json.loads(json.dumps(learned_state({"r": reader, "other": Vocoder()}, [at_least_step(reader)])))
    other = Reader()
    restore_learned({"r": other, "x": MelSpectrogram()}, {**state, "x": {}, "gone": {}}, source="m")
    assert learned_facets(other) == {"ids": Ids(AtLeast(EN))}


def at_least_step(reader: Reader) -> Any:
    return reader(ids=inputs(ids=Ids(AtLeast(EN))[B, U]).ids).x.step


@pytest.mark.parametrize(
    "data",
    [
        [],
        {"v": []},
        {"v": {"mel": 3}},
        {"v": {"mel": {"element": "Nothing"}}},
        {"v": {"mel": {}}},
        {"v": {"mel": {"element": "Mel", "colour": "red"}}},
        {"v": {"mel": {"element": "Ids", "vocab": {"labels": 3}}}},
        {"v": {"mel": {"element": "Ids", "vocab": {}}}},
        {"v": {"mel": {"element": "Mel", "scale": [1]}}},
    ],
)
def test_what_a_file_says_is_checked(data: Any) -> None:
    with pytest.raises(
        CheckpointError, match=r"what the modules of m\.neumo learned cannot be read"
    ) as caught:
        restore_learned({"v": Vocoder()}, data, source="m.neumo")
    assert caught.value.code == "model-card"


def test_a_graph_that_was_composed_before_is_checked_again() -> None:
    vocoder = Vocoder()
    steps = Graph(outputs=vocode(vocoder, Mel(scale="ln", n_mels=80))).steps
    check_learned(steps)
    set_learned(vocoder, {"mel": LOG10}, source="model.neumo")
    with pytest.raises(PortError) as caught:
        check_learned(steps)
    assert "learned in training (model.neumo)" in " ".join(str(caught.value).split())
    assert "test_learned.py" in str(caught.value.where)
    with relax("scale", reason="a test"):
        relaxed = Graph(outputs=vocode(vocoder, Mel(scale="ln", n_mels=80))).steps
    check_learned(relaxed)
