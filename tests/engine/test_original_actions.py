"""What users of the original toolkit rely on in actions: wiring, modes, training, resuming, inference."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import neumo
from neumo.engine import (
    SGD,
    Adam,
    AdamW,
    Callback,
    Evaluate,
    Linear,
    NeuralFactory,
    NovoGrad,
    Polynomial,
    Run,
    WarmupHold,
)
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import DataLayer
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, ConfigError, F, GraphError, Loss, PortError

from .toys import SquaredError, refused

COLUMN = Acoustic()[B, F(1)]


class SineSource:
    """Points of a sine, in batches of 16."""

    def __init__(self, points: int) -> None:
        self.points = points

    def __len__(self) -> int:
        return self.points

    def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> list[list[int]]:
        return [list(range(at, min(at + 16, self.points))) for at in range(0, self.points, 16)]

    def item(self, index: int, epoch: int) -> dict[str, Any]:
        x = np.random.default_rng(index).uniform(-1, 1, size=1).astype(np.float32)
        return {"x": x, "y": np.sin(2 * x)}

    def collate(self, items: Any) -> dict[str, Any]:
        return {name: np.stack([item[name] for item in items]) for name in ("x", "y")}

    def name(self, index: int) -> str:
        return f"point {index}"

    def report(self) -> None:
        return None


@dataclass(frozen=True)
class SineData(DataLayer):
    """A function to learn."""

    points: int = 64

    def signature(self) -> Signature:
        return Signature(gives={"x": COLUMN, "y": COLUMN})

    def open(self, seed: int) -> Any:
        return SineSource(self.points)


@dataclass
class Taylor(neumo.TorchModule):
    """A polynomial with learned coefficients."""

    degree: int = 4

    def signature(self) -> Signature:
        return Signature(takes={"x": COLUMN}, gives={"y": COLUMN})

    def setup(self) -> None:
        self.coefficients = nn.Linear(self.degree, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.coefficients(torch.cat([x**power for power in range(1, self.degree + 1)], dim=1))


@dataclass
class Plus(neumo.TorchModule):
    """Adds a number: a step whose result can be told by heart."""

    number: float = 10.0

    def signature(self) -> Signature:
        return Signature(takes={"x": COLUMN}, gives={"y": COLUMN})

    def forward(self, x: Tensor) -> Tensor:
        return x + self.number


@dataclass
class Watched(neumo.TorchModule):
    """Writes down in which mode it is called."""

    modes: ClassVar[list[bool]] = []

    def signature(self) -> Signature:
        return Signature(takes={"x": COLUMN}, gives={"y": COLUMN})

    def setup(self) -> None:
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        self.modes.append(self.training)
        return x * self.scale


class Lrs(Callback):
    """Notes the place at the start of a training, and the rate of each step."""

    def __init__(self) -> None:
        self.start = (-1, -1)
        self.rates: list[float] = []

    def on_action_start(self, run: Run) -> None:
        self.start = (run.step, run.epoch)

    def on_step_end(self, run: Run) -> None:
        self.rates.append(run.lr)


def factory(**options: Any) -> NeuralFactory:
    return NeuralFactory(**{"device": "cpu", "seed": 1, "progress": False, "verify": "always", **options})


def taylor_graph(*, chained: bool = False) -> Graph:
    batch = SineData()()
    fitted = Taylor().named("taylor")(x=batch.x).y
    if chained:
        fitted = Taylor(degree=3).named("second")(x=fitted).y
    return Graph("train", "train", {"loss": SquaredError().named("error")(given=fitted, wanted=batch.y).loss})


def test_data_a_trainable_module_and_a_loss_are_wired_and_run():
    graph = taylor_graph()
    assert [step.module.role for step in graph.steps] == ["data", "module", "loss"]
    assert factory().train(graph, max_steps=2).steps == 2


def test_a_loss_cannot_be_wired_into_a_trainable_module():
    batch = SineData()()
    loss = SquaredError()(given=Taylor()(x=batch.x).y, wanted=batch.y)
    with pytest.raises(PortError) as caught:
        Taylor()(x=loss.loss)
    assert caught.value.code in ("element", "axes")
    assert "Loss" in str(caught.value)


def test_the_mode_of_modules_follows_the_action():
    batch = SineData(points=16)()
    seen = Watched().named("watched")(x=batch.x).y
    train = Graph("train", "train", {"loss": SquaredError()(given=seen, wanted=batch.y).loss})
    used = Graph("use", "infer", {"y": seen})
    maker = factory()
    for action, wanted in (
        (lambda: maker.train(train, epochs=1), [True]),
        (lambda: maker.infer(used), [False]),
        (lambda: maker.evaluate(train), [False]),
        (lambda: maker.train(train, epochs=1, evaluate=Evaluate(train, name="again")), [True, False]),
    ):
        Watched.modes.clear()
        action()
        assert Watched.modes == wanted


def test_a_polynomial_is_made_and_called_as_a_module_of_torch_and_as_one_of_a_graph():
    spec = Taylor(degree=2)
    assert spec.degree == 2
    layers = spec.to_torch()
    with torch.no_grad():
        layers.coefficients.weight.copy_(torch.tensor([[2.0, 3.0]]))
        layers.coefficients.bias.fill_(1.0)
    assert layers(torch.tensor([[2.0]])).item() == 1 + 2 * 2 + 3 * 4
    graph = Graph(outputs={"y": spec(x=inputs(x=COLUMN).x).y})
    maker = factory()
    maker.load_weights(spec, {name: value.numpy() for name, value in layers.state_dict().items()})
    assert maker.infer(graph, {"x": np.array([[2.0]], np.float32)})[0]["y"].tolist() == [[17.0]]


@pytest.mark.parametrize("chained", [False, True])
def test_simple_and_chained_graphs_train_for_two_epochs(chained):
    result = factory().train(taylor_graph(chained=chained), optimizer=SGD(lr=0.05, momentum=0.9), epochs=2)
    assert result.steps == 8
    assert [row["epoch"] for row in result.history] == [0, 1]
    assert result.history[1]["loss"] < result.history[0]["loss"]


@pytest.mark.parametrize(
    "optimizer",
    [SGD(lr=0.02), SGD(lr=0.02, momentum=0.9), Adam(lr=0.01), AdamW(lr=0.01), NovoGrad(lr=0.01)],
    ids=["sgd", "momentum", "adam", "adam_w", "novograd"],
)
def test_a_training_that_is_restored_goes_on_at_its_step_epoch_rate_and_state(tmp_path, optimizer):
    def run(epochs: int, **options: Any) -> tuple[Lrs, Any]:
        seen = Lrs()
        # A schedule over a fixed number of steps: it must not see where the first half stops.
        schedule = Linear(warmup_steps=3).over(16)
        result = factory(**options).train(
            taylor_graph(), optimizer=optimizer, schedule=schedule, epochs=epochs, callbacks=[seen]
        )
        return seen, result

    whole, wanted = run(4)
    first, begun = run(2, folder=tmp_path)
    second, ended = run(4, folder=tmp_path)
    assert (whole.start, first.start) == ((0, 0), (0, 0))
    assert second.start == (8, 2)
    assert ended.steps == 16
    assert first.rates + second.rates == whole.rates
    assert begun.losses + ended.losses == wanted.losses


def test_a_value_that_was_inferred_is_where_another_graph_starts():
    """Beside the cache of a factory: an array, and a graph with open inputs that goes on from it."""
    opened = inputs(x=COLUMN)
    first = Plus().named("first")(x=opened.x).y
    whole = Graph("whole", "infer", {"first": first, "second": Plus().named("second")(x=first).y})
    rest = Graph("rest", "infer", {"second": whole.modules["second"](x=inputs(first=COLUMN).first).y})
    maker = factory()
    zero = np.zeros((1, 1), np.float32)
    found = maker.infer(whole, {"x": zero})[0]
    assert (found["first"].item(), found["second"].item()) == (10, 20)
    again = maker.infer(rest, {"first": found["second"]})[0]
    assert again["second"].item() == 30
    assert maker.infer(whole, {"x": zero}, outputs=["first"])[0].keys() == {"first"}


def test_inference_says_what_is_wrong_with_its_inputs():
    opened = inputs(x=COLUMN)
    graph = Graph("rest", "infer", {"y": Plus()(x=opened.x).y})
    with refused(GraphError, "graph 'rest' is not given 'x'"):
        factory().infer(graph)
    with refused(GraphError, "graph 'rest' takes no input 'z'"):
        factory().infer(graph, {"x": np.zeros((1, 1)), "z": np.zeros((1, 1))})
    fed = Graph("fed", "infer", {"y": Plus()(x=SineData()().x).y})
    with refused(GraphError, "graph 'fed' reads from a data layer, so it takes no inputs"):
        factory().infer(fed, {"x": np.zeros((1, 1))})


def test_a_cache_of_inferred_values_is_where_another_graph_goes_on():
    batch = SineData(points=32)()
    seen = Watched().named("watched")(x=batch.x).y
    first = Graph("first", "infer", {"first": Plus().named("first")(x=seen).y})
    rest = Graph("rest", "infer", {"second": Plus().named("second")(x=first.outputs["first"]).y})
    maker = factory()
    Watched.modes.clear()
    found = maker.infer(first, cache=True)
    assert Watched.modes == [False, False]
    again = maker.infer(rest, use_cache=True)
    assert Watched.modes == [False, False]  # what was computed is not computed again
    assert [(one["first"] + 10).tolist() for one in found] == [one["second"].tolist() for one in again]
    maker.clear_cache()
    assert [one["second"].tolist() for one in maker.infer(rest)] == [one["second"].tolist() for one in again]
    assert len(Watched.modes) == 4


def test_a_cache_is_filled_once_and_used_when_it_is_there():
    graph = Graph(outputs={"y": Plus()(x=SineData(points=16)().x).y})
    maker = factory()
    with refused(ConfigError, "cannot fill a cache and go on from one at the same time"):
        maker.infer(graph, cache=True, use_cache=True)
    with refused(ConfigError, "use_cache goes on from a cache, and the factory has none"):
        maker.infer(graph, use_cache=True)
    maker.infer(graph, cache=True)
    with refused(ConfigError, "the factory holds a cache of 2 values of 1 batches"):
        maker.infer(graph, cache=True)
    maker.clear_cache()
    maker.infer(graph, cache=True)
    assert maker.infer(graph, use_cache=True)[0]["y"].tolist() == maker.infer(graph)[0]["y"].tolist()


@pytest.mark.parametrize("schedule", [Polynomial, Linear, neumo.engine.Cosine])
def test_a_warm_up_of_half_the_steps_rises_and_then_falls(schedule):
    rates = [schedule(warmup_ratio=0.5).over(1000)(step) for step in range(1000)]
    assert all(late > early for early, late in pairwise(rates[:500]))
    assert all(late < early for early, late in pairwise(rates[500:]))
    assert max(rates) == rates[499] == 1.0


def test_a_rate_that_is_held_is_the_same_at_a_quarter_and_at_half_and_ends_at_nothing():
    rate = WarmupHold(warmup_ratio=0.25, hold_ratio=0.25).over(1000)
    assert rate(250) == rate(499) == 1.0
    assert rate(100) < rate(250)
    assert rate(750) < rate(500)
    assert rate(1000) == 0.0


def test_a_loss_wrapped_from_torch_trains_like_our_own():
    batch = SineData()()
    error = neumo.wrap(nn.MSELoss(), takes={"given": COLUMN, "wanted": COLUMN}, gives={"loss": Loss()[()]})
    fitted = Taylor().named("taylor")(x=batch.x).y
    wrapped = factory().train(error(given=fitted, wanted=batch.y).loss, optimizer=SGD(lr=0.1), epochs=1)
    assert wrapped.losses == factory().train(taylor_graph(), optimizer=SGD(lr=0.1), epochs=1).losses
