"""Further wrong graphs: one for each way in which sizes, facets, vocabularies and modules can disagree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    Acoustic,
    Any_,
    AtLeast,
    Audio,
    B,
    F,
    Features,
    H,
    Ids,
    Item,
    Lengths,
    Logits,
    Loss,
    Mask,
    Mel,
    NeuralType,
    PortError,
    T,
    U,
    V,
    Var,
    Vocab,
    W,
)

from .snapshots import refused
from .specs import (
    EN,
    TAGS,
    WORDS,
    Add,
    ConvEncoder,
    CTCHead,
    Down,
    Gain,
    MelSpectrogram,
    SpeechData,
    SpeedPerturb,
    TransformerDecoder,
)


@dataclass(frozen=True)
class Mix(NeuralModule):
    def signature(self) -> Signature:
        audio = Audio(rate=Var("rate"))[B, T]
        return Signature(takes={"a": audio, "b": audio}, gives={"mixed": audio})


@dataclass(frozen=True)
class Distil(NeuralModule):
    def signature(self) -> Signature:
        scores = Logits(Var("vocab"))[B, T, V]
        return Signature(takes={"student": scores, "teacher": scores}, gives={"loss": Loss()[()]})


@dataclass(frozen=True)
class Classifier(NeuralModule):
    n_frames: int = 100

    def signature(self) -> Signature:
        return Signature(takes={"mel": Mel()[B, F, T(self.n_frames)]}, gives={"scores": Logits()[B, V]})


@dataclass(frozen=True)
class Masked(NeuralModule):
    def signature(self) -> Signature:
        return Signature(
            takes={"x": Features()[B, F, T], "mask": Mask(T, true="keep")[B, T]}, gives={"loss": Loss()[()]}
        )


@dataclass(frozen=True)
class Pair(NeuralModule):
    """Takes two of whatever the test wants."""

    def signature(self) -> Signature:
        raise NotImplementedError

    @staticmethod
    def of(**takes: NeuralType) -> NeuralModule:
        @dataclass(frozen=True)
        class Pair(NeuralModule):
            def signature(self) -> Signature:
                return Signature(takes=takes)

        return Pair()


def test_a_mask_from_before_a_stride_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        data = inputs(x=Acoustic()[B, F(8), T], mask=Mask(T, true="keep")[B, T])
        half = Down()(x=data.x)
        Masked()(x=half.x, mask=data.mask)

    error = refused("more_mask", build, monkeypatch)
    assert "Down (by 2) stands between the two" in error.why[0]


def test_fractions_are_no_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        data = inputs(audio=Audio(rate=16000, peak=1.0)[B, T], part=Lengths(T, unit="fraction")[B])
        MelSpectrogram()(audio=data.audio, audio_len=data.part)

    refused("more_fraction", build, monkeypatch)


def test_a_number_of_frames_that_changes_is_not_a_fixed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        data = inputs(mel=Mel()[B, F(80), T])
        Classifier()(mel=data.mel)

    refused("more_varies", build, monkeypatch)


def test_a_fixed_number_of_frames_is_not_one_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        data = inputs(x=Acoustic()[B, F(8), T], y=Acoustic()[B, F(8), T(100)])
        Add()(a=data.x, b=data.y)

    refused("more_fixed", build, monkeypatch)


def test_one_frame_too_many_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        data = inputs(x=Acoustic()[B, F(8), T], y=Acoustic()[B, F(8), T + 1])
        Add()(a=data.x, b=data.y)

    refused("more_offset", build, monkeypatch)


def test_two_branches_with_sizes_of_their_own_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = SpeechData(EN)()
        fast = SpeedPerturb().named("fast")(audio=batch.audio, audio_len=batch.audio_len)
        slow = SpeedPerturb().named("slow")(audio=batch.audio, audio_len=batch.audio_len)
        Mix()(a=fast.audio, b=slow.audio)

    refused("more_branches", build, monkeypatch)


def test_a_rate_that_another_input_decided_is_traced_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        data = inputs(speech=Audio(rate=16000)[B, T], noise=Audio(rate=8000)[B, T])
        loud = Gain(gain=2.0)(audio=data.noise)
        Mix()(a=data.speech, b=loud.audio)

    refused("more_variable", build, monkeypatch)


def test_a_vocabulary_that_another_input_decided_is_traced_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        data = inputs(mine=Logits(TAGS)[B, T, V(TAGS)], yours=Logits(WORDS)[B, T, V(WORDS)])
        Distil()(student=data.mine, teacher=data.yours)

    refused("more_vocab_variable", build, monkeypatch)


def test_more_labels_than_an_embedding_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    big = Vocab("abcdef", name="big")

    def build() -> None:
        data = inputs(ids=Ids(big)[B, U])
        Pair.of(ids=Ids(AtLeast(Vocab("abcd", name="small")))[B, U])(ids=data.ids)

    refused("more_at_least", build, monkeypatch)
    few = inputs(ids=Ids(Vocab("ab"))[B, U])
    Pair.of(ids=Ids(AtLeast(Vocab("abcd")))[B, U])(ids=few.ids)


def test_a_picture_of_another_height_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        data = inputs(x=Features()[B, H(28), W])
        Pair.of(x=Features()[B, H(32), W(28)])(x=data.x)

    refused("more_picture", build, monkeypatch)


def test_what_is_too_general_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        data = inputs(x=Features()[B, T, F(512)], anything=Any_()[B, T, F(512)])
        Pair.of(x=Acoustic()[B, T, F(512)], y=Acoustic()[B, T, F(512)])(x=data.x, y=data.anything)

    refused("more_general", build, monkeypatch)


def test_a_size_that_nothing_settles_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        data = inputs(x=Features()[B, F(8), T.ceildiv(2)])
        Pair.of(x=Features()[B, F, T.ceildiv(2)])(x=data.x)

    refused("more_unsolved", build, monkeypatch)


def test_an_odd_number_is_no_double(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        data = inputs(x=Features()[B, F(9), T])
        Pair.of(x=Features()[B, F("D") * 2, T])(x=data.x)

    refused("more_indivisible", build, monkeypatch)


def test_names_of_modules_are_used_and_long_paths_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        x = inputs(x=Acoustic()[B, F(8), T]).x
        for number in range(9):
            x = Down(1).named(f"block{number}")(x=x).x
        CTCHead(EN, width=9).named("head")(encoded=x)

    refused("more_path", build, monkeypatch)


def test_records_of_an_object_are_spelled_with_self(monkeypatch: pytest.MonkeyPatch) -> None:
    class Recogniser:
        def compose(self) -> None:
            self.batch = SpeechData(EN)()
            self.feats = MelSpectrogram()(audio=self.batch.audio, audio_len=self.batch.audio_len)
            ConvEncoder()(mel=self.feats.mel, mel_len=self.batch.audio_len)

    error = refused("more_self", lambda: Recogniser().compose(), monkeypatch)
    assert error.fixes[0].text == "mel_len=self.feats.mel_len"


def test_a_decoder_that_gets_the_mask_of_its_own_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        data = inputs(
            ids=Ids(WORDS)[B, U],
            memory=Acoustic()[B, T, F(512)],
            memory_mask=Mask(T, true="keep")[B, T],
            ids_mask=Mask(U, true="keep")[B, U],
        )
        TransformerDecoder(WORDS)(ids=data.ids, memory=data.memory, memory_mask=data.ids_mask)

    error = refused("more_decoder_mask", build, monkeypatch)
    assert error.fixes[0].text == "memory_mask=data.memory_mask"


def test_settings_that_do_not_go_together_are_not_offered() -> None:
    @dataclass(frozen=True)
    class Even(NeuralModule):
        width: int = 8

        def __post_init__(self) -> None:
            if self.width % 2:
                raise ValueError("odd")

        def signature(self) -> Signature:
            return Signature(
                takes={"x": Features()[B, F(self.width), T]}, gives={"x": Features()[B, F(self.width), T]}
            )

    with pytest.raises(PortError) as caught:
        Even()(x=inputs(x=Features()[B, F(9), T]).x)
    assert caught.value.fixes == ()


def test_one_setting_cannot_become_two_things() -> None:
    @dataclass(frozen=True)
    class Square(NeuralModule):
        width: int = 8

        def signature(self) -> Signature:
            return Signature(takes={"x": Features()[B, H(self.width), W(self.width)]})

    with pytest.raises(PortError) as caught:
        Square()(x=inputs(x=Features()[B, H(5), W(6)]).x)
    assert len(caught.value.data["reasons"]) == 2
    assert caught.value.fixes == ()
    with pytest.raises(PortError) as caught:
        Square()(x=inputs(x=Features()[B, H(6), W(6)]).x)
    assert [fix.text for fix in caught.value.fixes] == ["build Square with width=6"]


def test_a_trained_module_is_not_offered_with_other_facets() -> None:
    @dataclass(frozen=True)
    class Vocoder(NeuralModule):
        trainable: ClassVar[bool] = True
        scale: str = "ln"

        def signature(self) -> Signature:
            return Signature(
                takes={"mel": Mel(scale=self.scale)[B, F, T]}, gives={"audio": Audio()[B, T * 256]}
            )

    with pytest.raises(PortError) as caught:
        Vocoder()(mel=inputs(mel=Mel(scale="linear")[B, F(80), T]).mel)
    assert caught.value.fixes == ()


def test_the_error_is_data_as_well_as_text() -> None:
    batch = SpeechData(EN, rate=8000)()
    with pytest.raises(PortError) as caught:
        MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    found = caught.value.to_json()
    assert (found["error"], found["code"]) == ("PortError", "facet")
    assert found["data"] == {
        "port": "audio",
        "value": "SpeechData.audio",
        "reasons": ["rate is 8000, not 16000"],
    }
    assert Path(found["where"]["file"]).name == Path(__file__).name
    assert found["fixes"][0]["note"] == "fits"


def test_utterance_numbers_are_no_lengths() -> None:
    data = inputs(audio=Audio(rate=16000, peak=1.0)[B, T], item=Item()[B])
    with pytest.raises(PortError, match="Item is not Lengths"):
        MelSpectrogram()(audio=data.audio, audio_len=data.item)


def test_a_refused_graph_never_exists() -> None:
    batch = SpeechData(EN)()
    with pytest.raises(PortError):
        MelSpectrogram(rate=8000)(audio=batch.audio, audio_len=batch.audio_len)
    assert len(Graph(outputs={"audio": batch.audio}).steps) == 1


@dataclass(frozen=True)
class Stack(NeuralModule):
    """Halves the frames without a setting that says so, and gives two rates."""

    def signature(self) -> Signature:
        return Signature(
            takes={"x": Features()[B, F, T]},
            gives={"half": Features()[B, F, T.ceildiv(2)], "third": Features()[B, F, T.ceildiv(3)]},
        )


@dataclass(frozen=True)
class Halve(NeuralModule):
    def signature(self) -> Signature:
        return Signature(takes={"x": Features()[B, F, T]}, gives={"x": Features()[B, F, T.ceildiv(2)]})


def test_modules_that_change_sizes_without_a_setting_are_named_all_the_same() -> None:
    data = inputs(x=Acoustic()[B, F(8), T], n=Lengths(T)[B])
    wanted = Pair.of(x=Features()[B, F, T], n=Lengths(T)[B])
    with pytest.raises(PortError) as caught:
        wanted(x=Stack()(x=data.x).half, n=data.n)
    assert caught.value.why == ("It is 2 times too long: Stack stands between the two.",)
    with pytest.raises(PortError) as caught:
        wanted(x=Halve()(x=data.x).x, n=data.n)
    assert caught.value.why == ("It is 2 times too long: Halve (times 1/2) stands between the two.",)


def test_lengths_of_another_branch_are_told_by_their_factor() -> None:
    data = inputs(x=Acoustic()[B, F(8), T], n=Lengths(T * 3)[B])
    with pytest.raises(PortError) as caught:
        Pair.of(x=Features()[B, F, T], n=Lengths(T)[B])(x=data.x, n=data.n)
    assert caught.value.why == ("It is 3 times too long.",)


def test_a_field_of_a_field_is_offered() -> None:
    @dataclass(frozen=True)
    class Filter(NeuralModule):
        mel: Mel = Mel(scale="ln")  # noqa: RUF009

        def signature(self) -> Signature:
            return Signature(takes={"mel": self.mel[B, F, T]})

    with pytest.raises(PortError) as caught:
        Filter()(mel=inputs(mel=Mel(scale="linear")[B, F(80), T]).mel)
    assert [fix.text for fix in caught.value.fixes] == ["build Filter with mel.scale=linear"]


def test_nothing_is_offered_for_a_port_that_nothing_fits() -> None:
    data = inputs(x=Acoustic()[B, F(8), T])
    with pytest.raises(PortError, match="No value that has been made so far fits n") as caught:
        Pair.of(x=Features()[B, F, T], n=Lengths(T)[B])(x=data.x)
    fixes = [fix.text for fix in caught.value.fixes]
    assert fixes == ["declare it as an open input: inputs(n=Lengths(T)[B], ...)"]
