"""What `infer_signature` proposes for plain torch modules is what an author would write, and is true."""

from __future__ import annotations

import importlib.util
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import neumo
from neumo.backends.torch.propose.probe import fit_one, free_axes, probe, widen
from neumo.backends.torch.propose.signature import InferredSignature, infer_signature
from neumo.graph.signature import Signature
from neumo.graph.type_source import axis_source, signature_source, size_source
from neumo.types import (
    ANY,
    ONE,
    B,
    BackendError,
    F,
    Features,
    H,
    Ids,
    Lengths,
    LogProbs,
    Mask,
    Symbol,
    T,
    U,
    V,
    W,
)


def read_back(found: InferredSignature) -> Signature:
    """Run the proposed source, as the author would."""
    names: dict[str, Any] = {}
    exec(found.source.replace("\nSignature(", "\nsignature = Signature(", 1), names)
    return names["signature"]


def infer(module: nn.Module, example: Any, **more: Any) -> InferredSignature:
    found = infer_signature(module, example, **more)
    assert read_back(found) == found.signature
    return found


def test_a_stack_of_strided_convolutions() -> None:
    stack = nn.Sequential(
        nn.Conv1d(80, 32, 3, stride=2), nn.ReLU(), nn.Conv1d(32, 16, 3, stride=2, padding=1)
    )
    found = infer(stack, torch.randn(2, 80, 50), names=["encoded"])
    assert found.how == "traced"
    assert found.signature == Signature(
        takes={"input": Features()[B, F(80), T]}, gives={"encoded": Features()[B, F(16), (T + 1) // 4]}
    )
    assert found.guesses["input"] == "guess: features, axis 0 is the batch, axis 2 is time"
    assert str(found) == found.source


def test_a_recurrent_layer_is_probed() -> None:
    found = infer(nn.LSTM(8, 16, batch_first=True), torch.randn(2, 11, 8), names=["out", "h", "c"])
    assert found.how == "probed"
    assert found.signature == Signature(
        takes={"input": Features()[B, T, F(8)]},
        gives={
            "out": Features()[B, T, F(16)],
            "h": Features()[ONE, B, F(16)],
            "c": Features()[ONE, B, F(16)],
        },
    )
    time_major = infer(nn.GRU(8, 16), torch.randn(11, 3, 8)).signature
    assert time_major.takes == {"input": Features()[T, B, F(8)]}
    assert time_major.gives == {"output_0": Features()[T, B, F(16)], "output_1": Features()[ONE, B, F(16)]}


def test_a_transformer() -> None:
    model = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)
    found = infer(model, (torch.randn(2, 11, 16), torch.randn(2, 7, 16)), names={"output": "decoded"})
    assert found.signature == Signature(
        takes={"src": Features()[B, T, F(16)], "tgt": Features()[B, U, F(16)]},
        gives={"decoded": Features()[B, U, F(16)]},
    )


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 16)
        self.linear = nn.Linear(16, 4)

    def forward(self, ids: Tensor, scale: float = 1.0) -> Tensor:
        return (self.linear(self.embedding(ids).mean(1)) * scale).log_softmax(-1)


def test_an_embedding_with_a_linear_classifier() -> None:
    found = infer(Classifier(), {"ids": torch.randint(0, 100, (1, 7)), "scale": 2.0})
    assert found.signature == Signature(takes={"ids": Ids()[B, T]}, gives={"output": LogProbs()[B, V(4)]})
    assert "100 labels: add their Vocab" in found.source
    assert "the last operation is log_softmax" in found.source
    assert "# Arguments that keep the value of the example: scale." in found.source


class Encoded(NamedTuple):
    encoded: Tensor
    encoded_len: Tensor
    inside: Tensor


class Frames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 8, 1, stride=2)

    def forward(self, mel: Tensor, mel_len: Tensor, pads: Tensor) -> Encoded:
        return Encoded(self.conv(mel * ~pads[:, None]), (mel_len + 1) // 2, ~pads[:, ::2])


def test_lengths_masks_and_the_names_of_a_named_tuple() -> None:
    example = (torch.randn(3, 8, 20), torch.tensor([20, 10, 5]), torch.zeros(3, 20, dtype=torch.bool))
    found = infer(Frames(), example)
    assert found.signature.takes == {
        "mel": Features()[B, F(8), T], "mel_len": Lengths(T)[B], "pads": Mask(T)[B, T]
    }  # fmt: skip
    assert list(found.signature.gives) == ["encoded", "encoded_len", "inside"]
    assert found.signature.gives["encoded"] == Features()[B, F(8), T.ceildiv(2)]
    assert "keep or pad" in found.source
    assert "lengths of T" in found.source


def test_images_have_height_and_width() -> None:
    found = infer(nn.Conv2d(3, 8, 3, padding=1), torch.randn(1, 3, 9, 12)).signature
    assert found.takes == {"input": Features()[B, F(3), H, W]}
    assert found.gives == {"output": Features()[B, F(8), H, W]}


class Odd(nn.Module):
    """Answers in several ways: `how` says in which."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        if self.how == "dict":
            return {"a": x, "b": [x.argmax(1), x > 0]}
        if self.how == "pick":
            return x[x > 0]
        if self.how == "softmax":
            return x.softmax(-1)
        return x if mask is None else x * mask[:, None]


def test_outputs_in_dicts_are_called_by_their_path() -> None:
    found = infer(Odd("dict"), torch.randn(2, 3, 5)).signature
    assert list(found.gives) == ["a", "b_0", "b_1"]
    assert [type.element.dtype for type in found.gives.values()] == ["float", "int", "bool"]
    named = infer(Odd("dict"), torch.randn(2, 3, 5), names={"b_0": "best"}).signature
    assert list(named.gives) == ["a", "best", "b_1"]


def test_a_size_that_depends_on_values_is_a_size_of_its_own() -> None:
    found = infer(Odd("pick"), torch.randn(4, 3))
    assert str(found.signature.gives["output"]) == "Features[U']"
    assert "axis 0 has a size of its own" in found.source


def test_probabilities_and_masks_of_whole_numbers_are_told() -> None:
    assert "softmax" in infer(Odd("softmax"), torch.randn(2, 3)).source
    found = infer(Odd("mask"), (torch.randn(2, 3, 5), torch.ones(2, 5, dtype=torch.int64)))
    assert "better a Mask of booleans" in found.source


def test_two_batches_that_never_meet_are_one_batch() -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Any:
            return x.mean(1), y.mean(1)

    found = infer(Two(), (torch.randn(3, 4), torch.randn(3, 6))).signature
    assert found.takes["x"].axes[0] == found.takes["y"].axes[0] == B


def test_a_module_without_a_free_size_has_none() -> None:
    class Fixed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x @ torch.ones(3, 2) if x.shape == (2, 3) else x.missing

    found = infer(Fixed(), torch.randn(2, 3)).signature
    assert found.takes == {"x": Features()[F(2), F(3)]}


def test_the_example_must_run_and_fit() -> None:
    with pytest.raises(BackendError, match="Conv1d fails on the example") as caught:
        infer_signature(nn.Conv1d(80, 16, 5), torch.randn(2, 37, 80))
    assert caught.value.code == "example"
    with pytest.raises(BackendError, match="does not take the example"):
        infer_signature(nn.Conv1d(80, 16, 5), {"x": torch.randn(2, 80, 37)})
    with pytest.raises(BackendError, match="it gives 1 tensors, and 2 are named"):
        infer_signature(nn.ReLU(), torch.randn(2, 3), names=["a", "b"])
    with pytest.raises(BackendError, match="it gives no 'out'"):
        infer_signature(nn.ReLU(), torch.randn(2, 3), names={"out": "y"})

    class Star(nn.Module):
        def forward(self, *xs: Tensor) -> Tensor:
            return xs[0]

    with pytest.raises(BackendError, match="ports need names"):
        infer_signature(Star(), torch.randn(2, 3))


def test_arguments_by_any_name_are_ports() -> None:
    class Free(nn.Module):
        def forward(self, **ports: Tensor) -> Tensor:
            return ports["x"] + ports["y"]

    found = infer(Free(), {"x": torch.randn(2, 5), "y": torch.randn(2, 5)}).signature
    assert list(found.takes) == ["x", "y"]
    assert found.takes["x"] == found.takes["y"]


def test_the_module_stays_as_it_is() -> None:
    module = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout()).train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    infer(module, torch.randn(4, 3))
    assert module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_it_is_found_in_neumo() -> None:
    assert neumo.infer_signature is infer_signature


def test_sizes_are_fitted_to_what_came() -> None:
    size = Symbol("T").size
    forms = [size, size * 3 - 2, size // 2, size.ceildiv(3), (size - 5) // 4 + 1, size // 7 + 2]
    for form in forms:
        pairs = [(n, form.evaluate({Symbol("T"): n})) for n in (20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 36)]
        assert fit_one(size, pairs) == form
    assert fit_one(size, [(n, n * n) for n in range(4, 9)]) is None


def test_probing_tells_sums_and_what_does_not_fit() -> None:
    def run(values: Any) -> list[Tensor]:
        x, y = values["x"], values["y"]
        return [torch.zeros(len(x) + 2 * len(y)), torch.zeros(len(x) ** 2), torch.zeros(len(x) * len(y))]

    found = probe(run, {"x": torch.zeros(5), "y": torch.zeros(7)})
    assert [str(size) for size in found.outputs[0]] == ["s0 + 2*s1"]
    assert found.outputs[1] == [None]
    assert {name: [str(size) for size in sizes] for name, sizes in found.inputs.items()} == {
        "x": ["s0"],
        "y": ["s1"],
    }


def test_axes_that_must_change_together_are_found() -> None:
    square = {"x": torch.zeros(4, 4)}

    def run(values: Any) -> list[Tensor]:
        return [torch.linalg.inv(values["x"] + torch.eye(values["x"].shape[0]))]

    assert free_axes(run, square, [("x", 0), ("x", 1)]) == [(("x", 0), ("x", 1))]
    assert widen(lambda values: [values["x"]], {"x": torch.zeros(1, 3)})["x"].shape == (2, 3)


def test_source_is_python_that_makes_the_axis() -> None:
    for axis in (T, T // 2 + 1, 1 - T, 3 * (T // 2) - U, F(T.ceildiv(2)), V(5), ONE, ANY, B * T, T(None)):
        source = axis_source(axis)
        names = vars(neumo.types)
        assert eval(source, dict(names)) == axis, source
    assert size_source(Symbol("width").size) == 'ANY("width")'
    assert signature_source(Signature(), {}) == "Signature(\n)"


@pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="the package transformers is not installed"
)
def test_a_bert_model_of_hugging_face() -> None:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=90, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    example = {
        "input_ids": torch.randint(0, 90, (2, 9)),
        "attention_mask": torch.ones(2, 9, dtype=torch.int64),
    }
    found = infer(BertModel(config), example)
    assert found.signature.takes["input_ids"] == Ids()[B, T]
    assert found.signature.gives["last_hidden_state"] == Features()[B, T, F(16)]
    assert found.signature.gives["pooler_output"] == Features()[B, F(16)]
