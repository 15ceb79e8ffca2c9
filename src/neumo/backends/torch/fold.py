"""Batch norms that go into the convolutions before them, for inference; and which precision is native."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from neumo.backends.torch.device import check_precision

if TYPE_CHECKING:
    from neumo.graph.graph import Graph

__all__ = ["fold_graph", "fold_norms", "native_precision"]


def fold_graph(session: Any, graph: Graph) -> int:
    """Fold the batch norms of all modules of a graph; return how many there were.

    This changes the weights that the session holds: do it with a model that is only used from here on. It
    cannot be trained or saved any more as what it was.
    """
    return sum(
        fold_norms(session.implementation(module))
        for module in graph.modules.values()
        if module.role not in ("data", "metric")
    )


@torch.no_grad()
def fold_norms(module: nn.Module) -> int:
    """Multiply each convolution by the batch norm that follows it in an `nn.Sequential`; return how many.

    In evaluation a batch norm is y = (x - mean) * weight / sqrt(variance + eps) + bias: one factor and one
    term for each channel. They go into the weights and the bias of the convolution, so the norm need not
    read and write all frames again.

    >>> layers = nn.Sequential(nn.Conv1d(2, 3, 1, bias=False), nn.BatchNorm1d(3)).eval()
    >>> x = torch.randn(1, 2, 5)
    >>> before = layers(x)
    >>> fold_norms(layers), torch.allclose(layers(x), before, atol=1e-6)
    (1, True)
    """
    folded = 0
    for part in module.modules():
        if not isinstance(part, nn.Sequential):
            continue
        names = list(part._modules)
        for first, second in pairwise(names):
            conv, norm = part._modules[first], part._modules[second]
            if not _fits(conv, norm):
                continue
            _fold(conv, norm)  # type: ignore[arg-type]
            part._modules[second] = nn.Identity()
            folded += 1
    return folded


def _fits(conv: nn.Module | None, norm: nn.Module | None) -> bool:
    if not isinstance(conv, nn.Conv1d | nn.Conv2d) or not isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d):
        return False
    return norm.running_mean is not None and norm.num_features == conv.out_channels


def _fold(conv: nn.Conv1d | nn.Conv2d, norm: nn.BatchNorm1d | nn.BatchNorm2d) -> None:
    mean, variance = norm.running_mean, norm.running_var
    if mean is None or variance is None:
        return
    factor = (variance.double() + norm.eps).rsqrt()
    if norm.weight is not None:
        factor = factor * norm.weight.double()
    bias = -mean.double() if conv.bias is None else conv.bias.double() - mean.double()
    bias = bias * factor + (0 if norm.bias is None else norm.bias.double())
    shape = (-1, *[1] * (conv.weight.ndim - 1))
    dtype, frozen = conv.weight.dtype, not conv.weight.requires_grad
    weight = conv.weight.double() * factor.view(shape)
    conv.weight = nn.Parameter(weight.to(dtype), requires_grad=not frozen)
    conv.bias = nn.Parameter(bias.to(dtype), requires_grad=not frozen)


def native_precision(device: str) -> tuple[str, str]:
    """Choose "bf16" or "fp32" for inference on a device, and say why.

    >>> native_precision("cpu")[0] in ("bf16", "fp32")
    True

    bf16 where a CPU has instructions for it (AVX-512 BF16, AMX, or those of ARM); fp32 everywhere else.
    """
    chosen = torch.device("cuda" if device == "auto" and torch.cuda.is_available() else "cpu")
    if device not in ("auto", "cpu") or chosen.type != "cpu":
        return "fp32", "fp32: on a GPU, bf16 has to be asked for"
    if check_precision(chosen, "bf16"):
        return "fp32", "fp32: this CPU has no instructions for bf16"
    return "bf16", "bf16: this CPU has instructions for it"
