"""Compiled modules and plans: the same numbers, one translation for all sizes, and reasons where it fails."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from neumo.backends.torch.compile import Compiler
from neumo.backends.torch.device import choose_place
from neumo.backends.torch.execute import TorchProgram
from neumo.backends.torch.registry import implements
from neumo.engine import AdamW, Compile, NeuralFactory
from neumo.engine.plan import compile_plan
from neumo.engine.recipes import read_actions
from neumo.engine.updates.compile import read_compile
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.graph.yaml import load_recipe
from neumo.types import Acoustic, B, BackendError, ConfigError, F, GraphError, NeumoError, T

from ..engine.toys import Line, MeanError, PointData, SquaredError, refused

HAS_COMPILER = shutil.which(os.environ.get("CXX", "g++")) is not None
needs_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="inductor needs a C++ compiler on a CPU")


@dataclass(frozen=True)
class Smooth(NeuralModule):
    """Two layers and a normalisation over frames."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, T, F(3)]}, gives={"y": Acoustic()[B, T, F(3)]})


@implements(Smooth)
class SmoothLayer(nn.Module):
    def __init__(self, spec: Smooth) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.first, self.second = nn.Linear(3, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(self.norm(x.transpose(1, 2)).transpose(1, 2)).relu())


@dataclass(frozen=True)
class ReadsNumbers(NeuralModule):
    """What it does depends on the numbers; `says` is whether it says so."""

    says: bool = False

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, T, F(3)]}, gives={"y": Acoustic()[B, T, F(3)]})


@implements(ReadsNumbers)
class ReadsNumbersLayer(nn.Module):
    def __init__(self, spec: ReadsNumbers) -> None:
        super().__init__()
        self.compiles = not spec.says

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if float(x.sum()) > 0 else x


def smooth_graph(*more: NeuralModule) -> Graph:
    value = Smooth().named("smooth")(x=inputs(x=Acoustic()[B, T, F(3)]).x).y
    for module in more:
        value = module(x=value).y
    return Graph("smooth", "both", {"y": value})


def line_graphs(dropout: float = 0.3) -> tuple[Graph, Graph]:
    line, data = Line(norm=True, dropout=dropout).named("line"), PointData(noise=0.1).named("data")
    points = data()
    given = line(x=points.x).y
    loss = SquaredError().named("loss")(given=given, wanted=points.y)
    train = Graph("train", "train", {"loss": loss.loss})
    score = MeanError().named("error")(given=given, wanted=points.y).score
    return train, Graph("evaluate", "both", {"error": score})


def translations() -> int:
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


def cpu(**settings: Any) -> NeuralFactory:
    return NeuralFactory(device="cpu", seed=1, progress=False, **settings)


@needs_compiler
class TestCompiled:
    def test_gives_the_same_for_all_sizes_with_one_translation_and_the_same_gradients(self) -> None:
        graph = smooth_graph()
        plain, compiled = cpu(), cpu(compile=True)
        plan = compile_plan(graph)
        programs = [factory.session.program(plan) for factory in (plain, compiled)]
        layers = [factory.session.implementation(graph.modules["smooth"]) for factory in (plain, compiled)]
        rng = torch.Generator().manual_seed(2)
        before = None
        for batch, frames in [(4, 7), (5, 11), (2, 9), (3, 20), (6, 8), (7, 13), (5, 31)]:
            x = torch.randn(batch, frames, 3, generator=rng)
            values = [program([x])[0] for program in programs]
            assert torch.allclose(values[0], values[1], atol=1e-5)
            for layer, value in zip(layers, values, strict=True):
                layer.zero_grad()
                value.pow(2).mean().backward()
            for one, other in zip(layers[0].parameters(), layers[1].parameters(), strict=True):
                assert torch.allclose(one.grad, other.grad, atol=1e-5)  # pyright: ignore[reportArgumentType]
            before = translations() if before is None else before
        assert translations() == before
        assert list(layers[1].state_dict()) == list(layers[0].state_dict())
        for one, other in zip(layers[0].buffers(), layers[1].buffers(), strict=True):
            assert torch.allclose(one, other, atol=1e-5)  # each batch has been counted once
        assert int(layers[1].norm.num_batches_tracked) == 7

    @pytest.mark.proof
    def test_a_resumed_training_is_the_same_training(self, tmp_path: Path) -> None:
        train, evaluate = line_graphs()
        options: dict[str, Any] = {"optimizer": AdamW(lr=1e-2), "evaluate": evaluate}
        whole = cpu(compile="line")
        whole.train(train, epochs=4, **options)
        for epochs in (2, 4):
            parts = cpu(compile="line", folder=tmp_path)
            result = parts.train(train, epochs=epochs, **options)
        assert result.resumed_from is not None
        line = train.modules["line"]
        for name, value in whole.weights(line).items():
            assert np.array_equal(value, parts.weights(line)[name]), name

    @pytest.mark.proof
    def test_same_random_draws_what_uncompiled_code_draws(self) -> None:
        train, _ = line_graphs(0.5)
        losses = [
            cpu(compile=how).train(train, max_steps=6).losses
            for how in (None, Compile(same_random=True), Compile())
        ]
        assert np.allclose(losses[0], losses[1], rtol=1e-4)
        assert not np.allclose(losses[0], losses[2], rtol=1e-4)

    @pytest.mark.proof
    def test_a_module_that_says_so_runs_as_it_is(self) -> None:
        x = np.ones((2, 5, 3), np.float32)
        graph = smooth_graph(ReadsNumbers(says=True).named("reads"))
        (plain,), (compiled,) = cpu().infer(graph, {"x": x}), cpu(compile=True).infer(graph, {"x": x})
        assert np.allclose(plain["y"], compiled["y"], atol=1e-5)

    @pytest.mark.proof
    def test_bf16_is_the_same_as_uncompiled_bf16(self) -> None:
        x = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
        results = [
            cpu(precision="bf16", compile=how).infer(smooth_graph(), {"x": x})[0]["y"]
            for how in (False, True)
        ]
        assert np.allclose(*results, atol=2e-2)


@needs_compiler
class TestRefused:
    def test_names_the_module_that_cannot_be_followed_and_the_ways_out(self) -> None:
        graph = smooth_graph(ReadsNumbers().named("reads"))
        with pytest.raises(BackendError, match="reads cannot be compiled") as caught:
            cpu(compile=True).infer(graph, {"x": np.ones((2, 5, 3), np.float32)})
        assert any("compile=['smooth']" in str(fix) for fix in caught.value.fixes)

    @pytest.mark.proof
    def test_graph_breaks_are_allowed_by_name_and_said(self, caplog: pytest.LogCaptureFixture) -> None:
        graph = smooth_graph(ReadsNumbers().named("reads"))
        x = np.ones((2, 5, 3), np.float32)
        (given,) = cpu(compile=True, allow={"graph-breaks"}).infer(graph, {"x": x})
        assert np.allclose(given["y"], cpu().infer(graph, {"x": x})[0]["y"], atol=1e-5)
        assert "some are not compiled" in caplog.text

    @pytest.mark.proof
    def test_shapes_that_keep_changing_are_refused_with_the_way_out(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import torch._dynamo.config as limits

        monkeypatch.setattr(limits, "recompile_limit", 2)
        factory, graph = cpu(compile=Compile(dynamic=False)), smooth_graph()
        program = factory.session.program(compile_plan(graph))

        def run() -> None:
            for frames in (5, 6, 7):
                program([torch.ones(2, frames, 3)])

        with torch.no_grad(), pytest.raises(Exception) as caught:  # torch has its own
            run()
        told = program.explain(caught.value)
        assert isinstance(told, BackendError)
        assert "again and again" in str(told)
        assert any("dynamic=True" in str(fix) for fix in told.fixes)

    def test_an_unknown_name_is_refused_with_the_nearest(self) -> None:
        with pytest.raises(GraphError, match="no module 'smoth'") as caught:
            cpu(compile="smoth").infer(smooth_graph(), {"x": np.ones((2, 5, 3), np.float32)})
        assert "smooth" in str(caught.value.fixes)

    def test_a_named_module_that_says_it_cannot_is_refused(self) -> None:
        graph = smooth_graph(ReadsNumbers(says=True).named("reads"))
        with pytest.raises(BackendError, match="reads cannot be compiled"):
            cpu(compile="reads").infer(graph, {"x": np.ones((2, 5, 3), np.float32)})

    def test_what_fails_uncompiled_is_told_as_such(self) -> None:
        graph = smooth_graph()
        program = cpu(compile=True, verify="off").session.program(compile_plan(graph))
        with pytest.raises(RuntimeError) as caught:
            program([torch.ones(2, 5, 4)])
        assert "smooth failed" in str(program.explain(caught.value))

    @pytest.mark.parametrize("settings", [Compile(cuda_graphs=True), Compile(mode="reduce-overhead")])
    def test_cuda_graphs_need_a_gpu(self, settings: Compile) -> None:
        with pytest.raises(BackendError, match="the device is a CPU"):
            cpu(compile=settings)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("true", Compile()),
        ("encoder", Compile(modules=("encoder",))),
        ("[encoder, head*]", Compile(modules=("encoder", "head*"))),
        ("{modules: [encoder], dynamic: false}", Compile(modules=("encoder",), dynamic=False)),
        ("{mode: max-autotune, cuda_graphs: true}", Compile(mode="max-autotune", cuda_graphs=True)),
    ],
)
def test_a_recipe_says_the_same(tmp_path: Path, written: str, meant: Compile) -> None:
    (tmp_path / "recipe.yaml").write_text(f"""\
neumo: 1
modules:
  data: {{kind: PointData}}
  line: {{kind: Line}}
graphs:
  test:
    mode: infer
    steps:
      batch: data()
      fitted: line(x=batch.x)
    outputs: {{y: fitted.y}}
factory: {{compile: {written}}}
""")
    assert read_compile(read_actions(load_recipe(tmp_path / "recipe.yaml")).factory.compile) == meant


@needs_compiler
def test_weights_in_parts_are_refused() -> None:
    with pytest.raises(BackendError, match="FSDP do not go together"):
        Compiler(Compile(), choose_place("cpu", "fp32"), sharded=True)


def test_a_missing_compiler_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(BackendError, match="there is no 'no-such-compiler'") as caught:
        cpu(compile=True)
    assert "g++" in str(caught.value.fixes)


@pytest.mark.parametrize("given", [3, ["encoder", 3], []])
def test_what_names_no_modules_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="compile"):
        read_compile(given)


def test_an_unknown_mode_is_refused_with_the_nearest() -> None:
    with pytest.raises(NeumoError, match="no mode 'max-auto'") as caught:
        Compile(mode="max-auto")  # pyright: ignore[reportArgumentType]
    assert "max-autotune" in str(caught.value.fixes)


def test_recorded_work_is_refused_with_several_batches_a_step(monkeypatch) -> None:
    """A batch might overwrite what the one before it has computed, until a GPU has proved otherwise."""
    monkeypatch.setattr(TorchProgram, "records", True)
    batch = PointData()()
    loss = SquaredError()(given=Line().named("line")(x=batch.x).y, wanted=batch.y).loss
    graph = Graph("recorded", "train", {"loss": loss})
    factory = NeuralFactory(device="cpu", seed=3, progress=False)
    assert factory.train(graph, max_steps=2).steps == 2
    with refused(BackendError, "CUDA graphs were asked for.*several batches.*cuda_graphs=False"):
        factory.train(graph, max_steps=2, batches_per_step=2)
