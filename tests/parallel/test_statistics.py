"""Statistics are the same in all processes, follow what counts and nothing else, and survive a resume."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from neumo.backends.torch.registry import implements
from neumo.engine import DDP, FSDP, SGD, Checkpoint, NeuralFactory
from neumo.engine.loop.phases import Phase
from neumo.graph.graph import Graph
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, F

from ..engine.toys import Line, PointData, SquaredError, line_graphs
from .launch import run

WINDOW = [-0.0, 0.1, 1 / 3, 1e-30]


@dataclass(frozen=True)
class Levelled(NeuralModule):
    trainable: ClassVar[bool] = True
    grows: bool = False

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F(3)]}, gives={"y": Acoustic()[B, F(1)]})


@implements(Levelled)
class LevelledLayer(nn.Module):
    """Keeps statistics of many kinds: batch norms, moved in place, replaced, a counter, and constants."""

    level: Tensor
    spread: Tensor
    lowest: Tensor
    seen: Tensor
    table: Tensor

    def __init__(self, spec: Levelled) -> None:
        super().__init__()
        self.grows = spec.grows
        self.norm, self.still = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
        self.linear = nn.Linear(3, 1)
        self.register_buffer("level", torch.zeros(3))
        self.register_buffer("spread", torch.zeros(3))
        self.register_buffer("lowest", torch.tensor(torch.inf))
        self.register_buffer("seen", torch.tensor(0))
        self.register_buffer("table", torch.zeros(1))
        self.register_buffer("window", torch.tensor(WINDOW))
        self.still.running_var = torch.tensor([0.1, 1 / 3, 7.7])

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.level.lerp_(x.detach().mean(0), 0.1)
            self.spread = torch.lerp(self.spread, x.detach().abs().mean(0), 0.1)
            self.lowest.copy_(torch.minimum(self.lowest, x.detach().min()))
            self.seen += 1
            if self.grows:  # as tables of positions do
                self.table = torch.zeros(max(len(self.table), len(x)))
        return self.linear(self.still(self.norm(x)) - self.level)


def trained(
    folder: Path | None = None, *, points: int = 39, strategy: Any = None, grows: bool = False, **given: Any
) -> dict[str, Any]:
    """Train, with ten batches and six a step unless said otherwise: the second step has turns without one."""
    module = Levelled(grows).named("levelled")
    data = PointData(points=points, batch_size=4, shuffle=False)
    batch = data()
    loss = SquaredError()(given=module(x=batch.x).y, wanted=batch.y).loss
    factory = NeuralFactory(device="cpu", seed=3, progress=False, folder=folder, strategy=strategy)
    still = [name for name in factory.session.weight_names(module) if name.startswith("still")]
    factory.session.freeze(module, True, still)
    settings: dict[str, Any] = {"batches_per_step": 6, "optimizer": SGD(lr=0.01), "epochs": 2, **given}
    if folder is not None:
        settings["checkpoint"] = Checkpoint(every_steps=1, keep_last=9)
    factory.train(Graph("levels", "train", {"loss": loss}), **settings)
    return {name: value.tolist() for name, value in factory.weights(module).items()}


def through_a_resume(folder: str) -> Any:
    whole = trained(Path(folder) / "whole")
    trained(Path(folder) / "parts", max_steps=3)
    return [whole, trained(Path(folder) / "parts")]


def test_all_statistics_are_the_same_in_all_processes_and_after_a_resume(tmp_path: Path) -> None:
    first, *others = run(through_a_resume, 3, str(tmp_path))
    assert others == [first, first]
    whole, resumed = first
    assert resumed == whole
    assert whole["seen"] == whole["norm.num_batches_tracked"] == 8  # of the process that had the most batches
    assert -20.0 < whole["lowest"] < 0.0
    assert any(whole["level"])
    assert any(whole["spread"])


def test_what_is_frozen_or_constant_stays_bit_by_bit() -> None:
    now = run(trained, 3)[0]
    exact = {"window": WINDOW, "still.running_var": [0.1, 1 / 3, 7.7], "still.running_mean": [0.0] * 3}
    for name, numbers in exact.items():
        assert repr(now[name]) == repr(torch.tensor(numbers).tolist()), name
    assert now["still.num_batches_tracked"] == 0


def with_an_empty_turn() -> dict[str, Any]:
    """Seven batches, four a step: the second process has three, and repeats one of them."""
    counted = trained(points=28, batches_per_step=4, epochs=1)
    without = trained(points=28, batches_per_step=4, epochs=1, optimizer=SGD(lr=1e-30))
    return {"seen": counted["seen"], "level": without["level"]}


def test_turns_without_a_batch_leave_no_trace() -> None:
    first, second = run(with_an_empty_turn, 2)
    assert first == second
    x = np.stack([PointData(points=28).open(0).item(n, 0)["x"] for n in range(28)]).reshape(7, 4, 3)
    level = np.zeros(3)
    for turns in ([[0, 2], [1, 3]], [[4, 6], [5]]):
        moved = [_followed(level, x[turn].mean(1)) for turn in turns]
        level = np.average(moved, axis=0, weights=[len(turn) for turn in turns])
    np.testing.assert_allclose(first["level"], level, rtol=1e-5)


def _followed(level: np.ndarray, means: np.ndarray) -> np.ndarray:
    for mean in means:
        level = level + 0.1 * (mean - level)
    return level


def synced_over_both() -> dict[str, Any]:
    graph, _ = line_graphs(line=Line(norm=True), data=PointData(points=28, batch_size=4, shuffle=False))
    factory = NeuralFactory(device="cpu", progress=False, seed=3, strategy=DDP(sync_norm=True))
    factory.train(graph, epochs=1, batches_per_step=4, optimizer=SGD(lr=0.01))
    return {name: value.tolist() for name, value in factory.weights(graph).items()}


def test_norms_that_are_synchronised_count_the_batches_of_the_others() -> None:
    first, second = run(synced_over_both, 2)
    assert first == second
    assert first["line.norm.num_batches_tracked"] == 4


def growing_apart() -> dict[str, Any]:
    """The first batch has four points, and the second one, which is that of the other process, has two."""
    now = trained(points=6, batches_per_step=2, grows=True)
    return {name: now[name] for name in ("table", "level", "seen")}


def test_tables_may_grow_in_each_process() -> None:
    first, second = run(growing_apart, 2)
    assert (len(first.pop("table")), len(second.pop("table"))) == (4, 2)
    assert first == second
    assert first["seen"] == 2


def in_parts_and_whole() -> list[Any]:
    return [trained(strategy=strategy, batches_per_step=4) for strategy in (FSDP(), DDP())]


def test_weights_in_parts_have_the_same_statistics() -> None:
    first, second = run(in_parts_and_whole, 2)
    assert first == second
    sharded, whole = first
    for name in ("level", "spread", "lowest", "seen", "norm.running_var", "norm.num_batches_tracked"):
        np.testing.assert_allclose(sharded[name], whole[name], rtol=1e-5, err_msg=name)


def in_phases() -> dict[str, Any]:
    """The second phase trains what the first one reads; the last turn of the second process has no batch."""
    data = PointData(points=28, batch_size=4, shuffle=False)()
    early, late = Levelled().named("early"), Levelled().named("late")
    made = early(x=data.x).y
    losses = {
        "one": SquaredError()(given=made, wanted=data.y).loss,
        "two": SquaredError()(given=late(x=data.x).y, wanted=made).loss,
    }
    factory = NeuralFactory(device="cpu", seed=3, progress=False)
    graph = Graph("phases", "train", losses)
    phases = [Phase(loss="one", trains="early"), Phase(loss="two", trains="late")]
    given: dict[str, Any] = {"batches_per_step": 4, "optimizer": SGD(lr=0.01), "alternate": "batch"}
    factory.train(graph, epochs=1, phases=phases, **given)
    return {name: value.tolist() for name, value in factory.weights(graph).items()}


def test_each_phase_moves_the_statistics_of_its_own_modules_and_counts_what_has_a_batch() -> None:
    first, second = run(in_phases, 2)
    assert first == second
    assert first["early.seen"] == first["late.seen"] == 4
    assert first["early.level"] == first["late.level"]
