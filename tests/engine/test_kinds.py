"""Arguments of wrong kinds: each is refused by its name before anything is built or trained."""

import numpy as np
import pytest

import neumo.engine
from neumo.engine import (
    EMA,
    AdamW,
    EarlyStop,
    Evaluate,
    Group,
    Keep,
    LossScale,
    NeuralFactory,
    Phase,
    Ramp,
    ScheduleValue,
    TimeLimit,
    Unfreeze,
)
from neumo.engine.callbacks import Callback
from neumo.engine.loop.options import TrainOptions
from neumo.types import ConfigError

from .toys import Line, PointData, line_graphs, refused


def options(**given):
    return lambda: TrainOptions(epochs=1, **given)


class Listener(Callback):
    pass


def shout(run):
    """Nobody has said when it is called."""


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (options(clip="1"), r"train: clip='1' is not a number or None fix clip=1"),
        (options(clip=True), "clip=True is not a number"),
        (options(batches_per_step=1.5), "batches_per_step=1.5 is not a whole number"),
        (options(batches_per_step=True), "batches_per_step=True is not a whole number"),
        (options(loss_scale="x"), "loss_scale='x' is not a number"),
        (options(ema="a"), "ema='a' is not EMA, a number or None"),
        (options(callbacks=[Listener]), r"which is no callback fix Listener\(\.\.\.\), an object"),
        (options(callbacks=[shout]), "no callback fix put @on_step_end.* above the function shout"),
        (options(callbacks=Listener()), "is not a list"),
        (options(checkpoint="best"), "checkpoint='best' is not Checkpoint, True or False or None"),
        (lambda: TrainOptions(epochs="3"), "epochs='3' is not a whole number or None fix epochs=3"),
        (lambda: AdamW(lr="1e-3"), "AdamW: lr='1e-3' is not a number fix lr=1e-3"),
        (lambda: AdamW(betas=("a", 0.9)), "betas=.* is not a tuple of a number"),
        (lambda: AdamW(lr=float("nan")), "lr=nan is not a number"),
        (lambda: Group("encoder", lr="1"), "Group: lr='1' is not a number"),
        (lambda: EMA(decay="a"), "EMA: decay='a' is not a number"),
        (lambda: LossScale(initial="2"), "LossScale: initial='2' is not a number"),
        (lambda: Phase(loss="d", clip="1"), "a phase: clip='1' is not a number"),
        (lambda: Unfreeze("encoder"), "Unfreeze: at='encoder' is not a dict"),
        (lambda: Unfreeze({"encoder": 1.5}), "is not a whole number"),
        (lambda: TimeLimit(-1), "TimeLimit: minutes=-1 is not above 0"),
        (lambda: EarlyStop("wer", patience="2"), "patience='2' is not a whole number"),
        (lambda: Evaluate(line_graphs()[1], every_steps=1.5), "every_steps=1.5 is not a whole number"),
        (lambda: Ramp(0, "a"), "Ramp: end='a' is not a number"),
        (lambda: Ramp(0, 1, until=-4), "Ramp: until=-4 is not above 0"),
        (lambda: Keep(0.1, until="half"), "Keep: until='half' is not a whole number, a number or None"),
        (lambda: NeuralFactory(seed="a"), "seed='a' is not a whole number"),
        (lambda: NeuralFactory(workers=1.5), "workers=1.5 is not a whole number"),
        (
            lambda: NeuralFactory(strategy="FSDP"),
            r"strategy='FSDP' is not DDP, FSDP or None fix strategy=FSDP\(\)",
        ),
    ],
)
def test_arguments_of_wrong_kinds_are_refused_by_name(make, words):
    with refused(ConfigError, words):
        make()


def test_numbers_of_numpy_are_numbers():
    assert TrainOptions(epochs=np.int64(2), clip=np.float32(0.5)).epochs == 2
    assert AdamW(lr=np.float64(0.1), betas=[0.9, 0.99]).lr == 0.1


def test_no_schedule_changes_the_size_of_a_layer():
    line = Line().named("line")
    graph = line_graphs(PointData(points=8), line)[0]
    for path in ("linear.in_features", "*.out_features"):
        with refused(ConfigError, r"has no number .* its numbers are drop\.p"):
            NeuralFactory(device="cpu", progress=False).train(
                graph, epochs=1, callbacks=[ScheduleValue("line", path, Keep(2))]
            )


def test_all_that_the_engine_offers_comes_with_a_star():
    public = {name for name, value in vars(neumo.engine).items() if isinstance(value, type)}
    assert public <= set(neumo.engine.__all__)
