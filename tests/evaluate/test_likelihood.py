"""Likelihoods with their errors, against spaces on which the truth can be written down."""

import math
from collections.abc import Iterator

import jaxtyping
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tauleap import Observed, ReverseProcess
from tauleap.denoise import Denoiser, ExactDenoiser, NetworkDenoiser, Posterior
from tauleap.evaluate import Estimate, bits_per_dim, exact_law, exact_log_likelihood
from tauleap.evaluate.joint_space import joint_generator, joint_states
from tauleap.noise import (
    Absorbing,
    BirthDeath,
    Constant,
    Dense,
    Exponential,
    ForwardProcess,
    Gaussian,
    LogLinear,
    RankOne,
    Uniform,
)
from tauleap.objective import CompleteElbo, GridTimes, ReweightedTimes, UniformTimes, WeightedTimes
from tauleap.testing.examples import cycle
from tauleap.testing.laws import integrate, random_law
from tauleap.testing.paths import TableDenoiser, every_noise

# Most of the noise comes neither early nor late, so that few times are enough.
SLOW = Exponential(0.05, 300.0)
MIXED = {
    "uniform": Uniform(3, Exponential(0.02, 300.0)),
    "absorbing": Absorbing(4, SLOW, mask=1),
    "rank one": RankOne(torch.tensor([0.5, 0.3, 0.2]), SLOW),
    "birth/death": BirthDeath(3, SLOW),
    "gaussian": Gaussian(3, SLOW, sigma_0=1.0, sigma_r=1.0),
    "cycle": Dense(cycle(3), SLOW),
}


@pytest.fixture(autouse=True)
def one_thread_and_no_checks() -> Iterator[None]:
    """The tensors here are small and the loops long: no second thread to wait for, no checks of types and shapes."""
    checks, threads = jaxtyping.config.jaxtyping_disable, torch.get_num_threads()
    jaxtyping.config.update("jaxtyping_disable", True)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    jaxtyping.config.update("jaxtyping_disable", checks)


class Tempered(Denoiser):
    """The exact posterior to a power: as good as a model that is wrong at all times."""

    def __init__(self, law: Tensor, process: ForwardProcess, power: float) -> None:
        super().__init__()
        self.exact, self.power = ExactDenoiser(law, process), power

    def forward(self, x_t, t, *, observed=None, condition=None):
        return Posterior(self.power * self.exact(x_t, t, observed=observed).logits)


def even_law(process: ForwardProcess, sites: int, seed: int = 0) -> Tensor:
    law = random_law(process.data_states.expand(sites, -1), seed)
    return 0.7 * law + 0.3 * (law > 0) / (law > 0).sum()


def rows_of(law: Tensor, n: int, seed: int = 0) -> Tensor:
    chosen = torch.multinomial(law.reshape(-1), n, replacement=True, generator=torch.Generator().manual_seed(seed))
    return joint_states(law.shape[0], law.ndim)[chosen]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", MIXED)
def test_bits_per_dim_is_the_likelihood_of_one_site(name: str) -> None:
    """D = 1 and the exact posterior: no bound is lost, so the mean is that of -log2 p; within 4 standard errors."""
    process = MIXED[name]
    law = even_law(process, 1)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    data = rows_of(law, 400)
    found = bits_per_dim(reverse, data, samples=8, generator=torch.Generator().manual_seed(0))
    truth = float(-law[data[:, 0]].log2().mean())
    assert found.n == 400
    assert abs(found.value - truth) < 4 * found.stderr
    assert found.stderr < 0.1


def test_each_datapoint_has_its_own_error() -> None:
    """Scores of known truths: mean near 0 and spread at most that of a normal law, the error being rather too large."""
    process = MIXED["rank one"]
    law = even_law(process, 1)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    data = torch.arange(3).repeat(100)[:, None]
    found = bits_per_dim(
        reverse,
        data,
        samples=200,
        times=UniformTimes(0.4),  # before that jumps are rare and dear: 200 draws would not be normal
        per_datapoint=True,
        generator=torch.Generator().manual_seed(0),
    )
    assert found.n == 200
    assert found.value.shape == found.stderr.shape == (300,)
    score = (found.value + law[data[:, 0]].log2()) / found.stderr
    assert abs(float(score.mean())) < 4 * float(score.std()) / 300**0.5
    assert 0.6 < float(score.std()) < 1.15


@pytest.mark.parametrize(
    ("process", "samples"),
    [
        (Absorbing(4, LogLinear()), 16),
        (RankOne(torch.tensor([0.5, 0.3, 0.2]), LogLinear()), 15),
        (Uniform(3, Constant(2.0)), 16),
    ],
    ids=["absorbing", "rank one", "uniform"],
)
def test_errors_of_datapoints_are_not_too_small(process: ForwardProcess, samples: int) -> None:
    """At the usual times, whose first stratum varies most: the claimed error against the spread of 4000 estimates.

    Their ratio is at least 1 but for its own error, which is below 0.015 (from its spread over tenths); 4 of these.
    """
    law = even_law(process, 1)
    found = bits_per_dim(
        ReverseProcess(process, ExactDenoiser(law, process)),
        torch.zeros(4000, 1, dtype=torch.int64),
        samples=samples,
        batch_size=32_000,
        per_datapoint=True,
        generator=torch.Generator().manual_seed(0),
    )
    assert 0.94 < float(found.stderr.square().mean().sqrt() / found.value.std()) < 1.15


def test_stderr_is_that_of_the_mean() -> None:
    """The spread of 60 estimates on fresh data against the errors that they claim."""
    process = MIXED["uniform"]
    law = even_law(process, 2)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    found = [
        bits_per_dim(reverse, rows_of(law, 50, seed), samples=2, generator=torch.Generator().manual_seed(seed))
        for seed in range(60)
    ]
    spread = float(torch.tensor([each.value for each in found]).std())
    claimed = float(torch.tensor([each.stderr for each in found]).square().mean().sqrt())
    assert 0.75 < spread / claimed < 1.33


def test_weighted_times_give_the_same_value_with_less_error() -> None:
    process = RankOne(torch.tensor([0.5, 0.3, 0.2]), Constant(18.0))  # all is over by t = 0.2
    law = even_law(process, 1)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    data = rows_of(law, 300)
    early = WeightedTimes([20.0, 6.0, 2.0] + [0.3] * 17, eps=0.001)
    plain, weighted = (
        bits_per_dim(reverse, data, samples=16, times=times, generator=torch.Generator().manual_seed(0))
        for times in (UniformTimes(0.001), early)
    )
    truth = float(-law[data[:, 0]].log2().mean())
    assert abs(weighted.value - truth) < 4 * weighted.stderr
    assert weighted.stderr < 0.6 * plain.stderr


def test_observed_and_missing_sites_do_not_count() -> None:
    """Bits of the rest given what is observed, over the number of the rest."""
    process = MIXED["rank one"]
    law = even_law(process, 2)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    data = rows_of(law, 400)
    observed = Observed(torch.tensor([True, False]), data)
    found = bits_per_dim(reverse, data, samples=8, observed=observed, generator=torch.Generator().manual_seed(0))
    given = law / law.sum(1, keepdim=True)
    truth = float(-given[data[:, 0], data[:, 1]].log2().mean())
    assert abs(found.value - truth) < 4 * found.stderr

    mask = torch.zeros_like(data, dtype=torch.bool)
    mask[:200, 0] = True
    unknown = data.masked_fill(mask, -1)
    # The same noise once more: what the objective says of the known sites, over their number.
    one = bits_per_dim(
        reverse,
        unknown,
        samples=1,
        times=UniformTimes(),
        missing=mask,
        per_datapoint=True,
        batch_size=400,
        generator=seeded(),
    )
    generator = seeded()
    t, _ = UniformTimes().at(torch.rand(400, dtype=torch.float64, generator=generator))
    objective = CompleteElbo(reconstruction=True)
    nats = objective(reverse, unknown, t=t, missing=mask, generator=generator).value
    assert_close(one.value, nats / (~mask).sum(1) / math.log(2))


def test_every_term_is_in_it() -> None:
    """Noise that is far from mixed, and a large eps, so that no term is small: against their sums by enumeration.

    Within 4 standard errors, and each term is more than 8 of them.
    """
    process, eps = Uniform(3, Constant(0.2)), 0.2
    law = even_law(process, 2)
    reverse = ReverseProcess(process, Tempered(law, process, 0.6))
    points, weights = (torch.tensor(each) for each in np.polynomial.legendre.leggauss(20))
    times = eps + (1 - eps) * (points + 1) / 2
    path, t = every_noise(process, law, times)
    share = path.weight * weights[torch.searchsorted(times, t)] * (1 - eps) / 2
    along = float(share @ reverse.divergence(path.x0, path.x, t).sum(-1))
    first, _ = every_noise(process, law, torch.tensor([eps]))
    last = float(
        first.weight @ -reverse.posterior(first.x, eps).log_probs.gather(-1, first.x0[..., None]).sum((-1, -2))
    )
    kernel = process.kernel_from(torch.zeros(1, 1, dtype=torch.int64), 1.0, dtype=torch.float64)
    prior = 2 * float((kernel * (3 * kernel).log()).sum())  # of two sites, the same from every state
    found = bits_per_dim(reverse, rows_of(law, 2000), samples=8, times=UniformTimes(eps), generator=seeded())
    terms = torch.tensor([prior, along, last]) / (2 * math.log(2))
    assert float(terms.min()) > 8 * found.stderr
    assert abs(found.value - float(terms.sum())) < 4 * found.stderr


def test_the_mean_of_the_datapoints_is_the_value() -> None:
    process = MIXED["uniform"]
    law = even_law(process, 2)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    data = rows_of(law, 30)
    whole, each = (
        bits_per_dim(reverse, data, samples=3, per_datapoint=separate, generator=torch.Generator().manual_seed(0))
        for separate in (False, True)
    )
    assert whole.value == pytest.approx(float(each.value.mean()))
    assert bits_per_dim(reverse, data[:1], samples=1).stderr == math.inf
    assert math.isfinite(bits_per_dim(reverse, data[:1], samples=2).stderr)
    assert bool(bits_per_dim(reverse, data, samples=1, per_datapoint=True).stderr.isinf().all())


def test_batches_conditions_modes_and_progress(capsys: pytest.CaptureFixture[str]) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(3))
            self.drop = nn.Dropout(0.5)
            self.frozen = nn.Dropout(0.5).eval()
            self.seen: list[Tensor] = []

        def forward(self, x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
            assert not self.training
            assert not torch.is_grad_enabled()
            assert len(condition) == len(x) <= 14
            assert torch.equal(condition[: len(x) // 2], condition[len(x) // 2 :])
            self.seen.append(condition)
            return self.weight.expand(*x.shape, 3)

    net = Net()
    reverse = ReverseProcess(Uniform(3, Constant(2.0)), NetworkDenoiser(net))
    data = torch.zeros(5, 4, dtype=torch.int64)
    found = bits_per_dim(
        reverse, data, samples=4, batch_size=7, condition=torch.arange(5), progress=True, per_datapoint=True
    )
    assert found.value.shape == (5,)
    assert [len(each) for each in net.seen] == [14, 14, 12]
    assert torch.equal(net.seen[0][:7], torch.tensor([0, 0, 0, 0, 1, 1, 1]))
    assert net.training
    assert net.drop.training
    assert not net.frozen.training
    assert "bits/dim" in capsys.readouterr().err


def test_a_shared_condition_is_never_taken_for_rows() -> None:
    """8 rows that are no datapoints', in batches of 8: decided once, against the number of datapoints."""
    reverse = ReverseProcess(Uniform(3, Constant(2.0)), TableDenoiser.random(3, 2))
    condition = torch.zeros(8, 3)
    bits_per_dim(reverse, torch.zeros(5, 2, dtype=torch.int64), samples=8, batch_size=8, condition=condition)
    assert reverse.denoiser.seen[3] is condition


def test_the_network_never_sees_everything_at_once() -> None:
    reverse = ReverseProcess(Uniform(3, Constant(2.0)), TableDenoiser.random(3, 2))
    bits_per_dim(reverse, torch.zeros(100, 2, dtype=torch.int64), samples=6)
    assert reverse.denoiser.calls == 3  # 600 draws, 256 at a time


def test_nan_is_not_reported_as_a_value() -> None:
    process = MIXED["uniform"]
    reverse = ReverseProcess(process, Tempered(even_law(process, 2), process, math.nan))
    with pytest.raises(ValueError, match="row 0 is nan: check that the network returns finite logits"):
        bits_per_dim(reverse, torch.zeros(2, 2, dtype=torch.int64))


@pytest.mark.parametrize("name", MIXED)
def test_exact_law_is_the_data_where_the_posterior_is_exact(name: str) -> None:
    """D = 1, where the last draw loses nothing."""
    process = MIXED[name]
    law = even_law(process, 1)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    x = (law > 0).nonzero()
    assert_close(exact_log_likelihood(reverse, x), law[law > 0].log(), rtol=0, atol=2e-5)
    assert_close(exact_law(reverse, (1,)).sum(), torch.ones((), dtype=torch.float64), rtol=0, atol=1e-6)


def test_error_of_the_last_step_for_two_sites() -> None:
    """The sites are drawn on their own at eps, which matters less the smaller eps is."""
    process = MIXED["rank one"]
    law = even_law(process, 2)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    off = [float((exact_law(reverse, (2,), eps=eps) - law).abs().sum()) for eps in (0.02, 0.01, 0.001)]
    assert off[0] > off[1] > off[2]
    assert off[2] < 2e-3


@pytest.mark.parametrize("name", ["uniform", "absorbing", "birth/death", "cycle"])
def test_exact_law_of_a_wrong_model(name: str) -> None:
    """Against matrix exponentials of the joint generator on a fine grid, and the last draw by hand."""
    process = {"uniform": Uniform(3, Constant(0.6)), "birth/death": BirthDeath(3, Constant(2.0))}.get(name, MIXED[name])
    law = even_law(process, 2)
    reverse = ReverseProcess(process, Tempered(law, process, 0.6))
    states = joint_states(process.num_states, 2)

    def generators(times: Tensor) -> Tensor:
        return torch.stack([joint_generator(reverse.rates(states, float(t))) for t in times])

    prior = process.prior().double()
    times = torch.linspace(0, math.log(0.01), 161, dtype=torch.float64).exp()
    at_eps = integrate(generators, torch.outer(prior, prior).reshape(-1), times)[-1]
    probs = reverse.posterior(states, 0.01).probs
    expected = torch.einsum("n,na,nb->ab", at_eps, probs[:, 0], probs[:, 1])
    assert_close(exact_law(reverse, (2,)), expected, rtol=0, atol=1e-6)
    assert (expected - law).abs().sum() > 1e-2


def test_exact_law_under_a_condition() -> None:
    """The condition is the power to which the posterior is taken."""

    class ByCondition(Tempered):
        def forward(self, x_t, t, *, observed=None, condition=None):
            return Posterior(condition.reshape(-1, 1, 1) * self.exact(x_t, t).logits)

    process = MIXED["rank one"]
    law = even_law(process, 2)
    conditional = ReverseProcess(process, ByCondition(law, process, 0.0))
    for power in (0.5, 1.0):
        condition = torch.tensor([[power]], dtype=torch.float64)
        expected = exact_law(ReverseProcess(process, Tempered(law, process, power)), (2,), eps=0.3, tolerance=1e-4)
        assert_close(exact_law(conditional, (2,), eps=0.3, tolerance=1e-4, condition=condition), expected)
        found = exact_log_likelihood(conditional, joint_states(3, 2), eps=0.3, tolerance=1e-4, condition=condition)
        assert_close(found, expected.reshape(-1).log())


def test_spaces_that_are_taken_in_blocks() -> None:
    """17^3 = 4913 states, two blocks; a denoiser that looks at each site alone gives a product of laws of one site."""

    class Alone(Denoiser):
        def __init__(self, law: Tensor, process: ForwardProcess) -> None:
            super().__init__()
            self.exact = ExactDenoiser(law, process)

        def forward(self, x_t, t, *, observed=None, condition=None):
            logits = self.exact(x_t.reshape(-1, 1), t).logits
            return Posterior(0.6 * logits.reshape(*x_t.shape, -1))

    process = Uniform(17, Constant(0.6))
    reverse = ReverseProcess(process, Alone(even_law(process, 1), process))
    one = exact_law(reverse, (1,), eps=0.5, tolerance=1e-6)
    assert float(one.max() / one.min()) > 1.5
    found = exact_law(reverse, (3,), eps=0.5, tolerance=1e-4)
    assert_close(found, torch.einsum("a,b,c->abc", one, one, one), rtol=1e-3, atol=0)


def test_the_equation_is_solved_or_raises() -> None:
    """No endless loop for rates that are not numbers, and no complaint about a last step that is short."""
    process = MIXED["uniform"]
    law = even_law(process, 1)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    with pytest.raises(ValueError, match="the denoiser returns no distribution at t = 1 for 3 of 3 sites"):
        exact_law(ReverseProcess(process, Tempered(law, process, math.nan)), (1,))
    with pytest.raises(ValueError, match="tolerance must be at least 1e-12, got 1e-20"):
        exact_law(reverse, (1,), tolerance=1e-20)
    found = exact_law(reverse, (1,), eps=1 - 1e-11)
    assert_close(found.sum(), torch.ones((), dtype=torch.float64))


@pytest.mark.parametrize("name", ["uniform", "rank one", "gaussian"])
def test_the_bound_is_above_the_exact_value(name: str) -> None:
    """Datapoint by datapoint, and for a model that is wrong beyond 4 standard errors on the whole."""
    process = MIXED[name]
    law = even_law(process, 2)
    reverse = ReverseProcess(process, Tempered(law, process, 0.25))
    x = joint_states(process.num_states, 2)[law.reshape(-1) > 0]
    exact = -exact_log_likelihood(reverse, x) / (2 * math.log(2))
    bound = bits_per_dim(reverse, x, samples=1500, per_datapoint=True, generator=torch.Generator().manual_seed(0))
    assert bool((bound.value > exact - 4 * bound.stderr).all())
    assert float((bound.value - exact).mean()) > 4 * float(bound.stderr.square().mean().sqrt()) / len(x) ** 0.5


def test_estimates() -> None:
    estimate = Estimate.of_mean(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert estimate.value == 2.5
    assert estimate.stderr == pytest.approx(math.sqrt(5 / 3) / 2)
    assert str(Estimate(0.123456, 0.000789, 10)) == "0.12346 +- 0.00079 (n = 10)"
    assert str(Estimate(5.0, math.inf, 1)) == "5.000 +- inf (n = 1)"
    assert str(Estimate(torch.zeros(3), torch.zeros(3), 7)) == "3 estimates from 7 numbers each"
    assert Estimate.of_mean(torch.tensor([2.0])).stderr == math.inf


def test_bad_input() -> None:
    process = MIXED["uniform"]
    reverse = ReverseProcess(process, ExactDenoiser(even_law(process, 2), process))
    data = torch.zeros(3, 2, dtype=torch.int64)
    everything = torch.ones(3, 2, dtype=torch.bool)
    for arguments, message in (
        ({"data": data[:0]}, "with n >= 1"),
        ({"samples": 0}, "samples must be a whole number >= 1"),
        ({"batch_size": 0}, "batch_size must be a whole number >= 1"),
        ({"observed": Observed(everything, data)}, "every value of row 0 is observed or missing"),
        ({"observed": Observed(everything[:2], data[:2])}, "observed must have the shape of data"),
        ({"missing": everything[:, :1]}, "missing must have the shape of data"),
        ({"times": GridTimes(8)}, r"integral over all times .* write times=UniformTimes\(eps\)"),
        ({"times": ReweightedTimes(power=1.5)}, r"does not bound the likelihood: write times=LogUniformTimes\(\)"),
    ):
        with pytest.raises(ValueError, match=message):
            bits_per_dim(reverse, **({"data": data} | arguments))
    for arguments, message in (
        ({"data": data.float()}, "data must be an int64 tensor .* got torch.float32"),
        ({"data": [[0, 1]]}, "data must be an int64 tensor .* got list"),
        ({"reverse": process}, r"bits_per_dim takes a ReverseProcess, got Uniform: write ReverseProcess\("),
        ({"observed": everything}, r"observed must be an Observed\(mask, values\), got Tensor"),
        ({"observed": (everything, data)}, r"observed must be an Observed\(mask, values\), got tuple"),
        ({"missing": [[True, False]] * 3}, "missing must be a bool tensor, .* got list"),
        ({"condition": [1, 2, 3]}, r"condition must be a tensor, got list: write torch.tensor\(condition\)"),
        ({"generator": 3}, "generator must be a torch.Generator, got int"),
        ({"batch_size": None}, "batch_size must be a whole number"),
    ):
        with pytest.raises(TypeError, match=message):
            bits_per_dim(**({"reverse": reverse, "data": data} | arguments))
    with pytest.raises(TypeError, match="exact_log_likelihood takes a ReverseProcess, got Uniform"):
        exact_log_likelihood(process, data)
    with pytest.raises(TypeError, match="exact_law takes a ReverseProcess, got Uniform"):
        exact_law(process, (2,))
    with pytest.raises(TypeError, match=r"the shape of one sample, such as \(2,\) for two sites, got 2"):
        exact_law(reverse, 2)
    with pytest.raises(ValueError, match=r"a batch axis of 1, got shape \(4, 1\): .* condition\[i : i \+ 1\]"):
        exact_law(reverse, (2,), condition=torch.zeros(4, 1))
    with pytest.raises(TypeError, match="condition must be a tensor, got list"):
        exact_law(reverse, (2,), condition=[0.0])
    with pytest.raises(ValueError, match=r"3\^12 states in all, .* use bits_per_dim"):
        exact_log_likelihood(reverse, torch.zeros(1, 3, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match="at least one state"):
        exact_log_likelihood(reverse, data[:, :0])
    with pytest.raises(ValueError, match="eps must be a time"):
        exact_law(reverse, (2,), eps=1.5)
    with pytest.raises(ValueError, match="n >= 1"):
        Estimate.of_mean(torch.zeros(0))


@pytest.mark.parametrize("skewed", [False, True])
def test_intervals_contain_the_mean(skewed: bool) -> None:
    """2,000 means of 40 values: normal ones, and exponential ones, whose symmetric intervals cover less."""
    draws = torch.randn(2000, 40, dtype=torch.float64, generator=seeded())
    if skewed:
        draws = -torch.rand(2000, 40, dtype=torch.float64, generator=seeded()).log()
    truth = float(skewed)
    estimates = [Estimate.of_mean(row) for row in draws]
    covered = [low <= truth <= high for low, high in (each.interval() for each in estimates)]
    assert 0.935 < float(np.mean(covered)) < 0.965
    half = [low <= truth <= high for low, high in (each.interval(0.5) for each in estimates)]
    assert 0.46 < float(np.mean(half)) < 0.54


def test_intervals_of_known_cases() -> None:
    low, high = Estimate(value=1.0, stderr=0.1, n=10).interval()
    assert (low, high) == pytest.approx((1 - 0.2262157, 1 + 0.2262157), abs=1e-6)
    assert Estimate(value=1.0, stderr=math.inf, n=1).interval() == (-math.inf, math.inf)
    of_rows = Estimate(torch.zeros(2), torch.ones(2), 1000).interval(0.95)
    assert_close(of_rows[1], torch.full((2,), 1.962341), atol=1e-4, rtol=0)
    with pytest.raises(ValueError, match=r"confidence must be a probability in \(0, 1\), got 95.0"):
        Estimate(value=1.0, stderr=0.1, n=10).interval(95.0)
    with pytest.raises(ValueError, match=r"confidence must be a probability in \(0, 1\), got '95%'"):
        Estimate(value=1.0, stderr=0.1, n=10).interval("95%")  # pyright: ignore[reportArgumentType]


def test_the_interval_of_bits_per_dim_is_calibrated() -> None:
    """2,000 replicates of 100 rows under uniform noise; with times from U(0.01, 1) the coverage is below 93 %."""
    process = RankOne(torch.full((3,), 1 / 3), LogLinear())
    law = even_law(process, 1)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    truth = float(-(law * law.log2()).sum())
    data = rows_of(law, 200_000)
    found = bits_per_dim(reverse, data, samples=4, batch_size=2**16, per_datapoint=True, generator=seeded())
    covered = [
        low <= truth <= high for low, high in (Estimate.of_mean(row).interval() for row in found.value.view(2000, 100))
    ]
    assert 0.935 < float(np.mean(covered)) < 0.965
