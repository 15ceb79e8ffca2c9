"""Sharded training: the losses of DDP, and checkpoints that any number of processes goes on from."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

from neumo.backends.torch.parallel.sharded_files import read_shards
from neumo.backends.torch.save import read_tensors
from neumo.engine import DDP, FSDP
from neumo.types import BackendError, CheckpointError

from ..engine.toys import refused
from . import fsdp_checks
from .checks import say_report
from .launch import run
from .sharded_nets import BLOCKS, Net

SHARDED = FSDP(shard=("trunk.blocks.*",), checkpoint="sharded", reshard=False)


def as_ddp() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, strategy in (("ddp", DDP()), ("fsdp", BLOCKS), ("kept", FSDP(reshard=False))):
        net = Net(strategy)
        losses = net.train(ema=0.9, evaluate=net.test).losses
        found[name] = losses, net.weights, dict(net.factory.evaluate(net.test))
    return found


CHECKS = [name for name in vars(fsdp_checks) if name.startswith("check_")]


@pytest.fixture(scope="module")
def found() -> list[dict[str, str]]:
    return run(fsdp_checks.every_check, 2)


@pytest.mark.parametrize("check", CHECKS)
def test_in_two_processes(found: list[dict[str, str]], check: str) -> None:
    assert not say_report(found, check), say_report(found, check)


def test_losses_and_weights_are_those_of_ddp_and_of_one_process() -> None:
    net = Net()
    alone = net.train(ema=0.9, evaluate=net.test).losses
    for found in run(as_ddp, 2):
        for name, (losses, weights, metrics) in found.items():
            assert losses == pytest.approx(alone, rel=1e-5), name
            assert metrics == pytest.approx(dict(net.factory.evaluate(net.test)), rel=1e-4)
            for key, value in net.weights.items():
                np.testing.assert_allclose(weights[key], value, rtol=1e-4, atol=1e-5, err_msg=key)


def save_both(folder: str) -> dict[str, Any]:
    found = {
        "whole": Net.going_on(f"{folder}/whole", BLOCKS),
        "parts": Net.going_on(f"{folder}/parts", SHARDED),
    }
    return found | {"ddp": Net.going_on(f"{folder}/ddp", DDP())}


def go_on(folder: str) -> dict[str, list[float]]:
    chosen = {"whole": BLOCKS, "parts": SHARDED, "ddp": BLOCKS, "chain": SHARDED}
    return {name: Net.going_on(f"{folder}/{name}", strategy) for name, strategy in chosen.items()}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """The run folders of three trainings of two processes, and their losses."""
    folder = tmp_path_factory.mktemp("runs")
    return folder, run(save_both, 2, str(folder))


def third(folder: Path, into: Path) -> str:
    """Copy the runs as they were after three of their six steps."""
    for name in ("whole", "parts", "ddp"):
        shutil.copytree(folder / name, into / name)
        shutil.rmtree(into / name / "checkpoints" / "step-00000006")
    return str(into)


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_whole_checkpoints_are_those_of_any_training(saved: Any) -> None:
    folder, _ = saved
    step = Path("checkpoints/step-00000003")
    whole, ddp = folder / "whole" / step, folder / "ddp" / step
    assert files_of(whole) == files_of(ddp)
    for name in ("weights", "average", "optimizer"):
        one, two = read_tensors(whole / f"{name}.safetensors"), read_tensors(ddp / f"{name}.safetensors")
        assert list(one) == list(two)
        for key, value in one.items():
            torch.testing.assert_close(value, two[key], rtol=1e-4, atol=1e-6)


def test_parts_are_safetensors_and_json_with_checksums(saved: Any) -> None:
    folder, _ = saved
    step = folder / "parts" / "checkpoints" / "step-00000003"
    parts = files_of(step) - {"state.json"}
    assert len(parts) == 6  # weights, average and optimizer of two processes
    assert all(name.endswith(".safetensors") for name in parts)
    assert set(json.loads((step / "state.json").read_text())["files"]) == parts
    assert not list((folder / "parts" / "checkpoints").glob(".*"))


def test_torch_reads_the_parts(saved: Any) -> None:
    step = saved[0] / "parts" / "checkpoints" / "step-00000003"
    state = {"trunk.blocks.0.0.weight": torch.zeros(5, 5)}
    reader = HuggingFaceStorageReader(str(step / "weights.shards"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.load(state, storage_reader=reader, no_dist=True)
    whole = read_tensors(saved[0] / "whole" / "checkpoints" / "step-00000003" / "weights.safetensors")
    torch.testing.assert_close(state["trunk.blocks.0.0.weight"], whole["trunk.blocks.0.0.weight"])


def test_one_process_goes_on_from_two(saved: Any, tmp_path: Path) -> None:
    folder, (losses, _) = saved
    third(folder, tmp_path)
    for name in ("whole", "parts", "ddp"):
        assert Net.going_on(str(tmp_path / name)) == pytest.approx(losses[name][3:], rel=1e-6)


def test_two_then_one_then_four_processes(saved: Any, tmp_path: Path) -> None:
    """Four go on from the third step of two, and from the fourth, which one process took after them."""
    folder, (losses, _) = saved
    third(folder, tmp_path)
    shutil.copytree(tmp_path / "parts", tmp_path / "chain")
    alone = Net(folder=tmp_path / "chain").train(max_steps=4, checkpoint=True, ema=0.9).losses
    assert alone == pytest.approx(losses["parts"][3:4], rel=1e-6)
    for found in run(go_on, 4, str(tmp_path)):
        for name in ("whole", "parts", "ddp"):
            assert found[name] == pytest.approx(losses[name][3:], rel=1e-6), name
        assert found["chain"] == pytest.approx(losses["parts"][4:], rel=1e-6)


def test_weights_are_loaded_from_parts(saved: Any) -> None:
    folder, _ = saved
    nets = [Net(), Net()]
    for net, name in zip(nets, ("parts", "whole"), strict=True):
        net.factory.load(net.graph, folder / name)
    for key, value in nets[0].weights.items():
        np.testing.assert_allclose(value, nets[1].weights[key], rtol=1e-5, atol=1e-6, err_msg=key)


def test_a_part_that_is_damaged_is_refused(saved: Any, tmp_path: Path) -> None:
    step = shutil.copytree(saved[0] / "parts" / "checkpoints" / "step-00000003", tmp_path / "step-00000003")
    part = next(step.rglob("weights.shards/*"))
    part.write_bytes(part.read_bytes()[:-3] + b"abc")
    with refused(CheckpointError, "weights.shards/.* is damaged"):
        Net().train(resume=step)
    part.unlink()
    with refused(CheckpointError, "cannot be read"):
        read_shards(step / "nothing.shards", lambda _: None)


def with_synced_norms() -> list[Any]:
    found: list[Any] = []
    for strategy in (DDP(sync_norm=True), FSDP(shard=("trunk.blocks.*",), sync_norm=2)):
        net = Net(strategy, norm=True, precision="fp64")
        found.append((net.train(batches_per_step=2, epochs=2, max_steps=None).losses, net.weights))
    with refused(BackendError, "groups of 3: there are 2 processes"):
        Net(DDP(sync_norm=3), norm=True).train()
    return found


def test_synced_norms_see_the_batches_of_all_processes() -> None:
    """Fifteen batches: in the last step one process has none, and its shadow does not count."""
    alone = Net(norm=True, precision="fp64", batch_size=4)
    losses = alone.train(batches_per_step=1, epochs=2, max_steps=None).losses
    for found in run(with_synced_norms, 2):
        for given, weights in found:
            assert given == pytest.approx(losses, rel=1e-9)
            for name, value in alone.weights.items():
                np.testing.assert_allclose(weights[name], value, rtol=1e-7, atol=1e-9, err_msg=name)


def test_one_process_has_no_groups_of_two() -> None:
    Net(DDP(sync_norm=True), norm=True).train(max_steps=1)
    with refused(BackendError, "groups of 2: there is one process"):
        Net(DDP(sync_norm=2), norm=True).train()
