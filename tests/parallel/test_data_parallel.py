"""Several processes train as one does: the same gradients, losses and data, and nobody waits for ever."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from neumo.engine import NeuralFactory
from neumo.engine.callbacks import Callback
from neumo.engine.updates.optimizers import SGD
from neumo.graph.graph import Graph
from neumo.types.errors import DataError

from ..engine.toys import Line, PointData, SquaredError, line_graphs
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


def one_batch() -> str:
    try:
        train(points=8, batch=8)
    except DataError as error:
        return error.render()
    return "trained"


def test_a_process_without_any_batch_is_refused_in_all_of_them() -> None:
    for message in run(one_batch, 2):
        assert "process 1 of 2 gets no batch" in message
        assert "batches by process: 1, 0" in message


def left_out_on_one() -> Any:
    """The first batch of process 1 is left out whole, and so is one of its later ones."""
    skipped = tuple(range(4, 8)) + tuple(range(20, 24))
    data = PointData(points=32, batch_size=4, shuffle=False, skipped=skipped)
    graph, _ = line_graphs(data=data)
    factory = NeuralFactory(device="cpu", precision="fp64", seed=3, progress=False)
    result = factory.train(graph, epochs=2, optimizer=SGD(lr=0.05), batches_per_step=2)
    return result.losses


def test_batches_that_are_left_out_hold_nobody_up() -> None:
    alone = left_out_on_one()
    one, two = run(left_out_on_one, 2)
    assert one == two == pytest.approx(alone, rel=1e-12)
    assert len(alone) == 8


def asked_in_every_turn() -> Any:
    """The items of each batch, which no loss needs, in turns without a batch as well."""
    asked: list[Any] = []

    class Asking(Callback):
        def on_batch_start(self, run: Any) -> None:
            asked.append(run.value("item").tolist())

    batch = PointData(points=12, batch_size=4, shuffle=False, skipped=(0, 1, 2, 3))()
    fitted = Line().named("line")(x=batch.x).y
    outputs = {"loss": SquaredError()(given=fitted, wanted=batch.y).loss, "item": batch.item}
    factory = NeuralFactory(device="cpu", seed=3, progress=False)
    factory.train(Graph("asked", "train", outputs), epochs=1, callbacks=[Asking()], loss="loss")
    return asked


def test_values_of_a_turn_without_a_batch_are_those_of_what_is_computed() -> None:
    assert run(asked_in_every_turn, 2) == [[[8, 9, 10, 11]] * 2, [[4, 5, 6, 7]] * 2]


def nan_on_one() -> Any:
    graph, _ = line_graphs(data=PointData(points=32, batch_size=4, shuffle=False, poisoned=(5,)))
    factory = NeuralFactory(device="cpu", seed=3, progress=False)
    result = factory.train(graph, epochs=1, optimizer=SGD(lr=0.05))
    weights = [value.tolist() for value in factory.weights(graph).values()]
    return {"skipped": result.skipped, "weights": weights, "losses": result.losses[1:]}


def test_a_broken_value_on_one_process_leaves_the_step_out_on_all() -> None:
    one, two = run(nan_on_one, 2)
    assert one == two
    (row,) = one["skipped"]
    assert row["step"] == 1
    assert row["what"] == "loss"
    assert row["items"] == ["points.csv:6"]


def stopped_by_one() -> Any:
    class Impatient(Callback):
        def on_step_end(self, run: Any) -> None:
            if run.world.rank == 1 and run.step == 3:
                run.stop("process 1 has seen enough")

    graph, _ = line_graphs(data=PointData(points=64, batch_size=4))
    factory = NeuralFactory(device="cpu", seed=3, progress=False)
    result = factory.train(graph, epochs=3, callbacks=[Impatient()])
    return [result.steps, result.stopped]


def test_one_process_stops_all_in_the_same_step() -> None:
    assert run(stopped_by_one, 2) == [[4, "process 1 has seen enough"]] * 2
