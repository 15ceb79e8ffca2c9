"""Several processes train as one does: the same gradients, losses and data, and nobody waits for ever."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from neumo.engine import NeuralFactory
from neumo.engine.optimizers import SGD

from ..engine.toys import Line, PointData, line_graphs
from .launch import run


def train(points: int, batch: int, **given: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"max_steps": 6, "optimizer": SGD(lr=0.05), **given}
    line = Line(norm=settings.pop("norm", False))
    graph, _ = line_graphs(line=line, data=PointData(points=points, batch_size=batch))
    factory = NeuralFactory(device="cpu", precision="fp64", seed=3, progress=False)
    result = factory.train(graph, **settings)
    weights = {name: value.tolist() for name, value in factory.weights(line).items()}
    return {"losses": result.losses, "weights": weights, "steps": result.steps, "notes": result.notes}


def small() -> Any:
    return train(points=40, batch=4, batches_per_step=4)


def uneven() -> Any:
    return train(points=60, batch=4, epochs=2, max_steps=None)


def test_the_steps_do_not_depend_on_the_number_of_processes() -> None:
    alone = small()
    for processes in (2, 4):
        for result in run(small, processes):
            assert result["losses"] == pytest.approx(alone["losses"], rel=1e-12)
            for name, value in alone["weights"].items():
                np.testing.assert_allclose(result["weights"][name], value, rtol=1e-12, err_msg=name)


def test_fifteen_batches_on_two_processes_end_and_use_every_batch() -> None:
    one, two = run(uneven, 2)
    assert one["steps"] == two["steps"] == 16  # eight steps an epoch, the last with one batch
    assert one["losses"] == two["losses"]
    alone = train(points=60, batch=4, epochs=2, max_steps=None, batches_per_step=2)
    assert one["losses"] == pytest.approx(alone["losses"], rel=1e-12)
