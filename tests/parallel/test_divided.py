"""Every utterance counts once in evaluation and inference, for any number of processes, bit by bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from neumo.engine import SGD, NeuralFactory
from neumo.engine.passes.shared_pass import Computed, use_in_order
from neumo.engine.processes.array_bytes import pack_arrays, unpack_arrays
from neumo.graph.graph import Graph
from neumo.graph.module import Metric
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, BackendError, F, Score

from ..engine.toys import PointData, line_graphs, refused
from .divided_toys import HeardData, heard_graph
from .launch import run
from .threads import ThreadWorld, in_threads

WRONG = [13, 1, 5, 2]  # words of the references; substitutions, deletions, insertions


def alone() -> NeuralFactory:
    return NeuralFactory(device="cpu", seed=3, progress=False, verify="always")


def factories(size: int, graph: Graph) -> list[NeuralFactory]:
    """One for each thread; weights are drawn here, since threads share the random numbers of torch."""
    made = [NeuralFactory(device="cpu", seed=3, progress=False) for _ in range(size)]
    for factory in made:
        factory.check(graph)
        factory.count_parameters(graph)
    return made


def together(size: int, graph: Graph, action: Any) -> list[Any]:
    made = factories(size, graph)

    def work(world: ThreadWorld) -> Any:
        factory = made[world.rank]
        factory.session.world = world  # type: ignore[misc]
        return action(factory)

    return in_threads(size, work)


def both_actions() -> dict[str, Any]:
    found = alone().evaluate(heard_graph(), per_utterance=True)
    rows = [one["y"].tolist() for one in alone().infer(heard_graph())]
    return {"figures": dict(found), "count": found.count, "rows": found.utterances, "y": rows}


def evaluated_while_training() -> dict[str, Any]:
    train, test = line_graphs(data=PointData(points=24, batch_size=4))
    factory = NeuralFactory(device="cpu", precision="fp64", seed=3, progress=False)
    given = {"optimizer": SGD(lr=0.05), "batches_per_step": 2, "evaluate": test, "ema": 0.5}
    result = factory.train(train, epochs=2, **given)
    return {"history": result.history, "after": dict(factory.evaluate(test))}


def second_utterance_fails() -> list[str]:
    """Evaluate something that fails, and then something that does not, in the same processes."""
    broken = heard_graph(fails_at=float(np.float32(np.sin(2.0))))
    try:
        alone().evaluate(broken)
    except BackendError as error:
        return [error.code, error.what, str(alone().evaluate(heard_graph(HeardData(utterances=1))).count)]
    return ["nothing was raised"]


def test_processes_evaluate_and_infer_as_one_does() -> None:
    wanted = both_actions()
    first, *others = run(both_actions, 3)
    assert first == wanted
    assert others == [{**wanted, "y": []}] * 2


def test_evaluations_of_a_training_are_those_of_one_process() -> None:
    wanted = evaluated_while_training()
    first, second = run(evaluated_while_training, 2)
    assert first == second
    for row, other in zip(first["history"], wanted["history"], strict=True):
        assert row["error"] == pytest.approx(other["error"], rel=1e-12)
    assert first["after"] == {name: first["history"][-1][name] for name in ("error", "points")}


def test_a_process_that_fails_stops_all_and_is_named() -> None:
    first, second = run(second_utterance_fails, 2)
    assert (second[0], second[2]) == ("module-failed", "1")
    assert first == ["other-process", f"process 1 failed: {second[1]}", "1"]
    assert second[1].startswith("noisy failed: ValueError: this one cannot be computed")


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7])
def test_seven_utterances_have_one_wer_on_any_number_of_processes(batch_size: int) -> None:
    data = HeardData(batch_size=batch_size)
    graph = heard_graph(data)
    wanted = alone().evaluate(graph)
    assert [wanted[name] for name in ("words", "substitutions", "deletions", "insertions")] == WRONG
    for size in (2, 3, 4):
        got = together(size, graph, lambda one: one.evaluate(graph)["wer"])
        assert got == [wanted["wer"]] * size


def test_more_rounds_than_one_come_in_order() -> None:
    def work(world: ThreadWorld) -> list[int]:
        seen: list[int] = []
        mine = (Computed((n,), [np.array([n])]) for n in range(world.rank, 23, world.size))
        use_in_order(world, 23, mine, lambda one: seen.append(int(one.arrays[0][0])))
        assert max(world.gathered) < 4 * world.size * 400  # bytes: no more than four turns at once
        assert len(world.gathered) == -(-23 // (4 * world.size))
        return seen

    assert in_threads(2, work) == [list(range(23)), []]


def test_utterances_that_were_left_out_do_not_count() -> None:
    graph = heard_graph(HeardData(skipped=(0, 3, 6)))
    wanted = alone().evaluate(graph)
    for got in together(3, graph, lambda one: one.evaluate(graph)):
        assert (dict(got), got.count) == (dict(wanted), 4)


def test_a_loss_that_counts_is_the_mean_over_what_it_counts() -> None:
    graph = heard_graph(HeardData(batch_size=3))
    values = np.concatenate([one["y"] for one in alone().infer(graph, outputs=["y"])])
    kept = values[values > 0]
    assert 0 < len(kept) < 7
    mean = float((kept.astype(np.float64) ** 2).mean())
    assert alone().evaluate(graph)["loss"] == pytest.approx(mean, rel=1e-6)


@dataclass(frozen=True)
class Failing(Metric):
    """A metric that cannot count."""

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F(1)]}, gives={"score": Score()[()]})

    def start(self) -> Any:
        return FailingTotal()


class FailingTotal:
    def update(self, **arrays: Any) -> None:
        raise ZeroDivisionError("counted nothing")

    def result(self) -> dict[str, float]:
        return {}


def test_a_metric_that_fails_in_the_first_process_fails_in_all() -> None:
    graph = Graph("broken", "infer", {"f": Failing()(x=HeardData()().x).score})
    first, *others = together(3, graph, lambda one: one.evaluate(graph))
    assert isinstance(first, ZeroDivisionError)
    assert all(isinstance(error, BackendError) for error in others)
    assert {error.what for error in others} == {"process 0 failed: ZeroDivisionError: counted nothing"}


def test_processes_that_see_different_data_say_so() -> None:
    def work(world: ThreadWorld) -> None:
        use_in_order(world, 4 + world.rank, iter([]), lambda _: None)

    for error in in_threads(2, work):
        assert "one has 4 batches, another 5" in str(error)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int64).reshape(2, 3)[:, ::-1],
        np.array([True, False]),
        np.array(["a", "longer", ""]),
        np.zeros((0, 3), np.float64),
        np.array(2.5, np.float32),
        np.array([1 + 2j]),
    ],
)
def test_arrays_come_back_as_they_were(array: np.ndarray) -> None:
    (back,) = unpack_arrays(pack_arrays([array]))
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(back, array)
    back[...] = back  # it may be written to


def test_objects_are_refused_by_name() -> None:
    with refused(BackendError, "texts is an array of object"):
        pack_arrays([np.array([["a"], None], dtype=object)], ["texts"])


def test_bytes_that_are_no_arrays_are_refused() -> None:
    for data in (
        b"\x05\0\0\0\0\0\0\0hello",
        pack_arrays([np.ones(3)])[:-4],
        b'\x10\0\0\0\0\0\0\0[["O", [1], 8]]',
    ):
        with refused(BackendError, "these bytes are no packed arrays"):
            unpack_arrays(data)
