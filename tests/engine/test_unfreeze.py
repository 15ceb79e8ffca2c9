"""Weights that are let free by schedule, and numbers that change over the steps."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from torch import Tensor, nn

from neumo.backends.torch.registry import implements
from neumo.engine import SGD, AdamW, Checkpoint, NeuralFactory, NovoGrad
from neumo.engine.callbacks import Keep, Ramp, ScheduleValue, Unfreeze, on_step_end, on_step_start
from neumo.graph.graph import Graph
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import ConfigError, GraphError, Loss

from .toys import Line, PointData, SquaredError, refused


@dataclass(frozen=True)
class LossSum(NeuralModule):
    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        return Signature(takes={"one": Loss()[()], "two": Loss()[()]}, gives={"loss": Loss()[()]})


@implements(LossSum)
class LossSumLayer(nn.Module):
    def __init__(self, spec: LossSum) -> None:
        super().__init__()

    def forward(self, one: Tensor, two: Tensor) -> Tensor:
        return one + two


def factory(**options):
    return NeuralFactory(**{"device": "cpu", "seed": 3, "progress": False, "verify": "always", **options})


def two_lines(**settings):
    """Two lines whose sum is fitted: `first` will wait, `second` is trained from the start."""
    batch = PointData(noise=0.1)()
    first, second = Line(norm=True, **settings).named("first"), Line().named("second")
    total = SquaredError()(given=first(x=batch.x).y, wanted=batch.y).loss
    other = SquaredError().named("other")(given=second(x=batch.x).y, wanted=batch.y).loss
    return Graph("two", "train", {"loss": LossSum()(one=total, two=other).loss})


class Watch:
    """The weights after each step."""

    def __init__(self, maker, graph):
        self.seen = [maker.weights(graph)]

        @on_step_end
        def look(run):
            self.seen.append(maker.weights(graph))

        self.callback = look

    def moved(self, name):
        pairs = zip(self.seen, self.seen[1:], strict=False)
        return [not np.array_equal(before[name], after[name]) for before, after in pairs]


def trained(callbacks, graph=None, maker=None, **options):
    graph = graph or two_lines()
    maker = maker or factory()
    watch = Watch(maker, graph)
    result = maker.train(
        graph, **{"optimizer": AdamW(lr=0.05), **options}, callbacks=[*callbacks, watch.callback]
    )
    return result, watch


@pytest.mark.parametrize(
    "optimizer", [AdamW(lr=0.05, weight_decay=0.1), SGD(lr=0.01, momentum=0.9), NovoGrad(lr=0.02)]
)
def test_weights_wait_for_their_epoch_with_their_statistics(optimizer):
    """Five steps an epoch: for two epochs nothing of the first line moves, not even by decay."""
    _, watch = trained([Unfreeze({"first": 2})], epochs=3, optimizer=optimizer)
    waits = [False] * 10 + [True] * 5
    for name in ("first.linear.weight", "first.linear.bias", "first.norm.running_mean", "first.norm.weight"):
        assert watch.moved(name) == waits, name
    assert watch.moved("first.norm.num_batches_tracked") == waits
    assert all(watch.moved("second.linear.weight"))


def test_waiting_is_freezing_until_then():
    """As long as a module waits, the training is the one in which it is frozen."""
    graphs = two_lines(dropout=0.5), two_lines(dropout=0.5)
    frozen = factory()
    frozen.freeze(graphs[0], "first")
    expected = frozen.train(graphs[0], optimizer=AdamW(lr=0.05), epochs=2, clip=0.5)
    result, _ = trained([Unfreeze({"first": 2})], graphs[1], epochs=2, clip=0.5)
    assert result.losses == expected.losses


def test_steps_can_be_counted_instead_and_the_earliest_name_wins():
    schedule = Unfreeze({"first": 4, "first.linear.*": 2, "*.bias": 3}, unit="steps")
    _, watch = trained([schedule], max_steps=6)
    assert watch.moved("first.linear.weight") == [False, False, True, True, True, True]
    assert watch.moved("first.linear.bias") == [False, False, True, True, True, True]
    assert watch.moved("second.linear.bias") == [False, False, False, True, True, True]
    assert watch.moved("first.norm.weight") == [False, False, False, False, True, True]


def test_a_layer_that_waits_as_a_whole_computes_as_in_evaluation():
    modes = []
    maker, graph = factory(), two_lines(dropout=0.5)

    @on_step_start(order=6)
    def look(run):
        module = maker.session.implementation(graph["first"])
        modes.append((module.training, module.norm.training, module.drop.training))

    schedule = Unfreeze({"first": 2, "first.norm": 1}, unit="steps")
    trained([schedule, look], graph, maker, max_steps=3)
    assert modes == [(False, False, False), (True, True, True), (True, True, True)]


def test_two_schedules_hold_together():
    _, watch = trained(
        [Unfreeze({"first": 1}, unit="steps"), Unfreeze({"first.linear": 2}, unit="steps")], max_steps=3
    )
    assert watch.moved("first.linear.weight") == [False, False, True]
    assert watch.moved("first.norm.weight") == [False, True, True]


@pytest.mark.parametrize("stop", [3, 5, 7, 12])
def test_it_is_resumed_exactly(stop, tmp_path):
    """Stopped before, at and after the step that lets weights free; the moments start with it."""

    def run(folder, steps):
        graph, maker = two_lines(dropout=0.3), factory(folder=folder)
        result = maker.train(
            graph,
            optimizer=AdamW(lr=0.05),
            max_steps=steps,
            schedule=None,
            checkpoint=Checkpoint(every_steps=1),
            callbacks=[Unfreeze({"first": 1, "first.linear": 2})],
        )
        return result, maker.weights(graph)

    whole, expected = run(tmp_path / "whole", 14)
    first, _ = run(tmp_path / "parts", stop)
    rest, weights = run(tmp_path / "parts", 14)
    assert first.losses + rest.losses == whole.losses
    assert all(np.array_equal(weights[name], expected[name]) for name in expected)


def test_gradients_are_wanted_again_after_the_training():
    maker, graph = factory(), two_lines()
    trained([Unfreeze({"first": 9})], graph, maker, max_steps=2)
    assert maker.frozen == []
    assert all(each.requires_grad for each in maker.session.implementation(graph["first"]).parameters())


def test_waiting_weights_cost_no_backward_pass():
    maker, graph = factory(), two_lines()
    seen = []

    @on_step_start(order=6)
    def look(run):
        module = maker.session.implementation(graph["first"])
        handle = module.linear.register_forward_hook(lambda _m, _i, out: seen.append(out.requires_grad))
        run_handles.append(handle)

    run_handles = []
    trained([Unfreeze({"first": 1}, unit="steps"), look], graph, maker, max_steps=2)
    assert seen[0] is False
    assert seen[-1] is True


def test_something_must_be_trained_from_the_start():
    with refused(ConfigError, "every weight is held"):
        trained([Unfreeze({"*": 1})], epochs=2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Unfreeze({}), "names no weights"),
        (lambda: Unfreeze({"first": 0}), "free from the start"),
        (lambda: Unfreeze({"first": 2}, unit="epoch"), "did you mean 'epochs'"),
        (lambda: ScheduleValue("first", "drop.p"), "has no pieces"),
        (lambda: ScheduleValue("first", "drop.p", Keep(0.1, until=5)), "the last piece ends at 5"),
        (lambda: ScheduleValue("first", "drop.p", Keep(0.1), Keep(0.2)), "only the last piece"),
    ],
)
def test_schedules_that_cannot_be_meant_are_refused(make, words):
    with refused(ConfigError, words):
        make()


def test_a_name_that_means_nothing_is_refused():
    with refused(GraphError, "did you mean 'first'"):
        trained([Unfreeze({"frst": 2})], epochs=3)


def values_of(schedule, total=8, **options):
    seen = []
    maker, graph = factory(**options), two_lines(dropout=0.5)

    @on_step_start(order=6)
    def look(run):
        seen.append(maker.session.implementation(graph["first"]).drop.p)

    maker.train(graph, max_steps=total, callbacks=[schedule, look])
    return seen, maker.session.implementation(graph["first"])


def test_a_number_changes_over_the_steps_and_is_itself_again_afterwards():
    schedule = ScheduleValue("first", "drop.p", Ramp(0.0, 0.4, until=4), Keep(0.4, until=0.75), Keep(0.1))
    seen, module = values_of(schedule)
    assert seen == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.4, 0.1, 0.1])
    assert module.drop.p == 0.5


def test_what_the_number_does_is_what_it_says():
    """A dropout of rate 0 is a training without dropout."""
    graphs = two_lines(dropout=0.5), two_lines()
    quiet = factory().train(graphs[0], epochs=1, callbacks=[ScheduleValue("first", "*.p", Keep(0.0))])
    assert quiet.losses == factory().train(graphs[1], epochs=1).losses


def test_a_module_can_be_given_itself_and_a_number_can_stay_whole():
    graph = two_lines()
    maker = factory()
    layer = maker.session.implementation(graph["first"])
    assert isinstance(layer, nn.Module)
    layer.beam = 4
    seen = []

    @on_step_start(order=6)
    def look(run):
        seen.append(layer.beam)

    schedule = ScheduleValue(graph["first"], "beam", Ramp(1, 5))
    maker.train(graph, max_steps=4, callbacks=[schedule, look])
    assert seen == [1, 2, 3, 4]
    assert all(type(each) is int for each in seen)


def test_the_number_is_restored_on_resume(tmp_path):
    def run(folder, steps):
        maker, graph = factory(folder=folder), two_lines(dropout=0.5)
        schedule = ScheduleValue("first", "drop.p", Ramp(0.0, 0.8, until=8), Keep(0.2))
        return maker.train(graph, max_steps=steps, callbacks=[schedule], checkpoint=Checkpoint(every_steps=1))

    whole = run(tmp_path / "whole", 10)
    first, rest = run(tmp_path / "parts", 5), run(tmp_path / "parts", 10)
    assert first.losses + rest.losses == whole.losses


def test_the_number_is_itself_again_when_the_training_fails():
    maker, graph = factory(), two_lines(dropout=0.5)

    @on_step_end
    def fail(run):
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        maker.train(graph, max_steps=4, callbacks=[ScheduleValue("first", "drop.p", Keep(0.1)), fail])
    assert maker.session.implementation(graph["first"]).drop.p == 0.5


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (ScheduleValue("frst", "drop.p", Keep(0.1)), "did you mean 'first'"),
        (ScheduleValue("first", "dropp.p", Keep(0.1)), "did you mean 'drop.p'"),
        (ScheduleValue("first", "training", Keep(0.1)), "has no number 'training'"),
        (ScheduleValue("first", "*.pp", Keep(0.1)), r"did you mean '\*.p'"),
        (ScheduleValue("first", "drop.p", Keep(0.1, until=4), Keep(0.2, until=3), Keep(0.3)), "begins at"),
    ],
)
def test_numbers_that_do_not_exist_are_refused(schedule, words):
    with refused(ConfigError, words) as caught:
        values_of(schedule)
    assert "in_features" not in str(caught.value)
