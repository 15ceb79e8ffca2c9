"""Several evaluations in one training: whose figures are whose."""

from dataclasses import dataclass

import pytest

from neumo.engine import Evaluate, NeuralFactory
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
