"""The way of a size is told from where it starts, through each module that changes it, to where it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import pytest

from neumo.graph.adapters import Resample
from neumo.graph.draw.sizes import Hop, rule_text, size_story, stations, trace_size, trace_sizes
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.graph.value import Step, Value
from neumo.types import Acoustic, Audio, B, F, Features, Lengths, Mel, Size, Symbol, T, U, V, Vocab

from . import specs


@dataclass(frozen=True)
class Join(NeuralModule):
    """Puts two sequences one after the other."""

    def signature(self) -> Signature:
        takes = {"a": Acoustic()[B, F, T], "b": Acoustic()[B, F, U]}
        return Signature(takes=takes, gives={"x": Acoustic()[B, F, T + U]})


@dataclass(frozen=True)
class Valid(NeuralModule):
    """A convolution without padding, whose number of layers has the value of its stride."""

    kernel: int = 11
    stride: int = 3
    layers: int = 3

    def signature(self) -> Signature:
        frames = (T - self.kernel) // self.stride + 1
        return Signature(takes={"x": Acoustic()[B, F, T]}, gives={"x": Acoustic()[B, F, frames]})


@dataclass(frozen=True)
class Nested(NeuralModule):
    """Has its hop inside a setting that is an element."""

    mel: Mel = field(default_factory=lambda: Mel(hop=256))

    def signature(self) -> Signature:
        return Signature(takes={"audio": Audio()[B, T]}, gives={"mel": self.mel[B, F(80), T // self.mel.hop]})


@dataclass(frozen=True)
class Block:
    stride: int = 1
    repeat: int = 5
    labels: Vocab = specs.EN


@dataclass(frozen=True)
class Blocks(NeuralModule):
    """Has its strides in a list of settings; odd ones are refused."""

    blocks: tuple[Block, ...] = (Block(2), Block(1), Block(4))

    def __post_init__(self) -> None:
        if any(block.stride % 2 and block.stride > 1 for block in self.blocks):
            raise ValueError("a stride is even")

    def signature(self) -> Signature:
        by = prod(block.stride for block in self.blocks)
        return Signature(takes={"x": Acoustic()[B, F, T]}, gives={"x": Acoustic()[B, F, T.ceildiv(by)]})


@dataclass(frozen=True)
class Product(NeuralModule):
    """Gives a size that is the product of two unknown ones."""

    heads: int = 8

    def signature(self) -> Signature:
        takes = {"a": Acoustic()[B, F, T], "b": Acoustic()[B, F, U]}
        return Signature(takes=takes, gives={"x": Acoustic()[B, F, T(T.size * U.size)]})


@dataclass(frozen=True)
class Strict(NeuralModule):
    """Takes no other hop than its own, so that nobody can try another one."""

    hop: int = 200

    def __post_init__(self) -> None:
        if self.hop != 200:
            raise ValueError("200 only")

    def signature(self) -> Signature:
        return Signature(takes={"audio": Audio()[B, T]}, gives={"frames": Features()[B, T // self.hop]})


@dataclass(frozen=True)
class Doubling(NeuralModule):
    """Is solved for `T` from a port that is twice as long."""

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F, 2 * T]}, gives={"x": Acoustic()[B, F, T]})


@dataclass(frozen=True)
class Unused(NeuralModule):
    """Has a setting of the value of its factor that the factor does not come from."""

    heads: int = 4

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F, T]}, gives={"x": Acoustic()[B, F, T * 4]})


def story(value: Value, slot: int | str) -> str:
    hop = trace_size(value, slot)
    assert hop is not None
    return size_story(hop)


def frames() -> Value:
    return inputs(x=Acoustic()[B, F(64), T]).x


def test_frames_are_followed_from_the_samples_through_hop_and_stride() -> None:
    data = specs.SpeechData(specs.EN)()
    feats = specs.MelSpectrogram()(audio=data.audio, audio_len=data.audio_len)
    enc = specs.ConvEncoder()(mel=feats.mel, mel_len=feats.mel_len)
    scores = specs.CTCHead(specs.EN)(encoded=enc.encoded)
    way = "T from SpeechData.audio -> //160 + 1 at MelSpectrogram (hop 160) -> ceil(/2) at ConvEncoder"
    assert story(scores.log_probs, 1) == f"{way} (stride 2)"
    assert story(enc.encoded_len, "of") == f"{way} (stride 2)"
    assert story(feats.mel, 1) == "64 from MelSpectrogram.mel (n_mels 64)"
    assert story(scores.log_probs, 2) == "29 from CTCHead.log_probs (vocabulary en+blank)"
    assert story(data.text, 1) == "U from SpeechData.text"


def test_lengths_start_where_the_axis_starts_that_they_count() -> None:
    data = specs.SpeechData(specs.EN)()
    assert story(data.audio_len, "of") == "T from SpeechData.audio"
    assert story(data.text_len, 0) == "B from SpeechData.audio"
    swapped = inputs(n=Lengths(T)[B], x=Acoustic()[B, F(64), T])
    assert story(swapped.n, "of") == "T from inputs.x"


def test_a_size_is_told_where_it_was_made_also_when_it_only_passed() -> None:
    x = frames()
    for _ in range(3):
        x = specs.Down(by=1)(x=x).x
    hop = trace_size(x, 2)
    assert hop is not None
    assert size_story(hop) == "T from inputs.x"
    assert len(stations(hop)) == 1
    assert story(x, 1) == "64 from inputs.x"


def test_two_sizes_that_are_added_are_both_followed() -> None:
    x = frames()
    joined = Join().named("join")(a=specs.Down()(x=x).x, b=specs.Up()(x=x).x)
    assert story(joined.x, 2) == (
        "T from inputs.x -> ceil(/2) at Down (by 2) -> *2 at Up (by 2) -> 2*T + ceil(T/2) at join"
    )
    other = inputs(x=Acoustic()[B, F(64), T("T")], y=Acoustic()[B, F(64), T("N")])
    assert story(Join()(a=other.x, b=other.y).x, 2) == "T from inputs.x, N from inputs.y -> N + T at Join"


def test_a_setting_is_named_only_if_the_size_follows_it() -> None:
    x = frames()
    assert story(Valid()(x=x).x, 2).endswith("at Valid (kernel 11, stride 3)")
    assert story(Unused()(x=x).x, 2) == "T from inputs.x -> *4 at Unused"


def test_a_setting_inside_an_element_is_found() -> None:
    audio = inputs(audio=Audio(rate=22050)[B, T]).audio
    assert story(Nested()(audio=audio).mel, 2) == "T from inputs.audio -> //256 at Nested (mel.hop 256)"


def test_settings_inside_a_list_are_found() -> None:
    assert story(Blocks()(x=frames()).x, 2) == (
        "T from inputs.x -> ceil(/8) at Blocks (blocks[0].stride 2, blocks[2].stride 4)"
    )


def test_the_product_of_two_sizes_is_followed_to_both() -> None:
    x = inputs(a=Acoustic()[B, F(64), T], b=Acoustic()[B, F(64), U])
    assert story(Product()(a=x.a, b=x.b).x, 2) == "T from inputs.a, U from inputs.b -> T*U at Product"


def test_a_setting_that_cannot_be_tried_is_not_named() -> None:
    audio = inputs(audio=Audio(rate=22050)[B, T]).audio
    assert story(Strict()(audio=audio).frames, 1) == "T from inputs.audio -> //200 at Strict"


def test_adapters_state_their_ports_for_what_is_connected() -> None:
    audio = inputs(audio=Audio(rate=8000)[B, T]).audio
    assert story(Resample(8000, 16000)(audio=audio).audio, 1) == (
        "T from inputs.audio -> *2 at Resample (source 8000, target 16000)"
    )


def test_a_size_that_was_solved_is_followed_to_the_axis_that_solved_it() -> None:
    x = specs.Up()(x=frames()).x
    halved = Doubling()(x=x).x
    assert str(halved.type.axes[2]) == "T"
    assert story(halved, 2) == "T from inputs.x -> *2 at Up (by 2)"


def test_a_vocabulary_without_a_name_is_still_one() -> None:
    letters = inputs(x=Acoustic()[B, V(Vocab("abc"))]).x
    assert story(letters, 1) == "3 from inputs.x (its vocabulary)"


def test_what_nobody_knows_has_no_story() -> None:
    x = inputs(x=Acoustic()[B, F(64), T(None)]).x
    assert trace_size(x, 2) is None
    assert trace_size(x, 7) is None
    assert trace_size(x, "of") is None
    assert trace_size(inputs(n=Lengths()[B]).n, "of") is None


def test_steps_made_by_hand_are_followed_by_equal_sizes() -> None:
    x = frames()
    step = Step(specs.Down(by=1), {"x": x})
    step.outputs = {
        "x": Value(step, "x", x.type),
        "more": Value(step, "more", Lengths(Size.of(7))[B.named("N")]),
    }
    hops = trace_sizes([x.step, step], {id(x.step): "start", id(step): "hand"})
    assert size_story(hops[id(step), "x", 2]) == "T from start.x"
    assert size_story(hops[id(step), "more", 0]) == "N from hand.more"
    assert size_story(hops[id(step), "more", "of"]) == "7 from hand.more"


def test_the_names_of_the_steps_are_those_that_are_given() -> None:
    x = specs.Down().named("half")(x=frames()).x
    graph = Graph("g", outputs={"x": x})
    hops = trace_sizes(graph.steps, {id(step): f"s{n}" for n, step in enumerate(graph.steps)})
    assert size_story(hops[id(x.step), "x", 2]) == "T from s0.x -> ceil(/2) at s1 (by 2)"


def test_a_long_way_is_followed_to_its_end() -> None:
    x = frames()
    down = specs.Down()
    for _ in range(1500):
        x = down(x=x).x
    hop = trace_size(x, 2)
    assert hop is not None
    assert len(stations(hop)) == 1501
    assert stations(hop)[-1] == hop


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (T // 160 + 1, "//160 + 1"),
        (T.ceildiv(2), "ceil(/2)"),
        (T.ceildiv(4) + 2, "ceil(/4) + 2"),
        (T * 256, "*256"),
        (T * 256 + 3, "*256 + 3"),
        (T + 5, "+ 5"),
        (T - 2, "- 2"),
        ((T - 11) // 3 + 1, "(T + 1)//3 - 3"),
        (2 * (T // 3), "2*(T//3)"),
    ],
)
def test_a_rule_is_written_without_the_name_of_the_size(size: object, text: str) -> None:
    assert rule_text(Size.of(size), Symbol("T")) == text


def test_a_hop_says_where_it_is() -> None:
    hop = trace_size(frames(), 2)
    assert isinstance(hop, Hop)
    assert (hop.at, hop.slot, hop.before, hop.rule, str(hop.size)) == ("inputs", 2, (), "", "T")
