"""Builds torch optimizers from their specifications, sets their rates, and saves and loads their state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn

from neumo.backends.torch.parallel.shards import is_sharded, sharded
from neumo.backends.torch.training.lamb import TorchLAMB
from neumo.backends.torch.training.muon import Joined, build_muon
from neumo.backends.torch.training.novograd import TorchNovoGrad
from neumo.backends.torch.weights import named_weights
from neumo.engine.updates.optimizers import (
    OPTIMIZERS,
    SGD,
    Adafactor,
    Adam,
    AdamW,
    Muon,
    NovoGrad,
    Optimizer,
    Plain,
)
from neumo.engine.updates.parameter_groups import Setting, Weight, settings_of
from neumo.types.errors import BackendError

_NUMBER: Final = ":number"  # marks what is no tensor in the optimizer, and one in the file


def build_optimizer(
    spec: Optimizer,
    parameters: Mapping[str, nn.Parameter],
    modules: Mapping[str, nn.Module] | None = None,
) -> torch.optim.Optimizer:
    """Make the torch optimizer of a specification over named weights; biases and norms are spared from decay.

    >>> weight, bias = nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(2))
    >>> groups = build_optimizer(AdamW(weight_decay=0.1), {"weight": weight, "bias": bias}).param_groups
    >>> [group["weight_decay"] for group in groups]
    [0.1, 0.0]

    `modules` are those that have the weights: with them groups may name a tied weight by each of its names,
    and `Muon` knows embeddings. Each group of the result has its own rate as `base_lr`, which `set_rate`
    scales. Raises `GraphError` or `ConfigError` for groups that name or change nothing, and `BackendError`
    where this torch lacks the optimizer.
    """
    if type(spec).__name__ not in OPTIMIZERS:
        raise BackendError(
            f"the torch backend has no optimizer {type(spec).__name__}",
            code="optimizer",
            fixes=[f"use one of neumo.engine: {', '.join(OPTIMIZERS)}"],
        )
    settings = settings_of(spec, *_described(parameters, modules))
    optimizer = _make(spec, parameters, settings)
    start_momentum(optimizer)
    return optimizer


def _make(
    spec: Optimizer, parameters: Mapping[str, nn.Parameter], settings: Mapping[str, Setting]
) -> torch.optim.Optimizer:
    if not isinstance(spec, Muon):
        return _build(spec, _groups(parameters, settings))
    matrices = {name: each for name, each in settings.items() if not each.others}
    others = {name: each for name, each in settings.items() if each.others}
    muon = build_muon(_groups(parameters, matrices), spec)
    return Joined([muon, _build(spec.others, _groups(parameters, others))] if others else [muon])


def set_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set the rate of each group to so many times its own one.

    >>> optimizer = build_optimizer(SGD(lr=0.5), {"weight": nn.Parameter(torch.zeros(2, 2))})
    >>> set_rate(optimizer, 0.1)
    >>> optimizer.param_groups[0]["lr"]
    0.05
    """
    for group in optimizer.param_groups:
        rate = group["base_lr"] * factor
        if isinstance(group["lr"], Tensor):  # kept, since a compiled step reads it
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def _build(spec: Plain, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    fused = {"fused": True} if _can_fuse(weight for group in groups for weight in group["params"]) else {}
    if isinstance(spec, AdamW):
        return torch.optim.AdamW(
            groups, lr=spec.lr, betas=spec.betas, eps=spec.eps, amsgrad=spec.amsgrad, **fused
        )
    if isinstance(spec, Adam):
        return torch.optim.Adam(
            groups, lr=spec.lr, betas=spec.betas, eps=spec.eps, amsgrad=spec.amsgrad, **fused
        )
    if isinstance(spec, SGD):
        if any(is_sharded(weight) for group in groups for weight in group["params"]):
            fused = {}  # which torch has not got for parts of weights
        return torch.optim.SGD(groups, lr=spec.lr, momentum=spec.momentum, nesterov=spec.nesterov, **fused)
    if isinstance(spec, Adafactor):
        return torch.optim.Adafactor(
            groups, lr=spec.lr, beta2_decay=spec.beta2_decay, eps=spec.eps, d=spec.threshold
        )
    return TorchNovoGrad(groups, spec) if isinstance(spec, NovoGrad) else TorchLAMB(groups, spec)


def start_momentum(optimizer: torch.optim.Optimizer) -> None:
    """Start the momentum of SGD at 0 for weights that have none: that is what a first gradient would do.

    Weights may get their first gradient late, and the fused SGD of torch makes the buffers of all or of none.
    """
    for each in optimizer.optimizers if isinstance(optimizer, Joined) else [optimizer]:
        if not isinstance(each, torch.optim.SGD) or not each.defaults["momentum"]:
            continue
        for weight in (weight for group in each.param_groups for weight in group["params"]):
            if each.state[weight].get("momentum_buffer") is None:
                each.state[weight]["momentum_buffer"] = torch.zeros_like(weight)


def _groups(parameters: Mapping[str, nn.Parameter], settings: Mapping[str, Setting]) -> list[dict[str, Any]]:
    """Put weights of the same setting together, those that decay first."""
    found: dict[Setting, list[nn.Parameter]] = {}
    for name, setting in settings.items():
        found.setdefault(setting, []).append(parameters[name])
    ordered = sorted(found.items(), key=lambda entry: not entry[0].weight_decay)
    return [
        {"params": weights, "lr": each.lr, "base_lr": each.lr, "weight_decay": each.weight_decay}
        for each, weights in ordered
    ]


def _described(
    parameters: Mapping[str, nn.Parameter], modules: Mapping[str, nn.Module] | None
) -> tuple[dict[str, Weight], dict[str, list[str]]]:
    """Tell the groups of an optimizer of each trained weight, and the names of all weights by module."""
    modules = modules if modules is not None else {}
    names: dict[str, list[str]] = {}
    aliases: dict[int, list[str]] = {}
    for module, layers in modules.items():
        for name, weight in named_weights(layers).items():
            names.setdefault(module, []).append(name)
            aliases.setdefault(id(weight), []).append(f"{module}.{name}" if module else name)
    for full, weight in parameters.items():
        if id(weight) not in aliases:
            module, dot, name = full.partition(".")
            names.setdefault(module if dot else "", []).append(name if dot else full)
    embeddings = _embeddings(modules.values())
    weights = {
        name: Weight(
            names=(name, *aliases.get(id(weight), ())), axes=weight.ndim, embedding=id(weight) in embeddings
        )
        for name, weight in parameters.items()
    }
    return weights, names


def _embeddings(modules: Iterable[nn.Module]) -> set[int]:
    layers = [layer for module in modules for layer in module.modules()]
    return {id(layer.weight) for layer in layers if isinstance(layer, nn.Embedding | nn.EmbeddingBag)}


def _can_fuse(parameters: Iterable[nn.Parameter]) -> bool:
    """The fused kernels of torch exist for these devices and dtypes; they are several times faster on small
    nets.
    """
    return all(
        p.device.type in ("cpu", "cuda") and p.dtype in (torch.float32, torch.float64) for p in parameters
    )


def optimizer_tensors(
    optimizer: torch.optim.Optimizer, names: Mapping[str, nn.Parameter]
) -> dict[str, Tensor]:
    """Return the state of an optimizer as tensors by `weight name/state name`, without copies.

    Plain numbers become scalars, and are marked as such by their name. Rates are no state: the schedule gives
    them at each step.
    """
    tensors: dict[str, Tensor] = {}
    for name, weight in names.items():
        for key, value in optimizer.state.get(weight, {}).items():
            if isinstance(value, Tensor):
                tensors[f"{name}/{key}"] = value
            elif value is not None:
                kind = torch.float64 if isinstance(value, float) else None
                tensors[f"{name}/{key}{_NUMBER}"] = torch.tensor(value, dtype=kind)
    return tensors


def load_optimizer(
    optimizer: torch.optim.Optimizer, names: Mapping[str, nn.Parameter], tensors: Mapping[str, Tensor]
) -> None:
    """Put back what `optimizer_tensors` returned; counters stay where torch keeps them, on the CPU if not
    fused.
    """
    fused = {
        id(weight) for group in optimizer.param_groups if group.get("fused") for weight in group["params"]
    }
    for key, value in tensors.items():
        name, _, entry = key.rpartition("/")
        weight = names[name]
        if entry.endswith(_NUMBER):
            optimizer.state[weight][entry.removesuffix(_NUMBER)] = value.item()
            continue
        if value.ndim == 0 and entry == "step":
            device = weight.device if id(weight) in fused else value.device
            optimizer.state[weight][entry] = value.to(device, copy=True)
        else:
            dtype = _state_dtype(value, weight)
            optimizer.state[weight][entry] = sharded(value, weight).to(weight.device, dtype, copy=True)
    start_momentum(optimizer)


def _state_dtype(value: Tensor, weight: Tensor) -> torch.dtype:
    """The dtype in which an optimizer keeps a state, which may have been saved by a run of another precision:
    that of the weight, but for figures of whole tensors, which are float32 beside weights of half precision.
    """
    half = weight.dtype in (torch.bfloat16, torch.float16)
    if not value.is_floating_point() or (half and value.dtype == weight.dtype):
        return value.dtype
    return torch.float32 if half and value.shape != weight.shape else weight.dtype
