"""Optimizers against their papers and against torch, groups of weights, and state that survives saving."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from neumo.backends.torch.save import read_tensors, write_tensors
from neumo.backends.torch.training.larc import apply_larc
from neumo.backends.torch.training.optimizers import (
    build_optimizer,
    load_optimizer,
    optimizer_tensors,
    set_rate,
)
from neumo.engine import LAMB, LARC, SGD, Adafactor, Adam, AdamW, Group, Muon, NovoGrad
from neumo.types import BackendError, ConfigError, GraphError


def novograd_by_the_paper(
    weights, gradients, *, lr, betas, eps, decay, average=False, amsgrad=False, luc=None
):
    """Algorithm 1 of Ginsburg et al. 2019 in float64, one tensor."""
    w, (beta1, beta2) = weights.astype(np.float64), betas
    v = m = None
    largest = 0.0
    for g in gradients:
        g = g.astype(np.float64)
        v = (g**2).sum() if v is None else beta2 * v + (1 - beta2) * (g**2).sum()
        largest = max(largest, v)
        step = g / (np.sqrt(largest if amsgrad else v) + eps) + decay * w
        if average:
            step = (1 - beta1) * step
        m = step if m is None else beta1 * m + step
        rate = lr
        if luc is not None and np.linalg.norm(w) > 0:
            rate = min(lr, luc * np.linalg.norm(w) / np.linalg.norm(m))
        w = w - rate * m
    return w


def lamb_by_the_paper(weights, gradients, *, lr, betas, eps, decay, trust):
    """Algorithm 2 of You et al. 2019 in float64, one tensor."""
    w, (beta1, beta2) = weights.astype(np.float64), betas
    m, v = np.zeros_like(w), np.zeros_like(w)
    for n, g in enumerate(gradients.astype(np.float64), start=1):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
        direction = (m / (1 - beta1**n)) / (np.sqrt(v / (1 - beta2**n)) + eps) + decay * w
        size, length = np.sqrt((w**2).sum()), np.sqrt((direction**2).sum())
        ratio = np.clip(size / length, *trust) if size > 0 and length > 0 else 1.0
        w = w - lr * ratio * direction
    return w


def larc_by_the_paper(weights, gradients, *, lr, momentum, decay, trust, clip, eps):
    """SGD with the local rates of You, Gitman & Ginsburg 2017 in float64, one tensor."""
    w = weights.astype(np.float64)
    velocity = np.zeros_like(w)
    for g in gradients.astype(np.float64):
        size, slope = np.linalg.norm(w), np.linalg.norm(g)
        local = trust * size / (slope + decay * size + eps)
        rate = min(local, lr) if clip else local * lr
        rate = lr if size == 0 or slope == 0 else rate
        velocity = momentum * velocity + (rate / lr) * (g + decay * w)
        w = w - lr * velocity
    return w


def trained(spec, start, gradients, dtype=torch.float64, larc=None):
    """One weight tensor after some steps."""
    weight = nn.Parameter(torch.tensor(start, dtype=dtype))
    optimizer = build_optimizer(spec, {"w": weight})
    for gradient in gradients:
        weight.grad = torch.tensor(gradient, dtype=dtype)
        if larc is not None:
            apply_larc(optimizer, larc)
        optimizer.step()
    return weight.detach().numpy()


@pytest.fixture
def numbers():
    rng = np.random.default_rng(1)
    return rng.normal(size=(4, 3)), rng.normal(size=(12, 4, 3))


@pytest.mark.parametrize("changes", [{}, {"average": True}, {"amsgrad": True}, {"luc": 0.02}, {"luc": 10.0}])
@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_novograd_is_the_papers_algorithm(changes, decay, dtype, numbers):
    start, gradients = numbers
    named = {"average_gradients" if name == "average" else name: value for name, value in changes.items()}
    got = trained(NovoGrad(lr=0.05, weight_decay=decay, **named), start, gradients, dtype)
    wanted = novograd_by_the_paper(
        start, gradients, lr=0.05, betas=(0.95, 0.25), eps=1e-8, decay=decay, **changes
    )
    tolerance = 1e-12 if dtype is torch.float64 else 1e-5
    assert np.allclose(got, wanted, rtol=tolerance, atol=tolerance)


def test_update_clipping_bounds_the_step_and_lets_zeros_move(numbers):
    start, gradients = numbers
    before = np.linalg.norm(start)
    moved = trained(NovoGrad(lr=10.0, weight_decay=0.0, luc=1e-3), start, gradients[:1]) - start
    assert np.linalg.norm(moved) == pytest.approx(1e-3 * before)
    from_zero = trained(NovoGrad(lr=0.1, luc=1e-3), np.zeros((4, 3)), gradients[:1])
    assert np.linalg.norm(from_zero) == pytest.approx(0.1)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("trust", [(0.0, 10.0), (0.5, 0.6)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lamb_is_the_papers_algorithm(decay, trust, dtype, numbers):
    start, gradients = numbers
    got = trained(LAMB(lr=0.05, weight_decay=decay, trust=trust), start, gradients, dtype)
    wanted = lamb_by_the_paper(
        start, gradients, lr=0.05, betas=(0.9, 0.999), eps=1e-6, decay=decay, trust=trust
    )
    tolerance = 1e-12 if dtype is torch.float64 else 1e-5
    assert np.allclose(got, wanted, rtol=tolerance, atol=tolerance)


def test_lamb_moves_weights_of_zero_like_adam(numbers):
    _, gradients = numbers
    spec = LAMB(lr=0.05, weight_decay=0.0)
    adam = Adam(lr=0.05, eps=1e-6)
    zeros = np.zeros((4, 3))
    assert np.allclose(trained(spec, zeros, gradients[:1]), trained(adam, zeros, gradients[:1]), rtol=1e-12)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("trust", [0.001, 0.02, 10.0])
def test_larc_is_the_papers_rule(clip, decay, trust, numbers):
    start, gradients = numbers
    spec = SGD(lr=0.05, momentum=0.9, weight_decay=decay)
    got = trained(spec, start, gradients, larc=LARC(trust=trust, clip=clip))
    wanted = larc_by_the_paper(
        start, gradients, lr=0.05, momentum=0.9, decay=decay, trust=trust, clip=clip, eps=1e-8
    )
    assert np.allclose(got, wanted, rtol=1e-12, atol=1e-12)


def test_larc_leaves_zeros_and_wide_bounds_alone(numbers):
    start, gradients = numbers
    spec = SGD(lr=0.05, momentum=0.9)
    for weights in (np.zeros((4, 3)), start):
        plain = trained(spec, weights, gradients[:1])
        assert np.array_equal(trained(spec, weights, gradients[:1], larc=LARC(trust=1e6)), plain)


def test_larc_sees_the_rate_of_the_step():
    weight = nn.Parameter(torch.ones(4))
    optimizer = build_optimizer(SGD(lr=1.0), {"w": weight})
    scaled = []
    for factor in (1.0, 0.001, 0.0):
        set_rate(optimizer, factor)
        weight.grad = torch.ones(4)
        apply_larc(optimizer, LARC(trust=0.01, eps=0.0))
        scaled.append(weight.grad[0].item())
    assert scaled == pytest.approx([0.01, 1.0, 1.0])


def test_larc_leaves_the_decoupled_decay_of_adamw_to_it():
    weight = nn.Parameter(torch.ones(2, 2))
    optimizer = build_optimizer(AdamW(weight_decay=0.5), {"w": weight})
    weight.grad = torch.full((2, 2), 3.0)
    apply_larc(optimizer, LARC(trust=1e6))
    assert weight.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.5]


def test_adamw_is_its_formula(numbers):
    start, gradients = numbers
    got = trained(AdamW(lr=0.01, weight_decay=0.1, betas=(0.9, 0.98)), start, gradients)
    w, m, v = start.copy(), 0.0, 0.0
    for n, g in enumerate(gradients, start=1):
        w = w * (1 - 0.01 * 0.1)
        m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g**2
        w = w - 0.01 * (m / (1 - 0.9**n)) / (np.sqrt(v / (1 - 0.98**n)) + 1e-8)
    assert np.allclose(got, w, rtol=1e-10)


needs_muon = pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon")


@pytest.mark.parametrize(
    ("spec", "theirs"),
    [
        (
            SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
            lambda w: torch.optim.SGD(w, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        ),
        (
            Adam(lr=0.1, weight_decay=0.01, amsgrad=True),
            lambda w: torch.optim.Adam(w, lr=0.1, weight_decay=0.01, amsgrad=True),
        ),
        (
            AdamW(lr=0.1, weight_decay=0.01, amsgrad=True),
            lambda w: torch.optim.AdamW(w, lr=0.1, betas=(0.9, 0.98), weight_decay=0.01, amsgrad=True),
        ),
        (
            Adafactor(lr=0.1, weight_decay=0.01),
            lambda w: torch.optim.Adafactor(w, lr=0.1, weight_decay=0.01),
        ),
        pytest.param(
            Muon(lr=0.1, adjust_lr="match_rms_adamw"),
            lambda w: torch.optim.Muon(w, lr=0.1, adjust_lr_fn="match_rms_adamw"),
            marks=needs_muon,
        ),
    ],
)
def test_what_torch_has_gives_its_numbers(spec, theirs, numbers):
    start, gradients = numbers
    weight = nn.Parameter(torch.tensor(start))
    optimizer = theirs([weight])
    for gradient in gradients:
        weight.grad = torch.tensor(gradient)
        optimizer.step()
    assert np.allclose(trained(spec, start, gradients), weight.detach().numpy(), rtol=1e-9)


EVERY = [
    AdamW(),
    AdamW(amsgrad=True),
    Adam(amsgrad=True),
    SGD(momentum=0.9),
    SGD(),
    NovoGrad(),
    NovoGrad(amsgrad=True, luc=1e-2),
    LAMB(),
    Adafactor(),
    pytest.param(Muon(others=NovoGrad()), marks=needs_muon),
    pytest.param(Muon(), marks=needs_muon),
    pytest.param(Muon(others_for=("head",), others=LAMB()), marks=needs_muon),
]


@pytest.mark.parametrize("spec", EVERY)
def test_biases_and_norms_are_spared_from_decay_unless_asked(spec):
    decayed = {"weight_decay": 0.5}
    spec = replace(spec, **decayed)
    if isinstance(spec, Muon):
        spec = replace(spec, others=replace(spec.others, **decayed), others_for=())
    named = {"weight": nn.Parameter(torch.ones(2, 2)), "bias": nn.Parameter(torch.ones(2))}
    decays = [group["weight_decay"] for group in build_optimizer(spec, named).param_groups]
    assert decays == [0.5, 0.0]
    if isinstance(spec, Muon):
        spec = replace(spec, others=replace(spec.others, decay_all=True))
    everything = build_optimizer(replace(spec, decay_all=True), named).param_groups
    assert {group["weight_decay"] for group in everything} == {0.5}


def weights_of(seed=0):
    torch.manual_seed(seed)
    shapes = {"body.weight": (3, 2), "body.bias": (3,), "head.weight": (4, 3), "conv.weight": (2, 3, 5)}
    return {name: nn.Parameter(torch.randn(shape)) for name, shape in shapes.items()}


def step(weights, optimizer, numbers):
    """Make steps with gradients that depend on their numbers only."""
    for number in numbers:
        set_rate(optimizer, 1 / (1 + number))
        for place, weight in enumerate(weights.values()):
            generator = torch.Generator().manual_seed(100 * number + place)
            weight.grad = torch.randn(weight.shape, generator=generator)
        optimizer.step()


@pytest.mark.parametrize("spec", EVERY)
def test_three_steps_and_three_after_loading_are_six_bit_for_bit(spec, tmp_path):
    whole = weights_of()
    step(whole, build_optimizer(spec, whole), range(6))
    first = weights_of()
    before = build_optimizer(spec, first)
    step(first, before, range(3))
    write_tensors(tmp_path / "state.safetensors", optimizer_tensors(before, first))
    second = {name: nn.Parameter(weight.detach().clone()) for name, weight in first.items()}
    after = build_optimizer(spec, second)
    load_optimizer(after, second, read_tensors(tmp_path / "state.safetensors"))
    step(second, after, range(3, 6))
    assert all(torch.equal(second[name], whole[name]) for name in whole)
    assert not all(torch.equal(second[name], first[name]) for name in whole)


@pytest.mark.parametrize("spec", EVERY)
def test_loaded_state_has_the_kinds_devices_and_shapes_that_it_had(spec):
    weights = weights_of()
    optimizer = build_optimizer(spec, weights)
    step(weights, optimizer, range(2))
    again = build_optimizer(spec, weights)
    load_optimizer(again, weights, optimizer_tensors(optimizer, weights))
    for weight in weights.values():
        old, new = optimizer.state.get(weight, {}), again.state.get(weight, {})
        assert list(old) == list(new)
        for key, value in old.items():
            assert torch.equal(value, new[key])
            assert (value.dtype, value.device, value.stride()) == (
                new[key].dtype,
                new[key].device,
                new[key].stride(),
            )


@pytest.mark.parametrize("spec", EVERY)
def test_weights_of_several_precisions_train_together(spec):
    kinds = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
    weights = {f"body.{kind}": nn.Parameter(torch.randn(4, 3, dtype=kind)) for kind in kinds}
    weights["head.bias"] = nn.Parameter(torch.ones(3))
    optimizer = build_optimizer(spec, weights)
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    for _ in range(3):
        for weight in weights.values():
            weight.grad = torch.randn_like(weight)
        optimizer.step()
    for name, weight in weights.items():
        assert weight.isfinite().all()
        assert weight.dtype is before[name].dtype
        assert not torch.equal(weight, before[name])


def test_plain_numbers_in_the_state_come_back_as_what_they_were():
    class Counting(torch.optim.SGD):
        pass

    weight = nn.Parameter(torch.ones(2))
    optimizer = Counting([weight])
    kept = {"count": 3, "mean": 0.1, "warm": True, "momentum_buffer": torch.ones(2)}
    optimizer.state[weight] = {**kept, "nothing": None}
    again = Counting([weight])
    load_optimizer(again, {"w": weight}, optimizer_tensors(optimizer, {"w": weight}))
    assert {key: value for key, value in again.state[weight].items() if key != "momentum_buffer"} == {
        key: value for key, value in kept.items() if key != "momentum_buffer"
    }
    assert [type(again.state[weight][key]) for key in ("count", "mean", "warm")] == [int, float, bool]


@needs_muon
def test_muon_takes_matrices_and_leaves_the_rest_to_another_optimizer():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(5, 4)
            self.hidden = nn.Linear(4, 4)
            self.conv = nn.Conv1d(4, 4, 3)
            self.norm = nn.LayerNorm(4)
            self.out = nn.Linear(4, 5)

    net = Net()
    weights = {f"net.{name}": weight for name, weight in net.named_parameters()}
    optimizer = build_optimizer(Muon(others=AdamW(lr=1e-3), others_for=("net.out",)), weights, {"net": net})
    by_id = {id(weight): name for name, weight in weights.items()}
    with_muon = [by_id[id(w)] for g in optimizer.param_groups if "ns_steps" in g for w in g["params"]]
    assert with_muon == ["net.hidden.weight"]
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(weights)
    assert {group["base_lr"] for group in optimizer.param_groups} == {0.02, 1e-3}


@needs_muon
def test_muon_and_its_other_optimizer_step_as_if_alone():
    joint, apart = weights_of(), weights_of()
    spec = Muon(lr=0.1, others=SGD(lr=0.2, momentum=0.9))
    step(joint, build_optimizer(spec, joint), range(4))
    matrices = {name: apart[name] for name in ("body.weight", "head.weight")}
    rest = {name: apart[name] for name in ("body.bias", "conv.weight")}
    muon = build_optimizer(spec, matrices)
    sgd = build_optimizer(spec.others, rest)
    for number in range(4):
        for place, weight in enumerate(apart.values()):
            generator = torch.Generator().manual_seed(100 * number + place)
            weight.grad = torch.randn(weight.shape, generator=generator)
        for optimizer in (muon, sgd):
            set_rate(optimizer, 1 / (1 + number))
            optimizer.step()
    assert all(torch.equal(joint[name], apart[name]) for name in joint)


@needs_muon
def test_muon_goes_with_a_gradient_scaler():
    weights = weights_of()
    optimizer = build_optimizer(Muon(), weights)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    before = {name: weight.detach().clone() for name, weight in weights.items()}

    def scaled_step(value):
        for weight in weights.values():
            weight.grad = torch.full_like(weight, value)
        scaler.scale(torch.ones(()))
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    scaled_step(float("inf"))
    assert all(torch.equal(before[name], weight) for name, weight in weights.items())
    scaled_step(4.0)
    assert not any(torch.equal(before[name], weight) for name, weight in weights.items())
    optimizer.zero_grad()
    assert all(weight.grad is None for weight in weights.values())


def test_muon_is_refused_where_torch_has_none(monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon", raising=False)
    with pytest.raises(BackendError, match=r"has no Muon") as caught:
        build_optimizer(Muon(), weights_of())
    assert "torch>=2.9" in str(caught.value)


def rates_of(spec, weights, modules=None):
    """(rate, weight decay) of each weight, by name."""
    optimizer = build_optimizer(spec, weights, modules)
    found = {
        id(weight): (group["base_lr"], group["weight_decay"])
        for group in optimizer.param_groups
        for weight in group["params"]
    }
    return {name: found[id(weight)] for name, weight in weights.items()}


def test_groups_have_settings_of_their_own():
    spec = AdamW(
        lr=1e-3,
        weight_decay=0.1,
        groups=(Group("body", lr=1e-4), Group("*.bias", lr_scale=2.0), Group("head", weight_decay=0.5)),
    )
    assert rates_of(spec, weights_of()) == {
        "body.weight": (1e-4, 0.1),
        "body.bias": (2e-3, 0.0),
        "head.weight": (1e-3, 0.5),
        "conv.weight": (1e-3, 0.1),
    }


@pytest.mark.parametrize("spec", EVERY)
def test_a_rate_of_zero_keeps_weights_as_they_are(spec):
    weights = weights_of()
    kept = weights["body.weight"].detach().clone()
    step(weights, build_optimizer(replace(spec, groups=(Group("body.weight", lr=0.0),)), weights), range(3))
    assert torch.equal(weights["body.weight"], kept)


def test_the_schedule_scales_the_rate_of_each_group():
    optimizer = build_optimizer(SGD(lr=0.5, groups=(Group("head", lr=0.1),)), weights_of())
    for factor in (0.5, 0.1, 1.0):
        set_rate(optimizer, factor)
        assert sorted(group["lr"] for group in optimizer.param_groups) == [0.1 * factor, 0.5 * factor]


def test_a_rate_in_a_tensor_stays_that_tensor():
    optimizer = build_optimizer(Adam(lr=0.5), weights_of())
    rate = torch.tensor(0.5)
    optimizer.param_groups[0]["lr"] = rate
    set_rate(optimizer, 0.5)
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == 0.25


def test_a_tied_weight_is_named_by_each_of_its_names():
    embed, out = nn.Embedding(5, 4), nn.Linear(4, 5)
    out.weight = embed.weight
    weights = {"embed.weight": embed.weight, "out.bias": out.bias}
    spec = SGD(lr=1.0, groups=(Group("out", lr=0.1),))
    assert rates_of(spec, weights, {"embed": embed, "out": out}) == {
        "embed.weight": (0.1, 0.0),
        "out.bias": (0.1, 0.0),
    }


def test_a_group_of_frozen_weights_is_refused():
    body, head = nn.Linear(2, 2), nn.Linear(2, 2)
    weights = {f"head.{name}": weight for name, weight in head.named_parameters()}
    with pytest.raises(ConfigError, match="changes none of the weights that 'body' names"):
        build_optimizer(SGD(groups=(Group("body", lr=0.1),)), weights, {"body": body, "head": head})


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("haed", "no module 'haed'.*did you mean 'head'"), ("head.wieght", "no weight 'head.wieght'")],
)
def test_unknown_names_are_refused_with_the_nearest_match(pattern, words):
    with pytest.raises(GraphError) as caught:
        build_optimizer(SGD(groups=(Group(pattern, lr=0.1),)), weights_of())
    text = " ".join(str(caught.value).split())
    assert re.search(words, text), text


def test_what_the_backend_does_not_know_is_refused():
    with pytest.raises(BackendError, match="has no optimizer str"):
        build_optimizer("adam", {"w": nn.Parameter(torch.ones(2, 2))})


@pytest.mark.parametrize("spec", [SGD(lr=0.1, momentum=0.9), Muon(others=SGD(lr=0.1, momentum=0.9))])
def test_a_weight_may_get_its_first_gradient_later(spec, tmp_path):
    """As those of layers that are dropped, of experts, and of inputs that are absent at times."""
    weights = {name: nn.Parameter(torch.ones(2)) for name in ("early", "late")}
    weights["matrix"] = nn.Parameter(torch.ones(2, 2))
    optimizer = build_optimizer(spec, weights)
    weights["early"].grad = torch.ones(2)
    optimizer.step()
    optimizer = _read_again(spec, optimizer, weights, tmp_path)
    weights["late"].grad = torch.ones(2)
    optimizer.step()
    assert weights["early"].tolist() == pytest.approx([1 - 0.1 - 0.19] * 2)
    assert weights["late"].tolist() == pytest.approx([0.9] * 2)


def _read_again(spec, optimizer, weights, folder):
    """A file that lacks what has had no gradient, as those before momentum started at once."""
    kept = {name: value for name, value in optimizer_tensors(optimizer, weights).items() if "early" in name}
    write_tensors(folder / "state.safetensors", kept)
    again = build_optimizer(spec, weights)
    load_optimizer(again, weights, read_tensors(folder / "state.safetensors"))
    return again
