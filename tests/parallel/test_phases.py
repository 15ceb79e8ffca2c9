"""Several optimizers in several processes: the same updates as in one, with windows of as many batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from neumo.engine import SGD, AdamW, NeuralFactory, Phase

from ..engine.gan_toys import Judge, Maker, gan
from ..engine.toys import PointData
from .launch import run


def train(alternate: Any, shared: bool, steps: int = 6) -> dict[str, Any]:
    data = PointData(points=56, batch_size=4)  # fourteen batches: windows of four, the last with two
    graph = gan(data, Maker(norm=False), Judge())
    factory = NeuralFactory(device="cpu", precision="fp64", seed=3, progress=False)
    phases = [
        Phase(
            loss="d_loss", trains=("judge", "maker") if shared else ("judge",), optimizer=SGD(lr=0.1), steps=2
        ),
        Phase(loss="g_loss", trains=("maker",), optimizer=AdamW(lr=0.02), clip=0.1),
    ]
    result = factory.train(graph, phases=phases, max_steps=steps, batches_per_step=4, alternate=alternate)
    weights = {name: value.tolist() for name, value in factory.weights(graph).items()}
    return {"losses": result.losses, "weights": weights}


def every() -> list[dict[str, Any]]:
    return [train("steps", False), train("batch", False), train("batch", True)]


def test_phases_update_in_two_processes_as_in_one() -> None:
    alone = every()
    first, second = run(every, 2)
    for one, two, wanted in zip(first, second, alone, strict=True):
        assert one == two
        assert one["losses"] == pytest.approx(wanted["losses"], rel=1e-12)
        for name, value in wanted["weights"].items():
            np.testing.assert_allclose(one["weights"][name], value, rtol=1e-10, atol=1e-14, err_msg=name)
