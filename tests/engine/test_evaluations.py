"""Several evaluations in one training: whose figures are whose."""

import math
from dataclasses import dataclass

import pytest

from neumo.engine import EarlyStop, Evaluate, NeuralFactory, Phase, Plateau, on_epoch_end
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


def test_one_graph_is_not_evaluated_twice_at_the_same_time_under_one_name():
    train, dev, _ = graphs(ShyMeanError)
    with refused(
        ConfigError, r"graph 'dev' is evaluated twice at the same time, under one name.*name='again'"
    ):
        factory().train(train, epochs=1, evaluate=[Evaluate(dev), Evaluate(dev)])


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
    stop, asked = EarlyStop("dev.loss", patience=2), Evaluate(dev, best="loss", name="dev")
    result = factory().train(train, epochs=4, evaluate=asked, callbacks=[stop], checkpoint=False)
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


@pytest.mark.parametrize("place", ["evaluate", "callbacks"])
def test_a_validation_loss_never_hides_that_of_the_training(place):
    train, dev = loss_graphs(None)
    with refused(
        ConfigError, r"graph 'dev' gives 'loss', which would hide the 'loss' of the training.*name='dev'"
    ):
        factory().train(train, epochs=1, **{place: [Evaluate(dev)]})
    result = factory().train(train, epochs=1, **{place: [Evaluate(dev, name="dev")]})
    (row,) = result.history
    assert row["loss"] == pytest.approx(sum(result.losses) / len(result.losses))
    assert row["dev.loss"] == result.metrics["dev.loss"] != row["loss"]


@dataclass(frozen=True)
class LateRate(MeanError):
    """Tells only when it has run that its figure has the name of one of the training."""

    def start(self):
        return LateRateSum()


class LateRateSum(ErrorSum):
    def result(self):
        return {"lr": self.total / self.count}


def test_figures_of_the_training_are_its_own_whoever_measures_them():
    train, dev, _ = graphs(LateRate)
    with refused(ConfigError, "what was measured as 'lr' would hide the 'lr' of the training"):
        factory().train(train, epochs=1, evaluate=dev)
    phases = [Phase(loss="loss", name="error")]
    with refused(ConfigError, "gives 'loss.error', which would hide the 'loss.error' of the training"):
        factory().train(train, epochs=1, phases=phases, evaluate=Evaluate(graphs()[1], name="loss"))


@pytest.mark.parametrize("figure", ["abc", None, True])
def test_what_is_measured_is_a_number(figure):
    @on_epoch_end
    def measure(run):
        run.measure({"x": figure})

    with refused(ConfigError, "what was measured as 'x' is no number"):
        factory().train(graphs()[0], epochs=1, callbacks=[measure])


def test_what_follows_a_figure_that_nothing_gives_is_refused_before_the_training():
    train, dev, _ = graphs()
    seen = []
    with refused(ConfigError, "EarlyStop follows 'eror', and no evaluation gives.*did you mean 'error'"):
        factory().train(train, epochs=1, evaluate=dev, callbacks=[EarlyStop("eror")])
    with refused(ConfigError, "Plateau follows 'eror'.*they give dev.error, dev.points"):
        schedule = Plateau(metric="eror")
        factory().train(train, epochs=1, evaluate=Evaluate(dev, name="dev"), schedule=schedule)

    @on_epoch_end
    def measure(run):
        run.measure({"own": 1.0})
        seen.append(run.epoch)

    factory().train(train, epochs=2, callbacks=[measure, EarlyStop("own", patience=1)])
    assert seen == [0, 1]


def test_only_graphs_are_evaluated():
    train, *_ = graphs()
    with refused(ConfigError, "evaluate was given no graphs"):
        factory().evaluate([])
    with refused(ConfigError, "evaluate has 'dev', which is no graph"):
        factory().evaluate("dev")
    with refused(ConfigError, "train: evaluate has 'dev', which is no graph"):
        factory().train(train, epochs=1, evaluate="dev")
