"""Schedules: rate, total, its inverse and differences belong together, to the last digits."""

import math

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tauleap.noise import Constant, Cosine, Exponential, LogLinear, Schedule
from tauleap.testing.properties import PROPERTY, TIMES

SCHEDULES = (
    Constant(0.03),
    Constant(7.0),
    Exponential(5.0, 5.0),
    Exponential(3.0, 100.0),
    Exponential(0.5, 10_000.0),
    LogLinear(),
    Cosine(),
)
every = pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)


def exact_total(schedule: Schedule, t: float) -> mpmath.mpf:
    """c(t) from the definition, with as many digits as mpmath is set to."""
    t = mpmath.mpf(t)
    if isinstance(schedule, Constant):
        return mpmath.mpf(schedule.beta) * t
    if isinstance(schedule, Exponential):
        return mpmath.mpf(schedule.a) * (mpmath.mpf(schedule.b) ** t - 1)
    lost = mpmath.mpf(1 - 1e-3)
    return -mpmath.log(1 - lost * (t if isinstance(schedule, LogLinear) else mpmath.sin(mpmath.pi * t / 2)))


@every
@PROPERTY
@given(t=TIMES)
def test_total_is_its_definition(schedule: Schedule, t: float) -> None:
    with mpmath.workdps(400):
        expected = float(exact_total(schedule, t))
    assert_close(float(schedule.total(t)), expected, rtol=4e-13, atol=1e-320)


@every
@PROPERTY
@given(t=TIMES)
def test_rate_is_the_slope_of_total(schedule: Schedule, t: float) -> None:
    with mpmath.workdps(400):
        expected = float(mpmath.diff(lambda u: exact_total(schedule, u), mpmath.mpf(t)))
    assert_close(float(schedule.rate(t)), expected, rtol=4e-13, atol=1e-12)


@every
@PROPERTY
@given(t=TIMES)
def test_total_and_its_inverse(schedule: Schedule, t: float) -> None:
    c = schedule.total(t)
    assert_close(schedule.total(schedule.inverse_total(c)), c, rtol=1e-12, atol=1e-300)
    # The last stretch of the cosine is flat, so c says little of t there.
    flat = isinstance(schedule, Cosine) and t > 0.99
    assert_close(float(schedule.inverse_total(c)), t, rtol=0.0, atol=1e-7 if flat else 1e-13)


@every
def test_the_ends_are_exact(schedule: Schedule) -> None:
    assert float(schedule.total(0.0)) == 0.0
    assert float(schedule.inverse_total(0.0)) == 0.0
    assert_close(float(schedule.inverse_total(schedule.total(1.0))), 1.0, rtol=0.0, atol=2e-16)
    ends = {Constant: lambda s: s.beta, Exponential: lambda s: s.a * (s.b - 1)}
    if type(schedule) in ends:
        assert float(schedule.total(1.0)) == ends[type(schedule)](schedule)
    else:
        assert_close(math.exp(-float(schedule.total(1.0))), 1e-3, rtol=1e-12, atol=0.0)


@every
@PROPERTY
@given(one=TIMES, other=TIMES)
def test_between_is_the_difference(schedule: Schedule, one: float, other: float) -> None:
    s, t = min(one, other), max(one, other)
    with mpmath.workdps(400):
        expected = float(exact_total(schedule, t) - exact_total(schedule, s))
    assert_close(float(schedule.between(s, t)), expected, rtol=4e-13, atol=1e-320)


@every
@PROPERTY
@given(s=st.floats(0.0, 0.999), apart=st.sampled_from([1e-15, 1e-12, 1e-9, 1e-6]))
def test_between_times_that_nearly_meet(schedule: Schedule, s: float, apart: float) -> None:
    """In relative terms: the difference of two totals would have lost its digits."""
    t = s + apart
    with mpmath.workdps(400):
        expected = float(exact_total(schedule, t) - exact_total(schedule, s))
    assert_close(float(schedule.between(s, t)), expected, rtol=4e-13, atol=0.0)
    assert float(schedule.between(s, s)) == 0.0


@every
def test_results_follow_the_argument(schedule: Schedule) -> None:
    wide = torch.linspace(0, 1, 101, dtype=torch.float64)
    narrow = wide.float()
    for answer in (schedule.rate, schedule.total, lambda t: schedule.between(t / 3, t)):
        assert answer(0.5).dtype == torch.float64
        assert answer(wide).dtype == torch.float64
        assert answer(narrow).dtype == torch.float32
        assert answer(narrow).shape == narrow.shape
        # 1 - 0.999 t has lost a thousand roundings by t = 1, and the slope of c is up to 1000 there.
        assert_close(answer(narrow).double(), answer(wide), rtol=2e-4, atol=1e-6)
        assert_close(answer(narrow[:90]).double(), answer(wide[:90]), rtol=4e-6, atol=1e-7)
    assert schedule.inverse_total(schedule.total(narrow)).dtype == torch.float32


@every
def test_the_rate_is_never_negative(schedule: Schedule) -> None:
    for dtype in (torch.float32, torch.float64):
        times = torch.cat([torch.linspace(0, 1, 1001, dtype=dtype), 1 - torch.logspace(-7, -1, 50, dtype=dtype)])
        assert bool((schedule.rate(times) >= 0).all())
        assert bool((schedule.total(times.sort().values).diff() >= 0).all())


def test_repr_of_schedules() -> None:
    assert [repr(schedule) for schedule in SCHEDULES] == [
        "Constant(0.03)",
        "Constant(7)",
        "Exponential(5, 5)",
        "Exponential(3, 100)",
        "Exponential(0.5, 10000)",
        "LogLinear()",
        "Cosine()",
    ]
