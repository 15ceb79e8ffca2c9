"""Computes fp16 products on a CPU as tensor cores do: summed up in fp32, the result rounded to fp16.

A CPU without fp16 units takes 10 to 60 times as long for a convolution in fp16, and rounds otherwise. Within
`tensor_cores()`, products of fp16 tensors are computed in fp32 and rounded once, so that a training in fp16
can be watched at the speed of one in fp32. All else (overflow at 65504, vanishing gradients, loss scaling) is
that of fp16.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

aten = torch.ops.aten
PRODUCTS = frozenset(
    {
        aten.convolution.default,
        aten.convolution_backward.default,
        aten.mm.default,
        aten.addmm.default,
        aten.bmm.default,
        aten.baddbmm.default,
    }
)


class _Rounded(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        halves = [each for each in args if isinstance(each, torch.Tensor) and each.dtype is torch.float16]
        if func not in PRODUCTS or not halves:
            return func(*args, **kwargs)
        given = tree_map(_raise, args)
        return tree_map(_round, func(*given, **tree_map(_raise, kwargs)))


def _raise(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.dtype is torch.float16 else value


def _round(value: Any) -> Any:
    return value.half() if isinstance(value, torch.Tensor) and value.dtype is torch.float32 else value


@contextmanager
def tensor_cores() -> Iterator[None]:
    """Compute products of fp16 tensors in fp32 and round the results."""
    with _Rounded():
        yield
