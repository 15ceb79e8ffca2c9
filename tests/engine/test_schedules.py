import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neumo.engine import (
    WSD,
    Constant,
    Cosine,
    CosineRestarts,
    InverseSquareRoot,
    Linear,
    Noam,
    Plateau,
    Polynomial,
    Square,
    SquareRoot,
    Step,
    WarmupHold,
)
from neumo.engine.updates.schedules import SCHEDULES, as_factor
from neumo.types import ConfigError

from .toys import refused

FALLING = [Cosine, Linear, Polynomial, Square, SquareRoot, WarmupHold]


def with_needed(kind):
    """Make a schedule with what it must be told beside its warm-up."""
    needed = {Step: {"every_steps": 50}, CosineRestarts: {"first_steps": 25}, Plateau: {"metric": "wer"}}
    return lambda **given: kind(**needed.get(kind, {}), **given)


EVERY = [pytest.param(with_needed(kind), id=name) for name, kind in SCHEDULES.items()]


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


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("wrong", [{"warmup_steps": -1}, {"warmup_ratio": 1.5}, {"warmup_ratio": -0.1}])
def test_impossible_warm_ups_are_refused(kind, wrong):
    with pytest.raises(ConfigError):
        kind(**wrong)


def test_hold_in_steps_and_ratio_is_refused():
    for kind in [*FALLING, InverseSquareRoot]:
        with pytest.raises(ConfigError, match="the hold is given twice"):
            kind(hold_steps=3, hold_ratio=0.1)


@given(step=st.integers(0, 200), warm=st.integers(0, 50), end=st.floats(0, 1))
def test_shapes_agree_with_their_formulas(step, warm, end):
    total = 100
    progress = min(max(step - warm, 0) / (total - warm), 1.0)
    expected = {
        Linear: 1 - (1 - end) * progress,
        Cosine: end + (1 - end) * (1 + math.cos(math.pi * progress)) / 2,
        Polynomial: end + (1 - end) * (1 - progress) ** 2,
        Square: end + (1 - end) * (1 - progress) ** 2,
        SquareRoot: end + (1 - end) * (1 - progress) ** 0.5,
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


@pytest.mark.parametrize("kind", FALLING)
def test_a_hold_comes_between_warm_up_and_fall(kind):
    plain, held = kind(end=0.2).over(60), kind(end=0.2, warmup_steps=10, hold_ratio=0.3).over(100)
    assert [held(step) for step in range(10, 41)] == [1.0] * 31
    assert [held(step) for step in range(40, 101)] == [plain(step) for step in range(61)]
    assert held(1000) == pytest.approx(0.2)


def test_inverse_square_root_falls_behind_its_hold():
    factor = InverseSquareRoot(warmup_steps=4, hold_steps=5).over(100)
    assert [factor(step) for step in range(3, 9)] == [1.0] * 6
    assert factor(9) == pytest.approx(math.sqrt(9 / 10))
    assert factor(35) == 0.5


@pytest.mark.parametrize(("shape", "half"), [("sqrt", 1 - math.sqrt(0.5)), ("linear", 0.5), ("cosine", 0.5)])
@pytest.mark.parametrize("decay", [{"decay_steps": 20}, {"decay_ratio": 0.2}])
def test_wsd_warms_up_stays_and_decays(shape, half, decay):
    factor = WSD(warmup_steps=10, shape=shape, end=0.1, **decay).over(100)
    assert [factor(step) for step in (4, 9, 10, 50, 80)] == [0.5, 1.0, 1.0, 1.0, 1.0]
    assert factor(90) == pytest.approx(0.1 + 0.9 * half)
    assert factor(100) == factor(500) == pytest.approx(0.1)


def test_wsd_decays_over_a_tenth_by_default_and_never_before_its_warm_up_is_over():
    factor = WSD().over(100)
    assert [factor(89), factor(90)] == [1.0, 1.0]
    assert factor(91) < 1.0
    late = WSD(warmup_steps=50, decay_steps=80, shape="linear").over(100)
    assert [late(49), late(50), late(75), late(100)] == [1.0, 1.0, 0.5, 0.0]


def test_a_stable_part_is_the_same_in_a_longer_training():
    short, long = WSD(warmup_steps=5, decay_steps=10).over(50), WSD(warmup_steps=5, decay_steps=10).over(200)
    assert [short(step) for step in range(40)] == [long(step) for step in range(40)]


def by_torch(make, steps, *, start=1.0):
    """The rates that a scheduler of torch gives, one for each step."""
    import torch

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=start)
    scheduler = make(optimizer, torch.optim.lr_scheduler)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Linear(end=0.25), lambda o, of: of.LinearLR(o, 1.0, 0.25, total_iters=40)),
        (Polynomial(power=3.0), lambda o, of: of.PolynomialLR(o, total_iters=40, power=3.0)),
        (Square(), lambda o, of: of.PolynomialLR(o, total_iters=40, power=2.0)),
        (SquareRoot(), lambda o, of: of.PolynomialLR(o, total_iters=40, power=0.5)),
        (Cosine(end=0.1), lambda o, of: of.CosineAnnealingLR(o, T_max=40, eta_min=0.1)),
        (Step(every_steps=7, gamma=0.3), lambda o, of: of.StepLR(o, 7, 0.3)),
        (Step(at_steps=(5, 6, 30), gamma=0.3), lambda o, of: of.MultiStepLR(o, [5, 6, 30], 0.3)),
        (
            CosineRestarts(first_steps=6, end=0.1),
            lambda o, of: of.CosineAnnealingWarmRestarts(o, 6, 1, 0.1),
        ),
        (CosineRestarts(first_steps=4, growth=2.0), lambda o, of: of.CosineAnnealingWarmRestarts(o, 4, 2)),
        (
            Constant(warmup_steps=8),
            lambda o, of: of.LinearLR(o, 1 / 8, 1.0, total_iters=7),
        ),
    ],
)
def test_rates_are_those_of_torch(ours, theirs):
    factor = ours.over(40)
    assert [factor(step) for step in range(40)] == pytest.approx(by_torch(theirs, 40), abs=1e-12)


def test_restarts_may_be_lower_each_time():
    factor = CosineRestarts(first_steps=10, gamma=0.5, end=0.2, warmup_steps=5).over(100)
    assert [factor(step) for step in (4, 5, 15, 25, 35)] == [1.0, 1.0, 0.5, 0.25, 0.2]
    assert factor(10) == pytest.approx(0.6)


@given(step=st.integers(0, 5000), first=st.integers(1, 50), growth=st.sampled_from([1.0, 1.3, 2.0]))
def test_restarts_stay_between_their_bounds_and_fall_within_a_cycle(step, first, growth):
    factor = CosineRestarts(first_steps=first, growth=growth, end=0.1).over(100)
    assert 0.1 <= factor(step) <= 1.0
    assert factor(step + 1) < factor(step) or factor(step + 1) == 1.0


@pytest.mark.parametrize(
    ("given", "same"),
    [
        (Step(every_epochs=2, gamma=0.5), Step(every_steps=14, gamma=0.5)),
        (Step(at_epochs=(1, 3)), Step(at_steps=(7, 21))),
        (CosineRestarts(first_epochs=3), CosineRestarts(first_steps=21)),
        (Step(every_steps=3), Step(every_steps=3)),
    ],
)
def test_epochs_become_steps_when_their_length_is_known(given, same):
    assert given.in_steps(7) == same
    ours, theirs = as_factor(given, 100, lambda: 7), as_factor(same, 100)
    assert [ours(step) for step in range(100)] == [theirs(step) for step in range(100)]


@pytest.mark.parametrize(
    "schedule", [Step(every_epochs=2), Step(at_epochs=(2,)), CosineRestarts(first_epochs=2)]
)
def test_epochs_of_unknown_length_are_refused(schedule):
    with refused(ConfigError, "epochs=.* needs to know how many steps an epoch has"):
        as_factor(schedule, 100)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Step(), "Step needs one of every_steps, every_epochs.*has none"),
        (lambda: Step(every_steps=3, at_epochs=(2,)), "has every_steps=3 and at_epochs="),
        (lambda: Step(every_steps=0), "every_steps=0 is below 1"),
        (lambda: Step(at_steps=(3, 3)), "does not rise"),
        (lambda: Step(at_steps=(0, 3)), "does not rise"),
        (lambda: Step(every_steps=1, gamma=-1.0), "gamma=-1.0 is below 0"),
        (lambda: CosineRestarts(), "needs one of first_steps, first_epochs"),
        (lambda: CosineRestarts(first_steps=3, growth=0.5), "growth=0.5 is below 1"),
        (lambda: WSD(shape="sqr"), "did you mean 'sqrt'"),
        (lambda: WSD(decay_steps=3, decay_ratio=0.1), "the decay is given twice"),
        (lambda: Cosine(end=-0.1), "end=-0.1 is below 0"),
        (lambda: Polynomial(power=-1.0), "power=-1.0 is below 0"),
        (lambda: Noam(width=0), "width=0 is below 1"),
        (lambda: Plateau(metric="wer", patience=0), "patience=0 is below 1"),
        (lambda: Plateau(metric="wer", gamma=1.0), "gamma=1.0 is not in"),
        (lambda: Plateau(metric="wer", cooldown=-1), "cooldown=-1 is below 0"),
    ],
)
def test_schedules_that_cannot_be_meant_are_refused(make, words):
    with refused(ConfigError, words):
        make()


@pytest.mark.parametrize("wrong", [-0.1, float("nan"), float("inf")])
def test_a_function_that_gives_no_rate_is_refused_at_the_step_where_it_does(wrong):
    factor = as_factor(lambda step: 1.0 if step < 3 else wrong, 10)
    assert factor(2) == 1.0
    with refused(ConfigError, "as the factor of step 3, which is no rate"):
        factor(3)
