"""Values that an inference has kept: what goes on from them, and when they are refused."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from neumo.engine import SGD, NeuralFactory
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.types import Acoustic, B, ConfigError, F, GraphError

from .gan_toys import Judge, Maker
from .toys import MeanError, PointData, SquaredError, refused


def factory(**options: Any) -> NeuralFactory:
    return NeuralFactory(**{"device": "cpu", "seed": 5, "progress": False, "verify": "always", **options})


def graphs(data: PointData | None = None) -> tuple[Graph, Graph, Graph]:
    """What makes points, what judges them, and what trains the former."""
    batch = (data or PointData(points=20))()
    made = Maker().named("maker")(x=batch.x).y
    judged = Judge().named("judge")(y=made).score
    both = {"sum": SquaredError()(given=made, wanted=batch.y).loss}
    return (
        Graph("make", "infer", {"made": made}),
        Graph("judge", "infer", {"score": judged, "made": made}),
        Graph("train", "train", both),
    )


def same(given: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    assert [list(one) for one in given] == [list(one) for one in wanted]
    for one, other in zip(given, wanted, strict=True):
        for name, value in other.items():
            np.testing.assert_array_equal(one[name], value)


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_a_graph_that_goes_on_gives_what_it_gives_by_itself(precision: str) -> None:
    make, judge, _ = graphs(PointData(points=20, skipped=tuple(range(8, 16)), shuffle=False))
    own = factory(precision=precision)
    wanted = own.infer(judge)
    assert len(wanted) == 2  # the second batch was left out
    own.infer(make, cache=True)
    same(own.infer(judge, use_cache=True), wanted)
    same(own.infer(make, use_cache=True, outputs=["made"]), own.infer(make))


def test_data_that_was_not_read_is_read_beside_the_cache() -> None:
    make, _, _ = graphs()
    made = make.outputs["made"]
    data = made.step.inputs["x"].step  # type: ignore[union-attr]
    both = Graph("both", "infer", {"y": data.outputs["y"], "made": made})
    own = factory()
    own.infer(make, cache=True)
    same(own.infer(both, use_cache=True), own.infer(both))


def test_metrics_are_left_to_evaluation() -> None:
    make, _, _ = graphs()
    made = make.outputs["made"]
    data = made.step.inputs["x"].step  # type: ignore[union-attr]
    error = MeanError()(given=made, wanted=data.outputs["y"]).score
    own = factory()
    own.infer(make, cache=True)
    found = own.infer(Graph("measured", "infer", {"made": made, "error": error}), use_cache=True)
    assert [list(one) for one in found] == [["made"]] * 3


def test_arrays_from_outside_are_kept_as_well() -> None:
    opened = inputs(x=Acoustic()[B, F(3)])
    made = Maker().named("maker")(x=opened.x).y
    make = Graph("make", "infer", {"made": made})
    judge = Graph("judge", "infer", {"score": Judge().named("judge")(y=made).score})
    own, x = factory(), np.ones((2, 3), np.float32)
    own.infer(make, {"x": x}, cache=True)
    same(own.infer(judge, use_cache=True), own.infer(judge, {"x": x}))
    with refused(GraphError, "has 'x' in the cache"):
        own.infer(judge, {"x": x}, use_cache=True)


def test_a_cache_is_out_of_date_when_weights_have_changed() -> None:
    make, judge, train = graphs()
    own = factory()
    own.infer(make, cache=True)
    own.train(train, optimizer=SGD(lr=0.1), max_steps=1)
    with refused(ConfigError, "out of date: the weights of maker have changed since"):
        own.infer(judge, use_cache=True)
    own.clear_cache()
    own.infer(make, cache=True)
    assert own.infer(judge, use_cache=True)
    own.load_weights(judge.modules["judge"], own.weights(judge.modules["judge"]))  # not part of the cache
    own.seed = 6
    with refused(ConfigError, "filled with seed 5, and the factory has seed 6 now"):
        own.infer(judge, use_cache=True)


def test_a_graph_that_shares_nothing_is_refused() -> None:
    own = factory()
    own.infer(graphs()[0], cache=True)
    with refused(ConfigError, "graph 'make' shares no value with the cache"):
        own.infer(graphs()[0], use_cache=True)


def test_data_that_has_changed_is_refused() -> None:
    make, _, _ = graphs()
    made = make.outputs["made"]
    data = made.step.inputs["x"].step  # type: ignore[union-attr]
    own = factory()
    own.infer(make, cache=True)
    source = own.source(data.module)
    source.batches = lambda epoch, rank=0, world=1: [[0, 1]]  # type: ignore[method-assign]
    with refused(ConfigError, "the data has other batches than when the cache was filled"):
        own.infer(Graph("both", "infer", {"y": data.outputs["y"], "made": made}), use_cache=True)


def test_the_size_of_a_cache_is_said(caplog: pytest.LogCaptureFixture) -> None:
    make, _, _ = graphs(PointData(points=16))
    own = factory()
    with caplog.at_level(logging.INFO, "neumo"):
        own.infer(make, cache=True)
    assert "the cache keeps 2 values of 2 batches: about 0 MB of memory" in caplog.text
    assert own.cache is not None
    assert own.cache.nbytes == 16 * (3 + 1) * 4  # x and y in fp32


def test_several_processes_keep_no_values() -> None:
    own = factory()
    own.session.world = type("Two", (), {"size": 2, "rank": 0})()  # type: ignore[misc]
    with refused(ConfigError, "infer keeps no values in 2 processes"):
        own.infer(graphs()[0], cache=True)
