"""Ties weights: two names, in two modules or in one, for one parameter, where need be seen transposed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor, nn
from torch.nn.utils import parametrize

from neumo.types.errors import GraphError, did_you_mean

_ORIGINAL: Final = re.compile(r"^(?:(.*)\.)?parametrizations\.([^.]+)\.original$")


class Turned(nn.Module):
    """Shows a matrix transposed: a parametrization whose values stay a view of the one parameter."""

    def forward(self, matrix: Tensor) -> Tensor:
        """Return the matrix with its axes exchanged."""
        return matrix.t()

    def right_inverse(self, matrix: Tensor) -> Tensor:
        """Return what `forward` would show as this matrix."""
        return matrix.t()


@dataclass(frozen=True)
class Weight:
    """A weight of a layer, and whether the layer sees its parameter transposed."""

    layer: nn.Module
    name: str
    label: str  # what messages call it
    parameter: nn.Parameter
    turned: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape as the layer sees it."""
        shape = tuple(self.parameter.shape)
        return shape[::-1] if self.turned else shape


def find_weight(module: nn.Module, name: str, owner: str) -> Weight:
    """Find a weight by its name in the `state_dict`; raises `GraphError` with the nearest match.

    >>> find_weight(nn.Sequential(nn.Linear(2, 3)), "0.weight", "encoder").shape
    (3, 2)
    """
    path, _, last = name.rpartition(".")
    layer = dict(module.named_modules()).get(path)
    if layer is not None:
        if last in _turned_names(layer):
            # A ModuleDict where there are some, which torch's stubs do not say.
            original: Any = layer.parametrizations[last].original  # type: ignore[index, union-attr]
            return Weight(layer, last, f"{owner}.{name}", original, turned=True)
        found = dict(layer.named_parameters(recurse=False)).get(last)
        if found is not None:
            return Weight(layer, last, f"{owner}.{name}", found, turned=False)
    names = [plain_name(module, key) for key, _ in module.named_parameters(remove_duplicate=False)]
    raise GraphError(
        f"{owner} has no weight {name!r}",
        code="weight-name",
        details=[f"its weights are {', '.join(names[:6])}" + (" ..." if len(names) > 6 else "")]
        if names
        else ["it has none"],
        fixes=did_you_mean(name, names),
    )


def tie_weight(target: Weight, source: Weight, *, transpose: bool) -> None:
    """Make `target` another name of `source`; it takes the values of the source.

    >>> one, two = nn.Linear(3, 2), nn.Embedding(3, 2)
    >>> first, second = find_weight(one, "weight", "one"), find_weight(two, "weight", "two")
    >>> tie_weight(first, second, transpose=True)
    >>> bool((one.weight == two.weight.t()).all()), list(one.state_dict())
    (True, ['bias', 'weight'])

    Raises `GraphError` if the two are one already, or their shapes or precisions differ.
    """
    _check(target, source, transpose)
    _release(target.layer, target.name)
    if transpose == source.turned:  # twice transposed is not transposed
        setattr(target.layer, target.name, source.parameter)
        return
    # A parameter of its own first: registering reshapes the one that it finds, which others may share.
    setattr(target.layer, target.name, nn.Parameter(source.parameter.detach().t().clone()))
    parametrize.register_parametrization(target.layer, target.name, Turned())
    held: Any = target.layer.parametrizations
    held[target.name].original = source.parameter
    _keep_plain_names(target.layer)


def untie_weight(weight: Weight) -> None:
    """Give a name a parameter of its own again, with the values of now."""
    values = weight.parameter.detach()
    own = nn.Parameter((values.t() if weight.turned else values).clone(), weight.parameter.requires_grad)
    _release(weight.layer, weight.name)
    setattr(weight.layer, weight.name, own)


def plain_name(module: nn.Module, key: str) -> str:
    """Return the name in the `state_dict` of what `named_parameters` calls `key`."""
    found = _ORIGINAL.match(key)
    if found is None:
        return key
    path, name = found[1] or "", found[2]
    if name not in _turned_names(module.get_submodule(path)):
        return key
    return f"{path}.{name}" if path else name


def _check(target: Weight, source: Weight, transpose: bool) -> None:
    if target.parameter is source.parameter:
        raise GraphError(f"{target.label} and {source.label} are one weight already", code="tie")
    seen = source.shape[::-1] if transpose else source.shape
    if transpose and len(source.shape) != 2:
        raise GraphError(
            f"{source.label} has {len(source.shape)} axes, and only a weight of 2 axes is transposed",
            code="tie",
            details=_shapes(target, source),
        )
    if target.shape != seen:
        fits = len(seen) == 2 and target.shape == seen[::-1]
        raise GraphError(
            f"{target.label} and {source.label} cannot be one weight: their shapes differ",
            code="tie",
            details=_shapes(target, source),
            fixes=[f"transpose={not transpose} fits"] if fits else [],
        )
    if target.parameter.dtype != source.parameter.dtype:
        raise GraphError(
            f"{target.label} and {source.label} cannot be one weight: their precisions differ",
            code="tie",
            details=[f"{each.label}: {each.parameter.dtype}" for each in (target, source)],
        )


def _shapes(*weights: Weight) -> list[str]:
    return [f"{weight.label}: {'x'.join(map(str, weight.shape)) or 'scalar'}" for weight in weights]


def _release(layer: nn.Module, name: str) -> None:
    """Take a transposed view away; what it was a view of stays untouched."""
    if name in _turned_names(layer):
        parametrize.remove_parametrizations(layer, name, leave_parametrized=False)


def _turned_names(layer: nn.Module) -> list[str]:
    held: Iterable[tuple[str, Any]] = (  # a ModuleDict, which torch's stubs do not say
        layer.parametrizations.items() if parametrize.is_parametrized(layer) else ()  # type: ignore[operator, union-attr]
    )
    return [name for name, steps in held if len(steps) == 1 and isinstance(steps[0], Turned)]


def _keep_plain_names(layer: nn.Module) -> None:
    """Save and load the transposed weight under its own name, as if it were not a view."""
    if _show not in layer._state_dict_hooks.values():
        layer.register_state_dict_post_hook(_show)
        layer.register_load_state_dict_pre_hook(_read)


def _show(layer: nn.Module, state: dict[str, Any], prefix: str, _metadata: object) -> None:
    for name in _turned_names(layer):
        original = state.pop(f"{prefix}parametrizations.{name}.original", None)
        if original is not None:
            state[f"{prefix}{name}"] = original.t()


def _read(layer: nn.Module, state: dict[str, Any], prefix: str, *_: object) -> None:
    for name in _turned_names(layer):
        given = state.pop(f"{prefix}{name}", None)
        if given is not None:
            state[f"{prefix}parametrizations.{name}.original"] = given.t()
