"""Traces a module with symbolic sizes and tells the sizes of its inputs and outputs as expressions."""

from __future__ import annotations

import inspect
import io
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from neumo.backends.torch.symbolic import LEAST

Dims = tuple[Any, ...]  # of ints and sympy expressions


class NotTraceable(Exception):
    """Says why torch.export could not follow a module."""


@dataclass(frozen=True)
class TracedTensor:
    """The sizes of a tensor as ints and sympy expressions, and its dtype."""

    dims: Dims
    dtype: torch.dtype


@dataclass(frozen=True)
class Traced:
    """What a trace found: each input tensor in order, each output, and the range of each symbolic size.

    An output that is no tensor is kept as it is (None for one that is absent). `guards` are the comparisons
    of sizes that were true for the example and decided how the code went on.
    """

    inputs: tuple[TracedTensor, ...]
    outputs: tuple[Any, ...]
    ranges: Mapping[Any, tuple[int, int | None]]
    operations: tuple[str, ...] = ()  # what made each output, such as "_log_softmax"
    guards: tuple[Any, ...] = ()  # sympy relations


class ByName(nn.Module):
    """Calls a module with its arguments by name, so that they can be given in order."""

    def __init__(self, module: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.module = module
        self.names = tuple(names)

    def forward(self, *values: Any) -> Any:
        """Whatever the module gives."""
        return self.module(**dict(zip(self.names, values, strict=True)))


def trace(module: nn.Module, values: Sequence[Any], dynamic: Sequence[Any]) -> Traced:
    """Export a module that takes `*values` with an example; `dynamic` says which axes of each may change.

    An entry of `dynamic` has the structure of its value: the axes of a tensor as a tuple of ints, a tuple of
    such, None for what is no tensor. The axes that are not listed are fixed. Raises `NotTraceable` with the
    reason.
    """
    shapes = tuple(_shapes(axes) for axes in dynamic)
    try:
        # torch prints the half-made graph when it gives up
        with warnings.catch_warnings(), torch.no_grad(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            exported = torch.export.export(module, tuple(values), dynamic_shapes=(shapes,), strict=False)
    except Exception as error:  # torch raises its own, sympy's and Python's errors here
        raise NotTraceable(reason_of(error)) from error
    return _read(exported)


def reason_of(error: BaseException) -> str:
    """The first sentence of an error of torch, in one line.

    >>> reason_of(RuntimeError("no kernel\\n  File ..."))
    'RuntimeError: no kernel'
    """
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return inspect.cleandoc(f"{type(error).__name__}: {first[:300]}")


def _shapes(axes: Any) -> Any:
    if axes is None:
        return None
    if axes and isinstance(axes[0], tuple | list):
        return tuple(_shapes(part) for part in axes)
    return dict.fromkeys(axes, torch.export.Dim.AUTO)


def _read(exported: Any) -> Traced:
    nodes = {node.name: node for node in exported.graph.nodes}
    inputs = [nodes[name].meta["val"] for name in exported.graph_signature.user_inputs if name in nodes]
    outputs = [nodes.get(name, name) for name in exported.graph_signature.user_outputs]
    return Traced(
        inputs=tuple(_tensor(value) for value in inputs if isinstance(value, Tensor)),
        outputs=tuple(_tensor(getattr(node, "meta", {}).get("val", None)) for node in outputs),
        ranges={symbol: _range(found) for symbol, found in exported.range_constraints.items()},
        operations=tuple(_operation(node) for node in outputs),
        guards=_guards(inputs),
    )


def _guards(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The relations of sizes in the environment that all symbolic sizes of one trace share."""
    sizes: list[Any] = [size for value in inputs if isinstance(value, Tensor) for size in value.shape]
    shared = next((size.node.shape_env for size in sizes if type(size) is not int), None)
    found = (guard.expr for guard in getattr(shared, "guards", ()))
    return tuple(dict.fromkeys(guard for guard in found if getattr(guard, "free_symbols", None)))


def _tensor(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return TracedTensor(tuple(_dim(size) for size in value.shape), value.dtype)


def _dim(size: Any) -> Any:
    return size if type(size) is int else size.node.expr


def _range(found: Any) -> tuple[int, int | None]:
    lower, upper = found.lower, found.upper
    finite = getattr(upper, "is_Integer", False) and int(upper) < 1 << 31
    return (int(lower) if getattr(lower, "is_Integer", False) else LEAST), int(upper) if finite else None


def _operation(node: Any) -> str:
    target = getattr(node, "target", None)
    return str(getattr(target, "__name__", target)).partition(".")[0]
