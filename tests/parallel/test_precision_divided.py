"""Every precision in several processes: one scale of the loss in all, and the losses of one process."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from neumo.backends.torch.training import scaling
from neumo.backends.torch.training.scaling import Scaler
from neumo.engine import DDP, FSDP, SGD, LossScale, NeuralFactory
from neumo.engine.callbacks import Callback

from ..backends.precise import stack_graph
from ..engine.toys import PointData, line_graphs
from .launch import run

SPEC = LossScale(initial=2.0**24, growth_interval=3)


def train(precision: str, strategy: Any = None, **given: Any) -> dict[str, Any]:
    """Train a few steps of two batches each; returns losses, weights and the scale after each step."""
    scales: list[float] = []

    class Watched(Scaler):
        def update(self, new_scale: Any = None) -> None:
            super().update(new_scale)
            scales.append(self.get_scale())

    plain, scaling.Scaler = scaling.Scaler, Watched  # type: ignore[misc]
    try:
        graph = stack_graph(norm="layer")
        options: dict[str, Any] = {
            "precision": precision,
            "allow": {"fp16-on-cpu"},
            "strategy": strategy,
            **given,
        }
        factory = NeuralFactory(device="cpu", seed=3, progress=False, **options)
        loss_scale = SPEC if precision == "fp16" else None
        result = factory.train(
            graph, max_steps=8, batches_per_step=2, optimizer=SGD(lr=0.02), loss_scale=loss_scale
        )
    finally:
        scaling.Scaler = plain  # type: ignore[misc]
    weights = {name: value.tolist() for name, value in factory.weights(graph).items()}
    return {"losses": result.losses, "weights": weights, "scales": scales if loss_scale else []}


OWN = {"precisions": {"decoder": "fp32", "encoder.blocks.0": "fp32"}}


def undivided() -> dict[str, Any]:
    """What a process makes of it by itself, with as many threads as each of several has."""
    found = {precision: train(precision) for precision in ("bf16", "fp16", "pure-bf16")}
    return {**found, "own": train("bf16", **OWN)}


def divided() -> dict[str, Any]:
    """What each process makes of every precision and strategy."""
    found: dict[str, Any] = {}
    for name, strategy in (("DDP", DDP()), ("FSDP", FSDP())):
        for precision in ("bf16", "fp16", "pure-bf16"):
            found[f"{precision} {name}"] = train(precision, strategy)
        found[f"own {name}"] = train("bf16", strategy, **OWN)
    return found


def test_two_processes_compute_what_one_does_in_every_precision() -> None:
    (alone,) = run(undivided, 1)
    one, two = run(divided, 2, timeout=400.0)
    assert any(after < before for before, after in pairwise(alone["fp16"]["scales"]))
    for case, found in one.items():
        expected = alone[case.split()[0]]
        assert found == two[case], case  # the processes never differ in anything
        assert found["scales"] == expected["scales"], case
        assert found["losses"] == pytest.approx(expected["losses"], rel=0.01), case
        for name, value in expected["weights"].items():
            np.testing.assert_allclose(found["weights"][name], value, atol=0.02, err_msg=f"{case} {name}")


def steps_that_overflow() -> list[str]:
    """At the scale that a training begins with by itself, and with four batches a step."""
    told: list[str] = []

    class Listening(Callback):
        def on_step_end(self, run: Any) -> None:
            told.append(run.skipped)

    graph, _ = line_graphs(data=PointData(points=48, batch_size=4))
    factory = NeuralFactory(device="cpu", precision="fp16", seed=3, progress=False, allow={"fp16-on-cpu"})
    given: dict[str, Any] = {"optimizer": SGD(lr=0.02), "callbacks": [Listening()]}
    factory.train(graph, max_steps=9, batches_per_step=4, **given)
    return told


def test_the_number_of_processes_has_no_part_in_which_steps_overflow() -> None:
    alone = steps_that_overflow()
    assert set(alone) == {"", "overflow"}
    for processes in (2, 4):
        assert run(steps_that_overflow, processes) == [alone] * processes
