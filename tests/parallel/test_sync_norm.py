"""Batch norm over processes: equal to one process, refused where it cannot be, and undone without a trace."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from neumo.backends.torch.parallel.sync_norm import norm_group, synchronise
from neumo.types import BackendError

from . import sync_norm_checks
from .checks import say_report
from .launch import run

CHECKS = [name for name in vars(sync_norm_checks) if name.startswith("check_")]


@pytest.fixture(scope="module")
def found() -> list[dict[str, str]]:
    return run(sync_norm_checks.every_check, 4)


@pytest.mark.parametrize("check", CHECKS)
def test_in_four_processes(found: list[dict[str, str]], check: str) -> None:
    assert not say_report(found, check), say_report(found, check)


@pytest.fixture
def group(tmp_path: Path) -> dist.ProcessGroup:
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield norm_group(None)
    dist.destroy_process_group()


class Whitened(nn.BatchNorm1d):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) * 2


def test_a_norm_with_a_forward_of_its_own_is_refused(group: dist.ProcessGroup) -> None:
    plain = nn.BatchNorm1d(2)
    with pytest.raises(BackendError, match="Whitened cannot be synchronised") as caught:
        synchronise([plain, nn.Sequential(Whitened(2))], group)
    assert "synchronisable = True" in str(caught.value)
    assert "forward" not in vars(plain)  # nothing is done by halves


def test_types_names_and_files_stay(group: dist.ProcessGroup) -> None:
    model = nn.Sequential(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3))
    names, kinds = list(model.state_dict()), [type(part) for part in model.modules()]
    synced = synchronise([model, model[1]], group)
    assert len(synced.norms) == 1
    assert (list(model.state_dict()), [type(part) for part in model.modules()]) == (names, kinds)
    synced.undo()
    assert vars(model[1]).keys() == vars(nn.BatchNorm1d(3)).keys()


def test_undo_gives_back_what_shadowed_the_forward(group: dist.ProcessGroup) -> None:
    norm = nn.BatchNorm1d(3)
    norm.forward = lambda input: input + 1
    synced = synchronise([norm], group)
    assert abs(float(norm(torch.randn(4, 3)).detach().mean())) < 1e-6
    synced.undo()
    assert float(norm(torch.zeros(1))) == 1.0


def test_a_copy_computes_over_the_group_with_its_own_weights(group: dist.ProcessGroup) -> None:
    norm = nn.BatchNorm1d(3)
    synchronise([norm], group)
    other = copy.deepcopy(norm)
    other(torch.randn(4, 3))
    assert (int(norm.num_batches_tracked), int(other.num_batches_tracked)) == (0, 1)


def test_inputs_of_other_shapes_are_refused_as_before(group: dist.ProcessGroup) -> None:
    norm = nn.BatchNorm2d(3)
    synchronise([norm], group)
    with pytest.raises(ValueError, match="expected 4D input"):
        norm(torch.zeros(2, 3))
