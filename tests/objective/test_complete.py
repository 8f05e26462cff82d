"""The complete bound is -log p(x0) itself where the posterior is exact, state by state."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tauleap import Observed, ReverseProcess
from tauleap.denoise import ExactDenoiser
from tauleap.evaluate.joint_space import joint_states, site_kernels
from tauleap.noise import (
    Absorbing,
    BirthDeath,
    Constant,
    Cosine,
    Dense,
    Exponential,
    ForwardProcess,
    Gaussian,
    LogLinear,
    RankOne,
    Schedule,
    Uniform,
)
from tauleap.objective import CompleteElbo, NoisedBatch, UniformTimes
from tauleap.testing import GivenLogits
from tauleap.testing.examples import cycle
from tauleap.testing.laws import random_law
from tauleap.testing.paths import Path, TableDenoiser, at_paths

EARLIEST = 1e-11


def mixed_processes(size: int, sites: int) -> dict[str, ForwardProcess]:
    """Processes of ``size`` data states that have forgotten everything by time 1."""
    laws = torch.rand(sites, size, dtype=torch.float64, generator=torch.Generator().manual_seed(size)) + 0.2
    laws = laws / laws.sum(-1, keepdim=True)
    return {
        "uniform": Uniform(size, Constant(12.0)),
        "absorbing": Absorbing(size + 1, Constant(30.0), mask=1),
        "rank one": RankOne(laws[0], Exponential(1.0, 40.0)),
        "rank one by site": RankOne(laws, Constant(35.0)),
        "birth/death": BirthDeath(size, Constant(90.0)),
        "gaussian": Gaussian(size, Exponential(10.0, 10.0), sigma_0=1.5, sigma_r=1.0),
        "cycle": Dense(cycle(size), Constant(45.0)),
    }


def even_law(allowed: Tensor, seed: int) -> Tensor:
    """A law whose sites depend on each other and that has no state so rare that its noise begins before EARLIEST."""
    law = random_law(allowed, seed)
    return 0.8 * law + 0.2 * (law > 0) / (law > 0).sum()


def nodes(process: ForwardProcess, count: int) -> tuple[Tensor, Tensor]:
    """Times and weights of Gauss-Legendre quadrature over (EARLIEST, 1) in log c, in which the integrand is smooth."""
    points, weights = np.polynomial.legendre.leggauss(count)
    low, high = (math.log(float(process.schedule.total(t))) for t in (EARLIEST, 1.0))
    c = torch.exp(torch.tensor((high + low) / 2 + (high - low) / 2 * points))
    t = process.schedule.inverse_total(c)
    return t, torch.tensor(weights) * (high - low) / 2 * c / process.schedule.rate(t)


def expected_bounds(reverse: ReverseProcess, x0: Tensor, count: int, known: Tensor | None = None) -> Tensor:
    """CompleteElbo of each row of ``x0``: over the noise by enumeration, over time by quadrature.

    Sites that ``known`` (D,) marks are observed.
    """
    process, sites = reverse.process, x0.shape[1]
    known = torch.zeros(sites, dtype=torch.bool) if known is None else known
    states = joint_states(process.num_states, sites)
    number, column = torch.cartesian_prod(torch.arange(len(x0)), torch.arange(len(states))).unbind(-1)
    keep = ((x0[number] == states[column]) | ~known).all(-1)
    number, column = number[keep], column[keep]
    total = torch.zeros(len(x0), dtype=torch.float64)
    for t, weight in zip(*nodes(process, count), strict=True):
        kernels = site_kernels(process, (sites,), float(t))
        arrival = kernels[torch.arange(sites), x0[number], states[column]]
        probability = torch.where(known, 1.0, arrival).prod(-1)
        row, x = number[probability > 0], states[column[probability > 0]]
        probability = probability[probability > 0]
        observed = Observed(known, x0[row]) if bool(known.any()) else None
        value = at_paths(CompleteElbo(), reverse, Path(probability, x0[row], x, x), float(t), observed=observed)
        prior = torch.where(known, 0.0, process.prior_divergence(x0[row])).sum(-1)
        total.index_add_(0, row, float(weight) * probability * (value - prior) / 0.99)
    return total + torch.where(known, 0.0, process.prior_divergence(x0)).sum(-1)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", mixed_processes(3, 1))
@pytest.mark.parametrize(("sites", "size", "tolerance"), [(1, 4, 1e-6), (1, 6, 1e-6), (2, 5, 1e-4), (3, 3, 1e-4)])
def test_is_the_likelihood_state_by_state(name: str, sites: int, size: int, tolerance: float) -> None:
    process = mixed_processes(size, sites)[name]
    law = even_law(process.data_states.expand(sites, -1), seed=sites + size)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    x0 = joint_states(process.num_states, sites)[law.reshape(-1) > 0]
    found = expected_bounds(reverse, x0, count=(96 if sites == 1 else 56) * (2 if name == "cycle" else 1))
    assert_close(found, -law[law > 0].log(), rtol=0, atol=tolerance)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", mixed_processes(3, 1))
def test_is_the_conditional_likelihood_where_sites_are_observed(name: str) -> None:
    """Appendix C.2: -log p(the rest | what is observed)."""
    process = mixed_processes(3, 3)[name]
    law = even_law(process.data_states.expand(3, -1), seed=0)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    x0 = joint_states(process.num_states, 3)[law.reshape(-1) > 0]
    found = expected_bounds(reverse, x0, count=56, known=torch.tensor([False, True, False]))
    given = law / law.sum((0, 2), keepdim=True)
    assert_close(found, -given[law > 0].log(), rtol=0, atol=1e-4)


@pytest.mark.parametrize("schedule", [LogLinear(), Cosine(), Constant(2.0)], ids=repr)
def test_absorbing_noise_gives_the_weighted_masked_cross_entropy(schedule: Schedule) -> None:
    """-alpha'(t) / (1 - alpha(t)) sum over the masked of -log p(x0) (Sahoo et al. 2024, Shi et al. 2024)."""
    process = Absorbing(5, schedule)
    denoiser = TableDenoiser.random(5, 3)
    reverse = ReverseProcess(process, denoiser)
    t = torch.linspace(0.01, 0.99, 200, dtype=torch.float64).requires_grad_()
    alpha = torch.exp(-schedule.total(t))
    (slope,) = torch.autograd.grad(alpha.sum(), t)
    t, alpha = t.detach(), alpha.detach()
    generator = torch.Generator().manual_seed(0)
    x0 = torch.randint(4, (200, 3), generator=generator)
    draw = NoisedBatch(reverse, x0, UniformTimes(), frozenset({"x_t"}), t=t, generator=generator)
    x = draw.x_t
    logits = denoiser(x, t).logits[..., :4]
    surprise = -logits.log_softmax(-1).gather(-1, x0[..., None]).squeeze(-1)
    expected = -slope / (1 - alpha) * (surprise * (x == 4)).sum(-1)
    loss = CompleteElbo().evaluate(draw)
    assert_close(loss.terms["path"], 0.99 * expected.detach(), rtol=1e-6, atol=1e-6)
    got, reference = (torch.autograd.grad(value.mean(), denoiser.table)[0] for value in (loss.value, 0.99 * expected))
    assert_close(got, reference, rtol=1e-6, atol=1e-9)


def test_path_is_never_negative_and_0_only_for_the_sure() -> None:
    generator = torch.Generator().manual_seed(0)
    for process in mixed_processes(5, 4).values():
        size, data = process.num_states, process.data_states.expand(4, -1)
        x0 = data.double().multinomial(60, replacement=True, generator=generator).mT
        logits = 5 * torch.randn(60, 4, size, generator=generator)
        t = torch.rand(60, dtype=torch.float64, generator=generator).clamp(min=0.01)
        for dtype in (torch.float32, torch.float64):
            loss = CompleteElbo()(ReverseProcess(process, GivenLogits(logits.to(dtype))), x0, t=t, generator=generator)
            assert bool((loss.terms["path"] >= 0).all())
        sure = torch.nn.functional.one_hot(x0, size).double().log()
        loss = CompleteElbo()(ReverseProcess(process, GivenLogits(sure)), x0, t=t, generator=generator)
        assert_close(loss.terms["path"], torch.zeros(60, dtype=torch.float64), rtol=0, atol=1e-9)


def test_reconstruction_is_the_surprise_at_eps() -> None:
    process = Uniform(4, Constant(0.6))
    denoiser = TableDenoiser.random(4, 2)
    x0 = torch.randint(4, (50, 2), generator=torch.Generator().manual_seed(0))
    objective = CompleteElbo(reconstruction=True, times=UniformTimes(0.2))
    generator = torch.Generator().manual_seed(0)
    reverse = ReverseProcess(process, denoiser)
    draw = NoisedBatch(reverse, x0, UniformTimes(0.2), objective.needs, t=0.7, generator=generator)
    loss = objective.evaluate(draw)
    expected = -denoiser(draw.x_eps, 0.2).log_probs.gather(-1, x0[..., None]).sum((-1, -2))
    assert_close(loss.terms["reconstruction"], expected.detach())
    assert_close(loss.value.detach(), sum(loss.terms.values()))
    assert not torch.equal(draw.x_eps, draw.x_t)
    # eps is the earliest time: the share of changed sites is that of q_eps.
    many = NoisedBatch(
        ReverseProcess(process, denoiser), x0.repeat(400, 1), UniformTimes(0.2), objective.needs, generator=generator
    )
    changed = (many.x_eps != many.x0).double().mean()
    expected_share = 0.75 * (1 - math.exp(-4 * 0.6 * 0.2))
    assert abs(float(changed) - expected_share) < 4 * math.sqrt(expected_share * (1 - expected_share) / 40_000)


@pytest.mark.parametrize("name", mixed_processes(3, 1))
def test_prior_term_is_the_divergence_from_the_prior(name: str) -> None:
    process = mixed_processes(4, 2)[name]
    weaker = {"uniform": Uniform(4, Constant(0.2)), "absorbing": Absorbing(4, Constant(0.7), mask=2)}.get(name, process)
    for each in (process, weaker):
        data = each.data_states.expand(2, -1)
        x0 = joint_states(each.num_states, 2)
        x0 = x0[data[torch.arange(2), x0].all(-1)]
        q = each.kernel_from(x0, 1.0, dtype=torch.float64)
        expected = (torch.xlogy(q, q) - torch.xlogy(q, each.prior())).sum(-1)
        assert_close(each.prior_divergence(x0), expected, rtol=1e-9, atol=1e-14)


def test_prior_term_of_a_mask_at_a_finite_time() -> None:
    """At time 1 the share alpha is not masked yet, and the prior spreads it over the data: alpha log(S - 1)."""
    process = Absorbing(6, Constant(1.5), mask=2)
    expected = math.exp(-1.5) * math.log(5)
    assert_close(process.prior_divergence(torch.tensor([[0, 5]])), torch.full((1, 2), expected, dtype=torch.float64))


def test_a_prior_that_lacks_a_state_costs_infinity() -> None:
    """A user's own process may start from the mask alone; then the bound says so, and does not say nan."""

    class FromTheMask(Absorbing):
        def prior(self) -> Tensor:
            return self.stationary()

    found = FromTheMask(3, Constant(1.0)).prior_divergence(torch.tensor([[0, 1]]))
    assert torch.equal(found, torch.full((1, 2), torch.inf, dtype=torch.float64))
