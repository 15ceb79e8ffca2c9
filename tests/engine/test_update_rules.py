"""Every optimizer in whole trainings: it learns, and goes on exactly after it was killed."""

import numpy as np
import pytest
import torch

from neumo.engine import (
    LAMB,
    LARC,
    SGD,
    Adafactor,
    Adam,
    AdamW,
    Callback,
    Checkpoint,
    Cosine,
    Group,
    Muon,
    NeuralFactory,
    NovoGrad,
)
from neumo.types import BackendError, ConfigError, GraphError

from .toys import Line, PointData, line_graphs, refused


class Killed(Exception):
    pass


class KillAt(Callback):
    order = 99

    def __init__(self, step):
        self.step = step

    def on_step_end(self, run):
        if run.step == self.step:
            raise Killed


needs_muon = pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon")
RULES = [
    pytest.param({"optimizer": SGD(lr=0.05, momentum=0.9, weight_decay=0.01)}, id="SGD"),
    pytest.param({"optimizer": SGD(lr=0.2, momentum=0.9), "larc": LARC(trust=0.1)}, id="LARC"),
    pytest.param({"optimizer": Adam(lr=0.05, amsgrad=True)}, id="Adam"),
    pytest.param({"optimizer": AdamW(lr=0.05)}, id="AdamW"),
    pytest.param({"optimizer": NovoGrad(lr=0.05, amsgrad=True, luc=0.1)}, id="NovoGrad"),
    pytest.param({"optimizer": LAMB(lr=0.05)}, id="LAMB"),
    pytest.param({"optimizer": Adafactor(lr=0.1)}, id="Adafactor"),
    pytest.param({"optimizer": Muon(lr=0.1, others=AdamW(lr=0.05))}, id="Muon", marks=needs_muon),
    pytest.param(
        {
            "optimizer": AdamW(
                lr=0.05, groups=(Group("line.norm", lr=0.01), Group("*.bias", lr_scale=2.0, decay_all=True))
            )
        },
        id="groups",
    ),
]


def start(folder=None, *, kill=None, **options):
    train, _ = line_graphs(PointData(points=24, batch_size=4, noise=0.1), Line(norm=True, dropout=0.1))
    factory = NeuralFactory(device="cpu", seed=2, progress=False, folder=folder)
    given = {"schedule": Cosine(warmup_steps=2), "max_steps": 30, "clip": 5.0, **options}
    if folder is not None:
        given["checkpoint"] = Checkpoint(every_steps=3)
    try:
        result = factory.train(train, callbacks=[KillAt(kill)], **given)
    except Killed:
        return None
    return factory.weights(train), result


@pytest.mark.parametrize("options", RULES)
def test_it_goes_on_exactly_and_learns(options, tmp_path):
    whole, result = start(**options)
    assert np.mean(result.losses[-6:]) < np.mean(result.losses[:6])
    assert start(tmp_path, kill=8, **options) is None
    resumed, again = start(tmp_path, **options)
    assert again.resumed_from is not None
    assert all(np.array_equal(whole[name], value) for name, value in resumed.items())
    assert again.losses == result.losses[6:]


def test_larc_bounds_each_step_by_the_size_of_the_weights():
    plain, _ = start(optimizer=SGD(lr=10.0), max_steps=1, schedule=None, clip=None)
    bound, _ = start(optimizer=SGD(lr=10.0), max_steps=1, schedule=None, clip=None, larc=LARC(trust=0.01))
    begin, _ = start(optimizer=SGD(lr=0.0), max_steps=1, schedule=None, clip=None)
    name = "line.linear.weight"
    size = np.linalg.norm(begin[name])
    assert np.linalg.norm(bound[name] - begin[name]) == pytest.approx(0.01 * size, rel=1e-4)
    assert np.linalg.norm(plain[name] - begin[name]) > 0.1 * size


def test_a_group_with_a_rate_of_zero_stays_while_the_rest_trains():
    spec = AdamW(lr=0.05, groups=(Group("line.linear", lr=0.0),))
    end, _ = start(optimizer=spec)
    begin, _ = start(optimizer=SGD(lr=0.0), max_steps=1)
    assert np.array_equal(end["line.linear.weight"], begin["line.linear.weight"])
    assert not np.array_equal(end["line.norm.weight"], begin["line.norm.weight"])


def test_groups_that_name_nothing_are_refused_before_the_training():
    with refused(GraphError, "AdamW: the training has no module 'lien'.*did you mean 'line"):
        start(optimizer=AdamW(groups=(Group("lien.norm", lr=0.1),)))


def test_larc_without_an_optimizer_that_it_suits_is_refused():
    with refused(ConfigError, "larc does nothing with NovoGrad"):
        start(optimizer=NovoGrad(), larc=LARC())


@needs_muon
def test_a_training_goes_on_with_the_same_optimizers_only(tmp_path):
    start(tmp_path, kill=8, optimizer=Muon(others=AdamW()))
    with refused(BackendError, "was trained with Muon and AdamW, not with Muon and SGD"):
        start(tmp_path, optimizer=Muon(others=SGD()))
    with refused(BackendError, "was trained with Muon and AdamW, not with LAMB"):
        start(tmp_path, optimizer=LAMB())
