import numpy as np
import pytest
import torch

from neumo.backends.torch import device as devices
from neumo.backends.torch.device import choose_place
from neumo.backends.torch.float32 import float32_products
from neumo.backends.torch.save import read_tensors
from neumo.backends.torch.training.average import Average
from neumo.engine import EMA, LAMB, AdamW, NovoGrad
from neumo.engine.updates.precision import LEVELS, read_precision
from neumo.graph.graph import Graph
from neumo.types import BackendError

from ..engine.toys import Line, PointData, SquaredError, frame_graph, line_graphs, refused
from .precise import factory, layers_of, stack_graph


@pytest.mark.parametrize("precision", ["fp64", "fp32", "bf16", "pure-bf16", "O0", "O3"])
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
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "V100")
    with refused(BackendError, "V100 has no bf16 units.*7.0.*fp16"):
        devices._check_cuda(torch.device("cuda"), "bf16", ())
    assert devices._check_cuda(torch.device("cuda"), "bf16", ("emulated-bf16",))
    assert devices._check_cuda(torch.device("cuda"), "fp16", ()) == []


def test_a_front_end_without_weights_stays_in_full_precision():
    """A module that has nothing to train would lose digits and gain nothing."""
    batch = PointData(width=1)()
    graph = Graph(outputs={"loss": SquaredError()(given=Line(width=1)(x=batch.x).y, wanted=batch.y).loss})
    maker = factory(precision="bf16")
    exact = factory().infer(graph)[0]["loss"]
    assert maker.infer(graph)[0]["loss"] == pytest.approx(exact, rel=0.05)
    assert maker.infer(graph)[0]["loss"].dtype == np.float32


def losses(precision, **options):
    return factory(precision=precision).train(stack_graph(**options), max_steps=6).losses


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_losses_are_those_of_fp64_within_the_digits_of_each_precision(norm):
    exact = losses("fp64", norm=norm)
    assert losses("fp32", norm=norm) == pytest.approx(exact, rel=1e-5)
    for precision in ("bf16", "pure-bf16"):
        given = losses(precision, norm=norm)
        assert given == pytest.approx(exact, rel=0.02)
        assert given != pytest.approx(exact, rel=1e-6)


def test_pure_bf16_keeps_weights_and_optimizer_state_in_bf16_and_norms_in_fp32(tmp_path):
    graph = stack_graph(norm="batch")
    maker = factory(precision="pure-bf16", folder=tmp_path)
    maker.train(graph, max_steps=4)
    (checkpoint,) = (tmp_path / "checkpoints").iterdir()
    weights = read_tensors(checkpoint / "weights.safetensors")
    assert weights["encoder.blocks.0.linear.weight"].dtype == torch.bfloat16
    assert weights["decoder.linear.bias"].dtype == torch.bfloat16
    assert weights["encoder.blocks.0.norm.weight"].dtype == torch.float32
    assert weights["encoder.blocks.0.norm.running_mean"].dtype == torch.float32
    state = read_tensors(checkpoint / "optimizer.safetensors")
    assert state["encoder.blocks.0.linear.weight/exp_avg_sq"].dtype == torch.bfloat16


def test_a_loss_and_a_front_end_of_pure_bf16_compute_in_fp32():
    graph = stack_graph(gain=2.0)
    maker = factory(precision="pure-bf16")
    maker.train(graph, max_steps=1)
    assert maker.session.implementation(graph.modules["louder"]).given == torch.float32
    encoder, decoder = layers_of(maker, graph)
    assert (encoder.blocks[0].given, decoder.made) == (torch.bfloat16, torch.bfloat16)


def test_statistics_go_on_moving_in_pure_bf16():
    """In bf16 a running mean stops as soon as its steps are below its last digit."""
    graph = stack_graph(norm="batch")
    maker, exact = factory(precision="pure-bf16"), factory(precision="fp64")
    for each in (maker, exact):
        each.train(graph, max_steps=40, optimizer=AdamW(lr=0.0, weight_decay=0.0))
    (encoder, _), (wanted, _) = layers_of(maker, graph), layers_of(exact, graph)
    assert torch.allclose(
        encoder.blocks[0].norm.running_var.double(), wanted.blocks[0].norm.running_var, rtol=0.02
    )


@pytest.mark.parametrize("precision", ["pure-bf16", "bf16"])
def test_a_run_that_was_cut_in_two_is_the_same_run(tmp_path, precision):
    whole = factory(precision=precision).train(stack_graph(norm="batch"), epochs=4)
    factory(precision=precision, folder=tmp_path).train(stack_graph(norm="batch"), epochs=2)
    maker = factory(precision=precision, folder=tmp_path)
    rest = maker.train(stack_graph(norm="batch"), epochs=4)
    assert rest.losses == whole.losses[10:]


def test_bf16_weights_come_back_from_a_file_to_the_last_bit(tmp_path):
    graph = stack_graph()
    maker = factory(precision="pure-bf16")
    maker.train(graph, max_steps=3)
    maker.save(graph, tmp_path / "weights.safetensors")
    other = factory(precision="pure-bf16", seed=9)
    other.load(graph, tmp_path / "weights.safetensors")
    for name, value in maker.weights(graph).items():
        assert np.array_equal(value, other.weights(graph)[name]), name


def test_levels_are_other_names(caplog):
    assert [read_precision(level)[0] for level in LEVELS] == ["fp32", "fp16", "fp16", "pure-bf16"]
    assert read_precision("mxprO3") == read_precision("O3")
    assert "range of fp32" in factory(precision="O3").describe()
    assert factory(precision="mxprO0").session.place.compute == torch.float32
    with refused(BackendError, "fp16 on a CPU is refused"):
        factory(precision="O1")


def test_a_description_says_what_the_device_has_and_why_not_the_rest():
    said = factory(precision="bf16").describe()
    assert "supported: fp32, bf16, fp64, pure-bf16" in said
    assert "has no tf32" in said
    assert "fp16 on a CPU is refused" in said
    assert "fp16 on a CPU is refused" not in factory(allow={"fp16-on-cpu"}).describe()


def test_tf32_is_refused_where_there_is_none(monkeypatch):
    with refused(BackendError, "has no tf32.*mode of NVIDIA GPUs, and this is cpu.*precision='fp32'"):
        factory(precision="tf32")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "V100")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 0))
    with refused(BackendError, "V100 .*has no tf32.*7.0, and tf32 needs 8.0"):
        devices.check_precision(torch.device("cuda"), "tf32")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    assert devices.check_precision(torch.device("cuda"), "tf32") == []
    monkeypatch.setattr(torch.version, "hip", "6.0")
    with refused(BackendError, "this is an AMD GPU"):
        devices.check_precision(torch.device("cuda"), "tf32")


@pytest.mark.parametrize(
    ("capability", "lacking"),
    [((6, 1), ["tf32", "bf16", "pure-bf16"]), ((7, 5), ["tf32", "bf16", "pure-bf16"]), ((9, 0), [])],
)
def test_what_a_gpu_has_follows_from_its_capability(monkeypatch, capability, lacking):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a GPU")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    found = devices.supported(torch.device("cuda"))
    assert [name for name, why in found.items() if why] == lacking
    notes = devices.check_precision(torch.device("cuda"), "fp16")
    assert bool(notes) == (capability < (7, 0))


@pytest.mark.parametrize(
    ("flags", "has"),
    [
        ({"avx512_bf16": True, "amx_bf16": False}, True),
        ({"avx512_bf16": False}, False),
        ({"neon": True}, True),
    ],
)
def test_a_cpu_without_bf16_instructions_says_so(monkeypatch, flags, has):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: flags, raising=False)
    notes = devices.check_precision(torch.device("cpu"), "bf16")
    assert notes == ([] if has else ["this CPU has no bf16 instructions: bf16 saves memory here, not time"])


def switches():
    return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32


@pytest.fixture
def exact_again():
    yield
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = True


@pytest.mark.usefixtures("exact_again")
def test_the_switch_for_tf32_is_put_back():
    gpu = torch.device("cuda")
    for before in (("highest", True), ("high", False)):
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
        with float32_products(gpu, "ieee"):
            assert switches() == ("highest", False)
            with float32_products(gpu, "tf32"):
                assert switches() == ("high", True)
                assert torch.backends.cuda.matmul.allow_tf32
            assert switches() == ("highest", False)
        assert switches() == before


@pytest.mark.usefixtures("exact_again")
def test_fp32_is_exact_whatever_the_process_was_set_to():
    """Elsewhere in the process products of float32 may have been made faster, and less exact."""
    wide = {"data": PointData(width=256, points=64, batch_size=32)}
    x = torch.randn(256, 256, generator=torch.Generator().manual_seed(1))

    def trained():
        return factory().train(line_graphs(**wide)[0], max_steps=4).losses

    exact, product = trained(), x @ x
    torch.set_float32_matmul_precision("medium")
    assert trained() == exact
    assert torch.get_float32_matmul_precision() == "medium"
    if torch.equal(x @ x, product):
        pytest.skip("this CPU computes float32 products in one way only")


def test_averages_of_bf16_weights_are_exact_and_survive_an_evaluation():
    weight = torch.zeros(2, dtype=torch.bfloat16)
    average = Average(EMA(decay=0.999, warmup=False), {"weight": weight})
    weight += 1.0
    for _ in range(100):
        average.update()
    expected = 1.0 - 0.999**100
    assert average.tensors["weight"].tolist() == pytest.approx([expected] * 2, rel=1e-5)
    with average.in_place():
        assert weight.float().tolist() == pytest.approx([expected] * 2, rel=1e-2)
    assert weight.tolist() == [1.0, 1.0]
    assert average.tensors["weight"].tolist() == pytest.approx([expected] * 2, rel=1e-5)
    average.swap()
    average.swap()
    average.update()
    assert average.tensors["weight"].tolist() == pytest.approx([1.0 - 0.999**101] * 2, rel=1e-5)


def test_a_bf16_run_with_averages_that_was_cut_in_two_is_the_same_run(tmp_path):
    train, test = line_graphs()
    whole = factory(precision="pure-bf16")
    whole.train(train, epochs=4, ema=0.9, evaluate=test)
    factory(precision="pure-bf16", folder=tmp_path).train(line_graphs()[0], epochs=2, ema=0.9)
    again, test = line_graphs()
    cut = factory(precision="pure-bf16", folder=tmp_path)
    cut.train(again, epochs=4, ema=0.9, evaluate=test)
    assert np.array_equal(
        cut.weights(again)["line.linear.weight"], whole.weights(train)["line.linear.weight"]
    )


@pytest.mark.parametrize("optimizer", [AdamW(lr=0.02), NovoGrad(lr=0.02), LAMB(lr=0.02)])
def test_going_on_in_another_precision_is_said(tmp_path, optimizer):
    def notes(epochs, **options):
        maker = factory(folder=tmp_path, **options)
        return maker.train(line_graphs()[0], epochs=epochs, optimizer=optimizer).notes

    notes(1)
    assert not [note for note in notes(2) if "goes on in" in note]
    own = notes(3, precision="bf16", precisions={"line": "fp64"})
    assert "the training goes on in bf16, line in fp64, and was in fp32" in own
    assert "the training goes on in pure-bf16, and was in bf16, line in fp64" in notes(
        4, precision="pure-bf16"
    )
    assert "the training goes on in fp32, and was in pure-bf16" in notes(5)
