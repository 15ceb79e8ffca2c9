"""Transposed ties beside other parametrizations, and the files and copies of torch."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from neumo.backends.torch.tie import find_weight, plain_name, tie_weight, untie_weight
from neumo.backends.torch.weights import named_weights, state_names
from neumo.types import GraphError


def pair() -> nn.ModuleDict:
    torch.manual_seed(0)
    both = nn.ModuleDict({"one": nn.Linear(3, 2), "two": nn.Linear(2, 3)})
    tie_weight(find_weight(both, "one.weight", "m"), find_weight(both, "two.weight", "m"), transpose=True)
    return both


def test_names_of_other_parametrizations_stay():
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    assert sorted(named_weights(normed)) == sorted(normed.state_dict())
    name = "parametrizations.weight.original0"
    assert plain_name(normed, name) == name
    assert find_weight(normed, name, "m").parameter is normed.parametrizations.weight.original0
    spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2))
    assert "parametrizations.weight.original" in named_weights(spectral)


def test_a_tied_layer_may_have_another_parametrization_too():
    both = pair()
    nn.utils.parametrize.register_parametrization(both["one"], "bias", nn.Softplus())
    assert "one.parametrizations.bias.original" in state_names(both)
    assert "one.weight" in state_names(both)
    untie_weight(find_weight(both, "one.weight", "m"))
    assert both["one"].weight.shape == (2, 3)
    assert both["one"].weight is not both["two"].weight


def test_a_state_of_torch_goes_in_and_out():
    both, other = pair(), pair()
    with torch.no_grad():
        both["two"].weight.copy_(torch.arange(6.0).reshape(3, 2))
    other.load_state_dict(both.state_dict())
    assert other["one"].weight.tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
    without = {name: value for name, value in both.state_dict().items() if name != "one.weight"}
    other.load_state_dict(without, strict=False)
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict(without)


def test_copies_and_precisions_keep_the_tie():
    both = pair()
    for other in (copy.deepcopy(both), copy.deepcopy(both).to(torch.float64), copy.deepcopy(both).half()):
        with torch.no_grad():
            other["two"].weight.zero_()
        assert other["one"].weight.abs().sum() == 0
        assert len(list(other.parameters())) == 3
    assert both["one"].weight.abs().sum() > 0


def test_tying_again_and_untying_hooks_nothing_twice():
    both = pair()
    for _ in range(3):
        untie_weight(find_weight(both, "one.weight", "m"))
        tie_weight(find_weight(both, "one.weight", "m"), find_weight(both, "two.weight", "m"), transpose=True)
    assert len(both["one"]._state_dict_hooks) == 1
    assert torch.equal(both["one"].weight, both["two"].weight.t())


def test_twice_transposed_is_not_transposed():
    both = pair()
    both["three"] = nn.Linear(2, 3)
    tie_weight(find_weight(both, "three.weight", "m"), find_weight(both, "one.weight", "m"), transpose=True)
    assert both["three"].weight is both["two"].weight


def test_a_layer_that_is_not_there_is_named():
    with pytest.raises(GraphError, match=r"m has no weight 'thee\.weight'"):
        find_weight(pair(), "thee.weight", "m")
