import numpy as np
import pytest
import torch

from neumo.backends.torch.device import choose_place
from neumo.engine import SGD, AdamW, NeuralFactory
from neumo.graph.graph import Graph
from neumo.types import BackendError

from ..engine.toys import Line, PointData, SquaredError, frame_graph, line_graphs, refused


def factory(**options):
    return NeuralFactory(**{"device": "cpu", "seed": 3, "progress": False, "verify": "always", **options})


@pytest.mark.parametrize("precision", ["fp64", "fp32", "bf16"])
def test_every_precision_learns(precision):
    train, _ = line_graphs()
    maker = factory(precision=precision)
    result = maker.train(train, optimizer=AdamW(lr=0.05), epochs=20)
    assert result.history[-1]["loss"] < 0.1 * result.history[0]["loss"]


def test_fp64_keeps_and_computes_in_double():
    maker = factory(precision="fp64")
    graph = line_graphs()[0]
    assert maker.weights(graph)["line.linear.weight"].dtype == np.float64
    batch = PointData()()
    (first, *_) = maker.infer(Graph(outputs={"y": Line()(x=batch.x).y}))
    assert first["y"].dtype == np.float64


def test_bf16_keeps_fp32_weights_and_losses():
    maker = factory(precision="bf16")
    graph = frame_graph()
    maker.train(graph, max_steps=2)
    assert maker.weights(graph)["halve.project.weight"].dtype == np.float32
    loss = maker.session.implementation(graph.modules["MeanLoss"])
    assert loss.seen == torch.float32
    halve = maker.session.implementation(graph.modules["halve"])
    with maker.session.place.autocast():
        assert halve.project(torch.ones(1, 1)).dtype == torch.bfloat16


def test_fp16_on_a_cpu_is_refused_with_the_reason():
    with refused(BackendError, "2 to 60 times slower.*precision='bf16'.*fp16-on-cpu"):
        factory(precision="fp16")


def test_fp16_skips_overflows_backs_off_and_learns():
    train, _ = line_graphs()
    maker = factory(precision="fp16", allow={"fp16-on-cpu"})
    scales = []
    from neumo.engine import Callback

    class Watch(Callback):
        def on_step_end(self, run):
            scales.append(run.skipped)

    result = maker.train(train, optimizer=SGD(lr=0.02), epochs=30, callbacks=[Watch()])
    assert result.history[-1]["loss"] < 0.1 * result.history[0]["loss"]
    assert result.skipped == []


def test_an_overflow_of_the_scale_is_no_bad_step(monkeypatch):
    train, _ = line_graphs()
    maker = factory(precision="fp16", allow={"fp16-on-cpu"})
    from neumo.backends.torch import train as module

    real = torch.amp.GradScaler
    monkeypatch.setattr(
        module.torch.amp, "GradScaler", lambda *a, **k: real(*a, **{**k, "init_scale": 2.0**40})
    )
    result = maker.train(train, max_steps=40)
    assert result.skipped == []
    assert result.losses[-1] < result.losses[0]


def test_the_loss_scale_is_part_of_a_checkpoint(tmp_path):
    options = {"precision": "fp16", "allow": {"fp16-on-cpu"}}
    whole = factory(**options).train(line_graphs()[0], epochs=4)
    factory(**options, folder=tmp_path).train(line_graphs()[0], epochs=2)
    rest = factory(**options, folder=tmp_path).train(line_graphs()[0], epochs=4)
    assert whole.losses[10:] == rest.losses


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("cuda", "without CUDA|no GPU"),
        ("gpu", "no device 'gpu'"),
        ("cuda:7", "without CUDA|no GPU|the GPUs here"),
    ],
)
def test_a_device_that_is_not_there_is_refused(device, words):
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with refused(BackendError, words):
        choose_place(device, "fp32")


def test_an_unknown_precision_is_refused_with_the_nearest():
    with refused(BackendError, "no precision 'bf61'.*did you mean 'bf16'"):
        choose_place("cpu", "bf61")


def test_a_gpu_without_bf16_units_is_refused(monkeypatch):
    from neumo.backends.torch import device

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "V100")
    with refused(BackendError, "V100 has no bf16 units.*7.0.*fp16"):
        device._check_cuda(torch.device("cuda"), "bf16", ())
    assert device._check_cuda(torch.device("cuda"), "bf16", ("emulated-bf16",))
    assert device._check_cuda(torch.device("cuda"), "fp16", ()) == []


def test_a_front_end_without_weights_stays_in_full_precision():
    """A module that has nothing to train would lose digits and gain nothing."""
    batch = PointData(width=1)()
    graph = Graph(outputs={"loss": SquaredError()(given=Line(width=1)(x=batch.x).y, wanted=batch.y).loss})
    maker = factory(precision="bf16")
    exact = factory().infer(graph)[0]["loss"]
    assert maker.infer(graph)[0]["loss"] == pytest.approx(exact, rel=0.05)
    assert maker.infer(graph)[0]["loss"].dtype == np.float32
