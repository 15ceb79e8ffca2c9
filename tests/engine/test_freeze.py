"""Freezing by module, by weight and by pattern: what stays, what trains, what a resumed run is held to."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import neumo
from neumo.engine import SGD, AdamW, NeuralFactory
from neumo.graph.graph import Graph
from neumo.types import Acoustic, B, BackendError, ConfigError, F, GraphError

from .toys import Line, PointData, SquaredError, line_graphs, refused

ROW = Acoustic()[B, F(3)]


def factory(**options):
    return NeuralFactory(**{"device": "cpu", "seed": 3, "progress": False, **options})


def deep_graph() -> Graph:
    """Two blocks with batch norms, wrapped, in front of a line."""
    torch.manual_seed(1)
    blocks = nn.Sequential(
        nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)),
        nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)),
    )
    encoder = neumo.wrap(blocks, takes={"x": ROW}, gives={"y": ROW}, name="encoder")
    batch = PointData()()
    line = Line().named("line")
    fitted = line(x=encoder(x=batch.x).y).y
    return Graph("train", "train", {"loss": SquaredError().named("error")(given=fitted, wanted=batch.y).loss})


def changed_by(maker: NeuralFactory, graph: Graph, epochs: int = 2) -> set[str]:
    """The names of all weights and statistics that a training changes."""
    before = maker.weights(graph)
    maker.train(graph, optimizer=AdamW(lr=0.05), epochs=epochs)
    after = maker.weights(graph)
    return {name for name, value in after.items() if not np.array_equal(before[name], value)}


def test_a_module_of_a_graph_is_frozen_by_its_name():
    graph, maker = deep_graph(), factory()
    maker.freeze(graph, "encoder")
    assert changed_by(maker, graph) == {"line.linear.weight", "line.linear.bias"}
    assert [repr(module)[:15] for module in maker.frozen] == ["wrap(Sequential"]


def test_one_weight_is_frozen_and_the_rest_trains():
    graph, maker = deep_graph(), factory()
    maker.freeze(graph, "line.linear.weight")
    changed = changed_by(maker, graph)
    assert "line.linear.weight" not in changed
    assert {"line.linear.bias", "encoder.0.0.weight", "encoder.0.1.running_mean"} <= changed


def test_a_pattern_freezes_all_that_fit_it_with_their_statistics():
    graph, maker = deep_graph(), factory()
    maker.freeze(graph, "encoder.*.1")
    changed = changed_by(maker, graph)
    assert not [name for name in changed if ".1." in name.removeprefix("encoder.1")]
    assert not [name for name in changed if "running" in name]
    assert {"encoder.0.0.weight", "encoder.1.0.weight"} <= changed


def test_a_layer_with_one_free_weight_still_gathers_statistics():
    graph, maker = deep_graph(), factory()
    maker.freeze(graph, "encoder.0.1.weight")
    changed = changed_by(maker, graph)
    assert "encoder.0.1.weight" not in changed
    assert {"encoder.0.1.bias", "encoder.0.1.running_mean"} <= changed


def test_one_weight_of_a_frozen_module_trains_alone():
    graph, maker = deep_graph(), factory()
    maker.freeze(graph, "encoder", "line")
    maker.unfreeze(graph, "encoder.1.0.bias")
    assert changed_by(maker, graph) == {"encoder.1.0.bias"}
    maker.unfreeze(graph, "encoder.1")
    changed = changed_by(maker, graph)
    assert {"encoder.1.0.weight", "encoder.1.1.running_mean"} <= changed
    assert not [name for name in changed if name.startswith(("encoder.0", "line"))]


def test_whole_graphs_and_names_inside_one_module_can_be_frozen():
    graph, maker = deep_graph(), factory()
    maker.freeze(graph)
    with refused(GraphError, "nothing to train.*encoder: frozen"):
        maker.train(graph, epochs=1)
    maker.unfreeze(graph)
    assert maker.frozen == []
    maker.freeze(graph.modules["encoder"], "0", "1.0.*", graph.modules["line"])
    assert changed_by(maker, graph, 1) == {
        f"encoder.1.1.{name}"
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    }


def test_freezing_by_names_until_nothing_is_left_is_freezing_the_module():
    graph, maker = deep_graph(), factory()
    maker.freeze(graph, "encoder.0")
    maker.freeze(graph, "encoder.*")
    assert maker.frozen == [graph.modules["encoder"]]
    maker.unfreeze(graph, "encoder.*")
    assert maker.frozen == []


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("encodr", "graph 'train' has no module 'encodr' its modules are encoder, line, error .*'encoder'"),
        ("encodr.0.*", r"no module 'encodr'.*did you mean 'encoder\.0\.\*'"),
        ("line.linear.wieght", r"no weight 'line\.linear\.wieght'.*did you mean 'line\.linear\.weight'"),
        ("encoder.*.norm.*", r"no weight 'encoder\.\*\.norm\.\*' there are encoder\.0\.0\.weight"),
        ("error", "error of graph 'train' has no weights"),
        ("zzz*", r"no module 'zzz\*'"),
    ],
)
def test_a_name_that_means_nothing_is_refused(pattern, words):
    with refused(GraphError, words) as caught:
        factory().freeze(deep_graph(), pattern)
    assert caught.value.code == "weight-name"


def test_names_may_be_in_a_list_as_a_recipe_has_them():
    graph, maker = deep_graph(), factory()
    maker.freeze(graph, ["encoder", "line.linear.bias"])
    assert {id(module) for module in maker.frozen} == {id(graph.modules["encoder"])}
    maker.unfreeze(graph, ("encoder",))
    assert maker.frozen == []
    with refused(GraphError, "no module 'encodr'"):
        maker.freeze(graph, ["encodr"])


@pytest.mark.parametrize("wrong", [None, 3, nn.Linear(2, 2), {"encoder": True}])
def test_what_is_no_name_is_refused(wrong):
    with refused(ConfigError, "is no graph, no module and no name of one") as caught:
        factory().freeze(deep_graph(), wrong)
    assert caught.value.code == "weight-name"


def test_a_name_needs_something_to_be_looked_up_in():
    with refused(ConfigError, r"'encoder' stands alone.*freeze\(graph, 'encoder'\)"):
        factory().freeze("encoder")
    with refused(GraphError, "Line has no weight 'linaer.bias' there are linear.weight, linear.bias"):
        factory().unfreeze(Line(), "linaer.bias")
    with refused(GraphError, "SquaredError has no weights"):
        factory().freeze(SquaredError(), "weight")


def test_what_has_no_weights_can_be_neither_frozen_nor_let_free():
    for action in (factory().freeze, factory().unfreeze):
        with refused(GraphError, "SquaredError has no weights"):
            action(SquaredError())
        with refused(GraphError, "PointData has no weights"):
            action(PointData())


def test_a_run_goes_on_with_the_same_weights_frozen_or_not_at_all(tmp_path):
    def run(names, epochs):
        graph, maker = line_graphs(line=Line(norm=True))[0], factory(folder=tmp_path)
        maker.freeze(graph, *names)
        return maker, graph, maker.train(graph, optimizer=SGD(lr=0.05, momentum=0.9), epochs=epochs)

    maker, graph, _ = run(["line.norm"], 1)
    before = maker.weights(graph)
    with refused(BackendError, "other weights frozen or tied: 1 differ.*line.norm.bias was frozen or tied"):
        run(["line.norm.weight", "line.norm.running_*", "line.norm.num*"], 2)
    with refused(BackendError, "line.linear.bias was trained, and is now frozen"):
        run(["line.norm", "line.linear.bias"], 2)
    maker, graph, result = run(["line.norm"], 3)
    after = maker.weights(graph)
    assert result.resumed_from is not None
    changed = {name for name in after if not np.array_equal(before[name], after[name])}
    assert changed == {"line.linear.weight", "line.linear.bias"}
