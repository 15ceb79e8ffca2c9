"""How exactly float32 products are computed: a switch of the whole process, set for a while and put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, Literal, TypeVar

import torch

Products = Literal["ieee", "tf32"]

_MATMUL: Final[dict[Products, str]] = {"ieee": "highest", "tf32": "high"}

Value = TypeVar("Value")


@contextmanager
def float32_products(device: torch.device, products: Products) -> Iterator[None]:
    """Compute float32 products with all their digits ("ieee") or with tensor cores ("tf32"), for a while.

    >>> torch.set_float32_matmul_precision("medium")  # as a script may have done: bf16 products on CPUs
    >>> with float32_products(torch.device("cpu"), "ieee"):
    ...     torch.get_float32_matmul_precision()
    'highest'
    >>> torch.get_float32_matmul_precision()
    'medium'
    >>> torch.set_float32_matmul_precision("highest")

    The switch is one of the process, so that threads see it, too; what it was before is put back, so that two
    factories of one process do not change each other's results.
    """
    if _is_set(device, products):  # as it is in nearly every step, and reading all switches takes longer
        yield
        return
    before = _state()
    _switch(device, products)
    try:
        yield
    finally:
        _put_back(before)


@dataclass(frozen=True)
class _State:
    """The switches as they are; None for an old one that torch refuses to read, as a new one was set."""

    matmul: str | None
    cudnn: bool | None
    newer: tuple[str, ...]


def _state() -> _State:
    return _State(
        _or_none(torch.get_float32_matmul_precision),
        _or_none(lambda: torch.backends.cudnn.allow_tf32),
        tuple(switch.fp32_precision for switch in _NEWER),
    )


def _is_set(device: torch.device, products: Products) -> bool:
    if device.type == "cuda" or _or_none(torch.get_float32_matmul_precision) != _MATMUL[products]:
        return False
    fitting = _fitting(products)
    return all(switch.fp32_precision in fitting for switch in _NEWER_ON_CPUS)


def _switch(device: torch.device, products: Products) -> None:
    if _or_none(torch.get_float32_matmul_precision) != _MATMUL[products]:
        torch.set_float32_matmul_precision(_MATMUL[products])
    if device.type == "cuda" and _or_none(lambda: torch.backends.cudnn.allow_tf32) != (products == "tf32"):
        torch.backends.cudnn.allow_tf32 = products == "tf32"
    for switch in _NEWER_ON_GPUS if device.type == "cuda" else _NEWER_ON_CPUS:
        if switch.fp32_precision not in _fitting(products):
            switch.fp32_precision = products


def _fitting(products: Products) -> tuple[str, ...]:
    return ("ieee", "none") if products == "ieee" else ("tf32",)


def _put_back(before: _State) -> None:
    if before.matmul is not None and _or_none(torch.get_float32_matmul_precision) != before.matmul:
        torch.set_float32_matmul_precision(before.matmul)
    if before.cudnn is not None and _or_none(lambda: torch.backends.cudnn.allow_tf32) != before.cudnn:
        torch.backends.cudnn.allow_tf32 = before.cudnn
    for switch, value in zip(_NEWER, before.newer, strict=True):
        if switch.fp32_precision != value:
            switch.fp32_precision = value


def _or_none(read: Callable[[], Value]) -> Value | None:
    try:
        return read()
    except RuntimeError:
        return None


def _found(*paths: str) -> tuple[Any, ...]:
    """The switches by operation, which torch has since 2.9 beside the older ones."""
    switches = [reduce(lambda at, name: getattr(at, name, None), path.split("."), torch) for path in paths]
    return tuple(switch for switch in switches if hasattr(switch, "fp32_precision"))


_NEWER_ON_CPUS: Final = _found("backends.mkldnn.matmul", "backends.mkldnn.conv", "backends.mkldnn.rnn")
_NEWER_ON_GPUS: Final = _found("backends.cuda.matmul", "backends.cudnn.conv", "backends.cudnn.rnn")
_NEWER: Final = (*_NEWER_ON_GPUS, *_NEWER_ON_CPUS)
