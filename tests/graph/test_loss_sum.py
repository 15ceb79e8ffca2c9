"""Sums of losses: which ports they have, what goes together, and what they compute."""

import pytest
import torch

from neumo.backends.torch.registry import build
from neumo.backends.torch.training.numbers import numbers_of
from neumo.graph import LossSum, inputs
from neumo.graph.yaml import load_recipe, save_recipe
from neumo.types import ConfigError, Loss, PortError, Values


def given(**units):
    mean = Loss(reduction="mean")[()]
    return inputs(
        a=mean, b=mean, summed=Loss(reduction="sum")[()], **{k: Values(u)[()] for k, u in units.items()}
    )


def test_losses_are_added_with_their_weights():
    module = build(LossSum({"a": 0.3, "b": 0.7}))
    one, two = torch.tensor(2.0, requires_grad=True), torch.tensor(5.0)
    found = module(a=one, b=two, a_count=None, b_count=None)
    assert found.item() == pytest.approx(0.3 * 2 + 0.7 * 5)
    found.backward()
    assert one.grad.item() == pytest.approx(0.3)
    counted = module(a=one, b=two, a_count=torch.tensor(3.0), b_count=torch.tensor(4.0))
    assert counted.count == 4


def test_weights_are_numbers_that_a_schedule_can_change():
    module = build(LossSum({"a": 0.3, "b": 0.7}))
    assert numbers_of(module, "*") == {"weight_a": 0.3, "weight_b": 0.7}


def test_counts_are_connected_for_all_losses_or_for_none():
    values = given(n="utterances", m="utterances")
    both = LossSum({"a": 0.5, "b": 0.5})
    assert [value.port for value in both(a=values.a, b=values.b)] == ["loss"]
    counted = both(a=values.a, b=values.b, a_count=values.n, b_count=values.m)
    assert str(counted.count.type) == "Values(utterances)[]"
    with pytest.raises(PortError, match="b_count"):
        both(a=values.a, b=values.b, a_count=values.n)


def test_means_over_unlike_things_and_sums_are_refused():
    values = given(n="utterances", m="positions")
    both = LossSum({"a": 0.5, "b": 0.5})
    with pytest.raises(PortError, match="unit"):
        both(a=values.a, b=values.b, a_count=values.n, b_count=values.m)
    with pytest.raises(PortError, match="reduction"):
        both(a=values.a, b=values.summed)
    with pytest.raises(PortError, match=r"\bb\b"):
        both(a=values.a)


@pytest.mark.parametrize(
    "weights",
    [{}, {"a b": 1.0}, {"class": 1.0}, {"_a": 1.0}, {"count": 1.0}, {"a_count": 1.0}, {"a": "1"}, [1.0]],
)
def test_weights_that_cannot_be_meant_are_refused(weights):
    with pytest.raises(ConfigError):
        LossSum(weights)


def test_a_sum_is_written_and_read_in_recipes(tmp_path):
    recipe = load_recipe("""
neumo: 1
modules:
  both: {kind: LossSum, weights: {a: 0.3, b: 0.7}}
graphs:
  g:
    inputs: {a: "Loss(reduction=mean)[]", b: "Loss(reduction=mean)[]"}
    steps:
      whole: both(a=a, b=b)
    outputs: {loss: whole.loss}
""")
    save_recipe(recipe, tmp_path / "again.yaml")
    assert load_recipe(tmp_path / "again.yaml").modules["both"] == LossSum({"a": 0.3, "b": 0.7})
