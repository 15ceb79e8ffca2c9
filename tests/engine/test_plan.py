import pytest

from neumo.engine import compile_plan
from neumo.engine.plan import SPARE
from neumo.graph.graph import Graph
from neumo.types import GraphError

from .toys import FrameData, Halve, Line, MeanLoss, PointData, SquaredError, frame_graph, line_graphs


def test_a_plan_is_cut_down_to_what_is_wanted():
    plan = compile_plan(frame_graph(), ["out_len"])
    assert [step.name for step in plan.steps] == ["halve"]
    assert [feed.port for feed in plan.feeds] == ["frames", "frames_len"]
    assert list(plan.wanted) == ["out_len"]


def test_a_value_of_the_data_can_be_wanted_itself():
    plan = compile_plan(frame_graph(), ["ids"])
    assert (plan.steps, [feed.port for feed in plan.feeds]) == ((), ["ids"])


def test_each_value_is_freed_after_its_last_reader_and_wanted_ones_are_kept():
    plan = compile_plan(frame_graph())
    freed = [slot for step in plan.steps for slot in step.release]
    assert len(freed) == len(set(freed))
    assert not set(freed) & set(plan.wanted.values())
    alive = {feed.slot for feed in plan.feeds}
    for step in plan.steps:
        assert set(step.sources.values()) <= alive
        alive |= set(step.targets) - {SPARE}
        alive -= set(step.release)


def test_outputs_that_nobody_reads_go_to_the_spare_slot():
    train, _ = line_graphs()
    loss = compile_plan(train).steps[-1]
    assert loss.targets[1] == SPARE
    assert SPARE in loss.release


def test_a_module_that_is_called_twice_is_one_module_and_two_steps():
    batch = PointData(width=1)()
    line = Line(width=1).named("line")
    graph = Graph(outputs={"y": line(x=line(x=batch.x).y).y})
    plan = compile_plan(graph)
    assert [step.name for step in plan.steps] == ["line", "line"]
    assert list(plan.modules) == ["line"]


def test_an_unconnected_optional_port_is_no_source():
    plan = compile_plan(frame_graph(), ["out_len"])
    assert list(plan.steps[0].sources) == ["frames", "frames_len"]


def test_values_that_are_no_output_can_be_wanted():
    batch = FrameData()()
    halved = Halve()(frames=batch.frames, frames_len=batch.frames_len)
    graph = Graph(outputs={"loss": MeanLoss()(log_probs=halved.log_probs).loss})
    plan = compile_plan(graph, {"scores": halved.log_probs})
    assert list(plan.wanted) == ["scores"]


def test_an_unknown_output_is_refused_with_the_nearest():
    with pytest.raises(GraphError, match="no output 'out_lne'") as caught:
        compile_plan(frame_graph(), ["out_lne"])
    assert "did you mean 'out_len'?" in str(caught.value)


def test_a_plan_prints_as_a_program():
    batch = PointData()()
    graph = Graph(outputs={"loss": SquaredError().named("loss")(given=batch.y, wanted=batch.y).loss})
    assert (
        str(compile_plan(graph))
        == "[2] <- PointData.y\n[3, 1] <- loss(given=2, wanted=2)  frees [1, 2]\nloss = [3]"
    )
