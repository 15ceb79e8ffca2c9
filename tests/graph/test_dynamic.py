"""The axes that change, named as torch.export and ONNX want them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from neumo.graph import DataLayer, Graph, NeuralModule, Signature, inputs
from neumo.graph.adapters import Resample, Transpose
from neumo.graph.dynamic import dynamic_axes
from neumo.types import Audio, B, F, Features, Lengths, Loss, T


@dataclass(frozen=True)
class Data(DataLayer):
    def signature(self) -> Signature:
        return Signature(
            gives={"x": Features()[B, T, F(8)], "x_len": Lengths(T)[B], "unread": Features()[B, T]}
        )

    def open(self, seed: int) -> Any:
        raise AssertionError


@dataclass(frozen=True)
class Crop(NeuralModule):
    """Gives another number of frames, one that only a run can tell, and a number."""

    def signature(self) -> Signature:
        return Signature(
            takes={"x": Features()[B, T, F(8)], "x_len": Lengths(T)[B]},
            gives={
                "part": Features()[B, T("T'"), F(8)],
                "some": Features()[B, T(None), F(8)],
                "loss": Loss()[()],
            },
        )


@dataclass(frozen=True)
class Pair(NeuralModule):
    """Takes two values of separate batches."""

    def signature(self) -> Signature:
        return Signature(
            takes={"one": Features()[B, T, F(8)], "other": Features()[B("B2"), T("T2"), F(8)]},
            gives={"all": Features()[B + B("B2"), T, F(8)], "flat": Features()[T * T("T2"), F(8)]},
        )


def test_open_inputs_and_outputs_have_one_name_for_one_size() -> None:
    spoken = inputs(audio=Audio(rate=22050)[B, T], audio_len=Lengths(T)[B])
    wide = Resample(22050, 16000)(audio=spoken.audio, audio_len=spoken.audio_len)
    assert dynamic_axes(Graph(outputs={"wide": wide.audio, "wide_len": wide.audio_len})) == {
        "audio": {0: "B", 1: "T"},
        "audio_len": {0: "B"},
        "wide": {0: "B", 1: "ceil(320*T/441)"},
        "wide_len": {0: "B"},
    }


def test_fixed_axes_and_values_without_axes_are_left_out() -> None:
    data = Data()()
    made = Crop()(x=data.x, x_len=data.x_len)
    found = dynamic_axes(Graph(outputs={"loss": made.loss}))
    assert found == {"x": {0: "B", 1: "T"}, "x_len": {0: "B"}}


def test_new_sizes_and_sizes_of_run_time_get_names() -> None:
    data = Data()()
    made = Crop()(x=data.x, x_len=data.x_len)
    found = dynamic_axes(Graph(outputs={"part": made.part, "some": made.some}))
    assert found["part"] == {0: "B", 1: "T_new"}
    assert found["some"] == {0: "B", 1: "some_1"}


def test_what_nobody_reads_of_a_data_layer_is_no_input() -> None:
    data = Data()()
    assert "unread" not in dynamic_axes(Graph(outputs={"x": data.x, "made": Crop()(**data_of(data)).part}))


def data_of(data: Any) -> dict[str, Any]:
    return {"x": data.x, "x_len": data.x_len}


def test_two_sizes_that_are_called_alike_are_numbered() -> None:
    one, other = Data()(), Data()()
    pair = Pair()(one=one.x, other=other.x)
    found = dynamic_axes(Graph(outputs={"all": pair.all, "flat": pair.flat, "one": one.x, "two": other.x}))
    assert found["x"] == found["one"] == {0: "B", 1: "T"}
    assert found["Data_x"] == found["two"] == {0: "B2", 1: "T2"}
    assert found["all"] == {0: "B + B2", 1: "T"}
    assert found["flat"] == {0: "T*T2"}


def test_an_output_that_is_called_like_an_input_gets_another_name() -> None:
    opened = inputs(value=Features()[B, T, F(8)])
    turned = Transpose("B T F", "T B F")(value=opened.value)
    assert dynamic_axes(Graph(outputs={"value": turned.value})) == {
        "value": {0: "B", 1: "T"},
        "value_out": {0: "T", 1: "B"},
    }
