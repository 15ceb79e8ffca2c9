"""Sharded training: the losses of DDP, modules that are whole again, checkpoints for any number of processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from neumo.engine.strategies import DDP, FSDP

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


def test_losses_and_weights_are_those_of_ddp_and_of_one_process() -> None:
    net = Net()
    alone = net.train(ema=0.9, evaluate=net.test).losses
    for found in run(as_ddp, 2):
        for name, (losses, weights, metrics) in found.items():
            assert losses == pytest.approx(alone, rel=1e-5), name
            assert metrics == pytest.approx(dict(net.factory.evaluate(net.test)), rel=1e-4)
            for key, value in net.weights.items():
                np.testing.assert_allclose(weights[key], value, rtol=1e-4, atol=1e-5, err_msg=key)
