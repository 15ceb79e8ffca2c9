"""Half precisions gave NaN in validation, gradients that vanished or dtypes that clash, and a device without
them fell back without a word.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import neumo
from neumo.engine import AdamW, NeuralFactory
from neumo.graph.graph import Graph
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, BackendError, F

from ..engine.toys import ArraySource, Line, MeanError, PointData, SquaredError, refused


class LoudSource(ArraySource):
    """Features that are ten thousand times too large, as samples of 16 bits are that nobody has scaled."""

    def item(self, index, epoch):
        return {**super().item(index, epoch), "x": 1e4 * super().item(index, epoch)["x"]}


@dataclass(frozen=True)
class LoudData(PointData):
    def open(self, seed):
        return LoudSource(self, seed)


@dataclass
class EncoderOfPairs(neumo.TorchModule):
    """An operation in it is for float32 only, as some of the FFTs, losses and sorts of torch are."""

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F(3)]}, gives={"y": Acoustic()[B, F(3)]})

    def setup(self) -> None:
        self.project = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(x)
        if y.dtype is not torch.float32:
            raise RuntimeError(f'"pairs" not implemented for {y.dtype}')
        return y


def factory(precision, **given):
    settings = {"device": "cpu", "seed": 3, "progress": False, "verify": "off", "allow": ("fp16-on-cpu",)}
    return NeuralFactory(precision=precision, **{**settings, **given})


def loud_graphs():
    line, batch, held = Line().named("line"), LoudData()(), LoudData(points=16, shuffle=False)()
    loss = SquaredError()(given=line(x=batch.x).y, wanted=batch.y).loss
    error = MeanError()(given=line(x=held.x).y, wanted=held.y).score
    return Graph("train", "train", {"loss": loss}), Graph("dev", "infer", {"error": error})


@pytest.mark.parametrize("precision", ["bf16", "pure-bf16"])
def test_a_gpu_without_bf16_is_refused_before_anything_runs(precision, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "V100")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 0))
    with refused(BackendError, "V100 has no bf16 units.*fp16"):
        NeuralFactory(device="cuda:0", precision=precision, progress=False)
    with refused(BackendError, "V100 has no bf16 units"):
        NeuralFactory(device="cuda:0", precisions={"encoder": precision}, progress=False)


def test_large_features_in_bf16_validate_as_in_fp32():
    figures = {}
    for precision in ("fp32", "bf16"):
        graph, dev = loud_graphs()
        result = factory(precision).train(graph, epochs=2, optimizer=AdamW(lr=1e-4), evaluate=dev)
        assert not result.skipped
        figures[precision] = [*result.losses, *(row["error"] for row in result.history)]
    assert all(math.isfinite(figure) for figure in figures["bf16"])
    np.testing.assert_allclose(figures["bf16"], figures["fp32"], rtol=0.05)


def test_large_features_in_fp16_end_with_the_reason_and_weights_that_are_untouched():
    graph, dev = loud_graphs()
    maker = factory("fp16")
    before = maker.weights(graph)
    with refused(BackendError, "not finite.*fp16 ends at 65504: precision='bf16' has the range of fp32"):
        maker.train(graph, epochs=9, optimizer=AdamW(lr=1e-4), bad_limit=3, evaluate=dev)
    assert all(np.array_equal(before[name], value) for name, value in maker.weights(graph).items())


@pytest.mark.parametrize("precision", ["bf16", "pure-bf16"])
def test_an_encoder_with_an_operation_for_fp32_only_is_named_and_the_way_out_trains(precision):
    batch = PointData()()
    y = Line().named("line")(x=EncoderOfPairs().named("encoder")(x=batch.x).y).y
    graph = Graph("train", "train", {"loss": SquaredError()(given=y, wanted=batch.y).loss})
    with refused(BackendError, f"encoder cannot compute in {precision}.*precisions={{'encoder': 'fp32'}}"):
        factory(precision).train(graph, max_steps=1)
    result = factory(precision, precisions={"encoder": "fp32"}).train(graph, epochs=2)
    assert all(math.isfinite(loss) for loss in result.losses)
