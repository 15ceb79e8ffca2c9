"""Run by four processes: batch norms over processes against one process with the joined batch."""

from __future__ import annotations

import copy
from functools import cache

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from neumo.backends.torch.parallel import sync_norm
from neumo.backends.torch.parallel.sync_norm import synchronise
from neumo.nn.norm import BatchNorm
from neumo.types import BackendError

from .checks import report_of

norm_group = cache(sync_norm.norm_group)  # to connect takes a moment


def net(norm: nn.Module, conv: type[nn.Module] = nn.Conv1d) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        norm, norm2 = copy.deepcopy(norm), copy.deepcopy(norm)
        return nn.Sequential(conv(2, 3, 1), norm, nn.Tanh(), conv(3, 3, 1), norm2).double()


def batches(
    sizes: list[int], steps: int, *, axes: tuple[int, ...] = (4,), shift: float = 0.0
) -> list[list[Tensor]]:
    draw = torch.Generator().manual_seed(5)
    return [
        [torch.randn(n, 2, *axes, generator=draw, dtype=torch.float64) + shift for n in sizes]
        for _ in range(steps)
    ]


def train(model: nn.Module, x: Tensor, group: dist.ProcessGroup | None) -> tuple[Tensor, Tensor]:
    """One step on the sum of the losses of all; returns outputs and the gradient of the input."""
    x = x.clone().requires_grad_()
    y = model(x)
    loss = (y.square() * torch.arange(1, 4).view(-1, *[1] * (y.ndim - 2))).sin().sum()
    loss.backward()
    with torch.no_grad():
        for weight in model.parameters():
            if group is not None:
                dist.all_reduce(weight.grad, group=group)
            weight -= 0.01 * weight.grad
            weight.grad = None
    return y.detach(), x.grad


def same(one: Tensor, two: Tensor) -> None:
    torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)


def same_state(one: nn.Module, two: nn.Module) -> None:
    assert list(one.state_dict()) == list(two.state_dict())
    for name, value in one.state_dict().items():
        same(value, two.state_dict()[name])


def compare(norm: nn.Module, sizes: list[int], *, group_size: int | None = None, **shape: object) -> None:
    """Three steps over the group, and in one process on the joined batches of the group."""
    conv = {3: nn.Conv1d, 4: nn.Conv2d, 5: nn.Conv3d}[2 + len(shape.get("axes", (4,)))]
    model, alone = net(norm, conv), net(norm, conv)
    group = norm_group(group_size)
    ranks = dist.get_process_group_ranks(group)
    synced = synchronise([model], group)
    assert len(synced.norms) == 2
    place = ranks.index(dist.get_rank())
    for step in batches(sizes, 3, **shape):
        mine = [step[rank] for rank in ranks]
        y, dx = train(model, mine[place], group)
        whole, whole_dx = train(alone, torch.cat(mine), None)
        counts = [len(x) for x in mine]
        same(y, whole.split(counts)[place])
        same(dx, whole_dx.split(counts)[place])
        same_state(model, alone)
    synced.undo()
    assert "forward" not in model[1].__dict__


def check_equal_batches() -> None:
    compare(nn.BatchNorm1d(3), [3] * dist.get_world_size())


def check_unequal_batches() -> None:
    compare(BatchNorm(3), [1, 5, 2, 3][: dist.get_world_size()])


def check_a_batch_without_utterances() -> None:
    compare(nn.BatchNorm1d(3), [4, 0, 2, 3][: dist.get_world_size()])


def check_groups_of_two() -> None:
    compare(nn.BatchNorm1d(3), [2, 5, 4, 3][: dist.get_world_size()], group_size=2)


def check_groups_of_one() -> None:
    compare(nn.BatchNorm1d(3), [2, 5, 4, 3][: dist.get_world_size()], group_size=1)


def check_two_and_three_axes() -> None:
    compare(nn.BatchNorm2d(3), [2] * dist.get_world_size(), axes=(3, 2))
    compare(nn.BatchNorm3d(3), [2] * dist.get_world_size(), axes=(3, 2, 2))


def check_other_settings() -> None:
    sizes = [2, 1, 3, 2][: dist.get_world_size()]
    compare(nn.BatchNorm1d(3, momentum=None), sizes)
    compare(nn.BatchNorm1d(3, affine=False), sizes)
    compare(nn.BatchNorm1d(3, track_running_stats=False), sizes)


def check_far_from_zero() -> None:
    """Adding up squares would lose the spread of values around 1e6; merging moments keeps it."""
    norm, group = nn.BatchNorm1d(2, affine=False), norm_group(None)
    step = batches([3] * dist.get_world_size(), 1, shift=1e6)[0]
    synchronise([norm], group)
    whole = nn.BatchNorm1d(2, affine=False).double()(torch.cat(step))
    y = norm.double()(step[dist.get_rank()])
    torch.testing.assert_close(y, whole.split(3)[dist.get_rank()], rtol=1e-6, atol=1e-6)


def check_half_precision() -> None:
    norm, group = nn.BatchNorm1d(2), norm_group(None)
    step = batches([3] * dist.get_world_size(), 1)[0]
    synchronise([norm], group)
    x = step[dist.get_rank()].bfloat16().requires_grad_()
    y = norm(x)
    whole = nn.BatchNorm1d(2)(torch.cat(step).bfloat16().float()).split(3)[dist.get_rank()]
    y.float().square().sum().backward()
    assert y.dtype is torch.bfloat16
    assert x.grad.dtype is torch.bfloat16
    assert norm.weight.grad.dtype is torch.float32
    torch.testing.assert_close(y.float(), whole, rtol=1e-2, atol=1e-2)


def check_shadows_do_not_count() -> None:
    """A process whose batch counts as nothing takes part, and does not change what the others compute."""
    rank, size = dist.get_rank(), dist.get_world_size()
    model, alone = net(nn.BatchNorm1d(3)), net(nn.BatchNorm1d(3))
    group = norm_group(None)
    synced = synchronise([model], group)
    for step in batches([2] * size, 3):
        synced.counted = rank == 0
        x = step[rank] if rank == 0 else torch.full_like(step[rank], torch.nan)
        y = model(x)
        loss = y.sin().sum() if rank == 0 else (0.0 * torch.nan_to_num(y)).sum()
        loss.backward()
        whole = alone(step[0])
        whole.sin().sum().backward()
        same_state(model, alone)
        if rank == 0:
            same(y, whole)
            for one, two in zip(model.parameters(), alone.parameters(), strict=True):
                same(one.grad, two.grad)


def check_only_shadows_leave_no_trace() -> None:
    norm = net(BatchNorm(3))
    synced = synchronise([norm], norm_group(None))
    synced.counted = False
    before = copy.deepcopy(norm.state_dict())
    y = norm(batches([2] * 4, 1)[0][dist.get_rank()])
    y.sum().backward()
    assert bool(y.isfinite().all())
    for name, value in norm.state_dict().items():
        assert torch.equal(value, before[name])


def check_one_value_in_all() -> None:
    """Neumo's norm takes its running statistics, torch's raises; both where the value is."""
    x = torch.ones(int(dist.get_rank() == 0), 3, 1)
    gentle, strict = BatchNorm(3), nn.BatchNorm1d(3)
    synchronise([gentle, strict], norm_group(None))
    assert gentle(x).shape == x.shape
    assert gentle.num_batches_tracked == 0
    if dist.get_rank() == 0:
        with pytest.raises(ValueError, match="more than 1 value"):
            strict(x)
    else:
        strict(x)


def check_one_value_each() -> None:
    """What is too little for one process is enough for all together."""
    norm = BatchNorm(3)
    synchronise([norm], norm_group(None))
    y = norm(torch.full((1, 3, 1), float(dist.get_rank())))
    assert norm.num_batches_tracked == 1
    assert abs(y[0, 0, 0].item()) > 0.4


def check_frozen_norms_stay_local() -> None:
    norm = nn.BatchNorm1d(3)
    synchronise([norm], norm_group(None))
    norm.eval()
    before = copy.deepcopy(norm.state_dict())
    if dist.get_rank() == 0:  # alone: it would wait for the others otherwise
        norm(torch.randn(2, 3, 4))
    for name, value in norm.state_dict().items():
        assert torch.equal(value, before[name])


def check_sizes_that_do_not_divide() -> None:
    with pytest.raises(BackendError, match=r"groups of 3: there are \d processes") as caught:
        norm_group(3)
    assert "1, 2" in str(caught.value)
    with pytest.raises(BackendError, match="groups of 0"):
        norm_group(0)


def every_check() -> dict[str, str]:
    return report_of(globals())
