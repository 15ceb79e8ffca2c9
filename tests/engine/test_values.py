"""Values of the training graph, computed for callbacks when they are asked for."""

import numpy as np
import pytest

from neumo.engine import AdamW, Callback, NeuralFactory
from neumo.engine.callbacks import on_batch_end, on_batch_start, on_epoch_start, on_step_end
from neumo.graph.graph import Graph
from neumo.types import ConfigError, GraphError

from .toys import Line, MeanError, PointData, SquaredError, line_graphs, refused


def factory(**options):
    return NeuralFactory(**{"device": "cpu", "seed": 3, "progress": False, "verify": "always", **options})


def noisy_graph():
    return line_graphs(PointData(noise=0.1), Line(dropout=0.5, norm=True))[0]


def test_values_leave_no_trace_in_a_training():
    """Dropout draws numbers and the batch norm keeps statistics: both must be as if nothing was asked."""
    seen = []

    @on_batch_start
    @on_batch_end
    @on_step_end
    def look(run):
        seen.append(run.value("line.y"))

    plain, watched = factory(), factory()
    graphs = noisy_graph(), noisy_graph()
    expected = plain.train(graphs[0], epochs=2)
    result = watched.train(graphs[1], epochs=2, callbacks=[look])
    assert result.losses == expected.losses
    before, after = plain.weights(graphs[0]), watched.weights(graphs[1])
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert len(seen) == 3 * result.steps


def test_the_loss_that_is_computed_again_is_the_loss_of_the_step():
    """Before the update the weights are those of the step, and so are its batch, its modes and its seed."""
    again = []

    @on_batch_start
    def look(run):
        again.append(float(run.value("loss")))

    result = factory().train(noisy_graph(), epochs=2, callbacks=[look])
    assert again == result.losses


def test_behind_the_update_values_have_the_new_weights():
    seen = []

    @on_batch_start
    @on_step_end
    def look(run):
        seen.append(float(run.value("loss")))

    factory().train(line_graphs()[0], max_steps=1, optimizer=AdamW(lr=0.01), callbacks=[look])
    assert seen[1] < seen[0]


def test_values_are_named_by_outputs_steps_and_themselves():
    data, line = PointData(), Line().named("line")
    batch = data()
    fitted = line(x=batch.x).y
    graph = Graph("t", "train", {"loss": SquaredError()(given=fitted, wanted=batch.y).loss, "fit": fitted})
    seen = []

    @on_batch_start
    def look(run):
        seen.append(
            [run.value("fit"), run.value(fitted), *run.values("line.y", "point_data.y", "PointData.y")]
        )

    factory().train(graph, max_steps=1, callbacks=[look])
    fit, itself, by_step, wanted, by_class = seen[0]
    assert np.array_equal(fit, itself)
    assert np.array_equal(fit, by_step)
    assert np.array_equal(wanted, by_class)
    assert fit.shape == wanted.shape == (8, 1)


def test_what_the_loss_does_not_need_is_read_again():
    """The indices of the utterances are data that the loss never asked for."""
    batch = PointData()()
    line = Line()(x=batch.x).y
    graph = Graph("t", "train", {"loss": SquaredError()(given=line, wanted=batch.y).loss, "item": batch.item})
    seen = []

    @on_batch_end
    def look(run):
        seen.append((run.value("item").tolist(), list(run.current.items)))

    factory().train(graph, max_steps=3, callbacks=[look])
    assert len(seen) == 3
    assert all(value == items for value, items in seen)


def test_modules_beside_the_loss_are_evaluated():
    """A branch that is not trained computes without dropout, and is in its own mode afterwards."""
    batch = PointData()()
    line, side = Line().named("line"), Line(dropout=0.9).named("side")
    outputs = {
        "loss": SquaredError()(given=line(x=batch.x).y, wanted=batch.y).loss,
        "side": side(x=batch.x).y,
    }
    seen = []

    @on_batch_start
    def look(run):
        seen.append([run.value("side"), run.value("side")])

    maker = factory()
    maker.train(Graph("t", "train", outputs), max_steps=1, callbacks=[look])
    weights = maker.weights(side)
    first, second = seen[0]
    assert np.array_equal(first, second)
    x = np.stack([PointData().open(3).item(i, 0)["x"] for i in PointData().open(3).batches(0)[0]])
    assert np.allclose(first, x @ weights["linear.weight"].T + weights["linear.bias"], atol=1e-6)
    assert maker.session.implementation(side).training


def test_changing_a_value_does_not_change_the_training():
    @on_batch_start
    def spoil(run):
        run.value("point_data.x")[:] = 0

    assert (
        factory().train(line_graphs()[0], epochs=1, callbacks=[spoil]).losses
        == factory().train(line_graphs()[0], epochs=1).losses
    )


def test_outside_of_a_batch_there_are_no_values():
    @on_epoch_start
    def look(run):
        run.value("loss")

    with refused(ConfigError, "there is no batch now"):
        factory().train(line_graphs()[0], max_steps=1, callbacks=[look])


@pytest.mark.parametrize(
    ("name", "words"),
    [("line.z", r"has no value 'line\.z'.*did you mean 'line\.y'"), ("error", "is a metric")],
)
def test_what_is_no_value_is_refused(name, words):
    batch = PointData()()
    line = Line().named("line")(x=batch.x).y
    outputs = {
        "loss": SquaredError()(given=line, wanted=batch.y).loss,
        "error": MeanError()(given=line, wanted=batch.y).score,
    }

    @on_batch_start
    def look(run):
        run.value(name)

    with refused(GraphError, words):
        factory().train(Graph("t", "train", outputs), max_steps=1, callbacks=[look])


def test_a_value_of_another_graph_is_refused():
    other = line_graphs()[0].outputs["loss"]

    @on_batch_start
    def look(run):
        run.value(other)

    with refused(GraphError, "is no value of graph"):
        factory().train(line_graphs()[0], max_steps=1, callbacks=[look])


def test_decorated_functions_hear_their_events_and_can_still_be_called():
    heard = []

    @on_step_end(order=50, only_first=True)
    def count(run):
        """Counts."""
        heard.append(run.step)

    assert isinstance(count, Callback)
    assert (count.order, count.only_first, count.__doc__) == (50, True, "Counts.")
    run_like = type("Run", (), {"step": 7})()
    count(run_like)
    factory().train(line_graphs()[0], max_steps=2, callbacks=[count])
    assert heard == [7, 1, 2]
    assert repr(count) == "count (on_step_end)"


def test_one_function_may_hear_several_events():
    heard = []

    @on_step_end
    @on_batch_start
    def both(run):
        heard.append(run.step)

    factory().train(line_graphs()[0], max_steps=2, callbacks=[both])
    assert heard == [0, 1, 1, 2]
    assert repr(both) == "both (on_step_end, on_batch_start)"


@pytest.mark.parametrize("event", [on_batch_start, on_batch_end, on_step_end])
def test_an_error_of_a_callback_is_not_blamed_on_a_module(event):
    @event
    def fail(run):
        raise ZeroDivisionError("of the callback")

    with pytest.raises(ZeroDivisionError, match="of the callback"):
        factory().train(noisy_graph(), epochs=1, batches_per_step=2, callbacks=[fail])
