import numpy as np
import pytest
import torch
from torch import nn

from neumo.backends.torch.training.average import Average
from neumo.backends.torch.training.optimizers import build_optimizer, load_optimizer, optimizer_tensors
from neumo.engine import EMA, SGD, Adam, AdamW, NovoGrad
from neumo.types import BackendError


def novograd_by_the_paper(weights, gradients, *, lr, betas, eps, decay, average=False):
    """Algorithm 1 of Ginsburg et al. 2019 in float64, one tensor."""
    w, (beta1, beta2) = weights.astype(np.float64), betas
    v = m = None
    for g in gradients:
        g = g.astype(np.float64)
        v = (g**2).sum() if v is None else beta2 * v + (1 - beta2) * (g**2).sum()
        step = g / (np.sqrt(v) + eps) + decay * w
        if average:
            step = (1 - beta1) * step
        m = step if m is None else beta1 * m + step
        w = w - lr * m
    return w


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_novograd_is_the_papers_algorithm(average, decay, dtype):
    rng = np.random.default_rng(1)
    start, gradients = rng.normal(size=(4, 3)), rng.normal(size=(12, 4, 3))
    weight = nn.Parameter(torch.tensor(start, dtype=dtype))
    spec = NovoGrad(lr=0.05, weight_decay=decay, average_gradients=average)
    optimizer = build_optimizer(spec, {"w": weight})
    for gradient in gradients:
        weight.grad = torch.tensor(gradient, dtype=dtype)
        optimizer.step()
    wanted = novograd_by_the_paper(
        start, gradients, lr=0.05, betas=(0.95, 0.25), eps=1e-8, decay=decay, average=average
    )
    tolerance = 1e-12 if dtype is torch.float64 else 1e-5
    assert np.allclose(weight.detach().numpy(), wanted, rtol=tolerance, atol=tolerance)


def test_adamw_is_its_formula():
    rng = np.random.default_rng(2)
    start, gradients = rng.normal(size=(3, 2)), rng.normal(size=(9, 3, 2))
    weight = nn.Parameter(torch.tensor(start))
    optimizer = build_optimizer(AdamW(lr=0.01, weight_decay=0.1, betas=(0.9, 0.98)), {"w": weight})
    w, m, v = start.copy(), 0.0, 0.0
    for n, g in enumerate(gradients, start=1):
        weight.grad = torch.tensor(g)
        optimizer.step()
        w = w * (1 - 0.01 * 0.1)
        m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g**2
        w = w - 0.01 * (m / (1 - 0.9**n)) / (np.sqrt(v / (1 - 0.98**n)) + 1e-8)
    assert np.allclose(weight.detach().numpy(), w, rtol=1e-10)


@pytest.mark.parametrize("spec", [AdamW(weight_decay=0.5), NovoGrad(weight_decay=0.5), SGD(weight_decay=0.5)])
def test_biases_and_norms_are_spared_from_decay_unless_asked(spec):
    from dataclasses import replace

    named = {"weight": nn.Parameter(torch.ones(2, 2)), "bias": nn.Parameter(torch.ones(2))}
    decays = [group["weight_decay"] for group in build_optimizer(spec, named).param_groups]
    assert decays == [0.5, 0.0]
    everything = build_optimizer(replace(spec, decay_all=True), named).param_groups
    assert [group["weight_decay"] for group in everything] == [0.5]


@pytest.mark.parametrize("spec", [AdamW(), Adam(), SGD(momentum=0.9), SGD(), NovoGrad()])
def test_the_state_of_an_optimizer_survives_saving(spec):
    def steps(weight, optimizer, gradients):
        for gradient in gradients:
            weight.grad = gradient.clone()
            optimizer.step()

    torch.manual_seed(0)
    gradients = torch.randn(6, 3, 2)
    whole = nn.Parameter(torch.ones(3, 2))
    steps(whole, build_optimizer(spec, {"w": whole}), gradients)
    first = nn.Parameter(torch.ones(3, 2))
    before = build_optimizer(spec, {"w": first})
    steps(first, before, gradients[:3])
    saved = {name: value.clone() for name, value in optimizer_tensors(before, {"w": first}).items()}
    second = nn.Parameter(first.detach().clone())
    after = build_optimizer(spec, {"w": second})
    load_optimizer(after, {"w": second}, saved)
    steps(second, after, gradients[3:])
    assert torch.equal(second, whole)


def test_what_the_backend_does_not_know_is_refused():
    with pytest.raises(BackendError, match="has no optimizer str"):
        build_optimizer("adam", {"w": nn.Parameter(torch.ones(2, 2))})


def test_an_average_of_what_does_not_change_stays_exactly():
    values = {"w": torch.randn(100), "steps": torch.tensor(3)}
    average = Average(EMA(decay=0.99), values)
    for _ in range(50):
        average.update()
    assert torch.equal(average.tensors["w"], values["w"])
    values["steps"] += 4
    average.update()
    assert average.tensors["steps"] == 7


def test_weights_come_back_after_they_were_swapped():
    values = {"w": torch.zeros(3)}
    average = Average(EMA(decay=0.5, warmup=False), values)
    values["w"] += 2
    average.update()
    with average.in_place():
        assert values["w"].tolist() == [1, 1, 1]
    assert values["w"].tolist() == [2, 2, 2]
