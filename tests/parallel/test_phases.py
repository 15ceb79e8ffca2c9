"""Several optimizers in several processes: the same updates as in one, with windows of as many batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from neumo.engine import DDP, FSDP, SGD, AdamW, NeuralFactory, Phase
from neumo.types import BackendError

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


def train_with_norms(batch_size: int, batches: int) -> dict[str, Any]:
    graph = gan(PointData(points=40, batch_size=batch_size), Maker(), Judge(norm=True))
    strategy = DDP(sync_norm=True)
    factory = NeuralFactory(device="cpu", precision="fp64", seed=3, progress=False, strategy=strategy)
    phases = [Phase(loss="d_loss", trains="judge", steps=2), Phase(loss="g_loss", trains="maker")]
    result = factory.train(graph, optimizer=SGD(lr=0.1), phases=phases, max_steps=5, batches_per_step=batches)
    return {
        "losses": result.losses,
        "weights": {name: value.tolist() for name, value in factory.weights(graph).items()},
    }


def test_batch_norms_see_the_batches_of_all_processes_in_each_phase() -> None:
    wanted = train_with_norms(8, 1)
    first, second = run(train_with_norms, 2, 4, 2)
    assert first == second
    assert first["losses"] == pytest.approx(wanted["losses"], rel=1e-10)
    for name, value in wanted["weights"].items():
        np.testing.assert_allclose(first["weights"][name], value, rtol=1e-8, atol=1e-12, err_msg=name)


def train_in_parts() -> str:
    factory = NeuralFactory(device="cpu", seed=3, progress=False, strategy=FSDP())
    try:
        factory.train(gan(), phases=[Phase(loss="d_loss"), Phase(loss="g_loss", trains="maker")], max_steps=1)
    except BackendError as error:
        return error.what
    return "nothing was raised"


def test_weights_in_parts_are_refused() -> None:
    words = "FSDP divides the weights for one optimizer, and this training has several"
    assert run(train_in_parts, 2) == [words] * 2
