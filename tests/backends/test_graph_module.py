"""Graphs as plain torch modules: hand-written loops, compilers, data parallelism, copies and export."""

from __future__ import annotations

import copy
import inspect
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import neumo
from neumo.backends.torch.graph_module import to_torch
from neumo.engine import SGD, NeuralFactory
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, BackendError, F, GraphError, Loss

from ..engine.toys import Line, MeanError, PointData, SquaredError, line_graphs, refused

ROW = Acoustic()[B, F(3)]
COLUMN = Acoustic()[B, F(1)]


def factory(**options: Any) -> NeuralFactory:
    return NeuralFactory(**{"device": "cpu", "seed": 3, "progress": False, **options})


def open_graph(norm: bool = True) -> Graph:
    """A line with a batch norm, called on two inputs, and the error of one of them."""
    opened = inputs(x=ROW, other=ROW, y=COLUMN)
    line, error = Line(norm=norm).named("line"), SquaredError().named("error")
    fitted = line(x=opened.x).y
    return Graph(
        "both",
        outputs={"y": fitted, "z": line(x=opened.other).y, "loss": error(given=fitted, wanted=opened.y).loss},
    )


def batch_of(rows: int = 5) -> dict[str, Tensor]:
    torch.manual_seed(rows)
    return {"x": torch.randn(rows, 3), "other": torch.randn(rows, 3), "y": torch.randn(rows, 1)}


@pytest.fixture
def model() -> nn.Module:
    return to_torch(open_graph(), seed=3).eval()


def test_it_computes_what_the_factory_infers(model):
    given = batch_of()
    wanted = factory().infer(open_graph(), {name: value.numpy() for name, value in given.items()})[0]
    for found in (
        model(**given),
        model(*given.values()),
        model(given["x"], y=given["y"], other=given["other"]),
    ):
        assert list(found) == ["y", "z", "loss"]
        for name, value in wanted.items():
            assert np.array_equal(found[name].detach().numpy(), value)


def test_parameters_are_called_as_in_the_factory_and_shared_modules_appear_once(model):
    weights = factory().weights(open_graph())
    state = model.state_dict()
    assert list(state) == list(weights)
    assert all(np.array_equal(state[name].numpy(), weights[name]) for name in weights)
    assert [name for name, _ in model.named_children()] == ["line", "error"]
    assert [name for name, _ in model.named_parameters()] == [
        "line.norm.weight", "line.norm.bias", "line.linear.weight", "line.linear.bias",
    ]  # fmt: skip


def test_weights_go_both_ways(model):
    graph, maker = open_graph(), factory(seed=8)
    maker.load_weights(graph, model.state_dict())
    given = batch_of()
    found = maker.infer(graph, {name: value.numpy() for name, value in given.items()})[0]
    assert np.array_equal(found["y"], model(**given)["y"].detach().numpy())
    other = to_torch(open_graph(), seed=9).eval()
    other.load_state_dict({name: torch.as_tensor(value) for name, value in maker.weights(graph).items()})
    assert torch.equal(other(**given)["z"], model(**given)["z"])


def test_modes_reach_the_modules(model):
    assert not model.line.norm.training
    given = batch_of()
    before = model.line.norm.running_mean.clone()
    model(**given)
    assert torch.equal(model.line.norm.running_mean, before)
    assert model.train() is model
    assert model.line.norm.training
    model(**given)
    assert not torch.equal(model.line.norm.running_mean, before)


def test_a_new_module_is_in_training_mode_as_all_of_torch():
    assert to_torch(open_graph()).line.norm.training


def train_by_hand(model: nn.Module, batches: list[dict[str, Tensor]], call: Any = None) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses: list[float] = []
    for given in batches:
        loss = (model if call is None else call)(**given)["loss"]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def test_a_hand_written_loop_trains_as_the_factory_does():
    train, _ = line_graphs(PointData(shuffle=False))
    maker = factory()
    wanted = maker.train(train, optimizer=SGD(lr=0.05), epochs=2).losses
    graph, _ = line_graphs(PointData(shuffle=False))
    model = to_torch(graph, seed=3)
    assert list(inspect.signature(model.forward).parameters) == ["x", "y"]
    source = PointData(shuffle=False).open(0)
    arrays = [source.collate([source.item(i, 0) for i in batch]) for batch in source.batches(0)]
    batches = [{name: torch.as_tensor(array[name]) for name in ("x", "y")} for array in arrays]
    assert np.allclose(train_by_hand(model, batches * 2), wanted, rtol=1e-5)


def test_modules_of_a_factory_are_shared_and_stay_frozen():
    graph, maker = open_graph(), factory()
    maker.freeze(graph, "line.norm")
    model = to_torch(graph, factory=maker).train()
    assert model.line is maker.session.implementation(graph.modules["line"])
    assert (model.line.training, model.line.norm.training) == (True, False)
    before = maker.weights(graph)
    train_by_hand(model, [batch_of()] * 3)
    after = maker.weights(graph)
    changed = {name for name in after if not np.array_equal(before[name], after[name])}
    assert changed == {"line.linear.weight", "line.linear.bias"}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_it_compiles_in_one_piece(model, backend):
    torch.compiler.reset()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    given = batch_of()
    for name, value in model(**given).items():
        assert torch.allclose(compiled(**given)[name], value, atol=1e-6)
    model.train()
    twin = copy.deepcopy(model)
    torch.compiler.reset()
    losses = train_by_hand(model, [given] * 3, torch.compile(model, backend=backend, fullgraph=True))
    assert np.allclose(losses, train_by_hand(twin, [given] * 3), rtol=1e-5)


@pytest.fixture
def one_process() -> Iterator[None]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("one_process")
def test_it_trains_under_distributed_data_parallelism():
    model, twin = to_torch(open_graph(), seed=3), to_torch(open_graph(), seed=3)
    parallel = nn.parallel.DistributedDataParallel(model)
    batches = [batch_of(rows) for rows in (4, 6, 5)]
    assert np.allclose(train_by_hand(parallel, batches), train_by_hand(twin, batches), rtol=1e-6)
    assert torch.equal(model.line.linear.weight, twin.line.linear.weight)


def test_a_copy_has_layers_of_its_own(model):
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.line.linear.weight.zero_()
        twin.line.linear.bias.fill_(2.0)
    given = batch_of()
    assert twin(**given)["y"].unique().tolist() == [2.0]
    assert model(**given)["y"].unique().numel() > 1


def test_it_moves_to_other_precisions_and_devices(model):
    given = batch_of()
    wide = copy.deepcopy(model).to(torch.float64)
    found = wide(**{name: value.double() for name, value in given.items()})["y"]
    assert found.dtype is torch.float64
    assert torch.allclose(found.float(), model(**given)["y"], atol=1e-5)
    shape = copy.deepcopy(model).to("meta")(**{name: value.to("meta") for name, value in given.items()})["y"]
    assert shape.shape == (5, 1)


def test_it_is_exported_with_the_names_of_its_inputs():
    opened = inputs(x=ROW)
    line = Line(norm=True).named("line")
    model = to_torch(Graph(outputs={"y": line(x=opened.x).y})).eval()
    rows = torch.export.Dim("rows", min=2)
    program = torch.export.export(model, (), {"x": torch.randn(4, 3)}, dynamic_shapes={"x": {0: rows}})
    given = torch.randn(7, 3)
    assert torch.allclose(program.module()(x=given)["y"], model(x=given)["y"], atol=1e-6)
    assert set(program.state_dict) == set(model.state_dict())


@dataclass
class AddUp(neumo.TorchModule):
    """Adds any number of rows, and says how many they were."""

    def signature(self) -> Signature:
        return Signature(
            takes={"rows": ROW.as_many(), "more": ROW.as_optional()}, gives={"y": ROW, "last": ROW}
        )

    def forward(self, rows: tuple[Tensor, ...], more: Tensor | None) -> tuple[Tensor, Tensor]:
        total = torch.stack(rows).sum(dim=0)
        return (total if more is None else total + more), rows[-1]


def test_ports_of_many_values_and_open_ones_are_called_right():
    opened = inputs(x=ROW, other=ROW)
    summed = AddUp()(rows=[opened.x, opened.other, opened.x])
    model = to_torch(Graph(outputs={"y": summed.y, "last": summed.last}))
    x, other = torch.randn(2, 3), torch.randn(2, 3)
    for call in (model, torch.compile(model, backend="eager", fullgraph=True)):
        found = call(x=x, other=other)
        assert torch.allclose(found["y"], 2 * x + other)
        assert torch.equal(found["last"], x)


class Difference(nn.Module):
    def forward(self, *, two: Tensor, one: Tensor) -> Tensor:
        return one - two


def test_keywords_of_forward_are_passed_by_name():
    minus = neumo.wrap(Difference(), takes={"one": ROW, "two": ROW}, gives={"y": ROW})
    opened = inputs(a=ROW, b=ROW)
    model = to_torch(Graph(outputs={"y": minus(one=opened.a, two=opened.b).y}))
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    assert torch.equal(model(a, b)["y"], a - b)


def test_a_wrapped_module_is_called_and_read_by_its_rule():
    row = Acoustic()[B, F(4)]
    cell = neumo.wrap(nn.LSTM(3, 4), takes={"frames": ROW}, gives={"out": row, "h": None, "c": None})
    model = to_torch(Graph(outputs={"out": cell(frames=inputs(x=ROW).x).out}))
    given = torch.randn(6, 3)
    assert torch.equal(model(x=given)["out"], cell.module(given)[0])
    assert next(iter(model.state_dict())) == "LSTM.weight_ih_l0"
    assert torch.equal(copy.deepcopy(model)(given)["out"], model(given)["out"])


def test_tied_weights_stay_one_in_the_module_and_its_copies():
    opened = inputs(x=ROW)
    first, second = (
        neumo.wrap(nn.Linear(3, 3), takes={"x": ROW}, gives={"y": ROW}, name=name) for name in ("one", "two")
    )
    graph, maker = Graph(outputs={"y": second(x=first(x=opened.x).y).y}), factory()
    maker.tie(graph, "two.weight", "one.weight", transpose=True)
    model = to_torch(graph, factory=maker)
    assert len(list(model.parameters())) == 3
    assert sorted(model.state_dict()) == ["one.bias", "one.weight", "two.bias", "two.weight"]
    for each in (model, copy.deepcopy(model)):
        given = torch.randn(2, 3)
        before = each(x=given)["y"]
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1)
        before.sum().backward()
        optimizer.step()
        assert torch.equal(each.two.weight, each.one.weight.t())
        assert not torch.equal(each(x=given)["y"], before)
        compiled = torch.compile(each, backend="aot_eager", fullgraph=True)(x=given)["y"]
        assert torch.allclose(compiled, each(x=given)["y"], atol=1e-6)
    other = copy.deepcopy(model)
    other.load_state_dict({name: value + 1 for name, value in model.state_dict().items()})
    assert torch.equal(other.two.weight, model.two.weight + 1)
    assert torch.equal(other.one.weight, other.two.weight.t())


def test_metrics_are_left_out():
    _, test = line_graphs()
    with refused(GraphError, "has only metrics.*evaluate"):
        to_torch(test)
    batch = PointData()()
    fitted = Line().named("line")(x=batch.x).y
    graph = Graph(outputs={"y": fitted, "error": MeanError()(given=fitted, wanted=batch.y).score})
    model = to_torch(graph)
    assert list(inspect.signature(model.forward).parameters) == ["x"]
    assert list(model(torch.zeros(1, 3))) == ["y"]


@pytest.mark.parametrize(
    ("values", "named", "words"),
    [
        ((), {"x": 1, "other": 2}, "the graph is not given 'y' its inputs are x, other, y"),
        ((), {"x": 1, "othr": 2, "y": 3}, "takes no input 'othr'.*did you mean 'other'"),
        ((1, 2, 3, 4), {}, "takes 3 inputs, and got 4"),
        ((1, 2), {"x": 1, "y": 2}, "the input 'x' is given twice"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(model, values, named, words):
    with refused(GraphError, words) as caught:
        model(*values, **named)
    assert caught.value.code == "inputs"


def test_names_of_torch_and_other_factories_are_refused():
    opened = inputs(x=ROW)
    graph = Graph(outputs={"y": Line().named("train")(x=opened.x).y})
    with refused(GraphError, "a module called 'train' cannot be part of a torch module"):
        to_torch(graph)
    with refused(GraphError, "computes with SimpleNamespace, not with torch"):
        to_torch(open_graph(), factory=SimpleNamespace(session=SimpleNamespace()))  # type: ignore[arg-type]


def test_a_module_that_returns_another_number_of_values_is_named():
    @dataclass
    class Liar(neumo.TorchModule):
        def signature(self) -> Signature:
            return Signature(takes={"x": ROW}, gives={"y": ROW, "loss": Loss()[()]})

        def forward(self, x: Tensor) -> Tensor:
            return x

    told = Liar()(x=inputs(x=ROW).x)
    with refused(BackendError, "Liar returned a Tensor; its signature gives 2"):
        to_torch(Graph(outputs={"y": told.y}))(torch.zeros(1, 3))


@dataclass
class Through(neumo.TorchModule):
    """A layer that can be pickled."""

    def signature(self) -> Signature:
        return Signature(takes={"x": ROW, "more": ROW.as_optional()}, gives={"y": ROW})

    def setup(self) -> None:
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor, more: Tensor | None) -> Tensor:
        return self.layer(x) if more is None else self.layer(x) + more


def test_it_is_pickled_whole(tmp_path):
    opened = inputs(more=ROW.as_optional(), x=ROW)
    model = to_torch(Graph(outputs={"y": Through()(x=opened.x, more=opened.more).y}))
    torch.save(model, tmp_path / "model.pt")
    again = torch.load(tmp_path / "model.pt", weights_only=False)
    given = torch.randn(2, 3)
    assert torch.equal(again(given)["y"], model(given)["y"])
    assert again.Through.layer.weight is not model.Through.layer.weight


def test_an_input_that_may_be_absent_may_be_left_out():
    opened = inputs(more=ROW.as_optional(), x=ROW)
    model = to_torch(Graph(outputs={"y": Through()(x=opened.x, more=opened.more).y}))
    assert str(inspect.signature(model.forward)) == "(x, more=None)"
    given = torch.randn(2, 3)
    assert torch.equal(model(x=given)["y"] + 1, model(given, torch.ones(2, 3))["y"])
    assert torch.equal(model(more=None, x=given)["y"], model(given)["y"])
    graph = Graph(outputs={"y": Through().named("through")(x=opened.x, more=opened.more).y})
    maker, ones = factory(verify="always"), np.ones((2, 3), np.float32)
    without = maker.infer(graph, {"x": given.numpy()})[0]["y"]
    assert np.allclose(maker.infer(graph, {"x": given.numpy(), "more": ones})[0]["y"], without + 1)
    assert np.allclose(to_torch(graph, factory=maker).eval()(given)["y"].detach(), without)


def test_two_data_layers_with_one_name_are_refused():
    one, two = PointData().named("one")(), PointData().named("two")()
    line = Line()
    with refused(GraphError, r"two data layers of graph 'graph' give 'x' one\.x two\.x"):
        to_torch(Graph(outputs={"a": line(x=one.x).y, "b": line(x=two.x).y}))


@dataclass
class Guided(neumo.TorchModule):
    """Adds what it should give while it is trained."""

    def signature(self) -> Signature:
        aim = Acoustic().only("train")[B, F(3)]
        takes = {"x": ROW, "aim": aim, "bias": ROW.as_optional()}
        return Signature(takes=takes, gives={"y": ROW})

    def forward(self, x: Tensor, aim: Tensor | None, bias: Tensor | None) -> Tensor:
        y = x if bias is None else x + bias
        return y if aim is None else y + aim


def test_in_evaluation_a_graph_for_both_does_without_what_is_for_training_only() -> None:
    opened = inputs(x=ROW, aim=ROW, bias=ROW.as_optional())
    y = Guided()(x=opened.x, aim=opened.aim, bias=opened.bias).y
    both = to_torch(Graph("guided", "both", {"y": y}))
    x, one = torch.zeros(2, 3), torch.ones(2, 3)
    for model in (both, copy.deepcopy(both)):
        assert model.train()(x=x, aim=one)["y"].tolist() == one.tolist()
        assert model.eval()(x=x, aim=one)["y"].tolist() == x.tolist()
        assert model.eval()(x=x, bias=one)["y"].tolist() == one.tolist()
        with refused(GraphError, "the graph is not given 'aim'"):
            model.train()(x=x)
    parameters = inspect.signature(both.forward).parameters
    assert [name for name, each in parameters.items() if each.default is inspect.Parameter.empty] == ["x"]
    trained = to_torch(Graph("guided", "train", {"y": y})).eval()
    with refused(GraphError, "the graph is not given 'aim'"):
        trained(x=x)


def test_both_modes_of_a_graph_for_both_are_compiled_and_exported() -> None:
    opened = inputs(x=ROW, aim=ROW)
    y = Guided()(x=opened.x, aim=opened.aim).y
    model = to_torch(Graph("guided", "both", {"y": y}))
    x, one = torch.zeros(2, 3), torch.ones(2, 3)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert compiled(x=x, aim=one)["y"].tolist() == one.tolist()
    compiled.eval()
    assert compiled(x=x, aim=one)["y"].tolist() == compiled(x=x)["y"].tolist() == x.tolist()
    program = torch.export.export(model.eval(), (), {"x": x})
    assert program.module()(x=one)["y"].tolist() == one.tolist()
    program = torch.export.export(model.train(), (), {"x": x, "aim": one})
    assert program.module()(x=x, aim=one)["y"].tolist() == one.tolist()


def test_what_a_data_layer_gives_beside_is_not_looked_at() -> None:
    train, _ = line_graphs(PointData(points=4, batch_size=2))
    model, source = to_torch(train), PointData(points=4, batch_size=2).open(0)
    arrays = source.collate([source.item(index, 0) for index in source.batches(0)[0]])
    assert "item" in arrays
    assert model(**{name: torch.as_tensor(array) for name, array in arrays.items()})["loss"].shape == ()
    with refused(GraphError, "the graph takes no input 'itm'"):
        model(itm=1)
    opened = inputs(x=ROW, other=ROW)
    used = to_torch(Graph(outputs={"y": Line().named("line")(x=opened.x).y}))
    with refused(GraphError, "the graph takes no input 'other'"):
        used(x=torch.zeros(2, 3), other=torch.zeros(2, 3))
