from itertools import pairwise

import pytest
import torch

from neumo.backends.torch.device import choose_place
from neumo.backends.torch.training.scaling import Scaler, make_scaler
from neumo.engine import SGD, AdamW, NovoGrad
from neumo.engine.updates.precision import LossScale
from neumo.graph.graph import Graph
from neumo.types import BackendError, ConfigError

from ..engine.toys import Line, PointData, SquaredError, line_graphs, refused
from ..parallel.divided_toys import CountedSquares
from .precise import LoudFeatures, factory, stack_graph

FP16 = {"precision": "fp16", "allow": {"fp16-on-cpu"}}


@pytest.fixture
def scales(monkeypatch):
    """The loss scale after each step of a training."""
    seen = []
    plain = Scaler.update

    def update(self, new_scale=None):
        plain(self, new_scale)
        seen.append(self.get_scale())

    monkeypatch.setattr(Scaler, "update", update)
    return seen


def test_fp16_learns():
    result = factory(**FP16).train(line_graphs()[0], optimizer=SGD(lr=0.02), epochs=30)
    assert result.history[-1]["loss"] < 0.1 * result.history[0]["loss"]
    assert result.skipped == []


def test_the_losses_of_fp16_are_those_of_fp64_within_its_digits():
    exact = factory(precision="fp64").train(stack_graph(), max_steps=6).losses
    given = factory(**FP16).train(stack_graph(), max_steps=6, loss_scale=256.0).losses
    assert given == pytest.approx(exact, rel=2e-3)


def test_the_scale_grows_step_by_step_up_to_its_bound(scales):
    spec = LossScale(initial=2.0, growth_interval=2, largest=16.0)
    factory(**FP16).train(line_graphs()[0], max_steps=10, loss_scale=spec)
    assert scales == [2, 4, 4, 8, 8, 16, 16, 16, 16, 16]


def test_the_scale_grows_by_its_own_factor(scales):
    spec = LossScale(initial=1.0, growth=1.5, growth_interval=1, largest=5.0)
    factory(**FP16).train(line_graphs()[0], max_steps=5, loss_scale=spec)
    assert scales == [1.5, 2.25, 3.375, 5.0, 5.0]


def test_an_overflow_is_skipped_and_the_scale_backs_off_and_recovers(scales):
    train, _ = line_graphs()
    maker = factory(**FP16)
    before = maker.weights(train)["line.linear.weight"]
    spec = LossScale(initial=2.0**24, growth_interval=3)
    first = maker.train(train, max_steps=3, loss_scale=spec)
    assert scales == [2.0**23, 2.0**22, 2.0**21]
    assert (maker.weights(train)["line.linear.weight"] == before).all()
    assert first.skipped == []  # it is part of fp16, and not a bad step
    scales.clear()
    result = factory(**FP16).train(train, max_steps=60, optimizer=SGD(lr=0.02), loss_scale=spec)
    falls = [after < before for before, after in pairwise(scales)]
    rises = [after > before for before, after in pairwise(scales)]
    assert any(rises)
    assert falls.index(True) < rises.index(True)
    assert result.losses[-1] < 0.2 * result.losses[0]


def test_an_overflow_at_the_smallest_scale_is_a_bad_step(scales):
    """Features of 1e4 are more than fp16 can hold the gradient of, at any scale."""
    batch = PointData()()
    loud = LoudFeatures(gain=1e4).named("louder")(x=batch.x).y
    fitted = Line().named("line")(x=loud).y
    graph = Graph("train", "train", {"loss": SquaredError()(given=fitted, wanted=batch.y).loss})
    maker = factory(**FP16)
    before = maker.weights(graph)["line.linear.weight"]
    with refused(BackendError, "the gradient of step .* is not finite.*points.csv"):
        maker.train(graph, max_steps=60, loss_scale=LossScale(initial=4.0, smallest=1.0), bad_limit=3)
    assert scales == [2.0, 1.0, 1.0, 1.0, 1.0]  # two overflows, then three bad steps in a row
    assert (maker.weights(graph)["line.linear.weight"] == before).all()
    low = factory(precision="bf16").train(graph, epochs=10, optimizer=AdamW(lr=0.02))
    assert low.skipped == []
    assert low.history[-1]["loss"] < 0.1 * low.history[0]["loss"]


def test_a_loss_that_is_no_number_leaves_the_scale(scales):
    """It says nothing of the scale, which works on gradients, and is no step without an overflow either."""
    graph = line_graphs(data=PointData(shuffle=False, poisoned=(9,)))[0]
    spec = LossScale(initial=16.0, growth_interval=3)
    result = factory(**FP16).train(graph, max_steps=5, loss_scale=spec)
    assert [row["step"] for row in result.skipped] == [2]
    assert scales == [16.0, 16.0, 16.0, 32.0, 32.0]


def test_a_step_whose_loss_counts_nothing_does_not_let_the_scale_grow(scales):
    batch = PointData()()
    fitted = Line().named("line")(x=batch.x).y
    graph = Graph("train", "train", {"loss": CountedSquares(above=1e9).named("squares")(x=fitted).loss})
    factory(**FP16).train(graph, max_steps=4, loss_scale=LossScale(initial=16.0, growth_interval=1))
    assert scales == [16.0] * 4


def test_an_update_does_not_ask_the_device_again_whether_all_is_finite(monkeypatch):
    def asked(*_):
        raise AssertionError("GradScaler.step brings found_inf to the host")

    monkeypatch.setattr(Scaler, "step", asked)
    result = factory(**FP16).train(line_graphs()[0], optimizer=NovoGrad(), max_steps=3, loss_scale=4.0)
    assert len(set(result.losses)) == 3


@pytest.mark.parametrize("nonfinite", ["raise", "skip"])
def test_a_value_out_of_the_range_of_fp16_is_found(nonfinite):
    batch = PointData()()
    loud = LoudFeatures(gain=1e6).named("louder")(x=batch.x).y
    fitted = Line().named("line")(x=loud).y
    graph = Graph("train", "train", {"loss": SquaredError()(given=fitted, wanted=batch.y).loss})
    with refused(BackendError, "the loss of step .* is not finite.*fp16 ends at 65504"):
        factory(**FP16, verify="boundary").train(graph, max_steps=60, nonfinite=nonfinite, bad_limit=3)


def test_a_static_scale_stays(scales):
    factory(**FP16).train(line_graphs()[0], max_steps=4, loss_scale=128.0)
    factory(**FP16).train(
        line_graphs()[0], max_steps=2, loss_scale=LossScale(initial=8.0, growth_interval=None)
    )
    assert scales == [128.0] * 4 + [8.0] * 2


def test_an_overflow_of_a_static_scale_is_a_bad_step():
    with refused(BackendError, "the gradient of step .* is not finite"):
        factory(**FP16).train(line_graphs()[0], max_steps=40, loss_scale=2.0**30, bad_limit=3)


def test_the_scale_and_its_count_are_part_of_a_checkpoint(tmp_path, scales):
    spec = LossScale(initial=2.0**4, growth_interval=7)
    whole = factory(**FP16).train(line_graphs()[0], epochs=4, loss_scale=spec)
    together = list(scales)
    scales.clear()
    factory(**FP16, folder=tmp_path).train(line_graphs()[0], epochs=2, loss_scale=spec)
    rest = factory(**FP16, folder=tmp_path).train(line_graphs()[0], epochs=4, loss_scale=spec)
    assert scales == together
    assert together[13] == 2.0**6  # it grew after step 14, in the second part: 10 steps were counted before
    assert rest.losses == whole.losses[10:]


def test_a_resumed_training_takes_the_scale_and_not_the_rules_of_the_checkpoint():
    old = Scaler("cpu", LossScale(initial=64.0, growth_interval=5))
    new = Scaler("cpu", LossScale(initial=2.0, growth_interval=9, largest=32.0))
    new.load_state_dict(old.state_dict())
    assert new.get_scale() == 32.0
    assert new.get_growth_interval() == 9
    new.load_state_dict({})
    assert new.get_scale() == 32.0


def test_a_step_without_any_gradient_leaves_the_scale():
    scaler = Scaler("cpu", LossScale(initial=4.0, growth_interval=1))
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler.scale(torch.ones(1))
    scaler.unscale_(optimizer)
    assert not scaler.will_back_off
    scaler.update()
    assert scaler.get_scale() == 4.0


def test_a_gradient_that_is_large_but_finite_is_not_the_fault_of_the_scale():
    scaler = Scaler("cpu", LossScale(initial=4.0))
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    assert not scaler.will_back_off
    weight.grad = torch.full((1,), float("inf"))
    scaler.update()
    scaler.unscale_(optimizer)
    assert scaler.will_back_off


@pytest.mark.parametrize("precision", ["fp32", "bf16", "pure-bf16"])
def test_only_fp16_scales_the_loss(precision):
    place = choose_place("cpu", precision)
    assert make_scaler(place, None).scale(torch.ones(1)) == 1.0
    with refused(ConfigError, f"scales nothing: the factory computes in {precision}"):
        make_scaler(place, LossScale())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"initial": 0.5}, "initial=0.5 is not within 1.0"),
        ({"smallest": 0.0}, "are no bounds"),
        ({"largest": float("inf")}, "are no bounds"),
        ({"growth": 1.0}, "growth=1.0 is not above 1"),
        ({"backoff": 1.0}, "backoff=1.0 is not between"),
        ({"growth_interval": 0}, "growth_interval=0 is below 1"),
    ],
)
def test_scales_that_cannot_be_meant_are_refused(settings, words):
    with refused(ConfigError, words):
        LossScale(**settings)


def test_a_scale_that_is_no_number_above_0_is_refused():
    with refused(ConfigError, "loss_scale=0 is not above 0"):
        factory(**FP16).train(line_graphs()[0], max_steps=1, loss_scale=0)
