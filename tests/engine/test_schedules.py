import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neumo.engine import Constant, Cosine, InverseSquareRoot, Linear, Noam, Polynomial, WarmupHold
from neumo.engine.schedules import as_factor
from neumo.types import ConfigError

EVERY = [Constant, Cosine, Linear, Polynomial, InverseSquareRoot, Noam, WarmupHold]


@pytest.mark.parametrize("kind", EVERY)
def test_warm_up_rises_linearly_and_ends_with_the_last_warm_up_step(kind):
    factor = kind(warmup_steps=10).over(100)
    peak = factor(9)
    for step in range(10):
        assert factor(step) == pytest.approx((step + 1) / 10 * peak)
    assert factor(10) <= peak


@pytest.mark.parametrize("kind", EVERY)
def test_warm_up_ratio_is_the_same_as_its_steps(kind):
    by_ratio, by_steps = kind(warmup_ratio=0.2).over(50), kind(warmup_steps=10).over(50)
    assert [by_ratio(step) for step in range(50)] == [by_steps(step) for step in range(50)]


@pytest.mark.parametrize("kind", EVERY)
def test_steps_and_ratio_exclude_one_another(kind):
    with pytest.raises(ConfigError, match="given twice"):
        kind(warmup_steps=10, warmup_ratio=0.1)


@pytest.mark.parametrize("kind", [*EVERY])
@pytest.mark.parametrize("wrong", [{"warmup_steps": -1}, {"warmup_ratio": 1.5}, {"warmup_ratio": -0.1}])
def test_impossible_warm_ups_are_refused(kind, wrong):
    with pytest.raises(ConfigError):
        kind(**wrong)


def test_hold_in_steps_and_ratio_is_refused():
    with pytest.raises(ConfigError, match="hold is given twice"):
        WarmupHold(hold_steps=3, hold_ratio=0.1)


@given(step=st.integers(0, 200), warm=st.integers(0, 50), end=st.floats(0, 1))
def test_shapes_agree_with_their_formulas(step, warm, end):
    total = 100
    progress = min(max(step - warm, 0) / (total - warm), 1.0)
    expected = {
        Linear: 1 - (1 - end) * progress,
        Cosine: end + (1 - end) * (1 + math.cos(math.pi * progress)) / 2,
        Polynomial: end + (1 - end) * (1 - progress) ** 2,
    }
    for kind, value in expected.items():
        extra = {"power": 2.0} if kind is Polynomial else {}
        factor = kind(warmup_steps=warm, end=end, **extra).over(total)
        assert factor(step) == pytest.approx((step + 1) / warm if step < warm else value)


def test_noam_is_equation_3():
    factor = Noam(width=256, warmup_steps=400).over(10_000)
    for step in (0, 10, 399, 400, 5000):
        n = step + 1
        assert factor(step) == pytest.approx(256**-0.5 * min(n**-0.5, n * 400**-1.5))


def test_inverse_square_root_without_warm_up_starts_at_the_full_rate():
    factor = InverseSquareRoot().over(100)
    assert [factor(0), factor(3)] == [1.0, 0.5]


def test_hold_keeps_the_full_rate_and_then_falls():
    factor = WarmupHold(warmup_ratio=0.1, hold_ratio=0.4, power=2.0, end=0.1).over(100)
    assert [factor(step) for step in (9, 10, 49, 50)] == [1.0] * 4
    assert factor(75) == pytest.approx(0.1 + 0.9 * 0.25)
    assert factor(100) == factor(1000) == pytest.approx(0.1)


def test_a_function_of_the_step_is_a_schedule():
    assert as_factor(lambda step: 1 / (1 + step), 10)(3) == 0.25
    assert as_factor(None, 10)(7) == 1.0


def test_what_is_no_schedule_is_refused():
    with pytest.raises(ConfigError, match="must be a schedule"):
        as_factor("cosine", 10)
