"""Several evaluations in one training: whose figures are whose."""

import math
from dataclasses import dataclass

import pytest

from neumo.engine import EarlyStop, Evaluate, NeuralFactory
from neumo.engine.callbacks.evaluate import figures
from neumo.graph.graph import Graph
from neumo.types import ConfigError

from .toys import ErrorSum, Line, MeanError, PointData, SquaredError, refused


def factory(**options):
    return NeuralFactory(**{"device": "cpu", "seed": 3, "progress": False, "verify": "always", **options})


class ShyErrorSum(ErrorSum):
    def result(self):
        return {"error": self.total / self.count, "points": self.count}


@dataclass(frozen=True)
class ShyMeanError(MeanError):
    """Has nothing to say about nothing, so its figures are known only when it has run."""

    def start(self):
        return ShyErrorSum()


def graphs(metric=MeanError):
    line, batch = Line().named("line"), PointData()()
    train = Graph("train", "train", {"loss": SquaredError()(given=line(x=batch.x).y, wanted=batch.y).loss})
    tests = []
    for name, points in (("dev", 16), ("test", 24)):
        data = PointData(points=points, shuffle=False)()
        error = metric()(given=line(x=data.x).y, wanted=data.y).score
        tests.append(Graph(name, "infer", {"error": error}))
    return train, *tests


def test_any_number_of_graphs_is_evaluated_with_the_same_weights():
    train, dev, test = graphs()
    maker = factory()
    evaluations = [Evaluate(dev, name="dev"), Evaluate(test, name="test", every_steps=3), Evaluate(dev)]
    result = maker.train(train, epochs=1, evaluate=evaluations)
    assert result.metrics.keys() == {
        f"{name}{figure}" for name in ("dev.", "test.", "") for figure in ("error", "points")
    }
    assert result.metrics["dev.error"] == result.metrics["error"] == maker.evaluate(dev)["error"]
    assert result.metrics["test.error"] == maker.evaluate(test)["error"]


def test_two_graphs_that_give_the_same_figure_are_refused_before_the_training():
    train, dev, test = graphs()
    with refused(ConfigError, r"graphs 'dev' and 'test' both give 'error'.*name='test'"):
        factory().train(train, epochs=1, evaluate=[dev, test])
    with refused(ConfigError, "both give 'all.error'"):
        factory().train(train, epochs=1, evaluate=[Evaluate(dev, name="all"), Evaluate(test, name="all")])


def test_figures_that_are_not_known_beforehand_are_refused_when_they_come():
    train, dev, test = graphs(ShyMeanError)
    assert figures(dev) is None
    with refused(ConfigError, r"graphs 'dev' and 'test' both give 'error'"):
        factory().train(train, epochs=1, evaluate=[dev, test])


@pytest.mark.parametrize("metric", [MeanError, ShyMeanError])
def test_one_graph_may_be_evaluated_at_two_rhythms(metric):
    train, dev, _ = graphs(metric)
    result = factory().train(train, epochs=1, evaluate=[Evaluate(dev), Evaluate(dev, every_steps=2)])
    assert result.metrics.keys() == {"error", "points"}


def loss_graphs(flag_above):
    """A training graph, and one whose loss flags the points above a number."""
    line, batch, other = Line().named("line"), PointData()(), PointData(points=16, shuffle=False)()
    train = Graph("train", "train", {"loss": SquaredError()(given=line(x=batch.x).y, wanted=batch.y).loss})
    loss = SquaredError(flag_above)(given=line(x=other.x).y, wanted=other.y).loss
    return train, Graph("dev", "both", {"loss": loss})


def test_a_loss_that_left_out_every_utterance_is_not_a_number_and_never_the_best(caplog):
    train, dev = loss_graphs(-1e9)
    found = factory().evaluate(dev)
    assert math.isnan(found["loss"])
    assert found.count == len(found.infeasible) == 16
    assert "had to leave out 16 of 16 utterances, too short for their text: points.csv:1" in caplog.text
    stop = EarlyStop("loss", patience=2)
    result = factory().train(
        train, epochs=4, evaluate=Evaluate(dev, best="loss"), callbacks=[stop], checkpoint=False
    )
    assert result.best is None
    assert len(result.history) == 2
    assert sum("had to leave out 16 of 16" in note for note in result.notes) == 1


def test_utterances_that_a_loss_of_an_evaluation_left_out_are_named():
    _, dev = loss_graphs(2.0)
    found = factory().evaluate(dev)
    assert math.isfinite(found["loss"])
    assert 0 < len(found.infeasible) < 16
    assert all(name.startswith("points.csv:") for name in found.infeasible)
    assert factory().evaluate(loss_graphs(None)[1]).infeasible == ()
