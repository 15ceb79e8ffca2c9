"""Weights that a training has written to are told from those that were drawn, loaded or moved."""

import pytest
import torch
from torch import nn

from neumo.backends.torch.changes import Changes


def watched(module: nn.Module) -> Changes:
    changes = Changes()
    changes.watch(module.parameters())
    return changes


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda weights: torch.optim.SGD(weights, lr=0.1),
        lambda weights: torch.optim.AdamW(weights, foreach=True),
        lambda weights: torch.optim.AdamW(weights, fused=True),
        lambda weights: torch.optim.SGD(weights, lr=0.1, fused=True),
    ],
)
def test_a_step_of_any_optimizer_is_seen(optimizer):
    layer = nn.Linear(30, 40)
    changes, steps = watched(layer), optimizer(layer.parameters())
    layer(torch.ones(1, 30)).sum().backward()
    assert not changes.any(layer.parameters())
    steps.step()
    assert changes.any(layer.parameters())
    changes.watch(layer.parameters(), again=False)
    assert changes.any(layer.parameters())
    changes.watch(layer.parameters())
    assert not changes.any(layer.parameters())


def test_to_move_weights_is_no_change():
    layer = nn.Sequential(nn.Linear(3, 4), nn.Embedding(0, 2))
    changes = watched(layer)
    layer.double().requires_grad_(False).eval().to(torch.bfloat16)
    assert not changes.any(layer.parameters())
    with torch.no_grad():
        layer[0].weight.data = layer[0].weight.data + 1
    assert changes.any(layer.parameters())


def test_what_is_unknown_has_no_numbers_or_is_no_number_has_not_changed():
    layer = nn.Linear(3, 4)
    assert not Changes().any(layer.parameters())
    planned = nn.Linear(3, 4, device="meta")
    assert not watched(planned).any(planned.parameters())
    with torch.no_grad():
        layer.weight.fill_(float("nan"))
    assert not watched(layer).any(layer.parameters())
