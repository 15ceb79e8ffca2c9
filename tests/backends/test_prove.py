"""Every declared signature of every torch module is proved; planted wrong ones are refuted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F_
from torch import Tensor, nn

import neumo
from neumo.asr import modules as asr
from neumo.backends.torch.prove.report import Proof
from neumo.backends.torch.prove.signature import prove
from neumo.backends.torch.prove.trace import ByName, NotTraceable, reason_of, trace
from neumo.backends.torch.registry import build, implementation, implements
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    Acoustic,
    Axis,
    B,
    BackendError,
    F,
    Features,
    Flags,
    Ids,
    Lengths,
    Loss,
    Mask,
    NeuralType,
    Score,
    T,
    U,
    Vocab,
)

from .module_examples import EXAMPLES as BY_NAME
from .module_examples import examples, hands_over_objects, ours

NOT_COMPUTED = {"GraphInputs", "GraphPorts", "Assume"}  # composing resolves them: nothing runs
SAMPLED = {  # why there is no proof for all sizes, in words of the proof
    "BeamCTC": ".numpy()",  # it searches in numpy, which no trace can follow
    "CTCLoss": "data-dependent",
    "RecurrentEncoder": "one size only",  # torch unrolls an LSTM or a GRU over the frames that it traces
    "Rescore": ".numpy()",  # it adds up scores and chooses in numpy
    "SequenceLoss": "data-dependent",
    "Stack": "lists",
    "Unstack": "lists",
    "Pick": "structs",
}
COMPUTED = [cls for cls in ours() if cls.role not in ("data", "metric") and cls.__name__ not in NOT_COMPUTED]
EXAMPLES = [spec for cls in COMPUTED for spec in examples(cls)]
CASES = [spec for spec in EXAMPLES if not hands_over_objects(spec)]  # the others have tests of their own


@pytest.mark.parametrize("spec", CASES, ids=[f"{type(s).__name__}-{n}" for n, s in enumerate(CASES)])
def test_the_signature_of_every_module_is_proved(spec: NeuralModule) -> None:
    proof = prove(spec).require()
    if proof.verdict != "proved":
        assert SAMPLED.get(type(spec).__name__, "no reason is known") in proof.reason, proof
    assert [port.port for port in proof.ports] == list(spec.signature().gives)
    assert not any(limit.startswith("fails") for limit in proof.limits), proof


QUICK = [spec for spec in CASES if type(spec).__name__ not in (*SAMPLED, "ConvEncoder")]


@pytest.mark.parametrize("spec", QUICK, ids=[f"{type(s).__name__}-{n}" for n, s in enumerate(QUICK)])
def test_each_proof_fails_when_a_size_is_declared_one_larger(spec: NeuralModule) -> None:
    signature = spec.signature()
    inputs = {symbol for type in signature.takes.values() for symbol in type.symbols()}
    for port, type in signature.gives.items():
        for at, axis in enumerate(type.axes):
            if axis.size is None or not axis.size.symbols() <= inputs:
                continue  # a size that only the outputs have is whatever comes
            larger = Axis(axis.kind, axis.size + 1)
            wrong = type.with_axes(*type.axes[:at], larger, *type.axes[at + 1 :])
            gives = {**signature.gives, port: wrong}
            proof = prove(neumo.wrap(build(spec), takes=signature.takes, gives=gives))
            assert port in [each.port for each in proof.refuted], (proof, wrong)
            break


def test_every_module_has_torch_code_and_an_example() -> None:
    for cls in COMPUTED:
        assert implementation(cls)
        assert examples(cls), cls


@pytest.mark.parametrize(
    "spec",
    [
        asr.SpeedPerturb(),
        asr.SpecAugment(freq_width=4, time_width=4),
        asr.SpecCutout(freq_width=4, time_width=4),
        asr.MelSpectrogram(),
        asr.ConvEncoder.preset("digits", width=32),
        *BY_NAME["RecurrentDecoder"],
        *BY_NAME["TransformerDecoder"],
    ],
    ids=lambda spec: type(spec).__name__,
)
def test_what_differs_in_training_is_sampled_there(spec: NeuralModule) -> None:
    proof = prove(spec, train=True).require()
    assert (proof.verdict, proof.reason) == ("sampled", "the training mode is run, not traced")


@dataclass(frozen=True)
class Toy(NeuralModule):
    """Declares ports and names the code that gives them."""

    takes: dict[str, NeuralType]
    gives: dict[str, NeuralType]
    code: Callable[..., Any]

    def signature(self) -> Signature:
        return Signature(takes=self.takes, gives=self.gives)


@implements(Toy)
class ToyLayer(nn.Module):
    def __init__(self, spec: Toy) -> None:
        super().__init__()
        self.code = spec.code
        self.conv = nn.Conv1d(8, 16, 11, stride=2)
        self.same = nn.Conv1d(8, 16, 11, stride=2, padding=5)
        self.up = nn.ConvTranspose1d(8, 4, 32, stride=16, padding=8)
        self.recurrent = nn.LSTM(8, 16, batch_first=True)

    def forward(self, **ports: Tensor) -> Any:
        return self.code(self, **ports)


Y = Features()[B, F(4)]
FRAMES = {"x": Features()[B, F(8), T]}
WITH_LENGTHS = {**FRAMES, "x_len": Lengths(T)[B]}


def toy(code: Callable[..., Any], *, takes: Any = FRAMES, **gives: NeuralType) -> Proof:
    return prove(Toy(takes, gives, code))


def refuted(proof: Proof, *words: str) -> None:
    assert proof.verdict == "refuted", proof
    text = str(proof)
    for word in words:
        assert word in text, text
    with pytest.raises(BackendError) as caught:
        proof.require()
    assert caught.value.code == "proof"


def test_a_stride_with_padding_is_proved() -> None:
    assert toy(lambda m, x: m.same(x), y=Features()[B, F(16), T.ceildiv(2)]).verdict == "proved"


def test_a_stride_without_padding_is_refuted_as_a_rounded_up_one() -> None:
    proof = toy(lambda m, x: m.conv(x), y=Features()[B, F(16), T.ceildiv(2)])
    refuted(proof, "traced (B, 16, ceil(T/2) - 5)", "ceil(T/2) is declared")
    assert toy(lambda m, x: m.conv(x), y=Features()[B, F(16), (T - 11) // 2 + 1]).holds


def test_a_transposed_convolution_is_proved() -> None:
    assert toy(lambda m, x: m.up(x), y=Features()[B, F(4), T * 16]).verdict == "proved"


def test_swapped_axes_are_refuted() -> None:
    head = lambda m, x: x.transpose(1, 2)  # noqa: E731
    assert toy(head, y=Features()[B, T, F(8)]).verdict == "proved"
    refuted(toy(head, y=Features()[B, F(8), T]), "axis 1 is T, and F=8 is declared")


def test_a_wrong_width_is_refuted() -> None:
    refuted(toy(lambda m, x: m.same(x), y=Features()[B, F(17), T.ceildiv(2)]), "axis 1 is 16, and F=17")


def test_a_wrong_dtype_is_refuted() -> None:
    refuted(toy(lambda m, x: x.argmax(1), y=Features()[B, T]), "it holds int numbers, and float is declared")
    assert toy(lambda m, x: x.argmax(1), y=Ids()[B, T]).holds
    refuted(toy(lambda m, x: x > 0, y=Features()[B, F(8), T]), "it holds bool numbers")


def test_another_number_of_axes_is_refuted() -> None:
    refuted(toy(lambda m, x: x.mean(-1), y=Features()[B, F(8), T]), "it has 2 axes, and 3 are declared")


def test_another_number_of_outputs_is_refuted() -> None:
    proof = toy(lambda m, x: (x, x, x), y=Features()[B, F(8), T], z=Features()[B, F(8), T])
    refuted(proof, "it returned 3 values, and the signature gives 2")


def test_code_that_fails_on_what_it_declares_is_refuted() -> None:
    refuted(
        toy(lambda m, x: m.same(x.mean(1)), y=Features()[B, F(16), T]), "it fails on a valid batch", "Error"
    )


def test_lengths_that_are_off_by_one_are_refuted() -> None:
    half = Features()[B, F(16), T.ceildiv(2)]
    right = toy(
        lambda m, x, x_len: (m.same(x), (x_len + 1) // 2),
        takes=WITH_LENGTHS, y=half, y_len=Lengths(T.ceildiv(2))[B],
    )  # fmt: skip
    assert right.verdict == "proved"
    for wrong in (lambda n: n // 2, lambda n: n // 2 + 1, lambda n: (n + 1) // 2 - 1, lambda n: n):
        proof = toy(
            lambda m, x, x_len, wrong=wrong: (m.same(x), wrong(x_len)),
            takes=WITH_LENGTHS, y=half, y_len=Lengths(T.ceildiv(2))[B],
        )  # fmt: skip
        refuted(proof, "y_len", "a row with T=")


def test_lengths_that_differ_only_where_a_large_hop_rounds_are_refuted() -> None:
    takes = {"x": Features()[B, T], "x_len": Lengths(T)[B]}
    declared = Lengths(T.ceildiv(160))[B]
    assert toy(lambda m, x, x_len: (x_len + 159) // 160, takes=takes, n=declared).holds
    refuted(toy(lambda m, x, x_len: x_len // 160 + 1, takes=takes, n=declared), "T=160 has 2")


def test_fractions_and_masks_are_compared_with_the_lengths() -> None:
    takes = {"x": Features()[B, T], "x_len": Lengths(T, unit="fraction")[B]}
    assert toy(lambda m, x, x_len: x_len, takes=takes, n=Lengths(T, unit="fraction")[B]).holds
    masks = {"x": Features()[B, T], "mask": Mask(T, true="pad")[B, T]}
    turned = {"keep": Mask(T, true="keep")[B, T]}
    assert toy(lambda m, x, mask: ~mask, takes=masks, **turned).verdict == "proved"
    refuted(toy(lambda m, x, mask: mask, takes=masks, **turned), "keep", "a row with T=")


def test_lengths_may_be_below_a_size_that_is_padded_to_a_multiple_and_no_lower() -> None:
    def padded(m: Any, x: Tensor, x_len: Tensor) -> Any:
        return F_.pad(x, (0, -x.shape[-1] % 16)), x_len

    frames = T.ceildiv(16) * 16
    gives = {"y": Features()[B, F(8), frames], "y_len": Lengths(frames)[B]}
    assert toy(padded, takes=WITH_LENGTHS, **gives).verdict == "proved"
    proof = toy(lambda m, x, x_len: (padded(m, x, x_len)[0], x_len - 16), takes=WITH_LENGTHS, **gives)
    refuted(proof, "y_len")


def test_a_size_that_only_outputs_have_is_what_the_code_gives_everywhere() -> None:
    other = T("T'")
    gives = {"y": Features()[B, F(8), other], "y_len": Lengths(other)[B]}
    proof = toy(lambda m, x, x_len: (x[..., ::2], (x_len + 1) // 2), takes=WITH_LENGTHS, **gives)
    assert proof.verdict == "proved"
    two = {"y": Features()[B, F(8), other], "z": Features()[B, F(8), other]}
    refuted(toy(lambda m, x: (x[..., ::2], x[..., ::3]), **two), "z", "axis 2")


def test_a_size_that_only_an_expression_of_the_inputs_has_is_not_free() -> None:
    takes = {"x": Features()[B, F(8), T.ceildiv(2)]}
    double = lambda m, x: x.repeat_interleave(2, -1)  # noqa: E731
    refuted(toy(double, takes=takes, y=Features()[B, F(8), T]), "axis 2 is 2*ceil(T/2), and T is declared")
    assert toy(double, takes=takes, y=Features()[B, F(8), T.ceildiv(2) * 2]).verdict == "proved"
    looped = lambda m, x: m.recurrent(double(m, x).transpose(1, 2))[0]  # noqa: E731
    refuted(toy(looped, takes=takes, y=Features()[B, T, F(16)]))


def test_a_size_without_a_canonical_form_is_run() -> None:
    bag = neumo.wrap(nn.EmbeddingBag(10, 4), takes={"ids": Ids(Vocab("abcdefghij"))[B, U]}, gives={"y": Y})
    proof = prove(bag)
    assert (proof.verdict, "cannot be compared" in proof.reason) == ("sampled", True)


def test_what_cannot_be_traced_is_run_with_three_sizes() -> None:
    proof = toy(lambda m, x: m.recurrent(x.transpose(1, 2))[0], y=Features()[B, T, F(16)])
    assert proof.verdict == "sampled"
    assert "one size only: T = 19" in proof.reason
    refuted(toy(lambda m, x: m.recurrent(x.transpose(1, 2))[0], y=Features()[B, T + 1, F(16)]))
    depends = lambda m, x: x[..., : int(x[0, 0, 0] > 9) + x.shape[-1]]  # noqa: E731
    assert toy(depends, y=Features()[B, F(8), T]).verdict == "sampled"
    assert toy(lambda m, x: x[..., : max(1, int(x.sum() * 0))], y=Features()[B, F(8), T("T'")]).holds
    refuted(toy(lambda m, x: x[..., : max(1, int(x.sum() * 0))], y=Features()[B, F(8), T]), "here 1")


def test_what_the_code_asks_of_its_sizes_is_told() -> None:
    pairs = toy(lambda m, x: x.unflatten(2, (-1, 2)).sum(-1), y=Features()[B, F(8), T // 2])
    assert pairs.limits or pairs.verdict == "refuted"
    takes = {"x": Features()[B, T], "y": Features()[B, U]}
    same = toy(lambda m, x, y: x + y, takes=takes, z=Features()[B, T])
    refuted(same, "fails on a valid batch")
    short = toy(lambda m, x: m.conv(x), y=Features()[B, F(16), (T - 11) // 2 + 1])
    assert any("proved for T >=" in limit for limit in short.limits)
    assert any("fails with B=1, T=1" in limit for limit in short.limits)


def test_a_size_of_one_is_run_as_well() -> None:
    squeezed = toy(lambda m, x: x.squeeze(2) if x.shape[2] == 1 else x, y=Features()[B, F(8), T])
    refuted(squeezed, "it has 2 axes")


def test_optional_ports_are_tried_given_and_left_out() -> None:
    takes = {**FRAMES, "more": Features()[B, F(8), T].as_optional()}
    add = lambda m, x, more=None: x if more is None else x + more  # noqa: E731
    assert toy(add, takes=takes, y=Features()[B, F(8), T]).verdict == "proved"
    wrong = lambda m, x, more=None: x[:, :1] if more is None else x + more  # noqa: E731
    refuted(toy(wrong, takes=takes, y=Features()[B, F(8), T]), "axis 1 is 1")


def test_a_port_that_takes_many_gets_several() -> None:
    takes = {"losses": Loss().many()[()], "flags": Flags()[B]}
    assert toy(lambda m, losses, flags: sum(losses), takes=takes, y=Score()[()]).verdict == "proved"


def test_none_is_refuted_where_it_is_not_optional() -> None:
    refuted(toy(lambda m, x: (None, x), y=Features()[B], z=Features()[B, F(8), T]), "None", "not optional")
    optional = {"y": Features()[B].as_optional(), "z": Features()[B, F(8), T]}
    assert toy(lambda m, x: (None, x), **optional).verdict == "proved"


def test_two_strides_and_a_product_of_sizes_are_proved() -> None:
    assert toy(lambda m, x: x[..., ::2][..., ::2], y=Acoustic()[B, F(8), T.ceildiv(4)]).verdict == "proved"
    assert toy(lambda m, x: x.transpose(1, 2).flatten(0, 1), y=Features()[B * T, F(8)]).verdict == "proved"


def test_wrapped_modules_and_modules_of_one_class_are_proved() -> None:
    conv = nn.Conv1d(8, 16, 3, stride=2)
    ports = {"takes": {"frames": Features()[B, F(8), T]}}
    right = neumo.wrap(conv, **ports, gives={"y": Features()[B, F(16), T.ceildiv(2) - 1]})
    assert prove(right).verdict == "proved"
    refuted(
        prove(neumo.wrap(conv, **ports, gives={"y": Features()[B, F(16), T.ceildiv(2)]})), "ceil(T/2) - 1"
    )
    lstm = nn.LSTM(8, 4, batch_first=True)
    found = neumo.infer_signature(lstm, torch.randn(2, 5, 8), names=["out", "h", "c"]).signature
    assert prove(neumo.wrap(lstm, takes=found.takes, gives=found.gives)).verdict == "sampled"

    class Project(neumo.TorchModule):
        def signature(self) -> Signature:
            return Signature(takes={"x": Features()[B, T, F(8)]}, gives={"y": Features()[B, T, F(4)]})

        def setup(self) -> None:
            self.linear = nn.Linear(8, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x)

    assert prove(Project()).verdict == "proved"


def test_a_proof_is_printed_with_its_ports_and_limits() -> None:
    text = str(prove(asr.ConvEncoder(n_mels=8, blocks=(asr.ConvBlock(8, 3, stride=2),))))
    assert text.splitlines() == [
        "ConvEncoder: proved",
        "  encoded: Acoustic[B, F=8, ceil(T/2)], traced (B, 8, ceil(T/2)) float, proved",
        "  encoded_len: Lengths(ceil(T/2))[B], traced (B) int, proved",
        "  limit: proved for T >= 3",
    ]


def test_a_trace_that_fails_says_why() -> None:
    class Bad(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if bool(x.sum() > 0) else x[:1]

    with pytest.raises(NotTraceable, match="data-dependent"):
        trace(ByName(Bad(), ["x"]), [torch.randn(3, 4)], [(0, 1)])
    assert reason_of(ValueError("")) == "ValueError: "
