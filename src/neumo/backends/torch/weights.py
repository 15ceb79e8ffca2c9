"""Names of weights, and which of them stay as they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor, nn

from neumo.backends.torch.tie import plain_name


def named_weights(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters of a module by the names that they have in its `state_dict`.

    >>> list(named_weights(nn.Linear(2, 3)))
    ['weight', 'bias']

    A weight that is tied has all of its names.
    """
    return {
        plain_name(module, key): weight for key, weight in module.named_parameters(remove_duplicate=False)
    }


def state_names(module: nn.Module) -> list[str]:
    """List the names of what is saved of a module: weights and statistics."""
    return [name for name, value in module.state_dict().items() if isinstance(value, Tensor)]


def trainable_weights(modules: Mapping[str, nn.Module]) -> dict[str, nn.Parameter]:
    """Return the weights that training changes as `module.name`, each once, by its first name."""
    named: dict[int, tuple[str, nn.Parameter]] = {}
    for name, module in modules.items():
        for key, weight in named_weights(module).items():
            if weight.requires_grad:
                named.setdefault(id(weight), (f"{name}.{key}", weight))
    return dict(named.values())


def set_modes(module: nn.Module, *, frozen: bool, still: Collection[str]) -> None:
    """Prepare a module for training: what is frozen computes as in evaluation, and its statistics stay.

    `frozen` says that the module was frozen as a whole, `still` names the weights and statistics that are
    kept. A layer of which everything is kept is in evaluation mode; so is a frozen module but for layers of
    which nothing is kept any more.
    """
    module.train(not frozen)
    kept = set(still)
    if not kept or (frozen and kept.issuperset(state_names(module))):
        return  # as most modules are: nothing of it is kept, or everything
    for layer, names in _layers(module):
        if frozen and not names & kept:
            layer.train()
        elif not frozen and names <= kept:
            layer.eval()


def _layers(module: nn.Module) -> Iterator[tuple[nn.Module, set[str]]]:
    """The layers inside a module that have anything to save, each with its names; outer ones first."""
    every = state_names(module)
    for path, layer in module.named_modules():
        names = {name for name in every if name.startswith(f"{path}.")}
        if path and names:
            yield layer, names


def fingerprint(module: nn.Module, *, statistics: bool = True) -> str:
    """Tell the weights, and the statistics, of a module by a short text, which changes when one of them does.

    >>> layer = nn.Linear(2, 2)
    >>> before = fingerprint(layer)
    >>> layer.bias.data[0] += 1
    >>> fingerprint(layer) == before
    False
    """
    whole = blake2b(digest_size=16)
    weights: Mapping[str, Any] = dict(module.named_parameters())
    for name, value in (module.state_dict() if statistics else weights).items():
        if isinstance(value, Tensor):
            plain = value.detach().cpu().contiguous()
            whole.update(f"{name} {plain.dtype} {tuple(plain.shape)}\n".encode())
            whole.update(plain.reshape(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()
