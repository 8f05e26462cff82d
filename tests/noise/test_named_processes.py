"""Each named process is the one that its name promises: generators, laws and kernels worked out independently."""

import math

import mpmath
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tauleap import ReverseProcess
from tauleap.noise import Absorbing, BirthDeath, Constant, Exponential, Gaussian, LogLinear, RankOne, Schedule, Uniform
from tauleap.testing import GivenLogits
from tauleap.testing.examples import PER_SITE
from tauleap.testing.laws import assert_relative


def generator_of_appendix_e(size: int, sigma_0: float, sigma_r: float) -> Tensor:
    """The paper's construction, step by step: top half to the right, bottom half mirrored, the rest by balance."""
    mean = (size - 1) / 2
    p = [math.exp(-((i - mean) ** 2) / (2 * sigma_0**2)) for i in range(size)]
    rates = torch.full((size, size), math.nan, dtype=torch.float64)
    for row in range(size // 2):
        for column in range(row + 1, size - row):
            rates[row, column] = math.exp(-((column - row - 1) ** 2) / sigma_r**2)
            rates[size - 1 - row, size - 1 - column] = rates[row, column]
    for i in range(size):
        for j in range(size):
            if i != j and math.isnan(rates[i, j]):
                rates[i, j] = rates[j, i] * p[j] / p[i]
    rates.fill_diagonal_(0.0)
    return rates - torch.diag(rates.sum(1))


@pytest.mark.parametrize(("size", "sigma_0", "sigma_r"), [(6, 2.0, 1.0), (7, 1.5, 2.0), (32, 8.0, 1.0)])
def test_gaussian_is_the_construction_of_the_paper(size: int, sigma_0: float, sigma_r: float) -> None:
    process = Gaussian(size, Exponential(5.0, 5.0), sigma_0, sigma_r)
    assert_close(process.generator(), generator_of_appendix_e(size, sigma_0, sigma_r), rtol=1e-12, atol=1e-300)
    states = torch.arange(size, dtype=torch.float64)
    law = torch.exp(-((states - (size - 1) / 2) ** 2) / (2 * sigma_0**2))
    assert_close(process.prior(), law / law.sum(), rtol=1e-13, atol=0.0)


def test_uniform_has_the_units_of_the_paper() -> None:
    process = Uniform(5, Constant(0.3))
    assert_close(process.generator(), torch.ones(5, 5).double() - 5 * torch.eye(5).double(), rtol=1e-15, atol=1e-15)
    e = math.exp(-5 * 0.3 * 0.4)
    row = process.kernel_from(torch.tensor([[2]]), 0.4, dtype=torch.float64)[0, 0]
    expected = torch.full((5,), (1 - e) / 5, dtype=torch.float64)
    expected[2] += e
    assert_close(row, expected, rtol=1e-14, atol=0.0)


@pytest.mark.parametrize(("mask", "where"), [(None, 3), (0, 0), (2, 2)])
def test_absorbing_never_unmasks(mask: int | None, where: int) -> None:
    process = Absorbing(4, Constant(1.5), mask=mask)
    data = [state for state in range(4) if state != where]
    x = torch.arange(4)[:, None]
    kernel = process.kernel_from(x, 0.5, dtype=torch.float64)[:, 0]
    expected = torch.zeros(4, 4, dtype=torch.float64)
    for state in data:
        expected[state, state], expected[state, where] = math.exp(-0.75), -math.expm1(-0.75)
    expected[where, where] = 1.0
    assert_close(kernel, expected, rtol=1e-15, atol=0.0)
    assert bool((kernel[expected == 0] == 0).all()), "a zero is a zero"

    prior = torch.full((4,), math.exp(-1.5) / 3, dtype=torch.float64)
    prior[where] = 1 - math.exp(-1.5)
    assert_close(process.prior(), prior, rtol=1e-15, atol=0.0)
    assert process.data_states.tolist() == [state != where for state in range(4)]
    masked = process.noise(torch.full((100, 3), where), 0.7)
    assert bool((masked == where).all())


def bessel_kernel(size: int, mean: float, start: int, end: int) -> float:
    """Birth/death by images: a free walk on the integers, folded at both ends."""
    total = mpmath.mpf(0)
    for turn in range(-4, 5):
        for place in (start - end + 2 * size * turn, start + end + 1 + 2 * size * turn):
            total += mpmath.besseli(abs(place), mean) * mpmath.exp(-mpmath.mpf(mean))
    return float(total)


@pytest.mark.parametrize("t", [1e-4, 1e-2, 0.3, 0.6])
def test_birth_death_of_the_music_experiment(t: float) -> None:
    process = BirthDeath(129, Exponential(0.5, 10_000.0))
    mean = 2 * float(process.schedule.total(t))
    starts = torch.tensor([[0], [1], [64], [128]])
    rows = process.kernel_from(starts, t, dtype=torch.float64)[:, 0]
    with mpmath.workdps(50):
        for row, start in zip(rows, starts[:, 0].tolist(), strict=True):
            ends = [0, 1, 2, 10, 63, 64, 100, 127, 128]
            expected = torch.tensor([bessel_kernel(129, mean, start, end) for end in ends], dtype=torch.float64)
            assert_relative(row[ends], expected, 1e-11, floor=1e-300)


def test_birth_death_once_it_is_mixed() -> None:
    """The cosine series and the Bessel functions meet where one takes over from the other."""
    process = BirthDeath(20, Constant(1.0))
    takes_over = 20**2 / 10 / 2
    below, above = (process.exponential(torch.tensor([takes_over * f], dtype=torch.float64)) for f in (1 - 1e-13, 1))
    assert_relative(below, above, 1e-11)


@pytest.mark.parametrize("schedule", [Constant(2.0), LogLinear()])
def test_sites_with_different_priors_equal_separate_processes(schedule: Schedule) -> None:
    together = RankOne(PER_SITE, schedule)
    x = torch.randint(4, (50, 3), generator=torch.Generator().manual_seed(0))
    logits = torch.randn(50, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    rates = ReverseProcess(together, GivenLogits(logits)).rates(x, 0.4)
    for site in range(3):
        alone = RankOne(PER_SITE[site], schedule)
        expected = ReverseProcess(alone, GivenLogits(logits[:, site])).rates(x[:, site], 0.4)
        assert_close(rates[:, site], expected, rtol=1e-14, atol=0.0)
        assert_close(together.kernel_from(x, 0.4)[:, site], alone.kernel_from(x[:, site], 0.4), rtol=1e-6, atol=0.0)


def test_a_vocabulary_makes_no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """50,257 states: noising and reversal in O(S) a site."""

    def refuse(*_: object) -> Tensor:
        raise AssertionError("an (S, S) matrix was made")

    size = 50_257
    for process in (Uniform(size, Constant(1e-5)), Absorbing(size, LogLinear())):
        for name in ("generator", "exponential", "jump_rates"):
            monkeypatch.setattr(type(process), name, refuse)
        x0 = torch.randint(size - 1, (1, 6), generator=torch.Generator().manual_seed(0))
        x = process.noise(x0, 0.5, generator=torch.Generator().manual_seed(1))
        logits = torch.randn(1, 6, size, generator=torch.Generator().manual_seed(2))
        reverse = ReverseProcess(process, GivenLogits(logits))
        rates = reverse.rates(x, 0.5)
        assert_close(rates.sum(-1), reverse.exit_rate(x, 0.5), rtol=1e-4, atol=0.0)
        moving = reverse.exit_rate(x, 0.5) > 0
        drawn = reverse.at(x, 0.5).draw_destination(moving, generator=torch.Generator().manual_seed(3))
        assert bool((rates[moving].gather(-1, drawn[:, None]) > 0).all())


def test_hybrid_noise_is_mask_and_uniform_noise_together() -> None:
    """Its kernel mixes those of the two, and its posterior excludes the mask."""
    law = torch.tensor([0.1, 0.1, 0.8], dtype=torch.float64)
    hybrid = RankOne(law, LogLinear(), data_states=torch.tensor([True, True, False]))
    x0, t = torch.tensor([[0, 1]]), 0.4
    alpha = math.exp(-float(hybrid.schedule.total(t)))
    expected = torch.full((1, 2, 3), 0.1 * (1 - alpha), dtype=torch.float64)
    expected[..., 2] = 0.8 * (1 - alpha)
    expected[0, 0, 0] += alpha
    expected[0, 1, 1] += alpha
    assert_close(hybrid.kernel_from(x0, t), expected, rtol=1e-14, atol=0.0)
    assert hybrid.data_states.tolist() == [True, True, False]
    assert torch.equal(hybrid.sampling_prior(), law)
    posterior = ReverseProcess(hybrid, GivenLogits(torch.zeros(1, 2, 3))).posterior(torch.tensor([[2, 0]]), t)
    assert_close(posterior.probs, torch.tensor([[[0.5, 0.5, 0.0]] * 2]))
    with pytest.raises(ValueError, match="which data of this process cannot have"):
        hybrid.check_data(torch.tensor([[2]]))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("data_states", "error", "message"),
    [
        (torch.tensor([1, 1, 0]), TypeError, "data_states must be a bool tensor like prior, .*, got torch.int64"),
        ([True, True, False], TypeError, "data_states must be a bool tensor like prior, .*, got list"),
        (torch.tensor([True, False]), ValueError, r"the shape of prior, \(3,\), got \(2,\)"),
        (torch.tensor([False, True, False]), ValueError, "names states of probability 0, .* give them a probability"),
        (torch.tensor([False, False, False]), ValueError, "must name at least one state of every site"),
    ],
)
def test_data_states_that_do_not_fit(data_states: Tensor, error: type[Exception], message: str) -> None:
    prior = torch.tensor([0.5, 0.0, 0.5])
    with pytest.raises(error, match=message):
        RankOne(prior, LogLinear(), data_states=data_states)
