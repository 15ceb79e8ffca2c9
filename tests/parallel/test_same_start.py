"""All processes begin with the same weights, and one of them verifies the checkpoint that they go on from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from neumo.engine import DDP, FSDP
from neumo.engine.checkpoints import store
from neumo.types import BackendError, ConfigError

from ..engine.toys import refused
from .launch import run
from .sharded_nets import BLOCKS, Net


def begin(folder: str) -> dict[str, Any]:
    """Change a weight in one process, and count what each verifies of a checkpoint."""
    refusals: list[str] = []
    for strategy in (DDP(), BLOCKS):
        net = Net(strategy)
        if net.factory.session.world.rank:
            weights = net.factory.session.implementation(net.trunk).state_dict()
            with torch.no_grad():
                weights["enter.bias"][0] += 1e-7
        with pytest.raises(BackendError) as caught:
            net.train()
        refusals.append(" ".join(str(caught.value).split()))
    Net(DDP(), folder=folder).train(max_steps=2)
    verified: list[str] = []
    plain = store._verify

    def verify(path: Path, digest: str) -> None:
        verified.append(path.name)
        plain(path, digest)

    store._verify = verify  # type: ignore[assignment]
    again = Net(DDP(), folder=folder).train(max_steps=4)
    return {"refusals": refusals, "verified": verified, "losses": len(again.losses), "steps": again.steps}


def test_two_processes(tmp_path: Path) -> None:
    first, second = run(begin, 2, str(tmp_path))
    for refusal in (*first["refusals"], *second["refusals"]):
        assert "1 of 2 processes begin with other weights than process 0 process 1: trunk" in refusal
    assert set(first["verified"]) == {"weights.safetensors", "optimizer.safetensors"}
    assert second["verified"] == []
    for each in (first, second):
        assert (each["losses"], each["steps"]) == (2, 4)


def test_one_process_says_that_nothing_is_sharded_and_checks_the_patterns() -> None:
    result = Net(BLOCKS).train(max_steps=1)
    assert sum(note.startswith("FSDP in one process: all weights are whole") for note in result.notes) == 1
    assert not any("FSDP" in note for note in Net(DDP()).train(max_steps=1).notes)
    with refused(ConfigError, r"shard='trunk.bloks.\*' names no module.*did you mean 'trunk.blocks"):
        Net(FSDP(shard=("trunk.bloks.*",))).train()
    with refused(ConfigError, "shard='trunk.blocks' is a list of layers"):
        Net(FSDP(shard=("trunk.blocks",))).train()
