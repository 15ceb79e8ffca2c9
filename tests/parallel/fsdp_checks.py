"""Run by two processes: sharded trainings against those of DDP, and what is left of them."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

from neumo.backends.torch.parallel.shards import is_sharded, own_shard
from neumo.backends.torch.training.optimizers import optimizer_tensors
from neumo.engine import DDP, FSDP, LARC, SGD, AdamW, Evaluate, LossScale, NovoGrad
from neumo.engine.callbacks import Callback, Unfreeze
from neumo.engine.updates.optimizers import LAMB, Adafactor, Muon
from neumo.types import BackendError, ConfigError

from ..engine.toys import refused
from .checks import report_of
from .sharded_nets import BLOCKS, Net


def parts_of(net: Net) -> list[nn.Module]:
    session = net.factory.session
    return [part for module in (net.trunk, net.line) for part in session.implementation(module).modules()]


def both(train: Any = None, *, rel: float = 1e-5, strategy: FSDP = BLOCKS, **given: Any) -> tuple[Net, Net]:
    """Train sharded and with DDP, and compare; `train` is what a net does."""
    settings = {name: given.pop(name) for name in list(given) if name not in _OF_NETS}
    nets = Net(DDP(), **given), Net(strategy, **given)
    results = [train(net) if train else net.train(**settings) for net in nets]
    ddp, fsdp = results
    assert fsdp.losses == pytest.approx(ddp.losses, rel=rel, nan_ok=True)
    assert [row["step"] for row in fsdp.skipped] == [row["step"] for row in ddp.skipped]
    for name, value in nets[0].weights.items():
        np.testing.assert_allclose(nets[1].weights[name], value, rtol=100 * rel, atol=10 * rel, err_msg=name)
    return nets


_OF_NETS = {"precision", "allow", "norm", "tied", "bare", "points", "held", "poisoned", "folder"}


def check_optimizers() -> None:
    for optimizer in (SGD(lr=0.01, momentum=0.9, weight_decay=0.1), NovoGrad(lr=0.05), LAMB(lr=0.05)):
        both(optimizer=optimizer)
    both(optimizer=SGD(lr=0.01, momentum=0.9), larc=LARC())
    both(optimizer=AdamW(lr=0.05, amsgrad=True), clip=None)


def check_frozen_weights() -> None:
    def train(net: Net) -> Any:
        net.factory.freeze(net.graph, "trunk.blocks.1", "trunk.enter.bias")
        return net.train()

    _, net = both(train)
    fresh = Net().weights
    for name in ("trunk.blocks.1.0.weight", "trunk.enter.bias"):
        assert net.weights[name] == fresh[name]
    assert net.weights["trunk.enter.weight"] != fresh["trunk.enter.weight"]


def check_weights_that_wait() -> None:
    both(callbacks=[Unfreeze({"trunk.blocks.1": 2, "line": 3}, unit="steps")])


def check_values_for_callbacks() -> None:
    seen: list[np.ndarray] = []

    class Look(Callback):
        def on_step_end(self, run: Any) -> None:
            seen.append(run.value("line.y"))

    both(callbacks=[Look()])
    ddp, fsdp = seen[: len(seen) // 2], seen[len(seen) // 2 :]
    assert len(ddp) == 6
    for one, two in zip(ddp, fsdp, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-3, atol=1e-4)


def check_passes_that_not_all_processes_take_part_in() -> None:
    """There is one batch to evaluate, for two processes: before the first step, behind steps, within them."""

    class Look(Callback):
        def __init__(self, net: Net) -> None:
            self.net = net

        def on_action_start(self, run: Any) -> None:
            run.evaluate(self.net.test)

        def on_batch_end(self, run: Any) -> None:
            self.net.factory.infer(self.net.use)
            seen.append(run.value("line.y"))

    for bare, batches in ((True, 2), (True, 4), (False, 2)):
        seen: list[np.ndarray] = []
        both(
            lambda net, batches=batches: net.train(
                evaluate=Evaluate(net.test, every_steps=1), callbacks=[Look(net)], batches_per_step=batches
            ),
            held=1,
            bare=bare,
        )
        ddp, fsdp = seen[: len(seen) // 2], seen[len(seen) // 2 :]
        for one, two in zip(ddp, fsdp, strict=True):
            np.testing.assert_allclose(two, one, rtol=1e-3, atol=1e-4)


def check_weights_tied_within_a_part() -> None:
    _, net = both(tied=True, strategy=FSDP(), ema=0.9)
    assert net.weights["trunk.blocks.0.0.weight"] == net.weights["trunk.blocks.2.0.weight"]


def check_weights_tied_transposed() -> None:
    def train(net: Net) -> Any:
        net.factory.tie((net.trunk, "leave.weight"), (net.trunk, "enter.weight"), transpose=True)
        return net.train(ema=0.9, evaluate=net.test)

    _, net = both(train)
    enter, leave = net.weights["trunk.enter.weight"], net.weights["trunk.leave.weight"]
    np.testing.assert_array_equal(np.array(enter).T, leave)


def check_compiled_modules_are_refused() -> None:
    with refused(BackendError, "compile and FSDP do not go together"):
        Net(BLOCKS, compile=True).train()


def check_what_torch_does_not_shard_is_left_as_it_was() -> None:
    import torch.distributed.fsdp as fsdp

    net = Net(BLOCKS)
    kinds = [type(part) for part in parts_of(net)]
    shard = fsdp.fully_shard

    def fail(part: nn.Module, **given: Any) -> Any:
        if type(part).__name__ == "LineLayer":
            raise NotImplementedError("no lines")
        return shard(part, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fsdp, "fully_shard", fail)
        with refused(BackendError, "LineLayer cannot be sharded: no lines"):
            net.train()
    assert [type(part) for part in parts_of(net)] == kinds
    assert net.weights == Net().weights
    assert net.train(max_steps=2).losses == Net(BLOCKS).train(max_steps=2).losses


def check_weights_tied_over_parts_are_refused() -> None:
    with refused(BackendError, r"trunk.blocks.0.0.weight and trunk.blocks.2.0.weight are one weight"):
        Net(BLOCKS, tied=True).train()


def check_optimizers_of_whole_matrices_are_refused() -> None:
    for optimizer in (Adafactor(), Muon(lr=0.01)):
        with refused(BackendError, f"{type(optimizer).__name__} needs whole matrices.*SGD, Adam, AdamW"):
            Net(BLOCKS).train(optimizer=optimizer)


def check_patterns_that_mean_nothing_are_refused() -> None:
    with refused(ConfigError, r"shard='trunk.block.\*' names no module.*did you mean 'trunk.blocks"):
        Net(FSDP(shard=("trunk.block.*",))).train()
    with refused(ConfigError, r"shard='trunk.blocks' is a list of layers.*shard='trunk.blocks.\*'"):
        Net(FSDP(shard=("trunk.blocks",))).train()


def check_single_numbers_are_refused() -> None:
    net = Net(BLOCKS)
    net.factory.session.implementation(net.trunk).register_parameter("scale", nn.Parameter(torch.ones(())))
    with refused(BackendError, r"trunk.scale is a single number.*the shape \(1,\)"):
        net.train()


def check_modules_are_whole_and_plain_again() -> None:
    net = Net(BLOCKS, norm=True)
    before = [(part, type(part), dict(part.named_parameters(recurse=False))) for part in parts_of(net)]
    keys = [set(vars(part)) for part, _, _ in before]
    hooks = [_hooks(part) for part, _, _ in before]
    whole = sum(weight.numel() for part, _, parameters in before for weight in parameters.values())
    held: list[bool] = []
    here: list[tuple[int, int]] = []

    class Look(Callback):
        def on_step_end(self, run: Any) -> None:
            trainer = run.stage.trainer
            held.extend(is_sharded(weight) for part in parts_of(net) for weight in part.parameters())
            moments = optimizer_tensors(trainer.optimizer, trainer.parameters)
            mean = [value for name, value in moments.items() if name.endswith("/exp_avg")]
            here.append((_size_here(trainer.parameters.values()), _size_here(mean)))

    net.train(callbacks=[Look()])
    assert held
    assert all(held)
    assert here[0][0] == here[0][1] < 0.65 * whole  # rows are not cut: of 5, one process has 3
    for (part, kind, parameters), names, hooked in zip(before, keys, hooks, strict=True):
        assert type(part) is kind
        assert set(vars(part)) == names
        assert _hooks(part) == hooked
        for name, weight in part.named_parameters(recurse=False):
            assert weight is parameters[name]
            assert not is_sharded(weight)
            assert weight.grad is None
    copy.deepcopy(before[0][0])
    _same_everywhere(net)


def _size_here(tensors: Iterable[torch.Tensor]) -> int:
    return sum(own_shard(tensor).numel() for tensor in tensors)


def _hooks(part: nn.Module) -> dict[str, int]:
    return {name: len(table) for name, table in vars(part).items() if isinstance(table, dict)}


def _same_everywhere(net: Net) -> None:
    flat = torch.cat([torch.tensor(value).double().reshape(-1) for value in net.weights.values()])
    first = flat.clone()
    dist.broadcast(first, 0)
    assert torch.equal(first, flat)


def check_all_that_follows_a_training() -> None:
    def twice(net: Net) -> Any:
        net.train(max_steps=3)
        return net.train(max_steps=3)

    ddp, fsdp = both(twice)
    assert fsdp.factory.evaluate(fsdp.test) == pytest.approx(ddp.factory.evaluate(ddp.test), rel=1e-4)
    x = np.ones((2, 3), np.float32)
    ours, theirs = (net.factory.session.feed([x]) for net in (fsdp, ddp))
    with torch.no_grad():
        y, wanted = (
            net.factory.session.implementation(net.trunk)(*values)
            for net, values in ((fsdp, ours), (ddp, theirs))
        )
    torch.testing.assert_close(y, wanted, rtol=1e-3, atol=1e-4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.safetensors"
        fsdp.factory.save(fsdp.graph, path)
        again = Net(BLOCKS)
        again.factory.load(again.graph, path)
        assert again.weights == fsdp.weights


def check_steps_that_are_not_finite_are_left_out_everywhere() -> None:
    ddp, _ = both(poisoned=(3,), max_steps=None, epochs=2, optimizer=SGD(lr=0.01))
    assert all(np.isfinite(value).all() for value in ddp.weights.values())


def check_weights_while_they_are_in_parts() -> None:
    net = Net(BLOCKS)
    seen: list[Any] = []

    class Read(Callback):
        def on_step_end(self, run: Any) -> None:
            seen.append(net.weights)

    net.train(max_steps=3, callbacks=[Read()])
    assert seen[0] != seen[1]
    assert seen[-1] == net.weights


def check_a_training_that_fails_leaves_weights_that_can_be_used() -> None:
    net = Net(BLOCKS)

    class Fail(Callback):
        def on_step_end(self, run: Any) -> None:
            if run.step == 2:
                raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        net.train(callbacks=[Fail()])
    two = Net(DDP())
    two.train(max_steps=2)
    for name, value in two.weights.items():
        np.testing.assert_allclose(net.weights[name], value, rtol=1e-3, atol=1e-5)
    assert net.factory.evaluate(net.test) == pytest.approx(two.factory.evaluate(two.test), rel=1e-3)
    assert net.train(max_steps=2).losses == pytest.approx(two.train(max_steps=2).losses, rel=1e-4)
    assert not any(is_sharded(weight) for part in parts_of(net) for weight in part.parameters())


def check_low_precisions() -> None:
    both(precision="bf16", rel=1e-4)
    both(precision="pure-bf16", rel=1e-2, norm=True, ema=0.9, max_steps=3)
    fp16 = {"precision": "fp16", "allow": {"fp16-on-cpu"}}
    both(rel=1e-3, loss_scale=LossScale(initial=2.0**6), **fp16)


def check_overflows_lower_the_scale_everywhere() -> None:
    """One process has a gradient that overflows when scaled, the other not: both leave the step out."""

    class Blow(Callback):
        def on_batch_start(self, run: Any) -> None:
            if run.world.rank == 0 and run.step == 1:
                wanted = [feed.port for feed in run.stage.plan.feeds].index("y")
                run.current.feeds[wanted].mul_(2e3)

        def on_step_end(self, run: Any) -> None:
            scales.append(run.stage.trainer.scaler.get_scale())
            skipped.append(run.skipped)

    found = []
    for strategy in (DDP(), BLOCKS):
        scales: list[float] = []
        skipped: list[str] = []
        net = Net(strategy, precision="fp16", allow={"fp16-on-cpu"})
        net.train(batches_per_step=2, loss_scale=LossScale(initial=2.0**6), callbacks=[Blow()])
        found.append((scales, skipped))
        _same_everywhere(net)
    assert found[0] == found[1]
    assert found[1] == ([2.0**6, *[2.0**5] * 5], ["", "overflow", "", "", "", ""])


def every_check() -> dict[str, str]:
    return report_of(globals())
