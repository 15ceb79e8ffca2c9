import pytest

from neumo.engine import EMA, SGD, Adam, AdamW, NovoGrad
from neumo.types import ConfigError


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (AdamW, {"lr": -1.0}),
        (Adam, {"betas": (0.9, 1.0)}),
        (Adam, {"betas": (0.9,)}),
        (SGD, {"momentum": 1.0}),
        (SGD, {"nesterov": True}),
        (NovoGrad, {"eps": -1e-3}),
        (AdamW, {"weight_decay": float("nan")}),
        (EMA, {"decay": 1.0}),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(kind, wrong):
    with pytest.raises(ConfigError):
        kind(**wrong)


def test_the_decay_of_an_average_grows_to_its_limit():
    ema = EMA(decay=0.9)
    assert [round(ema.decay_at(n), 3) for n in (1, 9, 81, 1000)] == [0.1, 0.5, 0.9, 0.9]
    assert EMA(decay=0.9, warmup=False).decay_at(1) == 0.9
