import pytest

from neumo.engine import EMA, LAMB, LARC, SGD, Adafactor, Adam, AdamW, Group, Muon, NovoGrad
from neumo.engine.loop.options import TrainOptions
from neumo.types import ConfigError

from .toys import refused


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (AdamW, {"lr": -1.0}),
        (AdamW, {"lr": float("nan")}),
        (Adam, {"betas": (0.9, 1.0)}),
        (Adam, {"betas": (0.9,)}),
        (SGD, {"momentum": 1.0}),
        (SGD, {"nesterov": True}),
        (NovoGrad, {"eps": -1e-3}),
        (NovoGrad, {"luc": 0.0}),
        (LAMB, {"trust": (2.0, 1.0)}),
        (LAMB, {"trust": (0.0, 0.0)}),
        (LAMB, {"trust": (1.0,)}),
        (Adafactor, {"eps": (None, -1.0)}),
        (Adafactor, {"beta2_decay": 0.8}),
        (Adafactor, {"threshold": 0.5}),
        (Muon, {"momentum": 1.0}),
        (Muon, {"ns_steps": 0}),
        (Muon, {"adjust_lr": "adamw"}),
        (Muon, {"others": "AdamW"}),
        (Muon, {"others": Muon()}),
        (Muon, {"others": AdamW(groups=(Group("head", lr=0.1),))}),
        (AdamW, {"groups": ("encoder",)}),
        (AdamW, {"weight_decay": float("nan")}),
        (EMA, {"decay": 1.0}),
        (LARC, {"trust": 0.0}),
        (LARC, {"eps": -1.0}),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(kind, wrong):
    with pytest.raises(ConfigError):
        kind(**wrong)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"lr": -1.0}, "lr=-1.0 is below 0"),
        ({"lr": 0.1, "lr_scale": 0.1}, "the rate is given twice"),
        ({}, "has no setting of its own"),
    ],
)
def test_groups_that_cannot_be_meant_are_refused(given, words):
    with refused(ConfigError, words):
        Group("encoder", **given)


@pytest.mark.parametrize("nothing", [(), [], (3,)])
def test_a_group_names_something(nothing):
    with refused(ConfigError, "names nothing"):
        Group(nothing, lr=0.1)


def test_groups_may_be_lists_and_one_may_stand_alone():
    one = Group(["encoder", "*.bias"], lr=0.1)
    assert one.patterns == ("encoder", "*.bias")
    assert AdamW(groups=[one]) == AdamW(groups=one) == AdamW(groups=(one,))


@pytest.mark.parametrize("optimizer", [NovoGrad(), LAMB(), Adafactor(), Muon()])
def test_larc_is_refused_where_it_would_do_nothing(optimizer):
    with refused(ConfigError, f"larc does nothing with {type(optimizer).__name__}"):
        TrainOptions(epochs=1, optimizer=optimizer, larc=LARC())


@pytest.mark.parametrize("optimizer", [None, SGD(), Adam(), AdamW()])
def test_larc_goes_with_what_uses_the_size_of_a_gradient(optimizer):
    assert TrainOptions(epochs=1, optimizer=optimizer, larc=LARC(trust=0.1)).larc.trust == 0.1


def test_the_decay_of_an_average_grows_to_its_limit():
    ema = EMA(decay=0.9)
    assert [round(ema.decay_at(n), 3) for n in (1, 9, 81, 1000)] == [0.1, 0.5, 0.9, 0.9]
    assert EMA(decay=0.9, warmup=False).decay_at(1) == 0.9
