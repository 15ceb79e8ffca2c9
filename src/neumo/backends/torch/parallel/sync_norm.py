"""Batch norm over the processes of a group: the statistics of one joined batch, on any device.

Each process hands on the mean, the spread and the number of its values of each channel, which are merged
pairwise-stably (Chan, Golub and LeVeque 1983); the backward pass adds up two sums a channel (Ioffe and
Szegedy 2015, section 3). The layers stay what they are: types, names of weights and files do not change.
`torch.nn.SyncBatchNorm` computes on GPUs only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import MethodType
from typing import Any, Final, TypeAlias

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from neumo.types.errors import BackendError

Norm: TypeAlias = "_BatchNorm"  # of one, two or three axes behind the channels, or none
_FORWARD: Final = "forward"  # where an instance shadows the method of its class


@dataclass
class SyncedNorms:
    """The batch norms that compute over a group, until `undo`.

    While `counted` is False the batch of this process takes part and counts as no values at all: a process
    that has run out of batches repeats one, whose loss has the weight 0, so that the others do not wait.
    """

    group: dist.ProcessGroup
    norms: list[Norm] = field(default_factory=list["Norm"])
    counted: bool = True
    _before: list[Callable[..., Tensor] | None] = field(default_factory=list["Callable[..., Tensor] | None"])

    def undo(self) -> None:
        """Give all layers back their own way to compute."""
        for norm, before in zip(self.norms, self._before, strict=True):
            if before is None:
                norm.__dict__.pop(_FORWARD, None)
            else:
                norm.__dict__[_FORWARD] = before
        self.norms, self._before = [], []

    def take(self, modules: Iterable[nn.Module]) -> None:
        """Make the batch norms inside some modules compute over the group; as `synchronise`."""
        known = {id(norm) for norm in self.norms}
        parts = {id(part): part for module in modules for part in module.modules()}
        found = [part for part in parts.values() if isinstance(part, _BatchNorm) and id(part) not in known]
        for norm in found:
            _check(norm)
        for norm in found:
            self._before.append(norm.__dict__.get(_FORWARD))
            self.norms.append(norm)
            # On the instance: the type of the layer, its names and its state_dict stay as they are.
            norm.__dict__[_FORWARD] = MethodType(_over(self), norm)


def synchronise(modules: Iterable[nn.Module], group: dist.ProcessGroup) -> SyncedNorms:
    """Make every batch norm inside some modules compute over the processes of a group.

    Statistics and gradients are those of one process with the joined batch, whatever the processes' sizes;
    all of them save the same running statistics. Layers in evaluation mode, such as frozen ones, stay by
    themselves. Every process of the group calls each layer as often as the others do.

    >>> import tempfile
    >>> store = dist.FileStore(tempfile.mktemp(), 1)
    >>> dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    >>> layer = nn.BatchNorm1d(2)
    >>> synced = synchronise([layer], norm_group(None))
    >>> layer(torch.tensor([[1.0, 2.0], [3.0, 2.0]])), type(layer).__name__, list(layer.state_dict())[:2]
    (tensor([[-1.0000,  0.0000],
            [ 1.0000,  0.0000]], grad_fn=<_NormaliseBackward>), 'BatchNorm1d', ['weight', 'bias'])
    >>> synced.undo()
    >>> dist.destroy_process_group()

    Raises `BackendError` for a batch norm whose class computes in a way of its own, unless it has the
    attribute `synchronisable = True`: then its statistics are those of all values of a channel.
    """
    synced = SyncedNorms(group)
    synced.take(modules)
    return synced


def norm_group(size: int | None, device: str = "cpu") -> dist.ProcessGroup:
    """Make the group of this process: `size` processes of consecutive ranks, all of them for None.

    Every process calls it with the same arguments. The group has connections of its own, which keeps its
    traffic apart from that of the gradients. Raises `BackendError` if the groups would not be of one size.
    """
    world = dist.get_world_size()
    each = world if size is None else size
    check_groups(each, world)
    backend = "nccl" if torch.device(device).type == "cuda" else "gloo"
    groups = [
        dist.new_group(list(range(first, first + each)), backend=backend) for first in range(0, world, each)
    ]
    mine: Any = groups[dist.get_rank() // each]  # torch says that it may be a number: for outsiders only
    return mine


def check_groups(size: int, world: int) -> None:
    """Raise `BackendError` unless the processes can be divided into groups of one size."""
    if size > 0 and world % size == 0:
        return
    fits = ", ".join(str(n) for n in range(1, world + 1) if world % n == 0)
    processes = "there is one process" if world == 1 else f"there are {world} processes"
    raise BackendError(
        f"batch norms cannot be synchronised over groups of {size}: {processes}",
        code="sync-norm",
        details=[f"the size of a group divides the number of processes: {fits}"],
        fixes=["sync_norm=True synchronises over all processes"],
    )


def _check(norm: Norm) -> None:
    kind = type(norm)
    plain = kind.forward in (_BatchNorm.forward, nn.SyncBatchNorm.forward)
    if not plain and not getattr(kind, "synchronisable", False):
        raise BackendError(
            f"{kind.__name__} cannot be synchronised: it is a batch norm with a forward of its own",
            code="sync-norm",
            fixes=[
                f"write `synchronisable = True` into class {kind.__name__} if its statistics are those of all"
                " values of a channel",
                "train without sync_norm",
            ],
        )


def _over(synced: SyncedNorms) -> Callable[[Norm, Tensor], Tensor]:
    """Make the forward method of the layers of one group."""

    def forward(norm: Norm, input: Tensor) -> Tensor:
        if not norm.training:
            return type(norm).forward(norm, input)
        return _joined(norm, input, synced.group, counted=synced.counted)

    # Collectives whose order all processes share: they stay out of compiled code.
    uncompiled: Any = torch.compiler.disable(forward)
    return uncompiled


def _joined(norm: Norm, x: Tensor, group: dist.ProcessGroup, *, counted: bool) -> Tensor:
    norm._check_input_dim(x)
    values = x.numel() // max(1, x.shape[1]) if counted else 0  # of each channel
    moments = _merge(x.detach(), values, group)
    if values < 2 and moments.count.item() < 2:  # with two values here there is no need to look
        # One value has no variance: what then happens is the rule of the class, where the value is.
        return type(norm).forward(norm, x) if values else _without_batch(norm, x)
    _follow(norm, moments)
    scale = torch.rsqrt(moments.variance + norm.eps)
    arguments = (x, norm.weight, norm.bias, moments.mean, scale, moments.count, counted, group)
    normalised: Any = _Normalise.apply(*arguments)
    return normalised


@dataclass(frozen=True, slots=True)
class _Moments:
    """Of the joined batch, in float64: mean (C), biased variance (C), and the values of a channel ()."""

    mean: Tensor
    variance: Tensor
    count: Tensor


def _merge(x: Tensor, values: int, group: dist.ProcessGroup) -> _Moments:
    """Join the moments of all processes: the same numbers in the same order, and so the same bits, on all."""
    width = x.shape[1]
    own = torch.zeros(2 * width + 1, dtype=torch.float64, device=x.device)
    if values:
        variance, mean = torch.var_mean(x.to(_precise(x.dtype)), dim=_all_but_channels(x), correction=0)
        own[:width], own[width:-1], own[-1] = mean, variance, values
    every = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(every, own, group=group)
    means, variances, counts = torch.stack(every).split([width, width, 1], dim=1)
    count = counts.sum()
    some = count.clamp(min=1.0)
    mean = (counts * means).sum(0) / some
    return _Moments(mean, (counts * (variances + (means - mean).square())).sum(0) / some, count)


@torch.no_grad()
def _follow(norm: Norm, moments: _Moments) -> None:
    """Move the running statistics towards those of the joined batch, as the layer would by itself."""
    mean, variance, updates = norm.running_mean, norm.running_var, norm.num_batches_tracked
    if not norm.track_running_stats or mean is None or variance is None or updates is None:
        return
    updates.add_(1)
    share: Any = norm.momentum if norm.momentum is not None else 1.0 / updates.to(mean)  # None: plain average
    unbiased = moments.variance * (moments.count / (moments.count - 1.0))
    mean.lerp_(moments.mean.to(mean), share)
    variance.lerp_(unbiased.to(variance), share)


def _without_batch(norm: Norm, x: Tensor) -> Tensor:
    """Normalise what does not count, while nothing else does: any fixed statistics serve."""
    mean, variance = norm.running_mean, norm.running_var
    if mean is None or variance is None:
        mean, variance = x.new_zeros(x.shape[1]), x.new_ones(x.shape[1])
    return F.batch_norm(x, mean, variance, norm.weight, norm.bias, eps=norm.eps)


class _Normalise(torch.autograd.Function):
    """`(x - mean) * scale * weight + bias`, where mean and scale come from the x of all processes."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        scale: Tensor,
        count: Tensor,
        counted: bool,
        group: dist.ProcessGroup,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, mean, scale, count)
        ctx.counted, ctx.group = counted, group
        ctx.bias_dtype = x.dtype if bias is None else bias.dtype
        y = _standard(x, mean, scale)
        if weight is not None:
            y = y * _wide(weight, y)
        if bias is not None:
            y = y + _wide(bias, y)
        return y.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """With n values of x: dx = scale * weight * (dy - sum(dy) / n - x' * sum(dy * x') / n)."""
        x, weight, mean, scale, count = ctx.saved_tensors
        axes = _all_but_channels(x)
        standard = _standard(x, mean, scale)  # x', made again: x takes less memory in low precision
        dy = dy.to(standard.dtype)
        along = (dy * standard).sum(axes)
        total = dy.sum(axes)
        dx = None
        if ctx.needs_input_grad[0]:
            factor = scale.to(dy) if weight is None else scale.to(dy) * weight.to(dy)
            shared = torch.stack([total, along]).double()
            if not ctx.counted:
                shared.zero_()  # what does not count adds nothing, be it no number at all
            dist.all_reduce(shared, group=ctx.group)
            if ctx.counted:
                both = (shared / count).to(dy)
                dy = dy - _wide(both[0], dy) - standard * _wide(both[1], dy)
            dx = (dy * _wide(factor, dy)).to(x.dtype)
        dweight = along.to(weight.dtype) if weight is not None and ctx.needs_input_grad[1] else None
        dbias = total.to(ctx.bias_dtype) if ctx.needs_input_grad[2] else None
        return dx, dweight, dbias, None, None, None, None, None


def _standard(x: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    wide = x.to(_precise(x.dtype))
    return (wide - _wide(mean, wide)) * _wide(scale, wide)


def _wide(channels: Tensor, like: Tensor) -> Tensor:
    """(C) -> (1, C, 1, ...), in the precision of `like`."""
    return channels.to(like.dtype).view(1, -1, *[1] * (like.ndim - 2))


def _all_but_channels(x: Tensor) -> list[int]:
    return [axis for axis in range(x.ndim) if axis != 1]


def _precise(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
